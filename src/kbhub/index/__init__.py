"""The SQLite index of a base; all SQL of kbhub is in this package."""

from kbhub.index.reader import Index
from kbhub.index.rows import ChunkRow, DocumentRow
from kbhub.index.schema import SCHEMA_VERSION, index_path, noted_damage, set_aside
from kbhub.index.soundness import Engine, probe, remedy
from kbhub.index.writer import IndexWriter, NewChunk, NewDocument

__all__ = [
    "SCHEMA_VERSION",
    "ChunkRow",
    "DocumentRow",
    "Engine",
    "Index",
    "IndexWriter",
    "NewChunk",
    "NewDocument",
    "index_path",
    "noted_damage",
    "probe",
    "remedy",
    "set_aside",
]
