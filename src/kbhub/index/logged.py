"""Entries of a project's query log: queries, readings, and recurring questions."""

from __future__ import annotations

from typing import Literal

from kbhub.values import struct

Kind = Literal["gap", "promotion"]
State = Literal["open", "answered", "closed", "promoted", "withdrawn", "forgotten", "own"]


@struct
class Asked:
    """A query and its result."""

    at: float
    """Seconds since the epoch."""
    text: str
    subject: str
    """The text on one line, without filters."""
    key: str
    """Normalised key of equivalent queries."""
    mode: str
    bases: tuple[str, ...]
    verdict: str | None
    score: float | None
    """Score of the best hit; None without hits."""
    client: str
    hits: tuple[str, ...]
    """Refs, best first."""
    opened: tuple[str, ...] = ()
    """Hits that were read afterwards."""
    took: float | None = None
    """Seconds that the search took; None if that was not measured."""


@struct
class Opening:
    """An event: a document was read."""

    at: float
    refs: tuple[str, ...]
    """Refs the read one may mean; any of them."""
    client: str


@struct
class Distinct:
    """Queries with the same key."""

    subject: str
    key: str
    count: int
    """How often they were asked; repetitions by one client within `ONCE_SECONDS` count once."""
    last: float
    """Seconds since the epoch."""
    clients: tuple[str, ...]
    strong: int
    weak: int
    none: int


@struct
class Topic:
    """A recurring question: a gap, or one whose answer was promoted to a memory."""

    id: str
    kind: Kind
    key: str
    """Hash of the query it was found by."""
    question: str
    """Empty once the queries have expired."""
    state: State
    since: float
    """Time of the last change of state, seconds since the epoch."""
    count: int = 0
    last: float = 0.0
    clients: tuple[str, ...] = ()
    ref: str = ""
    """The document that answers."""
    memory: str = ""
    """Id of the promoted memory."""
    digest: str = ""
    """Digest of the ref's target when last checked."""
    reopened: float | None = None
    """When an answered gap was opened again."""
