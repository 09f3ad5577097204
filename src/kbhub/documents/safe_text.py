"""Untrusted text made safe for a model (on one line, within quotes or fences that it cannot close), and from one."""

from __future__ import annotations

import html
import re

TITLE_BYTES = 160
"""UTF-8 bytes shown of a title with its headings."""

LONG_FENCE = 40
"""Run of backticks beyond which the fence uses tildes, so that hostile text cannot double the length of the answer."""

# Code spans keep their content; elsewhere strong emphasis, links, anchors and escapes lose their markup.
_INLINE = re.compile(
    r"(?P<ticks>`{1,3})(?P<code>[^`]+)(?P=ticks)(?!`)|\*\*|!?\[(?P<text>[^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])"
    r"|</?(?:a|abbr|b|br|code|em|i|kbd|small|span|strong|sub|sup)(?:\s[^<>]*)?/?>|\\(?P<escaped>[!-/:-@\[-`{-~])|(?P<entity>&[a-zA-Z#][a-zA-Z0-9]{1,31};)"
)

_BREAKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# Bidirectional controls, zero-width and tag characters can make a text look like another.
_MARKS = "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"
_INVISIBLE = re.compile(f"[{_MARKS}]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_EMPTY_LINES = re.compile(r"(?:\n[ \t>]*)+\Z|\n(?:[ \t>]*\n){2,}")
_CONTROL = re.compile(
    r"<(?=[|｜])|(?<=[|｜])>"  # ChatML and others: <|im_start|>, <｜User｜>
    r"|<(?=/?(?:s|bos|eos|pad|unk|think|thinking|start_of_turn|end_of_turn|start_of_image|tool_call|tool_response)>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])|<(?=</?SYS>>)",
    re.IGNORECASE,
)
"""Where control tokens of chat templates begin or end. Servers tokenize them wherever they occur, so a document could
speak as the system."""

_THINKING = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_UNSEEN = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f{_MARKS}]")
"""And control characters: a NUL ends the text for a server in C. The joiners that scripts and emojis need stay."""
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


REJECTED = "tried, and not taken"
"""The mark of a memory of such a way."""


def outdated_mark(why: str) -> str:
    """Return the mark of an outdated document, with the untrusted reason from its own text."""
    return f"outdated: {bare(why, TITLE_BYTES)}"


def compact(text: str) -> str:
    """Return a text with one empty line for several, also in quotes, and none at its ends."""
    return _EMPTY_LINES.sub("\n\n", text).strip("\n")


def cut(text: str, limit: int) -> str:
    """Cut a text at a number of UTF-8 bytes, marked with `…`."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    return raw[: limit - len("…".encode())].decode("utf-8", "ignore").rstrip() + "…"


def sendable(text: str) -> str:
    """Remove invisible characters from a text, and break up the control tokens of chat templates with a space."""
    return _CONTROL.sub(lambda match: f" {match[0]}" if match[0] == ">" else f"{match[0]} ", seen(text))


def seen(text: str) -> str:
    """Remove invisible characters from a text, and replace lone surrogates, which cannot be encoded."""
    return _SURROGATES.sub("\ufffd", _UNSEEN.sub("", text))


def without_thinking(text: str) -> str:
    """Remove a model's thinking from its answer, even if its opening or closing tag is missing."""
    kept: list[str] = []
    thinking, at = False, 0
    for tag in _THINKING.finditer(text):
        if not thinking:
            kept.append(text[at : tag.start()])
        if tag[1] and not thinking:  # the opening tag is missing
            kept.clear()
        thinking, at = not tag[1], tag.end()
    return "".join([*kept, "" if thinking else text[at:]]).strip()


def unmarked(text: str) -> str:
    """Return Markdown of a line without the markup of code, strong emphasis, links and HTML."""
    return text if text.isalnum() else _INLINE.sub(_unmarked, text)


def _unmarked(match: re.Match[str]) -> str:
    if match["entity"]:
        return html.unescape(match["entity"])
    return match["code"] or match["text"] or match["escaped"] or ""
