"""Ranked chunks → hits: grouped by document, described, with excerpt, age and trace. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kbhub.covering import matching
from kbhub.index.selection import DAY_SECONDS
from kbhub.index.staleness import outdated, settled
from kbhub.keeping import deleted_words, is_gone
from kbhub.query import excerpt, spans
from kbhub.references import ref_of, short_docids
from kbhub.reranking import same_text
from kbhub.types import Hit, Signal, Span, Trace
from kbhub.values import record, struct

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kbhub.evidence import Evidence
    from kbhub.fusion import Fused
    from kbhub.index import ChunkRow, DocumentRow, Index
    from kbhub.query import Term
    from kbhub.ranking import Key
    from kbhub.types import Base, Query

T = TypeVar("T")

EXCERPT_CHARACTERS = 900
"""Length of a hit's excerpt; an edge that shows several shortens all but the first."""

ALSO = 3
"""Other chunks of the same document that a hit names."""

STALE_DAYS = 365
"""Age from which a document is called stale."""

FILE_ENDS = 2
"""Bytes of the end of the last line, which no chunk has."""

SCORE_DIGITS = 4
"""Digits of a score that are told."""


@struct
class Searched:
    """A base with its index, open for the length of a query."""

    base: Base
    index: Index
    comparable: bool
    """Whether its vectors are of the embedder in force."""
    complete: bool = True
    """Whether its first index is done; until then nothing can be said of what it lacks."""


def age_days(document: DocumentRow, now: float) -> int:
    """Give the days since the day a document says it is of, else its last commit, else its last change."""
    said = document.committed if document.dated is None else document.dated
    moment = abs(document.mtime_ns) / 1e9 if said is None else said
    return max(0, int((now - moment) // DAY_SECONDS))


@record
class Group:
    """The chunks of one hit."""

    chunks: list[Fused]
    """Best first."""
    same: list[Fused]
    """Best chunks of documents with the same text."""


@struct
class Manner:
    """How hits are described."""

    query: Query
    terms: tuple[Term, ...]
    """What an excerpt shows."""
    scale: float
    """What scores are multiplied by."""
    now: float
    """Seconds since the epoch."""
    contexts: Mapping[str, str]
    """Those of the global config, about every base."""
    bases: Sequence[Base]
    """All that a ref may name, searched or not."""
    gone_since: Callable[[Base, str], float | None]
    """Gives when the file of a kept text was first missed, seconds since the epoch."""


class Documents:
    """Chunks and documents of the searched bases, each read once."""

    def __init__(self, searched: Sequence[Searched]) -> None:
        self.searched = searched
        self._chunks: dict[Key, ChunkRow] = {}
        self._documents: dict[Key, DocumentRow] = {}

    def chunks(self, keys: Iterable[Key]) -> dict[Key, ChunkRow]:
        """Give chunks by key."""
        return self._given(list(keys), self._chunks, lambda index, ids: index.chunks(ids))

    def documents(self, keys: Iterable[Key]) -> dict[Key, DocumentRow]:
        """Give documents by (number of the base, id in it)."""
        return self._given(list(keys), self._documents, lambda index, ids: index.documents(ids))

    def paths(self, keys: Iterable[Key]) -> dict[Key, str]:
        """Give the paths of documents, whose rows are not kept."""
        wanted = set(keys)
        return {
            (number, document): path
            for number in {number for number, _ in wanted}
            for document, path in self.searched[number]
            .index.paths_of([one for base, one in wanted if base == number])
            .items()
        }

    def _given(
        self, keys: list[Key], known: dict[Key, T], read: Callable[[Index, list[int]], dict[int, T]]
    ) -> dict[Key, T]:
        missing = [key for key in keys if key not in known]
        for number in {number for number, _ in missing}:
            index, wanted = self.searched[number].index, [one for base, one in missing if base == number]
            found = read(index, wanted)
            if len(found) < len(set(wanted)):
                raise index.damaged("what is searched is not there")
            known |= {(number, one): row for one, row in found.items()}
        return {key: known[key] for key in keys}


def grouped(fused: Sequence[Fused], evidence: Mapping[Key, Evidence], *, by_document: bool) -> list[Group]:
    """Gather the chunks of each document under its best one, and the documents of one text under the best of them.

    Args:
        fused: best first.
        evidence: of the chunks whose text was looked at.
        by_document: whether a hit is a document, or else a chunk.
    """
    groups: dict[Key, Group] = {}
    # By title and heading: only chunks under the same can be copies.
    leaders: dict[tuple[str, ...], list[tuple[Evidence, Group]]] = {}
    for one in fused:
        key = one.document_key if by_document else one.key
        group = groups.get(key)
        if group is not None:
            group.chunks.append(one)
            continue
        seen = evidence.get(one.key)
        if seen is None:
            groups[key] = Group([one], [])
            continue
        alike = leaders.setdefault(seen.name, [])
        twin = next((group for other, group in alike if same_text(seen, other)), None)
        if twin and twin.chunks[0].document_key != one.document_key:
            twin.same.append(one)
            continue
        groups[key] = Group([one], [])
        alike.append((seen, groups[key]))
    return list(groups.values())


def described(groups: Sequence[Group], documents: Documents, manner: Manner) -> tuple[Hit, ...]:
    """Describe the hits of a page."""
    rows = documents.documents({one.document_key for group in groups for one in (group.chunks[0], *group.same)})
    documents.chunks(one.key for group in groups for one in group.chunks[: 1 + _also(manner)])  # all in one go
    ended: dict[Key, str] = {}
    decided: set[Key] = set()
    for number, one in enumerate(documents.searched):
        if mine := [row for key, row in rows.items() if key[0] == number]:
            ended |= {(number, row): why for row, why in outdated(one.index, mine, manner.now).items()}
            decided |= {(number, row) for row in settled(one.index, mine)}
            for row in (row for row in mine if is_gone(row.size)):
                gone = deleted_words(manner.gone_since(one.base, row.path))
                ended[number, row.id] = "; ".join((*filter(None, (ended.get((number, row.id)),)), gone))
    docids = short_docids(
        {rows[group.chunks[0].document_key].docid for group in groups}, [one.index for one in documents.searched]
    )
    return tuple(_hit(group, documents, rows, docids, ended, decided, manner) for group in groups)


def _hit(
    group: Group,
    documents: Documents,
    rows: Mapping[Key, DocumentRow],
    docids: Mapping[str, str],
    ended: Mapping[Key, str],
    decided: Collection[Key],
    manner: Manner,
) -> Hit:
    searched = documents.searched
    best, one = group.chunks[0], searched[group.chunks[0].key[0]]
    also = group.chunks[1 : 1 + _also(manner)]
    chunks = documents.chunks([best.key, *(other.key for other in also)])
    chunk, document = chunks[best.key], rows[best.document_key]
    part, offset = _excerpt(chunk, manner.terms)
    age = age_days(document, manner.now)
    others = sorted((chunks[other.key] for other in also), key=lambda other: other.start_line)
    return Hit(
        ref=ref_of(one.base, document.path, manner.bases),
        docid=docids[document.docid],
        base=one.base.id,
        path=document.path,
        title=document.title,
        headings=chunk.headings,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        excerpt=part,
        excerpt_line=chunk.start_line + offset,
        score=round(min(1.0, best.score * manner.scale), SCORE_DIGITS),
        kind=document.kind,
        age_days=age,
        stale=best.document_key in ended or (age > STALE_DAYS and best.document_key not in decided),
        outdated=ended.get(best.document_key),
        kept=is_gone(document.size),
        whole=_is_whole(chunk, document, part),
        contexts=matching(one.base.contexts, manner.contexts, document.path),
        also=tuple(Span(start_line=other.start_line, end_line=other.end_line) for other in others),
        duplicates=tuple(
            ref_of(searched[other.key[0]].base, rows[other.document_key].path, manner.bases) for other in group.same
        ),
        trace=_trace(best, manner.scale) if manner.query.explain else None,
    )


def _also(manner: Manner) -> int:
    return ALSO if manner.query.granularity == "document" else 0


def _excerpt(chunk: ChunkRow, terms: tuple[Term, ...]) -> tuple[str, int]:
    """Cut an excerpt, out of the front matter only if nothing else answers."""
    if not chunk.prose:
        return excerpt(chunk.text, terms, EXCERPT_CHARACTERS)
    front, prose = chunk.text[: chunk.prose], chunk.text[chunk.prose :]
    if prose.strip() and (spans(prose, terms) or not spans(front, terms)):
        part, offset = excerpt(prose, terms, EXCERPT_CHARACTERS)
        return part, offset + front.count("\n")
    return excerpt(chunk.text, terms, EXCERPT_CHARACTERS)


def _is_whole(chunk: ChunkRow, document: DocumentRow, part: str) -> bool:
    """Whether an excerpt is all of a document but its front matter."""
    size = len(chunk.text.encode("utf-8", "surrogatepass"))
    alone = chunk.start_line == 1 and size + FILE_ENDS >= document.size >= 0
    return alone and part.strip() == chunk.text[chunk.prose :].strip()


def _trace(best: Fused, scale: float) -> Trace:
    return Trace(
        signals=tuple(
            Signal(name=part.signal, rank=part.rank, value=part.value, contribution=part.amount * scale)
            for part in best.parts
        ),
        factors=dict(best.factors),
    )
