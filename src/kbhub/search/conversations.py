"""Signals of conversations: words in one turn, and the turns and sessions beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from kbhub.index.engine import ChunkRow, DocumentRow, Key
from kbhub.search.dates import own_time
from kbhub.search.plan import Candidate, OpenBases, Plan, RankingSignal, SignalPart

AMOUNTS = {"together": 0.6, "meaning": 0.6, "next": 0.1, "adjacent": 0.05}
"""The most each signal adds if all that was examined are conversations: docs/explanation/memory-retrieval.md."""

LEAST_SHARE = 0.5
"""Share of conversations among the examined chunks from which the signals count; they grow up to a share of 1."""

LEASTTURNS = 3
"""Lines with a speaker from which a text is a conversation."""

TURN_SHARE = 0.5
"""Least share of such lines in a conversation."""

LINES_APART = 2
"""Most lines between two chunks of which one continues the other: a heading and a blank line."""

TURN = re.compile(r"[ \t>*_-]*([^\W\d_][\w .'’-]{0,40})(?:[*_]* ?[(\[][^()\[\]\n]{1,40}[)\]])?[*_]*:[*_]*\s+\S")
"""The beginning of a turn: `Ann: …`, `**Ann:** …`, `> Ann (10:02): …`."""


def is_conversation(chunk: ChunkRow, document: DocumentRow) -> bool:
    """Return whether a chunk is of a session's log, or its lines begin with speakers."""
    if document.kind == "session":
        return True
    prose = chunk.text[chunk.prose :]
    if prose.count(":") < LEASTTURNS:  # most texts, and the pattern takes a tenth of a millisecond
        return False
    lines = [line for line in prose.split("\n") if line.strip() and not line.startswith("#")]
    speakers = [match[1] for line in lines if ":" in line and (match := TURN.match(line))]
    # In a list of terms with their meanings, every line has another name.
    return LEASTTURNS <= len(speakers) >= TURN_SHARE * len(lines) and len(set(speakers)) < len(speakers)


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


SIGNAL = RankingSignal(tuple(AMOUNTS), lambda plan: plan.query.mode != "semantic", _add_spoken)
