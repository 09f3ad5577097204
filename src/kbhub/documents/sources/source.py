"""Read a file of any kind into a document and its chunks."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO

from kbhub.documents import chunking
from kbhub.documents.sources import parts, sessions, text_formats
from kbhub.documents.sources.isolated import IsolatedParser
from kbhub.workspace.formats import KINDS_OF_PARTS, is_converted, kind_of

if TYPE_CHECKING:
    from kbhub.types import Base, Chunk, Document, Kind

__all__ = ["chunks_of", "parse_source", "read_source"]


def parse_source(base: Base, path: str, data: bytes) -> tuple[Document, list[Chunk], Kind]:
    """Parse a file of a base whatever it is; never fails.

    Args:
        base: its base.
        path: relative to the base, with `/`.
        data: the whole file.

    Returns:
        The document, its chunks, and its kind.
    """
    document, kind = read_source(base, path, io.BytesIO(data), len(data))
    return document, chunks_of(document, kind), kind


def read_source(
    base: Base, path: str, file: BinaryIO, max_bytes: int, parser: IsolatedParser | None = None
) -> tuple[Document, Kind]:
    """Read a file of a base as far as its size limit; a session log line by line. Never fails but by the system.

    Args:
        base: its base.
        path: relative to the base, with `/`.
        file: the file, open for reading and seeking.
        max_bytes: its size limit; it may have grown since it was looked at.
        parser: parses converted files; None starts a process for this one.

    Raises:
        OSError: it cannot be read, or no process can be started.
    """
    kind = kind_of(base, path)
    if kind == "session":
        return sessions.read_session(path, file, max_bytes), kind
    data = file.read(max_bytes + 1)
    if not is_converted(kind):
        return text_formats.parse_text(path, data, inline=base.inline_tags), kind
    if parser is not None:
        return parser.parse(path, kind, data), kind
    with IsolatedParser() as own:
        return own.parse(path, kind, data), kind


def chunks_of(document: Document, kind: Kind) -> list[Chunk]:
    """Cut a document into chunks as its kind wants it: pages, slides and turns are never joined."""
    return parts.chunk_parts(document) if kind in KINDS_OF_PARTS else chunking.chunk_document(document)
