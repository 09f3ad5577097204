"""The index of a base: what can be read of it whatever engine holds it, and the engines. All SQL is in this package."""

from kbhub.index.engine import Index
from kbhub.index.new_documents import NewChunk, NewDocument
from kbhub.index.rows import ChunkRow, DocumentRow

__all__ = ["ChunkRow", "DocumentRow", "Index", "NewChunk", "NewDocument"]
