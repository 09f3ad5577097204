"""Check whether SQLite and its extensions work on this machine."""

from __future__ import annotations

import apsw

from kbhub.index.schema import has_vector_functions, open_scratch
from kbhub.values import struct


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
    return Engine(version, vectors, None if works else "what was put into an index was not found in it")


_VECTORS = (bytes((3, 0, 0, 0)), bytes((0, 4, 0, 0)))
"""Two vectors at a distance of 5."""
