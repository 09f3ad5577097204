"""Hits with a word of the query that are not ranked: counted for every answer, listed after the ranked ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbhub.index.bm25 import Ranking, first_of_each, numbered
from kbhub.search.hits import Group
from kbhub.search.scores import Fused, SignalPart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kbhub.index.bm25 import Places
    from kbhub.search.retrieval import Matches
    from kbhub.types import Query

    Weigh = Callable[[list[Fused]], list[Fused]]
    """Applies the factors of whole bases and documents, and sorts by score."""


class Remaining:
    """The hits that follow the ranked ones, best first.

    They are ordered by keyword score only, scaled so that none exceeds the last ranked hit. `matches` has all chunks
    with a word of the query, per base; `by_document` makes a hit of each document rather than of each chunk.
    """

    def __init__(self, matches: Sequence[Matches], fused: Sequence[Fused], *, by_document: bool) -> None:
        self._by_document = by_document
        self._last = fused[-1].score if fused else 0.0
        self._most = max((float(base.values.max(initial=0.0)) for base in matches), default=0.0)
        ranked: dict[int, list[int]] = {base.base: [] for base in matches}
        for hit in fused:
            if hit.key[0] in ranked:
                ranked[hit.key[0]].append(hit.document if by_document else hit.key[1])
        self._left = [(base, *self._outside(base, ranked[base.base])) for base in matches]

    def __len__(self) -> int:
        """Return the number of remaining hits."""
        return sum(count for _, _, count in self._left)

    def page(
        self, query: Query, ranked: Sequence[Group], scale: float, places: Places, weigh: Weigh | None = None
    ) -> tuple[list[Group], int]:
        """Return the hits of a page, ranked and remaining, and the number of all.

        `scale` is a factor for scores; `places` break ties. `weigh` is None if no factors of bases and documents apply.
        """
        start, stop, count = query.offset - len(ranked), query.offset + query.limit - len(ranked), len(self)
        ordered, smaller = list[Fused](), 1.0
        if query.min_score and count:
            if self._last * scale >= query.min_score:
                ordered, smaller = self._ordered(count, places, weigh)
            count = len([hit for hit in ordered if hit.score * smaller * scale >= query.min_score])
        stop = min(stop, count)
        page = list(ranked[query.offset : query.offset + query.limit])
        if stop > max(start, 0):
            if not ordered:
                ordered, smaller = self._ordered(stop, places, weigh)
            page += [self._group(hit, smaller) for hit in ordered[max(start, 0) : stop]]
        return page, len(ranked) + count

    def _ordered(self, wanted: int, places: Places, weigh: Weigh | None) -> tuple[list[Fused], float]:
        """Return at least the first `wanted` hits, and the factor for their scores."""
        hits = Ranking.joined([self._hits(base, outside) for base, outside, _ in self._left])
        hits = hits.best(len(hits) if weigh else min(wanted, len(hits)), places)
        rows = zip(hits.as_keys(), hits.documents.tolist(), (hits.values / self._most).tolist(), strict=True)
        ordered = [Fused(key, document, (), (), share) for key, document, share in rows]
        if weigh:
            ordered = weigh(ordered)
        best = ordered[0].score
        return ordered, min(1.0, self._last / best) if best else 0.0

    def _outside(self, matches: Matches, ranked: Sequence[int]) -> tuple[NDArray[np.bool_], int]:
        """Return a mask of a base's matches outside all ranked hits, and how many hits they make."""
        if not self._by_document:
            outside = np.isin(matches.positions, matches.columns.positions(ranked), invert=True)
            return outside, int(np.count_nonzero(outside))
        documents = np.zeros(1 + int(matches.documents.max(initial=0)), np.bool_)
        documents[matches.documents] = True
        documents[[document for document in ranked if document < len(documents)]] = False
        return documents[matches.documents], int(np.count_nonzero(documents))

    def _hits(self, matches: Matches, outside: NDArray[np.bool_]) -> Ranking:
        """Return the best chunk of each hit in a base, unordered."""
        positions, documents, values = matches.positions[outside], matches.documents[outside], matches.values[outside]
        if self._by_document:
            best = first_of_each(documents, values, 1)
            positions, documents, values = positions[best], documents[best], values[best]
        return Ranking(matches.columns.ids[positions] + numbered(matches.base), documents, values)

    def _group(self, hit: Fused, scale: float) -> Group:
        """Return a hit, if by document with the document's other matches."""
        base = next(base for base, _, _ in self._left if base.base == hit.key[0])
        rows = np.flatnonzero(base.documents == hit.document)
        ids, values = base.columns.ids[base.positions[rows]], base.values[rows]
        at = int(np.flatnonzero(ids == hit.key[1])[0])
        part = SignalPart("keyword", float(values[at]), float(values[at]) / self._most * scale)
        best = Fused(hit.key, hit.document, (part,), hit.factors)
        if not self._by_document:
            return Group([best], [])
        order = [place for place in np.argsort(-values, kind="stable") if place != at]
        return Group([best, *(Fused((base.base, int(ids[place])), hit.document, ()) for place in order)], [])
