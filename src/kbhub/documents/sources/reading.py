"""Read a file of any kind into a document and its chunks."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO

from kbhub.documents import chunking, markdown
from kbhub.documents.sources import parts, pdf, sessions
from kbhub.workspace.formats import can_read_pdf, kind_of

if TYPE_CHECKING:
    from kbhub.types import Base, Chunk, Document, Kind

__all__ = ["chunks_of", "parse_source", "read_source", "why_unreadable"]


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


def read_source(base: Base, path: str, file: BinaryIO, max_bytes: int) -> tuple[Document, Kind]:
    """Read a file of a base as far as its size limit; a session log line by line. Never fails but by the disk.

    Args:
        base: its base.
        path: relative to the base, with `/`.
        file: the file, open for reading and seeking.
        max_bytes: its size limit; it may have grown since it was looked at.

    Raises:
        OSError: it cannot be read.
    """
    kind = kind_of(base, path)
    if kind == "session":
        return sessions.read_session(path, file, max_bytes), kind
    if kind == "pdf":
        return pdf.read_pdf(path, file), kind
    return markdown.parse_document(path, file.read(max_bytes + 1), inline=base.inline_tags), kind


def chunks_of(document: Document, kind: Kind) -> list[Chunk]:
    """Cut a document into chunks as its kind wants it: pages and turns are never joined."""
    return parts.chunk_parts(document) if kind in ("session", "pdf") else chunking.chunk_document(document)


def why_unreadable(base: Base, path: str) -> str | None:
    """Say why a file cannot be read on this machine, whatever is in it; none if it can."""
    return pdf.INSTALL if kind_of(base, path) == "pdf" and not can_read_pdf() else None
