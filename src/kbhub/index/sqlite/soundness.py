"""Checks of an index and SQLite itself, with advice on an index that cannot be written."""

from __future__ import annotations

import errno
import zlib
from typing import TYPE_CHECKING

import apsw

from kbhub.index.sqlite.schema import has_vector_functions, open_scratch
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.index.sqlite.columns import Rows


_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_FOLDER = {errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG}


_VECTORS = (bytes((3, 0, 0, 0)), bytes((0, 4, 0, 0)))
"""Two vectors at a distance of 5."""

MOST_FAULTS = 5
"""Structural faults that are reported; one is enough for a rebuild."""

AT_ONCE = 1000
"""Rows whose texts are read at once."""

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
"""Fault → query that counts it."""

_TEXTS = {
    "document": "path, docid, title, kind, tags, aliases, front_matter, problem",
    "chunk": "headings, text",
    "property": "key, value",
    "link": "target, fragment, text, kind",
    "meta": "key, value",
    "problem": "path, message",
}
"""Table → its text columns."""


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
    """Version of SQLite."""
    vectors: str | None
    """Version of sqlite-vec; None if it cannot be loaded."""
    fault: str | None = None
    """Why no index can be created; None if it can."""


def probe() -> Engine:
    """Create an index in memory, insert a word and a vector, and query them."""
    version = apsw.sqlitelibversion()
    try:
        connection = open_scratch()
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
    # Includes the full-text index, which FTS5 checks.
    broken = [str(text) for (text,) in rows(f"PRAGMA quick_check({MOST_FAULTS})") if text != "ok"]
    if broken:
        return broken
    wrong = [f"{count} {what}" for what, statement in _WRONG.items() if (count := rows(statement)[0][0])]
    if not wrong:
        _read_texts(rows)
    if not wrong and _noted_sum(rows) != packed_sum(rows):
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


def _noted_sum(rows: Rows) -> int:
    noted = rows("SELECT value FROM meta WHERE key = ?", PACKED_SUM)
    return int(noted[0][0]) if noted else 0


def _read_texts(rows: Rows) -> None:
    for table, columns in _TEXTS.items():
        if table in ("meta", "problem"):  # small, and without rowids
            rows(f"SELECT {columns} FROM {table}")
            continue
        last = -1
        while some := rows(
            f"SELECT rowid, {columns} FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT ?", last, AT_ONCE
        ):
            last = some[-1][0]
