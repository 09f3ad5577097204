"""Text → lines that fit a terminal: broken at words, aligned in columns. Pure, and quick to load."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TAB_COLUMNS = 4
"""Columns of a tab that a line has where it is broken."""

DEEPEST_INDENT = 0.5
"""Share of the width that the indentation of a line's continuation may take."""

BETWEEN = 2
"""Columns between two columns of a table."""

_STYLE = re.compile("\x1b\\[[0-9;]*m")
"""SGR sequences, the only ones that we write ourselves."""

_RESET = "\x1b[0m"
_SEPARATORS = "/\\"
_PIECE = re.compile(r"[^\s/\\]+[/\\]*|[/\\]+")
"""What is not broken as long as it fits: a word, a part of a path."""

_MARK = re.compile(r" *(?:\[\d+\]|#[0-9a-f]{6,}|[-*•]|\d+\.) +")
"""What the first line of an entry begins with."""


def cell_width(text: str) -> int:
    """Give the columns that a terminal gives to a text: two for wide characters, none for combining ones.

    Args:
        text: without control characters.
    """
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def fitted(text: str, width: int) -> str:
    """Break every line that is wider than a terminal, at words; what follows is indented as the line is.

    Args:
        text: with no control characters but line feeds, tabs and our colours.
        width: columns of the terminal.
    """
    return "\n".join(piece for line in text.split("\n") for piece in _broken(line, width))


def wrapped(text: str, width: int, *, first: int | None = None) -> list[str]:
    """Break a line at words; a word that is too long is broken behind a slash, or where it must be.

    Args:
        text: one line, without colours.
        width: columns of a line.
        first: those of the first; the same if none.
    """
    return [text[start:end] for start, end in _slices(text, width, width if first is None else first)] or [""]


def table(rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset(), width: int | None = None) -> list[str]:
    """Align rows in columns by the width that terminals give to characters.

    Args:
        rows: cells, every row of the same length.
        right: columns that are aligned to the right.
        width: columns of the terminal, if it is to fit: cells are broken at words then; where that is not enough, rows
            are not aligned, so that a line can be broken anywhere.
    """
    columns = list(zip(*rows, strict=True))
    room = None if width is None else width - BETWEEN * (len(columns) - 1)
    widths = column_widths(columns, room)
    if widths is None:
        return [(" " * BETWEEN).join(cell for cell in row if cell.strip()) for row in rows]
    lines = []
    for row in rows:
        cells = [wrapped(cell, room) if width is not None else [cell] for cell, room in zip(row, widths, strict=True)]
        for at in range(max(map(len, cells))):
            parts = []
            for number, cell in enumerate(cells):
                piece = cell[at] if at < len(cell) else ""
                space = " " * (widths[number] - cell_width(piece))
                parts.append(space + piece if number in right else piece + space)
            lines.append((" " * BETWEEN).join(parts).rstrip())
    return lines


def column_widths(columns: Sequence[Sequence[str]], room: int | None) -> list[int] | None:
    """Give the widths of the columns of a table; none if it cannot fit without breaking words.

    Args:
        columns: cells of each.
        room: for all of them, if it is bounded; the widest become narrower until they fit.
    """
    widths = [max(map(cell_width, column)) for column in columns]
    if room is None:
        return widths
    least = [max(map(_longest_piece, column)) for column in columns]
    return _narrowed(widths, least, room) if sum(least) <= room else None


def _longest_piece(cell: str) -> int:
    return max((cell_width(piece) for piece in _PIECE.findall(cell)), default=0)


def _narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Make the widest columns narrower, none below its least width, until all fit."""
    found = list(widths)
    while sum(found) > room:
        widest = max((at for at in range(len(found)) if found[at] > least[at]), key=lambda at: found[at])
        found[widest] -= 1
    return found


def _broken(line: str, width: int) -> list[str]:
    bare = _STYLE.sub("", line)
    if "\t" not in bare and cell_width(bare) <= width:
        return [line]
    if "\t" in bare:
        line = line.replace("\t", " " * TAB_COLUMNS)
        bare = _STYLE.sub("", line)
    mark = _MARK.match(bare)
    indent = len(mark.group()) if mark else len(bare) - len(bare.lstrip(" ")) or BETWEEN
    indent = min(indent, int(width * DEEPEST_INDENT))
    slices = list(_slices(bare, width - indent, width))
    pieces = _styled(line, slices) if bare != line else [bare[start:end] for start, end in slices]
    return [pieces[0], *(" " * indent + piece for piece in pieces[1:])] if pieces else [""]


def _slices(text: str, width: int, first: int) -> Iterator[tuple[int, int]]:
    """Give where the lines of a text begin and end."""
    width, room = max(1, width), max(1, first)
    start = 0
    while start < len(text):
        end, used = start, 0
        while end < len(text) and used + _columns(text[end]) <= room:
            used += _columns(text[end])
            end += 1
        end = max(end, start + 1)
        if end == len(text):
            yield start, end
            return
        cut = _word_end(text, start, end)
        yield start, cut
        start = cut
        while start < len(text) and text[start] == " ":
            start += 1
        room = width


def _word_end(text: str, start: int, end: int) -> int:
    """Give where a line ends that may reach to `end`: before a space, behind a slash, or there."""
    if text[end] == " ":
        return start + len(text[start:end].rstrip(" ")) or end
    begun = start + len(text[start:end]) - len(text[start:end].lstrip(" "))
    space = text.rfind(" ", begun, end)
    if space > begun:
        return len(text[:space].rstrip(" "))
    slash = max(text.rfind(sign, begun, end) for sign in _SEPARATORS) + 1
    return slash if slash > begun else end


def _styled(line: str, slices: Sequence[tuple[int, int]]) -> list[str]:
    """Cut a line with colours by places of it without them; each piece has the colours that hold there."""
    marks: list[tuple[int, str]] = []
    removed = 0
    for match in _STYLE.finditer(line):
        marks.append((match.start() - removed, match.group()))
        removed += len(match.group())
    bare = _STYLE.sub("", line)
    pieces = []
    for start, end in slices:
        held = ""
        for at, style in marks:
            if at <= start:
                held = "" if style == _RESET else held + style
        inner = [(at, style) for at, style in marks if start < at < end]
        places = [start, *(at for at, _ in inner), end]
        parts = [bare[low:high] for low, high in pairwise(places)]
        piece = held + parts[0] + "".join(style + part for (_, style), part in zip(inner, parts[1:], strict=True))
        open_ = held
        for _, style in inner:
            open_ = "" if style == _RESET else open_ + style
        pieces.append(piece + (_RESET if open_ else ""))
    return pieces


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
