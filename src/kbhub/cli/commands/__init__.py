"""What the commands do, one module per group, each loaded when one of its commands runs.

They and all that they need (SQLite, numpy, pydantic: 0.3 s) are loaded here and nowhere else: `--help`, `--version`
and usage errors do not wait for them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from kbhub.cli.commands import asking as asking
    from kbhub.cli.commands import auditing as auditing
    from kbhub.cli.commands import bases as bases
    from kbhub.cli.commands import basics as basics
    from kbhub.cli.commands import daemon as daemon
    from kbhub.cli.commands import editing as editing
    from kbhub.cli.commands import evaluating as evaluating
    from kbhub.cli.commands import graph as graph
    from kbhub.cli.commands import memories as memories
    from kbhub.cli.commands import models as models
    from kbhub.cli.commands import querylog as querylog
    from kbhub.cli.commands import searching as searching
    from kbhub.cli.commands import setup as setup
    from kbhub.cli.commands import shell as shell
    from kbhub.cli.commands import sources as sources

GROUPS = (
    "asking",
    "auditing",
    "bases",
    "basics",
    "daemon",
    "editing",
    "evaluating",
    "graph",
    "memories",
    "models",
    "querylog",
    "searching",
    "setup",
    "shell",
    "sources",
)


def __getattr__(name: str) -> ModuleType:
    if name not in GROUPS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"kbhub.cli.commands.{name}")
