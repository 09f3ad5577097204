"""Whether a document has the anchor that a link's fragment names."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING

from kbhub.documents.markdown import parse_document
from kbhub.workspace.formats import is_markdown

if TYPE_CHECKING:
    from kbhub.types import Document

NEAR_ENOUGH = 0.7
"""Minimum similarity (0 to 1, difflib's ratio) of a heading that is suggested in place of a missing one."""

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
"""Fragments other than headings: lines of a file, a text to highlight, a page, the top."""


class Anchors:
    """The anchors of a document.

    Programs derive anchors from headings differently (case, spaces, punctuation), so only letters and digits count.

    Args:
        path: the document.
        text: its full text.
    """

    def __init__(self, path: str, text: str) -> None:
        self._document = parse_document(path, text.encode("utf-8", "replace"))
        self._headings: Counter[str] = Counter()
        for heading in (*(heading.text for heading in self._document.headings), *_HTML_HEADING.findall(text)):
            self._headings.update(filter(None, _forms(heading)))
        self._named = set(_explicit(text, self._document))
        self._blocks = {match[1] for line in self._document.lines if (match := _BLOCK.search(line))}

    def has(self, fragment: str) -> bool:
        """Return whether a fragment names an anchor of the document.

        Args:
            fragment: decoded, without `#`; `Heading#Part` names a subsection.
        """
        if fragment.startswith("^"):
            return fragment[1:] in self._blocks
        name = fragment.rpartition("#")[2].strip()
        key = _squashed(name)
        if not key or _OTHER_MEANING.fullmatch(name) or key in self._headings or name in self._named:
            return True
        if key in map(_squashed, self._named):
            return True
        repeated = _NUMBERED.fullmatch(name)
        return repeated is not None and self._headings[_squashed(repeated[1])] > int(repeated[2][:3])

    def near(self, fragment: str) -> str:
        """Return the heading that was probably meant, or ""."""
        key = _squashed(fragment.rpartition("#")[2])
        headings = {_squashed(heading.text): heading.text for heading in reversed(self._document.headings)}
        matches = difflib.get_close_matches(key, list(filter(None, headings)), n=1, cutoff=NEAR_ENOUGH)
        return headings[matches[0]] if matches else ""


def takes_fragments(path: str) -> bool:
    """Return whether fragments of links to a file name headings, as in Markdown."""
    return is_markdown(path)


def _forms(heading: str) -> set[str]:
    """Return the forms of a heading: as written, as rendered, and without its number."""
    shown = _ELEMENT.sub("", _LINK.sub(r"\1", _WIKILINK.sub(r"\1", heading)))
    return {_squashed(heading), _squashed(shown), _squashed(_LEADING_NUMBER.sub("", shown))}


def _explicit(text: str, document: Document) -> list[str]:
    anchors = [next(group for group in match.groups() if group) for match in _ID.finditer(text)]
    for heading in document.headings:
        anchors += (match[1] for match in _BRACES.finditer(document.lines[heading.line - 1]))
    return anchors


def _squashed(text: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFC", text).casefold() if letter.isalnum())
