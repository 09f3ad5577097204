"""The shared state of the pages: the hub, its synchronized bases, and templates."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Container, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

import anyio
from anyio.to_thread import run_sync
from starlette.datastructures import ImmutableMultiDict
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from kbhub import __version__
from kbhub.editing.audit import audit, fix
from kbhub.editing.findings import AuditReport
from kbhub.errors import BaseUnavailable, IndexUnavailable, KbhubError, WriteRefused
from kbhub.hub import Hub
from kbhub.index.engine import Index
from kbhub.render.html import rendered
from kbhub.sync.background import Background
from kbhub.types import Base
from kbhub.usage import log
from kbhub.usage.gaps import maintain

T = TypeVar("T")

FINDINGS = 100

REST = 10
"""How many times as long as it took an audit stands: pictures and code that it looks at are in no index."""


class SharedAudit:
    """One audit of a hub for all who look."""

    def __init__(self, hub: Hub) -> None:
        self._hub, self._thread, self._lock = hub, ThreadPoolExecutor(1, "audit"), threading.Lock()
        self._ended = False
        self.latest: Future[AuditReport] | None = None
        """It may be in progress."""
        self.state: object = None
        """That of what the latest audit looked at; None if it is to be made again."""
        self._until = 0.0
        self.progress = ("", 0, 0)
        """The check in progress, how much of all is done, and all."""

    def begin(self, state: object, *, fixing: bool = False) -> Future[AuditReport]:
        """Return the audit in progress, the latest of the same state, or a new one; `fixing` begins one that fixes."""
        with self._lock:
            now = self._hub.options.clock()
            if self.latest is None or (self.latest.done() and (self.state != state or now > self._until)) or fixing:
                self.state, self.progress, self._until = state, ("", 0, 0), 0.0
                self.latest = self._thread.submit(self._audited, fixing=fixing)
            return self.latest

    def end(self) -> None:
        """Stop."""
        self._ended = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _audited(self, *, fixing: bool) -> AuditReport:
        clock, began = self._hub.options.clock, self._hub.options.clock()
        report = audit(self._hub, progress=self._tell)
        if fixing:
            fix(self._hub, report)
            report = audit(self._hub, progress=self._tell)
        self._until = clock() + REST * (clock() - began)
        return report.cut(FINDINGS)

    def _tell(self, check: str, done: int, todo: int) -> None:
        if self._ended:
            raise CancelledError
        self.progress = (check, done, todo)


LOOK_SECONDS = 2.0
"""Age at which the last look for changed files is too old for a page that is opened now."""

STOP_SECONDS = 2.0

ANSWERS = 4
"""Questions answered at a time; others wait for their turn. A model of this machine answers one or two at a time."""

PAGES = (
    ("/", "Search", "s", "search"),
    ("/documents", "Documents", "d", "documents"),
    ("/graph", "Graph", "g", "graph"),
    ("/memories", "Memories", "m", "memory"),
    ("/gaps", "Not answered", "u", "gaps"),
    ("/health", "Health", "h", "health"),
)
"""Address, name, key after `g`, and icon."""


class Site:
    """The state behind all pages."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.background = Background(hub, tidy=lambda every, most: maintain(hub, at_most_every=every, seconds=most).ran)
        self.answering = ThreadPoolExecutor(ANSWERS, "answer")
        """Threads of their own for what may take a minute, so that others find one."""
        self.auditing = SharedAudit(hub)
        self.typing = anyio.Semaphore(2)  # searches for what is typed: a key may come before the hits of the last one
        self._lock, self._looked = threading.Lock(), -LOOK_SECONDS

    def end(self) -> None:
        """Stop indexing, and write the notes of queries."""
        self.auditing.end()
        self.answering.shutdown(wait=False, cancel_futures=True)
        self.background.stop(STOP_SECONDS)
        log.flush()

    def look(self) -> None:
        """Compare the bases with their files in the background, unless that was done a moment ago."""
        with self._lock:
            if time.monotonic() - self._looked < LOOK_SECONDS:
                return
            self._looked = time.monotonic()
        self.background.called()
        self.background.look()

    def page(self, request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a page from a template's file, or only the part that the browser asks for."""
        workspace = None
        with suppress(KbhubError):
            workspace = self.hub.discovery().workspace.directory
        html = rendered(
            template,
            pages=PAGES,
            here=request.url.path,
            partial="x-part" in request.headers,
            version=__version__,
            writable=self.writable(),
            workspace=workspace.name if workspace else "",
            now=self.hub.options.clock(),
            indexing=bool(self.background.busy()),
            **values,
        )
        return HTMLResponse(html, status)

    def writable(self) -> bool:
        """Return whether anything may be written from the page."""
        with suppress(KbhubError):
            return not self.hub.config().settings.read_only
        return False

    def check_writable(self, what: str) -> None:
        """Raise `WriteRefused` about something if nothing may be written."""
        if not self.writable():
            raise WriteRefused(what, "`readOnly` is set; only searching and reading are allowed")

    def bases(self) -> tuple[Base, ...]:
        """Return the active bases; none while the configuration is wrong."""
        with suppress(KbhubError):
            return self.hub.discovery().bases
        return ()

    def each(self, read: Callable[[Base, Index], T], names: Container[str] | None = None) -> Iterator[T]:
        """Yield what is read of the index of each active base, or each of some, that can be read."""
        for base in self.bases():
            if names is None or base.id in names:
                with suppress(BaseUnavailable, IndexUnavailable), (index := self.hub.index(base)).snapshot():
                    yield read(base, index)


def number_of(text: str, otherwise: int = 0) -> int:
    """Return a parameter as a number, or `otherwise` if it is none or has more digits than any line or page."""
    return int(text) if text.isdecimal() and len(text) < 10 else otherwise


def site_of(request: Request) -> Site:
    """Return the site that a request came to."""
    site: Site = request.app.state.site
    return site


Form: TypeAlias = "ImmutableMultiDict[str, str]"


def posted(change: Callable[[Request, Form], str]) -> Callable[[Request], Awaitable[Response]]:
    """Make an endpoint of a function that makes a change, from the fields of a form, and returns where to go on."""

    async def endpoint(request: Request) -> Response:
        form = (await request.form()).multi_items()
        fields = ImmutableMultiDict([(name, value) for name, value in form if isinstance(value, str)])
        return RedirectResponse(await run_sync(change, request, fields), 303)

    return endpoint
