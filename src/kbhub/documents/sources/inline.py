"""The text of a paragraph of HTML being read: white space, emphasis, code and links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from kbhub.documents.sources.markdown_writer import code_span

LINK_CHARACTERS = 2000
"""Longest destination of a link, as the parser of Markdown reads it."""

_KINDS = {
    "a": "a",
    **dict.fromkeys(("strong", "b"), "**"),
    **dict.fromkeys(("em", "i", "cite", "dfn", "var"), "*"),
    **dict.fromkeys(("code", "tt", "kbd", "samp"), "`"),
    "sup": "^",
    "q": '"',
}
"""Name of an element → kind of its markup."""

_BREAK = "\0"
"""A line break within a paragraph; the text itself has no such character."""

_INVISIBLE = str.maketrans("", "", "\u00ad\u200b\u2060\ufeff")
_DESTINATION_BREAKERS = re.compile(r"[\s()<>\\]")
_RAISED = re.compile(r"[-+−]?\d+")
_NOT_LINKS = re.compile(r"(?:javascript|data|vbscript|blob|about|file|cid):", re.IGNORECASE)


@dataclass(slots=True)
class _Mark:
    """An open inline element."""

    kind: str
    start: int
    """Index of its first piece of text."""
    target: str = ""
    """Where a link leads; empty if nowhere else."""
    inner: bool = False
    """Whether a link leads to a place of the same document."""
    note: bool = False
    """Whether that is a footnote."""


class Inline:
    """Pieces of text since the last block, and the inline elements that are open."""

    def __init__(self) -> None:
        self.plain = False
        """Whether emphasis is left out, as in a heading."""
        self.filled = False
        """Whether there is text other than white space."""
        self._pieces: list[str] = []
        self._marks: list[_Mark] = []
        self._codes = 0

    def add(self, text: str) -> None:
        """Add text, escaped where it would be a link."""
        if "[" in text or "](" in text:
            text = text if self._codes else text.replace("[[", r"\[[").replace("](", r"]\(")
        self.filled = self.filled or not text.isspace()
        self._pieces.append(text)

    def add_break(self) -> None:
        """Add a line break."""
        self._pieces.append(_BREAK)

    def open(self, tag: str, attributes: dict[str, str]) -> None:
        """Open an element; one without markup changes nothing."""
        kind = _KINDS.get(tag)
        if kind == "a":
            self.close("a")
        if kind is None or any(mark.kind == kind for mark in self._marks):
            return
        mark = _Mark(kind, len(self._pieces))
        if kind == "a":
            target = attributes.get("href", "").strip().replace("\n", "")
            mark.inner = target.startswith("#")
            named = attributes.get("role") == "doc-noteref" or "footnote" in attributes.get("class", "")
            mark.note = named or any(known.kind == "^" for known in self._marks)
            mark.target = "" if mark.inner or _NOT_LINKS.match(target) or len(target) > LINK_CHARACTERS else target
        self._codes += kind == "`"
        self._marks.append(mark)

    def close(self, tag: str) -> None:
        """Close an element; one that is not open changes nothing."""
        kind = _KINDS.get(tag)
        if all(mark.kind != kind for mark in self._marks):
            return
        while True:
            mark = self._marks.pop()
            self._wrap(mark)
            self._codes -= mark.kind == "`"
            if mark.kind == kind:
                return

    def take(self) -> str:
        """Return the text since the last block, with line feeds for breaks, and start the next block."""
        kept = []
        for mark in reversed(self._marks):
            # Emphasis goes on in the next block; a link is shown once.
            self._wrap(mark)
            if mark.kind == "a" and self.filled:
                continue
            mark.start = 0
            kept.append(mark)
        self._marks = kept[::-1]
        text = "".join(self._pieces).translate(_INVISIBLE)
        self._pieces.clear()
        self.filled = False
        lines = (" ".join(line.split()) for line in text.split(_BREAK))
        return "\n".join(line for line in lines if line)

    def _wrap(self, mark: _Mark) -> None:
        """Write the markup of an element around its text."""
        text = "".join(self._pieces[mark.start :])
        core = text.strip()
        if not core or not self.filled:
            return
        shown = self._marked(mark, core)
        before = text[: len(text) - len(text.lstrip())]
        if shown and mark.kind == shown[: len(mark.kind)] and not before and self._ends_with(mark):
            self._pieces[mark.start - 1] = self._pieces[mark.start - 1][: -len(mark.kind)]
            shown = shown[len(mark.kind) :]
        self._pieces[mark.start :] = [before + shown + text[len(text.rstrip()) :]]

    def _ends_with(self, mark: _Mark) -> bool:
        """Whether the same emphasis ends just before, so that the two can be one."""
        if mark.kind not in ("*", "**") or not mark.start:
            return False
        tail = self._pieces[mark.start - 1][-4:]
        stars = len(tail) - len(tail.rstrip("*"))
        return stars == len(mark.kind) < len(tail) and not tail[-stars - 1].isspace()

    def _marked(self, mark: _Mark, core: str) -> str:
        if mark.kind == "a":
            return self._linked(mark, core)
        if mark.kind == "^":
            return f"^{core}" if _RAISED.fullmatch(core) else core
        if mark.kind == '"':
            return f"“{core}”"
        if mark.kind == "`":
            return code_span(" ".join(core.replace(_BREAK, " ").split()))
        if self.plain or self._codes or _BREAK in core:
            return core
        return f"{mark.kind}{core}{mark.kind}"

    def _linked(self, mark: _Mark, core: str) -> str:
        if mark.inner:
            number = core.strip("[]^")
            if number.isalnum() and (mark.note or core[0] == "^"):
                return f"[^{number}]"
            # Signs that lead to the heading itself, or back from a footnote, say nothing.
            return core if any(letter.isalnum() for letter in core) else ""
        if not mark.target:
            return core
        text = core.replace(_BREAK, " ")
        if text.count("[") != text.count("]"):
            text = re.sub(r"(?<!\\)([\[\]])", r"\\\1", text)
        return f"[{text}]({_DESTINATION_BREAKERS.sub(lambda match: quote(match[0]), mark.target)})"
