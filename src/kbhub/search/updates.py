"""Newer statements before older ones about the same thing, in sessions, conversations and memories."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

from kbhub.index.query import paired, stems
from kbhub.index.query.excerpts import occurrences, plain
from kbhub.search.days import own_time
from kbhub.search.evidence import likeness, rarity
from kbhub.search.scores import SignalPart, best_first
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kbhub.index import ChunkRow, DocumentRow
    from kbhub.index.rows import Key
    from kbhub.search.retrieval import WeightedTerm
    from kbhub.search.scores import Fused
    from kbhub.types import Kind

SIGNAL = "newer"
"""Name of the signal in traces and in `Query.without`."""

LEAST_COVERAGE: Mapping[Kind, float] = {"session": 0.5, "memory": 0.5, "document": 0.75}
"""Least share of the query's words, by rarity, in a statement, by the kind of its document. A chunk of a session is one
turn; of the many turns in a chunk of any other conversation, one has the words by chance."""

SAME_WORDS = 0.8
"""Least share of these words that both statements have."""

SAME_MEANING = 0.4
"""Least cosine of two statements about the same thing."""

LEAST_SCORE = 0.6
"""Least score of a newer hit, as a share of the older one's."""

ABOVE = 1e-6
"""By how much the newer hit's score exceeds the older one's."""

_PAST = re.compile(
    r"\b(?:ago|original(?:ly)?|initial(?:ly)?|at first|earlier|earliest|previous(?:ly)?|former(?:ly)?|used to|"
    r"back then|changed|did|was|were|had)\b",
    re.IGNORECASE,
)
"""Words of a question about how things were, where the older statement answers as well."""

_END = re.compile(r"\n+|(?<=[.!?])\s+")
"""The end of a sentence or a line."""


@struct
class _Statement:
    """The part of a chunk that says most of what was asked for."""

    words: frozenset[str]
    """Those of the query."""
    text: str
    when: float
    """Seconds since the epoch."""


def newer_first(
    ranked: Sequence[Fused],
    texts: Mapping[Key, tuple[ChunkRow, DocumentRow]],
    terms: Sequence[WeightedTerm],
    question: str,
) -> tuple[list[Fused], dict[Key, list[Key]]]:
    """Lift the newer of two statements about the same thing right above the older one.

    `texts` has the examined chunks of conversations and memories. Returns the ranking, best first, and chunk → older
    chunks that it replaces.
    """
    if _PAST.search(question) or not terms:
        return list(ranked), {}
    wanted = {stem: rarity(term.text) / len(term.stems) for term in terms for stem in term.stems}
    scores = {hit.key: hit.score for hit in ranked if hit.key in texts}
    statements = {key: statement for key in scores if (statement := _statement(*texts[key], wanted))}
    order = sorted(statements, key=lambda key: (statements[key].when, key))
    replaced: dict[Key, list[Key]] = {}
    for number, newer in enumerate(order):
        for older in order[:number]:
            if scores[newer] < LEAST_SCORE * scores[older] or not _same(statements[older], statements[newer], wanted):
                continue
            replaced.setdefault(newer, []).append(older)
    lifted = dict(scores)
    for newer in order:
        lifted[newer] = max(lifted[newer], *(lifted[older] + ABOVE for older in replaced.get(newer, ())), 0.0)
    moved = [
        hit.and_parts(
            [SignalPart(SIGNAL, 1.0, (lifted[hit.key] - hit.score) / prod(factor for _, factor in hit.factors))]
        )
        if lifted.get(hit.key, hit.score) > hit.score
        else hit
        for hit in ranked
    ]
    return best_first(moved), replaced


def _statement(chunk: ChunkRow, document: DocumentRow, wanted: Mapping[str, float]) -> _Statement | None:
    """Return what a chunk says, or None if it says too little of what was asked for, or has no date."""
    when = own_time(chunk, document)
    if when is None:
        return None
    best, most = "", frozenset[str]()
    for part, found in _found(chunk.text[chunk.prose :], frozenset(wanted)):
        if _weight(found, wanted) > _weight(most, wanted):
            best, most = part, found
    if _weight(most, wanted) < LEAST_COVERAGE.get(document.kind, 1.0) * sum(wanted.values()):
        return None
    return _Statement(most, best, when)


def _found(text: str, wanted: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each sentence of a text that has a word of the query, with these words."""
    letters = plain(text)
    words = None if letters is None else occurrences(letters, wanted)
    start = 0
    for end in (*(match.end() for match in _END.finditer(text)), len(text)):
        sentence = text[start:end].strip()
        if words is None:
            found = wanted.intersection(stems(paired(sentence)))
        else:
            found = frozenset(stem for at, _, stem in words if start <= at < end)
        if found:
            yield sentence, found
        start = end


def _same(older: _Statement, newer: _Statement, wanted: Mapping[str, float]) -> bool:
    """Return whether two statements of different days are about the same thing."""
    if older.when == newer.when:
        return False
    both, either = older.words & newer.words, older.words | newer.words
    if _weight(both, wanted) < SAME_WORDS * _weight(either, wanted):
        return False
    return likeness(older.text, newer.text) >= SAME_MEANING


def _weight(words: frozenset[str] | set[str], wanted: Mapping[str, float]) -> float:
    return sum(wanted[word] for word in words)
