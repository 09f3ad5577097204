"""Untrusted text made safe in an answer for a model: on one line, within quotes or fences that it cannot close."""

from __future__ import annotations

import re

TITLE_BYTES = 160
"""UTF-8 bytes shown of a title with its headings."""

LONG_FENCE = 40
"""Run of backticks beyond which the fence uses tildes, so that hostile text cannot double the length of the answer."""

_BREAKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# Bidirectional controls, zero-width and tag characters can make a text look like another.
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_QUOTES = str.maketrans({'"': "'", "`": "'", "·": "-"})


def one_line(text: str, limit: int) -> str:
    """Put a text on one line, remove invisible characters, and cut it at `limit` UTF-8 bytes, with `…` if cut."""
    # Slice first to save work on long texts; `limit` bytes hold at most `limit` characters.
    line = text[: 8 * limit]
    if not line.isascii():
        line = _SURROGATES.sub("\ufffd", _INVISIBLE.sub("", line))
    return cut(_BREAKS.sub(" ", line).strip(), limit)


def quoted(text: str, limit: int) -> str:
    """Return a text on one line in double quotes; quotes and backticks inside are replaced."""
    return f'"{bare(text, limit)}"'


def bare(text: str, limit: int) -> str:
    """Return a text like `quoted`, but without the surrounding quotes."""
    return one_line(text, limit).translate(_QUOTES)


def fenced(text: str) -> str:
    """Put a text, verbatim, into a code fence that it cannot close."""
    ticks, tildes = (max(map(len, re.findall(f"{mark}+", text)), default=0) for mark in "`~")
    fence = "`" * max(3, ticks + 1)
    if ticks > LONG_FENCE > tildes:
        fence = "~" * max(3, tildes + 1)
    return f"{fence}\n{_SURROGATES.sub(chr(0xFFFD), text)}\n{fence}"


def outdated_mark(why: str) -> str:
    """Return the mark of an outdated document, with the untrusted reason from its own text."""
    return f"outdated: {bare(why, TITLE_BYTES)}"


def cut(text: str, limit: int) -> str:
    """Cut a text at a number of UTF-8 bytes, marked with `…`."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    return raw[: limit - len("…".encode())].decode("utf-8", "ignore").rstrip() + "…"
