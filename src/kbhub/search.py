"""A query and open indexes → hits. Reads only; the clock and the vector come from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbhub.query import excerpt, parsed, spans
from kbhub.ranking import fuse
from kbhub.retrieval import keyword_ranking, semantic_ranking
from kbhub.types import Hit, Mode, Signal, Span, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kbhub.index import ChunkRow, DocumentRow, Index
    from kbhub.query import Term
    from kbhub.ranking import Candidate, Fused
    from kbhub.types import Base, Query

EXCERPT_CHARACTERS = 900
"""Length of a hit's excerpt; an edge that shows several shortens all but the first."""

DOCID_DIGITS = 6
"""Hex digits of a docid that are shown, unless two documents share them."""

ALSO = 3
"""Other chunks of the same document that a hit names."""

STALE_DAYS = 365
"""Age from which a document is called stale."""

SCORE_DIGITS = 4
"""Digits of a score that mean anything: one rank at the end of a ranking moves it by some 0.0004."""

DAY_SECONDS = 86_400

NEAR_ONLY = "None of the query's words occurs in a document; the hits are near in meaning only."
"""Note of an answer with hits that only the semantic signal found."""


@dataclass(frozen=True, slots=True)
class Searched:
    """A base with its index, open for the length of a query."""

    base: Base
    index: Index
    comparable: bool
    """Whether its vectors are of the embedder in force."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a query found."""

    hits: tuple[Hit, ...]
    total: int
    mode: Mode
    unmatched: tuple[str, ...]


def find(query: Query, searched: Sequence[Searched], vector: NDArray[np.float32] | None, now: float) -> Found:
    """Rank the chunks of open indexes for a query and describe the best.

    Args:
        query: what is asked.
        searched: the bases, each index within a snapshot.
        vector: the query's, shape (dimensions,), length 1; none leaves the semantic signal out.
        now: seconds since the epoch, for ages.
    """
    rankings: dict[str, Sequence[Candidate]] = {}
    unmatched: tuple[str, ...] = ()
    indexes = [one.index for one in searched]
    if query.mode != "semantic" or vector is None:
        keyword = keyword_ranking(indexes, parsed(query.text).terms)
        rankings["keyword"], unmatched = keyword.candidates, keyword.unmatched
    if vector is not None:
        rankings["semantic"] = semantic_ranking([one.index if one.comparable else None for one in searched], vector)
    fused = fuse(rankings, base_weights=[one.base.weight for one in searched])
    chunks = _chunks(searched, fused)
    groups = _grouped(fused, chunks) if query.granularity == "document" else [[one] for one in fused]
    page = groups[query.offset : query.offset + query.limit]
    mode: Mode = "hybrid" if len(rankings) == 2 else ("keyword" if "keyword" in rankings else "semantic")
    hits = tuple(_hit(query, group, searched, chunks, now) for group in page)
    return Found(hits, len(groups), mode, unmatched)


def short_docid(docid: str, indexes: Sequence[Index]) -> str:
    """Give the shortest form of a docid, from `DOCID_DIGITS` on, that no other document of the bases shares."""
    for digits in range(DOCID_DIGITS, len(docid)):
        if sum(len(index.documents_by_docid(docid[:digits])) for index in indexes) <= 1:
            return f"#{docid[:digits]}"
    return f"#{docid}"


def ref_of(base: Base, path: str, bases: Iterable[Base]) -> str:
    """Give the ref of a document: its path in the project base, `id@path` in another.

    Args:
        base: its base.
        path: its path in there; one that would be taken for a document of another base is told with its own.
        bases: all that a ref may name.
    """
    name, mark, _ = path.partition("@")
    plain = base.id == "project" and not (mark and any(name in (one.id, *one.names) for one in bases))
    return path if plain else f"{base.id}@{path}"


def age_days(document: DocumentRow, now: float) -> int:
    """Give the days since the day a document says it is of, else its last commit, else its last change."""
    said = document.committed if document.dated is None else document.dated
    moment = abs(document.mtime_ns) / 1e9 if said is None else said
    return max(0, int((now - moment) // DAY_SECONDS))


def _chunks(searched: Sequence[Searched], fused: Sequence[Fused]) -> dict[tuple[int, int], ChunkRow]:
    found: dict[tuple[int, int], ChunkRow] = {}
    for number, one in enumerate(searched):
        rows = one.index.chunks([fusion.key[1] for fusion in fused if fusion.key[0] == number])
        found |= {(number, chunk): row for chunk, row in rows.items()}
    return found


def _grouped(fused: Sequence[Fused], chunks: Mapping[tuple[int, int], ChunkRow]) -> list[list[Fused]]:
    """Gather the chunks of each document under its best one, keeping the order of the best."""
    groups: dict[tuple[int, int], list[Fused]] = {}
    for one in fused:
        groups.setdefault((one.key[0], chunks[one.key].document_id), []).append(one)
    return list(groups.values())


def _hit(
    query: Query,
    group: Sequence[Fused],
    searched: Sequence[Searched],
    chunks: Mapping[tuple[int, int], ChunkRow],
    now: float,
) -> Hit:
    best, chunk, one = group[0], chunks[group[0].key], searched[group[0].key[0]]
    document = one.index.documents([chunk.document_id])[chunk.document_id]
    part, offset = _excerpt(chunk, parsed(query.text).terms)
    age = age_days(document, now)
    others = sorted((chunks[other.key] for other in group[1 : 1 + ALSO]), key=lambda other: other.start_line)
    return Hit(
        ref=ref_of(one.base, document.path, [other.base for other in searched]),
        docid=short_docid(document.docid, [other.index for other in searched]),
        base=one.base.id,
        path=document.path,
        title=document.title,
        headings=chunk.headings,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        excerpt=part,
        excerpt_line=chunk.start_line + offset,
        score=round(best.score, SCORE_DIGITS),
        age_days=age,
        stale=age > STALE_DAYS,
        also=tuple(Span(start_line=other.start_line, end_line=other.end_line) for other in others),
        trace=_trace(best, searched) if query.explain else None,
    )


def _excerpt(chunk: ChunkRow, terms: tuple[Term, ...]) -> tuple[str, int]:
    """Cut an excerpt, out of the front matter only if nothing else answers."""
    front, prose = chunk.text[: chunk.prose], chunk.text[chunk.prose :]
    if prose.strip() and (spans(prose, terms) or not spans(front, terms)):
        part, offset = excerpt(prose, terms, EXCERPT_CHARACTERS)
        return part, offset + front.count("\n")
    return excerpt(chunk.text, terms, EXCERPT_CHARACTERS)


def _trace(best: Fused, searched: Sequence[Searched]) -> Trace:
    heaviest = max(one.base.weight for one in searched)
    return Trace(
        signals=tuple(
            Signal(name=part.signal, rank=part.rank, value=part.value, contribution=part.amount)
            for part in best.contributions
        ),
        weight=searched[best.key[0]].base.weight / heaviest,
    )
