"""Render results for a person at a terminal, without printing them.

All text from files and file names goes through `neutralised` or `visible_line`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from kbhub.index.query.excerpts import excerpt, spans
from kbhub.render.layout import cell_width, neutralised, shortened, table, visible_line
from kbhub.render.report import Call, Item, Name, Names, Quote, Ref, Report, Say, Text
from kbhub.values import struct

OTHER_EXCERPT_CHARACTERS = 300
"""Length of excerpts after the first hit's, which is shown in full: some four lines of 80 columns."""

TITLE_CHARACTERS = 60
"""Maximum length of a title or mark in a table."""

_BOLD, _DIM, _REF, _TERM, _WARNING = "1", "2", "1;36", "1;33", "33"
"""SGR parameters (ECMA-48): bold, faint, bold cyan, bold yellow, yellow."""

_GUTTER = "  │ "
_INDENT = "      "


@struct
class Painter:
    """Adds colours to text, if they are wanted."""

    colour: bool = False

    def __call__(self, text: str, parameters: str) -> str:
        """Return a text with SGR parameters applied, or unchanged without colours."""
        return f"\x1b[{parameters}m{text}\x1b[0m" if self.colour and text else text


PLAIN = Painter()


def text(
    report: Report, paint: Painter = PLAIN, *, width: int | None = None, whole: bool = False, verbatim: bool = False
) -> str:
    """Return a report without its notes and calls.

    `width` is the columns for which tables and quotes are laid out, or None for plain Markdown. Unless `whole`, quotes
    that are not fenced are shortened; `verbatim` keeps the lines of the file.
    """
    room = None if verbatim else width
    lines = _lines(report.head, paint, room, whole=whole) if report.head else []
    indent = "  " if any(isinstance(part, str) and part for part in report.parts) else ""
    for in_table, parts in groupby(report.parts, key=lambda part: isinstance(part, Item) and part.row):
        if in_table:
            items = [part for part in parts if isinstance(part, Item)]
            lines += [indent + row for row in _table(items, width and width - len(indent))]
            continue
        for part in parts:
            if isinstance(part, str):
                lines.append(paint(line(part), _BOLD))
                continue
            if isinstance(part, Quote):
                lines += _quote_lines(part, paint, room, whole=True)
                continue
            block = _lines(part, paint, room, whole=whole)
            if isinstance(part, Item) and part.quote:
                lines += ["", *block] if lines else block
            else:
                lines += [indent * isinstance(part, Item) + one for one in block]
    return "\n".join([*lines, *(["", line(report.foot)] if report.foot else [])]).strip("\n")


def notes(report: Report) -> list[str]:
    """Return the notes of a report, for standard error."""
    return [*map(line, report.notes)]


def line(text: Text) -> str:
    """Return a text on one line for a person."""
    match text:
        case str():
            return visible_line(text)
        case Name():
            return visible_line(text.text)
        case Names():
            return visible_line(", ".join(text.names))
        case Ref():
            return visible_line(f"{text.ref}{text.part}")
        case Call():
            return f"`{visible_line(text.command)}`"
        case Say():
            return text.template.format(*map(line, text.parts))


def _lines(part: Text | Item, paint: Painter, width: int | None, *, whole: bool) -> list[str]:
    if not isinstance(part, Item):
        return [line(part)]
    ref = [paint(line(part.ref), _REF), paint(part.ref.docid, _DIM)] if part.ref else []
    title, marks, details = line(part.title), [*map(line, part.marks)], [*map(line, part.details)]
    label, warning = line(part.label), paint(line(part.warning), _WARNING)
    named = " ".join(filter(None, (label, *ref[:1])))
    if part.quote is None:
        return [
            _joined(part.score, named, *ref[1:], title, *marks, *details, warning),
            *(f"    {line(one)}" for one in part.lines),
        ]
    lines = [_joined(part.score, named, *ref[1:], *(paint(mark, _DIM) for mark in marks), warning)]
    lines += [_INDENT + line for line in (paint(title, _BOLD), visible_line(part.trace)) if line]
    lines += [f"{paint(_GUTTER, _DIM)}{line}".rstrip() for line in _quote_lines(part.quote, paint, width, whole=whole)]
    return [*lines, *(_INDENT + paint(detail, _DIM) for detail in details)]


def _joined(*cells: str) -> str:
    return "  ".join(filter(None, cells))


def _quote_lines(quote: Quote, paint: Painter, width: int | None, *, whole: bool) -> list[str]:
    terms, text = quote.terms or (), quote.text
    if not whole and not quote.fenced and quote.terms is not None:
        text, _ = excerpt(text, terms, OTHER_EXCERPT_CHARACTERS)
    text = text.strip("\n")
    if width is not None:
        # rich takes 80 ms to load, and a pipe gets the Markdown.
        from kbhub.render.pages import drawn  # noqa: PLC0415

        return drawn(text, width - cell_width(_GUTTER), colour=paint.colour, terms=terms).split("\n")
    parts, at = [], 0
    for start, end in spans(text, terms) if paint.colour else ():
        # Colour each line separately, or a term across lines would colour the gutter, too.
        marked = "\n".join(paint(neutralised(piece), _TERM) for piece in text[start:end].split("\n"))
        parts += [neutralised(text[at:start]), marked]
        at = end
    return "".join([*parts, neutralised(text[at:])]).split("\n")


def _table(items: Sequence[Item], width: int | None) -> list[str]:
    """Align items in columns, of which empty ones are left out."""
    rows = []
    for item in items:
        ref = [item.ref.docid, line(item.ref)] if item.ref else ["", ""]
        cells = [line(item.title), *map(line, item.marks)]
        cells = [shortened(cell, TITLE_CHARACTERS) for cell in cells] if item.ref else cells
        cells[0] = "  " * item.depth + cells[0] if cells[0] else ""
        rows.append([line(item.label), *ref, cells[0], item.score, *cells[1:], line(item.warning)])
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    return table([*zip(*columns, strict=True)], width=width) if columns else []
