"""Whether two memories have the same wording.

Cosine similarity cannot decide this: with the packaged model, 20 pairs of sentences with the same meaning (in
`tests/memory_pairs.py`) score .62 to .99, and 20 contradicting pairs (another number, `npm` for `pnpm`, "always" for
"never") .60 to 1.00. Treating a contradiction as a repetition would lose what was to be remembered. So two memories are
the same if they have the same words in the same order, apart from inflection, case, articles and punctuation at the end
of words; similar ones are stored and reported.
"""

from __future__ import annotations

import base64
import hashlib
import re

from kbhub.index.query import normalise, stems

NEAR_SIMILARITY = 0.65
"""Cosine from which a memory is reported as near: of the pairs above it finds 19 of 20 with the same meaning, 18 of 20
that contradict each other, and 1 of 16 about another aspect of the same thing (.23 to .57, one .77)."""

NEAR_SHOWN = 3
"""Limit of near memories that are reported."""

ID_CHARACTERS = 8
"""Length of an id: 40 bits, so with 10,000 memories one user in 20,000 has a collision."""

_SILENT = frozenset({"a", "an", "the", "is", "are", "was", "were", "be", "been", "it", "its", "that", "this"})
"""Words without meaning of their own: articles, forms of "be", pronouns."""

_AROUND = "*\"'“”‘’`()"
_AFTER = ".,;:!?"
_LIST_MARK = re.compile(r"^\s*(?:[-*+>]|#{1,6}|\d+[.)])\s+", re.MULTILINE)


def wording(text: str) -> str:
    """Return the normalised words of a text; memories with equal wording are the same."""
    plain = normalise(_LIST_MARK.sub("", text)).casefold()
    words = [word for part in plain.split() if (word := _word(part)) and word not in _SILENT]
    return " ".join(words) or plain.strip()


def id_of(text: str, attempt: int = 0) -> str:
    """Derive an id from a text's wording, so that two agents that remember the same thing write one file.

    Args:
        text: the memory's text.
        attempt: incremented while another memory has the id.
    """
    digest = hashlib.sha256(f"{wording(text)}\0{attempt or ''}".encode("utf-8", "replace")).digest()
    return base64.b32encode(digest)[:ID_CHARACTERS].decode("ascii").lower()


def _word(part: str) -> str:
    word = part.strip(_AROUND).rstrip(_AFTER).strip(_AROUND)
    # Identifiers, paths, numbers and operators must match exactly.
    return " ".join(stems(word)) if word.isalpha() and word.isascii() else word
