"""Convert Office documents: Word by mammoth, presentations by python-pptx, spreadsheets by openpyxl.

Each library takes some 0.3 s to import, so it is loaded for the first file that needs it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from pathlib import PurePosixPath
from typing import Any

from kbhub.documents.converted import Part, document_of_markdown, document_of_parts
from kbhub.extensions.formats.html import markdown_of
from kbhub.extensions.formats.markdown_writer import cell_text, escaped, pipe_table
from kbhub.extensions.formats.packages import metadata_of, open_package
from kbhub.types import Document
from kbhub.workspace.extensions import load

_QUOTES = ("Quote", "Intense Quote", "Block Text", "Quotations")
_CODE = ("Source Code", "Preformatted Text", "HTML Preformatted", "Code", "Plain Text")

STYLES = "\n".join(
    (
        "p[style-name='Title'] => h1:fresh",
        "p[style-name='Subtitle'] => p:fresh",
        *(f"p[style-name='{name}'] => blockquote > p:fresh" for name in _QUOTES),
        *(f"p[style-name='{name}'] => pre:separator('\\n')" for name in _CODE),
        *(f"r[style-name='{name}'] => code" for name in ("Verbatim Char", "Source Text", "HTML Code")),
        "comment-reference => sup",
        "u => ",
    )
)
"""Word's styles, and those of pandoc and LibreOffice, beyond what mammoth knows. Comments are listed at the end;
deletions that are tracked are left out, and insertions are text."""

_MARK = re.compile(r'<a href="#(?:footnote|endnote|comment)-[^"]*" id="[^"]*">(\[[^<]*\])</a>')
_RAISED = re.compile(r"<sup>((?:\[[^<\]]*\])+)</sup>")
_BACK = re.compile(r'(?<!\s)\s*<a href="#(?:footnote|endnote|comment)-ref-[^"]*">↑</a>')
_ANCHOR = re.compile(r'<a id="[^"]*"></a>')


def read_docx(path: str, data: bytes) -> Document:
    """Convert a Word document; a broken one, or one that `open_package` refuses, raises any exception."""
    with open_package(data) as package:
        title, values = metadata_of(package, "docProps/core.xml")
    result = load("mammoth:convert_to_html")(
        io.BytesIO(data),
        style_map=STYLES,
        convert_image=load("mammoth.images:img_element")(lambda _: {"src": ""}),  # only its description is shown
        include_embedded_style_map=False,
    )
    html = _RAISED.sub(r"\1", _MARK.sub(r"\1", _ANCHOR.sub("", _BACK.sub("", result.value))))
    return document_of_markdown(path, markdown_of(html), title=title, front_matter=values, shown=tuple(values))


GROUP_DEPTH = 20


def read_pptx(path: str, data: bytes) -> Document:
    """Convert a presentation; a broken one, or one that `open_package` refuses, raises any exception."""
    with open_package(data) as package:
        title, values = metadata_of(package, "docProps/core.xml")
    parts = []
    first = ""
    for number, slide in enumerate(load("pptx:Presentation")(io.BytesIO(data)).slides, 1):
        shape = slide.shapes.title
        name = " ".join(shape.text_frame.text.split()) if shape is not None else ""
        first = first or name
        heading = f"Slide {number}: {name}" if name else f"Slide {number}"
        lines: list[str] = []
        for other in _shapes(slide.shapes, 0):
            if shape is None or other.shape_id != shape.shape_id:
                block = list(_shape(other))
                lines += ["", *block] if block and lines else block
        notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
        if notes is not None and (text := list(_paragraphs(notes))):
            lines += [*([""] if lines else []), "Notes:", "", *text]
        if name or lines:
            parts.append(Part(heading, f"## {heading}", tuple(lines)))
    return document_of_parts(path, title or first or PurePosixPath(path).stem, parts, values)


def _shapes(shapes: Iterable[Any], depth: int) -> Iterator[Any]:
    """Yield the shapes of a slide, those of groups in their place."""
    for shape in shapes:
        if not hasattr(shape, "shapes"):  # no group; `shape_type` raises for a shape without a geometry
            yield shape
        elif depth < GROUP_DEPTH:
            yield from _shapes(shape.shapes, depth + 1)


def _shape(shape: Any) -> Iterator[str]:
    if shape.has_text_frame:
        yield from _paragraphs(shape.text_frame)
    elif getattr(shape, "has_table", False):
        rows = [[cell_text(cell.text.splitlines()) for cell in row.cells] for row in shape.table.rows]
        yield from pipe_table(rows or [[""]])
    elif getattr(shape, "has_chart", False) and shape.chart.has_title:
        yield from _paragraphs(shape.chart.chart_title.text_frame)
    else:  # the alternative text of a picture
        found = shape._element.xpath(".//p:cNvPr/@descr")[:1]
        yield from filter(None, (escaped(_line(str(text))) for text in found))


def _paragraphs(frame: Any) -> Iterator[str]:
    """Yield the paragraphs of a text as lines; several of them, or indented ones, are a list."""
    paragraphs = [(text, paragraph.level) for paragraph in frame.paragraphs if (text := _line(paragraph.text))]
    several = len(paragraphs) > 1
    for text, level in paragraphs:
        yield f"{'  ' * level}- {text}" if several or level else escaped(text)


def _line(text: str) -> str:
    """Return a text on one line; pptx has a vertical tab for a line break."""
    return " ".join(text.split())


ROWS, COLUMNS = 50_000, 200
"""Most rows and columns of a sheet; larger ones are data rather than text."""

CHARACTERS = 10_000_000

SIGNIFICANT_DIGITS = 15
"""Digits of a number that Excel shows at most."""


def read_xlsx(path: str, data: bytes) -> Document:
    """Convert a spreadsheet; a broken one, or one that `open_package` refuses, raises any exception."""
    with open_package(data) as package:
        title, values = metadata_of(package, "docProps/core.xml")
    book = load("openpyxl:load_workbook")(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    lines: list[str] = []
    problems: list[str] = []
    room = CHARACTERS
    for sheet in book.worksheets:
        rows, problem = _rows(sheet, room)
        if problem:
            problems.append(f"Sheet {sheet.title!r} {problem}.")
        if rows:
            # Rows with a single cell above a table are titles.
            start = next((at for at, row in enumerate(rows) if sum(map(bool, row)) > 1), len(rows))
            written = [f"## {' '.join(sheet.title.split())}", ""]
            written += (line for row in rows[:start] for line in (escaped(next(filter(None, row))), ""))
            written += [*(pipe_table(rows[start:]) if rows[start:] else ()), ""]
            room -= sum(map(len, written))
            lines += written
    return document_of_markdown(
        path, "\n".join(lines), title=title, front_matter=values, shown=tuple(values), problems=problems
    )


def _rows(sheet: Any, room: int) -> tuple[list[list[str]], str]:
    """Return the rows of a sheet that have text, within limits, and what was left out."""
    if room <= 0:
        return [], f"is left out: the others have {CHARACTERS:,} characters"
    sheet.reset_dimensions()  # what a file says of them may be wrong, and would cut it off
    rows: list[list[str]] = []
    wide = False
    for number, cells in enumerate(sheet.iter_rows(max_col=COLUMNS + 1), 1):
        if number > ROWS:
            return rows, f"has more than {ROWS:,} rows; the rest is left out"
        texts = [_shown(cell) for cell in cells]
        wide = wide or any(texts[COLUMNS:])
        texts = texts[:COLUMNS]
        while texts and not texts[-1]:
            texts.pop()
        if texts:
            rows.append(texts)
            room -= sum(map(len, texts))
            if room <= 0:
                return rows, f"has too much text; rows from {number + 1:,} on are left out"
    return rows, f"has more than {COLUMNS} columns; the rest is left out" if wide else ""


def _shown(cell: Any) -> str:
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, (int, float)):
        percent = str(cell.number_format or "").endswith("%")
        return f"{value * 100:.{SIGNIFICANT_DIGITS}g}%" if percent else f"{value:.{SIGNIFICANT_DIGITS}g}"
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ", "seconds")
    if isinstance(value, (date, time, timedelta)):
        return str(value)
    return cell_text(str(value).splitlines())
