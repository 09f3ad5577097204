"""Machine-readable listings: JSON, CSV, Markdown, XML and one line per file, each with its syntax escaped."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from kbhub.errors import UsageError
from kbhub.render.report import Cell, Listing, Record, Scalar
from kbhub.render.terminal import neutralised

if TYPE_CHECKING:
    from _csv import _QuotingType

Format = Literal["text", "json", "csv", "md", "xml", "files"]
"""Output format: for a person (`text`), or one of the formats for programs."""

FILE_FIELDS = ("docid", "score", "path", "context")
"""Fields that `--files` prints; the `ref`, if there is one, replaces the path, because `kbhub read` accepts it."""

_FORBIDDEN_IN_XML = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
"""Characters that XML 1.0 does not allow, not even escaped (section 2.2); takes 5 ms to compile."""

_XML_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_ACTIVE_IN_MARKDOWN = re.compile(r"[\\|<\[`]|&(?=#?\w+;)")
"""Markdown syntax that could end a cell, or start an HTML element, a link, an image, code or an entity."""


def formatted(listing: Listing, form: Format) -> str:
    """Render a listing in any format but `text`; `UsageError` if it is `files`, but the records are not files."""
    return _WRITERS[form](listing)


def _json(listing: Listing) -> str:
    records = [{field: record.get(field) for field in listing.fields} for record in listing.records]
    return json.dumps(records, indent=2, ensure_ascii=False) + "\n"


def _csv(listing: Listing) -> str:
    # All text is quoted, and cells that a spreadsheet would take for formulas are not changed, because programs read
    # these files, too. docs/how-to/bases.md explains how to import them as text.
    rows = [[_csv_cell(record.get(field)) for field in listing.fields] for record in listing.records]
    return _rows([listing.fields, *rows], csv.QUOTE_NONNUMERIC)


def _files(listing: Listing) -> str:
    if not {"path", "ref"} & set(listing.fields):
        raise UsageError("These results are not files, so --files cannot list them. Use --csv instead.")
    rows = []
    for record in listing.records:
        values = {**record, "path": record.get("ref") or record.get("path")}
        rows.append([_csv_cell(values.get(field)) for field in FILE_FIELDS])
    # With QUOTE_MINIMAL, csv.writer leaves a lone carriage return unquoted, but csv.reader takes it for a line end.
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
    entities, cell = {"<": "&lt;", "&": "&amp;"}, neutralised(_text(value, ", "))
    text = _ACTIVE_IN_MARKDOWN.sub(lambda match: entities.get(match[0], f"\\{match[0]}"), cell)
    return "<br>".join(line.strip() for line in text.splitlines())


def _section(listing: Listing, body: str, record: Record) -> str:
    name = next((field for field in ("ref", "path", "title") if record.get(field)), listing.fields[0])
    facts = [
        f"- {field}: {cell}\n"
        for field in listing.fields
        if field not in (name, body) and (cell := _markdown_cell(record.get(field)))
    ]
    text = neutralised(_text(record.get(body), "\n")).rstrip("\n")
    fence = "`" * (1 + max(map(len, re.findall("`{3,}", text)), default=2))
    return f"## {_markdown_cell(record.get(name))}\n\n{''.join(facts)}\n{fence}markdown\n{text}\n{fence}\n"


def _xml(listing: Listing) -> str:
    root = Element("results")
    for record in listing.records:
        parent = SubElement(root, listing.name)
        for field in listing.fields:
            if (value := record.get(field)) is None:
                continue
            named = _XML_NAME.fullmatch(field)
            element = SubElement(parent, field) if named else SubElement(parent, "field", name=field)
            if isinstance(value, Sequence) and not isinstance(value, str):
                for item in value:
                    SubElement(element, "item").text = _xml_text(item)
            else:
                element.text = _xml_text(value)
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=False, short_empty_elements=True) + "\n"


def _xml_text(value: Scalar) -> str:
    return re.sub(_FORBIDDEN_IN_XML, "\ufffd", _text(value, ""))


def _text(value: Cell, separator: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return separator.join(_text(item, separator) for item in value)
    return str(value)


_WRITERS = {"json": _json, "csv": _csv, "md": _markdown, "xml": _xml, "files": _files}
