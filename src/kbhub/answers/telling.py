"""Parts of passages that were chosen → a text: in the order of the documents, each once, with what stands between."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kbhub.answers.citations import composed
from kbhub.answers.sentences import Unit
from kbhub.answers.tokens import estimated_tokens
from kbhub.markdown import PART_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbhub.answers.models import Passage

MOST_FILLED, FILLED_TOKENS = 2, 60
"""Sentences between two chosen ones of a paragraph that are told with them, and estimated tokens of them: shorter to
read than to miss."""

ADJACENT_LINES = 2
"""Lines from the end of a passage to the beginning of the next of its document that make them one text: a blank one
stands between."""

LABEL_CHARACTERS = 120
"""Of the names of a section at most."""

SKIPPED = "…"
"""Before a sentence whose paragraph has others between it and the last that is told."""

_BRACKETED = re.compile(r"(?<!\\)\[(?=\^?\d{1,4}\](?!\())")
"""A number in brackets in the text of a document, which would look like a citation of ours."""

_PARAGRAPHS = 1_000_000
"""More than a passage has."""


@dataclass(slots=True)
class Choice:
    """A part of a passage that may be quoted."""

    unit: Unit
    passage: Passage
    at: int
    """Its place among the parts of the passage."""
    size: int
    own: frozenset[str]
    above: frozenset[str]
    near: float = 0.0

    @property
    def section(self) -> tuple[str, str]:
        """What it is part of: a document, and a section of it."""
        return self.passage.docid, heading_of(self.unit, self.passage)

    def label(self, before: Choice | None = None) -> str:
        """Give the names of the section, in bold; not that of the document again if `before` is of the same."""
        heading = heading_of(self.unit, self.passage)
        title = self.passage.title
        if title.casefold() in PART_NAMES:  # which tells no document from another
            title = PurePosixPath(self.passage.ref.rpartition("@")[2]).stem
        if heading in ("", self.passage.title):
            names = title
        elif before is not None and before.passage.docid == self.passage.docid:
            names = heading
        else:
            names = f"{title} › {heading}"
        names = " ".join(names.replace("*", "").split())
        cut = names if len(names) <= LABEL_CHARACTERS else f"{names[:LABEL_CHARACTERS]}…"
        return f"**{_BRACKETED.sub(chr(92) + '[', cut)}**"


def heading_of(unit: Unit, passage: Passage) -> str:
    """Give the innermost heading above a part of a passage; empty if there is none."""
    return unit.heading or (passage.headings[-1] if passage.headings else "")


def label_tokens(one: Choice, chosen: Sequence[Choice]) -> int:
    """Estimate what naming sections takes once one more part is told; a single section needs no name."""
    sections = {other.section: other for other in chosen}
    if not sections or one.section in sections:
        return 0
    new = [one, *(sections.values() if len(sections) == 1 else ())]
    return sum(estimated_tokens(other.label()) + 2 for other in new)


def filled(chosen: Sequence[Choice], choices: Iterable[Choice], room: int) -> list[Choice]:
    """Add what little stands between chosen sentences of a paragraph, and order all as they are told.

    Args:
        chosen: what is to be told.
        choices: all that could be.
        room: estimated tokens that are left.
    """
    every = list(chosen)
    paragraphs: dict[tuple[int, int], list[Choice]] = {}
    for one in choices:
        paragraphs.setdefault(_paragraph(one), []).append(one)
    for one in chosen:
        later = [other.at for other in chosen if _paragraph(other) == _paragraph(one) and other.at > one.at]
        between = [other for other in paragraphs[_paragraph(one)] if one.at < other.at < min(later, default=0)]
        size = sum(other.size for other in between)
        if 0 < len(between) <= MOST_FILLED and size <= min(room, FILLED_TOKENS):
            every += between
            room -= size
    return in_order(every)


def without_promises(chosen: Sequence[Choice]) -> list[Choice]:
    """Leave out what announces something that is not told ("the following:"), unless nothing else is told.

    Args:
        chosen: in order.
    """
    kept = []
    for at, one in enumerate(chosen):
        behind = chosen[at + 1] if at + 1 < len(chosen) else None
        follows = behind is not None and behind.passage.number == one.passage.number and behind.at == one.at + 1
        if follows or one.unit.kind != "sentence" or not one.unit.text.endswith((":", "：")):
            kept.append(one)
    return kept or list(chosen)


def in_order(chosen: Sequence[Choice]) -> list[Choice]:
    """Order parts as they are told: the best passage first, those that follow each other as in their document."""
    groups: list[list[Passage]] = []
    for passage in sorted({one.passage.number: one.passage for one in chosen}.values(), key=lambda one: one.number):
        near = [group for group in groups if any(_follow(passage, other) for other in group)]
        if near:
            near[0] += [passage, *(one for group in near[1:] for one in group)]
            groups = [group for group in groups if group not in near[1:]]
        else:
            groups.append([passage])
    rank = {one.number: at for at, group in enumerate(groups) for one in group}
    return sorted(chosen, key=lambda one: (rank[one.passage.number], one.passage.start_line, one.at))


def told(chosen: Sequence[Choice]) -> str:
    """Write parts, each section's under its name if there are several, with its citation at the end.

    Args:
        chosen: in order.
    """
    several = len({one.section for one in chosen}) > 1
    kept: list[tuple[Unit, str, tuple[int, ...]]] = []
    for at, one in enumerate(chosen):
        before = chosen[at - 1] if at else None
        behind = chosen[at + 1] if at + 1 < len(chosen) else None
        if several and (before is None or before.section != one.section):
            label = one.label(before)
            kept.append((Unit(label, one.unit.line, "block", -1 - at), label, ()))
        ends = behind is None or behind.section != one.section or behind.passage.number != one.passage.number
        kept.append((_apart(one), _marked(one, before), (one.passage.number,) if ends else ()))
    return composed(kept)


def _follow(one: Passage, other: Passage) -> bool:
    """Say whether two passages follow each other in their document."""
    first, second = sorted((one, other), key=lambda passage: passage.start_line)
    return one.docid == other.docid and 0 < second.start_line - first.end_line <= ADJACENT_LINES


def _paragraph(one: Choice) -> tuple[int, int]:
    return one.passage.number, one.unit.paragraph


def _apart(one: Choice) -> Unit:
    """Give a part so that paragraphs of different passages are told apart."""
    return replace(one.unit, paragraph=one.passage.number * _PARAGRAPHS + one.unit.paragraph)


def _marked(one: Choice, before: Choice | None) -> str:
    """Give a part as it is quoted: a number in brackets of its own is written so that it is no citation of ours."""
    if one.unit.kind == "block":
        return one.unit.text
    text = _BRACKETED.sub(r"\\[", one.unit.text)
    skips = before is not None and _paragraph(before) == _paragraph(one) and one.at > before.at + 1
    return f"{SKIPPED} {text}" if skips and one.unit.kind == "sentence" else text
