"""A second look at the best chunks: evidence in their texts, confidence in the answer, texts that are the same."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from kbhub.confidence import WEAK, hybrid_confidence, keyword_confidence, semantic_confidence
from kbhub.evidence import Evidence, Sought
from kbhub.fusion import best_first
from kbhub.query import paired, stems
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kbhub.fusion import Fused
    from kbhub.index import ChunkRow
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
    texts: Mapping[Key, tuple[ChunkRow, str]],
    without: Collection[str] = (),
) -> Ranked:
    """Let the texts of the best chunks speak.

    Args:
        fused: best first.
        terms: what is looked for.
        texts: chunks of the first `LOOKED_AT` with the titles of their documents.
        without: signals to leave out.
    """
    sought = Sought(terms)
    evidence = {key: sought.examine(row.text, row.headings, title) for key, (row, title) in texts.items()}
    looked = [one.and_parts(evidence[one.key].parts(without)) if one.key in evidence else one for one in fused]
    return Ranked(tuple(best_first(looked)), evidence)


def confidence(
    evidence: Collection[Evidence], terms: int, similarity: float | None, *, words: bool, as_asked: bool
) -> float:
    """Give the probability that the bases answer a query.

    What it is fitted to are sentences. Of a single word, a name say, the cosine to a long chunk tells little: where all
    that was asked for stands in one chunk, it is not said that nothing covers it.

    Args:
        evidence: of the chunks that were looked at.
        terms: number of terms of the query.
        similarity: largest cosine by the packaged model; none if no such vectors were compared.
        words: whether keywords were searched.
        as_asked: whether each term is one of the query's own, and not what stands for it.
    """
    coverage = max((one.coverage for one in evidence), default=0.0)
    if similarity is None:
        return keyword_confidence(coverage, max((one.phrase for one in evidence), default=0.0), terms)
    found = hybrid_confidence(similarity, coverage, terms) if words else semantic_confidence(similarity)
    return max(found, WEAK) if words and as_asked and terms and any(one.literal for one in evidence) else found


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
