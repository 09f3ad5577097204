"""MCP resources: the list in pages, documents, subscriptions, completions."""

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
)

from kbhub.documents.safe_text import TITLE_BYTES, one_line
from kbhub.errors import BaseNotFound, DocumentNotFound, KbhubError, PathNotContained
from kbhub.server.resources.addresses import parse_uri, uri_of
from kbhub.server.resources.documents import (
    COMPLETIONS,
    complete_base,
    complete_path,
    complete_tag,
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
    from kbhub.server.tools.calls import Calls
    from kbhub.types import Base

MAX_SUBSCRIPTIONS = 1_000
"""Most subscriptions of one client of the handshake era; more are refused with an error."""


class Resources:
    """Answers the requests about resources.

    Args:
        calls: shared state of the connection's calls.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def page(self, _context: Any, params: PaginatedRequestParams | None) -> ListResourcesResult:
        """Return a page of documents, and start tracking changes."""
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
        """Return a document, or a request for input from the client.

        Raises:
            ResourceError: there is none, or the configuration is invalid.
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
        """Notify the client of changes to a document from now on; it need not exist yet."""
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
        """Stop notifying the client."""
        self._calls.announcer.subscribed.discard(params.uri)
        return EmptyResult()

    async def complete(self, argument: CompletionArgument, context: CompletionContext | None) -> Completion:
        """Complete an argument of the template."""
        if argument.name == "base":
            return await self.completed(complete_base, argument.value)
        if argument.name != "path":
            return Completion(values=[])
        arguments = (context.arguments if context else None) or {}
        return await self.completed(complete_path, argument.value, arguments.get("base"))

    async def complete_prompt(self, prompt: str, argument: CompletionArgument) -> Completion | None:
        """Complete an argument of a prompt; None if it has no completions."""
        work = {("write_down", "topic"): complete_tag, ("audit_and_mend", "base"): complete_base}.get(
            (prompt, argument.name)
        )
        return await self.completed(work, argument.value) if work else None

    async def completed(self, work: Callable[..., list[str]], *arguments: Any) -> Completion:
        """Return a function's results within the protocol's limit; empty while the configuration is invalid."""
        try:
            values = await self._calls.run(work, self._calls.hub, *arguments)
        except KbhubError:
            values = []
        return Completion(values=values[:COMPLETIONS], has_more=len(values) > COMPLETIONS)


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
    except (OverflowError, ValueError, OSError):  # mtimes can be of any year
        return None
