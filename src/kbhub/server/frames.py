"""Parse lines of the wire into JSON-RPC messages, or errors that answer them. Light: every editor window loads it.

The SDK's transports ignore what they cannot parse, and a client then waits forever. Here every line with an id is
answered, and nothing is parsed that would exceed the memory limit of a message.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, NoReturn

from kbhub.values import struct

FRAME_BYTES = 4 * 1024 * 1024
"""Limit of a message on every transport: forty times the longest document in the vaults at hand. Parsed JSON takes up
to six times as much."""

MOST_VALUES = 50_000
"""Most values of a message: each takes up to 300 bytes however short it is written (`{}`)."""

DEEPEST = 100
"""Most levels of nesting; parsers fail somewhere between 200 and 1,000."""

PARSE_ERROR, INVALID_REQUEST = -32700, -32600

LISTEN = "subscriptions/listen"
"""The request of 2026-07-28 whose answer is a stream of notifications, open as long as the client wants."""

ENVELOPE = "io.modelcontextprotocol/protocolVersion"
"""Key in `_meta` that only requests of 2026-07-28 and later have."""

PIECE_BYTES = 64 * 1024
"""Bytes read at once: the size of a pipe."""

LAST_WORDS_SECONDS = 0.4
"""Time for a client that has closed its end to read what is being written to it; clients kill after two seconds."""

_MARK = b"\xef\xbb\xbf"
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_STRING = re.compile(rb'"[^"]*(?:"|\Z)')
_BRACKETS = re.compile(rb"[\[{]+|[\]}]+")

EDGE_BYTES = 1024
"""Bytes at both ends of a message in which its id is looked for, if it is not parsed. Clients write it before
everything long, or last, after the version."""

_MEMBER = re.compile(rb'"(jsonrpc|id|method)"\s*:\s*("(?:[^"\\]|\\.)*+"|[-+.\deE]++)')
_LEADING = re.compile(rb'\s*\{(?:\s*%b\s*,)*+(?P<answer>\s*"(?:result|error)")?' % _MEMBER.pattern)
_TRAILING = re.compile(rb"(?:[{,]\s*%b\s*)+\}\s*\Z" % _MEMBER.pattern)


@struct
class Frame:
    """A parsed line: a message or a refusal, or neither if it can be ignored."""

    line: bytes = b""
    """As it can be passed on: UTF-8, no lone surrogates."""
    message: dict[str, Any] | None = None
    refusal: bytes = b""
    """The line that answers it."""


def line_of(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line of the wire."""
    return json.dumps(message).encode() + b"\n"


class Frames:
    """Splits a client's data into frames, buffering no more than one."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames completed by new data; empty data completes the last one."""
        *ended, rest = data.split(b"\n") if data else (b"", b"")
        for piece in ended:
            self._add(piece)
            line, size = bytes(self._line), self._size
            self._line.clear()
            self._size = 0
            yield read(line) if size <= FRAME_BYTES else _refused(INVALID_REQUEST, _TOO_LONG, line)
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._line += piece
        self._size += len(piece)
        if self._size > FRAME_BYTES:
            del self._line[EDGE_BYTES:-EDGE_BYTES]


def frames(pieces: Iterable[bytes]) -> Iterator[Frame]:
    """Yield the frames of a stream, including an unterminated last one."""
    cut = Frames()
    for piece in chain(filter(None, pieces), [b""]):
        yield from cut.feed(piece)


def read(line: bytes) -> Frame:
    """Parse a line without its end: UTF-8 with or without byte order mark; invalid bytes are replaced."""
    line = line.removeprefix(_MARK).strip()
    if not line:
        return Frame()
    if reason := _TOO_LONG if len(line) > FRAME_BYTES else too_much(line):
        return _refused(INVALID_REQUEST, reason, line)
    text = line.decode("utf-8", "replace")
    try:
        message = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return _refused(PARSE_ERROR, "The message is not JSON.", line)
    if "\\ud" in text or "\\uD" in text:
        if isinstance(message, dict) and message.get("id") != _whole(message.get("id")):
            return refusal(_ID, message["id"])
        message = _whole(message)
        line = json.dumps(message).encode()
    elif "\ufffd" in text:
        line = text.encode()
    if not isinstance(message, dict):
        batch = "Batches are not supported. Send one message per line."
        return refusal(batch if isinstance(message, list) else "The message is not an object.", None)
    identifier = message.get("id")
    if "method" not in message and ("result" in message or "error" in message):
        return Frame(line, message)
    reason = ""
    if "id" in message and (not isinstance(identifier, int | str) or isinstance(identifier, bool)):
        reason = _ID
    elif message.get("jsonrpc") != "2.0":
        reason = '`jsonrpc` must be "2.0".'
    elif not isinstance(message.get("method"), str):
        reason = "`method` must be a string."
    elif not isinstance(message.get("params"), dict | None):
        reason = "`params` must be an object."
    return refusal(reason, _returnable(identifier)) if reason else Frame(line, message)


def refusal(reason: str, identifier: Any, code: int = INVALID_REQUEST) -> Frame:
    """Return the error for a message that is not served; its id is None if none can be returned."""
    error = {"code": code, "message": reason}
    return Frame(refusal=line_of({"jsonrpc": "2.0", "id": identifier, "error": error}))


def too_much(line: bytes) -> str:
    """Return which JSON limit a line exceeds, judged before parsing; empty if none."""
    if sum(map(line.count, (b"[", b"{"))) <= DEEPEST and line.count(b",") <= MOST_VALUES:
        return ""
    bare = _STRING.sub(b"", _ESCAPED.sub(b"", line))
    if sum(map(bare.count, (b"[", b"{", b","))) > MOST_VALUES:
        return f"A message cannot have more than {MOST_VALUES:,} values."
    depth = 0
    for run in _BRACKETS.finditer(bare):
        depth += len(run.group()) if run.group()[:1] in b"[{" else -len(run.group())
        if depth > DEEPEST:
            return f"A message cannot be nested more than {DEEPEST} levels deep."
    return ""


def _refused(code: int, reason: str, line: bytes) -> Frame:
    """Refuse a message that is not parsed, by the id with which it begins or ends; an answer gets none."""
    head, end = _LEADING.match(line[:EDGE_BYTES]), _TRAILING.search(line[-EDGE_BYTES:])
    leading, trailing = head[0] if head else b"", end[0] if end else b""
    if code == PARSE_ERROR and (bare := _STRING.sub(b"", _ESCAPED.sub(b"", line))).count(b"{") != bare.count(b"}"):
        trailing = b""  # it was cut off, perhaps in its parameters
    members, identifier = dict(_MEMBER.findall(leading + trailing)), None
    if head and head["answer"] and b"method" not in members:
        return Frame()
    with suppress(ValueError):
        identifier = json.loads(members.get(b"id", b"null"))
    return refusal(reason, _returnable(identifier), code)


def _returnable(identifier: Any) -> Any:
    """Return an id that can be sent back (a string or a finite number), else None."""
    if isinstance(identifier, bool) or not isinstance(identifier, int | float | str):
        return None
    return identifier if isinstance(identifier, int | str) or math.isfinite(identifier) else None


def _whole(value: Any) -> Any:
    """Replace lone surrogates, from clients that truncate a text, by U+FFFD."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_TOO_LONG = f"A message cannot be larger than {FRAME_BYTES} bytes."
_ID = "`id` must be a string or a whole number."
