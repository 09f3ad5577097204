"""Parse JSON with comments and trailing commas.

These are overwritten with blanks, so that the standard parser reports the file's own line and column in errors. (The
json5 package takes 30 µs per character, or 30 ms for a commented file of 1 kB, and accepts a language that editors
reject as JSON.)
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NoReturn

from kbhub.errors import ConfigError
from kbhub.workspace.files import read_regular

if TYPE_CHECKING:
    from pathlib import Path

MAX_CONFIG_BYTES = 1024 * 1024
"""Largest configuration file in bytes: a thousand times the usual size."""

STRING = r'"(?:[^"\\\n]|\\.)*"'
# Atomic, so that the lookahead for trailing commas cannot end inside a comment, nor stretch one comment over two.
COMMENT = r"(?>//[^\n]*|/\*.*?(?:\*/|\Z))"
# An unclosed string extends to the end of the file: retrying from each of its quotes would take quadratic time.
_OPEN = r'"(?>(?:[^"\\]|\\.)*)"?'
_EXTRAS = re.compile(rf"{_OPEN}|{COMMENT}|,(?=(?:\s|{COMMENT})*[\]}}])", re.DOTALL)
_TOKENS = re.compile(rf"{STRING}|[{{}}\[\],:]|-?\b(?:NaN|Infinity)\b", re.DOTALL)


class _Refused(ValueError):
    """Something that the standard parser accepts and a configuration must not contain."""


def read_jsonc(path: Path) -> Any:
    """Read a JSON file that may have comments and trailing commas.

    Raises `ConfigError`, with line and column, if it cannot be read, is not UTF-8 or JSON, or repeats a key in an
    object.
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
    """Parse JSON with comments; `where` names it in errors, which are those of `read_jsonc`."""
    return parse_both(text, where)[0]


def parse_both(text: str, where: Path | str) -> tuple[Any, str]:
    """Parse JSON with comments, and also return it as plain JSON of the same length.

    Comments and trailing commas are replaced by blanks. Raises like `read_jsonc`; `where` names the text in errors.
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
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits, or deep nesting
        raise ConfigError(where, f"malformed JSON: {error}") from error


def _parse(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _Refused(f"the key {twice!r} occurs twice in one object; keep one of them")
    return members


def _no_constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not a JSON value")


def _blank(match: re.Match[str]) -> str:
    text = match.group()
    return text if text.startswith('"') else re.sub(r"[^\n]", " ", text)


def _at(where: Path | str, text: str, position: int, message: str) -> ConfigError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return ConfigError(where, f"line {line}, column {column}: {message}")


def _find_refused(text: str) -> int:
    """Offset of the first repeated key, or of the first constant that is not JSON."""
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
