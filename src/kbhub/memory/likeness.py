"""Whether two memories say the same.

Cosine similarity cannot tell: with the packaged model, of 20 pairs of sentences that mean the same (in
`tests/memory_pairs.py`) the similarities are .62 to .99, and of 20 pairs that contradict each other (another number,
`npm` and `pnpm` exchanged, "always" and "never") .60 to 1.00. Taking a contradiction for a repetition would lose what
was to be remembered. So the same is what has the same words in the same order, inflection, case, punctuation at the
end of words and articles apart; what is near is kept and offered back.
"""

from __future__ import annotations

import base64
import hashlib
import re

from kbhub.query import normalise, stems

NEAR_SIMILARITY = 0.65
"""Cosine from which a memory is offered back as near: of the pairs above it finds 19 of 20 that mean the same, 18 of
20 that contradict each other, and 1 of 16 about the same thing in another respect (.23 to .57, one .77)."""

NEAR_SHOWN = 3
"""Near memories that are offered back."""

ID_CHARACTERS = 8
"""Characters of an id: 40 bits, so that two of 10,000 memories share one in 1 of 20,000 users."""

_SILENT = frozenset({"a", "an", "the", "is", "are", "was", "were", "be", "been", "it", "its", "that", "this"})
"""Words that say nothing of their own: articles, forms of "be", pronouns."""

_AROUND = "*\"'“”‘’`()"
_AFTER = ".,;:!?"
_LIST_MARK = re.compile(r"^\s*(?:[-*+>]|#{1,6}|\d+[.)])\s+", re.MULTILINE)


def wording(text: str) -> str:
    """Give the words of a text as two texts that say the same have them: equal means the same memory."""
    plain = normalise(_LIST_MARK.sub("", text)).casefold()
    words = [word for part in plain.split() if (word := _word(part)) and word not in _SILENT]
    return " ".join(words) or plain.strip()


def id_of(text: str, attempt: int = 0) -> str:
    """Give an id that follows from what a text says, so that two agents that remember the same write one file.

    Args:
        text: what is remembered.
        attempt: counts up where an id is another memory's already.
    """
    digest = hashlib.sha256(f"{wording(text)}\0{attempt or ''}".encode("utf-8", "replace")).digest()
    return base64.b32encode(digest)[:ID_CHARACTERS].decode("ascii").lower()


def _word(part: str) -> str:
    word = part.strip(_AROUND).rstrip(_AFTER).strip(_AROUND)
    # An identifier, a path, a number or an operator is the same only if each character is.
    return " ".join(stems(word)) if word.isalpha() and word.isascii() else word
