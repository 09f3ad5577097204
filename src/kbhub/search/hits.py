"""Turn ranked chunks into hits: grouped, with excerpt, age and trace. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeVar

from kbhub.index.engine import Index
from kbhub.index.query.excerpts import excerpt, spans
from kbhub.index.query.parser import Term
from kbhub.index.references import outdated, ref_of, settled, short_docids, written_statuses
from kbhub.index.rows import ChunkRow, DocumentRow, Key
from kbhub.search.evidence import Evidence
from kbhub.search.rerank_text import same_text
from kbhub.search.scores import Fused
from kbhub.sync.deleted_texts import deleted_words, is_gone
from kbhub.types import Base, Hit, Query, Signal, Span, Trace
from kbhub.values import DAY_SECONDS, struct
from kbhub.workspace.discovery import matching

T = TypeVar("T")

EXCERPT_CHARACTERS = 900
"""Length of a hit's excerpt; renderers of several hits shorten all but the first."""

ALSO = 3
"""Other chunks of the same document listed with a hit."""

STALE_DAYS = 365
"""Age from which a document counts as stale."""

FILE_ENDS = 2
"""Bytes of the final line ending, which chunks lack."""

SCORE_DIGITS = 4
"""Digits to which scores are rounded."""


@struct
class OpenBase:
    """A base with its index, open during a query."""

    base: Base
    index: Index
    comparable: bool
    """Whether its vectors come from the current embedder."""
    complete: bool = True
    """Whether its first indexing is done; before that, absence proves nothing."""


def age_days(document: DocumentRow, now: float) -> int:
    """Return the days since a document's own date, else its last commit, else its mtime."""
    date = document.committed if document.dated is None else document.dated
    moment = abs(document.mtime_ns) / 1e9 if date is None else date
    return max(0, int((now - moment) // DAY_SECONDS))


@struct(frozen=False)
class Group:
    """The chunks of one hit."""

    chunks: list[Fused]
    """Best first."""
    same: list[Fused]
    """Best chunks of documents with the same text."""


@struct
class HitContext:
    """How hits are described."""

    query: Query
    terms: tuple[Term, ...]
    """Terms that excerpts should show."""
    scale: float
    """Factor for scores."""
    now: float
    """Seconds since the epoch."""
    contexts: Mapping[str, str]
    """Contexts of the global config, for every base."""
    bases: Sequence[Base]
    """All bases a ref may name, searched or not."""
    gone_since: Callable[[Base, str], float | None]
    """Returns when the file of a kept text was first found missing; seconds since the epoch."""
    older: Mapping[Key, Sequence[Key]] = field(default_factory=dict)
    """Chunk → older chunks that it seems to replace."""


class ReadCache:
    """Chunks and documents of the searched bases, read once and cached."""

    def __init__(self, searched: Sequence[OpenBase]) -> None:
        self.searched = searched
        self._chunks: dict[Key, ChunkRow] = {}
        self._documents: dict[Key, DocumentRow] = {}

    def chunks(self, keys: Iterable[Key]) -> dict[Key, ChunkRow]:
        """Return chunks by key."""
        return self._cached(list(keys), self._chunks, lambda index, ids: index.chunks(ids))

    def documents(self, keys: Iterable[Key]) -> dict[Key, DocumentRow]:
        """Return documents by (number of the base, document id)."""
        return self._cached(list(keys), self._documents, lambda index, ids: index.documents(ids))

    def paths(self, keys: Iterable[Key]) -> dict[Key, str]:
        """Return the paths of documents; not cached."""
        wanted = set(keys)
        return {
            (number, document): path
            for number in {number for number, _ in wanted}
            for document, path in self.searched[number]
            .index.paths_of([document for base, document in wanted if base == number])
            .items()
        }

    def _cached(
        self, keys: list[Key], cache: dict[Key, T], read: Callable[[Index, list[int]], dict[int, T]]
    ) -> dict[Key, T]:
        missing = [key for key in keys if key not in cache]
        for number in {number for number, _ in missing}:
            index, ids = self.searched[number].index, [document_id for base, document_id in missing if base == number]
            rows = read(index, ids)
            if len(rows) < len(set(ids)):
                raise index.damaged("what is searched is not there")
            cache |= {(number, document_id): row for document_id, row in rows.items()}
        return {key: cache[key] for key in keys}


def grouped(fused: Sequence[Fused], evidence: Mapping[Key, Evidence], *, by_document: bool) -> list[Group]:
    """Group chunks, best first, by document under the best one, and duplicate documents under the best of them.

    `by_document` makes a hit of each document rather than of each chunk.
    """
    groups: dict[Key, Group] = {}
    # By title and heading: only chunks that share both can be duplicates.
    leaders: dict[tuple[str, ...], list[tuple[Evidence, Group]]] = {}
    for hit in fused:
        key = hit.document_key if by_document else hit.key
        group = groups.get(key)
        if group is not None:
            group.chunks.append(hit)
            continue
        signals = evidence.get(hit.key)
        if signals is None:
            groups[key] = Group([hit], [])
            continue
        leading = leaders.setdefault(signals.name, [])
        twin = next((group for other, group in leading if same_text(signals, other)), None)
        if twin and twin.chunks[0].document_key != hit.document_key:
            twin.same.append(hit)
            continue
        groups[key] = Group([hit], [])
        leading.append((signals, groups[key]))
    return list(groups.values())


def described(groups: Sequence[Group], documents: ReadCache, manner: HitContext) -> tuple[Hit, ...]:
    """Describe the hits of a page."""
    rows = documents.documents({hit.document_key for group in groups for hit in (group.chunks[0], *group.same)})
    documents.chunks(hit.key for group in groups for hit in group.chunks[: 1 + _also(manner)])  # all in one go
    ended: dict[Key, str] = {}
    decided: set[Key] = set()
    for number, base in enumerate(documents.searched):
        if mine := [row for key, row in rows.items() if key[0] == number]:
            written = written_statuses(base.index, mine)
            ended |= {(number, row): why for row, why in outdated(base.index, mine, manner.now, written).items()}
            decided |= {(number, row) for row in settled(base.index, mine, written)}
            for row in (row for row in mine if is_gone(row.size)):
                gone = deleted_words(manner.gone_since(base.base, row.path))
                ended[number, row.id] = "; ".join((*filter(None, (ended.get((number, row.id)),)), gone))
    docids = short_docids(
        {rows[group.chunks[0].document_key].docid for group in groups}, [base.index for base in documents.searched]
    )
    return tuple(_hit(group, documents, rows, docids, ended, decided, manner) for group in groups)


def _hit(
    group: Group,
    documents: ReadCache,
    rows: Mapping[Key, DocumentRow],
    docids: Mapping[str, str],
    ended: Mapping[Key, str],
    decided: Collection[Key],
    manner: HitContext,
) -> Hit:
    searched = documents.searched
    best, base = group.chunks[0], searched[group.chunks[0].key[0]]
    also = group.chunks[1 : 1 + _also(manner)]
    chunks = documents.chunks([best.key, *(other.key for other in also)])
    chunk, document = chunks[best.key], rows[best.document_key]
    part, offset = _excerpt(chunk, manner.terms)
    age = age_days(document, manner.now)
    others = sorted((chunks[other.key] for other in also), key=lambda other: other.start_line)
    return Hit(
        ref=ref_of(base.base, document.path, manner.bases),
        docid=docids[document.docid],
        base=base.base.id,
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
        outdated=ended.get(best.document_key) or _replaced(best.key, documents, manner),
        replaces=tuple(_place(key, documents, manner) for key in manner.older.get(best.key, ())),
        kept=is_gone(document.size),
        whole=_is_whole(chunk, document, part),
        contexts=matching(base.base.contexts, manner.contexts, document.path),
        also=tuple(Span(start_line=other.start_line, end_line=other.end_line) for other in others),
        duplicates=tuple(
            ref_of(searched[other.key[0]].base, rows[other.document_key].path, manner.bases) for other in group.same
        ),
        trace=_trace(best, manner.scale) if manner.query.explain else None,
    )


def _replaced(key: Key, documents: ReadCache, manner: HitContext) -> str | None:
    """Return what seems to replace a chunk, the newest first found, or None."""
    newer = [other for other, replaced in manner.older.items() if key in replaced]
    return f"apparently replaced by {_place(newer[-1], documents, manner)}" if newer else None


def _place(key: Key, documents: ReadCache, manner: HitContext) -> str:
    """Return where a chunk stands, as `ref:line`."""
    chunk = documents.chunks([key])[key]
    owner = key[0], chunk.document_id
    base = documents.searched[key[0]].base
    return f"{ref_of(base, documents.documents([owner])[owner].path, manner.bases)}:{chunk.start_line}"


def _also(manner: HitContext) -> int:
    return ALSO if manner.query.granularity == "document" else 0


def _excerpt(chunk: ChunkRow, terms: tuple[Term, ...]) -> tuple[str, int]:
    """Cut an excerpt, from the front matter only if nothing else matches."""
    if not chunk.prose:
        return excerpt(chunk.text, terms, EXCERPT_CHARACTERS)
    front, prose = chunk.text[: chunk.prose], chunk.text[chunk.prose :]
    if prose.strip() and (spans(prose, terms) or not spans(front, terms)):
        part, offset = excerpt(prose, terms, EXCERPT_CHARACTERS)
        return part, offset + front.count("\n")
    return excerpt(chunk.text, terms, EXCERPT_CHARACTERS)


def _is_whole(chunk: ChunkRow, document: DocumentRow, part: str) -> bool:
    """Whether an excerpt is the whole document except its front matter."""
    size = len(chunk.text.encode("utf-8", "surrogatepass"))
    alone = chunk.start_line == 1 and size + FILE_ENDS >= document.size >= 0
    return alone and part.strip() == chunk.text[chunk.prose :].strip()


def _trace(best: Fused, scale: float) -> Trace:
    return Trace(
        signals=tuple(
            Signal(
                name=part.signal,
                rank=part.rank,
                value=part.value,
                contribution=part.amount * scale,
                reason=part.reason or None,
            )
            for part in best.parts
        ),
        factors=dict(best.factors),
    )
