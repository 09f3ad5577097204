"""Documents as plain data, for files, pipes, an index and kept texts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import PurePosixPath
from typing import Any

from kbhub.documents.sources.converted import document_of_markdown
from kbhub.documents.sources.text_formats import parse_text
from kbhub.types import Document, Heading, Kind
from kbhub.workspace.formats import KINDS_OF_PARTS, file_title, is_converted

MOST_BYTES = 100_000_000
"""Most bytes of a document that one process sends to another: five times the characters of the longest one."""

MOST_BITS = 64
"""Bits of the integers that an index stores."""


def unreadable(path: str, problem: str) -> Document:
    """Return the document of a file that cannot be read; `problem` says why, in a sentence."""
    return Document(path, file_title(PurePosixPath(path)), (), problems=(problem,))


def packed(document: Document) -> dict[str, Any]:
    """Return a document as JSON values."""
    return {
        "title": document.title,
        "lines": document.lines,
        "body": document.body,
        "frontMatter": document.front_matter,
        "tags": document.tags,
        "aliases": document.aliases,
        "headings": [asdict(heading) for heading in document.headings],
        "problems": document.problems,
    }


def unpacked(path: str, kind: Kind, values: Mapping[str, Any], *, inline: bool = False) -> Document:
    """Return a document from untrusted values as `packed` returns them; others raise ValueError, TypeError, KeyError or
    AttributeError.

    Structure other than parts is parsed again from the lines, which benefits from newer parsers.
    """
    lines = tuple(map(_text, values["lines"]))
    if not is_converted(kind):
        return parse_text(path, "\n".join((*lines, "")).encode("utf-8", "replace"), inline=inline)
    document = Document(
        path=path,
        title=_text(values["title"]),
        lines=lines,
        body=min(_whole(values["body"]), len(lines)),
        front_matter=dict(_value(values["frontMatter"])),
        tags=tuple(map(_text, values.get("tags", ()))),
        aliases=tuple(map(_text, values["aliases"])),
        headings=tuple(
            Heading(_whole(heading["level"]), _text(heading["text"]), _whole(heading["line"]))
            for heading in values["headings"]
        ),
        problems=tuple(map(_text, values.get("problems", ()))),
    )
    return document if kind in KINDS_OF_PARTS else structured(document)


def structured(document: Document) -> Document:
    """Return a converted document with the headings, links and the like of its lines, which are Markdown."""
    parsed = document_of_markdown(
        document.path,
        "\n".join(document.lines),
        title=document.title,
        front_matter=document.front_matter,
        tags=document.tags,
        problems=document.problems,
    )
    return replace(parsed, body=document.body, aliases=document.aliases)


def _text(value: object) -> str:
    """Return a line of text that an index can store, else raise `ValueError`."""
    if not isinstance(value, str) or "\0" in value or "\n" in value:
        raise ValueError(f"{str(value)[:50]!r} is no line of text")
    value.encode()  # raises for half of a surrogate pair
    return value


def _whole(value: object) -> int:
    """Return a number of lines or a level, else raise `ValueError`."""
    if not isinstance(value, int) or value < 0 or value.bit_length() >= MOST_BITS:
        raise ValueError(f"{str(value)[:50]!r} is no number of lines")
    return value


def _value(value: object) -> Any:
    """Return a value of front matter that an index can store, else raise `ValueError`."""
    if isinstance(value, dict):
        return {_value(key): _value(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(entry) for entry in value]
    if isinstance(value, str):
        value.encode()
    if (isinstance(value, str) and "\0" in value) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError("front matter has a value that no index can store")
    if isinstance(value, int) and value.bit_length() >= MOST_BITS:
        raise ValueError("front matter has too large a number")
    return value
