"""Convert presentations, by python-pptx: a part for each slide, with its tables and notes."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any

import pptx
from pptx.shapes.group import GroupShape

from kbhub.documents.converted import Part, document_of_parts
from kbhub.extensions.formats.markdown_writer import cell_text, escaped, pipe_table
from kbhub.extensions.formats.packages import metadata_of, open_package
from kbhub.types import Document

GROUP_DEPTH = 20


def read_pptx(path: str, data: bytes) -> Document:
    """Convert a presentation; a broken one, or one that `open_package` refuses, raises any exception."""
    with open_package(data) as package:
        title, values = metadata_of(package, "docProps/core.xml")
    parts = []
    first = ""
    for number, slide in enumerate(pptx.Presentation(io.BytesIO(data)).slides, 1):
        shape = slide.shapes.title
        name = " ".join(shape.text_frame.text.split()) if shape is not None else ""
        first = first or name
        heading = f"Slide {number}: {name}" if name else f"Slide {number}"
        lines = _slide(slide, shape)
        if name or lines:
            parts.append(Part(heading, f"## {heading}", lines))
    return document_of_parts(path, title or first or PurePosixPath(path).stem, parts, values)


def _slide(slide: Any, title: Any) -> tuple[str, ...]:
    """Return the lines of a slide without its title, then its notes."""
    lines: list[str] = []
    for shape in _shapes(slide.shapes, 0):
        if title is None or shape.shape_id != title.shape_id:
            block = list(_shape(shape))
            lines += ["", *block] if block and lines else block
    notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if notes is not None and (text := list(_paragraphs(notes))):
        lines += [*([""] if lines else []), "Notes:", "", *text]
    return tuple(lines)


def _shapes(shapes: Iterable[Any], depth: int) -> Iterator[Any]:
    """Yield the shapes of a slide, those of groups in their place."""
    for shape in shapes:
        if not isinstance(shape, GroupShape):  # `shape_type` raises for a shape without a geometry
            yield shape
        elif depth < GROUP_DEPTH:
            yield from _shapes(shape.shapes, depth + 1)


def _shape(shape: Any) -> Iterator[str]:
    if shape.has_text_frame:
        yield from _paragraphs(shape.text_frame)
    elif getattr(shape, "has_table", False):
        yield from pipe_table(
            [[cell_text(cell.text.splitlines()) for cell in row.cells] for row in shape.table.rows] or [[""]]
        )
    elif getattr(shape, "has_chart", False) and shape.chart.has_title:
        yield from _paragraphs(shape.chart.chart_title.text_frame)
    elif text := _description(shape):
        yield text


def _paragraphs(frame: Any) -> Iterator[str]:
    """Yield the paragraphs of a text as lines; several of them, or indented ones, are a list."""
    paragraphs = [(text, paragraph.level) for paragraph in frame.paragraphs if (text := _line(paragraph.text))]
    several = len(paragraphs) > 1
    for text, level in paragraphs:
        yield f"{'  ' * level}- {text}" if several or level else escaped(text)


def _line(text: str) -> str:
    """Return a text on one line; pptx has a vertical tab for a line break."""
    return " ".join(text.split())


def _description(shape: Any) -> str:
    """Return the alternative text of a picture; empty if there is none."""
    found = shape._element.xpath(".//p:cNvPr/@descr")
    return escaped(_line(str(found[0]))) if found else ""
