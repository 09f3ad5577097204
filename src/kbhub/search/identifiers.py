"""Detect words of a query that are names in programs."""

from __future__ import annotations

import re

_IDENTIFIER = re.compile(
    r"\w(?:::|->|[_\-./:@#$])\w|^[-_/.@$#]+\w|[a-z][A-Z]|\(\)$|^[A-Z][A-Z0-9_]{2,}$|\d[A-Za-z]|[A-Za-z]\d"
)
"""`max_retries`, `--locked`, `camelCase`, `main()`, `PATH`, `/api/v1`, `utf8`; also `third-party`, for which a verbatim
search does no harm."""

_JOINED_WORDS = re.compile(r"[A-Za-z][a-z]*(?:[-/.'’][a-z]+)+")
"""Ordinary words joined by a mark: `third-party`, `client/server`, `e.g`."""

_PUNCTUATION = ".,;:!?\"'()"


def is_identifier(text: str) -> bool:
    """Return whether a word looks like a name in a program."""
    return _IDENTIFIER.search(text) is not None


def is_name(text: str) -> bool:
    """Return whether a word can only be a name: an identifier that is not made of ordinary words."""
    bare = text.strip(_PUNCTUATION)
    return is_identifier(text) and not any(map(str.isspace, bare)) and _JOINED_WORDS.fullmatch(bare) is None
