"""Signals for what was said in sessions and memories: words in one turn, and newer statements above older ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from kbhub.index.query.excerpts import occurrences, plain
from kbhub.index.query.tokens import paired, stems
from kbhub.search.days import own_time
from kbhub.search.evidence import Evidence, likeness, rarity
from kbhub.search.scores import Fused, SignalPart, best_first
from kbhub.types import Kind
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.index.rows import ChunkRow, DocumentRow, Key
    from kbhub.search.retrieval import WeightedTerm

SIGNALS = {"together": 0.6, "meaning": 0.6, "next": 0.1, "adjacent": 0.05}
"""The most each signal adds if all that was examined are conversations: docs/explanation/memory-retrieval.md."""

LEAST_SHARE = 0.5
"""Share of conversations among the examined chunks from which the signals count; they grow up to a share of 1."""

LEAST_TURNS = 3
"""Lines with a speaker from which a text is a conversation."""

TURN_SHARE = 0.5
"""Least share of such lines in a conversation."""

LINES_APART = 2
"""Most lines between two chunks of which one continues the other: a heading and a blank line."""

_TURN = re.compile(r"[ \t>*_-]*([^\W\d_][\w .'’-]{0,40})(?:[*_]* ?[(\[][^()\[\]\n]{1,40}[)\]])?[*_]*:[*_]*\s+\S")
"""The beginning of a turn: `Ann: …`, `**Ann:** …`, `> Ann (10:02): …`."""


def is_conversation(chunk: ChunkRow, document: DocumentRow) -> bool:
    """Return whether a chunk is of a session's log, or its lines begin with speakers."""
    if document.kind == "session":
        return True
    prose = chunk.text[chunk.prose :]
    if prose.count(":") < LEAST_TURNS:  # most texts, and the pattern takes a tenth of a millisecond
        return False
    lines = [line for line in prose.split("\n") if line.strip() and not line.startswith("#")]
    speakers = [match[1] for line in lines if ":" in line and (match := _TURN.match(line))]
    # In a list of terms with their meanings, every line has another name.
    return LEAST_TURNS <= len(speakers) >= TURN_SHARE * len(lines) and len(set(speakers)) < len(speakers)


def conversation_parts(
    examined: Sequence[Fused],
    evidence: Mapping[Key, Evidence],
    texts: Mapping[Key, tuple[ChunkRow, DocumentRow]],
    spoken: Collection[Key],
    without: Collection[str] = (),
) -> dict[Key, list[SignalPart]]:
    """Return what the signals of conversations add to each examined chunk, except the signals in `without`.

    They count for all chunks of an answer or for none, so that they favour no kind of document. `spoken` are the chunks
    of conversations.
    """
    share = (len(spoken) / max(1, len(evidence)) - LEAST_SHARE) / (1 - LEAST_SHARE)
    if share <= 0:
        return {}
    beside = _beside({hit.key: hit.score for hit in examined}, texts)
    parts: dict[Key, list[SignalPart]] = {}
    for hit in examined:
        meant = sum(part.amount for part in hit.parts if part.signal == "semantic")
        values = {"together": evidence[hit.key].together, "meaning": meant, **beside.get(hit.key, {})}
        parts[hit.key] = [
            SignalPart(signal, value, SIGNALS[signal] * share * value)
            for signal, value in values.items()
            if signal not in without
        ]
    return parts


def _beside(
    scores: Mapping[Key, float], texts: Mapping[Key, tuple[ChunkRow, DocumentRow]]
) -> dict[Key, dict[str, float]]:
    """Return each chunk's signals from its neighbours: adjacent chunks, and the sessions before and after its own."""
    by_document: dict[Key, list[Key]] = {}
    for key in sorted(texts, key=lambda key: (key[0], texts[key][0].start_line)):
        by_document.setdefault((key[0], texts[key][0].document_id), []).append(key)
    values: dict[Key, dict[str, float]] = {key: {} for key in texts}
    for keys in by_document.values():
        for one, other in pairwise(keys):
            if texts[other][0].start_line - texts[one][0].end_line <= LINES_APART:
                _larger(values[one], "next", min(scores[one], scores[other]))
                _larger(values[other], "next", min(scores[one], scores[other]))
    times = {key: when for key, keys in by_document.items() if (when := own_time(*texts[keys[0]])) is not None}
    for one, other in pairwise(sorted(times, key=lambda key: (times[key], key))):
        for near, far in ((one, other), (other, one)):
            best = max(scores[key] for key in by_document[far])
            for key in by_document[near]:
                _larger(values[key], "adjacent", best)
    return values


def _larger(values: dict[str, float], signal: str, value: float) -> None:
    values[signal] = max(values.get(signal, 0.0), min(1.0, value))


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
