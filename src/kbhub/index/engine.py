"""Whether SQLite and its extensions work on this machine."""

from __future__ import annotations

import apsw

from kbhub.index.schema import has_vector_functions, open_scratch
from kbhub.values import struct


@struct
class Engine:
    """What an index is made with."""

    version: str
    """Of SQLite."""
    vectors: str | None
    """Version of sqlite-vec; none if it cannot be loaded."""
    fault: str | None = None
    """Why no index can be made; none if one can."""


def probe() -> Engine:
    """Make an index in memory, put a word and a vector into it, and look for them."""
    version = apsw.sqlitelibversion()
    try:
        connection = open_scratch()
        connection.execute("INSERT INTO fts(rowid, body) VALUES (1, 'rolling back a release')")
        found = connection.execute("SELECT rowid FROM fts WHERE fts MATCH 'releases'").get
        vectors = None
        if has_vector_functions(connection):
            vectors = str(connection.execute("SELECT vec_version()").get)
            found = found and connection.execute("SELECT vec_distance_l2(vec_int8(?), vec_int8(?)) = 5", _VECTORS).get
    except apsw.Error as error:
        return Engine(version, None, f"{type(error).__name__}: {error}")
    connection.close()
    return Engine(version, vectors, None if found else "what was put into an index was not found in it")


_VECTORS = (bytes((3, 0, 0, 0)), bytes((0, 4, 0, 0)))
"""Two vectors at a distance of 5."""
