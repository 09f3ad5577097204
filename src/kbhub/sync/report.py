"""What a sync did."""

from __future__ import annotations

from pydantic import Field

from kbhub.frozen import Model
from kbhub.types import Problem

PASSED_OVER = "End of the name → files that hold text and are of a kind that is not taken."


class SyncReport(Model):
    """What bringing one index in step with its files did."""

    base: str = Field(description="Id of the base.")
    added: int = Field(0, description="Documents new in the index.")
    changed: int = Field(0, description="Changed documents.")
    removed: int = Field(0, description="Documents whose file is gone.")
    unchanged: int = Field(0, description="Unchanged documents.")
    failed: tuple[Problem, ...] = Field((), description="Files that could not be read, and why.")
    passed_over: dict[str, int] = Field({}, description=PASSED_OVER)
    chunks: int = Field(0, description="Chunks in the index afterwards.")
    vectors_made: int = Field(0, description="Vectors computed.")
    vectors_reused: int = Field(0, description="Vectors reused from earlier, equal text.")
    seconds: float = Field(0.0, description="Wall-clock time.")
    busy: bool = Field(False, description="Whether another process was indexing, so nothing was done.")
    notes: tuple[str, ...] = Field((), description="Notes, as sentences.")
