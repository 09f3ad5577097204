"""Edit single values of JSON with comments and trailing commas, without changing any other byte."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

from kbhub.errors import ConfigError
from kbhub.values import struct
from kbhub.workspace.config import BOM, COMMENT, MAX_CONFIG_BYTES, decoded, parse_both, parse_jsonc
from kbhub.workspace.files import content_of, edit_content, held

Key = str | int
"""Key of an object's member, or index of a list's item."""

NEW_FILE = "{\n}\n"

LOCKS, LOCK_NAME = "locks", "config.lock"
"""Folder in the data directory, and the lock file in it, shared by all configuration files."""

LOCK_SECONDS = 10.0
"""How long to wait for another process that edits a configuration, which normally takes milliseconds."""

_DEFAULT_UNIT = "  "
_MARK = re.compile(rf"(?P<comment>{COMMENT})|\S", re.DOTALL)
"""A comment, a punctuation mark, or the start of a key or value."""

_PARSER = json.JSONDecoder()
_INDENTED = re.compile(r"\n([ \t]+)\S")
_BLANKS = " \t"
_INDENT = re.compile(rf"[{_BLANKS}]*")


@struct(frozen=False)
class _JsonValue:
    """A value with its key, if it is a member of an object."""

    first: int
    """Offset of the key or, without one, of the value."""
    start: int
    end: int
    key: str | None = None
    comma: int | None = None
    """Offset of the comma after it."""
    entries: list[_JsonValue] | None = None
    """Direct entries, empty until it is passed to `_opened`; None if it is neither an object nor a list."""
    is_object: bool = False
    comments: list[tuple[int, int]] = field(default_factory=list)

    def entry(self, key: Key) -> _JsonValue | None:
        entries = self.entries or []
        if isinstance(key, int):
            return entries[key] if not self.is_object and key < len(entries) else None
        return next((entry for entry in entries if entry.key == key), None) if self.is_object else None


def set_value(text: str, keys: Sequence[Key], value: Any, where: Path | str) -> str:
    """Return a file's text with a value replaced or, if its key is new, added; missing objects on the path are created.

    Raises `ConfigError` if the text is malformed, or something on the path is not an object.
    """
    container, rest = _descend(text, keys, where)
    if entry := container.entry(rest[0]):
        written = _dumped(value, _indent_at(text, entry.first), _unit(text, container), newline_of(text))
        return _spliced(text, [(entry.start, entry.end, written)])
    for key in reversed(rest[1:]):
        value = {key: value}
    return _added(text, container, str(rest[0]), value)


def add_item(text: str, keys: Sequence[Key], value: Any, where: Path | str) -> str:
    """Return a file's text with an item appended to the list at `keys`, or in a new one; raises like `set_value`."""
    container, rest = _descend(text, keys, where)
    entry = container.entry(rest[0])
    if entry is None:
        return set_value(text, keys, [value], where)
    target = _opened(text, parse_both(text, where)[1], entry)
    if target.entries is None or target.is_object:
        raise ConfigError(where, "expected a list; edit the file by hand", _dotted(keys))
    return _added(text, target, None, value)


def remove_value(text: str, keys: Sequence[Key], where: Path | str) -> str:
    """Return a file's text without an existing member or item, keeping comments; raises like `set_value`."""
    container, entry = _existing(text, keys, where)
    start, end, entries = entry.first, entry.end, container.entries or []
    commas = []
    if entry.comma is not None and not text[end : entry.comma].strip():
        end = entry.comma + 1
    elif entry.comma is not None:  # there is a comment before the comma
        commas.append((entry.comma, entry.comma + 1, ""))
    elif (index := entries.index(entry)) and (before := entries[index - 1].comma) is not None:
        commas.append((before, before + 1, ""))
    # Delete whole lines if nothing else is on them, else the blanks on one side.
    line, after = _line_start(text, start), end + len(text[end:]) - len(text[end:].lstrip(_BLANKS))
    alone_before = not text[line:start].strip(_BLANKS)
    if alone_before and text.startswith(("\n", "\r\n"), after):
        start, after = line, text.index("\n", after) + 1
    elif text[after] in "]}" and not alone_before:
        start, after = line + len(text[line:start].rstrip(_BLANKS)), end
    return _spliced(text, sorted([*commas, (start, after, "")]))


def rename_key(text: str, keys: Sequence[Key], name: str, where: Path | str) -> str:
    """Return a file's text with a key renamed in place; raises like `set_value`."""
    _, entry = _existing(text, keys, where)
    _, end = _PARSER.raw_decode(text, entry.first)
    return _spliced(text, [(entry.first, end, json.dumps(name, ensure_ascii=False))])


def alone(folder: Path) -> AbstractContextManager[None]:
    """Hold the lock for editing configuration files, in kbhub's data directory."""
    return held(folder / LOCKS / LOCK_NAME, LOCK_SECONDS, partial(ConfigError, folder))


def edit_file(path: Path, edit: Callable[[str], str], check: Callable[[Any], object]) -> bool:
    """Edit or create a configuration file as `edit_content` does; return whether anything changed.

    `check` raises if the new content is invalid, before anything is written.
    """

    def change(data: bytes | None) -> bytes:
        before = NEW_FILE if data is None else decoded(data, path)
        text = before.removeprefix(BOM)
        parse_jsonc(text, path)
        edited = edit(text)
        if data is not None and edited == text:
            return data
        check(parse_jsonc(edited, path))
        return (BOM * before.startswith(BOM) + edited).encode()

    before = edit_content(path, MAX_CONFIG_BYTES, change)
    return before != content_of(path, MAX_CONFIG_BYTES)


def _descend(text: str, keys: Sequence[Key], where: Path | str) -> tuple[_JsonValue, Sequence[Key]]:
    """Follow keys as far as they exist; return the last container, and the keys from there on."""
    _, plain = parse_both(text, where)
    mark = _MARK.search(plain)
    start = mark.start() if mark else 0
    value = _opened(text, plain, _value_at(plain, start, start, len(text)))
    for number, key in enumerate(keys):
        if value.entries is None or (isinstance(key, str) and not value.is_object):
            raise ConfigError(where, "expected an object in braces; edit the file by hand", _dotted(keys[:number]))
        entry = value.entry(key)
        if entry is None or number == len(keys) - 1:
            return value, keys[number:]
        value = _opened(text, plain, entry)
    raise ConfigError(where, "no field given")


def _existing(text: str, keys: Sequence[Key], where: Path | str) -> tuple[_JsonValue, _JsonValue]:
    """Return the container and the member or item at some keys; raise `ConfigError` if it does not exist."""
    container, rest = _descend(text, keys, where)
    entry = container.entry(rest[0]) if len(rest) == 1 else None
    if entry is None:
        raise ConfigError(where, "does not exist", _dotted(keys))
    return container, entry


def _opened(text: str, plain: str, value: _JsonValue) -> _JsonValue:
    """Add the direct entries and comments of an object or list to it; `plain` is the text from `parse_both`."""
    # Nested values are skipped with the standard parser, as some clients' files have megabytes of them.
    if value.entries is None:
        return value
    key: tuple[int, str] | None = None
    match = _MARK.search(text, value.start + 1)
    while match and (piece := match.group()) not in "]}":
        start, at = match.span()
        if match["comment"]:
            value.comments.append((start, at))
        elif piece == ",":
            value.entries[-1].comma = start
        elif piece != ":":
            parsed, at = _PARSER.raw_decode(plain, start)
            if value.is_object and key is None:
                key = (start, parsed)
            else:
                first, name = key or (start, None)
                value.entries.append(_value_at(plain, first, start, at, name))
                key = None
        match = _MARK.search(text, at)
    value.end = match.end() if match else value.end
    return value


def _value_at(plain: str, first: int, start: int, end: int, key: str | None = None) -> _JsonValue:
    brace = plain[start : start + 1]
    return _JsonValue(first, start, end, key, None, [] if brace in ("{", "[") else None, brace == "{")


def _added(text: str, container: _JsonValue, key: str | None, value: Any) -> str:
    """Append a member or item to a container."""
    newline, unit = newline_of(text), _unit(text, container)
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    entries, comments = container.entries or [], container.comments
    if not entries and not container.is_object and not comments:  # lists are written on one line
        written = json.dumps(value, ensure_ascii=False)
        return _spliced(text, [(container.start + 1, container.end - 1, written)])
    if not entries:
        outer = _indent_at(text, container.start)
        written = _dumped(value, outer + unit, unit, newline)
        # Keep comments before the closing brace.
        start = _before_return(text, comments[-1][1]) if comments else container.start + 1
        added = f"{newline}{outer}{unit}{name}{written}{newline}{outer}"
        return _spliced(text, [(start, container.end - 1, added)])
    last = entries[-1]
    end = last.comma + 1 if last.comma is not None else last.end
    comma = [] if last.comma is not None else [(last.end, last.end, ",")]
    trailing = "," if last.comma is not None else ""
    if _line_start(text, entries[0].first) <= container.start:  # on the line of the opening brace
        written = json.dumps(value, ensure_ascii=False)
        return _spliced(text, [*comma, (end, end, f" {name}{written}{trailing}")])
    for start, stop in comments:  # on the same line
        if start >= end and not text[end:start].strip(_BLANKS):
            end = stop
    end, indent = _before_return(text, end), _indent_at(text, last.first)
    written = _dumped(value, indent, unit, newline)
    return _spliced(text, [*comma, (end, end, f"{newline}{indent}{name}{written}{trailing}")])


def _before_return(text: str, end: int) -> int:
    """End of a comment, less the carriage return that a line comment includes."""
    return end - 1 if text[end - 1 : end] == "\r" else end


def _spliced(text: str, changes: Sequence[tuple[int, int, str]]) -> str:
    """Replace spans, which must be sorted and not overlap."""
    for start, end, new in reversed(changes):
        text = text[:start] + new + text[end:]
    return text


def _dumped(value: Any, indent: str, unit: str, newline: str) -> str:
    """Serialize a value with objects over several lines and lists on one."""
    if isinstance(value, dict) and value:
        inner = indent + unit
        lines = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {_dumped(item, inner, unit, newline)}"
            for key, item in value.items()
        ]
        return "{" + newline + f",{newline}".join(lines) + newline + indent + "}"
    return json.dumps(value, ensure_ascii=False)


def newline_of(text: str) -> str:
    """Return the line ending of a text."""
    return "\r\n" if "\r\n" in text else "\n"


def _line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def _indent_at(text: str, offset: int) -> str:
    """Indentation of the line at an offset."""
    match = _INDENT.match(text, _line_start(text, offset), offset)
    return match.group() if match else ""


def _unit(text: str, container: _JsonValue) -> str:
    """Indentation per level, taken from the container's entries, else from the first indented line."""
    outer = _indent_at(text, container.start)
    for entry in container.entries or []:
        inner = _indent_at(text, entry.first)
        if inner.startswith(outer) and len(inner) > len(outer):
            return inner[len(outer) :]
    match = _INDENTED.search(text)
    return match[1] if match else _DEFAULT_UNIT


def _dotted(keys: Sequence[Key]) -> str:
    return ".".join(map(str, keys))
