"""Text of strangers, made harmless for a model: on one line, between quotes or fences that it cannot end."""

from __future__ import annotations

import re

TITLE_BYTES = 160
"""UTF-8 bytes shown of a title with its headings."""

LONG_FENCE = 40
"""Backticks in a row from which tildes fence a text, so that a hostile one does not double its length."""

_BREAKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# Bidirectional overrides and isolates, zero-width and tag characters can make a text look like another.
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_QUOTES = str.maketrans({'"': "'", "`": "'", "·": "-"})


def one_line(text: str, limit: int) -> str:
    """Give a text on one line, without characters that cannot be seen, cut at `limit` UTF-8 bytes.

    Args:
        text: any string.
        limit: bytes at most, the mark of the cut included.
    """
    # What is cut away need not be looked at; a byte of UTF-8 holds at most one character.
    line = _BREAKS.sub(" ", _SURROGATES.sub("\ufffd", _INVISIBLE.sub("", text[: 8 * limit]))).strip()
    return cut(line, limit)


def quoted(text: str, limit: int) -> str:
    """Give a text on one line in double quotes, which it cannot end, and without backticks."""
    return f'"{one_line(text, limit).translate(_QUOTES)}"'


def fenced(text: str) -> str:
    """Put a text, verbatim, into a code fence that no line of it closes."""
    ticks, tildes = (max(map(len, re.findall(f"{mark}+", text)), default=0) for mark in "`~")
    fence = "`" * max(3, ticks + 1)
    if ticks > LONG_FENCE > tildes:
        fence = "~" * max(3, tildes + 1)
    return f"{fence}\n{_SURROGATES.sub(chr(0xFFFD), text)}\n{fence}"


def outdated_mark(why: str) -> str:
    """Say that a document no longer holds by its own word, which is a stranger's text."""
    return f"outdated: {quoted(why, TITLE_BYTES)[1:-1]}"


def cut(text: str, limit: int) -> str:
    """Cut a text at a number of UTF-8 bytes, marked with `…`."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    return raw[: limit - len("…".encode())].decode("utf-8", "ignore").rstrip() + "…"
