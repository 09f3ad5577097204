"""The tool `read`."""

# No `from __future__ import annotations`: the SDK makes the tools' schemas from the annotations at run time.

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from kbhub.errors import UsageError
from kbhub.later import known
from kbhub.querylog.recording import note_read
from kbhub.reading import ReadOptions
from kbhub.render import model
from kbhub.reports import ReadResult
from kbhub.tools.calls import Calls, client_name

MAX_REFS = 50
"""Refs that one call reads; an answer has room for a few hundred lines of each."""


class Reading:
    """Opens."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def read(
        self,
        refs: Annotated[
            str | list[str],
            Field(
                description="`path.md`, `base@path.md`, a title or `#docid`; for a part add `:from:count`, `:from-to` "
                "or `#Heading`. Several: `runbooks/*.md`, `{a,b}.md`, a list, or with commas."
            ),
        ],
        context: Context[None, Any],
        line_numbers: Annotated[bool, Field(description="Number the lines.")] = False,
        cursor: Annotated[str | None, Field(description="As the last answer gave it.")] = None,
    ) -> Annotated[CallToolResult, ReadResult]:
        """Read documents, or parts of them, as they are on disk now. Use it to open what `search` or a link names."""
        calls = self._calls
        wanted = refs if isinstance(refs, str) else [ref for ref in refs if ref.strip()]
        if not wanted or (isinstance(wanted, str) and not wanted.strip(" ,")):
            raise UsageError("read needs at least one ref in `refs`; `search` finds refs.")
        if (wanted.count(",") if isinstance(wanted, str) else len(wanted)) > MAX_REFS:
            raise UsageError(f"read opens at most {MAX_REFS} refs at a time; ask for the others in further calls.")
        if not await calls.has_bases():
            return await calls.nothing(ReadResult())
        options = ReadOptions(line_numbers=line_numbers, cursor=cursor)
        result = await calls.run(self._read, wanted, options, client_name(context))
        text = model.read_answer(result, wanted, line_numbers=line_numbers)
        return calls.result(text, result, is_error=not result.readings)

    def _read(self, refs: str | list[str], options: ReadOptions, client: str | None) -> ReadResult:
        hub = self._calls.hub
        result = hub.read(refs, options)
        known.count_read(hub, result)
        note_read(hub, [reading.ref for reading in result.readings], client)
        return result
