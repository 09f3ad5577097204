"""Memories of a team: files in the database of a shared base."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING, cast

from kbhub.documents.sources.source import read_source
from kbhub.errors import EmbedderError, IndexUnavailable, WriteRefused
from kbhub.extensions.team.bases import changing, takes_memories
from kbhub.extensions.team.reader import PostgresIndex
from kbhub.extensions.team.writer import PostgresWriter
from kbhub.index.engine import NewDocument
from kbhub.sync.indexer import keyed_texts, new_document, stored_vectors
from kbhub.types import Base, FileEntry

if TYPE_CHECKING:
    from kbhub.hub import Hub


class TeamFiles:
    """The memories of an active shared base, by path. Every write is one transaction."""

    def __init__(self, hub: Hub, base: Base) -> None:
        self._hub, self._base = hub, base

    def names(self) -> list[str]:
        """Return the names of all files; none if the database cannot be read."""
        index = self._index()
        try:
            with index.snapshot():
                return index.paths()
        except IndexUnavailable:
            return []

    def read(self, path: str, limit: int) -> tuple[bytes, float] | None:  # noqa: ARG002 - the database limits files
        """Return the bytes of a file and when it was written (seconds since the epoch); None if there is none."""
        index = self._index()
        with index.snapshot():
            content, document = index.file(path), index.document(path)
        return (content, document.mtime_ns / 1e9) if content is not None and document else None

    def author(self) -> str:
        """Return the user's role in the database."""
        return self._index().server.session().role

    def create(self, path: str, data: bytes) -> None:
        """Write a new file; raise `FileExistsError` if the path is taken."""
        self._write(path, data, new=True)

    def replace(self, path: str, data: bytes) -> None:
        """Overwrite a file; raise `WriteRefused` if another role owns it."""
        self._write(path, data, new=False)

    def remove(self, path: str) -> None:
        """Remove a file; raise `WriteRefused` if another role owns it."""
        with self._writer(None) as writer:
            writer.remove(path)
            writer.tidy(0)

    def _write(self, path: str, data: bytes, *, new: bool) -> None:
        entry = FileEntry(path, len(data), time.time_ns())
        document, kind = read_source(self._base, path, BytesIO(data), self._hub.limits().file_bytes)
        written = new_document(self._base, entry, document, kind, hashlib.sha256(data).digest())
        with self._writer(data) as writer:
            if new and writer.files([path]):
                raise FileExistsError(path)
            writer.put(written, self._vectors(writer, written))
            writer.tidy(0)

    def _vectors(self, writer: PostgresWriter, document: NewDocument) -> dict[int, bytes | None]:
        """Return a document's vectors by the base's model; without them it is found by words only."""
        with suppress(EmbedderError):
            if (embedder := self._hub.embedder()) is None:
                return {}
            if writer.meta("embedder") is None:
                writer.set_meta({"embedder": embedder.fingerprint, "dimensions": embedder.dimensions})
            if writer.meta("embedder") == embedder.fingerprint:
                return stored_vectors(embedder, dict(keyed_texts(document)))
        return {}

    @contextmanager
    def _writer(self, data: bytes | None) -> Iterator[PostgresWriter]:
        index = self._index()
        with changing(index.server, index.name, "kbhub remember", wait=True) as (connection, number):
            if not takes_memories(connection, index.name):
                reason = f"its admin has not allowed agents to remember in {self._base.place}"
                raise WriteRefused(
                    self._base.id, f"{reason}; an admin can allow it with `kbhub team publish --to URL --memories`"
                )
            writer = PostgresWriter(connection, number, index.name, lambda _: data)
            with writer.transaction():
                yield writer
            writer.set_meta({"synced": datetime.now(UTC).isoformat(timespec="seconds")})

    def _index(self) -> PostgresIndex:
        return cast("PostgresIndex", self._hub.index(self._base))
