"""`--verbose`: log to standard error."""

from __future__ import annotations

import logging
import platform
import sys

from kbhub import __version__
from kbhub.render.plain import neutralised

LOGGERS = ("kbhub", "httpx")
"""Loggers that are shown: kbhub's own, and httpx with a line per request to a model server."""

FORMAT = "kbhub: %(relativeCreated)d ms %(levelname)s %(name)s: %(message)s"

log = logging.getLogger(__name__)


class _Harmless(logging.Formatter):
    """Neutralises log messages, which may quote a document."""

    def format(self, record: logging.LogRecord) -> str:
        return neutralised(super().format(record))


def log_to_stderr() -> None:
    """Show log messages from now on; does nothing the second time."""
    own = logging.getLogger(LOGGERS[0])
    if any(isinstance(handler.formatter, _Harmless) for handler in own.handlers):
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Harmless(FORMAT))
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False  # the server's own handler would print it twice
    log.debug("kbhub %s, Python %s, %s", __version__, platform.python_version(), platform.platform())
