"""Convert spreadsheets, by openpyxl: a heading and a table for each sheet, with the values that it shows."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Any

import openpyxl

from kbhub.documents.converted import document_of_markdown
from kbhub.extensions.formats.markdown_writer import cell_text, escaped, pipe_table
from kbhub.extensions.formats.packages import metadata_of, open_package
from kbhub.types import Document

ROWS, COLUMNS = 50_000, 200
"""Most rows and columns of a sheet; larger ones are data rather than text."""

CHARACTERS = 10_000_000

SIGNIFICANT_DIGITS = 15
"""Digits of a number that Excel shows at most."""


def read_xlsx(path: str, data: bytes) -> Document:
    """Convert a spreadsheet; a broken one, or one that `open_package` refuses, raises any exception."""
    with open_package(data) as package:
        title, values = metadata_of(package, "docProps/core.xml")
    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    lines: list[str] = []
    problems: list[str] = []
    room = CHARACTERS
    for sheet in book.worksheets:
        rows, problem = _rows(sheet, room)
        if problem:
            problems.append(f"Sheet {sheet.title!r} {problem}.")
        if rows:
            written = [f"## {' '.join(sheet.title.split())}", "", *_table(rows), ""]
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
        texts = [_text(cell) for cell in cells]
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


def _table(rows: list[list[str]]) -> Iterator[str]:
    """Yield the lines of a table, after the titles above it: rows with a single cell."""
    start = next((at for at, row in enumerate(rows) if sum(map(bool, row)) > 1), len(rows))
    for row in rows[:start]:
        yield escaped(next(filter(None, row)))
        yield ""
    if rows[start:]:
        yield from pipe_table(rows[start:])


def _text(cell: Any) -> str:
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
