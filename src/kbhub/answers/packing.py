"""The best passages that fit a number of tokens: for a model's prompt, or for an agent that writes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.answers.passages import Kept, Part, Texts, lines_of, numbered, passage_of, shortened
from kbhub.answers.tiers import by_strength, neighbours
from kbhub.answers.tokens import estimated_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.answers.models import AskOptions, Passage, Tier
    from kbhub.hub import Hub
    from kbhub.types import Document, Hit, SearchResult

FRAME_TOKENS = 60
"""Estimated tokens of what an answer writes around a passage besides its ref, title and headings."""

HEAD_TOKENS = 60
"""The same of what it says before the first and after the last, besides the question."""

LEAST_PART = 40
"""Estimated tokens from which on the beginning of a passage that does not fit is worth having."""

SECTION_SHARE = 0.5
"""Share of the room that a whole section may take; else the chunk that was found stands alone."""


def frame_tokens(one: Passage | Hit) -> int:
    """Estimate what naming a passage takes."""
    names = (one.ref, one.title, *one.headings, *one.duplicates, one.outdated or "")
    return FRAME_TOKENS + sum(map(estimated_tokens, names))


def fitting(passages: Sequence[Passage], room: int) -> tuple[int, ...]:
    """Give the numbers of the passages that fit, the first of them in any case.

    Args:
        passages: best first.
        room: estimated tokens for all.
    """
    chosen: list[int] = []
    for one in passages:
        size = estimated_tokens(one.readable) + frame_tokens(one)
        if size <= room or not chosen:
            chosen.append(one.number)
            room -= size
    return tuple(chosen)


def packed(hub: Hub, result: SearchResult, options: AskOptions, budget: int) -> tuple[Passage, ...]:
    """Choose passages for a budget: whole sections where they fit, each text once, best first.

    Neighbours of direct hits come before weaker hits. What was found twice in one section is there once. Of the last
    that does not fit, the lines that do are given.

    Args:
        hub: what searched.
        result: its best chunks.
        options: with the thresholds.
        budget: estimated tokens of the whole answer.
    """
    packing = _Packing(hub, budget - HEAD_TOKENS - estimated_tokens(result.query))
    strong, weak = by_strength(result, options)
    for hit in strong:
        packing.add(hit, "direct")
    for one in neighbours(hub, packing.found, result, packing.texts, Kept()):
        packing.add_neighbour(one)
    for hit in weak:
        packing.add(hit, "summarized")
    return numbered(packing.found)


class _Packing:
    """Passages so far, and the room that is left.

    Args:
        hub: what searched.
        room: estimated tokens.
    """

    def __init__(self, hub: Hub, room: int) -> None:
        self.texts = Texts(hub)
        self.found: list[Passage] = []
        self._kept, self._room = Kept(), room

    def add(self, hit: Hit, tier: Tier) -> None:
        """Take what fits of a hit, its section if that does."""
        free = self._room - frame_tokens(hit)
        document = self.texts.document(hit.docid, hit.path)
        part = _whole(document, hit, free) if document else None
        part = part or self.texts.part(hit)
        if (size := _size(part)) > free:
            part = shortened(part, hit.excerpt_line, document, free)
            if (size := _size(part)) > free or size < LEAST_PART:
                return
        if self._kept.takes(hit.docid, part, hit.headings, hit.title):
            self.found.append(passage_of(hit, part, tier, f"score {hit.score:.2f}"))
            self._room = free - size

    def add_neighbour(self, one: Passage) -> None:
        """Take a neighbour, if it fits."""
        part = Part(one.start_line, one.end_line, one.text, one.in_code, one.table_header)
        free = self._room - frame_tokens(one) - _size(part)
        if free >= 0 and self._kept.takes(one.docid, part, one.headings, one.title):
            self.found.append(one)
            self._room = free


def _size(part: Part) -> int:
    return estimated_tokens(part.text) + estimated_tokens(part.table_header)


def _whole(document: Document, hit: Hit, free: int) -> Part | None:
    """Give the section that a hit is part of, with its subsections, if it takes no more than its share."""
    above = [one for one in document.headings if one.line <= hit.start_line]
    if not above:
        return None
    inner = above[-1]
    following = (one.line for one in document.headings if one.line > inner.line and one.level <= inner.level)
    end = next(following, len(document.lines) + 1) - 1
    part = lines_of(document, inner.line, max(end, hit.end_line))
    return part if part and estimated_tokens(part.text) <= free * SECTION_SHARE else None
