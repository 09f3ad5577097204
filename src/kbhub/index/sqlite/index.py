"""The file of an index, its reader and its writer: rankings, statistics, documents; one writer per base, see `sync`."""

from __future__ import annotations

import hashlib
import json
import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, lru_cache, partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import apsw

from kbhub.errors import IndexUnavailable
from kbhub.index.engine import PACKED_FROM, WORD, Index, NewDocument, Snapshot, numbers, properties, searched_texts
from kbhub.index.query.parser import Term
from kbhub.index.references import embedded_text
from kbhub.index.sqlite import schema
from kbhub.types import Base, Chunk, Problem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kbhub.index.signatures import Columns, Postings, Signatures
    from kbhub.index.sqlite.columns import Rows

_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.MismatchError)
"""SQLite errors of a damaged file; our statements cause none of them otherwise."""

NOT_THERE = "it does not exist yet"

MOST_SAID = 300

NAME_CHARACTERS = 48
"""Most characters of a folder's name in that of its index: file systems allow 255 bytes, at up to four per
character."""

_NAME = re.compile(r"[^\w.-]+")


def index_path(base: Base, cache: Path, model: str | None = None) -> Path:
    """Return the path of a base's index: a readable name, and a hash of the real path and of what is indexed.

    Versions of kbhub with other tables, and other embedding models (None: the packaged one), have their own indexes in
    the same cache, or each would undo the other's work. The base's own `cache_dir` wins over `cache`.
    """
    name = base.path.name
    if name.lstrip(".") == "knowledge":
        name = f"{base.path.parent.name}-knowledge"
    filters = [base.only, base.include, base.exclude, *(["inlineTags"] if base.inline_tags else [])]
    taken = json.dumps(filters) if any(filters) else ""
    taken += f"\0sessionsOf {base.sessions_of}" if base.sessions_of else ""
    made_by = f"{schema.SCHEMA_VERSION}\0{model or ''}"
    digest = hashlib.sha256(f"{base.path}\0{taken}\0{made_by}".encode("utf-8", "surrogateescape")).hexdigest()[:12]
    readable = _NAME.sub("-", name)[:NAME_CHARACTERS].strip("-.") or "base"
    return (base.cache_dir or cache / "bases") / f"{readable}-{digest}.db"


def noted_damage(path: Path) -> str | None:
    """Return why an index must be rebuilt, or None if it need not be."""
    try:
        with open(f"{path}{schema.DAMAGED}", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - pathlib is slower
            return " ".join(file.read(MOST_SAID).split()) or "it is damaged"
    except OSError:
        return None


class SqliteIndex(Index):
    """Reader of one base's index file; thread-safe."""

    def __init__(self, path: Path, base: str) -> None:
        super().__init__(path, base)
        self._idle: list[tuple[tuple[int, int], apsw.Connection]] = []
        self._compares: bool | None = None
        """Whether connections can compare vectors; None until checked."""

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """See `Index`; the state stays, even if its file is replaced meanwhile."""
        connection: apsw.Connection | None = None
        try:
            state = self.path.stat()
            identity = state.st_dev, state.st_ino
            # Idle ones are shared by threads; one per thread would exhaust the file descriptors of a process.
            while self._idle and connection is None:
                with suppress(IndexError):  # another thread may have taken it
                    file, idle = self._idle.pop()
                    if file == identity:
                        connection = idle
                    else:
                        idle.close(force=True)
            connection = connection or schema.open_reader(self.path)
        except FileNotFoundError:
            raise self._unavailable(NOT_THERE) from None
        except OSError as error:
            raise IndexUnavailable(self.base, f"{self.path}: {error.strerror}", schema.remedy(error)) from error
        except (ValueError, apsw.Error) as error:
            raise self._unavailable(str(error)) from error
        outer: Any = getattr(self._local, "seen", None)
        self._local.seen = Snapshot(connection, identity)
        sound = False
        try:
            self.rows("BEGIN")
            self._local.seen.meta = dict(self.rows("SELECT key, value FROM meta"))
            if self.meta(schema.NAME) != self.path.name:
                raise self.damaged(schema.ANOTHERS)
            yield
            with suppress(apsw.Error):  # damaged file: nothing was written, and the connection is closed
                connection.execute("COMMIT")
                sound = True
        finally:
            self._local.seen = outer
            # A connection opened as immutable (see `open_reader`) would not notice later changes.
            if sound and not connection.open_flags & apsw.SQLITE_OPEN_URI:
                self._idle.append((identity, connection))
            else:
                connection.close(force=True)

    def close(self) -> None:
        """Close idle connections."""
        while self._idle:
            with suppress(IndexError):  # another thread may have taken it
                self._idle.pop()[1].close(force=True)

    def _read_columns(self, before: Columns | None) -> Columns:
        return cast("Columns", _arrays().columns(before, self.rows))

    def _read_signatures(self, before: Signatures | None, columns: Columns) -> Signatures:
        arrays, read = _arrays(), partial(schema.stored_vectors, self.rows)
        before = before or arrays.packed_signatures(columns, self.rows)
        return cast("Signatures", arrays.sign(before, columns.ids, read))

    def postings(self, term: Term, ahead: Iterable[str] = ()) -> Postings:
        """See `Index`."""
        del ahead
        with self.sound():
            return cast("Postings", _arrays().postings(term, self.columns(), self.rows))

    def chunks_with(self, stem: str, limit: int) -> list[int]:
        """See `Index`."""
        rows = self.rows("SELECT DISTINCT doc FROM occurrence WHERE term = ? LIMIT ?", stem, limit)
        return [chunk for (chunk,) in rows]

    def file(self, path: str) -> bytes | None:
        """See `Index`."""
        del path  # the files of the base are where they are
        return None

    def similarities(
        self, vector: NDArray[np.int8], chunks: Sequence[int] | NDArray[np.signedinteger]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """See `Index`."""
        if self._compares is None:
            self._compares = schema.has_vector_functions(self._local.seen.connection)
        pairs: tuple[NDArray[np.int64], NDArray[np.float64]]
        if self._compares:
            compared = (
                "SELECT chunk_id, 1 - vec_distance_cosine(vec_int8(embedding), vec_int8(?)) FROM @ids AS wanted "
                "JOIN vector ON chunk_id = wanted.value WHERE embedding IS NOT NULL"
            )
            pairs = _arrays().paired(self.rows(compared, vector.tobytes(), numbers(chunks)))
        else:
            with self.sound():
                pairs = _arrays().compared(schema.stored_vectors(self.rows, chunks), vector)
        return pairs

    def faults(self) -> list[str]:
        """Return the faults of the file and its tables, and record them for the next writer; reads everything."""
        if problems := schema.faults(self.rows):
            self._note_damage("; ".join(problems))
        return problems

    def damaged(self, what: str) -> IndexUnavailable:
        """Return the error for damaged content, and record it so that the next writer rebuilds the index."""
        self._note_damage(what)
        return self._unavailable(f"it is damaged: {what}")

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """See `Index`."""
        try:
            cursor: apsw.Cursor = self._local.seen.connection.execute(_written(statement), tuple(map(_bound, values)))
            return cursor.fetchall()
        except apsw.Error as error:
            if isinstance(error, _DAMAGE):
                self._note_damage(str(error))
            raise self._unavailable(str(error)) from error
        except UnicodeDecodeError as error:
            self._note_damage("a text in it is none")
            raise self._unavailable("the text in it is damaged") from error

    def _note_damage(self, what: str) -> None:
        """Write a marker with the reason beside the index so that it is rebuilt."""
        with suppress(OSError):
            state = self.path.stat()
            if (state.st_dev, state.st_ino) == self._local.seen.file:  # unless it was rebuilt meanwhile
                flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
                marker = os.open(f"{self.path}{schema.DAMAGED}", flags, 0o600)
                with os.fdopen(marker, "w", encoding="utf-8", errors="replace") as file:
                    file.write(what)

    def _unavailable(self, reason: str) -> IndexUnavailable:
        full = "" if reason == NOT_THERE else " --full"
        return IndexUnavailable(self.base, reason, f"Rebuild it with `kbhub admin index {self.base}{full}`.")


_WORDS = {
    "ids": "(SELECT value FROM carray(?))",
    "texts": "(SELECT value FROM json_each(?))",
    "number": "CASE WHEN typeof(value) <> 'text' OR value = CAST(CAST(value AS NUMERIC) AS TEXT) THEN 0 + value END",
    "iso_date": "value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]*'",
    "greatest": "max",
    "position": "instr",
    "each": "+",
}
"""What engines write differently. `+` keeps SQLite from using an index, and so from going through all with a key."""


@lru_cache(maxsize=256)
def _written(statement: str) -> str:
    return WORD.sub(lambda word: _WORDS[word[1]], statement)


def _bound(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value)
    if isinstance(value, array) or hasattr(value, "astype"):  # of `numbers`; an empty array cannot be bound
        return apsw.carray(value if len(value) else array("q", [-1]))
    return value


@cache
def _arrays() -> Any:
    """Import and return the numpy part, which takes 0.1 s to load; `status` and most syncs do without."""
    from kbhub.index.sqlite import columns as arrays  # noqa: PLC0415

    return arrays


LOOSE_SHARE = 0.1
"""Share of chunks added or deleted since the last packing above which it is due again."""

TERMS = 256
"""Terms whose postings are in memory at once: some MB in an index of a million chunks."""


def is_loose(connection: apsw.Connection) -> bool:
    """Return whether so much has changed since the last packing that it is due again."""
    row: Any = connection.execute(
        "SELECT (SELECT count(*) FROM fts_docsize), (SELECT count(*) FROM gone), "
        "(SELECT value FROM meta WHERE key = 'packed_to')"
    ).fetchone()
    chunks, gone, last = row
    if chunks < PACKED_FROM:
        return bool(gone > PACKED_FROM * LOOSE_SHARE)
    new: Any = connection.execute("SELECT count(*) FROM fts_docsize WHERE id > ?", (last or 0,)).get
    embedder: Any = connection.execute("SELECT value FROM meta WHERE key = 'embedder'").get
    signed = connection.execute("SELECT data FROM packed WHERE name = 'embedder'").get
    return bool(new + gone > LOOSE_SHARE * chunks or (embedder and embedder.encode() != signed))


@contextmanager
def packing(connection: apsw.Connection) -> Iterator[Callable[[], None]]:
    """Pack an index, as its only writer and outside of a transaction; yield what writes the result, within one.

    Nothing else happens at the end of a first index, and SQLite leaves the interpreter to other threads. So a second
    thread with its own connection reads vectors from the start, and then finds half of the postings.
    """
    reader, thread = schema.open_again(connection), ThreadPoolExecutor(1)
    rows, others = partial(_rows, connection), partial(_rows, reader)
    state = thread.submit(_state, others)

    def postings(known: Columns) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield those of common terms; the second thread finds those of every other one."""
        columns = _arrays()
        most = min(known.chunks / columns.COMMON, columns.MOST_ASKED)
        terms = [term for (term,) in rows("SELECT term FROM vocabulary WHERE doc > ?", most)]
        for start in range(0, len(terms), TERMS):
            some = terms[start : start + TERMS]
            second = thread.submit(columns.postings_of, some[1::2], known, others)
            yield from columns.postings_of(some[::2], known, rows)
            yield from second.result()

    def write() -> None:
        embedder, known, made = state.result()
        for table in ("packed", "posting", "gone"):
            connection.execute(f"DELETE FROM {table}")
        connection.execute("UPDATE meta SET value = abs(random() / 2) WHERE key = 'pack'")
        connection.execute("DELETE FROM meta WHERE key IN ('packed_to', ?)", (schema.PACKED_SUM,))
        if known.chunks < PACKED_FROM:
            return
        connection.execute("INSERT INTO meta VALUES ('packed_to', ?)", (int(known.ids[-1]),))
        connection.executemany("INSERT INTO packed VALUES (?, ?)", _arrays().packed(known, made, embedder))
        connection.executemany("INSERT INTO posting VALUES (?, ?, ?)", postings(known))
        connection.execute("INSERT INTO meta VALUES (?, ?)", (schema.PACKED_SUM, schema.packed_sum(rows)))

    try:
        yield write
    finally:
        thread.shutdown()
        reader.close(force=True)


def _state(rows: Rows) -> tuple[str | None, Columns, Signatures | None]:
    """Return the fingerprint of the embedder, the columns, and the signatures if there are enough chunks."""
    columns = _arrays()
    embedder = dict(rows("SELECT key, value FROM meta WHERE key = 'embedder'")).get("embedder")
    try:
        known = columns.columns(None, rows, packed=False)
        if embedder is None or known.chunks < PACKED_FROM:
            return embedder, known, None
        return embedder, known, columns.sign(None, known.ids, lambda ids: schema.stored_vectors(rows, ids))
    except ValueError as error:  # tables differ, or vectors in length, as no sync of ours leaves them
        raise apsw.CorruptError(str(error)) from error


def _rows(connection: apsw.Connection, statement: str, *values: Any) -> list[Any]:
    return connection.execute(statement, tuple(map(_bound, values))).fetchall()


OPTIMISE_SHARE = 0.2
"""Share of new chunks from which the full-text index is merged into one segment."""

_json = lru_cache(json.dumps)
"""Of a tuple of texts; most documents have no tags and no aliases, and some chunks the same headings."""


class IndexWriter(AbstractContextManager["IndexWriter"]):
    """Writer of one base's index file, created if missing; a context manager. Raises as `schema.open_writer` does."""

    def __init__(self, path: Path) -> None:
        self._connection = schema.open_writer(path)
        self._rows = partial(_rows, self._connection)

    def close(self, *_: object) -> None:
        """Close the file; an unfinished transaction is rolled back."""
        self._connection.close(force=True)

    __exit__ = close

    def check(self) -> str | None:
        """Return the faults of the file and its tables, or None if it is sound; reads everything."""
        try:
            return "; ".join(schema.faults(self._rows)) or None
        except UnicodeDecodeError:
            return "a text in it is none"
        except (apsw.CorruptError, apsw.SQLError) as error:
            return str(error)

    @contextmanager
    def transaction(self, *, content: bool = True) -> Iterator[None]:
        """Run the writes inside in one transaction; `content` says whether search results may change."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:  # a full disk may have rolled it back already
                self._connection.execute("ROLLBACK")
            raise
        if content:
            # Starts at a random number, so that a rebuilt file is not mistaken for the old one.
            self._connection.execute(
                "INSERT INTO meta VALUES ('generation', abs(random() / 2)) ON CONFLICT DO UPDATE SET value = value + 1"
            )
        self._connection.execute("COMMIT")

    def meta(self, key: str) -> Any:
        """Return a value of the table `meta`, or None."""
        return self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).get

    def set_meta(self, values: Mapping[str, Any]) -> None:
        """Set values of the table `meta`."""
        self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())

    def files(self, paths: Sequence[str] | None = None) -> dict[str, tuple[int, int, bytes]]:
        """Return path → (size, mtime in ns, hash) of all documents, or of those at some paths."""
        every, some = "SELECT path, size, mtime_ns, hash FROM document", "path IN (SELECT value FROM json_each(?))"
        rows = self._rows(every) if paths is None else self._rows(f"{every} WHERE {some}", list(paths))
        return {path: (size, mtime, digest) for path, size, mtime, digest in rows}

    def vectors(self, keys: Iterable[int]) -> dict[int, bytes | None]:
        """Return the stored vectors of text hashes: key → int8 vector, or None for "no vector"."""
        rows = self._rows(
            "SELECT key, embedding FROM vector WHERE key IN (SELECT value FROM json_each(?)) "
            "AND (embedding IS NULL OR length(embedding) = (SELECT value FROM meta WHERE key = 'dimensions')) "
            "GROUP BY key",
            list(keys),
        )
        return dict(rows)

    def put(self, document: NewDocument, vectors: Mapping[int, bytes | None]) -> None:
        """Write a document, replacing the indexed one at its path; a chunk without an int8 vector gets it later."""
        committed = self.remove(document.path)
        self._connection.execute(
            "INSERT INTO document(path, docid, size, mtime_ns, hash, title, kind, tags, aliases, front_matter, "
            "dated, committed, problem) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(document.path, document.docid, document.size, document.mtime_ns, document.hash, document.title),
                *(document.kind, _json(document.tags), _json(document.aliases)),
                *(json.dumps(document.front_matter), document.dated, committed, document.problem),
            ),
        )
        row = self._connection.last_insert_rowid()
        found = [(row, key, value) for key, value in properties(document)]
        self._connection.executemany("INSERT INTO property VALUES (?, ?, ?)", found)
        links = [(row, link.target, link.fragment, link.text, link.line, link.kind) for link in document.links]
        self._connection.executemany("INSERT INTO link VALUES (?, ?, ?, ?, ?, ?)", links)
        chunk_vectors: list[tuple[int, int, bytes | None]] = []
        for chunk, key, searched in zip(document.chunks, document.keys, searched_texts(document), strict=True):
            self._connection.execute(
                "INSERT INTO chunk(document_id, headings, start_line, end_line, prose, text) VALUES (?, ?, ?, ?, ?, ?)",
                (row, _json(chunk.headings), chunk.start_line, chunk.end_line, chunk.prose, chunk.text),
            )
            chunk_id = self._connection.last_insert_rowid()
            columns = "rowid, title, headings, path, tags, body"
            self._connection.execute(f"INSERT INTO fts({columns}) VALUES (?, ?, ?, ?, ?, ?)", (chunk_id, *searched))
            if key in vectors:
                chunk_vectors.append((chunk_id, key, vectors[key]))
        self._connection.executemany("INSERT INTO vector VALUES (?, ?, ?)", chunk_vectors)

    def put_vector(self, chunk: int, key: int, vector: bytes | None) -> None:
        """Write the vector of a chunk; None means that its text has none."""
        self._connection.execute("INSERT OR REPLACE INTO vector VALUES (?, ?, ?)", (chunk, key, vector))

    def touch(self, path: str, size: int, mtime_ns: int) -> None:
        """Record a new size and time of a file with unchanged content."""
        self._connection.execute("UPDATE document SET size = ?, mtime_ns = ? WHERE path = ?", (size, mtime_ns, path))

    def remove(self, path: str) -> int | None:
        """Remove a document and return the time of its last commit, if known."""
        rows = self._rows("SELECT id, committed FROM document WHERE path = ?", path)
        if not rows:
            return None
        document, committed = rows[0]
        mine = "SELECT id FROM chunk WHERE document_id = ?"
        self._connection.execute(f"INSERT INTO gone {mine}", (document,))
        self._connection.execute(f"DELETE FROM fts WHERE rowid IN ({mine})", (document,))
        self._connection.execute(f"DELETE FROM vector WHERE chunk_id IN ({mine})", (document,))
        for table in ("chunk", "property", "link"):
            self._connection.execute(f"DELETE FROM {table} WHERE document_id = ?", (document,))
        self._connection.execute("DELETE FROM document WHERE id = ?", (document,))
        return cast("int | None", committed)

    def forget_vectors(self) -> None:
        """Delete every vector, so that another embedder computes them again."""
        self._connection.execute("DELETE FROM vector")

    def without_vector(self, limit: int) -> dict[int, str]:
        """Return the texts to embed of chunks without a vector, by id."""
        chunks, vectors = self.counts()[1], self._connection.execute("SELECT count(*) FROM vector").get
        if chunks == vectors:  # ten times as fast as checking each chunk
            return {}
        rows = self._connection.execute(
            "SELECT chunk.id, title, kind, start_line, headings, substr(text, prose + 1) FROM chunk "
            "JOIN document ON document.id = document_id "
            "WHERE chunk.id NOT IN (SELECT chunk_id FROM vector) ORDER BY chunk.id LIMIT ?",
            (limit,),
        )
        return {
            chunk: embedded_text(title, kind, Chunk(tuple(json.loads(headings)), line, line, text))
            for chunk, title, kind, line, headings, text in rows
        }

    def set_problems(self, problems: Sequence[Problem], paths: Iterable[str] | None = None) -> None:
        """Replace the problems of files that could not be indexed, at some paths or, if None, all."""
        if paths is None:
            self._connection.execute("DELETE FROM problem")
        else:
            self._connection.executemany("DELETE FROM problem WHERE path = ?", ((path,) for path in paths))
        rows = map(attrgetter("subject", "message"), problems)
        self._connection.executemany("INSERT OR REPLACE INTO problem VALUES (?, ?)", rows)

    def left_out(self, paths: Iterable[str] | None = None) -> dict[str, str]:
        """Return path → reason of documents without any readable text, of all or of those at some paths."""
        every = (
            "SELECT path, problem FROM document WHERE problem IS NOT NULL "
            "AND NOT EXISTS (SELECT 1 FROM chunk WHERE document_id = document.id)"
        )
        some = "" if paths is None else "AND path IN (SELECT value FROM json_each(?))"
        return dict(self._rows(f"{every} {some} ORDER BY path", *([] if paths is None else [list(paths)])))

    def set_commits(self, times: Mapping[str, int]) -> None:
        """Store the last commit of documents: path → seconds since the epoch."""
        rows = ((seconds, path) for path, seconds in times.items())
        self._connection.executemany("UPDATE document SET committed = ? WHERE path = ?", rows)

    def counts(self) -> tuple[int, int]:
        """Return the numbers of documents and chunks."""
        ((documents, chunks),) = self._rows("SELECT (SELECT count(*) FROM document), (SELECT count(*) FROM chunk)")
        return documents, chunks

    def tidy(self, written: int) -> None:
        """Merge the full-text index and pack it if much of it is new (`written` chunks), and truncate the journal."""
        with packing(self._connection) if is_loose(self._connection) else nullcontext() as pack:
            if written > OPTIMISE_SHARE * self.counts()[1]:
                self._connection.execute("INSERT INTO fts(fts) VALUES ('optimize')")
            if pack:
                with self.transaction():
                    pack()
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
