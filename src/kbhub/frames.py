"""One line of the wire → a JSON-RPC message, or the error that answers it. Light: every editor window loads it.

The SDK's transports pass over what they cannot read, and a client then waits for ever. Here every line with an id
gets an answer, and nothing is read that would take more memory than a message may.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FRAME_BYTES = 4 * 1024 * 1024
"""Bytes of the longest message, over every transport: forty times the longest document in the vaults at hand. Read as
JSON it takes up to six times as much."""

MOST_VALUES = 50_000
"""Values in a message: each takes up to 300 bytes however short it is written (`{}`)."""

DEEPEST = 100
"""Levels of nesting; parsers give up somewhere between 200 and 1,000."""

PARSE_ERROR, INVALID_REQUEST = -32700, -32600
"""Codes of JSON-RPC 2.0."""

_MARK = b"\xef\xbb\xbf"
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_STRING = re.compile(rb'"[^"]*(?:"|\Z)')
_BRACKETS = re.compile(rb"[\[{]+|[\]}]+")
_LONGEST_ID = 256
"""Bytes of an id that is looked for in what cannot be read."""
_TELLING = ("method", "result", "error")
"""Members that tell requests and answers apart."""


class Frame(NamedTuple):
    """What a line is. Neither a message nor a refusal: nothing is to be done about it."""

    line: bytes = b""
    """As it can be passed on: UTF-8, no lone surrogates."""
    message: dict[str, Any] | None = None
    """A request, a notification or an answer."""
    refusal: dict[str, Any] | None = None
    """The JSON-RPC error to send back."""

    @property
    def refused(self) -> bytes:
        """The refusal as a line."""
        return json.dumps(self.refusal).encode() + b"\n"


class Frames:
    """Cuts what comes from a client into frames, and keeps no more of it than one may have."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._outline: Outline | None = None

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Give the frames that end in what has come."""
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._add(piece)
            yield self.end()
        self._add(rest)

    def end(self) -> Frame:
        """Give what has come since the last frame as one."""
        line, outline = bytes(self._line), self._outline
        self._line.clear()
        self._outline = None
        return read(line) if outline is None else _refused(INVALID_REQUEST, _TOO_LONG, outline)

    def _add(self, piece: bytes) -> None:
        if self._outline is None and len(self._line) + len(piece) <= FRAME_BYTES:
            self._line += piece
            return
        if self._outline is None:
            self._outline = Outline(self._line)
            self._line.clear()
        self._outline.feed(piece)


class Outline:
    """What can be told of a message that is not read: the id to answer to. Takes any amount, and keeps next to none.

    Args:
        begun: its first bytes.
    """

    _QUOTED = re.compile(rb'["\\]')
    _TOP = re.compile(rb'["{}\[\],:]')
    _DEEP = re.compile(rb'["{}\[\]]')

    def __init__(self, begun: bytes | bytearray = b"") -> None:
        self._depth = 0
        self._quoted = self._escaped = False
        self._text = b""
        self._key: Any = None
        self._names: set[str] = set()
        self._id = b""
        self.feed(bytes(begun))

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        at = 0
        while at < len(data):
            if self._escaped:
                self._escaped = False
                self._keep(data[at : at + 1])
                at += 1
                continue
            wanted = self._QUOTED if self._quoted else self._TOP if self._depth <= 1 else self._DEEP
            found = wanted.search(data, at)
            self._keep(data[at : found.start() if found else len(data)])
            if found is None:
                return
            self._take(found.group())
            at = found.end()

    @property
    def answerable(self) -> bool:
        """Whether it may be a request: what has a result or an error is an answer, and has none."""
        return "method" in self._names or not {"result", "error"} & self._names

    @property
    def id(self) -> Any:
        """The id, none if it has none that can be given back."""
        return _returnable(_loaded(self._id))

    def _take(self, mark: bytes) -> None:
        if self._quoted or mark == b'"':
            self._keep(mark)
            self._quoted = self._quoted != (mark == b'"')
            self._escaped = mark == b"\\"
        elif mark in b"[{":
            self._depth += 1
        elif mark in b"]}":
            self._close()
            self._depth -= 1
        elif mark == b":":
            self._key, self._text = _loaded(self._text), b""
            if self._depth == 1 and self._key in _TELLING:
                self._names.add(self._key)
        else:
            self._close()

    def _keep(self, piece: bytes) -> None:
        if self._depth == 1 and len(self._text) <= _LONGEST_ID:
            self._text += piece[: _LONGEST_ID + 1]

    def _close(self) -> None:
        """A member of the message ends here."""
        if self._depth == 1:
            self._id = self._text if self._key == "id" else self._id
            self._key, self._text = None, b""


def frames(pieces: Iterable[bytes]) -> Iterator[Frame]:
    """Give the frames of a stream, the last one also where its end is missing."""
    cut = Frames()
    for piece in pieces:
        yield from cut.feed(piece)
    yield cut.end()


def read(line: bytes) -> Frame:
    """Read one line.

    Args:
        line: without its end; UTF-8 with or without byte order mark, other bytes are replaced.
    """
    line = line.removeprefix(_MARK).strip()
    if not line:
        return Frame()
    if len(line) > FRAME_BYTES:
        return _refused(INVALID_REQUEST, _TOO_LONG, Outline(line))
    if reason := too_much(line):
        return _refused(INVALID_REQUEST, reason, Outline(line))
    text = line.decode("utf-8", "replace")
    try:
        message = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return _refused(PARSE_ERROR, "The message is not JSON.", Outline(line))
    if "\\ud" in text or "\\uD" in text:
        if isinstance(message, dict) and message.get("id") != _whole(message.get("id")):
            return refusal(_ID, message["id"])
        message = _whole(message)
        line = json.dumps(message).encode()
    elif "\ufffd" in text:
        line = text.encode()
    return _shaped(line, message)


def refusal(reason: str, identifier: Any, code: int = INVALID_REQUEST) -> Frame:
    """Give what answers a message that is not served.

    Args:
        reason: a sentence.
        identifier: of the message, none if it has none that can be given back.
        code: of the error.
    """
    error = {"code": code, "message": reason}
    return Frame(refusal={"jsonrpc": "2.0", "id": identifier, "error": error})


def too_much(line: bytes) -> str:
    """Say what JSON has too much of, as far as can be told before it is read; empty if nothing.

    Args:
        line: its text.
    """
    if sum(map(line.count, (b"[", b"{"))) <= DEEPEST and line.count(b",") <= MOST_VALUES:
        return ""
    bare = _STRING.sub(b"", _ESCAPED.sub(b"", line))
    if sum(map(bare.count, (b"[", b"{", b","))) > MOST_VALUES:
        return f"More than {MOST_VALUES:,} values in a message are not read."
    depth = 0
    for run in _BRACKETS.finditer(bare):
        depth += len(run.group()) if run.group()[:1] in b"[{" else -len(run.group())
        if depth > DEEPEST:
            return f"More than {DEEPEST} levels in a message are not read."
    return ""


def _shaped(line: bytes, message: Any) -> Frame:
    """Tell messages from what is none."""
    if not isinstance(message, dict):
        batch = "Batches are not served: send one message a line." if isinstance(message, list) else _NO_OBJECT
        return refusal(batch, None)
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


def _refused(code: int, reason: str, outline: Outline) -> Frame:
    return refusal(reason, outline.id, code) if outline.answerable else Frame()


def _returnable(identifier: Any) -> Any:
    """Give an id as it can be given back: a string or a finite number; none for others."""
    if isinstance(identifier, bool) or not isinstance(identifier, int | float | str):
        return None
    return identifier if isinstance(identifier, int | str) or math.isfinite(identifier) else None


def _whole(value: Any) -> Any:
    """Give a value whose strings have U+FFFD for halves of characters, as clients make them that cut a text."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole(one) for one in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(one) for key, one in value.items()}
    return value


def _loaded(text: bytes) -> Any:
    """Give a short JSON value; none for what is too long or no JSON."""
    try:
        return json.loads(text) if len(text) <= _LONGEST_ID else None
    except (ValueError, RecursionError):
        return None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_TOO_LONG = f"A message has at most {FRAME_BYTES} bytes."
_NO_OBJECT = "The message is not an object."
_ID = "`id` must be a string or a whole number."
