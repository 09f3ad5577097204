"""Write Markdown: blocks within lists, quotes and tables, and text escaped where it would be markup."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from urllib.parse import quote

from kbhub.documents.markdown import scan_blocks
from kbhub.values import struct

SHOWN_CONTAINERS = 16
"""Lists and quotes that one line shows as nested, as many as the parser of Markdown reads; deeper ones look like the
last of them."""

_LISTS = frozenset(("ul", "ol", "dl"))
_FENCE = re.compile(r"`{3,}|~{3,}")
_LIST_MARK = re.compile(r"[^>\s]")
_RUN = re.compile(r"`+")
_UNESCAPED_BAR = re.compile(r"(?<!\\)\|")
_DELIMITERS = frozenset("|:-=_* \t")
_BLOCK_START = re.compile(
    r"#{1,6}(?:\s|$)|>|[-*+](?:\s|$)|\||`{3}|~{3}|<(?:!--|(?:pre|script|style|textarea)(?:[\s>]|$))"
    r"|\[[^\]]{1,999}\]:|:\s",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(\d{1,9})([.)](?:\s|$))")


def escaped(line: str) -> str:
    """Escape the start of a line that would begin a heading, list, quote, table, fence or the like."""
    first = line[:1]
    if first.isalpha() or not first:
        return line
    if first.isdigit():
        return _NUMBER.sub(r"\1\\\2", line, count=1) if _NUMBER.match(line) else line
    if _BLOCK_START.match(line) or (first in _DELIMITERS and not line.strip("|:-=_* \t")):
        return "\\" + line
    return line


def _ticks(text: str) -> str:
    """Return one backtick more than the longest run of them in a text."""
    return "`" + max(_RUN.findall(text), key=len, default="")


def fenced(text: str, language: str = "") -> list[str]:
    """Return a code block whose fence is longer than any run of backticks in it."""
    fence = max("```", _ticks(text), key=len)
    return [fence + language, *text.split("\n"), fence]


def closed(text: str) -> str:
    """Return Markdown with its last code block or comment closed, so that it hides nothing of what follows."""
    lines = text.split("\n")
    blocks = scan_blocks(lines, 0, 0)
    if blocks.fences and blocks.fences[-1][1] >= len(text.rstrip().split("\n")):
        first, last = blocks.fences[-1]
        opening = _FENCE.search(lines[first - 1])
        closing = _FENCE.search(lines[last - 1]) if last > first else None
        if opening and not (closing and closing[0].startswith(opening[0])):
            # Within quotes and lists the closing fence has their marks or indentation: without them it opens a block.
            return f"{text.rstrip()}\n{_LIST_MARK.sub(' ', lines[first - 1][: opening.start()])}{opening[0]}"
    if blocks.raw and blocks.raw[-1][1] == len(lines):
        first, last = blocks.raw[-1]
        if "<!--" in lines[first - 1] and "-->" not in lines[last - 1]:
            return f"{text} -->"
    return text


def cell_text(lines: Sequence[str]) -> str:
    """Return the lines of a table's cell as one, with bars escaped and `<br>` between lines."""
    text = "<br>".join(stripped for line in lines if (stripped := line.strip()))
    return _UNESCAPED_BAR.sub(r"\\|", text)


def pipe_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table of cells from `cell_text`; the first row is the header, and lengths may differ."""
    width = max(map(len, rows))
    header = [*rows[0], *[""] * (width - len(rows[0]))]
    return [_row(header), "|" + " --- |" * width, *map(_row, rows[1:])]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |" if cells else "|  |"


@struct(frozen=False)
class _Container:
    """An open list, item, definition or quote."""

    name: str
    first: str = ""
    rest: str = ""
    """Prefix of all its lines but the first."""
    begun: bool = False
    number: int = 1
    """Number of the next item of an ordered list."""


@struct(frozen=False)
class Cell:
    """A cell of a table, or the document, with its own lines."""

    columns: int = 1
    rows: int = 1
    base: int = 0
    """Number of containers around it."""
    lines: list[str] = field(default_factory=list)
    structured: bool = False
    """Whether it has what no cell of a pipe table can have: a heading, a code block, a table."""


REPEATED_CHARACTERS = 200
"""Longest text of a cell that is repeated in each row that it spans."""


@struct(frozen=False)
class Table:
    """A table that is being read."""

    layout: bool = False
    """Whether its author says that it only arranges things."""
    caption: list[str] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)
    cell: Cell | None = None

    def lines(self, room: int) -> tuple[list[str], int]:
        """Return the lines of the table, if it has text, and the characters of `room` left for repeated cells."""
        grid: list[list[str]] = []
        above: dict[int, tuple[int, str]] = {}
        """Column → last row that a cell from above spans, and its text."""
        for number, row in enumerate(self.rows):
            texts: list[str] = []
            coming: dict[int, tuple[int, str]] = {}
            for cell in row:
                _fill(texts, above, number)
                text = cell_text(cell.lines)
                repeated = text if len(text) <= REPEATED_CHARACTERS else ""
                room -= (len(repeated) + 3) * (cell.rows - 1) + 3 * (cell.columns - 1) * cell.rows
                rows, columns = (cell.rows, cell.columns) if room > 0 else (1, 1)
                if rows > 1:
                    last = number + rows - 1
                    coming[len(texts)] = (last, repeated)
                    coming.update((len(texts) + place, (last, "")) for place in range(1, columns))
                texts += [text, *[""] * (columns - 1)]
            _fill(texts, above, number)
            above |= coming
            if row:
                grid.append(texts)
        return (pipe_table(grid) if any(map(any, grid)) else []), room


def _fill(texts: list[str], above: dict[int, tuple[int, str]], number: int) -> None:
    """Add the cells from above that come next in a row."""
    while (entry := above.get(len(texts))) is not None and entry[0] >= number:
        texts.append(entry[1])


class MarkdownWriter:
    """Markdown being written; indentation and repeated cells add at most `room` characters, whatever the input."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._open: list[_Container] = []
        self._cells = [Cell()]
        self._counts = [Counter[str]()]
        """For the document and each open cell, name of a container → how many are open in it."""

    @property
    def lines(self) -> list[str]:
        """The lines of the document, or of the open cell."""
        return self._cells[-1].lines

    def innermost(self) -> str:
        """Return the name of the innermost container of the document or cell, or ""."""
        return self._open[-1].name if len(self._open) > self._cells[-1].base else ""

    def open(self, name: str, first: str = "", rest: str = "", number: int = 1) -> None:
        """Open a container: `ul`, `ol`, `dl`, what is in them (`li`, `dt`, `dd`), or `blockquote`.

        Its lines begin with `first` and `rest`; `number` is that of the first item of an ordered list.
        """
        self._open.append(_Container(name, first, rest, number=number))
        self._counts[-1][name] += 1

    def item(self) -> None:
        """Open an item of the innermost list."""
        above = self._open[-1]
        first = "- "
        if above.name == "ol":
            first = f"{above.number}. "
            above.number += 1
        self.open("li", first, " " * len(first))

    def close(self, name: str) -> None:
        """Close the innermost container of a name and all in it, if the document or cell has one."""
        counts = self._counts[-1]
        if counts[name]:
            while (closed := self._open.pop()).name != name:
                counts[closed.name] -= 1
            counts[name] -= 1

    def open_cell(self, cell: Cell) -> None:
        """Start a cell: what follows is written into it."""
        cell.base = len(self._open)
        self._cells.append(cell)
        self._counts.append(Counter())

    def close_cell(self) -> None:
        """End the cell, with the containers open in it."""
        del self._open[self._cells.pop().base :]
        self._counts.pop()

    def block(self, lines: Sequence[str], *, quoted_only: bool = False, structured: bool = False) -> None:
        """Write a block; with `quoted_only` outside of lists, where a heading would not be recognised."""
        cell = self._cells[-1]
        cell.structured |= structured
        base, written = cell.base, cell.lines
        shown = self._open[base : base + SHOWN_CONTAINERS]
        if len(self._open) > base + SHOWN_CONTAINERS:
            shown[-1] = self._open[-1]
        drawn = [container for container in shown if container.name == "blockquote"] if quoted_only else shown
        if self.room < 0:
            drawn = []
        if written and not _tight(shown):
            written.append("".join(container.rest for container in drawn if container.begun).rstrip())
        first = "".join(container.rest if container.begun else container.first for container in drawn)
        rest = "".join(container.rest for container in drawn)
        written.append((first + lines[0]).rstrip())
        written += [(rest + line).rstrip() for line in lines[1:]] if rest else lines[1:]
        self.room -= len(rest) * len(lines)
        for container in shown:
            container.begun = True


def _tight(shown: Sequence[_Container]) -> bool:
    """Whether a block follows without a blank line: an item after another one, or a list after its item's text."""
    place = next((place for place, container in enumerate(shown) if not container.begun), 0)
    while place < len(shown) and shown[place].name in _LISTS and not shown[place].begun:
        if place == 0 or shown[place - 1].name not in ("li", "dd"):
            return False
        place += 1
    if not 0 < place < len(shown) or shown[place].begun:
        return False
    return shown[place].name in ("li", "dd") and shown[place - 1].name in _LISTS


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


@struct(frozen=False)
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
        """Open an element; one without markup, or within another of its kind, changes nothing."""
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
        tail = self._pieces[mark.start - 1][-4:] if mark.start and mark.kind in ("*", "**") else ""
        stars = len(tail) - len(tail.rstrip("*"))
        # If the same emphasis ends just before, the two are one.
        follows = stars == len(mark.kind) < len(tail) and not tail[-stars - 1].isspace()
        if follows and shown and mark.kind == shown[: len(mark.kind)] and not before:
            self._pieces[mark.start - 1] = self._pieces[mark.start - 1][: -len(mark.kind)]
            shown = shown[len(mark.kind) :]
        self._pieces[mark.start :] = [before + shown + text[len(text.rstrip()) :]]

    def _marked(self, mark: _Mark, core: str) -> str:
        if mark.kind == "a":
            return self._linked(mark, core)
        if mark.kind == "^":
            return f"^{core}" if _RAISED.fullmatch(core) else core
        if mark.kind == '"':
            return f"“{core}”"
        if mark.kind == "`":
            code = " ".join(core.replace(_BREAK, " ").split())
            ticks, pad = _ticks(code), " " if code[:1] == "`" or code[-1:] == "`" else ""
            return f"{ticks}{pad}{code}{pad}{ticks}"
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
