"""Composing the chosen parts into a text, in document order, with short gaps filled."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kbhub.answers.citations import composed
from kbhub.answers.sentences import Unit
from kbhub.answers.tokens import estimated_tokens
from kbhub.documents.markdown import PART_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbhub.answers.models import Passage

MOST_FILLED, FILLED_TOKENS = 2, 60
"""Limits of sentences between two chosen ones of a paragraph that are included, and of their estimated tokens: they are
quicker to read than to look up.
"""

ADJACENT_LINES = 2
"""Lines from the end of a passage to the start of the next that make them one text: a blank line is between."""

LABEL_CHARACTERS = 120
"""Limit of a section's label."""

SKIPPED = "…"
"""Prefix of a sentence if others of its paragraph were skipped."""

_BRACKETED = re.compile(r"(?<!\\)\[(?=\^?\d{1,4}\](?!\())")
"""A bracketed number in a document's text, which would look like one of our citations."""

_PARAGRAPHS = 1_000_000
"""More paragraphs than a passage has."""


@dataclass(slots=True)
class Choice:
    """A part of a passage that may be quoted."""

    unit: Unit
    passage: Passage
    at: int
    """Its index among the parts of the passage."""
    size: int
    own: frozenset[str]
    above: frozenset[str]
    near: float = 0.0

    @property
    def section(self) -> tuple[str, str]:
        """Its document and section."""
        return self.passage.docid, heading_of(self.unit, self.passage)

    def label(self, before: Choice | None = None) -> str:
        """Return the bold label of its section, without the document's title if `before` is of the same document."""
        heading = heading_of(self.unit, self.passage)
        title = self.passage.title
        if title.casefold() in PART_NAMES:  # too generic to identify the document
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
    """Return the innermost heading above a part of a passage, or ""."""
    return unit.heading or (passage.headings[-1] if passage.headings else "")


def label_tokens(one: Choice, chosen: Sequence[Choice]) -> int:
    """Estimate the tokens of additional labels if a part is added; a single section needs no label."""
    sections = {other.section: other for other in chosen}
    if not sections or one.section in sections:
        return 0
    new = [one, *(sections.values() if len(sections) == 1 else ())]
    return sum(estimated_tokens(other.label()) + 2 for other in new)


def filled(chosen: Sequence[Choice], choices: Iterable[Choice], room: int) -> list[Choice]:
    """Add short gaps between chosen sentences of a paragraph, and sort everything for the text.

    Args:
        chosen: the chosen parts.
        choices: all parts.
        room: estimated tokens left.
    """
    every = list(chosen)
    paragraphs: dict[tuple[int, int], list[Choice]] = {}
    for choice in choices:
        paragraphs.setdefault(_paragraph(choice), []).append(choice)
    for choice in chosen:
        paragraph = _paragraph(choice)
        later = [other.at for other in chosen if _paragraph(other) == paragraph and other.at > choice.at]
        between = [other for other in paragraphs[paragraph] if choice.at < other.at < min(later, default=0)]
        size = sum(other.size for other in between)
        if 0 < len(between) <= MOST_FILLED and size <= min(room, FILLED_TOKENS):
            every += between
            room -= size
    return in_order(every)


def without_promises(chosen: Sequence[Choice]) -> list[Choice]:
    """Leave out announcements ("the following:") of parts that were not chosen, unless nothing would be left.

    Args:
        chosen: in order.
    """
    kept = []
    for choice, following in zip_longest(chosen, chosen[1:]):
        fulfilled = following and following.passage.number == choice.passage.number and following.at == choice.at + 1
        if fulfilled or choice.unit.kind != "sentence" or not choice.unit.text.endswith((":", "：")):
            kept.append(choice)
    return kept or list(chosen)


def in_order(chosen: Sequence[Choice]) -> list[Choice]:
    """Sort parts by best passage first, keeping adjacent passages of a document together."""
    groups: list[list[Passage]] = []
    passages = {choice.passage.number: choice.passage for choice in chosen}
    for passage in sorted(passages.values(), key=lambda passage: passage.number):
        near = [group for group in groups if any(_follow(passage, other) for other in group)]
        if near:
            near[0] += [passage, *(other for group in near[1:] for other in group)]
            groups = [group for group in groups if group not in near[1:]]
        else:
            groups.append([passage])
    rank = {passage.number: at for at, group in enumerate(groups) for passage in group}
    return sorted(chosen, key=lambda choice: (rank[choice.passage.number], choice.passage.start_line, choice.at))


def told(chosen: Sequence[Choice]) -> str:
    """Write the parts, with a label for each section if there are several, and a citation at the end of each.

    Args:
        chosen: in order.
    """
    several = len({choice.section for choice in chosen}) > 1
    parts: list[tuple[Unit, str, tuple[int, ...]]] = []
    for at, choice in enumerate(chosen):
        before = chosen[at - 1] if at else None
        behind = chosen[at + 1] if at + 1 < len(chosen) else None
        number, unit = choice.passage.number, choice.unit
        if several and (before is None or before.section != choice.section):
            label = choice.label(before)
            parts.append((Unit(label, unit.line, "block", -1 - at), label, ()))
        ends = behind is None or behind.section != choice.section or behind.passage.number != number
        unit = replace(unit, paragraph=number * _PARAGRAPHS + unit.paragraph)  # unique among all passages
        parts.append((unit, _marked(choice, before), (number,) if ends else ()))
    return composed(parts)


def _follow(passage: Passage, other: Passage) -> bool:
    """Return whether two passages are adjacent in their document."""
    first, second = sorted((passage, other), key=lambda passage: passage.start_line)
    return passage.docid == other.docid and 0 < second.start_line - first.end_line <= ADJACENT_LINES


def _paragraph(choice: Choice) -> tuple[int, int]:
    return choice.passage.number, choice.unit.paragraph


def _marked(choice: Choice, before: Choice | None) -> str:
    """Return the text of a part, with bracketed numbers escaped and skipped sentences marked."""
    if choice.unit.kind == "block":
        return choice.unit.text
    text = _BRACKETED.sub(r"\\[", choice.unit.text)
    skips = before is not None and _paragraph(before) == _paragraph(choice) and choice.at > before.at + 1
    return f"{SKIPPED} {text}" if skips and choice.unit.kind == "sentence" else text
