"""Whether a model's text cites what it was given: what points nowhere is removed, what rests on nothing is dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kbhub.answers.cleaning import cleaned, code_spans
from kbhub.answers.marks import MARK, numbers, settled
from kbhub.answers.models import Support
from kbhub.answers.sentences import Unit, units
from kbhub.answers.tokens import estimated_tokens
from kbhub.inference import seen, without_thinking
from kbhub.query import STOP_WORDS, searchable, stems
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kbhub.answers.models import Passage

LEAST_CITED = 0.5
"""Share of its sentences that a text must cite something with; of a lesser one too little would be left to read."""

LENGTH_FACTOR = 2
"""Times the tokens asked for that a text may have by our estimate; what is beyond is dropped."""

LETTERS_PER_TOKEN = 8
"""Most letters that a token has by our estimate, with the space before it and some room; what a text has beyond is not
looked at."""

OVERLAP_DIGITS = 2


@struct
class Checked:
    """A text whose every sentence cites what it was written from."""

    text: str
    support: tuple[Support, ...]
    removed: int
    """Citations that pointed nowhere."""
    dropped: tuple[str, ...]
    """Sentences that cited nothing, or were beyond the length asked for."""


def check(text: str, passages: Sequence[Passage], max_tokens: int) -> Checked | None:
    """Check a model's text against the passages that it got.

    Args:
        text: what it wrote.
        passages: those that were sent.
        max_tokens: what was asked for.

    Returns:
        What is left of it; none if too little of it cites anything.
    """
    known = {one.number: one for one in passages}
    text = seen(without_thinking(text))
    text = cleaned(text[: LENGTH_FACTOR * max_tokens * LETTERS_PER_TOKEN], passages)
    code = code_spans(text)
    text = settled(text, lambda at: any(start <= at < end for start, end in code))
    parts = units(text, whole_lists=False)
    checker = _Checker(known)
    kept: list[tuple[Unit, _Read]] = []
    dropped: list[str] = []
    uncited = 0
    room = LENGTH_FACTOR * max_tokens
    for at, part in enumerate(parts):
        read = checker.read(part)
        if not read.cited and part.kind == "block":
            read = replace(read, last=_neighbouring(checker, parts, at))
        if not any(map(str.isalnum, read.claim)):
            continue
        room -= estimated_tokens(read.text)
        if read.cited and room >= 0:
            kept.append((part, read))
        else:
            dropped.append(read.claim)
            uncited += not read.cited
    if not kept or len(kept) < LEAST_CITED * (len(kept) + uncited):
        return None
    support = tuple(found for _, read in kept for found in supports(read.claim, [known[one] for one in read.cited]))
    written = composed((part, read.text, read.last) for part, read in kept)
    return Checked(written, support, checker.removed, tuple(dropped))


def composed(kept: Iterable[tuple[Unit, str, Sequence[int]]]) -> str:
    """Write sentences with their citations: those of a paragraph on one line, items and blocks on lines of their own.

    Args:
        kept: each with its text and the numbers that it is to end with, in order.
    """
    text, before = "", None
    for part, bare, cited in kept:
        apart = "\n\n" if part.kind == "block" else " "
        written = f"{bare}{apart}{marks_of(cited)}" if cited else bare
        if before is not None:
            together = before.paragraph == part.paragraph
            text += {"sentence": " ", "item": "\n"}.get(part.kind, "\n\n") if together else "\n\n"
        text, before = text + written, part
    return text


def supports(claim: str, passages: Iterable[Passage]) -> list[Support]:
    """Find, in each passage that a sentence cites, the part that has most of its words.

    Args:
        claim: the sentence, without its citations.
        passages: those that it cites.
    """
    words = content_stems(claim)
    found = []
    for one in passages:
        shares = [
            (len(words & content_stems(part.text)) / len(words) if words else 0.0, part)
            for part in units(one.text, one.start_line, in_code=one.in_code)
        ]
        share, part = max(shares, key=lambda entry: entry[0], default=(0.0, Unit(one.text, one.start_line, "block", 0)))
        found.append(
            Support(
                number=one.number, claim=claim, quote=part.text, line=part.line, overlap=round(share, OVERLAP_DIGITS)
            )
        )
    return found


def content_stems(text: str) -> frozenset[str]:
    """Give the stems of a text without those of stop words, unless nothing is left."""
    every = frozenset(stems(searchable(text)))
    return every - STOP_WORDS or every


@struct
class _Read:
    """A sentence with its citations."""

    text: str
    """Without those that it ends with; those of a passage that stand within it stay there."""
    claim: str
    """Without any."""
    last: tuple[int, ...]
    """Numbers of passages that it is to end with."""
    within: tuple[int, ...] = ()
    """Numbers of passages that it cites before it ends."""

    @property
    def cited(self) -> tuple[int, ...]:
        """Give all, each once."""
        return tuple(dict.fromkeys((*self.within, *self.last)))


class _Checker:
    """Reads the citations of sentences.

    Args:
        known: numbers that may be cited.
    """

    def __init__(self, known: Mapping[int, Passage]) -> None:
        self._known = known
        self.removed = 0

    def read(self, part: Unit) -> _Read:
        """Give a sentence and what it cites; what points nowhere is taken out of it.

        A citation that other words follow is a part of the sentence ("as [2] says, …") and stays where it is.
        """
        text = part.text
        end = _last_word(text) if part.kind == "sentence" else 0
        code = code_spans(text)
        last, within = dict[int, None](), dict[int, None]()
        shown, claim, at = "", "", 0
        for mark in MARK.finditer(text):
            if any(low <= mark.start() < high for low, high in code):
                continue
            before = text[at : mark.start()]
            shown, claim, at = shown + before, claim + before, mark.end()
            named = numbers(mark.group())
            sound = [number for number in named if number in self._known]
            self.removed += len(named) - len(sound)
            if mark.end() <= end and any(map(str.isalnum, claim)):
                shown += f" {marks_of(sound)}" if sound else ""
                within |= dict.fromkeys(sound)
            else:
                last |= dict.fromkeys(sound)
        shown, claim = shown + text[at:], claim + text[at:]
        trim = str.strip if part.kind == "sentence" else str.rstrip
        return _Read(trim(shown.strip("\n")), trim(claim.strip("\n")), tuple(last), tuple(within))


def marks_of(cited: Iterable[int]) -> str:
    """Write citations."""
    return "".join(f"[{number}]" for number in cited)


def _last_word(text: str) -> int:
    """Give where the last letter of a text stands that belongs to no citation."""
    bare = MARK.sub(lambda mark: " " * len(mark.group()), text)
    return next((at for at in range(len(bare) - 1, -1, -1) if bare[at].isalnum()), 0)


def _neighbouring(checker: _Checker, parts: Sequence[Unit], at: int) -> tuple[int, ...]:
    """Give what the sentence behind or before a block cites: a block is often announced or closed by its source."""
    removed = checker.removed
    for other in (at + 1, at - 1):
        if 0 <= other < len(parts) and parts[other].kind == "sentence":
            cited = checker.read(parts[other]).cited
            checker.removed = removed
            if cited:
                return cited
    return ()
