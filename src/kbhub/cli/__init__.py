"""The command line: `app` parses and helps, `commands` does, `console` prints.

`commands` and all that it needs (SQLite, numpy, pydantic: 0.3 s) are loaded by the first command that runs, here
and nowhere else: `--help`, `--version` and usage errors do not wait for them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from kbhub.cli import commands as commands

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 plus the number of SIGINT, as shells have it."""


def __getattr__(name: str) -> ModuleType:
    if name != "commands":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("kbhub.cli.commands")
