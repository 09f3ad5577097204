"""A file of a base → what is written to an index."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

from kbhub.errors import EmbedderError, PathNotContained
from kbhub.index import NewChunk, NewDocument
from kbhub.keeping import is_gone
from kbhub.sources import chunks_of, read_source, why_unreadable
from kbhub.sources.kinds import byte_limit, kind_of
from kbhub.traversal import Traversal
from kbhub.types import Problem
from kbhub.values import record, struct
from kbhub.walk import open_contained

if TYPE_CHECKING:
    from kbhub.embedding import Embedder
    from kbhub.keeping import Keeping
    from kbhub.types import Base, Document, FileEntry, Kind, Scan

RACY_NS = 2_000_000_000
"""A file changed less than this long (ns) before it was read may change again within one tick of its clock
(2 s on FAT), so its time is stored negated, which no file has, and its content is compared next time."""

_BLOCK = 1 << 20
"""Bytes of a file that are hashed at a time."""


NOTHING: Mapping[str, tuple[int, int, bytes]] = MappingProxyType({})
"""What is known of an index that is yet to be made."""


@struct
class Read:
    """What was found in some files."""

    documents: tuple[NewDocument, ...]
    same: tuple[FileEntry, ...]
    """Files whose content is the known one."""
    vectors: Mapping[int, bytes | None]
    """Key → int8 vector, none for "no vector", of chunks of the documents; what is missing is to be made."""
    failed: tuple[Problem, ...]
    """What could not be read or kept, and why."""
    unread: frozenset[str]
    """Paths of files that could not be read."""


class Embedding:
    """Makes the vectors of documents, each text once.

    Args:
        embedder: what makes them.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._made: set[int] = set()

    def of(self, documents: Iterable[NewDocument]) -> dict[int, bytes | None]:
        """Give the vectors of the chunks of documents by key, but for those that were given before.

        A model that cannot be used gives none; who wants them will find out why.
        """
        texts = {key: text for document in documents for key, text in keyed_texts(document) if key not in self._made}
        try:
            vectors = stored_vectors(self._embedder, texts)
        except EmbedderError:
            return {}
        self._made.update(vectors)
        return vectors


@record
class DocumentReader:
    """Reads the files of a base, keeps the texts that are to be kept, and remembers what could not be read."""

    base: Base
    keeping: Keeping
    max_bytes: int
    max_files: int
    kind_bytes: Mapping[Kind, int]
    failed: list[Problem] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    """Paths that could not be read."""

    def scan(self, paths: Collection[str] | None = None) -> Scan:
        """List the files of the base, in no order, and those that are gone and whose text is kept.

        Args:
            paths: look at these alone; what is found of them is what a look at all would find as long as `Scan.frame`
                is the same in both and is not none.

        Raises:
            BaseUnavailable: the folder of the base is not there.
        """
        found = Traversal(self.base, self.max_bytes, self.max_files, self.kind_bytes, paths).run()
        return self.keeping.with_gone(found)

    def can_read(self, entry: FileEntry) -> bool:
        """Say whether a file that could not be read when that was last tried can be opened now."""
        if is_gone(entry.size) or why_unreadable(self.base, entry.path) is not None:
            return False
        try:
            open_contained(self.base, entry.path).close()
        except (OSError, PathNotContained):
            return False
        return True

    def read(self, entry: FileEntry, known: bytes | None) -> NewDocument | None:
        """Read a file, or what is kept of one that is gone.

        Args:
            entry: the file.
            known: the hash that its content is known by.

        Returns:
            The document; none if its content is the known one, or if it cannot be read.
        """
        try:
            if is_gone(entry.size):
                self._note(entry.path, gone=True)
                return self._kept(entry, known)
            self._note(entry.path, gone=False)
            if reason := why_unreadable(self.base, entry.path):
                self._fail(entry, reason)
                return None
            limit = byte_limit(kind_of(self.base, entry.path), self.max_bytes, self.kind_bytes)
            with open_contained(self.base, entry.path) as file:
                # Should it grow meanwhile, the hash is of less than was parsed, and the next sync reads it again.
                digest = _digest(file)
                if digest == known and not self.keeping.lacks(entry.path):
                    return None
                file.seek(0)
                document, kind = read_source(self.base, entry.path, file, limit)
        except (OSError, PathNotContained) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._fail(entry, f"It cannot be read: {reason}.")
            return None
        if self.keeping.wants(entry.path):
            try:
                self.keeping.save(entry, digest, kind, document)
            except OSError as error:
                self._fail(entry, f"Its text cannot be kept: {error.strerror}.")
        return new_document(self.base, entry, document, kind, digest)

    def read_all(
        self,
        entries: Sequence[FileEntry],
        embedding: Embedding | None = None,
        known: Mapping[str, tuple[int, int, bytes]] = NOTHING,
    ) -> Read:
        """Read files, or what is kept of those that are gone.

        Args:
            entries: the files.
            embedding: makes the vectors of what is in them; none leaves them out.
            known: path → size, time and hash by which contents are known.
        """
        failed, unread = len(self.failed), set(self.unread)
        documents, same = [], []
        for entry in entries:
            old = known.get(entry.path)
            found = self.read(entry, old[2] if old else None)
            if found is not None:
                documents.append(found)
            elif entry.path not in self.unread:
                same.append(entry)
        return Read(
            documents=tuple(documents),
            same=tuple(same),
            vectors=embedding.of(documents) if embedding else {},
            failed=tuple(self.failed[failed:]),
            unread=frozenset(self.unread - unread),
        )

    def _kept(self, entry: FileEntry, known: bytes | None) -> NewDocument | None:
        kept = self.keeping.load(entry.path)
        if kept is None:
            self._fail(entry, "Its file is gone, and what was kept of it cannot be read.")
            return None
        if kept.digest == known:
            return None
        return new_document(self.base, entry, kept.document, kept.kind, kept.digest)

    def _note(self, path: str, *, gone: bool) -> None:
        with suppress(OSError):  # then nothing says since when, which harms nothing
            self.keeping.note(path, gone=gone)

    def _fail(self, entry: FileEntry, message: str) -> None:
        self.unread.add(entry.path)
        self.failed.append(Problem(subject=entry.path, message=message))


def new_document(base: Base, entry: FileEntry, document: Document, kind: Kind, digest: bytes) -> NewDocument:
    """Give a document as it is written to the index of its base.

    Args:
        base: its base.
        entry: its file as the walk saw it.
        document: as it was parsed.
        kind: what it is.
        digest: SHA-256 of the file.
    """
    chunks = tuple(
        NewChunk(
            headings=chunk.headings,
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            prose=chunk.prose,
            text=chunk.text,
            key=chunk_key(embedded_text(document.title, chunk.headings, chunk.text[chunk.prose :])),
        )
        for chunk in chunks_of(document, kind)
    )
    return NewDocument(
        path=entry.path,
        docid=document_id(base, entry.path),
        size=entry.size,
        mtime_ns=trusted_time(entry),
        hash=digest,
        title=document.title,
        tags=document.tags,
        aliases=document.aliases,
        front_matter=document.front_matter,
        dated=_dated(document.front_matter),
        problem=" ".join(document.problems) or None,
        chunks=chunks,
        kind=kind,
        links=document.links,
    )


def chunk_key(text: str) -> int:
    """Give the key under which the vector of a text is kept: 64 bits of its SHA-256, signed."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big", signed=True)


def embedded_text(title: str, headings: Sequence[str], prose: str) -> str:
    """Give what is embedded for a chunk: its prose under its title and headings."""
    return "\n".join(part for part in (title, " > ".join(headings), prose) if part)


def keyed_texts(document: NewDocument) -> Iterator[tuple[int, str]]:
    """Give key and text of what is embedded for each chunk of a document."""
    for chunk in document.chunks:
        yield chunk.key, embedded_text(document.title, chunk.headings, chunk.text[chunk.prose :])


def stored_vectors(embedder: Embedder, texts: Mapping[int, str]) -> dict[int, bytes | None]:
    """Make the vectors of texts as an index keeps them.

    Args:
        embedder: what makes them.
        texts: key → text.

    Returns:
        Key → int8 vector; none where the embedder knows none for a text.

    Raises:
        EmbedderError: the model cannot be loaded or does not answer.
    """
    if not texts:
        return {}
    made = embedder.embed(list(texts.values()))
    # numpy, which is loaded by now.
    from kbhub.vectors import quantise  # noqa: PLC0415

    return {
        key: blob.tobytes() if vector.any() else None
        for key, vector, blob in zip(texts, made, quantise(made), strict=True)
    }


def document_id(base: Base, path: str) -> str:
    """Give the full docid of a document: hex digits, of which people see the first six."""
    return hashlib.sha256(f"{base.path}\0{path}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _digest(file: BinaryIO) -> bytes:
    digest = hashlib.sha256()
    while block := file.read(_BLOCK):
        digest.update(block)
    return digest.digest()


def trusted_time(entry: FileEntry) -> int:
    """Give the time to store for a file, negated if the file may still change without another time."""
    racy = entry.size >= 0 and abs(time.time_ns() - entry.mtime_ns) < RACY_NS
    return -entry.mtime_ns if racy else entry.mtime_ns


def _dated(front_matter: Mapping[str, Any]) -> int | None:
    """Give the day that a document says it is of: `updated`, else `date`; seconds since the epoch."""
    for key in ("updated", "date"):
        value = front_matter.get(key)
        if isinstance(value, str):
            try:
                moment = datetime.fromisoformat(value.strip())
            except ValueError:
                continue
            return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    return None
