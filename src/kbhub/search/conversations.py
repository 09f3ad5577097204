"""Signals of conversations: words within one turn, and what was said right before and after."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from kbhub.search.days import own_time
from kbhub.search.scores import SignalPart

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kbhub.index import ChunkRow, DocumentRow
    from kbhub.index.rows import Key
    from kbhub.search.evidence import Evidence
    from kbhub.search.scores import Fused

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
