"""Where a section of a document begins and ends."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbhub.types import Document


def section(document: Document, heading: str) -> tuple[int, int] | None:
    """Find the lines of a section: from its heading to the next of the same or a higher level.

    Args:
        document: the document.
        heading: text of the heading, or the last headings of its path joined by ` > `; case does not matter,
            and a GitHub anchor (`roll-back`) serves too.

    Returns:
        (first line, last line), from 1; none if there is no such heading.
    """
    wanted = [_folded(part) for part in re.split(r"(?<=\s)>(?=\s)", heading)]
    path: list[tuple[int, str]] = []
    for number, one in enumerate(document.headings):
        path = [above for above in path if above[0] < one.level] + [(one.level, one.text)]
        names = [_folded(text) for _, text in path]
        if names[-len(wanted) :] == wanted or (len(wanted) == 1 and anchor(one.text) == anchor(heading)):
            following = (later.line for later in document.headings[number + 1 :] if later.level <= one.level)
            return one.line, next(following, len(document.lines) + 1) - 1
    return None


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold().strip().strip("#").strip()


def anchor(text: str) -> str:
    """Give the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", text.casefold().strip()).replace(" ", "-")
