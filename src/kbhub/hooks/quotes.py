"""Text as data: every line is quoted, nothing in it can end the quote or look like a tag of the client's."""

from __future__ import annotations

import re

from kbhub.documents.safe_text import bare, one_line

_TAG = re.compile(r"<(?=[/!?A-Za-z|])")
"""What could begin a tag: clients put what hooks say between tags of their own (`<system-reminder>`)."""

_MARKERS = re.compile(r"(?im)^[\s>*_#-]*(system|assistant|user|human|developer|tool)[\s*_]*:|\[/?INST\]|<\|")
"""What could be taken for a turn of the conversation."""

BYTES_PER_TOKEN = 3.2
"""UTF-8 bytes of a token, fewer than any of the clients' models take for Markdown in English (3.6 to 4.4)."""


def as_data(text: str, limit: int) -> str:
    """Return a text as a one-line quote of at most `limit` UTF-8 bytes, not counting the quote mark."""
    return f"> {inert(text, limit)}"


def named(text: str, limit: int) -> str:
    """Return a title or subject in double quotes that it cannot close; `limit` in UTF-8 bytes, without the quotes."""
    return f'"{inert(bare(text, limit), limit)}"'


def inert(text: str, limit: int) -> str:
    """Return a text on one line in which nothing is a tag or a turn of a conversation."""
    plain = _TAG.sub("‹", one_line(text, limit))
    return _MARKERS.sub(lambda match: match[0].replace(":", "").replace("[", "(").replace("<", "‹"), plain)


def tokens(text: str) -> int:
    """Return how many tokens a text takes at most."""
    return round(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN + 0.5)
