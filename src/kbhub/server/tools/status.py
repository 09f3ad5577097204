"""The tool `status`."""

# No `from __future__ import annotations`: the SDK builds the tools' schemas from the annotations at run time.

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from kbhub.memory.querylog.summary import summary
from kbhub.reading.reports import Status
from kbhub.reading.status import status as status_of
from kbhub.render import status_answers
from kbhub.search.outside import outside
from kbhub.server.tools.calls import Calls


class Statuses:
    """The tool `status`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def status(
        self,
        context: Context[None, Any],
        reload: Annotated[bool, Field(description="First look anew for configuration, bases and files.")] = False,
    ) -> Annotated[CallToolResult, Status]:
        """List the knowledge bases, their size and state, and what is wrong. Use it when something is not found."""
        calls = self._calls
        if reload:
            await calls.run(calls.hub.rediscover)
            await calls.run(calls.announcer.look)
        await calls.freshen(context, first_index=reload, max_age=0.0 if reload else None)
        status = await calls.run(status_of, calls.hub)
        watched = tuple(base.model_copy(update={"watched": calls.watcher.state(base.base.id)}) for base in status.bases)
        problems = (*status.problems, *calls.background.problems())
        queries = await calls.run(summary, calls.hub)
        notes = await calls.run(outside, calls.hub)
        status = status.model_copy(update={"bases": watched, "problems": problems, "notes": notes, "queries": queries})
        return calls.result(status_answers.status_answer(status), status)
