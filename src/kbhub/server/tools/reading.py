"""The tool `read`."""

# No `from __future__ import annotations`: the SDK builds the tools' schemas from the annotations at run time.

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from kbhub.errors import UsageError
from kbhub.memory import known
from kbhub.memory.querylog.recording import note_read
from kbhub.reading.reading import ReadOptions, by_index
from kbhub.reading.reading import read as read_refs
from kbhub.reading.reports import ReadResult
from kbhub.render import model
from kbhub.server.tools.calls import Calls, client_name

MAX_REFS = 50
"""Most refs per call; an answer has room for a few hundred lines of each."""


class Reading:
    """The tool `read`."""

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
        listed = [ref for ref in ([refs] if isinstance(refs, str) else refs) if ref.strip(" ,")]
        if not listed:
            raise UsageError("read needs at least one ref in `refs`; `search` finds refs.")
        if sum(ref.count(",") for ref in listed) + len(listed) > MAX_REFS:
            raise UsageError(f"read opens at most {MAX_REFS} refs at a time; ask for the others in further calls.")
        if not await calls.has_bases():
            return await calls.nothing(ReadResult())
        options = ReadOptions(line_numbers=line_numbers, cursor=cursor)
        wanted = refs if isinstance(refs, str) else listed
        result = await calls.run(read_refs, calls.hub, wanted, options)
        if by_index(wanted, result):
            await calls.freshen(context, first_index=True)
            result = await calls.run(read_refs, calls.hub, wanted, options)
        await calls.run(self._note, result, client_name(context))
        text = model.read_answer(result, wanted, line_numbers=line_numbers)
        return calls.result(text, result, is_error=not result.readings)

    def _note(self, result: ReadResult, client: str | None) -> None:
        known.count_read(self._calls.hub, result)
        note_read(self._calls.hub, [reading.ref for reading in result.readings], client)
