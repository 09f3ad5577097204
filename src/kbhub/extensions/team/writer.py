"""Writer of a shared base, in one transaction, so that readers see all or nothing; and the memories in it, as files."""

from __future__ import annotations

import hashlib
import json
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import BytesIO
from typing import Any, cast

import numpy as np
from psycopg import Connection

from kbhub.documents.source import read_source
from kbhub.errors import EmbedderError, IndexUnavailable, WriteRefused
from kbhub.extensions.team.bases import changing, opened
from kbhub.extensions.team.blocks import Inverter, put, write_postings
from kbhub.extensions.team.reader import PostgresIndex
from kbhub.hub import Hub
from kbhub.index.engine import PACKED_FROM, NewDocument, properties, searched_texts
from kbhub.index.references import docid_in, embedded_text
from kbhub.index.signatures import bits_of, sign
from kbhub.sync.indexer import keyed_texts, new_document, stored_vectors
from kbhub.types import Base, Chunk, FileEntry, Problem
from kbhub.workspace.formats import kind_of

CHUNKS_AT_ONCE = 4_000

SIGNATURES_AT_ONCE = 100_000
"""Signatures whose rows are sent at once: 25 MB of objects."""

OCCURRENCES_AT_ONCE = 6_000_000
"""Occurrences of terms that are collected before they are written: 75 MB, as much again to sort them."""

LOOSE_SHARE = 0.1
"""Share of chunks that come or go until all signatures are computed anew, as in an index file."""

LONGEST_KEY = 2_000
"""Bytes of a path or a value that PostgreSQL takes as a key: 2,704 at most, with the other columns."""

_FLUSHED = ("document", "file", "chunk", "extent", "vector", "property", "link")
"""Tables with rows of documents, documents first: who writes parts of them is checked."""

_NUMBER = re.compile(r"[ \t\n\f\r]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t\n\f\r]*")
"""A text that SQLite stores as a number in a column of numeric affinity, as that of its properties is."""


class PostgresWriter:
    """Writer of one base of a database, within a transaction of the caller that holds the base.

    Docids depend on `name`; `content` returns the bytes of a document's file, None if it has none.
    """

    def __init__(
        self, connection: Connection[Any], number: int, name: str, content: Callable[[NewDocument], bytes | None]
    ) -> None:
        self._connection, self._number, self._name, self._content = connection, number, name, content
        self._pending: list[tuple[NewDocument, dict[int, bytes | None]]] = []
        self._pending_chunks = 0
        self._added, self._removed = Inverter(), Inverter()
        self._changed = False
        self._refused: list[tuple[str, str]] = []
        """(path, reason) of documents that cannot be stored."""
        self._meta = dict(self._rows("SELECT key, value FROM kbhub.meta_rows(%s)"))

    @contextmanager
    def transaction(self, *, content: bool = True) -> Iterator[None]:
        """Group writes; all of them are one transaction anyway."""
        self._changed |= content
        yield

    def meta(self, key: str) -> Any:
        """Return a value of the table `meta`, or None."""
        return self._meta.get(key)

    def set_meta(self, values: Mapping[str, Any]) -> None:
        """Set values of the table `meta`."""
        self._meta.update(values)
        self._put("meta", [(key, json.dumps(value)) for key, value in values.items()])

    def files(self, paths: Sequence[str] | None = None) -> dict[str, tuple[int, int, bytes]]:
        """Return path → (size, mtime in ns, hash) of all documents, or of those at some paths."""
        rows = self._documents("path, size, mtime_ns, hash", paths)
        return {path: (size, mtime, digest) for path, size, mtime, digest in rows}

    def vectors(self, keys: Iterable[int]) -> dict[int, bytes | None]:
        """Return the stored vectors of text hashes: key → int8 vector, or None for "no vector"."""
        statement = (
            "SELECT DISTINCT ON (key) key, embedding FROM kbhub.vector_by_key(%s, %s::int8[]) "
            "WHERE embedding IS NULL OR length(embedding) = %s"
        )
        return dict(self._rows(statement, list(keys), self._meta.get("dimensions")))

    def put(self, document: NewDocument, vectors: Mapping[int, bytes | None]) -> None:
        """Write a document in place of that at its path; a chunk whose key has no int8 vector gets one later."""
        if len(document.path.encode()) > LONGEST_KEY:
            reason = f"Its path is longer than {LONGEST_KEY:,} bytes, which a shared base cannot store."
            self._refused.append((document.path, reason))
            return
        mine = {key: vectors[key] for key in document.keys if key in vectors}
        self._pending.append((document, mine))
        self._pending_chunks += len(document.chunks)
        if self._pending_chunks > CHUNKS_AT_ONCE:
            self._flush()

    def put_vector(self, chunk: int, key: int, vector: bytes | None) -> None:
        """Write the vector of a chunk; None means that its text has none."""
        self._put("vector", [(chunk, key, vector)])

    def touch(self, path: str, size: int, mtime_ns: int) -> None:
        """Record a new size and time of a file with unchanged content."""
        self._rows("SELECT kbhub.touch(%s, %s, %s, %s)", path, size, mtime_ns)

    def remove(self, path: str) -> None:
        """Remove a document."""
        self._flush()
        self._delete([path])

    def forget_vectors(self) -> None:
        """Delete every vector, so that another embedder computes them again."""
        self._clear("vector", "signature", "packed")

    def without_vector(self, limit: int) -> dict[int, str]:
        """Return the texts to embed of chunks without a vector, by id."""
        self._flush()
        rows = self._rows(
            "SELECT c.id, d.title, d.kind, c.start_line, c.headings, substr(c.text, c.prose + 1) "
            "FROM kbhub.chunks_without_vector(%s, %s) c JOIN kbhub.document_rows(%s) d ON d.id = c.document_id "
            "ORDER BY c.id",
            limit,
            self._number,
        )
        return {
            chunk: embedded_text(title, kind, Chunk(tuple(json.loads(headings)), line, line, text))
            for chunk, title, kind, line, headings, text in rows
        }

    def set_problems(self, problems: Sequence[Problem], paths: Iterable[str] | None = None) -> None:  # noqa: ARG002 - all
        """Replace the problems of files that could not be indexed."""
        self._clear("problem")
        known = {problem.subject: problem.message for problem in problems}
        self._put("problem", list({**known, **dict(self._refused)}.items()))

    def left_out(self, paths: Iterable[str] | None = None) -> dict[str, str]:
        """Return path → reason of documents without text or that cannot be stored, of all or of those at some paths."""
        self._flush()
        rows = self._documents(
            "path, problem",
            paths,
            "WHERE problem IS NOT NULL AND NOT EXISTS "
            "(SELECT FROM kbhub.chunk_by_document_id(%s, ARRAY[document.id])) ORDER BY path",
            self._number,
        )
        return {**dict(rows), **dict(self._refused)}

    def set_commits(self, times: Mapping[str, int]) -> None:
        """Store the last commit of documents: path → seconds since the epoch."""
        self._flush()
        self._rows("SELECT kbhub.set_commits(%s, %s::text[], %s::int8[])", list(times), list(times.values()))

    def counts(self) -> tuple[int, int]:
        """Return the numbers of documents and chunks."""
        self._flush()
        ((documents, chunks),) = self._rows("SELECT documents, chunks FROM kbhub.counts(%s)")
        return int(documents), int(chunks)

    def tidy(self, written: int) -> None:  # noqa: ARG002 - an index file merges segments by it
        """Write all derived data: postings, signatures, and the state that readers compare."""
        self._flush()
        self._write_postings()
        # The signatures of new vectors, or of all if the mean of the old ones no longer fits.
        ((chunks, gone),) = self._rows("SELECT chunks, gone FROM kbhub.counts(%s)")
        packed = dict(self._rows("SELECT name, data FROM kbhub.packed_rows(%s)"))
        signed = "meant" in packed
        new = self._rows(
            "SELECT chunk_id, embedding FROM kbhub.vectors_without_signature(%s, %s)", None if signed else 1
        )
        loose = gone + len(new) > LOOSE_SHARE * max(chunks, PACKED_FROM) if signed else chunks >= PACKED_FROM
        if loose or gone > LOOSE_SHARE * max(chunks, PACKED_FROM):
            self._pack(chunks)
        elif signed and new:
            mean = np.frombuffer(packed["mean"], np.float32)
            self._put_signatures([chunk for chunk, _ in new], bits_of([blob for _, blob in new], mean))
        if self._changed:
            generation = self._meta.get("generation")
            self.set_meta({"generation": generation + 1 if generation else random.getrandbits(62)})

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        return self._connection.execute(statement, (self._number, *values), binary=True).fetchall()

    def _documents(self, columns: str, paths: Iterable[str] | None, where: str = "", *values: Any) -> list[Any]:
        """Return columns of all documents, or of those at some paths."""
        rows, wanted = ("rows(%s)", []) if paths is None else ("by_path(%s, %s::text[])", [list(paths)])
        return self._rows(f"SELECT {columns} FROM kbhub.document_{rows} AS document {where}", *wanted, *values)

    def _put(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        put(self._connection, self._number, table, rows)

    def _clear(self, *tables: str) -> None:
        for table in tables:
            self._rows(f"SELECT kbhub.clear_{table}(%s)")

    def _flush(self) -> None:
        pending, self._pending, self._pending_chunks = self._pending, [], 0
        if not pending:
            return
        committed = self._delete([document.path for document, _ in pending])
        document_id, chunk_id = self._meta.get("next_document") or 1, self._meta.get("next_chunk") or 1
        rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in _FLUSHED}
        for document, vectors in pending:
            stat = document.size, document.mtime_ns, document.hash
            fields = map(json.dumps, (document.tags, document.aliases, document.front_matter))
            named = docid_in(f"team {self._name}", document.path), *stat, _storable(document.title), document.kind
            times = document.dated, committed.get(document.path), document.problem
            rows["document"].append((document_id, document.path, *named, *fields, *times))
            if (content := self._content(document)) is not None:
                rows["file"].append((document_id, content))
            for place, (name, value) in enumerate(properties(document)):
                rows["property"].append((document_id, place, *_property(name, value)))
            for place, link in enumerate(document.links):
                texts = map(_storable, (link.target, link.fragment, link.text))
                rows["link"].append((document_id, place, *texts, link.line, link.kind))
            for chunk, key, searched in zip(document.chunks, document.keys, searched_texts(document), strict=True):
                lines = chunk.start_line, chunk.end_line, chunk.prose
                rows["chunk"].append((chunk_id, document_id, json.dumps(chunk.headings), *lines, _storable(chunk.text)))
                rows["extent"].append((chunk_id, document_id, self._added.add(chunk_id, searched)))
                if key in vectors:
                    rows["vector"].append((chunk_id, key, vectors[key]))
                chunk_id += 1
            document_id += 1
        for table, new in rows.items():
            self._put(table, new)
        self.set_meta({"next_document": document_id, "next_chunk": chunk_id})
        if self._added.size > OCCURRENCES_AT_ONCE:
            self._write_postings()

    def _delete(self, paths: Sequence[str]) -> dict[str, int | None]:
        """Remove documents; return path → time of the last commit, if known."""
        rows = self._documents("id, path, title, kind, tags, aliases, committed", paths)
        if not rows:
            return {}
        documents = {row[0]: row[1:] for row in rows}
        chunks = self._rows(
            "SELECT document_id, id, headings, start_line, text "
            "FROM kbhub.chunk_by_document_id(%s, %s::int8[]) ORDER BY id",
            list(documents),
        )
        for document, chunk, headings, line, text in chunks:
            # What was searched of it.
            path, title, kind, tags, aliases, _ = documents[document]
            part = Chunk(tuple(json.loads(headings)), line, line, text)
            words = title, tuple(json.loads(tags)), tuple(json.loads(aliases))
            stored = NewDocument(path, "", 0, 0, b"", *words, {}, None, None, (part,), (0,), kind)
            self._removed.add(chunk, *searched_texts(stored))
        ((removed,),) = self._rows("SELECT kbhub.remove_documents(%s, %s::int4[])", list(documents))
        if removed < len(documents):
            why = "it was written by someone else; only its author or an admin of the base can change it"
            raise WriteRefused(rows[0][1], why)
        return {row[1]: row[-1] for row in rows}

    def _write_postings(self) -> None:
        added, removed, self._added, self._removed = self._added, self._removed, Inverter(), Inverter()
        write_postings(self._connection, self._number, added, removed)

    def _pack(self, chunks: int) -> None:
        self._clear("signature", "packed", "gone")
        self.set_meta({"pack": random.getrandbits(62)})
        if chunks < PACKED_FROM:
            return
        ids = np.array([chunk for (chunk,) in self._rows("SELECT chunk_id FROM kbhub.extent_after(%s, -1, NULL)")])
        stored = "kbhub.vector_by_chunk_id(%s, %s::int8[]) WHERE embedding IS NOT NULL"
        made = sign(None, ids, lambda some: self._rows(f"SELECT chunk_id, embedding FROM {stored}", some.tolist()))
        self._put_signatures(ids[made.signed].tolist(), made.bits[:, made.signed])
        self._put("packed", [("mean", made.mean.tobytes()), ("meant", str(made.meant).encode())])

    def _put_signatures(self, chunks: Sequence[int], bits: Any) -> None:
        for start in range(0, len(chunks), SIGNATURES_AT_ONCE):
            some = slice(start, start + SIGNATURES_AT_ONCE)
            each = np.ascontiguousarray(bits[:, some].T)
            self._put("signature", [(chunk, one.tobytes()) for chunk, one in zip(chunks[some], each, strict=True)])


def _storable(text: str) -> str:
    """Return a text of the same length that PostgreSQL can store: it has no NUL."""
    return text.replace("\0", "\ufffd")


def _property(key: str, value: str | float) -> tuple[str, str, float | None]:
    """Return key, value and number of a property, the number as SQLite casts it."""
    key = _storable(key.encode()[:LONGEST_KEY].decode("utf-8", "ignore"))
    if not isinstance(value, str):
        return key, str(value), float(value)
    text = _storable(value.encode("utf-8", "replace")[:LONGEST_KEY].decode("utf-8", "ignore"))
    number = float(value) if _NUMBER.fullmatch(value) else None
    return key, text, number


class TeamFiles:
    """The memories of an active shared base, by path. Every write is one transaction."""

    def __init__(self, hub: Hub, base: Base) -> None:
        self._hub, self._base, self._index = hub, base, cast("PostgresIndex", hub.index(base))

    def names(self) -> list[str]:
        """Return the names of all files; none if the database cannot be read."""
        with suppress(IndexUnavailable), self._index.snapshot():
            return self._index.paths()
        return []

    def read(self, path: str, limit: int) -> tuple[bytes, float] | None:  # noqa: ARG002 - the database limits files
        """Return the bytes of a file and when it was written (seconds since the epoch); None if there is none."""
        with self._index.snapshot() as index:
            content, document = index.file(path), index.document(path)
        return (content, document.mtime_ns / 1e9) if content is not None and document else None

    def author(self) -> str:
        """Return the user's role in the database."""
        return self._index.server.session().role

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
        document = read_source(self._base, path, BytesIO(data), self._hub.limits().file_bytes)
        written = new_document(self._base, entry, document, kind_of(self._base, path), hashlib.sha256(data).digest())
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
                return stored_vectors(embedder, keyed_texts([document]))
        return {}

    @contextmanager
    def _writer(self, data: bytes | None) -> Iterator[PostgresWriter]:
        index = self._index
        with changing(index.server, index.name, "kbhub remember", wait=True) as (connection, number):
            if not ((found := opened(connection, index.name)) and found.memories):
                reason = f"its admin has not allowed agents to remember in {self._base.place}"
                remedy = "an admin can allow it with `kbhub team publish --to URL --memories`"
                raise WriteRefused(self._base.id, f"{reason}; {remedy}")
            writer = PostgresWriter(connection, number, index.name, lambda _: data)
            with writer.transaction():
                yield writer
            writer.set_meta({"synced": datetime.now(UTC).isoformat(timespec="seconds")})
