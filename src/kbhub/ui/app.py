"""The routes of the page, and its answers to errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from kbhub.errors import (
    BaseNotFound,
    DocumentChanged,
    DocumentNotFound,
    KbhubError,
    MemoryNotFound,
    PathNotContained,
    SecretFound,
    UsageError,
    WriteRefused,
)
from kbhub.render.html.templates import STATIC
from kbhub.ui import ask, documents, gaps, graph, health, memories, search
from kbhub.ui.site import Site, site_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from kbhub.hub import Hub

STATIC_SECONDS = 3600
"""Age to which scripts and styles are kept by the browser; their addresses have the version."""

STATUSES: Mapping[type[KbhubError], int] = {
    UsageError: 400,
    BaseNotFound: 404,
    DocumentNotFound: 404,
    MemoryNotFound: 404,
    PathNotContained: 404,
    WriteRefused: 403,
    SecretFound: 400,
    DocumentChanged: 409,
}
"""Kind of error → status of HTTP; 503 for others, which say what is not available."""

ROUTES = (
    Route("/", search.search_page),
    Route("/compare", search.compare_page),
    Route("/documents", documents.documents_page),
    Route("/read", documents.document_page),
    Route("/image", documents.image),
    Route("/graph", graph.graph_page),
    Route("/graph/data", graph.graph_data),
    Route("/memories", memories.memories_page),
    Route("/memories/one", memories.memory_page),
    Route("/memories/merge", memories.merge_page),
    Route("/memories/change", memories.change, methods=["POST"]),
    Route("/gaps", gaps.gaps_page),
    Route("/gaps/close", gaps.close, methods=["POST"]),
    Route("/gaps/start", gaps.start_document, methods=["POST"]),
    Route("/health", health.health_page),
    Route("/health/audit", health.audit_part),
    Route("/health/index", health.index, methods=["POST"]),
    Route("/health/repair", health.repaired, methods=["POST"]),
    Route("/health/fix", health.fix, methods=["POST"]),
    Route("/events", health.events),
    Route("/ask", ask.ask_page),
    Route("/ask/stream", ask.stream),
)


class StaticParts(StaticFiles):
    """Scripts, styles and icons, kept by the browser for a while."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """Return a file."""
        response = super().file_response(*arguments, **options)
        response.headers["Cache-Control"] = f"max-age={STATIC_SECONDS}"
        return response


def create_app(hub: Hub) -> Starlette:
    """Create the application that shows a hub."""
    app = Starlette(
        routes=[*ROUTES, Mount("/static", StaticParts(directory=STATIC))],
        exception_handlers={KbhubError: _at_fault, HTTPException: _refused},
    )
    app.state.site = Site(hub)
    return app


def _at_fault(request: Request, error: Exception) -> Response:
    assert isinstance(error, KbhubError)
    status = next((code for kind, code in STATUSES.items() if isinstance(error, kind)), 503)
    return site_of(request).fault(request, error, status)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"No page {request.url.path}." if error.status_code == 404 else f"{error.detail}."
    answer = site_of(request).fault(request, KbhubError(message), error.status_code)
    answer.headers.update(error.headers or {})
    return answer
