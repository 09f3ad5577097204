"""Mappings of servers in a YAML file (Goose): the parser says where a key stands, and lines are put in or taken out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from kbhub.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_UNIT = 2
"""Blanks that a level is indented by where the file does not show it."""


def parse(text: str, path: Path) -> Any:
    """Parse a file.

    Raises:
        ConfigError: it is malformed.
    """
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(path, f"malformed YAML: {' '.join(str(error).split())}") from error
    return {} if found is None else found


def added(text: str, keys: Sequence[str], name: str, entry: dict[str, Any], path: Path) -> str:
    """Give the text with a key put in before the others of its mapping.

    Args:
        text: the file.
        keys: the one key of the mapping.
        name: the key to add.
        entry: its value.
        path: the file's name, for errors.
    """
    (key,) = keys
    newline = _newline(text)
    place = _pair(_root(text), key)
    if place is None:
        head = text if not text or text.endswith("\n") else text + newline
        return head + newline.join([f"{key}:", *_block(name, entry, _UNIT)]) + newline
    at, holder = place
    if isinstance(holder, yaml.MappingNode) and holder.value and not holder.flow_style:
        indent = holder.value[0][0].start_mark.column
    elif _is_empty(holder):
        start, end = holder.start_mark.index, holder.end_mark.index
        if end > start:  # `{}` or `null`
            text = text[:start].rstrip(" ") + text[end:]
        indent = _UNIT
    else:
        raise ConfigError(path, "is written in an unusual way; make the change by hand", key)
    line = _line_end(text, at.end_mark.index)
    head = text[:line] if text[:line].endswith("\n") else text[:line] + newline
    return head + newline.join(_block(name, entry, indent)) + newline + text[line:]


def changed(text: str, keys: Sequence[str], name: str, entry: dict[str, Any], path: Path) -> str:
    """Give the text with the value of a key written anew."""
    start, end, indent = _lines_of(text, keys, name, path)
    newline = _newline(text)
    return text[:start] + newline.join(_block(name, entry, indent)) + newline + text[end:]


def removed(text: str, keys: Sequence[str], name: str, path: Path) -> str:
    """Give the text without a key and its value."""
    start, end, _ = _lines_of(text, keys, name, path)
    return text[:start] + text[end:]


def _lines_of(text: str, keys: Sequence[str], name: str, path: Path) -> tuple[int, int, int]:
    """Find the lines of a key with its value: first and last offset, and the key's column."""
    (key,) = keys
    place = _pair(_root(text), key)
    inner = _pair(place[1], name) if place and not place[1].flow_style else None
    if inner is None:
        raise ConfigError(path, "is written in an unusual way; make the change by hand", key)
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
    """Give the last leaf: a block's own end is where the next thing begins."""
    while isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        node = node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1]
    return node


def _block(name: str, entry: dict[str, Any], indent: int) -> list[str]:
    """Write an entry; JSON's scalars, lists and empty objects are YAML's, too."""
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
