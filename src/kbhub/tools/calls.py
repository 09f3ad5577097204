"""What every call needs: the hub off the event loop, the client's roots, fresh indexes, results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio.to_thread import run_sync
from mcp.types import CallToolResult, InputRequiredResult, TextContent

from kbhub.background import Background
from kbhub.errors import KbhubError
from kbhub.later import outside, recording
from kbhub.render import status_answers
from kbhub.render.model import sentences
from kbhub.render.words import warnings_text
from kbhub.roots import RootsQuestion
from kbhub.watch import Watcher
from kbhub.workspace import FROM_ROOTS

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context

    from kbhub.announcing import Announcer
    from kbhub.frozen import Model
    from kbhub.hub import Hub
    from kbhub.types import Problem
    from kbhub.values import Value
    from kbhub.watch import Changes

FRESHEN_SECONDS = 0.5
"""How long a search waits for changed files to be found and indexed; what takes longer serves the next one."""

FIRST_ANSWER_SECONDS = 2.0
"""How long a search waits for the first index of a base: most projects have one by then, and clients wait longer."""

PROGRESS_SECONDS = 0.25
"""Time between two reports of progress."""

STOP_SECONDS = 0.3
"""How long the end of a connection waits for a batch that is being indexed; a process that ends does not need it."""

T = TypeVar("T")


class Calls:
    """The hub as tools use it, and what belongs to one connection with a client: indexing, watching, its roots.

    Args:
        hub: what answers.
        announcer: tells the client what has changed.
        structured: whether results carry structured content beside their text.
    """

    def __init__(self, hub: Hub, announcer: Announcer, *, structured: bool = False) -> None:
        self.hub, self.announcer, self.structured = hub, announcer, structured
        self.start_over()

    def start_over(self) -> None:
        """Make what belongs to one connection."""
        self.background = Background(self.hub, self.announcer.look)
        self.roots = RootsQuestion()
        self.watcher = Watcher(self.hub, self._notice)
        self._begun = self._prepared = False
        self._warned: set[Problem] = set()

    def begin(self, preparation: Callable[[], object] | None = None) -> None:
        """Start indexing and watching, once; not before the handshake is done.

        Args:
            preparation: what is done first, where nobody waits for a call; once, too.
        """
        self.background.called()
        if preparation and not self._prepared:
            self._prepared = True
            self.background.prepare(preparation)
        if not self._begun:
            self._begun = True
            self.background.look()
            self.watcher.start()

    def end(self) -> None:
        """Stop both, and write down what was asked: the process may end without another chance."""
        self.watcher.stop(0)
        self.background.stop(STOP_SECONDS)
        recording.flush()

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Do blocking work on a thread; a call that is cancelled or a server that ends does not wait for it."""
        return await run_sync(work, *arguments, abandon_on_cancel=True)

    async def ask_roots(self, context: Context[None, Any]) -> InputRequiredResult | None:
        """Take the client's roots for the workspace where nothing else names one."""
        workspace = (await self.run(self.hub.discovery)).workspace
        question = self.roots
        known = workspace.directory and not (question.again and workspace.source == FROM_ROOTS)
        if context.protocol_version is None or known or not self.hub.options.ask_roots:
            return None
        answer = await question.ask(context)
        if isinstance(answer, InputRequiredResult):
            return answer
        try:
            if answer:
                await self.run(self.hub.use_roots, answer)
                await self.run(self.announcer.look)
        finally:
            question.settle()
        return None

    async def has_bases(self) -> bool:
        """Say whether any base is active."""
        return bool((await self.run(self.hub.discovery)).bases)

    async def freshen(
        self,
        context: Context[None, Any],
        names: tuple[str, ...] = (),
        *,
        first_index: bool = False,
        max_age: float | None = None,
    ) -> None:
        """Let changed files into the index as far as that is quick.

        Args:
            context: of the call, which is told the progress.
            names: ids of the bases, none for all.
            first_index: whether to wait a little for a base that has no index yet.
            max_age: as in `Hub.freshen`.
        """
        bases: dict[str, bool] | None = None
        with anyio.move_on_after(FRESHEN_SECONDS):
            bases = await self.run(self._compare, names, max_age)
        if bases is None:
            bases = await self.run(self._indexed, names)
        end = anyio.current_time() + (FIRST_ANSWER_SECONDS if first_index else 0)
        reported = -1
        while True:
            done, todo = self.background.progress()
            if todo and done > reported and context.protocol_version is not None:
                reported = done
                await context.report_progress(done, todo, f"Indexing: {done} of {todo} files")
            left = min(end - anyio.current_time(), PROGRESS_SECONDS)
            if self.background.wait_for_first_index(bases, 0) or left <= 0:
                return
            await self.run(self.background.wait_for_first_index, bases, left)

    def result(self, text: str, result: Model | Value, *, is_error: bool = False) -> CallToolResult:
        """Make a tool's result: a text, and what it says as JSON where that is wanted."""
        structured = result.model_dump(mode="json") if self.structured and not is_error else None
        return text_result(text, structured, is_error=is_error)

    async def with_warnings(self, tool: str, result: CallToolResult) -> CallToolResult:
        """Add which fields and variables have no effect, each once: the user does not see the server's log.

        Args:
            tool: what was called; `status` says it in its answer.
            result: its answer.
        """
        try:
            warnings = (await self.run(self.hub.discovery)).warnings
        except KbhubError:  # the configuration cannot be read, as the answer says
            return result
        fresh = [one for one in warnings if one not in self._warned]
        self._warned.update(fresh)
        if not fresh or tool == "status" or not isinstance(result.content[0], TextContent):
            return result
        (note,) = sentences("Note", [warnings_text(fresh)])
        text = TextContent(type="text", text=f"{result.content[0].text}\n{note}")
        structured = result.structured_content
        if structured and isinstance(notes := structured.get("notes"), list):
            structured = {**structured, "notes": [*notes, note.removeprefix("Note: ")]}
        return result.model_copy(update={"content": [text, *result.content[1:]], "structured_content": structured})

    async def nothing(self, empty: Model | Value) -> CallToolResult:
        """Say that no base is active, with an empty result."""
        discovery, notes = await self.run(self.hub.discovery), await self.run(outside.outside, self.hub)
        return self.result(status_answers.nothing_here(discovery, notes), empty)

    def _indexed(self, names: tuple[str, ...]) -> dict[str, bool]:
        """Say of bases, all of them for no names, whether they have an index file."""
        return {base.id: self.hub.index(base).path.exists() for base in self.hub.select(names)}

    def _compare(self, names: tuple[str, ...], max_age: float | None) -> dict[str, bool]:
        """Compare bases with their files as far as that is due, and then say what `_indexed` says."""
        # What the background has in hand need not be compared again, and would only be waited for; nor is waited for
        # a comparison that takes long.
        bases, busy = self.hub.select(names), self.background.busy()
        if names:
            self.background.prefer(base.id for base in bases)
        idle = [base.id for base in bases if base.id not in busy and self.hub.comparing_for(base) < FRESHEN_SECONDS]
        if idle:
            self.background.hand(one for one in self.hub.freshen(idle, max_age=max_age) if not one.busy)
            self.announcer.look()
        return self._indexed(names)

    def _notice(self, changes: Changes | None) -> None:
        """Take up what the watcher saw, on its thread: changed files, or maybe other bases or settings."""
        self.background.look_at(changes or {})
        if changes is None:
            self.announcer.look()


def text_result(text: str, structured: dict[str, Any] | None = None, *, is_error: bool = False) -> CallToolResult:
    """Make a tool's result of a text."""
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structured, is_error=is_error
    )


def client_name(context: Context[None, Any]) -> str | None:
    """Give the name of the client that calls, for what is written down on its word; none if it has not said."""
    if context.protocol_version is None:
        return None
    params = context.session.client_params
    return params.client_info.name if params else None
