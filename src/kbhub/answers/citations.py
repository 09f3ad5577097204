"""Whether a model's text cites what it was given: what points nowhere is removed, what rests on nothing is dropped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbhub.answers.models import Support
from kbhub.answers.sentences import Unit, units
from kbhub.answers.tokens import estimated_tokens
from kbhub.inference import without_thinking
from kbhub.query import STOP_WORDS, searchable, stems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kbhub.answers.models import Passage

LEAST_CITED = 0.5
"""Share of its sentences that a text must cite something with; of a lesser one too little would be left to read."""

LENGTH_FACTOR = 2
"""Times the tokens asked for that a text may have by our estimate; what is beyond is dropped."""

WIDEST_RANGE = 10
"""Passages that a range such as [2-5] may name."""

OVERLAP_DIGITS = 2

_NUMBERS = r"\d{1,4}(?:\s*(?:,|;|–|-|and|&)\s*\d{1,4})*"
_SQUARE, _CORNER = rf"\[\^?(?:passages?\s+)?({_NUMBERS})\](?!\()", rf"【\^?({_NUMBERS})[^】]*】"
_MARK = re.compile(rf"[ \t]*(?:{_SQUARE}|{_CORNER})", re.IGNORECASE)
_AFTER_END = re.compile(rf"([.!?。！？]+[\"'”’)*_]*)((?:[ \t]*(?:{_SQUARE}|{_CORNER}))+)", re.IGNORECASE)
_CODE = re.compile(
    r"^ {0,3}(?P<tick>`{3,}|~{3,}).*?(?:^ {0,3}(?P=tick)|\Z)|(?P<run>`+)(?!`).+?(?<!`)(?P=run)(?!`)",
    re.DOTALL | re.MULTILINE,
)
_IMAGE = re.compile(r"!\[(?P<text>[^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]*)[^)]*\)")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, slots=True)
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
    parts = units(_harmless(_settled(without_thinking(text)), passages), whole_lists=False)
    checker = _Checker(known)
    kept: list[tuple[Unit, str, tuple[int, ...]]] = []
    dropped: list[str] = []
    uncited = 0
    room = LENGTH_FACTOR * max_tokens
    for at, part in enumerate(parts):
        bare, cited = checker.read(part.text)
        if not cited and part.kind == "block":
            cited = _neighbouring(checker, parts, at)
        if not bare.strip():
            continue
        room -= estimated_tokens(bare)
        if cited and room >= 0:
            kept.append((part, bare, cited))
        else:
            dropped.append(bare)
            uncited += not cited
    if not kept or len(kept) < LEAST_CITED * (len(kept) + uncited):
        return None
    support = tuple(found for _, bare, cited in kept for found in supports(bare, [known[one] for one in cited]))
    return Checked(composed(kept), support, checker.removed, tuple(dropped))


def composed(kept: Iterable[tuple[Unit, str, Sequence[int]]]) -> str:
    """Write sentences with their citations: those of a paragraph on one line, items and blocks on lines of their own.

    Args:
        kept: each with its text and the numbers that it cites, in order.
    """
    text, before = "", None
    for part, bare, cited in kept:
        marks = "".join(f"[{number}]" for number in cited)
        written = f"{bare}\n\n{marks}" if part.kind == "block" else f"{bare} {marks}"
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


class _Checker:
    """Reads the citations of sentences.

    Args:
        known: numbers that may be cited.
    """

    def __init__(self, known: Mapping[int, Passage]) -> None:
        self._known = known
        self.removed = 0

    def read(self, text: str) -> tuple[str, tuple[int, ...]]:
        """Give a sentence without its citations, and those that point somewhere, each once."""
        cited: dict[int, None] = {}

        def taken(mark: re.Match[str]) -> str:
            for number in _numbers(mark[1] or mark[2]):
                if number in self._known:
                    cited[number] = None
                else:
                    self.removed += 1
            return ""

        bare = _outside_code(text, lambda part: _MARK.sub(taken, part))
        return bare.strip("\n").rstrip(), tuple(cited)


def _neighbouring(checker: _Checker, parts: Sequence[Unit], at: int) -> tuple[int, ...]:
    """Give what the sentence behind or before a block cites: a block is often announced or closed by its source."""
    removed = checker.removed
    for other in (at + 1, at - 1):
        if 0 <= other < len(parts) and parts[other].kind == "sentence":
            _, cited = checker.read(parts[other].text)
            checker.removed = removed
            if cited:
                return cited
    return ()


def _numbers(written: str) -> list[int]:
    found: list[int] = []
    for group in re.split(r"\s*(?:,|;|and|&)\s*", written, flags=re.IGNORECASE):
        ends = [int(number) for number in re.findall(r"\d+", group)]
        if len(ends) == 2 and 0 < ends[1] - ends[0] < WIDEST_RANGE:
            ends = list(range(ends[0], ends[1] + 1))
        found += ends
    return found


def _settled(text: str) -> str:
    """Put citations that stand behind the end of a sentence before it, so that they stay with it."""

    def moved(match: re.Match[str]) -> str:
        return f" {match[2].strip()}{match[1]}"

    return _outside_code(text, lambda part: _AFTER_END.sub(moved, part))


def _harmless(text: str, passages: Sequence[Passage]) -> str:
    """Take out what would load or lead somewhere: images and tags; links to places that no passage names."""
    everything = "\n".join(one.text for one in passages)

    def linked(match: re.Match[str]) -> str:
        return match.group() if match["target"] and match["target"] in everything else match["text"]

    def cleaned(part: str) -> str:
        return _LINK.sub(linked, _IMAGE.sub(lambda match: match["text"], _TAG.sub("", part)))

    return _outside_code(text, cleaned)


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change what of a text is no code."""
    made, at = "", 0
    for code in _CODE.finditer(text):
        made += change(text[at : code.start()]) + code.group()
        at = code.end()
    return made + change(text[at:])
