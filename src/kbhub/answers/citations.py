"""Check a model's text: remove wrappings, what would load or link to something, and invalid citations."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from kbhub.answers.answer import Support, estimated_tokens
from kbhub.answers.prompts import MARK, PASSAGES_END, numbers, settled
from kbhub.answers.sentences import Unit, units
from kbhub.index.query.tokens import STOP_WORDS, searchable, stems
from kbhub.models.inference import seen, without_thinking
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kbhub.answers.answer import Passage


HEAD_LETTERS = 40
"""Limit of letters of a line such as `Sources:`."""

_CODE = re.compile(
    r"^ {0,3}(?P<tick>`{3,}|~{3,}).*?(?:^ {0,3}(?P=tick)|\Z)|(?P<run>`+)(?!`).+?(?<!`)(?P=run)(?!`)",
    re.DOTALL | re.MULTILINE,
)
_TARGET = r"(?P<target>(?:[^()\s]|\([^()\s]{0,200}\)){0,500})[^()\n]{0,200}"
_IMAGE = re.compile(rf"!\[(?P<text>[^\[\]]*)\](?:\({_TARGET}\)|\[[^\[\]]*\])")
_LINK = re.compile(rf"\[(?P<text>(?!\^?\d{{1,4}}\])[^\[\]]*)\]\({_TARGET}\)")  # `[1](file.md)` is a citation
_ADDRESS = re.compile(r"[ \t]?<?\b(?P<target>https?://[^\s<>()\[\]\"'`]+)>?", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<!--[^<>]*-->")
_WRAPPED = re.compile(
    r"\s*(?P<tick>`{3,}|~{3,})(?:markdown|md|text|txt)[ \t]*\n(?P<text>.*)\n(?P=tick)\s*", re.DOTALL | re.IGNORECASE
)
_LISTED = re.compile(rf"^[ \t]*(?:[-*+][ \t]+)?(?:{MARK.pattern}):?[ \t]*[`\"(<]?(?P<rest>.*)", re.IGNORECASE)


LEAST_CITED = 0.5
"""Minimum share of sentences with a citation; below it, too little of the text would be left."""

LENGTH_FACTOR = 2
"""Limit of the text's estimated tokens, as a multiple of the tokens asked for; the rest is dropped."""

LETTERS_PER_TOKEN = 8
"""Upper bound of letters per estimated token, including a space and some margin; longer texts are cut unread."""

OVERLAP_DIGITS = 2


def cleaned(text: str, passages: Sequence[Passage]) -> str:
    """Return the answer in a model's text.

    Removes a fence around all of it, a list of sources, images, tags, and links and addresses that are in no passage.
    Returns an empty text for JSON, or a repetition of the prompt, in place of an answer.
    """
    if wrapped := _WRAPPED.fullmatch(text):
        text = wrapped["text"]
    if PASSAGES_END in text or _is_data(text):
        return ""
    text = _without_list(text, [passage.ref for passage in passages])
    quoted = "\n".join(passage.text for passage in passages)

    def is_quoted(match: re.Match[str]) -> bool:
        target = match["target"].rstrip(".,;:!?")
        return bool(target) and target in quoted

    def harmless(part: str) -> str:
        part = _ADDRESS.sub(lambda match: match[0] if is_quoted(match) else "", part)
        part = _TAG.sub("", _IMAGE.sub(lambda match: match["text"], part))
        return _LINK.sub(lambda match: match[0] if is_quoted(match) else match["text"], part)

    return outside_code(text, harmless)


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Apply a change to a text, except to code in it."""
    changed, at = "", 0
    for start, end in code_spans(text):
        changed += change(text[at:start]) + text[start:end]
        at = end
    return changed + change(text[at:])


def code_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of code in a text, both fenced and inline."""
    return [match.span() for match in _CODE.finditer(text)]


def _is_data(text: str) -> bool:
    """Return whether a text is a JSON object or list, fenced or not."""
    bare = re.sub(r"^```\w*\n|\n```$", "", text.strip())
    if not bare.startswith(("{", "[")):
        return False
    try:
        return isinstance(json.loads(bare), (dict, list))
    except (ValueError, RecursionError):
        return False


def _without_list(text: str, refs: Sequence[str]) -> str:
    """Remove a list of sources with the line above it, such as `Sources:`."""
    kept: list[str] = []
    for line in text.split("\n"):
        if (match := _LISTED.match(line)) and match["rest"].startswith(tuple(refs)):
            if kept and not kept[-1].strip():
                kept.pop()
            if kept and len(kept[-1]) <= HEAD_LETTERS and kept[-1].rstrip(" *_").endswith(":"):
                kept.pop()
        else:
            kept.append(line)
    return "\n".join(kept)


@struct
class Checked:
    """A text in which every sentence cites a passage."""

    text: str
    support: tuple[Support, ...]
    removed: int
    """Number of citations that named no passage."""
    dropped: tuple[str, ...]
    """Sentences without a citation, or beyond the length asked for."""


def check(text: str, passages: Sequence[Passage], max_tokens: int) -> Checked | None:
    """Return what a check against the sent passages leaves of a model's text, or None if too little has citations.

    `max_tokens` is the length asked for.
    """
    known = {passage.number: passage for passage in passages}
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
    support = tuple(
        support for _, read in kept for support in supports(read.claim, [known[number] for number in read.cited])
    )
    answer = composed((part, read.text, read.last) for part, read in kept)
    return Checked(answer, support, checker.removed, tuple(dropped))


def composed(kept: Iterable[tuple[Unit, str, Sequence[int]]]) -> str:
    """Join units, each with the numbers cited at its end: a paragraph on one line, items and blocks on their own."""
    text, before = "", None
    for part, bare, cited in kept:
        if before is not None:
            same_paragraph = before.paragraph == part.paragraph
            text += {"sentence": " ", "item": "\n"}.get(part.kind, "\n\n") if same_paragraph else "\n\n"
        text += bare
        if cited:
            text += ("\n\n" if part.kind == "block" else " ") + marks_of(cited)
        before = part
    return text


def supports(claim: str, passages: Iterable[Passage]) -> list[Support]:
    """Find, in each passage that a sentence cites, the part that shares most words with it.

    The sentence comes without citations.
    """
    words = content_stems(claim)
    support = []
    for passage in passages:
        shares = [
            (len(words & content_stems(part.text)) / len(words) if words else 0.0, part)
            for part in units(passage.text, passage.start_line, in_code=passage.in_code)
        ]
        whole = Unit(passage.text, passage.start_line, "block", 0)
        share, part = max(shares, key=lambda entry: entry[0], default=(0.0, whole))
        overlap = round(share, OVERLAP_DIGITS)
        support.append(Support(number=passage.number, claim=claim, quote=part.text, line=part.line, overlap=overlap))
    return support


def content_stems(text: str) -> frozenset[str]:
    """Return the stems of a text except stop words, unless there are no others."""
    every = frozenset(stems(searchable(text)))
    return every - STOP_WORDS or every


@struct
class _Read:
    """A sentence and its citations."""

    text: str
    """Text without the final citations; valid ones inside the sentence stay."""
    claim: str
    """Text without any citations."""
    last: tuple[int, ...]
    """Numbers to cite at the end."""
    within: tuple[int, ...] = ()
    """Numbers cited inside the sentence."""

    @property
    def cited(self) -> tuple[int, ...]:
        """All cited numbers, without duplicates."""
        return tuple(dict.fromkeys((*self.within, *self.last)))


class _Checker:
    """Reads the citations of sentences, counting the invalid ones."""

    def __init__(self, known: Mapping[int, Passage]) -> None:
        self._known = known
        self.removed = 0

    def read(self, part: Unit) -> _Read:
        """Separate a sentence from its citations, leaving out invalid ones.

        A citation followed by other words is part of the sentence ("as [2] says, …") and stays where it is.
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
            cited = numbers(mark.group())
            valid = [number for number in cited if number in self._known]
            self.removed += len(cited) - len(valid)
            if mark.end() <= end and any(map(str.isalnum, claim)):
                shown += f" {marks_of(valid)}" if valid else ""
                within |= dict.fromkeys(valid)
            else:
                last |= dict.fromkeys(valid)
        shown, claim = shown + text[at:], claim + text[at:]
        trim = str.strip if part.kind == "sentence" else str.rstrip
        return _Read(trim(shown.strip("\n")), trim(claim.strip("\n")), tuple(last), tuple(within))


def marks_of(cited: Iterable[int]) -> str:
    """Format citations."""
    return "".join(f"[{number}]" for number in cited)


def _last_word(text: str) -> int:
    """Return the index of the last letter that is not part of a citation."""
    bare = MARK.sub(lambda mark: " " * len(mark.group()), text)
    return next((at for at in range(len(bare) - 1, -1, -1) if bare[at].isalnum()), 0)


def _neighbouring(checker: _Checker, parts: Sequence[Unit], at: int) -> tuple[int, ...]:
    """Return the citations of the sentence after or before a block, which often names its source."""
    removed = checker.removed
    for other in (at + 1, at - 1):
        if 0 <= other < len(parts) and parts[other].kind == "sentence":
            cited = checker.read(parts[other]).cited
            checker.removed = removed
            if cited:
                return cited
    return ()
