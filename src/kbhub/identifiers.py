"""Which words of a query are names of things in programs."""

from __future__ import annotations

import re

_IDENTIFIER = re.compile(
    r"\w(?:::|->|[_\-./:@#$])\w|^[-_/.@$#]+\w|[a-z][A-Z]|\(\)$|^[A-Z][A-Z0-9_]{2,}$|\d[A-Za-z]|[A-Za-z]\d"
)
"""`max_retries`, `--locked`, `camelCase`, `main()`, `PATH`, `/api/v1`, `utf8`; also `third-party`, which is as well
searched for letter for letter."""

_JOINED_WORDS = re.compile(r"[A-Za-z][a-z]*(?:[-/.'’][a-z]+)+")
"""Words of a language with a mark between them: `third-party`, `client/server`, `e.g`."""

_PUNCTUATION = ".,;:!?\"'()"


def is_identifier(text: str) -> bool:
    """Say whether a word looks like a name in a program and not like one of a language."""
    return _IDENTIFIER.search(text) is not None


def is_name(text: str) -> bool:
    """Say whether a word can only be a name: an identifier that is not made of words of a language."""
    bare = text.strip(_PUNCTUATION)
    return is_identifier(text) and not any(map(str.isspace, bare)) and _JOINED_WORDS.fullmatch(bare) is None
