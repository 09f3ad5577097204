"""Calls to a model server: its address, a deadline enforced whatever the server does, and its error messages."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from kbhub.errors import ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable


SHOWN_CHARACTERS = 200
"""Characters shown of a server's error message."""

TOO_LONG = (
    "context length",  # Ollama, OpenAI
    "too large to process",  # llama.cpp
    "maximum model length",  # vLLM
)
"""Substrings of error messages about a text that is too long for the model."""

T = TypeVar("T")

_left_behind: dict[str, Future[object]] = {}
"""Server and model → its abandoned request."""


def shown_address(address: str) -> str:
    """Return an address for messages: with its scheme, without credentials and query string."""
    scheme, _, rest = with_scheme(address).partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


def is_local(address: str) -> bool:
    """Return whether an address is on this machine, so that proxies must not be used for it."""
    try:
        host = urlsplit(with_scheme(address)).hostname or "localhost"
    except ValueError:
        return True
    return host in ("localhost", "::1", "::") or host.startswith("127.")


def with_scheme(address: str) -> str:
    """Return an address with a scheme, `http` by default."""
    return address if "://" in address else f"http://{address}"


def shown(said: str) -> str:
    """Return a server's message on one line, truncated."""
    text = " ".join(said.split())
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def is_too_long(said: str) -> bool:
    """Return whether a message says that a text is too long for the model."""
    return any(part in said.casefold() for part in TOO_LONG)


class Deadline:
    """The time by which a step must be done.

    Socket timeouts limit single reads, but neither slow streams nor name resolution. So each request runs in its own
    thread, which is abandoned when the time is over. It is not cancelled: a server that is loading a model would stop
    loading, and never finish. There is at most one such thread per server and model.

    Args:
        seconds: from now on.
        setting: the setting that allows more time, for the message.
        patient: whether to wait for an abandoned request to finish; else it is an error at once.
    """

    def __init__(self, seconds: float, setting: str = "", *, patient: bool = False) -> None:
        self.seconds, self.setting, self.patient = seconds, setting, patient
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left, 0 when the time is over."""
        return max(0.0, self._end - time.monotonic())

    def wait_for(self, work: Callable[[], T], asked: str) -> T:
        """Return the result of something that may hang, and may go on after the deadline; what it raises is raised.

        `asked` names server and model for the error of a missed deadline.
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
            except BaseException as error:  # noqa: BLE001 - re-raised in the waiting thread
                future.set_exception(error)

        threading.Thread(target=run, name=f"kbhub: {asked}", daemon=True).start()
        done, _ = wait((future,), self.left)
        if not done:
            _left_behind[asked] = future  # type: ignore[assignment] # only `done` is used
            raise self.passed(asked)
        return future.result()

    def passed(self, asked: str) -> ModelUnavailable:
        """Return the error for a missed deadline."""
        more = f" Raise `{self.setting}` to wait longer." if self.setting else ""
        return ModelUnavailable(
            "late", f"{asked} took longer than {self.seconds:g} s; it may still be loading the model.{more}"
        )
