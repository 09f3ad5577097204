"""What every call needs: the hub off the event loop, the client's roots, fresh indexes, results."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio import from_thread
from anyio.to_thread import run_sync
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, InputRequiredResult, TextContent

from kbhub.documents.shown_text import one_line
from kbhub.errors import KbhubError
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.render.bases import nothing_here
from kbhub.render.report import ANSWER_BYTES, LINE_BYTES, Report, model_answer
from kbhub.render.terminal import warnings_text
from kbhub.server.client import Announcer, RootsQuestion, ServerExtension, confirm
from kbhub.sync import base_suggestions
from kbhub.sync.background import Background, embed_ahead
from kbhub.sync.comparison import Progress
from kbhub.sync.freshness import FIRST_INDEX_SECONDS, Patience, comparing_for, first_indexes, freshen, is_in_step
from kbhub.sync.watch import Changes, Watcher
from kbhub.types import Discovery, Problem
from kbhub.usage import log
from kbhub.usage.gaps import maintain
from kbhub.usage.log import LogSession
from kbhub.values import Value
from kbhub.workspace.config import LoadedConfig
from kbhub.workspace.discovery import FROM_ROOTS

FRESHEN_SECONDS = 0.5
"""How long a search waits for changed files to be indexed; what takes longer serves the next one."""

FIRST_ANSWER_SECONDS = 2.0
"""How long a search still waits for a first index if those before it have waited for `FIRST_INDEX_SECONDS`."""

SHOWN_BYTES = 300
"""Most UTF-8 bytes shown of a path; one from a repository may be as long as it likes."""

PROGRESS_SECONDS = 0.25

STOP_SECONDS = 0.3
"""How long the end of a connection waits for a batch being indexed; a process that exits need not wait."""

T = TypeVar("T")


class Calls:
    """The hub as tools use it, and the state of one connection with a client: indexing, watching, its roots."""

    def __init__(
        self, hub: Hub, announcer: Announcer, added: Sequence[ServerExtension], *, structured: bool = False
    ) -> None:
        self.hub, self.announcer, self.added, self.structured = hub, announcer, added, structured
        self.start_over()

    def start_over(self) -> None:
        """Reset the state of the connection."""
        hub = self.hub
        self.background = Background(
            hub,
            self.announcer.look,
            lambda every, most: maintain(hub, at_most_every=every, seconds=most).ran,
            lambda go_on: hub.transformer() is None or embed_ahead(hub, hub.discovery().bases, go_on),
        )
        self.roots = RootsQuestion()
        self._asked_to_trust: tuple[Path, Path] | None = None
        self.watcher = Watcher(self.hub, self._notice)
        self._begun = False
        self._warned: set[Problem] = set()
        self._waited = 0.0
        """Seconds waited for first indexes."""
        # Over HTTP connections cannot be told apart.
        self.hub.state(LogSession).name = secrets.token_hex(8) if self.hub.options.ask_roots else ""

    def begin(self) -> None:
        """Start indexing and watching, once; not before the handshake is done."""
        self.background.called()
        if not self._begun:
            self._begun = True
            self.background.look()
            self.watcher.start()

    def end(self) -> None:
        """Stop both, and flush the query log, because the process may end right afterwards."""
        self.watcher.stop(0)
        self.background.stop(STOP_SECONDS)
        log.flush()

    async def run(self, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Run blocking work on a thread; a cancelled call or an ending server does not wait for it."""
        return await run_sync(partial(work, *arguments, **named), abandon_on_cancel=True)

    def progress(self, context: Context[None, Any], verb: str, reported: int) -> Progress | None:
        """Return what work on a thread reports its progress to; it increases from what was `reported` before."""
        if context.protocol_version is None:
            return None
        due, last = 0.0, reported

        def tell(what: str, done: int, todo: int) -> None:
            nonlocal due, last
            if (now := time.monotonic()) >= due and reported + done > last:
                due, last = now + PROGRESS_SECONDS, reported + done
                from_thread.run(context.report_progress, last, reported + todo, f"{verb} {what}")

        return tell

    async def state(self) -> tuple[LoadedConfig, Discovery]:
        """Return the config in force and the active bases; changes threads only where they must be looked for again."""
        recent = self.hub.recent()
        return recent if recent else await self.run(self.hub.current)

    async def ask_roots(self, context: Context[None, Any]) -> InputRequiredResult | None:
        """Use the client's roots as the workspace if nothing else determines it."""
        workspace = (await self.state())[1].workspace
        question = self.roots
        settled = workspace.directory and not (question.again and workspace.source == FROM_ROOTS)
        if context.protocol_version is None or settled or not self.hub.options.ask_roots:
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

    async def ask_trust(self, context: Context[None, Any]) -> InputRequiredResult | None:
        """Ask whether the project's pointer may lead out of it: once a connection, and never after a no."""
        if (wanted := (await self.state())[1].untrusted) is None:
            return None
        # The answer comes with the question's state, and is of no use for another pointer or place.
        key = f"trust {wanted[0]} {wanted[1]}"
        if wanted != self._asked_to_trust or context.request_state == key:
            self._asked_to_trust = wanted
            pointer, target = (one_line(str(path), SHOWN_BYTES) for path in wanted)
            question = (
                f"{pointer}, which came with the project, says that the project's knowledge is in {target}, outside "
                "the project. Allow kbhub to read and index that folder? Only allow it if you know the folder."
            )
            reply = await confirm(context, key, question)
            if isinstance(reply, InputRequiredResult):
                return reply
            if reply in ("accept", "decline"):

                def keep() -> None:
                    # What was shown is allowed, not what the pointer says by now.
                    self.hub.trust.add(*wanted, use="knowledge" if reply == "accept" else "refused")
                    self.hub.rediscover()

                await run_sync(keep)
        await self.run(self.announcer.look)
        return None

    async def freshen(
        self,
        context: Context[None, Any],
        names: tuple[str, ...] = (),
        *,
        first_index: bool = False,
        max_age: float | None = None,
    ) -> int:
        """Index changed files, as far as that is quick, wait for first indexes, and return the reported progress."""
        if max_age is None and self.hub.recent():
            # Return at once where events and indexes tell that there is nothing to compare.
            bases = self.hub.select(names)
            if all(base.engine or (self._follows(base.id) and is_in_step(self.hub, base)) for base in bases):
                return 0
        with anyio.move_on_after(FRESHEN_SECONDS):
            await self.run(self._compare, names, max_age)
        if not first_index:
            return 0
        began, reported = anyio.current_time(), -1
        patience = Patience(max(FIRST_ANSWER_SECONDS, FIRST_INDEX_SECONDS - self._waited))
        while unfinished := await self.run(first_indexes, self.hub, names):
            done, todo = map(sum, zip(*unfinished.values(), strict=True))
            if todo and done > reported and context.protocol_version is not None:
                reported = done
                await context.report_progress(done, todo, f"Indexing: {done} of {todo} files")
            if (left := patience.left(done)) <= 0:
                break
            seconds = min(left, PROGRESS_SECONDS)
            # Wait until bases are indexed that the background is at; for what others are at, all of the time.
            if mine := [base for base in unfinished if self.background.is_pending(base)]:
                await self.run(self.background.wait, mine, seconds)
            else:
                await anyio.sleep(seconds)
        self._waited += anyio.current_time() - began
        return max(reported, 0)

    def result(self, text: str, result: Model | Value, *, is_error: bool = False) -> CallToolResult:
        """Build a tool's result: a text, and its JSON form if requested."""
        structured = result.model_dump(mode="json") if self.structured and not is_error else None
        content = [TextContent(type="text", text=text)]
        return CallToolResult(content=content, structured_content=structured, is_error=is_error)

    def told(self, report: Report, limit: float = ANSWER_BYTES) -> CallToolResult:
        """Build a tool's result: what a report says, and the part of its data that is in the text."""
        return self.result(*model_answer(report, limit))

    async def changed(self, report: Report) -> CallToolResult:
        """Tell the client what follows from a change of files, and build the tool's result."""
        await self.run(self.announcer.look)
        return self.told(report)

    async def with_warnings(self, tool: str, result: CallToolResult) -> CallToolResult:
        """Append warnings about ineffective fields and variables, each once: the user does not see the server's log."""
        try:
            warnings = (await self.state())[1].warnings
        except KbhubError:  # the configuration is invalid, which the answer reports
            return result
        fresh = warnings and [warning for warning in warnings if warning not in self._warned]
        self._warned.update(fresh)
        if not fresh or tool == "status" or not isinstance(result.content[0], TextContent):
            return result
        note = f"Note: {one_line(warnings_text(fresh), LINE_BYTES)}"
        text = TextContent(type="text", text=f"{result.content[0].text}\n{note}")
        structured = result.structured_content
        if structured and isinstance(notes := structured.get("notes"), list):
            structured = {**structured, "notes": [*notes, note.removeprefix("Note: ")]}
        return result.model_copy(update={"content": [text, *result.content[1:]], "structured_content": structured})

    async def nothing(self, empty: Model | Value) -> CallToolResult:
        """Return that no base is active, with an empty result."""
        (_, discovery), notes = await self.state(), await self.run(base_suggestions.outside, self.hub)
        return self.result(model_answer(nothing_here(discovery, notes))[0], empty)

    def _follows(self, base: str) -> bool:
        """Return whether events report what changes in a base, and all that they reported is indexed."""
        return self.watcher.follows(base) and not self.background.is_pending(base)

    def _compare(self, names: tuple[str, ...], max_age: float | None) -> None:
        # Skip what the background is already handling and comparisons that take long, instead of waiting for them.
        bases, busy = self.hub.select(names), self.background.busy()
        if names:
            self.background.prefer(base.id for base in bases)
        idle = [base.id for base in bases if base.id not in busy and comparing_for(self.hub, base) < FRESHEN_SECONDS]
        if idle:
            behind = freshen(self.hub, idle, max_age=max_age, watched=set(filter(self._follows, idle)))
            self.background.enqueue(behind)
            self.announcer.look()

    def _notice(self, changes: Changes | None) -> None:
        """Handle the watcher's events, on its thread: changed files, or maybe other bases or settings."""
        self.background.look(changes or {})
        if changes is None:
            self.announcer.look()
