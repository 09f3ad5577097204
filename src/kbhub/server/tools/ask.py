"""The tool `ask`."""

# No `from __future__ import annotations`: the SDK makes the tools' schemas from the annotations at run time.

from collections.abc import Sequence
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, InputRequiredResult
from pydantic import Field

from kbhub.answers import Answer, AskOptions, Prepared, answer_without_client, counted, prepare
from kbhub.answers.question import FORCED, ModelText, finish_written
from kbhub.render.answers import answer_for_model
from kbhub.server.capabilities import is_stateless, offers_model
from kbhub.server.parameters import Names, Wordings, brief, cleaned
from kbhub.server.tools.calls import Calls, client_name
from kbhub.server.tools.sampling import (
    NO_SAMPLING,
    SAMPLING,
    answer_of_client,
    prepared_before,
    question_for_client,
    sampled,
)
from kbhub.usage.log import USER


class Asking:
    """Answers."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def ask(
        self,
        question: Annotated[str, Field(description="In any language.")],
        context: Context[None, Any],
        queries: Annotated[Wordings, Field(json_schema_extra=brief())] = None,
        bases: Annotated[Names | None, Field(description="Only these, by id.")] = None,
        options: AskOptions | None = None,
    ) -> Annotated[CallToolResult, Answer] | InputRequiredResult:
        """Answer a question from the Markdown knowledge, with sources. Says so if nothing covers it. To write the
        answer yourself, set `options.budget`.
        """
        calls = self._calls
        if before := prepared_before(context):
            return await self._finish(before, answer_of_client(context))
        if not await calls.has_bases():
            return await calls.nothing(Answer(question=question, outcome="not_covered", text="", written_by="none"))
        names = cleaned(bases)
        await calls.freshen(context, names, first_index=True)
        try:
            return await self._asked(context, question, cleaned(queries), names, options)
        finally:
            calls.background.searched()

    async def _asked(
        self,
        context: Context[None, Any],
        question: str,
        queries: tuple[str, ...],
        names: tuple[str, ...],
        options: AskOptions | None,
    ) -> CallToolResult | InputRequiredResult:
        calls = self._calls
        prepared = await calls.run(_prepare, calls, question, queries, names, options, client_name(context) or USER)
        if prepared.outcome or prepared.options.written_by not in (None, "sampling"):
            return await self._without_client(prepared)
        if not offers_model(context):
            return await self._without_client(prepared, [NO_SAMPLING])
        if is_stateless(context):
            return question_for_client(prepared)
        return await self._finish(prepared, await sampled(context, prepared))

    async def _finish(self, prepared: Prepared, written: ModelText | str) -> CallToolResult:
        """Build an answer from what the client's model wrote, or let another model write."""
        if isinstance(written, str):
            return await self._without_client(prepared, [written])
        why = [FORCED if prepared.options.written_by else SAMPLING]
        finished = await self._calls.run(finish_written, prepared, written, why)
        if isinstance(finished, str):
            return await self._without_client(prepared, [f"The client's model was asked, but {finished}."])
        return await self._calls.run(self._told, finished)

    async def _without_client(self, prepared: Prepared, why: Sequence[str] = ()) -> CallToolResult:
        calls = self._calls
        answer = await calls.run(answer_without_client, calls.hub, prepared, why)
        return calls.result(answer_for_model(answer), answer)

    def _told(self, answer: Answer) -> CallToolResult:
        calls = self._calls
        return calls.result(answer_for_model(counted(calls.hub, answer)), answer)


def _prepare(
    calls: Calls,
    question: str,
    queries: tuple[str, ...],
    names: Sequence[str],
    options: AskOptions | None,
    asker: str,
) -> Prepared:
    return prepare(calls.hub, question, queries=queries, bases=names, options=options, asker=asker)
