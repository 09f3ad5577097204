"""The index of a base: its interface for reading, and the engines. All SQL is in this package."""

from kbhub.index.engine import Index, NewChunk, NewDocument
from kbhub.index.rows import ChunkRow, DocumentRow

__all__ = ["ChunkRow", "DocumentRow", "Index", "NewChunk", "NewDocument"]
