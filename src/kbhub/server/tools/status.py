"""The tools `status` and `audit`."""

from functools import partial
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from kbhub.editing.audit import AuditReport, audit
from kbhub.reading.lists import status as status_of
from kbhub.reading.reports import Status
from kbhub.render import status_answers
from kbhub.render.audit import audit_for_model
from kbhub.search.base_suggestions import outside
from kbhub.server.parameters import Names, brief, cleaned
from kbhub.server.tools.calls import Calls
from kbhub.usage.gaps import summary

SHOWN = 50
"""Default number of findings per answer."""


class Statuses:
    """The tool `status`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def status(
        self,
        context: Context[None, Any],
        reload: Annotated[bool, Field(description="First reload configuration, bases and files.")] = False,
    ) -> Annotated[CallToolResult, Status]:
        """List the knowledge bases with their size and state, and any problems. Use it when something is not found."""
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


class AuditTool:
    """Audits documents."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def audit(
        self,
        context: Context[None, Any],
        bases: Annotated[Names | None, Field(description="Only these, by id.")] = None,
        checks: Annotated[Names | None, Field(description="Only these, as named in the answer.")] = None,
        limit: Annotated[
            int, Field(ge=1, le=1000, description="Maximum number of findings.", json_schema_extra=brief())
        ] = SHOWN,
    ) -> Annotated[CallToolResult, AuditReport]:
        """Find problems in documents and how to fix them: broken links and references, duplicates, orphans, stale
        documents, front matter, inconsistent tags. Changes nothing.
        """
        calls, chosen = self._calls, cleaned(bases)
        if not await calls.has_bases():
            return await calls.nothing(AuditReport())
        reported = await calls.freshen(context, first_index=True)  # all bases, since links cross them
        progress = calls.progress(context, "Checking", reported)
        report = await calls.run(
            partial(audit, calls.hub, chosen, checks=cleaned(checks), limit=limit, progress=progress)
        )
        return calls.result(*audit_for_model(report))
