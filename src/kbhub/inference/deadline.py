"""One deadline for a whole step, kept whatever the other side does."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, TypeVar

from kbhub.errors import ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_left_behind: dict[str, Future[object]] = {}
"""Who was asked → the request that nobody waits for any more."""


class Deadline:
    """The moment by which a step must be done.

    Time-outs of sockets bound a single read, and neither a slow drip nor the look-up of a name; so each request runs
    on a thread of its own, which is left behind when the time is over. It is not cut off: a server that is loading a
    model would stop loading, and would never have it. There is one such thread per server and model.

    Args:
        seconds: from now on.
        setting: what allows more, for the message.
        patient: whether to wait for the end of a request that was left behind; else it is a failure at once.
    """

    def __init__(self, seconds: float, setting: str = "", *, patient: bool = False) -> None:
        self.seconds, self.setting, self.patient = seconds, setting, patient
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds, 0 when it is over."""
        return max(0.0, self._end - time.monotonic())

    def wait_for(self, work: Callable[[], T], asked: str) -> T:
        """Do something that may take for ever, and give its result.

        Args:
            work: what is to be done; it may go on after the deadline.
            asked: who is asked for what, for the message.

        Raises:
            ModelUnavailable: `late`; besides, whatever `work` raises.
        """
        earlier = _left_behind.get(asked)
        if earlier is not None and self.patient:
            wait((earlier,), self.left)
        if earlier is not None and not earlier.done():
            raise ModelUnavailable(
                "late", f"{asked} is still busy with an earlier request; it may be loading the model."
            )
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it is raised to who waits
                future.set_exception(error)

        threading.Thread(target=run, name=f"kbhub: {asked}", daemon=True).start()
        done, _ = wait((future,), self.left)
        if not done:
            _left_behind[asked] = future  # type: ignore[assignment] # only whether it is done is asked
            raise self.passed(asked)
        return future.result()

    def passed(self, asked: str) -> ModelUnavailable:
        """Make what is raised when the time is over."""
        more = f" `{self.setting}` allows more." if self.setting else ""
        return ModelUnavailable(
            "late", f"{asked} took longer than {self.seconds:g} s; it may still be loading the model.{more}"
        )
