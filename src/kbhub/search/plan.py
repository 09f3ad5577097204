"""What a search passes on: the plan of a query, the open bases, and candidates with their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from kbhub.errors import IndexUnavailable
from kbhub.hub import Hub
from kbhub.index.engine import ChunkRow, DocumentRow, Index, Key, Selection
from kbhub.index.query.parser import ParsedQuery, Term
from kbhub.index.references import Declarations, declared
from kbhub.models.embedding import Embedder
from kbhub.sync.comparison import DeletedTexts, deleted_words
from kbhub.types import Base, Query, Skipped
from kbhub.values import struct
from kbhub.workspace.discovery import is_memory

if TYPE_CHECKING:
    from kbhub.sync.unindexed import UnindexedScan

Row = TypeVar("Row", ChunkRow, DocumentRow)

RANKED = 100
"""Chunks per signal that are fused; lower ranks do not reach a page that people read."""

EXAMINED = 20
"""Chunks whose text is examined. nDCG@10 over four collections: .601 with 10, .602 with 20, .603 with 30 and more."""


@struct
class AskedTime:
    """A time that a question asks for."""

    span: str
    """The words of the question that say so."""
    start: float
    """Seconds since the epoch."""
    end: float
    """Exclusive."""
    counted: bool = False
    """Whether it is counted from now (`last week`), so that its words are not those of the documents."""


@struct
class WeightedTerm:
    """A term with its weight."""

    text: str
    """As typed."""
    stems: tuple[str, ...]
    weight: float
    """Inverse document frequency over all bases; for a term that occurs nowhere, the largest in the query."""
    found: bool = True


@struct(frozen=False)
class TermWeights:
    """The terms of a text, weighted over the bases that a search opened."""

    text: str
    terms: Sequence[WeightedTerm] = ()


@struct(frozen=False)
class Plan:
    """What a query asks of its bases. The fields with a default are known once its words were looked up."""

    query: Query
    parsed: ParsedQuery
    """The query itself, without other wordings."""
    others: Sequence[ParsedQuery]
    passage: ParsedQuery
    asked: AskedTime | None
    terms: tuple[Term, ...]
    sought: tuple[Term, ...]
    """These, and those of the other wordings with other stems."""
    filters: tuple[str, ...]
    selections: Sequence[Selection | None]
    """What may be found in each base; None for everything."""
    by_document: bool
    uneven: bool
    """Whether any factor of whole bases or documents applies: weight, strength or recency."""
    question: str = ""
    """The query with misspelt words corrected."""
    text: str = ""
    """The same with the other wordings, to be embedded."""
    weighted: Sequence[WeightedTerm] = ()
    coverage: float = 1.0
    """Largest share of the query's terms, by weight, that a single chunk has."""
    both: bool = False
    """Whether chunks are ranked by words and by meaning."""
    named: frozenset[str] = frozenset()
    """What in the query names a document that was found, folded."""
    examined: Sequence[Candidate] = ()
    """Candidates whose texts were examined, in the order before that."""

    def asks_for(self, signal: str) -> bool:
        """Whether a signal of texts counts: one that is not left out, unless meaning alone was asked for."""
        return self.query.mode != "semantic" and signal not in self.query.without


@struct
class SignalPart:
    """What one signal adds to a score."""

    signal: str
    value: float
    """The signal's own value: BM25, cosine, or a share from 0 to 1."""
    amount: float
    rank: int | None = None
    """Rank over all bases; None for a signal without a ranking of its own."""
    reason: str = ""
    """Where the value comes from, if its name does not tell."""


@struct
class Evidence:
    """What the text of a chunk has of a query; shares from 0 to 1."""

    together: float
    """Share of the query's terms, by rarity, that stand close to each other in the text."""
    phrase: float
    """Share of the query's adjacent word pairs that are adjacent here."""
    identifier: float
    """Share of the terms, by weight, that are names and occur here verbatim."""
    definition: float
    """Share of the terms, by weight, that are names in a heading or at the start of a line here."""
    names: float
    """Share of the query's terms, by rarity, that are names and occur here verbatim."""
    literal: bool
    """Whether all terms occur here but those that only ask, names verbatim."""
    title: float
    """Share of the words of the document's title that are in the query."""
    about: float
    """Share of the terms, by weight, that are in the document's title."""
    heading: float
    """How far a heading here is all that the query asks: the shares of each in the other, multiplied and cubed."""
    missing: tuple[tuple[str, float], ...]
    """The terms that neither the text, its headings, nor the document's title and names have, with their rarity."""
    text: str
    name: tuple[str, ...]
    """Stems of the document's title and the chunk's own heading."""


@struct(frozen=False)
class Candidate:
    """A chunk on its way to a hit: its score, and the parts and factors that make it."""

    key: Key
    document_key: Key
    parts: tuple[SignalPart, ...] = ()
    factors: tuple[tuple[str, float], ...] = ()
    """Name and factor, applied to the sum of the parts."""
    score: float = 0.0
    evidence: Evidence | None = None
    sought: bool = False
    """Whether the query is nothing but the name of its document, of several words, or its number."""
    replaceable: bool = False
    """Whether it is examined, and of a memory or a conversation: something said later may replace it."""
    replaces: Sequence[Key] = ()
    replaced_by: Key | None = None
    more: list[Candidate] = field(default_factory=list)
    """Other chunks of the same document, best first, if a hit is a document."""
    same: list[Candidate] = field(default_factory=list)
    """Best chunks of documents with the same text."""

    def add(self, part: SignalPart, *, zero: bool = False) -> None:
        """Add a part to the score; one of zero only if it is to be shown."""
        if part.amount or zero:
            self.parts += (part,)
            self.score = 0.0
            for one in self.parts:  # not `sum`, which adds floats differently from Python 3.12 on
                self.score += one.amount
            for _, factor in self.factors:
                self.score *= factor

    def multiply(self, name: str, factor: float) -> None:
        """Apply a factor to the score."""
        if factor != 1:
            self.factors = (*self.factors, (name, factor))
            self.score *= factor


@struct
class OpenBase:
    """A base with its index, open during a query."""

    base: Base
    index: Index
    comparable: bool
    """Whether its vectors come from the current embedder."""
    complete: bool = True
    """Whether all of its files are indexed, as far as is known; before that, absence proves nothing."""


@struct(frozen=False)
class OpenBases:
    """The bases that a query is asked of, each within a snapshot. Rows are read once."""

    hub: Hub
    now: float
    """Seconds since the epoch, for ages."""
    embedder: Embedder | None
    """None to leave out the semantic signal."""
    notes: list[str]
    open: list[OpenBase] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    scans: dict[str, UnindexedScan] = field(default_factory=dict)
    """Base → the scan of files that its first index lacks."""
    facts: dict[Key, Any] = field(default_factory=dict)
    """Of memories: `document_signals.facts_in`."""
    _chunks: dict[Key, ChunkRow] = field(default_factory=dict)
    _documents: dict[Key, DocumentRow] = field(default_factory=dict)

    @property
    def indexes(self) -> list[Index]:
        """Their indexes; a key of several bases has the number of the base in this list."""
        return [*map(attrgetter("index"), self.open)]

    @property
    def complete(self) -> bool:
        """Whether no requested base is missing; only then can an answer say what occurs nowhere."""
        return bool(self.open) and not (self.scans or self.skipped) and all(map(attrgetter("complete"), self.open))

    def skip(self, failure: IndexUnavailable) -> OpenBase:
        """Leave out and return the base of an error."""
        broken = next(base for base in self.open if base.base.id == failure.base)
        self.open.remove(broken)
        self.skipped.append(Skipped(base=failure.base, reason=failure.alone))
        self.facts, self._chunks, self._documents = {}, {}, {}
        return broken

    def chunks(self, keys: Iterable[Key]) -> dict[Key, ChunkRow]:
        """Return chunks by key."""
        return self._cached(list(keys), self._chunks, Index.chunks)

    def documents(self, keys: Iterable[Key]) -> dict[Key, DocumentRow]:
        """Return documents by (number of the base, document id)."""
        return self._cached(list(keys), self._documents, Index.documents)

    def texts(self, candidates: Sequence[Candidate]) -> list[tuple[Candidate, ChunkRow, DocumentRow]]:
        """Return candidates with their chunks and documents."""
        chunks = self.chunks([hit.key for hit in candidates])
        documents = self.documents(map(attrgetter("document_key"), candidates))
        return [(hit, chunks[hit.key], documents[hit.document_key]) for hit in candidates]

    def _cached(
        self, keys: Sequence[Key], cache: dict[Key, Row], read: Callable[[Index, Sequence[int]], list[Row]]
    ) -> dict[Key, Row]:
        for number, ids in by_base(set(keys) - cache.keys()).items():
            index = self.open[number].index
            rows = {(number, row.id): row for row in read(index, ids)}
            if len(rows) < len(ids):
                raise index.damaged("what is searched is not there")
            cache |= rows
        return {key: cache[key] for key in keys}


def by_base(keys: Iterable[Key]) -> dict[int, list[int]]:
    """Group distinct ids by the number of their base."""
    grouped: dict[int, list[int]] = {}
    for number, row in dict.fromkeys(keys):
        grouped.setdefault(number, []).append(row)
    return grouped


def declared_in(hub: Hub, base: Base, index: Index, documents: Sequence[DocumentRow], now: float) -> Declarations:
    """Return what documents declare of themselves; one whose file is gone is outdated, and only memories are rejected.

    `now` is in seconds since the epoch.
    """
    said, settings = declared(index, documents, now), hub.config().settings
    for row in documents:
        if row.size < 0:
            gone = deleted_words(DeletedTexts(hub.limits().kept, base).gone_since(row.path))
            said.outdated[row.id] = f"{said.outdated[row.id]}; {gone}" if row.id in said.outdated else gone
        if row.id in said.rejected and not is_memory(settings, base, row.path):
            said.rejected.discard(row.id)
    return said


@struct
class RankingSignal:
    """What changes scores besides the rankings by words and by meaning."""

    names: tuple[str, ...]
    """Names in traces and in `Query.without`."""
    add: Callable[[Plan, OpenBases, list[Candidate]], None]
    """Changes the candidates, if the plan asks for it; they are given best first, and sorted afterwards."""
