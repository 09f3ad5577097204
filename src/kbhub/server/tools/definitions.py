"""The published definitions of the tools, stored as data.

Every client lists the tools at startup, while its user waits; building the definitions would load all tools, which
takes half a second. tests/test_definitions.py writes the file and checks it.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from mcp.types import Tool

FILE = Path(__file__).with_name("definitions.json")
"""Tool → its definition as sent, in list order; with the schema of its result."""


@cache
def kept(*, structured: bool = False) -> dict[str, Tool]:
    """Return the definitions of all tools, offered or not, by name.

    Args:
        structured: whether to include the result schemas.
    """
    left_out = frozenset() if structured else frozenset(("outputSchema",))
    return {
        name: Tool.model_validate({key: value for key, value in definition.items() if key not in left_out})
        for name, definition in json.loads(FILE.read_bytes()).items()
    }
