"""Parse the arguments of a call: JSON in a string only where a list or an object is expected."""

from __future__ import annotations

import json
from types import NoneType
from typing import Any, get_args

from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata

from kbhub.server.frames import too_much


class Arguments(FuncMetadata):
    """Metadata of a tool's parameters; some clients write lists and objects as JSON strings.

    The SDK parses JSON in strings for every optional parameter. So a document text `null` became None, `[1]` was
    rejected, and a string of brackets took a gigabyte.
    """

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """Parse the strings that stand for lists and objects.

        Args:
            data: the raw arguments.
        """
        return {name: self._read(name, value) for name, value in data.items()}

    def _read(self, name: str, value: Any) -> Any:
        field = self.arg_model.model_fields.get(name)
        if not isinstance(value, str) or field is None:
            return value
        if set(get_args(field.annotation) or (field.annotation,)) <= {str, NoneType}:
            return value
        begun = value.strip()[:1]
        if value.strip() != "null" and (begun not in ("[", "{") or too_much(value.encode("utf-8", "replace"))):
            return value
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
