"""What clients are told of the tools, kept as data.

Every client asks for the list as soon as it has said hello, and its user waits; to make the definitions, all tools are
loaded, which takes half a second. tests/test_definitions.py writes the file and keeps it true.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from mcp.types import Tool

FILE = Path(__file__).with_name("definitions.json")
"""Tool → its definition as it is sent, in the order of their list; with the schema of what it returns."""


@cache
def kept(*, structured: bool = False) -> dict[str, Tool]:
    """Give the definitions of all tools, offered or not, by their names.

    Args:
        structured: whether they say what the tools return.
    """
    left_out = frozenset() if structured else frozenset(("outputSchema",))
    return {
        name: Tool.model_validate({key: value for key, value in one.items() if key not in left_out})
        for name, one in json.loads(FILE.read_bytes()).items()
    }
