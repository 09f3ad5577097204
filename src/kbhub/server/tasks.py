"""Tasks (SEP-2663): a call that waits for a first index is answered at once, and its result is fetched later.

The server decides what becomes a task: here, calls that would otherwise answer from a part of the bases.
"""

from __future__ import annotations

import logging
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import anyio
from mcp import MCPError
from mcp.server.extension import Extension, MethodBinding
from mcp.types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    RequestParams,
)
from pydantic import Field, ValidationError

from kbhub.server.capabilities import STATELESS_SINCE, has_extension

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from anyio.abc import TaskGroup
    from mcp.server import ServerRequestContext
    from mcp.server.context import CallNext, HandlerResult
    from mcp.server.extension import RequestHandler

    Run = Callable[
        [ServerRequestContext[Any, Any], CallToolRequestParams], Awaitable[CallToolResult | InputRequiredResult]
    ]
    Waits = Callable[[CallToolRequestParams, float], Awaitable[str | None]]

log = logging.getLogger(__name__)

IDENTIFIER = "io.modelcontextprotocol/tasks"

AT_ONCE_SECONDS = 2.0
"""How long a call is awaited before it becomes a task: enough for the first index of most projects."""

LOOK_SECONDS = 1.0
"""Interval in which a task looks whether it can go on."""

KEPT = timedelta(hours=1)
"""How long a task can be asked for."""

POLL_MILLISECONDS = 1000

MOST_TASKS = 100
"""Tasks kept at a time; beyond that, calls wait as they do for clients without tasks."""

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]


class TaskParams(RequestParams):
    """Names a task."""

    task_id: str


class UpdateParams(TaskParams):
    """Answers what a task asked."""

    input_responses: dict[str, Any] = Field(default_factory=dict)


@dataclass
class Task:
    """A call that goes on."""

    id: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    status: Status = "working"
    message: str = ""
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    updated: datetime = field(default_factory=lambda: datetime.now(UTC))
    outcome: dict[str, Any] = field(default_factory=dict)
    """`result` or `error` of a call that ended, `inputRequests` of one that asks."""
    responses: dict[str, Any] = field(default_factory=dict)
    """What the client answered in this round."""
    answered: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def become(self, status: Status, **outcome: Any) -> None:
        """Change the state; one that ended stays as it is."""
        if self.status in ("working", "input_required"):
            self.status, self.outcome, self.updated = status, outcome, datetime.now(UTC)

    def wire(self) -> dict[str, Any]:
        """Return the fields that every answer about the task has."""
        said = {"statusMessage": self.message} if self.message and self.status == "working" else {}
        return {
            "taskId": self.id,
            "status": self.status,
            **said,
            "createdAt": self.created.isoformat(),
            "lastUpdatedAt": self.updated.isoformat(),
            "ttlMs": int(KEPT.total_seconds() * 1000),
            "pollIntervalMs": POLL_MILLISECONDS,
        }


class Tasks(Extension):
    """Turns calls that must wait into tasks, for clients that declare the extension.

    `run` runs a call. `waits` waits up to some seconds for what a call needs, and returns what is still going on, or
    None.
    """

    identifier = IDENTIFIER

    def __init__(self, run: Run, waits: Waits) -> None:
        self._run, self._waits = run, waits
        self._tasks: dict[str, Task] = {}
        self._group: TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let tasks run meanwhile; afterwards they end."""
        async with anyio.create_task_group() as self._group:
            try:
                yield
            finally:
                self._group.cancel_scope.cancel()
                self._group = None
                self._tasks.clear()

    def methods(self) -> Sequence[MethodBinding]:
        """Return the extension's methods."""
        versions = frozenset({STATELESS_SINCE})
        return (
            MethodBinding("tasks/get", TaskParams, self._of_task(self._get), versions),
            MethodBinding("tasks/update", UpdateParams, self._of_task(self._update), versions),
            MethodBinding("tasks/cancel", TaskParams, self._of_task(self._cancel), versions),
        )

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Run a call, or make a task of it."""
        if not has_extension(ctx, IDENTIFIER) or self._group is None or not self._has_room():
            return await call_next(ctx)
        message = await self._waits(params, AT_ONCE_SECONDS)
        if message is None:
            return await call_next(ctx)
        task = Task(message=message)
        self._tasks[task.id] = task
        self._group.start_soon(self._work, task, params, ctx)
        return {"resultType": "task", **task.wire()}

    def _has_room(self) -> bool:
        """Drop expired tasks; return whether there is room for another."""
        now = datetime.now(UTC)
        self._tasks = {name: task for name, task in self._tasks.items() if now - task.created < KEPT}
        return len(self._tasks) < MOST_TASKS

    async def _work(self, task: Task, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any]) -> None:
        # The request has its answer, so nobody takes progress of it.
        ctx = replace(ctx, meta=None)
        with task.scope:
            try:
                while message := await self._waits(params, LOOK_SECONDS):
                    task.message, task.updated = message, datetime.now(UTC)
                while isinstance(result := await self._run(ctx, params), InputRequiredResult):
                    params = await self._answers(task, params, result)
                task.become("completed", result=_dumped(result))
            except MCPError as error:
                task.become("failed", error=error.error.model_dump(mode="json", exclude_none=True))
            except Exception:  # BLE001: one task must not end the connection
                log.exception("A task failed.")
                task.become("failed", error={"code": INTERNAL_ERROR, "message": "Internal error"})
        if task.scope.cancelled_caught:
            task.become("cancelled")

    async def _answers(
        self, task: Task, params: CallToolRequestParams, result: InputRequiredResult
    ) -> CallToolRequestParams:
        """Wait until the client answered all that a call asks; return the call's parameters with the answers."""
        task.responses, task.answered = {}, anyio.Event()
        task.become("input_required", inputRequests=_dumped(result).get("inputRequests", {}))
        await task.answered.wait()
        return params.model_copy(update={"input_responses": task.responses, "request_state": result.request_state})

    def _of_task(self, answer: Callable[[Task, Any], dict[str, Any]]) -> RequestHandler:
        async def handle(ctx: ServerRequestContext[Any, Any], params: Any) -> dict[str, Any]:
            if not has_extension(ctx, IDENTIFIER):
                needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {IDENTIFIER: {}}}}
                raise MCPError(
                    code=MISSING_REQUIRED_CLIENT_CAPABILITY, message=f"Declare the extension {IDENTIFIER}.", data=needed
                )
            named = getattr(ctx.request, "headers", {}).get("mcp-name", params.task_id)
            if named != params.task_id:
                raise MCPError(code=HEADER_MISMATCH, message="The header Mcp-Name does not match `taskId`.")
            self._has_room()
            if (task := self._tasks.get(params.task_id)) is None:
                raise MCPError(code=INVALID_PARAMS, message="No such task. Tasks are kept for an hour.")
            return {"resultType": "complete", **answer(task, params)}

        return handle

    def _get(self, task: Task, _params: TaskParams) -> dict[str, Any]:
        return {**task.wire(), **task.outcome}

    def _update(self, task: Task, params: UpdateParams) -> dict[str, Any]:
        if task.status != "input_required":
            return {}
        requests = task.outcome["inputRequests"]
        try:
            given = CallToolRequestParams.model_validate(
                {
                    "name": "",
                    "inputResponses": {key: one for key, one in params.input_responses.items() if key in requests},
                }
            ).input_responses
        except ValidationError as error:
            raise MCPError(code=INVALID_PARAMS, message="`inputResponses` do not match the requests.") from error
        task.responses |= given or {}
        left = {key: request for key, request in requests.items() if key not in task.responses}
        task.become("input_required" if left else "working", **({"inputRequests": left} if left else {}))
        if not left:
            task.answered.set()
        return {}

    def _cancel(self, task: Task, _params: TaskParams) -> dict[str, Any]:
        task.scope.cancel()
        task.become("cancelled")
        return {}


def _dumped(result: CallToolResult | InputRequiredResult) -> dict[str, Any]:
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)
