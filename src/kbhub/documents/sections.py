"""Locate a section of a document by its heading."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbhub.types import Document, Heading


def section(document: Document, heading: str) -> tuple[int, int] | None:
    """Return the lines of a section: from its heading to the next of the same or a higher level.

    Args:
        document: the document.
        heading: text of the heading, or the last headings of its path joined by ` > `; case is ignored, and a GitHub
            anchor (`roll-back`) works too.

    Returns:
        (first line, last line), from 1; None if there is no such heading.
    """
    parts = [_folded(part) for part in re.split(r"(?<=\s)>(?=\s)", heading)]
    path: list[Heading] = []
    for number, candidate in enumerate(document.headings):
        path = [above for above in path if above.level < candidate.level] + [candidate]
        names = [_folded(above.text) for above in path]
        if names[-len(parts) :] == parts or (len(parts) == 1 and anchor(candidate.text) == anchor(heading)):
            following = (later.line for later in document.headings[number + 1 :] if later.level <= candidate.level)
            return candidate.line, next(following, len(document.lines) + 1) - 1
    return None


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold().strip().strip("#").strip()


def anchor(text: str) -> str:
    """Return the anchor that GitHub generates for a heading."""
    return re.sub(r"[^\w\- ]", "", text.casefold().strip()).replace(" ", "-")
