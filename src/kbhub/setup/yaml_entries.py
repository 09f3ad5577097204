"""Mappings of servers in a YAML file (Goose), edited by line at the positions the parser reports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from kbhub.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_UNIT = 2
"""Spaces per level where the file does not show its own indentation."""


def parse(text: str, path: Path) -> Any:
    """Parse a client's YAML file; `ConfigError` if it is malformed."""
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(path, f"malformed YAML: {' '.join(str(error).split())}") from error
    return {} if data is None else data


def added(text: str, keys: Sequence[str], name: str, entry: dict[str, Any], path: Path) -> str:
    """Return the text with a key added at the start of its mapping.

    `keys` has exactly one key, that of the mapping; `path` names the file in errors.
    """
    (key,) = keys
    newline = _newline(text)
    pair = _pair(_root(text), key)
    if pair is None:
        head = text if not text or text.endswith("\n") else text + newline
        return head + newline.join([f"{key}:", *_block(name, entry, _UNIT)]) + newline
    node, holder = pair
    if isinstance(holder, yaml.MappingNode) and holder.value and not holder.flow_style:
        indent = holder.value[0][0].start_mark.column
    elif _is_empty(holder):
        start, end = holder.start_mark.index, holder.end_mark.index
        if end > start:  # `{}` or `null`
            text = text[:start].rstrip(" ") + text[end:]
        indent = _UNIT
    else:
        raise ConfigError(path, "has an unusual layout; make the change by hand", key)
    line = _line_end(text, node.end_mark.index)
    head = text[:line] if text[:line].endswith("\n") else text[:line] + newline
    return head + newline.join(_block(name, entry, indent)) + newline + text[line:]


def changed(text: str, keys: Sequence[str], name: str, entry: dict[str, Any], path: Path) -> str:
    """Return the text with the value of a key rewritten."""
    start, end, indent = _lines_of(text, keys, name, path)
    newline = _newline(text)
    return text[:start] + newline.join(_block(name, entry, indent)) + newline + text[end:]


def removed(text: str, keys: Sequence[str], name: str, path: Path) -> str:
    """Return the text without a key and its value."""
    start, end, _ = _lines_of(text, keys, name, path)
    return text[:start] + text[end:]


def _lines_of(text: str, keys: Sequence[str], name: str, path: Path) -> tuple[int, int, int]:
    """Return start and end offset of the lines of a key with its value, and the key's column."""
    (key,) = keys
    pair = _pair(_root(text), key)
    inner = _pair(pair[1], name) if pair and not pair[1].flow_style else None
    if inner is None:
        raise ConfigError(path, "has an unusual layout; make the change by hand", key)
    start = text.rfind("\n", 0, inner[0].start_mark.index) + 1
    return start, _line_end(text, _last(inner[1]).end_mark.index), inner[0].start_mark.column


def _root(text: str) -> yaml.Node | None:
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _pair(node: yaml.Node | None, key: str) -> tuple[yaml.ScalarNode, Any] | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((pair for pair in pairs if isinstance(pair[0], yaml.ScalarNode) and pair[0].value == key), None)


def _is_empty(node: yaml.Node) -> bool:
    return not node.value or (isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null")


def _last(node: yaml.Node) -> yaml.Node:
    """Return the last leaf; the end mark of a block itself is where the next node starts."""
    while isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        node = node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1]
    return node


def _block(name: str, entry: dict[str, Any], indent: int) -> list[str]:
    """Render an entry; JSON scalars, lists and empty objects are valid YAML."""
    inner = " " * (indent + _UNIT)
    return [f"{' ' * indent}{name}:", *(f"{inner}{key}: {_scalar(value)}" for key, value in entry.items())]


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _line_end(text: str, offset: int) -> int:
    if offset and text[offset - 1] == "\n":
        return offset
    end = text.find("\n", offset)
    return len(text) if end < 0 else end + 1


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
