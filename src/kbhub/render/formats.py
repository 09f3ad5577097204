"""Listings for programs: JSON, CSV, Markdown, XML and one line per file. Valid when there is nothing to list.

A command describes what it lists as a `Listing`, once; every format is made from that. Cells are what documents say,
and a document is a stranger's: each format escapes what it would take for its own.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from kbhub.errors import UsageError
from kbhub.render.plain import neutralised
from kbhub.values import struct

if TYPE_CHECKING:
    from _csv import _QuotingType

Format = Literal["text", "json", "csv", "md", "xml", "files"]
"""How results are printed: for a person, or in one of the formats for programs."""

Scalar = str | int | float | bool | None
Cell = Scalar | Sequence[Scalar]
Record = Mapping[str, Cell]
"""One thing of a listing: name of a field → its value. A field that is missing is empty."""

FILE_FIELDS = ("docid", "score", "path", "context")
"""What `--files` prints of a record; `ref` serves as the path where there is one, for `kbhub read` takes it."""

_FORBIDDEN_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML 1.0 document may have, not even escaped (section 2.2)."""

_XML_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_ACTIVE_IN_MARKDOWN = re.compile(r"[\\|<\[`]|&(?=#?\w+;)")
"""What would end a cell, begin an element, a link, an image or code, or be taken for a character's name."""


@struct
class Listing:
    """Things of one kind, to be printed in any format."""

    name: str
    """What one of them is called, in the singular: an XML element."""
    fields: tuple[str, ...]
    """Fields in their order: the header of CSV and Markdown, also when there is no record."""
    records: Sequence[Record]
    body: str | None = None
    """The field that holds text of documents, if one does: in Markdown each record is a section then, with that text
    in a fence, for no table holds it."""


def formatted(listing: Listing, form: Format) -> str:
    """Give a listing in a format for programs, with a line feed at its end.

    Args:
        listing: what to print.
        form: any format but `text`, which each command has of its own.

    Raises:
        UsageError: `files` is asked of things that are no files.
    """
    return _WRITERS[form](listing)


def _json(listing: Listing) -> str:
    records = [{field: record.get(field) for field in listing.fields} for record in listing.records]
    return json.dumps(records, indent=2, ensure_ascii=False) + "\n"


def _csv(listing: Listing) -> str:
    # Every text is quoted and none is changed: a cell that a spreadsheet would take for a formula is what the
    # document says, and programs read these files, too. docs/how-to/bases.md says how to import them as text.
    rows = [[_csv_cell(record.get(field)) for field in listing.fields] for record in listing.records]
    return _rows([listing.fields, *rows], csv.QUOTE_NONNUMERIC)


def _files(listing: Listing) -> str:
    if not {"path", "ref"} & set(listing.fields):
        raise UsageError("`--files` lists files, and these are none; `--csv` lists them.")
    rows = []
    for record in listing.records:
        values = {**record, "path": record.get("ref") or record.get("path")}
        rows.append([_csv_cell(values.get(field)) for field in FILE_FIELDS])
    # Python's writer would leave a lone carriage return unquoted, which its reader takes for the end of a line.
    return "".join(
        _rows([row], csv.QUOTE_NONNUMERIC if any("\r" in str(cell) for cell in row) else csv.QUOTE_MINIMAL)
        for row in rows
    )


def _rows(rows: Sequence[Sequence[str | int | float]], quoting: _QuotingType) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=quoting, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _csv_cell(value: Cell) -> str | int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return _text(value, ";")


def _markdown(listing: Listing) -> str:
    if listing.body is not None and listing.records:
        return "\n".join(_section(listing, listing.body, record) for record in listing.records)
    lines = [listing.fields, ["---"] * len(listing.fields)]
    lines += [[_markdown_cell(record.get(field)) for field in listing.fields] for record in listing.records]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _markdown_cell(value: Cell) -> str:
    text = _ACTIVE_IN_MARKDOWN.sub(_escaped, neutralised(_text(value, ", ")))
    return "<br>".join(line.strip() for line in text.splitlines())


def _section(listing: Listing, body: str, record: Record) -> str:
    name = next((field for field in ("ref", "path", "title") if record.get(field)), listing.fields[0])
    facts = [
        f"- {field}: {cell}\n"
        for field in listing.fields
        if field not in (name, body) and (cell := _markdown_cell(record.get(field)))
    ]
    text = neutralised(_text(record.get(body), "\n")).rstrip("\n")
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"## {_markdown_cell(record.get(name))}\n\n{''.join(facts)}\n{fence}markdown\n{text}\n{fence}\n"


def _escaped(match: re.Match[str]) -> str:
    return {"<": "&lt;", "&": "&amp;"}.get(match.group(), f"\\{match.group()}")


def _xml(listing: Listing) -> str:
    root = Element("results")
    for record in listing.records:
        one = SubElement(root, listing.name)
        for field in listing.fields:
            value = record.get(field)
            if value is None:
                continue
            element = SubElement(one, field) if _XML_NAME.fullmatch(field) else SubElement(one, "field", name=field)
            if isinstance(value, Sequence) and not isinstance(value, str):
                for item in value:
                    SubElement(element, "item").text = _xml_text(item)
            else:
                element.text = _xml_text(value)
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=False, short_empty_elements=True) + "\n"


def _xml_text(value: Scalar) -> str:
    return _FORBIDDEN_IN_XML.sub("\ufffd", _text(value, ""))


def _text(value: Cell, separator: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return separator.join(_text(item, separator) for item in value)
    return str(value)


_WRITERS: dict[Format, Callable[[Listing], str]] = {
    "json": _json,
    "csv": _csv,
    "md": _markdown,
    "xml": _xml,
    "files": _files,
}
