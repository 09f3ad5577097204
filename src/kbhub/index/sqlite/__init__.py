"""The engine of local bases: one SQLite file each, with FTS5 and sqlite-vec."""

from kbhub.index.sqlite.index import IndexWriter, SqliteIndex
from kbhub.index.sqlite.schema import SCHEMA_VERSION, Engine, index_path, noted_damage, probe, remedy, set_aside

__all__ = [
    "SCHEMA_VERSION",
    "Engine",
    "IndexWriter",
    "SqliteIndex",
    "index_path",
    "noted_damage",
    "probe",
    "remedy",
    "set_aside",
]
