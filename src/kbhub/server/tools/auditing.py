"""The tool `audit`."""

# No `from __future__ import annotations`: the SDK makes the tools' schemas from the annotations at run time.

from functools import partial
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from kbhub.editing.audit import AuditReport, audit
from kbhub.render.audit import audit_for_model
from kbhub.server.parameters import brief
from kbhub.server.tools.calls import Calls
from kbhub.server.tools.given import Names, cleaned

SHOWN = 50
"""Default number of findings per answer."""


class Auditing:
    """Audits documents."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def audit(
        self,
        context: Context[None, Any],
        bases: Annotated[Names | None, Field(description="Only these, by id.")] = None,
        checks: Annotated[Names | None, Field(description="Only these, as the answer calls them.")] = None,
        limit: Annotated[
            int, Field(ge=1, le=1000, description="Findings listed at most.", json_schema_extra=brief())
        ] = SHOWN,
    ) -> Annotated[CallToolResult, AuditReport]:
        """Find what is wrong in documents, with what to do: broken links and references, duplicates, orphans, stale
        ones, front matter, tags spelt in two ways. Changes nothing.
        """
        calls, chosen = self._calls, cleaned(bases)
        if not await calls.has_bases():
            return await calls.nothing(AuditReport())
        await calls.freshen(context, first_index=True)  # all bases, since links cross them
        report = await calls.run(partial(audit, calls.hub, chosen, checks=cleaned(checks), limit=limit))
        return calls.result(*audit_for_model(report))
