"""Change one value in a JSON file that people write by hand; every other byte stays as it is.

An edit finds the value's place in the text and changes the text there: comments, order, indentation, trailing commas,
line endings and a byte order mark are never written anew. Only what the file itself allows is assumed of it; what
`jsonc` refuses is refused here, with its line.
"""

from __future__ import annotations

import json
import os
import re
import stat
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from kbhub.errors import ConfigError
from kbhub.files import read_regular
from kbhub.jsonc import COMMENT, MAX_CONFIG_BYTES, STRING, parse_both, parse_jsonc
from kbhub.places import private_directory, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Key = str | int
"""A member of an object by its key, or an item of a list by its place, from 0."""

NEW_FILE = "{\n}\n"
"""What a file that does not exist yet is taken for."""

LOCKS, LOCK_NAME = "locks", "config.lock"
"""Folder in the data directory, and the lock of every configuration file in it."""

LOCK_SECONDS = 10.0
"""How long to wait for another process that edits a configuration, which takes it milliseconds."""

_NEW_MODE = 0o644
"""Mode of a new file, before the user's umask takes from it: it holds no secret and may be in a repository."""

_DEFAULT_UNIT = "  "
_BOM = "\ufeff"
_MARK = re.compile(rf"(?P<comment>{COMMENT})|\S", re.DOTALL)
"""Between entries: a comment, a mark, or what a key or value begins with."""

_KEY = re.compile(STRING, re.DOTALL)
_PARSER = json.JSONDecoder()
_INDENTED = re.compile(r"\n([ \t]+)\S")
_BLANKS = " \t"
_INDENT = re.compile(rf"[{_BLANKS}]*")


@dataclass(slots=True)
class _Entry:
    """A member of an object, or an item of a list."""

    start: int
    """Of its key, or of the item."""
    value: _Value
    """With its own entries only after `_opened`."""
    key: str | None = None
    comma: int | None = None
    """Offset of the comma after it, if there is one."""


@dataclass(slots=True)
class _Value:
    start: int
    end: int = 0
    entries: list[_Entry] | None = None
    """None where it is neither an object nor a list."""
    is_object: bool = False
    comments: list[tuple[int, int]] = field(default_factory=list)
    """Spans of the comments directly inside."""

    def entry(self, key: Key) -> _Entry | None:
        entries = self.entries or []
        if isinstance(key, int):
            return entries[key] if not self.is_object and key < len(entries) else None
        return next((one for one in entries if one.key == key), None) if self.is_object else None


def set_value(text: str, keys: Sequence[Key], value: Any, where: Path | str) -> str:
    """Give a file's text with a value in it replaced or, where its key is new, added.

    Args:
        text: the file.
        keys: keys on the way to the value; objects that are missing on the way are made.
        value: what JSON can say.
        where: the file's name, for errors.

    Raises:
        ConfigError: the text is malformed, or the way leads through something that is no object.
    """
    container, rest = _descend(text, keys, where)
    entry = container.entry(rest[0])
    if entry is not None:
        indent = _indent_at(text, entry.start)
        written = _dumped(value, indent, _unit(text, container), _newline(text))
        return _spliced(text, [(entry.value.start, entry.value.end, written)])
    for key in reversed(rest[1:]):
        value = {key: value}
    return _added(text, container, str(rest[0]), value)


def add_item(text: str, keys: Sequence[Key], value: Any, where: Path | str) -> str:
    """Give a file's text with an item added at the end of the list that keys lead to; raises as `set_value` does."""
    target = _follow(text, keys, where)
    if target is None or target.entries is None or target.is_object:
        raise ConfigError(where, "expected a list; edit the file by hand", _dotted(keys))
    return _added(text, target, None, value)


def remove_value(text: str, keys: Sequence[Key], where: Path | str) -> str:
    """Give a file's text without a member or item; its comments stay. Raises as `set_value` does.

    Args:
        text: the file.
        keys: keys on the way to what is to go, which must be there.
        where: the file's name, for errors.
    """
    container, rest = _descend(text, keys, where)
    entry = container.entry(rest[0]) if len(rest) == 1 else None
    if entry is None or container.entries is None:
        raise ConfigError(where, "is not there", _dotted(keys))
    end = entry.value.end
    gone = []
    if entry.comma is not None and not text[end : entry.comma].strip():
        end = entry.comma + 1
    elif entry.comma is not None:  # a comment stands before the comma
        gone.append((entry.comma, entry.comma + 1, ""))
    elif (place := container.entries.index(entry)) and (before := container.entries[place - 1].comma) is not None:
        gone.append((before, before + 1, ""))
    return _spliced(text, sorted([*gone, (*_with_blanks(text, entry.start, end), "")]))


def rename_key(text: str, keys: Sequence[Key], name: str, where: Path | str) -> str:
    """Give a file's text with a key renamed, its value and place as they were; raises as `set_value` does."""
    container, rest = _descend(text, keys, where)
    entry = container.entry(rest[0]) if len(rest) == 1 else None
    if entry is None or entry.key is None:
        raise ConfigError(where, "is not there", _dotted(keys))
    match = _KEY.match(text, entry.start)
    end = match.end() if match else entry.start
    return _spliced(text, [(entry.start, end, json.dumps(name, ensure_ascii=False))])


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other kbhub processes from editing configuration meanwhile.

    Args:
        folder: kbhub's data directory.

    Raises:
        ConfigError: another process has held the lock for long, or it cannot be made.
    """
    locks = folder / LOCKS
    lock = filelock.FileLock(locks / LOCK_NAME, timeout=LOCK_SECONDS, mode=0o600)
    try:
        private_directory(locks)
        lock.acquire()
    except filelock.Timeout as error:
        raise ConfigError(lock.lock_file, f"another process has held it for {LOCK_SECONDS:g} s; try again") from error
    except OSError as error:
        raise ConfigError(lock.lock_file, f"cannot be made: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()


def edit_file(path: Path, edit: Callable[[str], str], check: Callable[[Any], object]) -> bool:
    """Edit a configuration file, whole or not at all; its mode stays, and a link stays a link.

    Args:
        path: the file; one that does not exist is made.
        edit: gives the new text for the old.
        check: raises if what the new text says cannot be used; called before anything is written.

    Returns:
        Whether anything changed.

    Raises:
        ConfigError: the file is malformed or cannot be read or written, or somebody else changes it just now.
    """
    real = Path(os.path.realpath(path))
    before = _read(real, path)
    text = before.removeprefix(_BOM) if before is not None else NEW_FILE
    parse_jsonc(text, path)
    edited = edit(text)
    if before is not None and edited == text:
        return False
    check(parse_jsonc(edited, path))
    if _read(real, path) != before:
        raise ConfigError(path, "something else changed the file at this moment; nothing was written, try again")
    bom = _BOM if before is not None and before.startswith(_BOM) else ""
    try:
        write_atomically(real, bom + edited, mode=_mode(real))
    except OSError as error:
        raise ConfigError(path, f"cannot be written: {error.strerror or error}") from error
    return True


def _read(real: Path, path: Path) -> str | None:
    try:
        data = read_regular(real, MAX_CONFIG_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(path, f"cannot be read: {error.strerror or error}") from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(path, f"line {line}: not UTF-8 text; save the file as UTF-8") from error


def _mode(real: Path) -> int:
    try:
        return stat.S_IMODE(real.stat().st_mode)
    except FileNotFoundError:
        return _NEW_MODE


def _follow(text: str, keys: Sequence[Key], where: Path | str) -> _Value | None:
    _, plain = parse_both(text, where)
    value = _outermost(text, plain)
    for key in keys:
        entry = value.entry(key)
        if entry is None:
            return None
        value = _opened(text, plain, entry.value)
    return value


def _descend(text: str, keys: Sequence[Key], where: Path | str) -> tuple[_Value, Sequence[Key]]:
    """Follow keys as far as there are containers: the last one, and the keys from there on."""
    _, plain = parse_both(text, where)
    value = _outermost(text, plain)
    for number, key in enumerate(keys):
        if value.entries is None or (isinstance(key, str) and not value.is_object):
            raise ConfigError(where, "expected an object in braces; edit the file by hand", _dotted(keys[:number]))
        entry = value.entry(key)
        if entry is None or number == len(keys) - 1:
            return value, keys[number:]
        value = _opened(text, plain, entry.value)
    raise ConfigError(where, "no field was named")


def _outermost(text: str, plain: str) -> _Value:
    """Find where everything directly inside the outermost value of a text lies."""
    match = _MARK.search(plain)
    start = match.start() if match else 0
    return _opened(text, plain, _value_at(plain, start, len(text)))


def _opened(text: str, plain: str, value: _Value) -> _Value:
    """Find where everything directly inside a value lies, if it is an object or a list.

    What is deeper is passed over by the standard parser: a client's file has megabytes of it.

    Args:
        text: as people wrote it, and as `jsonc` reads it.
        plain: the same without comments and trailing commas.
        value: where it lies; given back with its entries and comments.
    """
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
            found, at = _PARSER.raw_decode(plain, start)
            if value.is_object and key is None:
                key = (start, found)
            else:
                begin, name = key or (start, None)
                value.entries.append(_Entry(begin, _value_at(plain, start, at), name))
                key = None
        match = _MARK.search(text, at)
    value.end = match.end() if match else value.end
    return value


def _value_at(plain: str, start: int, end: int) -> _Value:
    brace = plain[start : start + 1]
    return _Value(start, end, [] if brace in ("{", "[") else None, brace == "{")


def _added(text: str, container: _Value, key: str | None, value: Any) -> str:
    """Give the text with a new last member, or item, of a container."""
    newline, unit = _newline(text), _unit(text, container)
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    entries = container.entries or []
    if not entries:
        return _first_added(text, container, name, value)
    last = entries[-1]
    end = last.comma + 1 if last.comma is not None else last.value.end
    comma = [] if last.comma is not None else [(last.value.end, last.value.end, ",")]
    trailing = "," if last.comma is not None else ""
    if _line_start(text, entries[0].start) <= container.start:  # all in a line with the opening brace
        written = json.dumps(value, ensure_ascii=False)
        return _spliced(text, [*comma, (end, end, f" {name}{written}{trailing}")])
    indent = _indent_at(text, last.start)
    written = _dumped(value, indent, unit, newline)
    end = _past_comments(text, end, container)
    return _spliced(text, [*comma, (end, end, f"{newline}{indent}{name}{written}{trailing}")])


def _first_added(text: str, container: _Value, name: str, value: Any) -> str:
    newline, unit = _newline(text), _unit(text, container)
    outer = _indent_at(text, container.start)
    if not container.is_object and not container.comments:  # lists of ids stay in a line
        written = json.dumps(value, ensure_ascii=False)
        return _spliced(text, [(container.start + 1, container.end - 1, written)])
    indent = outer + unit
    written = _dumped(value, indent, unit, newline)
    # What is before the closing brace stays, if it is a comment.
    start = _before_return(text, container.comments[-1][1]) if container.comments else container.start + 1
    return _spliced(text, [(start, container.end - 1, f"{newline}{indent}{name}{written}{newline}{outer}")])


def _past_comments(text: str, end: int, container: _Value) -> int:
    """Give the offset after the comments that follow on the same line."""
    for start, stop in container.comments:
        if start >= end and not text[end:start].strip(_BLANKS):
            end = stop
    return _before_return(text, end)


def _before_return(text: str, end: int) -> int:
    """Give the end of a comment without the carriage return that a line comment has before its line feed."""
    return end - 1 if text[end - 1 : end] == "\r" else end


def _with_blanks(text: str, start: int, end: int) -> tuple[int, int]:
    """Widen a span that is to go: to whole lines where nothing else is on them, else to the blanks on one side."""
    line = _line_start(text, start)
    after = end + len(text[end:]) - len(text[end:].lstrip(_BLANKS))
    alone_before = not text[line:start].strip(_BLANKS)
    if alone_before and text.startswith(("\n", "\r\n"), after):
        return line, text.index("\n", after) + 1
    if text[after] in "]}" and not alone_before:
        return line + len(text[line:start].rstrip(_BLANKS)), end
    return start, after


def _spliced(text: str, changes: Sequence[tuple[int, int, str]]) -> str:
    """Replace spans, which are in order and do not overlap."""
    for start, end, new in reversed(changes):
        text = text[:start] + new + text[end:]
    return text


def _dumped(value: Any, indent: str, unit: str, newline: str) -> str:
    """Write a value as people do: objects over several lines, lists in one."""
    if isinstance(value, dict) and value:
        inner = indent + unit
        lines = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {_dumped(one, inner, unit, newline)}"
            for key, one in value.items()
        ]
        return "{" + newline + f",{newline}".join(lines) + newline + indent + "}"
    return json.dumps(value, ensure_ascii=False)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def _indent_at(text: str, offset: int) -> str:
    """Give the blanks that the line of an offset begins with."""
    match = _INDENT.match(text, _line_start(text, offset), offset)
    return match.group() if match else ""


def _unit(text: str, container: _Value) -> str:
    """Give what a level is indented by, as seen at the container's entries or else at the first indented line."""
    outer = _indent_at(text, container.start)
    for entry in container.entries or []:
        inner = _indent_at(text, entry.start)
        if inner.startswith(outer) and len(inner) > len(outer):
            return inner[len(outer) :]
    found = _INDENTED.search(text)
    return found[1] if found else _DEFAULT_UNIT


def _dotted(keys: Sequence[Key]) -> str:
    return ".".join(map(str, keys))
