"""The tables of an index file, and how it is opened."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import count
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from kbhub.index.engine import FTS_COLUMNS, FTS_WEIGHTS, numbers
from kbhub.index.query.parser import TOKENIZER
from kbhub.values import struct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kbhub.index.sqlite.columns import Rows

APPLICATION_ID = 0x6B626875
"""Marks a SQLite file as an index of kbhub ("kbhu")."""

SCHEMA_VERSION = 11
"""Increased whenever tables, tokens, chunks or vectors change; another version means a rebuild."""

NAME = "name"
"""`meta` key of the file's name, which identifies the base, its contents and the embedding model."""

ANOTHERS = "it is the index of another base"

DAMAGED = ".damaged"
"""Suffix of the marker beside a damaged index: readers may not write the index, so the next writer rebuilds it."""

CACHE_KIB = 4096

BUSY_MS = 5000
"""Timeout for another process's short transaction, in ms."""

HASH_BYTES = 16 << 20
"""Bytes of postings that FTS5 collects before it writes a segment: fewer segments in a first build."""

_TABLES = f"""
CREATE TABLE meta(key TEXT PRIMARY KEY, value ANY) WITHOUT ROWID;
CREATE TABLE document(
  id INTEGER PRIMARY KEY,
  path TEXT NOT NULL UNIQUE,
  docid TEXT NOT NULL,
  size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  hash BLOB NOT NULL,
  title TEXT NOT NULL,
  kind TEXT NOT NULL,
  tags TEXT NOT NULL,
  aliases TEXT NOT NULL,
  front_matter TEXT NOT NULL,
  dated INTEGER,
  committed INTEGER,
  problem TEXT
);
CREATE INDEX document_docid ON document(docid);
CREATE INDEX document_kind ON document(kind);
CREATE TABLE property(document_id INTEGER NOT NULL, key TEXT NOT NULL, value ANY NOT NULL);
CREATE INDEX property_value ON property(key, value);
CREATE INDEX property_document ON property(document_id);
CREATE TABLE link(
  document_id INTEGER NOT NULL,
  target TEXT NOT NULL,
  fragment TEXT NOT NULL,
  text TEXT NOT NULL,
  line INTEGER NOT NULL,
  kind TEXT NOT NULL
);
CREATE INDEX link_document ON link(document_id);
CREATE TABLE chunk(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  document_id INTEGER NOT NULL,
  headings TEXT NOT NULL,
  start_line INTEGER NOT NULL,
  end_line INTEGER NOT NULL,
  prose INTEGER NOT NULL,
  text TEXT NOT NULL
);
CREATE INDEX chunk_document ON chunk(document_id);
CREATE TABLE vector(chunk_id INTEGER PRIMARY KEY, key INTEGER NOT NULL, embedding BLOB);
CREATE INDEX vector_key ON vector(key);
CREATE TABLE problem(path TEXT PRIMARY KEY, message TEXT NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE fts USING fts5(
  {", ".join(FTS_COLUMNS)}, content='', contentless_delete=1, tokenize="{" ".join(f"'{part}'" for part in TOKENIZER)}"
);
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(fts, row);
CREATE VIRTUAL TABLE occurrence USING fts5vocab(fts, instance);
CREATE TABLE packed(name TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE posting(term TEXT PRIMARY KEY, places BLOB NOT NULL, counts BLOB NOT NULL);
CREATE TABLE gone(chunk_id INTEGER PRIMARY KEY);
"""
_STATEMENTS = frozenset((statement.strip(),) for statement in _TABLES.split(";") if statement.strip())
"""The statements as SQLite stores them, word for word, a row each."""

_STORED = """
SELECT sql FROM sqlite_schema WHERE sql NOT GLOB 'CREATE TABLE ''fts_*' AND sql NOT GLOB 'CREATE TABLE sqlite_*'
"""
"""Finds the statements of a file, but those of tables that FTS5 and AUTOINCREMENT create themselves."""

# `vector` is deliberately a plain table: sqlite-vec compares its rows as fast as those of a vec0 table, they can be
# read without the extension, and a filter is an ordinary WHERE.


def open_reader(path: Path) -> apsw.Connection:
    """Open an index for reading; FileNotFoundError if it does not exist yet, ValueError if it is another one's."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder")
    try:
        return _opened(path, str(path), apsw.SQLITE_OPEN_READONLY)
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        # In a read-only folder, SQLite cannot create the journal it needs even for reading a file in WAL mode.
        # Without an existing journal, the file is complete and will not change.
        if Path(f"{path}-wal").exists():
            raise
        return _opened(path, f"{path.as_uri()}?immutable=1", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def _opened(path: Path, name: str, flags: int) -> apsw.Connection:
    connection = apsw.Connection(name, flags=flags)
    try:
        _prepare(connection)
        if not connection.execute("PRAGMA schema_version").get:
            raise FileNotFoundError(errno.ENOENT, "It is still being made", name)
        _check(connection, path)
        connection.register_fts5_function(  # of a single-phrase query in the current row, weighted by column
            "occurrences", lambda api, *_: float(sum(map(mul, FTS_WEIGHTS, map(len, api.phrase_locations(0)))))
        )
    except BaseException:
        connection.close(force=True)
        raise
    return connection


def open_writer(path: Path) -> apsw.Connection:
    """Open or create an index for writing; raises as `open_reader` does."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder")
    # Created here with the right mode, so that no other user can ever read it.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    _prepare(connection)
    # A file without tables is new, or left by a process that was killed while creating it.
    if not connection.execute("PRAGMA schema_version").get:
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_TABLES)
        connection.execute("INSERT INTO fts(fts, rank) VALUES ('hashsize', ?)", (HASH_BYTES,))
        connection.execute("INSERT INTO meta VALUES ('pack', abs(random() / 2)), (?, ?)", (NAME, path.name))
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={SCHEMA_VERSION}").fetchall()
        connection.execute("COMMIT")
    connection.execute("PRAGMA synchronous=NORMAL").fetchall()
    _check(connection, path)
    return connection


def open_again(writer: apsw.Connection) -> apsw.Connection:
    """Open a writer's file for reading in another thread; only committed writes are seen."""
    connection = apsw.Connection(writer.filename, flags=apsw.SQLITE_OPEN_READONLY)
    _prepare(connection)
    return connection


def _check(connection: apsw.Connection, path: Path) -> None:
    """Raise ValueError unless a file is an index of this version, with exactly our tables, made under its name."""
    application = connection.execute("PRAGMA application_id").get
    version = connection.execute("PRAGMA user_version").get
    if application != APPLICATION_ID:
        raise ValueError("it is not an index of kbhub")
    if version != SCHEMA_VERSION:
        raise ValueError(f"it has format {version}, but this version of kbhub uses {SCHEMA_VERSION}")
    # A crafted file could have a trigger, or an endless view named like a table.
    if set(connection.execute(_STORED)) != _STATEMENTS:
        raise ValueError("its tables are not those of an index of kbhub")
    if connection.execute("SELECT value FROM meta WHERE key = ?", (NAME,)).get != path.name:
        raise ValueError(ANOTHERS)


def set_aside(path: Path) -> Path:
    """Move an unusable index and its journal out of the way, replacing an earlier file; return the new path."""
    aside = path.with_suffix(".aside.db")
    if path.is_dir() or aside.is_dir():
        names = (path.with_suffix(f".aside-{number}.db") for number in count(1))
        aside = next(name for name in names if not name.exists())
    for suffix in ("", "-wal", "-shm"):
        source, target = Path(f"{path}{suffix}"), Path(f"{aside}{suffix}")
        target.unlink(missing_ok=True)
        if source.exists():
            source.replace(target)
    Path(f"{path}{DAMAGED}").unlink(missing_ok=True)
    return aside


def has_vector_functions(connection: apsw.Connection) -> bool:
    """Return whether a connection has loaded sqlite-vec."""
    return bool(connection.execute("SELECT 1 FROM pragma_function_list WHERE name = 'vec_distance_l2'").get)


def stored_vectors(
    rows: Callable[..., list[Any]], chunks: Sequence[int] | NDArray[np.signedinteger]
) -> list[tuple[int, bytes]]:
    """Return (chunk id, int8 vector) of those chunks that have one."""
    return rows(
        "SELECT chunk_id, embedding FROM carray(?) JOIN vector ON chunk_id = carray.value WHERE embedding IS NOT NULL",
        numbers(chunks),
    )


def _prepare(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(BUSY_MS)
    # Against crafted files: the schema may not call functions with side effects or virtual tables, FTS5's internal
    # tables are read-only, and page layouts are checked. Together 0.02 ms.
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.execute("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON").fetchall()
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}").fetchall()
    if extension := _vector_extension():
        try:
            connection.enable_load_extension(True)
            connection.load_extension(extension)
        except apsw.ExtensionLoadingError:
            pass  # no build for this platform: vectors are compared with numpy
        finally:
            connection.enable_load_extension(False)


@cache
def _vector_extension() -> str | None:
    # By path, because importing the package would import numpy.
    spec = find_spec("sqlite_vec")
    return str(Path(spec.origin).with_name("vec0")) if spec and spec.origin else None


_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_FOLDER = {errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG}

_VECTORS = (bytes((3, 0, 0, 0)), bytes((0, 4, 0, 0)))

MOST_FAULTS = 5
"""Structural faults that are reported; one is enough for a rebuild."""

AT_ONCE = 1000

PACKED_SUM = "packed_sum"
"""`meta` key of the checksum when the index was packed."""

_WRONG = {
    "chunks without a document": "SELECT count(*) FROM chunk WHERE document_id NOT IN (SELECT id FROM document)",
    "chunks missing in the full-text index": "SELECT count(*) FROM chunk WHERE id NOT IN (SELECT rowid FROM fts)",
    "full-text entries without a chunk": "SELECT count(*) FROM fts WHERE rowid NOT IN (SELECT id FROM chunk)",
    "properties without a document": "SELECT count(*) FROM property WHERE document_id NOT IN (SELECT id FROM document)",
    "links without a document": "SELECT count(*) FROM link WHERE document_id NOT IN (SELECT id FROM document)",
    "vectors without a chunk": "SELECT count(*) FROM vector WHERE chunk_id NOT IN (SELECT id FROM chunk)",
    "vectors of a wrong length": "SELECT count(*) FROM vector WHERE length(embedding) "
    "!= (SELECT value FROM meta WHERE key = 'dimensions')",
    "documents with values of a wrong type": "SELECT count(*) FROM document WHERE typeof(path) != 'text' "
    "OR typeof(title) != 'text' OR typeof(kind) != 'text' OR typeof(size) != 'integer' "
    "OR typeof(mtime_ns) != 'integer' OR typeof(hash) != 'blob' "
    "OR NOT (json_valid(tags) AND json_valid(aliases) AND json_valid(front_matter))",
    "chunks with values of a wrong type": "SELECT count(*) FROM chunk WHERE typeof(text) != 'text' "
    "OR typeof(start_line) != 'integer' OR typeof(end_line) != 'integer' OR typeof(prose) != 'integer' "
    "OR NOT json_valid(headings)",
    "states that are no number": "SELECT count(*) FROM meta WHERE key IN ('generation', 'pack') "
    "AND typeof(value) != 'integer'",
}

_TEXTS = {
    "document": "path, docid, title, kind, tags, aliases, front_matter, problem",
    "chunk": "headings, text",
    "property": "key, value",
    "link": "target, fragment, text, kind",
    "meta": "key, value",
    "problem": "path, message",
}


def remedy(error: apsw.Error | OSError) -> str:
    """Return a sentence on what to do about an error."""
    number = error.errno if isinstance(error, OSError) else None
    if number in _FULL or isinstance(error, apsw.FullError):
        return "Free space, then try again."
    if isinstance(error, apsw.TooBigError):
        return "It is too large for one index. Make several bases of its folder, or `exclude` part of it."
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return "Another program has it open for writing. Quit that program, or try again later."
    if number in _FORBIDDEN or isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError):
        return "Make it writable, or name another folder with --cache-dir or KBHUB_CACHE_DIR."
    if number in _NO_FOLDER:
        return "Name another folder with --cache-dir or KBHUB_CACHE_DIR."
    return "Check the disk and its free space, then try again."


@struct
class Engine:
    """The database engine of an index."""

    version: str
    vectors: str | None
    """Version of sqlite-vec; None if it cannot be loaded."""
    fault: str | None = None
    """Why no index can be created; None if it can."""


def probe() -> Engine:
    """Create an index in memory, insert a word and a vector, and query them."""
    version = apsw.sqlitelibversion()
    try:
        connection = apsw.Connection(":memory:")
        _prepare(connection)
        connection.execute(_TABLES)
        connection.execute("INSERT INTO fts(rowid, body) VALUES (1, 'rolling back a release')")
        works = connection.execute("SELECT rowid FROM fts WHERE fts MATCH 'releases'").get
        vectors = None
        if has_vector_functions(connection):
            vectors = str(connection.execute("SELECT vec_version()").get)
            works = works and connection.execute("SELECT vec_distance_l2(vec_int8(?), vec_int8(?)) = 5", _VECTORS).get
    except apsw.Error as error:
        return Engine(version, None, f"{type(error).__name__}: {error}")
    connection.close()
    return Engine(version, vectors, None if works else "something added to an index was not found in it")


def faults(rows: Rows) -> list[str]:
    """Return the faults of an index; reads everything. Invalid UTF-8 raises UnicodeDecodeError."""
    rows("SELECT rowid FROM fts LIMIT 1")  # has FTS5 forget the segments of an earlier snapshot, which it would check
    broken = [str(text) for (text,) in rows(f"PRAGMA quick_check({MOST_FAULTS})") if text != "ok"]
    if broken:
        return broken
    wrong = [f"{count} {what}" for what, statement in _WRONG.items() if (count := rows(statement)[0][0])]
    for table, columns in () if wrong else _TEXTS.items():
        if table in ("meta", "problem"):  # small, and without rowids
            rows(f"SELECT {columns} FROM {table}")
            continue
        last, some = -1, f"SELECT rowid, {columns} FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT ?"
        while read := rows(some, last, AT_ONCE):
            last = read[-1][0]
    noted = rows("SELECT value FROM meta WHERE key = ?", PACKED_SUM)
    if not wrong and int(noted[0][0] if noted else 0) != packed_sum(rows):
        wrong.append("what is packed is not what was written")
    return wrong


def packed_sum(rows: Rows) -> int:
    """Return a checksum of the packed data, which has no redundancy of its own."""
    checksum = 0
    # A value of the one can have 250 MB, of the other ten.
    for table, order, at_once in (("packed", "name", 1), ("posting", "term", 50)):
        last = ""
        while some := rows(f"SELECT * FROM {table} WHERE {order} > ? ORDER BY {order} LIMIT ?", last, at_once):
            last = some[-1][0]
            for row in some:
                for value in row:
                    checksum = zlib.crc32(value.encode() if isinstance(value, str) else value, checksum)
    return checksum
