"""Writing an index: documents in and out, vectors, upkeep. One writer per base; see `sync`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import apsw

from kbhub.index.packing import is_loose, pack
from kbhub.index.schema import open_writer
from kbhub.index.soundness import faults
from kbhub.query import fold, searchable
from kbhub.values import struct

if TYPE_CHECKING:
    from pathlib import Path

    from kbhub.types import Link

OPTIMISE_SHARE = 0.2
"""Share of the chunks that must be new before the full-text index is merged into one segment."""


@struct
class NewChunk:
    """A chunk to be written."""

    headings: tuple[str, ...]
    start_line: int
    end_line: int
    prose: int
    """Offset in `text` of the first character after the front matter."""
    text: str
    key: int
    """Signed 64-bit hash of the text that its vector stands for."""


@struct
class NewDocument:
    """A document to be written."""

    path: str
    docid: str
    size: int
    mtime_ns: int
    hash: bytes
    title: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    front_matter: Mapping[str, Any]
    dated: int | None
    problem: str | None
    chunks: tuple[NewChunk, ...]
    kind: str = "document"
    links: tuple[Link, ...] = ()


def properties(front_matter: Mapping[str, Any], tags: Sequence[str]) -> Iterator[tuple[str, str | int | float]]:
    """Give what a document can be filtered by: (key, value), keys and texts case-folded, one per element of a list.

    Args:
        front_matter: JSON-safe values; those of nested mappings have keys joined by `.`.
        tags: come under the key `tag`.
    """
    yield from (("tag", fold(tag)) for tag in tags)
    for key, value in front_matter.items():
        yield from _flattened(fold(key), value)


def _flattened(key: str, value: Any) -> Iterator[tuple[str, str | int | float]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flattened(f"{key}.{fold(str(name))}", inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _flattened(key, inner)
    elif isinstance(value, bool):
        yield key, fold(str(value))
    elif isinstance(value, str):
        yield key, fold(value)
    elif value is not None:
        yield key, value


class IndexWriter:
    """The index of one base, for writing; use it as a context manager.

    Args:
        path: its file; made if it does not exist.

    Raises:
        apsw.Error, ValueError: the file cannot be used; see `schema.open_reader`.
    """

    def __init__(self, path: Path) -> None:
        self._connection = open_writer(path)

    def __enter__(self) -> IndexWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; a transaction that is not finished is undone."""
        self._connection.close(force=True)

    def check(self) -> str | None:
        """Give what is wrong with the file or between its tables, none if it is sound; reads all of it."""
        try:
            return "; ".join(faults(self._rows)) or None
        except UnicodeDecodeError:
            return "a text in it is none"
        except (apsw.CorruptError, apsw.SQLError) as error:
            return str(error)

    def _rows(self, statement: str, *values: apsw.SQLiteValue) -> list[Any]:
        return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def transaction(self, *, content: bool = True) -> Iterator[None]:
        """Write all of what is done inside, or nothing.

        Args:
            content: whether it may change what a search finds, which readers and other writers look for.
        """
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:  # a full disk may have undone it already
                self._connection.execute("ROLLBACK")
            raise
        if content:
            # It starts anywhere, so that a file made anew is not taken for the one before it.
            self._connection.execute(
                "INSERT INTO meta VALUES ('generation', abs(random() / 2)) ON CONFLICT DO UPDATE SET value = value + 1"
            )
        self._connection.execute("COMMIT")

    def generation(self) -> int | None:
        """Give the number that changes with every change; none in an index that is new.

        Raises:
            apsw.CorruptError: it is no number.
        """
        value = self.meta("generation")
        if value is not None and not isinstance(value, int):
            raise apsw.CorruptError("its generation is no number")
        return value

    def meta(self, key: str) -> Any:
        """Give a value of the table `meta`, none if it is not there."""
        return self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).get

    def set_meta(self, values: Mapping[str, Any]) -> None:
        """Set values of the table `meta`."""
        self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())

    def files(self, paths: Sequence[str] | None = None) -> dict[str, tuple[int, int, bytes]]:
        """Give path → (size, mtime in ns, hash) of every document, or of those at some paths."""
        every = "SELECT path, size, mtime_ns, hash FROM document"
        if paths is None:
            rows: list[Any] = self._connection.execute(every).fetchall()
        else:
            some = f"{every} WHERE path = ?"
            rows = [row for path in paths for row in self._connection.execute(some, (path,))]
        return {path: (size, mtime, digest) for path, size, mtime, digest in rows}

    def vectors(self, keys: Iterable[int]) -> dict[int, bytes | None]:
        """Give the vectors that are there for hashes of text: key → int8 vector, none for "no vector"."""
        rows = self._connection.execute(
            "SELECT key, embedding FROM vector WHERE key IN (SELECT value FROM json_each(?)) "
            "AND (embedding IS NULL OR length(embedding) = (SELECT value FROM meta WHERE key = 'dimensions')) "
            "GROUP BY key",
            (json.dumps(list(keys)),),
        )
        return dict(rows)

    def put(self, document: NewDocument, vectors: Mapping[int, bytes | None]) -> None:
        """Write a document in place of what the index has at its path.

        Args:
            document: the document with its chunks.
            vectors: key → int8 vector of its chunks; a chunk whose key is missing gets its vector later.
        """
        committed = self._remove(document.path)
        self._connection.execute(
            "INSERT INTO document(path, docid, size, mtime_ns, hash, title, kind, tags, aliases, front_matter, "
            "dated, committed, problem) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(
                    document.path,
                    document.docid,
                    document.size,
                    document.mtime_ns,
                    document.hash,
                    document.title,
                ),
                *(document.kind, json.dumps(document.tags), json.dumps(document.aliases)),
                *(json.dumps(document.front_matter), document.dated, committed, document.problem),
            ),
        )
        row = self._connection.last_insert_rowid()
        self._connection.executemany(
            "INSERT INTO property VALUES (?, ?, ?)",
            ((row, key, value) for key, value in properties(document.front_matter, document.tags)),
        )
        self._connection.executemany(
            "INSERT INTO link VALUES (?, ?, ?, ?, ?, ?)",
            ((row, one.target, one.fragment, one.text, one.line, one.kind) for one in document.links),
        )
        title = searchable(" ".join([document.title, *document.aliases]))
        path = searchable(document.path.rpartition(".")[0] or document.path)
        tags = searchable(" ".join(document.tags))
        made: list[tuple[int, int, bytes | None]] = []
        for chunk in document.chunks:
            self._connection.execute(
                "INSERT INTO chunk(document_id, headings, start_line, end_line, prose, text) VALUES (?, ?, ?, ?, ?, ?)",
                (row, json.dumps(chunk.headings), chunk.start_line, chunk.end_line, chunk.prose, chunk.text),
            )
            chunk_id = self._connection.last_insert_rowid()
            self._connection.execute(
                "INSERT INTO fts(rowid, title, headings, path, tags, body) VALUES (?, ?, ?, ?, ?, ?)",
                (chunk_id, title, searchable(" ".join(chunk.headings)), path, tags, searchable(chunk.text)),
            )
            if chunk.key in vectors:
                made.append((chunk_id, chunk.key, vectors[chunk.key]))
        self._connection.executemany("INSERT INTO vector VALUES (?, ?, ?)", made)

    def put_vector(self, chunk: int, key: int, vector: bytes | None) -> None:
        """Write the vector of a chunk; none says that its text has none."""
        self._connection.execute("INSERT OR REPLACE INTO vector VALUES (?, ?, ?)", (chunk, key, vector))

    def touch(self, path: str, size: int, mtime_ns: int) -> None:
        """Note that a file has a new time and the same content."""
        self._connection.execute("UPDATE document SET size = ?, mtime_ns = ? WHERE path = ?", (size, mtime_ns, path))

    def remove(self, path: str) -> None:
        """Take a document out."""
        self._remove(path)

    def _remove(self, path: str) -> int | None:
        """Take a document out and give the time of its last commit, as far as both are known."""
        found: Any = self._connection.execute("SELECT id, committed FROM document WHERE path = ?", (path,)).fetchone()
        if found is None:
            return None
        document, committed = found
        mine = "SELECT id FROM chunk WHERE document_id = ?"
        self._connection.execute(f"INSERT INTO gone {mine}", (document,))
        self._connection.execute(f"DELETE FROM fts WHERE rowid IN ({mine})", (document,))
        self._connection.execute(f"DELETE FROM vector WHERE chunk_id IN ({mine})", (document,))
        for table in ("chunk", "property", "link"):
            self._connection.execute(f"DELETE FROM {table} WHERE document_id = ?", (document,))
        self._connection.execute("DELETE FROM document WHERE id = ?", (document,))
        return cast("int | None", committed)

    def forget_vectors(self) -> None:
        """Drop every vector, to be made anew by another embedder."""
        self._connection.execute("DELETE FROM vector")

    def without_vector(self, limit: int) -> list[tuple[int, str, tuple[str, ...], str]]:
        """Give chunks whose vector is still to be made: (id, title, headings, text after the front matter)."""
        chunks, vectors = self.counts()[1], self._connection.execute("SELECT count(*) FROM vector").get
        if chunks == vectors:  # counting takes a tenth of the time of looking at each
            return []
        rows = self._connection.execute(
            "SELECT chunk.id, title, headings, substr(text, prose + 1) FROM chunk "
            "JOIN document ON document.id = document_id "
            "WHERE chunk.id NOT IN (SELECT chunk_id FROM vector) ORDER BY chunk.id LIMIT ?",
            (limit,),
        )
        return [(chunk, title, tuple(json.loads(headings)), text) for chunk, title, headings, text in rows]

    def set_problems(self, problems: Sequence[tuple[str, str]], paths: Iterable[str] | None = None) -> None:
        """Replace the list of files that could not be indexed: (path, message).

        Args:
            problems: the new ones.
            paths: the paths whose problems they are; none for all of the base.
        """
        if paths is None:
            self._connection.execute("DELETE FROM problem")
        else:
            self._connection.executemany("DELETE FROM problem WHERE path = ?", ((path,) for path in paths))
        self._connection.executemany("INSERT OR REPLACE INTO problem VALUES (?, ?)", problems)

    def set_commits(self, times: Mapping[str, int]) -> None:
        """Note the last commit of documents: path → seconds since the epoch."""
        self._connection.executemany(
            "UPDATE document SET committed = ? WHERE path = ?",
            ((seconds, path) for path, seconds in times.items()),
        )

    def counts(self) -> tuple[int, int]:
        """Give the numbers of documents and chunks."""
        row = self._connection.execute(
            "SELECT (SELECT count(*) FROM document), (SELECT count(*) FROM chunk)"
        ).fetchone()
        documents, chunks = row or (0, 0)
        return int(documents), int(chunks)

    def tidy(self, written: int) -> None:
        """Merge the full-text index and pack it if much of it is new, and give the journal's space back.

        Args:
            written: chunks written since the index was last tidied.
        """
        if written > OPTIMISE_SHARE * self.counts()[1]:
            self._connection.execute("INSERT INTO fts(fts) VALUES ('optimize')")
        if is_loose(self._connection):
            with self.transaction():
                pack(self._connection)
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
