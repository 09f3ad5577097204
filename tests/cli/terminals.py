"""Commands on a terminal that is none of this machine, and loggers as they were."""

import io
import logging
import sys

import pytest

from kbhub.__main__ import main


class Stream(io.TextIOWrapper):
    """A stream of a process that may be a terminal."""

    def __init__(self, data: bytes, encoding: str, *, terminal: bool) -> None:
        super().__init__(io.BytesIO(data), encoding=encoding, newline="", write_through=True)
        self.isatty = lambda: terminal


@pytest.fixture
def streams(kbhub, monkeypatch):
    """Runs a command on a terminal, unless told otherwise, and gives all that reaches it."""

    def run(*arguments, typed=b"", encoding="utf-8", terminal=True, **variables) -> str:
        with monkeypatch.context() as patch:
            for name, value in {"TERM": "xterm", **variables}.items():
                patch.setenv(name, value)
            screen = Stream(b"", encoding, terminal=terminal)
            patch.setattr(sys, "stdin", Stream(typed, "utf-8", terminal=terminal))
            patch.setattr(sys, "stdout", screen)
            patch.setattr(sys, "stderr", screen)
            main(list(arguments))
            screen.flush()
            return screen.buffer.getvalue().decode()

    return run


@pytest.fixture
def quiet():
    """Leaves the loggers as they were."""
    from kbhub.cli.options import LOGGERS

    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(one.handlers[:], one.level, one.propagate) for one in loggers]
    yield
    for one, (handlers, level, propagate) in zip(loggers, before, strict=True):
        one.handlers[:], one.propagate = handlers, propagate
        one.setLevel(level)
