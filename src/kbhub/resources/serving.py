"""Resources as the protocol wants them: the list in pages, one document, subscriptions, completions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mcp import MCPError
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.types import (
    INVALID_PARAMS,
    Annotations,
    Completion,
    EmptyResult,
    InputRequiredResult,
    ListResourcesResult,
    Resource,
    ResourceTemplate,
)

from kbhub.errors import BaseNotFound, DocumentNotFound, KbhubError, PathNotContained
from kbhub.render.model import TITLE_BYTES, one_line
from kbhub.resources.addresses import TEMPLATE, parse_uri, uri_of
from kbhub.resources.documents import (
    COMPLETIONS,
    complete_base,
    complete_path,
    media_type,
    page_of_documents,
    read_document,
)

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.server.mcpserver import Context
    from mcp.types import (
        CompletionArgument,
        CompletionContext,
        PaginatedRequestParams,
        SubscribeRequestParams,
        UnsubscribeRequestParams,
    )

    from kbhub.index.catalogue import CatalogueEntry
    from kbhub.tools.calls import Calls
    from kbhub.types import Base

MAX_SUBSCRIPTIONS = 1_000
"""Documents that one client of the handshake era hears of; it is told so when it asks for more."""


class Resources:
    """Answers the requests about resources.

    Args:
        calls: what answers need.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def page(self, _context: Any, params: PaginatedRequestParams | None) -> ListResourcesResult:
        """Give a page of documents, and begin to notice what becomes of them."""
        self._calls.begin()
        try:
            await self._calls.run(self._calls.announcer.follow_documents)
            page = await self._calls.run(page_of_documents, self._calls.hub, params.cursor if params else None)
        except KbhubError as error:
            raise MCPError(code=INVALID_PARAMS, message=str(error)) from error
        return ListResourcesResult(
            resources=[_resource(base, entry, ref) for base, entry, ref in page.documents], next_cursor=page.cursor
        )

    async def read(
        self, uri: str, context: Context[None, Any] | None
    ) -> list[ReadResourceContents] | InputRequiredResult:
        """Give a document, or what is to be asked of the client first.

        Raises:
            ResourceError: there is none, or the configuration is wrong.
        """
        self._calls.begin()
        try:
            if context and (needs := await self._calls.ask_roots(context)):
                return needs
            text, found_type = await self._calls.run(read_document, self._calls.hub, uri)
            return [ReadResourceContents(content=text, mime_type=found_type)]
        except (BaseNotFound, DocumentNotFound, PathNotContained) as error:
            raise ResourceNotFoundError(str(error)) from error
        except KbhubError as error:
            raise ResourceError(str(error)) from error

    async def subscribe(self, _context: ServerRequestContext[Any, Any], params: SubscribeRequestParams) -> EmptyResult:
        """Tell the client from now on when a document changes; it need not be there yet."""
        if parse_uri(params.uri) is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Not a kbhub resource: {params.uri}", data={"uri": params.uri})
        announcer = self._calls.announcer
        if len(announcer.subscribed) >= MAX_SUBSCRIPTIONS:
            raise MCPError(code=INVALID_PARAMS, message=f"At most {MAX_SUBSCRIPTIONS} resources can be subscribed to.")
        self._calls.begin()
        announcer.subscribed.add(params.uri)
        await self._calls.run(announcer.follow_documents)
        return EmptyResult()

    async def unsubscribe(
        self, _context: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams
    ) -> EmptyResult:
        """Tell the client no more."""
        self._calls.announcer.subscribed.discard(params.uri)
        return EmptyResult()

    async def complete(self, argument: CompletionArgument, context: CompletionContext | None) -> Completion:
        """Complete an argument of the template."""
        if argument.name == "base":
            return await self.completed(complete_base, argument.value)
        if argument.name != "path":
            return Completion(values=[])
        given = (context.arguments if context else None) or {}
        return await self.completed(complete_path, argument.value, given.get("base"))

    async def completed(self, work: Callable[..., list[str]], *arguments: Any) -> Completion:
        """Give what a function finds, as far as the protocol allows; nothing while the configuration is wrong."""
        try:
            values = await self._calls.run(work, self._calls.hub, *arguments)
        except KbhubError:
            values = []
        return Completion(values=values[:COMPLETIONS], has_more=len(values) > COMPLETIONS)


def template() -> ResourceTemplate:
    """Give the template of all documents' addresses."""
    return ResourceTemplate(
        uri_template=TEMPLATE,
        name="document",
        title="Document",
        description="A document of the knowledge, as it is on disk now: id of its base, and its path there.",
        mime_type="text/markdown",
    )


def _resource(base: Base, entry: CatalogueEntry, ref: str) -> Resource:
    return Resource(
        uri=uri_of(base.id, entry.path),
        name=ref,
        title=one_line(entry.title, TITLE_BYTES),
        mime_type=media_type(base, entry.path),
        size=entry.size,
        annotations=Annotations(last_modified=_moment(entry.mtime_ns)),
    )


def _moment(mtime_ns: int) -> str | None:
    try:
        return datetime.fromtimestamp(mtime_ns / 1e9, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):  # a file may be of any year
        return None
