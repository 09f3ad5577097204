"""Write a shared base: what `sync` writes to an index file, in one transaction, so that readers see all of it or none.

Rows reach the tables through temporary ones, because COPY into a table with row level security is refused.
"""

from __future__ import annotations

import json
import random
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from kbhub.errors import WriteRefused
from kbhub.index.engine import PACKED_FROM
from kbhub.index.new_documents import NewChunk, NewDocument, properties, searched_texts
from kbhub.index.postgres.blocks import Inverter
from kbhub.index.postgres.inverted import write_postings
from kbhub.index.references import docid_in
from kbhub.index.rows import title_above
from kbhub.index.signatures import bits_of, sign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from psycopg import Connection

CHUNKS_AT_ONCE = 4_000
"""Chunks whose rows are sent at once."""

SIGNATURES_AT_ONCE = 100_000
"""Signatures whose rows are sent at once: 25 MB of objects."""

OCCURRENCES_AT_ONCE = 6_000_000
"""Occurrences of terms that are collected before they are written: 75 MB, as much again to sort them."""

LOOSE_SHARE = 0.1
"""Share of chunks that come or go until all signatures are computed anew, as in an index file."""

ANALYZED_FROM = 1_000
"""Chunks written in one go from which the server's statistics of the tables are made anew; it takes a second."""

LONGEST_KEY = 2_000
"""Bytes of a path or a value that PostgreSQL takes as a key: 2,704 at most, with the other columns."""

_COLUMNS = {
    "document": "base_id id path docid size mtime_ns hash title kind tags aliases front_matter dated committed problem",
    "file": "base_id document_id content",
    "chunk": "base_id id document_id headings start_line end_line prose text",
    "extent": "base_id chunk_id document_id tokens",
    "vector": "base_id chunk_id key embedding",
    "signature": "base_id chunk_id signature",
    "property": "base_id document_id place key value number",
    "link": "base_id document_id place target fragment text line kind",
}
"""Table → its columns, as they are written."""

_TYPES = {
    "text": "path docid title kind tags aliases front_matter problem headings text key value target fragment",
    "bytea": "hash content embedding signature",
    "int8": "size mtime_ns dated committed chunk_id chunk.id vector.key",
    "float8": "number",
}
"""Type → columns of it; others are `int4`."""

_NUMBER = re.compile(r"[ \t\n\f\r]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t\n\f\r]*")
"""A text that SQLite stores as a number in a column of numeric affinity, as that of its properties is."""


class PostgresWriter:
    """Write one base of a database, within a transaction of the caller.

    Args:
        connection: in a transaction that holds the base's lock.
        number: number of the base.
        name: name of the base, which the docids depend on.
        content: returns the bytes of a document's file; None if it has none.
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
        self._meta = dict(self._rows("SELECT key, value FROM kbhub.meta WHERE base_id = %s"))
        self._empty = not self._meta.get("next_document")
        for table, columns in _COLUMNS.items():
            connection.execute(
                f"CREATE TEMP TABLE new_{table} ON COMMIT DROP AS "
                f"SELECT {', '.join(columns.split())} FROM kbhub.{table} WITH NO DATA"
            )

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
        with self._connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO kbhub.meta VALUES (%s, %s, %s::jsonb) "
                "ON CONFLICT (base_id, key) DO UPDATE SET value = excluded.value",
                [(self._number, key, json.dumps(value)) for key, value in values.items()],
            )

    def files(self, paths: Sequence[str] | None = None) -> dict[str, tuple[int, int, bytes]]:
        """Return path → (size, mtime in ns, hash) of all documents, or of those at some paths."""
        every = "SELECT path, size, mtime_ns, hash FROM kbhub.document WHERE base_id = %s"
        rows = self._rows(every) if paths is None else self._rows(f"{every} AND path = ANY(%s)", list(paths))
        return {path: (size, mtime, digest) for path, size, mtime, digest in rows}

    def vectors(self, keys: Iterable[int]) -> dict[int, bytes | None]:
        """Return the stored vectors of text hashes: key → int8 vector, or None for "no vector"."""
        if self._empty:
            return {}
        return dict(
            self._rows(
                "SELECT DISTINCT ON (key) key, embedding FROM kbhub.vector WHERE base_id = %s AND key = ANY(%s) "
                "AND (embedding IS NULL OR length(embedding) = %s)",
                list(keys),
                self._meta.get("dimensions"),
            )
        )

    def put(self, document: NewDocument, vectors: Mapping[int, bytes | None]) -> None:
        """Write a document, replacing the indexed one at its path.

        Args:
            document: the document with its chunks.
            vectors: key → int8 vector of its chunks; a chunk with a missing key gets its vector later.
        """
        if len(document.path.encode()) > LONGEST_KEY:
            reason = f"Its path is longer than {LONGEST_KEY:,} bytes, which a shared base cannot store."
            self._refused.append((document.path, reason))
            return
        mine = {chunk.key: vectors[chunk.key] for chunk in document.chunks if chunk.key in vectors}
        self._pending.append((document, mine))
        self._pending_chunks += len(document.chunks)
        if self._pending_chunks > CHUNKS_AT_ONCE:
            self._flush()

    def put_vector(self, chunk: int, key: int, vector: bytes | None) -> None:
        """Write the vector of a chunk; None means that its text has none."""
        self._connection.execute(
            "INSERT INTO kbhub.vector VALUES (%s, %s, %s, %s) ON CONFLICT (base_id, chunk_id) "
            "DO UPDATE SET key = excluded.key, embedding = excluded.embedding",
            (self._number, chunk, key, vector),
        )

    def touch(self, path: str, size: int, mtime_ns: int) -> None:
        """Record a new size and time of a file with unchanged content."""
        self._connection.execute(
            "UPDATE kbhub.document SET size = %s, mtime_ns = %s WHERE base_id = %s AND path = %s",
            (size, mtime_ns, self._number, path),
        )

    def remove(self, path: str) -> None:
        """Remove a document."""
        self._flush()
        self._delete([path])

    def forget_vectors(self) -> None:
        """Delete every vector, so that another embedder computes them again."""
        for table in ("vector", "signature", "packed"):
            self._connection.execute(f"DELETE FROM kbhub.{table} WHERE base_id = %s", (self._number,))

    def without_vector(self, limit: int) -> list[tuple[int, str, tuple[str, ...], str]]:
        """Return chunks without a vector: (id, title above it, headings, text after the front matter)."""
        self._flush()
        ((chunks,),) = self._rows("SELECT count(*) FROM kbhub.extent WHERE base_id = %s")
        ((vectors,),) = self._rows("SELECT count(*) FROM kbhub.vector WHERE base_id = %s")
        if chunks == vectors:  # many times as fast as checking each chunk
            return []
        rows = self._rows(
            "SELECT c.id, d.title, d.kind, c.start_line, c.headings, substr(c.text, c.prose + 1) FROM kbhub.chunk c "
            "JOIN kbhub.document d ON d.base_id = c.base_id AND d.id = c.document_id WHERE c.base_id = %s "
            "AND NOT EXISTS (SELECT FROM kbhub.vector v WHERE v.base_id = c.base_id AND v.chunk_id = c.id) "
            "ORDER BY c.id LIMIT %s",
            limit,
        )
        return [
            (chunk, title_above(title, kind, line), tuple(json.loads(headings)), text)
            for chunk, title, kind, line, headings, text in rows
        ]

    def set_problems(self, problems: Sequence[tuple[str, str]], paths: Iterable[str] | None = None) -> None:
        """Replace the list of files that could not be indexed: (path, message).

        Args:
            problems: the new list.
            paths: the paths it applies to; None for the whole base.
        """
        if paths is None:
            self._connection.execute("DELETE FROM kbhub.problem WHERE base_id = %s", (self._number,))
        else:
            self._connection.execute(
                "DELETE FROM kbhub.problem WHERE base_id = %s AND path = ANY(%s)", (self._number, list(paths))
            )
        with self._connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO kbhub.problem VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                [(self._number, path, message) for path, message in {**dict(problems), **dict(self._refused)}.items()],
            )

    def left_out(self, paths: Iterable[str] | None = None) -> dict[str, str]:
        """Return path → reason of documents without text, and of those that cannot be stored.

        Args:
            paths: the paths to look at; None for all.
        """
        self._flush()
        every = (
            "SELECT path, problem FROM kbhub.document d WHERE base_id = %s AND problem IS NOT NULL "
            "AND NOT EXISTS (SELECT FROM kbhub.chunk c WHERE c.base_id = d.base_id AND c.document_id = d.id)"
        )
        rows = (
            self._rows(f"{every} ORDER BY path")
            if paths is None
            else self._rows(f"{every} AND path = ANY(%s)", list(paths))
        )
        return {**dict(rows), **dict(self._refused)}

    def set_commits(self, times: Mapping[str, int]) -> None:
        """Store the last commit of documents: path → seconds since the epoch."""
        self._flush()
        self._connection.execute(
            "UPDATE kbhub.document SET committed = wanted.seconds FROM unnest(%s::text[], %s::bigint[]) "
            "AS wanted(path, seconds) WHERE base_id = %s AND document.path = wanted.path",
            (list(times), list(times.values()), self._number),
        )

    def counts(self) -> tuple[int, int]:
        """Return the numbers of documents and chunks."""
        if self._empty:
            return len(self._pending), self._pending_chunks
        self._flush()
        ((documents,),) = self._rows("SELECT count(*) FROM kbhub.document WHERE base_id = %s")
        ((chunks,),) = self._rows("SELECT count(*) FROM kbhub.extent WHERE base_id = %s")
        return int(documents), int(chunks)

    def tidy(self, written: int) -> None:
        """Write what is derived from all documents: postings, signatures, and the state that readers compare.

        Args:
            written: chunks written in this transaction.
        """
        self._flush()
        self._write_postings()
        self._sign()
        if self._changed:
            generation = self._meta.get("generation")
            self.set_meta({"generation": generation + 1 if generation else random.getrandbits(62)})
        if written > max(LOOSE_SHARE * self.counts()[1], ANALYZED_FROM):
            # Until the server does it by itself, a minute later, searches would be planned as for empty tables.
            self._connection.execute("SELECT kbhub.analyze()")

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        return self._connection.execute(statement, (self._number, *values), binary=True).fetchall()

    def _flush(self) -> None:
        """Write the rows of the documents put so far."""
        pending, self._pending, self._pending_chunks = self._pending, [], 0
        if not pending:
            return
        committed = {} if self._empty else self._delete([document.path for document, _ in pending])
        document_id, chunk_id = self._meta.get("next_document") or 1, self._meta.get("next_chunk") or 1
        rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in _COLUMNS}
        for document, vectors in pending:
            rows["document"].append(self._document_row(document_id, document, committed.get(document.path)))
            if (content := self._content(document)) is not None:
                rows["file"].append((self._number, document_id, content))
            for place, (key, value) in enumerate(properties(document.front_matter, document.tags)):
                rows["property"].append((self._number, document_id, place, *_property(key, value)))
            for place, link in enumerate(document.links):
                texts = map(_storable, (link.target, link.fragment, link.text))
                rows["link"].append((self._number, document_id, place, *texts, link.line, link.kind))
            for chunk, searched in zip(document.chunks, searched_texts(document), strict=True):
                lines = chunk.start_line, chunk.end_line, chunk.prose
                numbers = self._number, chunk_id, document_id
                rows["chunk"].append((*numbers, json.dumps(chunk.headings), *lines, _storable(chunk.text)))
                rows["extent"].append((*numbers, self._added.add(chunk_id, searched)))
                if chunk.key in vectors:
                    rows["vector"].append((self._number, chunk_id, chunk.key, vectors[chunk.key]))
                chunk_id += 1
            document_id += 1
        for table, new in rows.items():
            self._insert(table, new)
        self.set_meta({"next_document": document_id, "next_chunk": chunk_id})
        self._empty = False
        if self._added.size > OCCURRENCES_AT_ONCE:
            self._write_postings()

    def _document_row(self, number: int, document: NewDocument, committed: int | None) -> tuple[Any, ...]:
        docid = docid_in(f"team {self._name}", document.path)
        return (
            *(self._number, number, document.path, docid, document.size, document.mtime_ns, document.hash),
            *(_storable(document.title), document.kind, json.dumps(document.tags), json.dumps(document.aliases)),
            *(json.dumps(document.front_matter), document.dated, committed, document.problem),
        )

    def _insert(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if not rows:
            return
        columns = _COLUMNS[table].split()
        types = [_type(table, column) for column in columns]
        with self._connection.cursor() as cursor:
            with cursor.copy(f"COPY new_{table} FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types(types)
                for row in rows:
                    copy.write_row(row)
            cursor.execute(f"INSERT INTO kbhub.{table}({', '.join(columns)}) SELECT * FROM new_{table}")
            cursor.execute(f"TRUNCATE new_{table}")

    def _delete(self, paths: Sequence[str]) -> dict[str, int | None]:
        """Remove documents; return path → time of the last commit, if known."""
        rows = self._rows(
            "SELECT id, path, title, kind, tags, aliases, committed FROM kbhub.document "
            "WHERE base_id = %s AND path = ANY(%s)",
            list(paths),
        )
        if not rows:
            return {}
        documents = {row[0]: row[1:] for row in rows}
        chunks = self._rows(
            "SELECT document_id, id, headings, start_line, text FROM kbhub.chunk "
            "WHERE base_id = %s AND document_id = ANY(%s) ORDER BY id",
            list(documents),
        )
        ids = [chunk for _, chunk, *_ in chunks]
        mine, theirs = (self._number, ids), (self._number, list(documents))
        for document, chunk, headings, line, text in chunks:
            (searched,) = searched_texts(_of_stored(documents[document], headings, line, text))
            self._removed.add(chunk, searched)
        for table in ("extent", "vector", "signature"):
            self._connection.execute(f"DELETE FROM kbhub.{table} WHERE base_id = %s AND chunk_id = ANY(%s)", mine)
        for table in ("chunk", "file", "property", "link"):
            self._connection.execute(f"DELETE FROM kbhub.{table} WHERE base_id = %s AND document_id = ANY(%s)", theirs)
        removed = self._connection.execute("DELETE FROM kbhub.document WHERE base_id = %s AND id = ANY(%s)", theirs)
        if removed.rowcount < len(documents):
            name = next(iter(documents.values()))[0]
            raise WriteRefused(
                name, "it was written by someone else; only its author or an admin of the base can change it"
            )
        self._connection.execute("INSERT INTO kbhub.gone SELECT %s, unnest(%s::bigint[])", mine)
        return {row[1]: row[-1] for row in rows}

    def _write_postings(self) -> None:
        added, removed, self._added, self._removed = self._added, self._removed, Inverter(), Inverter()
        write_postings(self._connection, self._number, added, removed)

    def _sign(self) -> None:
        """Compute the signatures of new vectors, or of all where the mean of the old ones does not fit any more."""
        ((chunks, gone, signed),) = self._connection.execute(
            "SELECT (SELECT count(*) FROM kbhub.extent WHERE base_id = %s), "
            "(SELECT count(*) FROM kbhub.gone WHERE base_id = %s), "
            "(SELECT data FROM kbhub.packed WHERE base_id = %s AND name = 'meant')",
            (self._number,) * 3,
        ).fetchall()
        new = self._rows(
            "SELECT v.chunk_id, v.embedding FROM kbhub.vector v WHERE v.base_id = %s AND v.embedding IS NOT NULL AND "
            "NOT EXISTS (SELECT FROM kbhub.signature s WHERE s.base_id = v.base_id AND s.chunk_id = v.chunk_id) "
            "ORDER BY v.chunk_id" + ("" if signed else " LIMIT 1")
        )
        loose = gone + len(new) > LOOSE_SHARE * max(chunks, PACKED_FROM) if signed else chunks >= PACKED_FROM
        if loose or gone > LOOSE_SHARE * max(chunks, PACKED_FROM):
            self._pack(chunks)
        elif signed and new:
            ((mean,),) = self._rows("SELECT data FROM kbhub.packed WHERE base_id = %s AND name = 'mean'")
            self._put_signatures(
                [chunk for chunk, _ in new], bits_of([blob for _, blob in new], np.frombuffer(mean, np.float32))
            )

    def _pack(self, chunks: int) -> None:
        for table in ("signature", "packed", "gone"):
            self._connection.execute(f"DELETE FROM kbhub.{table} WHERE base_id = %s", (self._number,))
        self.set_meta({"pack": random.getrandbits(62)})
        if chunks < PACKED_FROM:
            return
        ids = np.array(
            [row[0] for row in self._rows("SELECT chunk_id FROM kbhub.extent WHERE base_id = %s ORDER BY 1")]
        )

        def read(some: Any) -> list[tuple[int, bytes]]:
            return self._rows(
                "SELECT chunk_id, embedding FROM kbhub.vector WHERE base_id = %s AND chunk_id = ANY(%s) "
                "AND embedding IS NOT NULL",
                some.tolist(),
            )

        made = sign(None, ids, read)
        self._put_signatures(ids[made.signed].tolist(), made.bits[:, made.signed])
        for name, data in (("mean", made.mean.tobytes()), ("meant", str(made.meant).encode())):
            self._connection.execute("INSERT INTO kbhub.packed VALUES (%s, %s, %s)", (self._number, name, data))

    def _put_signatures(self, chunks: Sequence[int], bits: Any) -> None:
        for start in range(0, len(chunks), SIGNATURES_AT_ONCE):
            some = slice(start, start + SIGNATURES_AT_ONCE)
            each = np.ascontiguousarray(bits[:, some].T)
            self._insert(
                "signature",
                [(self._number, chunk, one.tobytes()) for chunk, one in zip(chunks[some], each, strict=True)],
            )


def _type(table: str, column: str) -> str:
    names = (f"{table}.{column}", column)
    return next((kind for name in names for kind, columns in _TYPES.items() if name in columns.split()), "int4")


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


def _of_stored(document: Sequence[Any], headings: str, line: int, text: str) -> NewDocument:
    """Return a stored document with one of its chunks, for what was searched of it."""
    path, title, kind, tags, aliases, _ = document
    chunk = NewChunk(tuple(json.loads(headings)), line, line, 0, text, 0)
    words = title, tuple(json.loads(tags)), tuple(json.loads(aliases))
    return NewDocument(path, "", 0, 0, b"", *words, {}, None, None, (chunk,), kind)
