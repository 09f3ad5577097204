"""A second look at the best chunks: evidence in their texts, confidence in the answer, texts that are the same."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from kbhub.confidence import ABSENT_NAME, WEAK, Support, confidence
from kbhub.document_words import words_of
from kbhub.evidence import Evidence, Sought
from kbhub.fusion import best_first
from kbhub.query import paired, stems
from kbhub.rarity import cohesion
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kbhub.fusion import Fused
    from kbhub.index import ChunkRow, DocumentRow
    from kbhub.ranking import Key
    from kbhub.retrieval import WeightedTerm

LOOKED_AT = 20
"""Chunks whose text is looked at. nDCG@10 over four collections: .601 with 10, .602 with 20, .603 with 30 and more."""

SAME_SHARE, SAME_WORDS = 0.95, 8
"""Two texts are the same if so much of their distinct words together is common to both; shorter ones never are."""


@struct
class Ranked:
    """The ranking of a query after the second look."""

    fused: tuple[Fused, ...]
    """Best first; what was not looked at comes after."""
    evidence: Mapping[Key, Evidence]
    """Of the chunks that were looked at."""


def rerank(
    fused: Sequence[Fused],
    terms: Sequence[WeightedTerm],
    texts: Mapping[Key, tuple[ChunkRow, DocumentRow]],
    without: Collection[str] = (),
) -> Ranked:
    """Let the texts of the best chunks speak.

    Args:
        fused: best first.
        terms: what is looked for.
        texts: chunks of the first `LOOKED_AT` with their documents.
        without: signals to leave out.
    """
    sought = Sought(terms)
    evidence = {
        key: sought.examine(
            row.text, row.headings, document.title, (words_of(document.path), *document.tags, *document.aliases)
        )
        for key, (row, document) in texts.items()
    }
    looked = [one.and_parts(evidence[one.key].parts(without)) if one.key in evidence else one for one in fused]
    return Ranked(tuple(best_first(looked)), evidence)


def answer_confidence(
    ranked: Ranked, terms: Sequence[str], sizes: Sequence[int], model: str | None, *, as_asked: bool, absent: bool
) -> float:
    """Give the probability that the bases answer a query.

    Args:
        ranked: the ranking after the second look.
        terms: of the query, as they were typed.
        sizes: chunks in each base.
        model: whose cosines the ranking has; none if they are not calibrated.
        as_asked: whether each term that was looked for is one of the query's own, and not what stands for it.
        absent: whether a name of the query occurs nowhere.
    """
    supports = [
        Support(seen.coverage, seen.together, seen.phrase, _similarity(one) if model else None, sizes[one.key[0]])
        for one in ranked.fused[: len(ranked.evidence)]
        if (seen := ranked.evidence.get(one.key)) is not None
    ]
    found = confidence(supports, len(terms), cohesion(terms), model)
    if as_asked and terms and any(one.literal for one in ranked.evidence.values()):
        found = max(found, WEAK)  # a single name, say, is near nothing, and yet there it stands
    return min(found, ABSENT_NAME) if absent else found


def _similarity(one: Fused) -> float | None:
    return next((part.value for part in one.parts if part.signal == "semantic"), None)


def same_text(one: Evidence, other: Evidence) -> bool:
    """Say whether two chunks say the same in the same words under the same title and heading.

    Pages that share a paragraph, such as the options of related commands, are no copies: which of them is meant is
    what was asked. Collapsing those as well costs .025 nDCG@5 on the section questions.
    """
    if one.name != other.name:
        return False
    small, large = sorted((_words(one.text), _words(other.text)), key=len)
    if len(small) < SAME_WORDS or len(small) < SAME_SHARE * len(large):
        return False
    common = len(small & large)
    return common >= SAME_SHARE * (len(small) + len(large) - common)


@lru_cache(maxsize=LOOKED_AT)
def _words(text: str) -> frozenset[str]:
    """Give the stems of a text, remembered: it is compared with several."""
    return frozenset(stems(paired(text)))
