"""`--verbose`: what kbhub notes while it works goes to standard error."""

from __future__ import annotations

import logging
import platform
import sys

from kbhub import __version__
from kbhub.render.plain import neutralised

LOGGERS = ("kbhub", "httpx")
"""What is shown: our own notes, and one line per request to a server of models."""

FORMAT = "kbhub: %(relativeCreated)d ms %(levelname)s %(name)s: %(message)s"

log = logging.getLogger(__name__)


class _Harmless(logging.Formatter):
    """Formats notes, which may quote a document, so that a terminal only shows them."""

    def format(self, record: logging.LogRecord) -> str:
        return neutralised(super().format(record))


def log_to_stderr() -> None:
    """Show what is noted from now on, once for this process."""
    shown = logging.getLogger(LOGGERS[0])
    if any(isinstance(handler.formatter, _Harmless) for handler in shown.handlers):
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Harmless(FORMAT))
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False  # the server's own handler would show it twice
    log.debug("kbhub %s, Python %s, %s", __version__, platform.python_version(), platform.platform())
