"""Open a document as it is now: from its file, whatever its kind, or from the kept text of a deleted file."""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from typing import BinaryIO

from kbhub.documents.converted import PART_LEVEL, structured
from kbhub.documents.source import read_source
from kbhub.documents.walk import excluded_by, open_contained
from kbhub.errors import IndexUnavailable
from kbhub.hub import Hub
from kbhub.index.catalogue import indexed_document
from kbhub.index.engine import Index
from kbhub.sync.comparison import DeletedTexts, deleted_words
from kbhub.types import Base, Document
from kbhub.values import struct
from kbhub.workspace.formats import KINDS_OF_PARTS, is_converted, kind_of, why_unreadable


@struct
class Opened:
    """A document opened for reading."""

    document: Document
    digest: bytes
    deleted: str | None = None
    """A sentence that the file is gone, since when, and that this is its kept text."""


def has_document(hub: Hub, base: Base, path: str) -> bool:
    """Return whether a document exists, or its text is kept; the path is untrusted."""
    try:
        if base.engine:
            return _shared_content(hub, base, path) is not None
        open_contained(base, path).close()
    except FileNotFoundError:
        return DeletedTexts(hub.limits().kept, base).load(path) is not None
    except (OSError, ValueError):
        return False
    return excluded_by(base, path, hub.limits()) is None


def open_document(hub: Hub, base: Base, path: str, index: Index | None = None) -> Opened:
    """Open a document by an untrusted path; the index, in a snapshot, has the text of files that are slow to parse.

    Raises `PathNotContained`, or `OSError` if the file cannot be read, or does not exist and no text is kept.
    """
    if reason := why_unreadable(base, path):
        raise OSError(errno.ENOSYS, reason, path)
    if base.engine:
        if (content := _shared_content(hub, base, path)) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return _parsed(hub, base, path, BytesIO(content))
    try:
        with open_contained(base, path) as file:
            kind = kind_of(base, path)
            if index is not None and is_converted(kind):
                status = os.fstat(file.fileno())
                level = PART_LEVEL if kind in KINDS_OF_PARTS else None
                with suppress(IndexUnavailable):  # then the file is read
                    if indexed := indexed_document(index, path, status.st_size, status.st_mtime_ns, level):
                        document, digest = indexed
                        if not document.lines:
                            problems = tuple(message for name, message in index.problems() if name == path)
                            document = replace(document, problems=problems)
                        return Opened(structured(document) if level is None else document, digest)
            return _parsed(hub, base, path, file)
    except FileNotFoundError:
        if kept := DeletedTexts(hub.limits().kept, base).load(path):
            return Opened(kept.document, kept.digest, deleted_words(kept.gone))
        raise


def _shared_content(hub: Hub, base: Base, path: str) -> bytes | None:
    try:
        with hub.index(base).snapshot() as index:
            return index.file(path)
    except IndexUnavailable as error:
        raise OSError(errno.EIO, str(error), path) from error


def _parsed(hub: Hub, base: Base, path: str, file: BinaryIO) -> Opened:
    digest = hashlib.file_digest(file, "sha256").digest()  # type: ignore[arg-type] # a raw file will do
    file.seek(0)
    return Opened(read_source(base, path, file, hub.limits().bytes_of(kind_of(base, path))), digest)
