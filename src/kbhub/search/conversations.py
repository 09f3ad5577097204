"""Signals for sessions and memories: words in one turn, and newer statements above older ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod

from kbhub.index.engine import ChunkRow, DocumentRow, Key
from kbhub.index.query.excerpts import occurrences, plain
from kbhub.index.query.parser import paired, stems
from kbhub.search.dates import own_time
from kbhub.search.evidence import likeness, rarity
from kbhub.search.plan import Candidate, OpenBases, Plan, RankingSignal, SignalPart
from kbhub.types import Kind
from kbhub.values import struct

NEWER = "newer"

AMOUNTS = {"together": 0.6, "meaning": 0.6, "next": 0.1, "adjacent": 0.05}
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


def _add_spoken(plan: Plan, bases: OpenBases, _: list[Candidate]) -> None:
    """Add what the signals of conversations say of the examined chunks.

    They count for all chunks of an answer or for none, so that they favour no kind of document.
    """
    texts = bases.texts(plan.examined)
    for hit, chunk, document in texts:
        hit.spoken = is_conversation(chunk, document)
    share = ([hit.spoken for hit in plan.examined].count(True) / max(1, len(texts)) - LEAST_SHARE) / (1 - LEAST_SHARE)
    if share <= 0:
        return
    beside = _beside(texts)
    for hit in plan.examined:
        meant = sum(part.amount for part in hit.parts if part.signal == "semantic")
        together = hit.evidence.together if hit.evidence else 0.0
        values = {"together": together, "meaning": meant, **beside[hit.key]}
        hit.add(
            [
                SignalPart(signal, value, AMOUNTS[signal] * share * value)
                for signal, value in values.items()
                if plan.asks_for(signal)
            ]
        )


def _beside(texts: Sequence[tuple[Candidate, ChunkRow, DocumentRow]]) -> dict[Key, dict[str, float]]:
    """Return each chunk's signals from its neighbours: adjacent chunks, and the sessions before and after its own."""
    by_document: dict[Key, list[tuple[Candidate, ChunkRow, DocumentRow]]] = {}
    for hit, chunk, document in sorted(texts, key=lambda text: (text[0].key[0], text[1].start_line)):
        by_document.setdefault(hit.document_key, []).append((hit, chunk, document))
    values: dict[Key, dict[str, float]] = {hit.key: {} for hit, _, _ in texts}
    for mine in by_document.values():
        for (one, above, _), (other, below, _) in pairwise(mine):
            if below.start_line - above.end_line <= LINES_APART:
                _larger(values[one.key], "next", min(one.score, other.score))
                _larger(values[other.key], "next", min(one.score, other.score))
    times = {key: when for key, mine in by_document.items() if (when := own_time(*mine[0][1:])) is not None}
    for first, second in pairwise(sorted(times, key=lambda key: (times[key], key))):
        for near, far in ((first, second), (second, first)):
            best = max(hit.score for hit, _, _ in by_document[far])
            for hit, _, _ in by_document[near]:
                _larger(values[hit.key], "adjacent", best)
    return values


def _larger(values: dict[str, float], signal: str, value: float) -> None:
    values[signal] = max(values.get(signal, 0.0), min(1.0, value))


SPOKEN = RankingSignal(tuple(AMOUNTS), lambda plan: plan.query.mode != "semantic", _add_spoken)

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
    """The part of a chunk that has most of the query."""

    words: frozenset[str]
    """Those of the query."""
    text: str
    when: float
    """Seconds since the epoch."""


def _add_newer(plan: Plan, bases: OpenBases, hits: list[Candidate]) -> None:
    """Lift the newer of two statements about the same thing, in conversations and memories, right above the older."""
    said = [hit for hit in hits if hit.evidence and (hit.spoken or bases.open[hit.key[0]].base.kind == "memory")]
    if len(said) < 2 or _PAST.search(plan.query.text) or not plan.weighted:
        return
    wanted = {stem: rarity(term.text) / len(term.stems) for term in plan.weighted for stem in term.stems}
    texts = bases.texts(said)
    found = [(what, hit) for hit, chunk, document in texts if (what := _statement(chunk, document, wanted))]
    found.sort(key=lambda one: (one[0].when, one[1].key))
    replaced: dict[Key, list[Candidate]] = {}
    for number, (statement, hit) in enumerate(found):
        for other, older in found[:number]:
            if hit.score >= LEAST_SCORE * older.score and _same(other, statement, wanted):
                replaced.setdefault(hit.key, []).append(older)
                hit.replaces, older.replaced_by = (*hit.replaces, older.key), hit.key
    lifted = {hit.key: hit.score for _, hit in found}
    for _, hit in found:
        above = [lifted[older.key] + ABOVE for older in replaced.get(hit.key, ())]
        lifted[hit.key] = max(hit.score, *above, 0.0)
    for _, hit in found:
        if lifted[hit.key] > hit.score:
            amount = (lifted[hit.key] - hit.score) / prod(factor for _, factor in hit.factors)
            hit.add([SignalPart(NEWER, 1.0, amount)])


def _statement(chunk: ChunkRow, document: DocumentRow, wanted: Mapping[str, float]) -> _Statement | None:
    """Return the statement of a chunk, or None if it has too little of the query, or no date."""
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


UPDATES = RankingSignal((NEWER,), lambda plan: plan.asked is None and plan.asks_for(NEWER), _add_newer)
