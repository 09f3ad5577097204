"""The text of a document as it is now: of its file whatever kind that is, or kept of a file that is gone."""

from __future__ import annotations

import errno
import hashlib
import os
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kbhub.errors import IndexUnavailable
from kbhub.index.texts import indexed_document
from kbhub.keeping import Keeping, deleted_words
from kbhub.sources import read_source, why_unreadable
from kbhub.sources.kinds import byte_limit, kind_of
from kbhub.sources.parts import PART_LEVEL
from kbhub.values import struct
from kbhub.walk import NO_LIMITS, excluded_by, open_contained

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbhub.index import Index
    from kbhub.types import Base, Document, Kind

_BLOCK = 1 << 20
"""Bytes of a file that are hashed at a time."""


@struct
class Opened:
    """A document that was opened for reading."""

    document: Document
    digest: bytes
    """SHA-256 of its file."""
    deleted: str | None = None
    """That the file is gone, since when, and that this is what was kept of it."""


@struct
class Opener:
    """Opens documents of bases."""

    max_bytes: int
    """Size limit of a file."""
    kind_bytes: Mapping[Kind, int] = field(default_factory=lambda: NO_LIMITS)
    """The same for kinds of files that have their own."""
    kept: Path | None = None
    """Folder of kept texts; none if none are kept."""

    def has(self, base: Base, path: str) -> bool:
        """Whether a document is there, or was and is kept.

        Args:
            base: the base.
            path: relative to it, with `/`. Any string is safe.
        """
        try:
            open_contained(base, path).close()
        except FileNotFoundError:
            return Keeping(self.kept, base).load(path) is not None
        except (OSError, ValueError):
            return False
        return self.excluded_by(base, path) is None

    def excluded_by(self, base: Base, path: str) -> str | None:
        """What keeps an existing file out of a base, in words; none if nothing does."""
        return excluded_by(base, path, max_bytes=self.max_bytes, kind_bytes=self.kind_bytes)

    def open(self, base: Base, path: str, index: Index | None = None) -> Opened:
        """Open a document.

        Args:
            base: the base.
            path: relative to it, with `/`. Any string is safe.
            index: that of the base, in a snapshot, if it can be read; it knows the text of files that take long.

        Raises:
            PathNotContained: it is no path inside the base.
            OSError: it is not there, and nothing was kept of it, or it cannot be read.
        """
        if reason := why_unreadable(base, path):
            raise OSError(errno.ENOSYS, reason, path)
        try:
            with open_contained(base, path) as file:
                return self._read(base, path, file, index)
        except FileNotFoundError:
            if kept := Keeping(self.kept, base).load(path):
                return Opened(kept.document, kept.digest, deleted_words(kept.gone))
            raise

    def _read(self, base: Base, path: str, file: BinaryIO, index: Index | None) -> Opened:
        kind = kind_of(base, path)
        if index is not None and kind in ("session", "pdf"):
            status = os.fstat(file.fileno())
            try:
                if found := indexed_document(index, path, status.st_size, status.st_mtime_ns, PART_LEVEL):
                    return Opened(*found)
            except IndexUnavailable:
                pass  # it is read as if it were not indexed
        digest = hashlib.sha256()
        while block := file.read(_BLOCK):
            digest.update(block)
        file.seek(0)
        document, _ = read_source(base, path, file, byte_limit(kind, self.max_bytes, self.kind_bytes))
        return Opened(document, digest.digest())
