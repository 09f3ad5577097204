"""Turn candidates into a page of hits: grouped by document, with excerpt, age and trace. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from kbhub.documents.shown_text import readable
from kbhub.index.engine import ChunkRow, Key
from kbhub.index.matches import CHUNK_BITS, Ranking, first_of_each
from kbhub.index.query.excerpts import density, excerpt, spans
from kbhub.index.query.parser import Term
from kbhub.index.references import STALE_DAYS, age_days, ref_of, short_docids
from kbhub.search.evidence import same_text
from kbhub.search.memory_boost import uneven, weigh
from kbhub.search.plan import Candidate, OpenBases, Plan, SignalPart, by_base, standings_of
from kbhub.search.retrieval import Matches, places_in
from kbhub.types import Hit, Signal, Span, Trace
from kbhub.workspace.discovery import matching
from kbhub.workspace.formats import is_on_site

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXCERPT_CHARACTERS = 800
"""Length of a hit's excerpt; renderers of several hits shorten all but the first."""

SECOND_CHARACTERS = 300
"""Of these, what a second passage of the first hit's document takes, if it may answer as well."""

NEAR = 0.85
"""Score of a second passage, as a share of the hit's: of two so near, either may have the answer."""

ALSO = 3
"""Other chunks of the same document listed with a hit."""

FILE_ENDS = 2
"""Bytes of the final line ending, which chunks lack."""

SCORE_DIGITS = 4
"""Digits to which scores are rounded."""


def grouped(candidates: Iterable[Candidate], bases: OpenBases, *, by_document: bool) -> list[Candidate]:
    """Group candidates, best first, by document under the best one, and duplicate documents under the best of them.

    `by_document` makes a hit of each document rather than of each chunk.
    """
    groups: dict[Key, Candidate] = {}
    # By title and heading: only chunks that share both can be duplicates.
    leaders: dict[tuple[bool, tuple[str, ...]], list[Candidate]] = {}
    for hit in candidates:
        key = hit.document_key if by_document else hit.key
        if key in groups:
            groups[key].more.append(hit)
            continue
        if hit.evidence is not None:
            rejected = hit.document_key in bases.facts and bases.facts[hit.document_key].rejected
            leading = leaders.setdefault((rejected, hit.evidence.name), [])
            twins = (one for one in leading if one.evidence and same_text(hit.evidence, one.evidence))
            twin = next(twins, None)
            if twin and twin.document_key != hit.document_key:
                twin.same.append(hit)
                continue
            leading.append(hit)
        groups[key] = hit
    return list(groups.values())


class Remaining:
    """The hits that follow the ranked ones, best first.

    They are ordered by keyword score only, scaled so that none exceeds the last ranked hit. `matches` has all chunks
    with a word of the query, per base; `by_document` makes a hit of each document rather than of each chunk.
    """

    def __init__(self, matches: Sequence[Matches], ranked: Sequence[Candidate], *, by_document: bool) -> None:
        self._by_document = by_document
        self._last = ranked[-1].score if ranked else 0.0
        self._most = max([float(base.values.max(initial=0.0)) for base in matches], default=0.0)
        self._left: list[tuple[Matches, NDArray[np.bool_]]] = []
        """Matches, and which are outside all ranked hits."""
        self._count = 0
        for base in matches:
            known = [hit.document if by_document else hit.key[1] for hit in ranked if hit.key[0] == base.base]
            if by_document:
                documents = np.zeros(1 + int(base.documents.max(initial=0)), np.bool_)
                documents[base.documents] = True
                documents[[document for document in known if document < len(documents)]] = False
                outside, hits = documents[base.documents], documents
            else:
                outside = hits = np.isin(base.positions, base.columns.positions(known), invert=True)
            self._left.append((base, outside))
            self._count += int(np.count_nonzero(hits))

    def page(
        self, plan: Plan, bases: OpenBases, ranked: Sequence[Candidate], scale: float
    ) -> tuple[list[Candidate], int]:
        """Return the hits of a page, ranked and remaining, and the number of all; `scale` is a factor for scores."""
        query = plan.query
        start, stop, count = query.offset - len(ranked), query.offset + query.limit - len(ranked), self._count
        ordered, smaller = list[Candidate](), 1.0
        if query.min_score and count:
            if self._last * scale >= query.min_score:
                ordered, smaller = self._ordered(plan, bases, count)
            count = len([hit for hit in ordered if hit.score * smaller * scale >= query.min_score])
        stop = min(stop, count)
        page = list(ranked[query.offset : query.offset + query.limit])
        if stop > max(start, 0):
            if not ordered:
                ordered, smaller = self._ordered(plan, bases, stop)
            page += [self._described(hit, smaller) for hit in ordered[max(start, 0) : stop]]
        return page, len(ranked) + count

    def _ordered(self, plan: Plan, bases: OpenBases, wanted: int) -> tuple[list[Candidate], float]:
        """Return at least the first `wanted` hits, and the factor for their scores."""
        found = []
        for base, outside in self._left:
            positions, documents, values = base.positions[outside], base.documents[outside], base.values[outside]
            if self._by_document:
                best = first_of_each(documents, values, 1)
                positions, documents, values = positions[best], documents[best], values[best]
            found.append(Ranking(base.columns.ids[positions] + np.int64(base.base << CHUNK_BITS), documents, values))
        hits = Ranking.joined(found)
        if uneven(plan.query, bases):
            wanted = len(hits)
        hits = hits.best(min(wanted, len(hits)), places_in(bases.indexes))
        rows = zip(hits.as_keys(), hits.documents.tolist(), (hits.values / self._most).tolist(), strict=True)
        ordered = [Candidate(key, document, (), (), share) for key, document, share in rows]
        weigh(plan, bases, ordered)
        ordered.sort(key=attrgetter("score"), reverse=True)
        return ordered, min(1.0, self._last / ordered[0].score) if ordered[0].score else 0.0

    def _described(self, hit: Candidate, scale: float) -> Candidate:
        """Return a hit with its part, if by document with the document's other matches."""
        base = next(base for base, _ in self._left if base.base == hit.key[0])
        rows = np.flatnonzero(base.documents == hit.document)
        ids, values = base.columns.ids[base.positions[rows]], base.values[rows]
        at = int(np.flatnonzero(ids == hit.key[1])[0])
        part = SignalPart("keyword", float(values[at]), float(values[at]) / self._most * scale)
        best = Candidate(hit.key, hit.document, (part,), hit.factors)
        if self._by_document:
            order = [place for place in np.argsort(-values, kind="stable") if place != at]
            best.more = [Candidate((base.base, int(ids[place])), hit.document) for place in order]
        return best


def described(
    page: Sequence[Candidate], plan: Plan, bases: OpenBases, terms: Sequence[Term] = (), scale: float = 0.0
) -> tuple[Hit, ...]:
    """Describe the hits of a page; excerpts show `terms`, and scores are multiplied by `scale`."""
    also = ALSO if plan.by_document else 0
    documents = bases.documents([hit.document_key for best in page for hit in (best, *best.same)])
    chunks = bases.chunks([hit.key for best in page for hit in (best, *best.more[:also])])  # all in one go
    active, settings = bases.hub.discovery().bases, bases.hub.config().settings
    standings = {
        (number, row): standing
        for number, ids in by_base(documents).items()
        for row, standing in standings_of(
            bases.hub, bases.open[number], [documents[number, row] for row in ids], bases.now
        ).items()
    }
    docids = short_docids([documents[best.document_key].docid for best in page], bases.indexes)

    def place(key: Key) -> str:
        chunk = bases.chunks([key])[key]
        owner = key[0], chunk.document_id
        return f"{ref_of(bases.open[key[0]].base, bases.documents([owner])[owner].path, active)}:{chunk.start_line}"

    hits, words, weights = [], tuple(terms), {term.text: term.weight for term in plan.weighted}
    for best in page:
        home, chunk, document = bases.open[best.key[0]].base, chunks[best.key], documents[best.document_key]
        size = len(chunk.text.encode("utf-8", "surrogatepass"))
        near = [chunks[other.key] for other in best.more[:also] if best is page[0] and other.score >= NEAR * best.score]
        if is_on_site(document.path):
            chunk, near = _shown(chunk), [*map(_shown, near)]
        second = max(near, key=lambda other: density(other.text[other.prose :], words, weights), default=None)
        text, offset = _excerpt(chunk, words, EXCERPT_CHARACTERS - (SECOND_CHARACTERS if second else 0), weights)
        more = {second.id: _excerpt(second, words, SECOND_CHARACTERS, weights)[0]} if second else {}
        standing, age = standings[best.document_key], age_days(document, bases.now)
        outdated_by = standing.outdated
        alone = chunk.start_line == 1 and size + FILE_ENDS >= document.size >= 0
        others = sorted([chunks[other.key] for other in best.more[:also]], key=attrgetter("start_line"))
        if not outdated_by and best.replaced_by:
            seems = "a newer memory may replace this:" if home.kind == "memory" else "apparently replaced by"
            outdated_by = f"{seems} {place(best.replaced_by)}"
        hits.append(
            Hit(
                ref=ref_of(home, document.path, active),
                docid=docids[document.docid],
                base=home.id,
                path=document.path,
                title=document.title,
                headings=chunk.headings,
                start_line=chunk.start_line,
                end_line=chunk.end_line,
                excerpt=text,
                excerpt_line=chunk.start_line + offset,
                score=round(min(1.0, best.score * scale), SCORE_DIGITS),
                kind=document.kind,
                age_days=age,
                stale=standing.outdated is not None or (age > STALE_DAYS and not standing.decided),
                outdated=outdated_by,
                replaces=tuple([place(key) for key in best.replaces]),
                kept=document.size < 0,
                rejected=standing.rejected,
                trust=standing.trust,
                whole=alone and text.strip() == chunk.text[chunk.prose :].strip(),
                contexts=matching(home.contexts, settings.contexts, document.path),
                also=tuple(
                    [Span(start_line=at.start_line, end_line=at.end_line, excerpt=more.get(at.id, "")) for at in others]
                ),
                duplicates=tuple(
                    [
                        ref_of(bases.open[other.key[0]].base, documents[other.document_key].path, active)
                        for other in best.same
                    ]
                ),
                trace=_trace(best, scale) if plan.query.explain else None,
            )
        )
    return tuple(hits)


def _shown(chunk: ChunkRow) -> ChunkRow:
    """Return a chunk without what only a documentation site understands."""
    text = readable(chunk.text[chunk.prose :])
    return replace(chunk, text=f"{chunk.text[: chunk.prose]}{text}")


def _excerpt(chunk: ChunkRow, terms: tuple[Term, ...], limit: int, weights: Mapping[str, float]) -> tuple[str, int]:
    """Cut an excerpt, from the front matter only if nothing else matches."""
    front, prose = chunk.text[: chunk.prose], chunk.text[chunk.prose :]
    if front and not (prose.strip() and (spans(prose, terms) or not spans(front, terms))):
        front, prose = "", chunk.text
    part, offset = excerpt(prose, terms, limit, weights)
    return part, offset + front.count("\n")


def _trace(best: Candidate, scale: float) -> Trace:
    signals = [
        Signal(name=part.signal, rank=part.rank, value=part.value, contribution=part.amount * scale, reason=why)
        for part in best.parts
        for why in (part.reason or None,)
    ]
    return Trace(signals=tuple(signals), factors=dict(best.factors))
