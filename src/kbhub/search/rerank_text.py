"""Rerank the best chunks by evidence in their texts; confidence in the answer; duplicate texts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from kbhub.index.query.tokens import paired, stems
from kbhub.index.rows import ChunkRow, DocumentRow, Key, title_above
from kbhub.search.conversations import conversation_parts, is_conversation
from kbhub.search.evidence import Evidence, QueryTerms, cohesion
from kbhub.search.names import words_of
from kbhub.search.scores import ABSENT_NAME, WEAK, ChunkSupport, Fused, best_first, confidence
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.search.retrieval import WeightedTerm

LOOKED_AT = 20
"""Chunks whose text is examined. nDCG@10 over four collections: .601 with 10, .602 with 20, .603 with 30 and more."""

SAME_SHARE, SAME_WORDS = 0.95, 8
"""Texts are duplicates if they share this much of all their distinct words; texts with fewer words never are."""


@struct
class Ranked:
    """A ranking after the texts were examined."""

    fused: tuple[Fused, ...]
    """Best first; unexamined chunks come last."""
    evidence: Mapping[Key, Evidence]
    """Of the examined chunks."""
    spoken: frozenset[Key] = frozenset()
    """Examined chunks that are of conversations."""


def rerank(
    fused: Sequence[Fused],
    terms: Sequence[WeightedTerm],
    texts: Mapping[Key, tuple[ChunkRow, DocumentRow]],
    without: Collection[str] = (),
) -> Ranked:
    """Rerank chunks, given best first, by what their texts contain, without the signals in `without`.

    `texts` has the chunks of the first `LOOKED_AT` with their documents.
    """
    sought = QueryTerms(terms)
    evidence = {
        key: sought.examine(
            row.text,
            row.headings,
            title_above(document.title, document.kind, row.start_line),
            (words_of(document.path), *document.tags, *document.aliases),
        )
        for key, (row, document) in texts.items()
    }
    reranked = [hit.and_parts(evidence[hit.key].parts(without)) if hit.key in evidence else hit for hit in fused]
    examined = [hit for hit in reranked if hit.key in evidence]
    spoken = frozenset(key for key, (row, document) in texts.items() if is_conversation(row, document))
    if parts := conversation_parts(examined, evidence, texts, spoken, without):
        reranked = [hit.and_parts(parts.get(hit.key, ())) for hit in reranked]
    return Ranked(tuple(best_first(reranked)), evidence, spoken)


def answer_confidence(
    ranked: Ranked, terms: Sequence[str], sizes: Sequence[int], model: str | None, *, as_asked: bool, absent: bool
) -> float:
    """Return the probability that the bases answer a query.

    `terms` are those of the query as typed, and `sizes` the numbers of chunks in the bases. A model of None means that
    the cosines are not calibrated. `as_asked` says that each searched term is one of the query's own rather than a
    substitute, `absent` that a name in the query occurs nowhere.
    """
    supports = [
        ChunkSupport(
            evidence.coverage,
            evidence.together,
            evidence.phrase,
            evidence.names,
            _similarity(hit) if model else None,
            sizes[hit.key[0]],
        )
        for hit in ranked.fused[: len(ranked.evidence)]
        if (evidence := ranked.evidence.get(hit.key)) is not None
    ]
    value = confidence(supports, len(terms), cohesion(terms), model)
    if as_asked and terms and any(evidence.literal for evidence in ranked.evidence.values()):
        value = max(value, WEAK)  # a single name has low coverage values, and yet it occurs
    return min(value, ABSENT_NAME) if absent else value


def _similarity(hit: Fused) -> float | None:
    return next((part.value for part in hit.parts if part.signal == "semantic"), None)


def same_text(one: Evidence, other: Evidence) -> bool:
    """Return whether two chunks have the same words under the same title and heading.

    Pages that share a paragraph, such as the options of related commands, are not duplicates: which of them is meant
    matters. Collapsing those as well costs .025 nDCG@5 on the section questions.
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
    """Return the stems of a text, cached because it is compared with several others."""
    return frozenset(stems(paired(text)))
