"""The tools: functions of their names, called with `Calls` and their arguments.

A function's annotations and docstring are what the tool publishes; `workspace.tool_names` has what is known of a tool
before it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbhub.server.tools import documents, memories, search
from kbhub.workspace.tool_names import ALL

MODULES = (search, documents, memories)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: function
    for module in MODULES
    for name, function in vars(module).items()
    if name in ALL and function.__module__ == module.__name__
}
