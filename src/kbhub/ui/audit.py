"""The audit of the page, which takes a while in large bases: one at a time, on a thread of its own."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from kbhub.editing.audit import audit, fix

if TYPE_CHECKING:
    from kbhub.editing.audit import AuditReport
    from kbhub.hub import Hub

FINDINGS = 100
"""Findings of the audit that are shown."""


class SharedAudit:
    """One audit of a hub for all who look."""

    def __init__(self, hub: Hub) -> None:
        self._hub, self._thread, self._lock = hub, ThreadPoolExecutor(1, "audit"), threading.Lock()
        self._ended = False
        self._last: Future[AuditReport] | None = None
        self.progress = ("", 0, 0)
        """The check in progress, how much of all is done, and all."""

    def last(self) -> Future[AuditReport]:
        """Return the latest audit, which may be in progress; begin one if there is none."""
        return self._last or self.begin()

    def begin(self, *, fixing: bool = False) -> Future[AuditReport]:
        """Begin an audit, and return it or the one in progress.

        `fixing` fixes what is safe to fix and audits again; it always begins, after an audit in progress.
        """
        with self._lock:
            if self._last is None or self._last.done() or fixing:
                self.progress = ("", 0, 0)
                self._last = self._thread.submit(self._audited, fixing=fixing)
            return self._last

    def end(self) -> None:
        """Stop."""
        self._ended = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _audited(self, *, fixing: bool) -> AuditReport:
        report = audit(self._hub, progress=self._tell)
        if fixing:
            fix(self._hub, report)
            report = audit(self._hub, progress=self._tell)
        return report.cut(FINDINGS)

    def _tell(self, check: str, done: int, todo: int) -> None:
        if self._ended:
            raise CancelledError
        self.progress = (check, done, todo)
