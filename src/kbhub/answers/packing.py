"""Packing the best passages into a token budget, for a model's prompt or for an agent that writes itself."""

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
"""Estimated tokens that an answer adds to each passage, besides its ref, title and headings."""

HEAD_TOKENS = 60
"""Estimated tokens that an answer adds around all passages, besides the question."""

LEAST_PART = 40
"""Minimum estimated tokens of the beginning of a passage that does not fit whole."""

SECTION_SHARE = 0.5
"""Largest share of the room for a whole section; if it is longer, only the chunk of the hit is used."""


def frame_tokens(one: Passage | Hit) -> int:
    """Estimate the tokens needed to introduce a passage."""
    names = (one.ref, one.title, *one.headings, *one.duplicates, one.outdated or "")
    return FRAME_TOKENS + sum(map(estimated_tokens, names))


def fitting(passages: Sequence[Passage], room: int) -> tuple[int, ...]:
    """Return the numbers of the passages that fit; the first is always included.

    Args:
        passages: best first.
        room: estimated tokens for all.
    """
    chosen: list[int] = []
    for passage in passages:
        size = estimated_tokens(passage.readable) + frame_tokens(passage)
        if size <= room or not chosen:
            chosen.append(passage.number)
            room -= size
    return tuple(chosen)


def packed(hub: Hub, result: SearchResult, options: AskOptions, budget: int) -> tuple[Passage, ...]:
    """Choose passages for a budget: whole sections if they fit, without duplicates, best first.

    Neighbours of direct hits come before weaker hits. Passages that do not fit are cut to the lines that do.

    Args:
        hub: hub that searched.
        result: its best chunks.
        options: holds the thresholds.
        budget: estimated tokens of the whole answer.
    """
    packing = _Packing(hub, budget - HEAD_TOKENS - estimated_tokens(result.query))
    strong, weak = by_strength(result, options)
    for hit in strong:
        packing.add(hit, "direct")
    for neighbour in neighbours(hub, packing.passages, result, packing.texts, Kept()):
        packing.add_neighbour(neighbour)
    for hit in weak:
        packing.add(hit, "summarized")
    return numbered(packing.passages)


class _Packing:
    """The passages chosen so far, and the room left, in estimated tokens."""

    def __init__(self, hub: Hub, room: int) -> None:
        self.texts = Texts(hub)
        self.passages: list[Passage] = []
        self._kept, self._room = Kept(), room

    def add(self, hit: Hit, tier: Tier) -> None:
        """Add a hit: its section, its chunk, or the lines that fit."""
        free = self._room - frame_tokens(hit)
        document = self.texts.document(hit.docid, hit.path)
        part = _whole(document, hit, free) if document else None
        part = part or self.texts.part(hit)
        if (size := _size(part)) > free:
            part = shortened(part, hit.excerpt_line, document, free)
            if (size := _size(part)) > free or size < LEAST_PART:
                return
        if self._kept.takes(hit.docid, part, hit.headings, hit.title):
            self.passages.append(passage_of(hit, part, tier, f"score {hit.score:.2f}"))
            self._room = free - size

    def add_neighbour(self, passage: Passage) -> None:
        """Add a neighbour if it fits."""
        part = Part(passage.start_line, passage.end_line, passage.text, passage.in_code, passage.table_header)
        free = self._room - frame_tokens(passage) - _size(part)
        if free >= 0 and self._kept.takes(passage.docid, part, passage.headings, passage.title):
            self.passages.append(passage)
            self._room = free


def _size(part: Part) -> int:
    return estimated_tokens(part.text) + estimated_tokens(part.table_header)


def _whole(document: Document, hit: Hit, free: int) -> Part | None:
    """Return the section around a hit, with its subsections, if it takes no more than its share."""
    above = [heading for heading in document.headings if heading.line <= hit.start_line]
    if not above:
        return None
    inner = above[-1]
    following = (
        heading.line for heading in document.headings if heading.line > inner.line and heading.level <= inner.level
    )
    end = next(following, len(document.lines) + 1) - 1
    part = lines_of(document, inner.line, max(end, hit.end_line))
    return part if part and estimated_tokens(part.text) <= free * SECTION_SHARE else None
