"""Write reports for a person at a terminal: words, lines and tables, neutralised, wrapped, aligned. Prints nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter

from kbhub.documents.shown_text import cell_width, compact
from kbhub.render.report import Call, Item, Name, Names, Quote, Ref, Report, Say, Text
from kbhub.types import Problem
from kbhub.values import DAY_SECONDS, age_text, counted, moment_of, struct
from kbhub.workspace.formats import remedy_of

OTHER_EXCERPT_CHARACTERS = 300
"""Length of excerpts after the first hit's, which is shown in full: some four lines of 80 columns."""

TITLE_CHARACTERS = 60

_BOLD, _DIM, _REF, _TERM, _WARNING = "1", "2", "1;36", "1;33", "33"
"""SGR parameters (ECMA-48): bold, faint, bold cyan, bold yellow, yellow."""

_LABELS = {
    **dict.fromkeys(("ok", "fixed", "registered", "updated", "removed", "written"), "32"),
    **dict.fromkeys(("warning", "paste", "delete"), "33"),
    **dict.fromkeys(("error", "failed"), "1;31"),
}
"""Label of an item → SGR parameters: green, yellow, bold red."""

_GUTTER = "  │ "
_INDENT = "      "


@struct
class Painter:
    """Adds colours to text, if they are wanted."""

    colour: bool

    def __call__(self, text: str, parameters: str) -> str:
        """Return a text with SGR parameters applied, or unchanged without colours or parameters."""
        return f"\x1b[{parameters}m{text}\x1b[0m" if self.colour and text and parameters else text


def text(
    report: Report,
    *,
    colour: bool = False,
    width: int | None = None,
    whole: bool = False,
    draw: Callable[..., str] | None = None,
) -> str:
    """Return a report without its notes and calls; unless `whole`, quotes that are not fenced are shortened."""
    paint = Painter(colour)
    laid = partial(draw, width=width - cell_width(_GUTTER), colour=colour) if draw and width else None
    lines = _lines(report.head, paint, laid, whole=whole) if report.head else []
    indent = "  " if any(isinstance(part, str) and part for part in report.parts) else ""
    for in_table, parts in groupby(report.parts, key=lambda part: isinstance(part, Item) and part.row):
        if in_table:
            rows = []
            for item in (part for part in parts if isinstance(part, Item)):
                ref = [item.ref.docid, line(item.ref)] if item.ref else ["", ""]
                cells = [line(item.title), *map(line, item.marks)]
                cells = [shortened(cell, TITLE_CHARACTERS) for cell in cells] if item.ref else cells
                cells[0] = "  " * item.depth + cells[0] if cells[0] else ""
                rows.append([line(item.label), *ref, cells[0], item.score, *cells[1:], line(item.warning)])
            filled = [column for column in zip(*rows, strict=True) if any(column)]
            aligned = table([*zip(*filled, strict=True)], width=width and width - len(indent)) if filled else []
            lines += [
                indent + _LABEL.sub(lambda label: paint(label[0], _LABELS.get(label[0], "")), row, 1) for row in aligned
            ]
            continue
        for part in parts:
            if isinstance(part, str):
                lines.append(paint(line(part), _BOLD))
                continue
            if isinstance(part, Quote):
                lines += _quote_lines(part, paint, laid, whole=True)
                continue
            block = _lines(part, paint, laid, whole=whole)
            if isinstance(part, Item) and part.quote:
                lines += ["", *block] if lines else block
            else:
                lines += [indent * isinstance(part, Item) + one for one in block]
    return "\n".join([*lines, *(["", line(report.foot)] if report.foot else [])]).strip("\n")


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


def _lines(part: Text | Item, paint: Painter, draw: Callable[..., str] | None, *, whole: bool) -> list[str]:
    if not isinstance(part, Item):
        return [line(part)]
    ref = [paint(line(part.ref), _REF), paint(part.ref.docid, _DIM)] if part.ref else []
    title, marks, details = line(part.title), [*map(line, part.marks)], [*map(line, part.details)]
    label, warning = line(part.label), paint(line(part.warning), _WARNING)
    named = " ".join(filter(None, (paint(label, _LABELS.get(label, "")), *ref[:1])))
    if part.quote is None:
        cells = (part.score, named, *ref[1:], title, *marks, *details, warning)
        return ["  ".join(filter(None, cells)), *[f"    {line(one)}" for one in part.lines]]
    cells = (part.score, named, *ref[1:], *[paint(mark, _DIM) for mark in marks], warning)
    lines = ["  ".join(filter(None, cells))]
    lines += [_INDENT + line for line in (paint(title, _BOLD), visible_line(part.trace)) if line]
    lines += [f"{paint(_GUTTER, _DIM)}{line}".rstrip() for line in _quote_lines(part.quote, paint, draw, whole=whole)]
    return [*lines, *[_INDENT + paint(detail, _DIM) for detail in details]]


def _quote_lines(quote: Quote, paint: Painter, draw: Callable[..., str] | None, *, whole: bool) -> list[str]:
    from kbhub.index.query.excerpts import excerpt, spans  # noqa: PLC0415 - loads SQLite, which `--help` does without

    terms, text = quote.terms or (), quote.text
    if not whole and not quote.fenced and quote.terms is not None:
        text, _ = excerpt(text, terms, OTHER_EXCERPT_CHARACTERS)
    text = text.strip("\n") if quote.terms is None else compact(text)
    if draw:
        return draw(text, terms=terms).split("\n")
    parts, at = [], 0
    for start, end in spans(text, terms) if paint.colour else ():
        # Colour each line separately, or a term across lines would colour the gutter, too.
        marked = "\n".join(paint(neutralised(piece), _TERM) for piece in text[start:end].split("\n"))
        parts += [neutralised(text[at:start]), marked]
        at = end
    return "".join([*parts, neutralised(text[at:])]).split("\n")


_BIDI = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Marks, embeddings, overrides and isolates of Unicode's bidirectional algorithm (UAX #9, section 2)."""

_LINE_SEPARATORS = (0x2028, 0x2029)
"""Characters that some terminals and viewers treat as line breaks."""

_OTHERS = (*range(0x80, 0xA0), *_BIDI, *_LINE_SEPARATORS)
"""Characters without a Control Picture: C1 controls (ECMA-48) and the above."""

_VISIBLE = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},  # Unicode's Control Pictures
    0x7F: "\u2421",
    **{code: f"<U+{code:04X}>" for code in _OTHERS},
}
_IN_JSON = {code: f"\\u{code:04x}" for code in (0x7F, *_OTHERS)}


def neutralised(text: str) -> str:
    """Replace control characters except newline and tab, and bidirectional ones, by visible substitutes."""
    return text.translate(_VISIBLE)


def visible_line(text: str) -> str:
    """Neutralise a text that must stay on one line, such as a file name."""
    return neutralised(text).replace("\n", "\u240a").replace("\t", "\u2409")


def json_escaped(document: str) -> str:
    """Escape the characters that JSON allows unescaped but a terminal would act on."""
    return document.translate(_IN_JSON)


def shortened(text: str, characters: int) -> str:
    """Cut a text at a number of characters, marked with `…`."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def warnings_text(warnings: Sequence[Problem]) -> str:
    """Return a sentence about the first of some settings or variables without effect, and how many more there are."""
    more = len(warnings) - 1
    return warnings[0].text + (f" {more} more; see `kbhub status`." if more else "")


def passed_over_text(counts: Mapping[str, int]) -> str:
    """Return which files are not indexed, by suffix → number, and how to include them; empty if there are none."""
    remedies: dict[str, list[str]] = {}
    for suffix, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        remedies.setdefault(remedy_of(suffix), []).append(f"{count} {suffix}")
    kinds_text = ", ".join(f"{', '.join(kinds)} ({remedy})" for remedy, kinds in remedies.items())
    return f"not indexed: {kinds_text}" if kinds_text else ""


def size_text(count: int) -> str:
    """Return a number of bytes in a readable unit."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def ago_text(seconds: float) -> str:
    """Return a time span as an age in its largest fitting unit."""
    if seconds >= DAY_SECONDS:
        return age_text(int(seconds // DAY_SECONDS), " ago")
    for unit, length in (("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return f"{counted(int(seconds // length), unit)} ago"
    return "just now"


def ago(moment: str | float | None, now: float | None = None) -> str:
    """Return how long ago a moment (ISO 8601, seconds since the epoch, or None for never) was, in the largest unit."""
    seconds = moment_of(moment) if isinstance(moment, str) else moment
    return "never" if seconds is None else ago_text((time.time() if now is None else now) - seconds)


TAB_COLUMNS = 4

DEEPEST_INDENT = 0.5
"""Maximum indentation of continuation lines, as a share of the width."""

BETWEEN = 2

_STYLE = re.compile("\x1b\\[[0-9;]*m")
"""SGR sequences, the only escape sequences that kbhub writes."""

_RESET = "\x1b[0m"
_LABEL = re.compile(r"^[a-z]+(?=  |$)")
_SEPARATORS = "/\\"
_PIECE = re.compile(r"[^\s/\\]+[/\\]*|[/\\]+")
"""A piece that is kept whole if it fits: a word or a part of a path."""

_MARK = re.compile(r" *(?:\[\d+\]|#[0-9a-f]{6,}|[-*•│]|\d+\.|[a-z]+(?=  )) +")


def fitted(text: str, width: int) -> str:
    """Wrap lines that are wider than the terminal, keeping their indentation; SGR sequences in them stay."""
    pieces: list[str] = []
    for line in text.replace("\t", " " * TAB_COLUMNS).split("\n"):
        bare = _STYLE.sub("", line)
        if cell_width(bare) <= width:
            pieces.append(line)
            continue
        mark = _MARK.match(bare)
        indent = len(mark.group()) if mark else len(bare) - len(bare.lstrip(" "))
        indent += BETWEEN if indent <= BETWEEN and not mark else 0  # what follows an item is deeper than it
        indent = min(indent, int(width * DEEPEST_INDENT))
        slices = list(_slices(bare, width - indent, width, indent if mark else 0))
        first, *rest = (_styled(line, slices) if bare != line else [bare[start:end] for start, end in slices]) or [""]
        start = mark.group()[:indent] if mark and "│" in mark.group() else " " * indent
        pieces += [first, *(start + piece for piece in rest)]
    return "\n".join(pieces)


def wrapped(text: str, width: int) -> list[str]:
    """Wrap a line without colours at words; a word that is too long is split after a slash, or at the width."""
    return [text[start:end] for start, end in _slices(text, width, width)] or [""]


def table(rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset(), width: int | None = None) -> list[str]:
    """Align rows of cells in columns, those in `right` to the right; without enough `width`, they are not aligned."""
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
    """Return the widths of columns, narrowed to `room` in all; None if that would break words."""
    widths = [max(map(cell_width, column)) for column in columns]
    if room is None:
        return widths
    least = [max(cell_width(piece) for cell in column for piece in _PIECE.findall(cell) or [""]) for column in columns]
    if sum(least) > room:
        return None
    while sum(widths) > room:
        widths[max((at for at in range(len(widths)) if widths[at] > least[at]), key=lambda at: widths[at])] -= 1
    return widths


def _slices(text: str, width: int, first: int, mark: int = 0) -> Iterator[tuple[int, int]]:
    """Yield start and end of each line of a wrapped text, which begins with a mark of some characters."""
    width, room = max(1, width), max(1, first)
    start = 0
    while start < len(text):
        end, used = start, 0
        while end < len(text) and used + cell_width(text[end]) <= room:
            used += cell_width(text[end])
            end += 1
        end = max(end, start + 1)
        if end == len(text):
            yield start, end
            return
        cut = _word_end(text, max(start, mark), end)
        yield start, cut
        start = cut
        while start < len(text) and text[start] == " ":
            start += 1
        room = width


def _word_end(text: str, start: int, end: int) -> int:
    """Return where a line of text[start:end] breaks: between marks, before a space, after a slash, or at `end`."""
    word = start + len(text[start:end]) - len(text[start:end].lstrip(" "))
    between = text.rfind(" " * BETWEEN, word, end + BETWEEN)
    if between > (start + end) // 2:
        return len(text[:between].rstrip(" "))
    if text[end] == " ":
        return start + len(text[start:end].rstrip(" ")) or end
    space = text.rfind(" ", word, end)
    if space > word:
        return len(text[:space].rstrip(" "))
    slash = max(text.rfind(sign, word, end) for sign in _SEPARATORS) + 1
    return slash if slash > word else end


def _styled(line: str, slices: Sequence[tuple[int, int]]) -> list[str]:
    """Cut a coloured line at offsets into its plain text; each piece repeats the styles in effect."""
    bare, styles, style = _STYLE.sub("", line), list[str](), ""
    for run, following in zip(_STYLE.split(line), [*_STYLE.findall(line), ""], strict=True):
        styles += [style] * len(run)
        style = "" if following == _RESET else style + following

    def piece(start: int, end: int) -> str:
        runs = groupby(zip(styles[start:end], bare[start:end], strict=True), key=itemgetter(0))
        return "".join(f"{style}{''.join(one for _, one in run)}{_RESET if style else ''}" for style, run in runs)

    return [piece(start, end) for start, end in slices]
