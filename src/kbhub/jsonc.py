"""JSON as people write it by hand: with comments and trailing commas.

Comments and trailing commas are blanked out, character by character, and the standard parser reads the
rest: an error's line and column are those of the file. (The json5 package takes 30 µs per character, which
is 30 ms for a commented configuration of 1 kB, and accepts a language that editors do not take for JSON.)
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NoReturn

from kbhub.errors import ConfigError
from kbhub.files import read_regular

if TYPE_CHECKING:
    from pathlib import Path

MAX_CONFIG_BYTES = 1024 * 1024
"""Bytes of a configuration file; a thousand times what one needs, and little enough to read at once."""

STRING = r'"(?:[^"\\\n]|\\.)*"'
# Atomic: a brace in a comment must not pass for the one after it, nor one comment for two and what is between.
COMMENT = r"(?>//[^\n]*|/\*.*?(?:\*/|\Z))"
# A text without an end counts to the end: looked for from each of its quotes, it would take time by the square.
_OPEN = r'"(?>(?:[^"\\]|\\.)*)"?'
_EXTRAS = re.compile(rf"{_OPEN}|{COMMENT}|,(?=(?:\s|{COMMENT})*[\]}}])", re.DOTALL)
_TOKENS = re.compile(rf"{STRING}|[{{}}\[\],:]|-?\b(?:NaN|Infinity)\b", re.DOTALL)


class _Refused(ValueError):
    """Something that the parser takes and a configuration must not have."""


def read_jsonc(path: Path) -> Any:
    """Read a JSON file that may have comments and trailing commas.

    Raises:
        ConfigError: it cannot be read, is not UTF-8, is not JSON, or names a key twice in one object; the
            text has line and column.
    """
    try:
        data = read_regular(path, MAX_CONFIG_BYTES)
    except OSError as error:
        raise ConfigError(path, f"cannot be read: {error.strerror or error}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(path, f"line {line}: not UTF-8 text; save the file as UTF-8") from error
    return parse_jsonc(text, path)


def parse_jsonc(text: str, where: Path | str) -> Any:
    """Parse JSON with comments; `where` names it in errors.

    Raises:
        ConfigError: as `read_jsonc`.
    """
    return parse_both(text, where)[0]


def parse_both(text: str, where: Path | str) -> tuple[Any, str]:
    """Parse JSON with comments, and give it also as JSON without: comments and trailing commas are blanks in that.

    Args:
        text: what to parse.
        where: its name, for errors.

    Returns:
        What it says, and a text in which all else is at the same offsets.

    Raises:
        ConfigError: as `read_jsonc`.
    """
    try:
        return _parse(text), text
    except (ValueError, RecursionError):
        plain = _EXTRAS.sub(_blank, text)
    try:
        return _parse(plain), plain
    except json.JSONDecodeError as error:
        raise _at(where, plain, error.pos, f"malformed JSON: {error.msg}") from error
    except _Refused as error:
        raise _at(where, plain, _find_refused(plain), str(error)) from error
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits; brackets in brackets
        raise ConfigError(where, f"malformed JSON: {error}") from error


def _parse(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _Refused(f"the key {twice!r} occurs twice in one object; keep one of them")
    return found


def _no_constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not a JSON value")


def _blank(match: re.Match[str]) -> str:
    found = match.group()
    return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)


def _at(where: Path | str, text: str, position: int, message: str) -> ConfigError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return ConfigError(where, f"line {line}, column {column}: {message}")


def _find_refused(text: str) -> int:
    """Offset of the first key that its object already has, or of the first constant that is not JSON."""
    objects: list[set[str] | None] = []
    before = ""
    for match in _TOKENS.finditer(text):
        piece = match.group()
        if piece in ("{", "["):
            objects.append(set() if piece == "{" else None)
        elif piece in ("}", "]"):
            objects.pop()
        elif piece[0] == '"':
            keys = objects[-1] if objects else None
            if keys is not None and before in ("{", ","):
                key = json.loads(piece)
                if key in keys:
                    return match.start()
                keys.add(key)
        elif piece not in (",", ":"):
            return match.start()
        before = piece
    return 0
