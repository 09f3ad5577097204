"""Build documents of formats whose text is converted to Markdown."""

from __future__ import annotations

import codecs
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from kbhub.documents.blocks import MAX_HEADING_CHARS, scan_blocks
from kbhub.documents.links import extract_links
from kbhub.documents.markdown import decode, encoding_of, heading_title
from kbhub.types import Document
from kbhub.workspace.formats import file_title

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NO_CHARSETS = frozenset(
    ("idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7")
)
"""Codecs of Python that no file is written in, or that take more than linear time."""

_WEB_NAMES = {"iso8859-1": "cp1252", "ascii": "cp1252", "utf-16": "utf-8", "utf-16-le": "utf-8", "utf-16-be": "utf-8"}
"""What browsers read in place of a declared encoding: Latin-1 means Windows-1252, and a file that could be read far
enough to find `utf-16` is not in it."""


def decode_as(data: bytes, charset: str) -> tuple[str, str | None]:
    """Decode text in a declared encoding; a byte order mark comes first, and UTF-8 is read if the name is unknown.

    Args:
        data: the text.
        charset: name of its encoding; empty if none is declared.

    Returns:
        The text, with U+FFFD for NUL characters and unreadable bytes, and a message on those, or None.
    """
    if not charset or encoding_of(data)[0]:
        return decode(data)
    try:
        name = codecs.lookup(charset.strip()).name
        name = _WEB_NAMES.get(name, name)
        if name in _NO_CHARSETS or name == "utf-8":
            return decode(data)
        text = data.decode(name, "replace").replace("\0", "\ufffd")
    except (LookupError, ValueError):
        text, problem = decode(data)
        return text, problem and f"Its encoding {charset.strip()[:40]!r} is unknown. {problem}"
    text = text.encode("utf-8", "replace").decode("utf-8")  # some codecs let lone surrogates through
    lost = "\ufffd" in text and "\ufffd".encode() not in data
    return text, f"Not all of it is valid {name}: unreadable bytes are shown as \ufffd." if lost else None


def document_of_markdown(
    path: str,
    markdown: str,
    *,
    title: str = "",
    front_matter: Mapping[str, Any] | None = None,
    shown: Sequence[str] = (),
    tags: Sequence[str] = (),
    problems: Sequence[str] = (),
) -> Document:
    """Build a document from text that was converted to Markdown.

    Args:
        path: of the file, relative to the base, with `/`.
        markdown: its text as Markdown; YAML at its top is text.
        title: its title; without one, the first heading or else the file name.
        front_matter: JSON-safe values.
        shown: keys of `front_matter` whose values are repeated at the top of the text, so that words find them.
        tags: its tags.
        problems: messages on what could not be read.
    """
    values = {key: storable(value) if isinstance(value, str) else value for key, value in (front_matter or {}).items()}
    text = storable(markdown).strip("\n")
    lines = text.split("\n") if text else []
    head = [f"{key}: {_one_line(values[key])}" for key in shown if values.get(key)]
    head += [""] if head and lines else []
    lines = [*head, *lines]
    blocks = scan_blocks(lines, len(head), 0)
    hidden = [*blocks.fences, *blocks.raw, *([(1, len(head))] if head else [])]
    shown_title = " ".join(storable(title).split())[:MAX_HEADING_CHARS]
    return Document(
        path=path,
        title=shown_title or heading_title(blocks.headings) or file_title(PurePosixPath(path)),
        lines=tuple(lines),
        body=len(head),
        front_matter=values,
        tags=tuple(dict.fromkeys(filter(None, tags))),
        aliases=(),
        headings=tuple(blocks.headings),
        fences=tuple(blocks.fences),
        links=extract_links("\n".join(lines), lines, hidden),
        problems=tuple(map(_one_line, problems)),
        tables=tuple(blocks.tables),
    )


def plain_document(path: str, data: bytes, problem: str) -> Document:
    """Build a document without structure from a file that could not be read as its format.

    Args:
        path: relative to the base, with `/`.
        data: the whole file.
        problem: why it could not be read.
    """
    text, encoding_problem = decode(data)
    lines = storable(text).split("\n")
    if not lines[-1]:
        lines.pop()
    title = file_title(PurePosixPath(path))
    problems = tuple(filter(None, (problem, encoding_problem)))
    return Document(path, title, tuple(lines), 0, {}, (), (), (), (), (), problems)


def storable(text: str) -> str:
    """Return text with line feeds as line endings, and without the lone surrogates and NUL that no index can store."""
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _one_line(value: object) -> str:
    return " ".join(str(", ".join(map(str, value)) if isinstance(value, list) else value).split())
