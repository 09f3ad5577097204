"""The tools `related` and `tags`."""

# No `from __future__ import annotations`: the SDK builds the tools' schemas from the annotations at run time.

from functools import partial
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field

from kbhub.reading.graph import EDGE_KINDS, EdgeKind, Related, Tags, related, tags
from kbhub.reading.graph.neighbours import LIMIT as RELATED_LIMIT
from kbhub.reading.graph.neighbours import MOST_HOPS
from kbhub.reading.graph.tags import LIMIT as TAGS_LIMIT
from kbhub.render.graph import related_answer, tags_answer
from kbhub.server.parameters import brief
from kbhub.server.tools.calls import Calls
from kbhub.server.tools.given import Names, as_list, cleaned

Hops = Annotated[int, Field(ge=0, le=MOST_HOPS, description="Links to follow.")]


class Graph:
    """Follows links and tags."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def related(
        self,
        ref: Annotated[str, Field(description="One document, named as for `read`.")],
        context: Context[None, Any],
        hops: Hops = 1,
        kinds: Annotated[
            list[EdgeKind] | None,
            BeforeValidator(as_list),
            Field(description="Only what is joined in these ways.", json_schema_extra=brief()),
        ] = None,
        limit: Annotated[int, Field(ge=1, le=100, description="Of each kind.")] = RELATED_LIMIT,
    ) -> Annotated[CallToolResult, Related]:
        """Show what a document is joined to by links, backlinks, `related` of its front matter, tags and meaning; and
        its broken links.
        """
        calls = self._calls
        await calls.freshen(context, first_index=True)
        result = await calls.run(
            partial(related, calls.hub, ref, hops=hops, kinds=kinds or EDGE_KINDS, limit=limit),
        )
        return calls.result(*related_answer(result))

    async def tags(
        self,
        context: Context[None, Any],
        names: Annotated[Names | None, Field(description="Any of these tags; none lists all tags.")] = None,
        bases: Annotated[Names | None, Field(description="Only these, by id.")] = None,
        hops: Hops = 1,
        limit: Annotated[
            int, Field(ge=1, description="Tags or documents listed at most.", json_schema_extra=brief())
        ] = TAGS_LIMIT,
        everything: Annotated[bool, Field(description="Leave nothing out.")] = False,
    ) -> Annotated[CallToolResult, Tags]:
        """List all tags with counts or, of `names`, all documents that have them and what those link to: all about a
        subject.
        """
        calls, chosen = self._calls, cleaned(bases)
        if not await calls.has_bases():
            return await calls.nothing(Tags())
        await calls.freshen(context, chosen, first_index=True)
        cleaned_names = cleaned(names)
        result = await calls.run(
            partial(tags, calls.hub, cleaned_names, bases=chosen, hops=hops, limit=limit, everything=everything)
        )
        return calls.result(*tags_answer(result, whole=everything))
