"""Hits that have a word of the query and are not ranked: counted for every answer, listed after the ranked ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbhub.fusion import Fused, Part
from kbhub.hits import Group
from kbhub.rankings import Ranking, first_of_each, numbered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kbhub.rankings import Places
    from kbhub.retrieval import Matches
    from kbhub.types import Query

    Weigh = Callable[[list[Fused]], list[Fused]]
    """Applies what is said of bases and documents as a whole, and orders by score."""


class Remaining:
    """The hits that follow the ranked ones, best first.

    They are ordered by their words alone. Their scores keep their proportions and never exceed that of the last
    ranked hit.

    Args:
        matches: all chunks that have a word of the query, per base.
        fused: the ranking, best first.
        by_document: whether a hit is a document, or else a chunk.
    """

    def __init__(self, matches: Sequence[Matches], fused: Sequence[Fused], *, by_document: bool) -> None:
        self._by_document = by_document
        self._last = fused[-1].score if fused else 0.0
        self._most = max((float(one.values.max(initial=0.0)) for one in matches), default=0.0)
        ranked: dict[int, list[int]] = {one.base: [] for one in matches}
        for one in fused:
            if one.key[0] in ranked:
                ranked[one.key[0]].append(one.document if by_document else one.key[1])
        self._left = [(one, *self._outside(one, ranked[one.base])) for one in matches]

    def __len__(self) -> int:
        """Count them."""
        return sum(count for _, _, count in self._left)

    def page(
        self, query: Query, ranked: Sequence[Group], scale: float, places: Places, weigh: Weigh | None = None
    ) -> tuple[list[Group], int]:
        """Give the hits of a page, ranked and remaining, and the number of all.

        Args:
            query: says which page, and what score a hit must have.
            ranked: the ranked hits.
            scale: what scores are multiplied by.
            places: where chunks stand, which decides between equals.
            weigh: none where nothing is said of bases and documents as a whole.
        """
        start, stop, count = query.offset - len(ranked), query.offset + query.limit - len(ranked), len(self)
        ordered, smaller = list[Fused](), 1.0
        if query.min_score and count:
            if self._last * scale >= query.min_score:
                ordered, smaller = self._ordered(count, places, weigh)
            count = len([one for one in ordered if one.score * smaller * scale >= query.min_score])
        stop = min(stop, count)
        page = list(ranked[query.offset : query.offset + query.limit])
        if stop > max(start, 0):
            if not ordered:
                ordered, smaller = self._ordered(stop, places, weigh)
            page += [self._group(one, smaller) for one in ordered[max(start, 0) : stop]]
        return page, len(ranked) + count

    def _ordered(self, wanted: int, places: Places, weigh: Weigh | None) -> tuple[list[Fused], float]:
        """Give at least the first of them, and what their scores are to be multiplied by."""
        hits = Ranking.joined([self._hits(one, outside) for one, outside, _ in self._left])
        hits = hits.best(len(hits) if weigh else min(wanted, len(hits)), places)
        rows = zip(hits.as_keys(), hits.documents.tolist(), (hits.values / self._most).tolist(), strict=True)
        ordered = [Fused(key, document, (), (), share) for key, document, share in rows]
        if weigh:
            ordered = weigh(ordered)
        best = ordered[0].score
        return ordered, min(1.0, self._last / best) if best else 0.0

    def _outside(self, one: Matches, ranked: Sequence[int]) -> tuple[NDArray[np.bool_], int]:
        """Say which matches of a base are no part of a ranked hit, and how many hits they make."""
        if not self._by_document:
            outside = np.isin(one.positions, one.columns.positions(ranked), invert=True)
            return outside, int(np.count_nonzero(outside))
        documents = np.zeros(1 + int(one.documents.max(initial=0)), np.bool_)
        documents[one.documents] = True
        documents[[document for document in ranked if document < len(documents)]] = False
        return documents[one.documents], int(np.count_nonzero(documents))

    def _hits(self, one: Matches, outside: NDArray[np.bool_]) -> Ranking:
        """Give the best chunk of each hit in a base, in no order."""
        positions, documents, values = one.positions[outside], one.documents[outside], one.values[outside]
        if self._by_document:
            best = first_of_each(documents, values, 1)
            positions, documents, values = positions[best], documents[best], values[best]
        return Ranking(one.columns.ids[positions] + numbered(one.base), documents, values)

    def _group(self, hit: Fused, scale: float) -> Group:
        """Give a hit with the other matches of its document, if it is one."""
        one = next(one for one, _, _ in self._left if one.base == hit.key[0])
        here = np.flatnonzero(one.documents == hit.document)
        ids, values = one.columns.ids[one.positions[here]], one.values[here]
        at = int(np.flatnonzero(ids == hit.key[1])[0])
        part = Part("keyword", float(values[at]), float(values[at]) / self._most * scale)
        best = Fused(hit.key, hit.document, (part,), hit.factors)
        if not self._by_document:
            return Group([best], [])
        order = [place for place in np.argsort(-values, kind="stable") if place != at]
        return Group([best, *(Fused((one.base, int(ids[place])), hit.document, ()) for place in order)], [])
