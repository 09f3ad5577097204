"""Whether a document has the place that a link's fragment names."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING

from kbhub.markdown import MARKDOWN_SUFFIXES, parse_document

if TYPE_CHECKING:
    from kbhub.types import Document

NEAR_ENOUGH = 0.7
"""Similarity (0 to 1, difflib's ratio) from which a heading is suggested for one that is not there."""

_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])")
_WIKILINK = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]]*)\]\]")
_ELEMENT = re.compile(r"<[^<>]*>")
_ID = re.compile(r"""\b(?:id|name)\s*=\s*(?:"([^"]+)"|'([^']+)'|([^\s"'<>]+))""", re.IGNORECASE)
_BRACES = re.compile(r"\{[^{}]*#([^\s{}]+)[^{}]*\}")
_HTML_HEADING = re.compile(r"<h[1-6]\b[^<>]*>(.{1,500}?)</h[1-6]>", re.IGNORECASE | re.DOTALL)
_BLOCK = re.compile(r"(?:^|\s)\^([A-Za-z0-9-]+)\s*$")
_NUMBERED = re.compile(r"(.+?)[-_](\d+)")
_LEADING_NUMBER = re.compile(r"^[\d.\s)]+")
_OTHER_MEANING = re.compile(r"L\d+(?:-L?\d+)?|:~:text=.*|page=\d+.*|top", re.DOTALL)
"""Fragments that name no heading: lines of a file, a text to highlight, a page, the top."""


class Anchors:
    """The places of a document that a fragment can name.

    Programs differ in how they make an anchor of a heading (case, blanks, punctuation), so only letters and digits
    count.

    Args:
        path: the document.
        text: all of it.
    """

    def __init__(self, path: str, text: str) -> None:
        self._document = parse_document(path, text.encode("utf-8", "replace"))
        self._headings: Counter[str] = Counter()
        for heading in self._document.headings:
            self._headings.update({one for one in _forms(heading.text) if one})
        for heading_of_html in _HTML_HEADING.findall(text):
            self._headings.update({one for one in _forms(heading_of_html) if one})
        self._named = set(_explicit(text, self._document))
        self._blocks = {match[1] for line in self._document.lines if (match := _BLOCK.search(line))}

    def has(self, fragment: str) -> bool:
        """Say whether a fragment names a place of the document.

        Args:
            fragment: decoded, without `#`; `Heading#Part` is the part of a heading.
        """
        if fragment.startswith("^"):
            return fragment[1:] in self._blocks
        name = fragment.rpartition("#")[2].strip()
        wanted = _squashed(name)
        if not wanted or _OTHER_MEANING.fullmatch(name) or wanted in self._headings or name in self._named:
            return True
        if wanted in {_squashed(one) for one in self._named}:
            return True
        again = _NUMBERED.fullmatch(name)
        return again is not None and self._headings[_squashed(again[1])] > int(again[2][:3])

    def near(self, fragment: str) -> str:
        """Give the heading that was probably meant; empty if none is near enough."""
        wanted = _squashed(fragment.rpartition("#")[2])
        forms = {_squashed(heading.text): heading.text for heading in reversed(self._document.headings)}
        found = difflib.get_close_matches(wanted, [one for one in forms if one], n=1, cutoff=NEAR_ENOUGH)
        return forms[found[0]] if found else ""


def takes_fragments(path: str) -> bool:
    """Say whether fragments of a link to a file name headings: of Markdown they do."""
    return path.lower().endswith(tuple(MARKDOWN_SUFFIXES))


def _forms(heading: str) -> set[str]:
    """Give what a heading may come to: as it is written, as it is shown, and without its number."""
    shown = _ELEMENT.sub("", _LINK.sub(r"\1", _WIKILINK.sub(r"\1", heading)))
    return {_squashed(heading), _squashed(shown), _squashed(_LEADING_NUMBER.sub("", shown))}


def _explicit(text: str, document: Document) -> list[str]:
    found = [next(group for group in match.groups() if group) for match in _ID.finditer(text)]
    for heading in document.headings:
        found += (match[1] for match in _BRACES.finditer(document.lines[heading.line - 1]))
    return found


def _squashed(text: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFC", text).casefold() if letter.isalnum())
