"""Answers without a model: the sentences that best cover the question, in document order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate, zip_longest
from pathlib import PurePosixPath

from kbhub.answers.answer import Passage, Prepared, Support, estimated_tokens
from kbhub.answers.citations import Checked, composed
from kbhub.answers.sentences import FENCES, TAG, Unit, answering, is_table, units
from kbhub.documents.markdown import PART_NAMES, is_item
from kbhub.documents.shown_text import REJECTED, states
from kbhub.errors import EmbedderError
from kbhub.index.query.excerpts import ASKS_DECISION, DECISION
from kbhub.index.query.parser import searchable, stems
from kbhub.models.embedding import Embedder
from kbhub.search.plan import WeightedTerm
from kbhub.values import struct
from kbhub.workspace.formats import file_title

MOST_FILLED, FILLED_TOKENS = 2, 60
"""Limits of sentences between two chosen ones of a paragraph that are included, and of their estimated tokens: they are
quicker to read than to look up.
"""

ADJACENT_LINES = 2
"""Lines from the end of a passage to the start of the next that make them one text: a blank line is between."""

LABEL_CHARACTERS = 120

SKIPPED = "…"
"""Prefix of a sentence if others of its paragraph were skipped."""

_BRACKETED = re.compile(r"(?<!\\)\[(?=\^?\d{1,4}\](?!\())")
"""A bracketed number in a document's text, which would look like one of our citations."""

_PARAGRAPHS = 1_000_000
"""More paragraphs than a passage has."""

COVERAGE, NEARNESS, RANK = 1.0, 1.0, 2.0
"""Weights of a sentence's coverage of the question, its cosine to the question, and its passage's score.

Chosen over 48 queries of each of five collections, to cite the right passage more often and wrong ones less. Halving or
doubling one of them moved the share of answers that cite the right passage by up to .02 either way (it was .83 then,
with the two shares below at .3 and .5).
"""

HEADING_SHARE = 0.5
"""Weight of a word of the question that is in a heading above the sentence, but not in it."""

AGAIN_SHARE = 0.6
"""Weight of a word that an earlier sentence covers already, so that the next one adds something else."""

LEAST_SHARE = 0.72
"""Minimum worth of a quoted sentence, as a share of the best one's. Over the same queries, .5 / .7 / .8 cite the right
passage in .845 / .837 / .812 of the answers, and .61 / .64 / .65 of all citations are right; with the scores of today,
.72 quotes as much as .7 did then.
"""

OUTDATED = 0.5
"""Factor on the worth of a sentence that may no longer hold: it is quoted if nothing newer comes near."""

MOST_SENTENCES = 8

CITATION_TOKENS = 8
"""Estimated tokens of a citation, `[12]`, with the blank lines around it."""

MOST_LOOKED_AT = 400
"""Limit of passage parts that are weighed; twelve passages have some hundred."""

_IMAGE = re.compile(r"(?:(?<=[\w,;] )!\[([^\[\]]+)|!\[[^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])|\[\s*\]\([^()]*\)")
"""An image, with its text if it is within a sentence, or a link that shows nothing; removed from the inside out."""

_LINK = re.compile(r"\[[^\[\]]*\]\([^()]*(?:\([^()]*\))?[^()]*\)")

_POINTER = re.compile(
    r"(?:for [^.\[]{1,60} )?(?:please )?see (?:also )?(?:the )?\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\])?"
    r"(?: (?:for|on|about)\b[^.]{0,60})?\.?",
    re.IGNORECASE,
)

SAME_SHARE = 0.9
"""Share of distinct words in common from which two sentences count as the same."""


@struct(frozen=False)
class Choice:
    """A part of a passage that may be quoted."""

    unit: Unit
    passage: Passage
    at: int
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
        if title.casefold() in PART_NAMES:  # too generic to identify the document, as `01-overview.md` is
            file = PurePosixPath(self.passage.ref.rpartition("@")[2])
            names = map(file_title, (file, *file.parents[:-1]))
            title = next((name for name in names if name.lstrip("0123456789 ").casefold() not in PART_NAMES), title)
        if heading in ("", self.passage.title):
            label = title
        elif before is not None and before.passage.docid == self.passage.docid:
            label = heading
        else:
            label = f"{title} › {heading}"
        label = " ".join(label.replace("*", "").split())
        cut = label if len(label) <= LABEL_CHARACTERS else f"{label[:LABEL_CHARACTERS]}…"
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
    """Add short gaps between chosen sentences of a paragraph, as far as they fit, and sort everything for the text."""
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
    """Leave out announcements ("the following:") of parts, in order, that were not chosen, unless nothing is left."""
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
        near = [group for group in groups if any(_adjacent(passage, other) for other in group)]
        if near:
            near[0] += [passage, *(other for group in near[1:] for other in group)]
            groups = [group for group in groups if group not in near[1:]]
        else:
            groups.append([passage])
    rank = {passage.number: at for at, group in enumerate(groups) for passage in group}
    return sorted(chosen, key=lambda choice: (rank[choice.passage.number], choice.passage.start_line, choice.at))


def told(chosen: Sequence[Choice]) -> str:
    """Write the parts, in order, with a citation at the end of each, and a label per section if there are several."""
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


def _adjacent(passage: Passage, other: Passage) -> bool:
    """Return whether two passages are adjacent in their document."""
    first, second = sorted((passage, other), key=lambda passage: passage.start_line)
    return passage.docid == other.docid and 0 < second.start_line - first.end_line <= ADJACENT_LINES


def _paragraph(choice: Choice) -> tuple[int, int]:
    return choice.passage.number, choice.unit.paragraph


def _marked(choice: Choice, before: Choice | None) -> str:
    """Return the text of a part, with bracketed numbers escaped and skipped sentences marked."""
    warned = choice.passage.rejected and (before is None or before.passage.number != choice.passage.number)
    mark = f"{REJECTED.capitalize()}: " if warned else ""
    if choice.unit.kind == "block":
        return f"{mark.rstrip()}\n\n{choice.unit.text}" if mark else choice.unit.text
    text = _BRACKETED.sub(r"\\[", choice.unit.text)
    skips = before is not None and _paragraph(before) == _paragraph(choice) and choice.at > before.at + 1
    return f"{SKIPPED} {text}" if skips and choice.unit.kind == "sentence" else f"{mark}{text}"


def extract(prepared: Prepared, embedder: Embedder | None) -> Checked | None:
    """Compose an answer from sentences of the passages, within the requested tokens; None if there is no sentence."""
    choices = _choices(prepared, embedder)
    chosen, room = _chosen(choices, prepared.weights, prepared.options.max_tokens)
    if not chosen:
        return None
    chosen = without_promises(filled(chosen, choices, room))
    quotes = [(part.passage.number, part.unit) for part in chosen]
    support = [Support(number=at, claim=one.text, quote=one.text, line=one.line, overlap=1.0) for at, one in quotes]
    return Checked(told(chosen), tuple(support))


def best_line(prepared: Prepared, embedder: Embedder | None) -> int | None:
    """Return the line of the part of the passages that is nearest to the question, or None if they have no parts."""
    chosen, _ = _chosen(_choices(prepared, embedder), prepared.weights, prepared.options.max_tokens)
    return chosen[0].unit.line if chosen else None


def _choices(prepared: Prepared, embedder: Embedder | None) -> list[Choice]:
    """Return the parts of the passages that may be quoted, with their nearness to the question."""
    choices: list[Choice] = []
    room = prepared.options.max_tokens
    near = partial(nearness, prepared.question, embedder=embedder)
    for passage in prepared.passages:
        parts = units(passage.text, passage.start_line, in_code=passage.in_code, table_header=passage.table_header)
        for at, unit in enumerate(filter(None, map(plain, parts))):
            names = (passage.title, *passage.headings, unit.heading)
            above = frozenset(stems(searchable(" ".join(names))))
            if unit.kind == "block" and is_table(unit.text):
                fitted = replace(unit, text=answering(unit.text, prepared.weights, above, room, near))
            else:
                fitted = unit if estimated_tokens(unit.text) < room else _fitted(unit, room)
            size = estimated_tokens(fitted.text) + CITATION_TOKENS
            if size <= room:
                choices.append(Choice(fitted, passage, at, size, frozenset(stems(searchable(fitted.text))), above))
    del choices[MOST_LOOKED_AT:]
    texts = [" ".join((heading_of(choice.unit, choice.passage), choice.unit.text)) for choice in choices]
    for choice, cosine in zip(choices, near(texts), strict=False):
        choice.near = max(0.0, cosine)
    for choice in choices if ASKS_DECISION.search(prepared.question) else ():
        first = choice.at == 0 and DECISION.match(f"# {heading_of(choice.unit, choice.passage)}\n")
        if choice.passage.docid == prepared.passages[0].docid and (first or DECISION.match(choice.unit.text)):
            choice.near = 1.0
    return choices


def plain(unit: Unit) -> Unit | None:
    """Return a part without HTML tags and images, or None if it is a list of questions, or nothing is left of it."""
    text = unit.text
    if (unit.kind != "block" or is_item(text.split("\n", 1)[0])) and any(mark in text for mark in ("<", "](", "![")):
        parts = re.split(r"(`+[^`]*`+)", text)  # in code, `<name>` is a placeholder
        parts[::2] = [TAG.sub("", _IMAGE.sub(r"\1", _IMAGE.sub(r"\1", part))) for part in parts[::2]]
        text = "".join(parts).strip("\n").rstrip()
    if unit.kind == "sentence" and (_POINTER.fullmatch(text) or not any(map(str.isalnum, _LINK.sub("", text)))):
        return None
    only_asks = unit.kind == "block" and text.endswith(("?", "？")) and not states(text)
    return replace(unit, text=text) if any(map(str.isalnum, text)) and not only_asks else None


def _fitted(unit: Unit, room: int) -> Unit:
    """Cut a long list to its first lines; code and prose are not cut."""
    if unit.kind != "block" or unit.text.startswith(FENCES):
        return unit
    lines = unit.text.split("\n")
    fitting = sum(size < room for size in accumulate(estimated_tokens(line) + 1 for line in lines))
    return replace(unit, text="\n".join(lines[:fitting])) if fitting else unit


def nearness(question: str, texts: Sequence[str], *, embedder: Embedder | None) -> list[float]:
    """Return the cosine of each text to the question, or nothing without a working embedder."""
    if embedder and texts:
        with suppress(EmbedderError):
            vectors = embedder.embed([question, *texts])
            return [*map(float, vectors[1:] @ vectors[0])]
    return []


def _chosen(choices: Sequence[Choice], weights: Sequence[WeightedTerm], room: int) -> tuple[list[Choice], int]:
    """Pick greedily the choice that adds most to those before it; return the room left, too."""
    left, chosen = list(choices), list[Choice]()
    covered, first = set[str](), 0.0
    while left and len(chosen) < MOST_SENTENCES:
        worth, at = max((_worth(choice, weights, covered), -number) for number, choice in enumerate(left))
        best = left.pop(-at)
        if worth <= 0 or worth < LEAST_SHARE * first:
            break
        size = best.size + label_tokens(best, chosen)
        if size > room:
            continue
        first = first or worth
        room -= size
        covered |= best.own
        chosen.append(best)
        left = [one for one in left if len(one.own & best.own) < max(1, SAME_SHARE * len(one.own | best.own))]
    return chosen, room


def _worth(choice: Choice, weights: Sequence[WeightedTerm], covered: set[str]) -> float:
    total = sum(weight.weight for weight in weights) or 1.0
    coverage = sum(weight.weight * _share(weight, choice, covered) for weight in weights) / total
    worth = COVERAGE * coverage + NEARNESS * choice.near + RANK * (choice.passage.score or 0.0)
    return worth * OUTDATED if choice.passage.outdated else worth


def _share(weight: WeightedTerm, choice: Choice, covered: set[str]) -> float:
    """Return a sentence's share of a word of the question; less if it was covered before."""
    share = sum(
        (AGAIN_SHARE if stem in covered else 1.0) if stem in choice.own else HEADING_SHARE * (stem in choice.above)
        for stem in weight.stems
    )
    return share / len(weight.stems) if weight.stems else 0.0
