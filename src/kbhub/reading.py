"""Refs → parts of documents, as they are on disk now."""

from __future__ import annotations

import difflib
import heapq
import re
import unicodedata
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbhub.errors import DocumentNotFound, IndexUnavailable, KbhubError, PathNotContained
from kbhub.markdown import parse_document
from kbhub.search import ref_of, short_docid
from kbhub.sync import document_id
from kbhub.types import Reading, ReadResult, Unread
from kbhub.walk import MARKDOWN_SUFFIXES, excluded_by, open_contained

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kbhub.index import Index
    from kbhub.types import Base, Document

ANSWER_CHARACTERS = 24_000
"""Text of one answer to `read`, some 6,000 tokens; clients cut answers at 25,000 tokens or less."""

NEAR = 3
"""Similar refs suggested for one that is not found."""

NEAR_ENOUGH = 0.6
"""Similarity (0 to 1, difflib's ratio) from which a ref is suggested."""

NEAR_AMONG = 200
"""Refs that are compared letter by letter, which takes 0.1 ms each: those that share most parts with what was asked."""

PART = 3
"""Letters of such a part."""

PARTS_FROM = 200
"""Letters of what was asked from which parts are taken."""

HEADINGS = 20
"""Headings named when the one asked for is not there."""

MAX_DIGITS = 18
"""Digits of a line number that are looked at; no file has more lines, and Python refuses to read very long numbers."""

_RANGE = re.compile(r"^(?P<target>.+?):(?P<start>\d+)(?:(?P<kind>[:-])(?P<other>\d+))?$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Reference:
    """What a ref asks for: a document, and maybe a part of it."""

    target: str
    """Path, `id@path` or `#docid`."""
    start: int | None = None
    """First line, from 1."""
    count: int | None = None
    """Lines."""
    heading: str | None = None
    """Heading, or `Heading > Heading`."""


def parse_reference(text: str) -> list[Reference]:
    """Give what a ref can mean, likeliest first; a file name may itself hold `:`, `#` or `@`.

    Args:
        text: `path`, `path:from`, `path:from:count`, `path:from-to`, `path#Heading`, `path::Heading > Heading`,
            each with `id@` before it or `#docid` for the path.
    """
    # A file name may begin or end with a blank; who types a ref means none.
    return list(dict.fromkeys(meaning for form in (text, text.strip()) for meaning in _meanings(form)))


def _meanings(text: str) -> list[Reference]:
    meanings = [Reference(text)]
    if part := _RANGE.match(text):
        start, other = max(1, _number(part["start"])), _number(part["other"]) if part["other"] else None
        if other is not None and part["kind"] == "-":
            other = max(1, other - start + 1)
        meanings.append(Reference(part["target"], start, other))
    target, found, heading = text.partition("::")
    if found and heading.strip():
        meanings.append(Reference(target, heading=heading.strip()))
    at = text.find("#", 1)  # a docid starts with one
    if at > 0 and text[at + 1 :].strip():
        meanings.append(Reference(text[:at], heading=text[at + 1 :].strip()))
    return meanings


def section(document: Document, heading: str) -> tuple[int, int] | None:
    """Find the lines of a section: from its heading to the next of the same or a higher level.

    Args:
        document: the document.
        heading: text of the heading, or the last headings of its path joined by ` > `; case does not matter,
            and a GitHub anchor (`roll-back`) serves too.

    Returns:
        (first line, last line), from 1; none if there is no such heading.
    """
    wanted = [_folded(part) for part in re.split(r"(?<=\s)>(?=\s)", heading)]
    path: list[tuple[int, str]] = []
    for number, one in enumerate(document.headings):
        path = [above for above in path if above[0] < one.level] + [(one.level, one.text)]
        names = [_folded(text) for _, text in path]
        if names[-len(wanted) :] == wanted or (len(wanted) == 1 and _anchor(one.text) == _anchor(heading)):
            following = (later.line for later in document.headings[number + 1 :] if later.level <= one.level)
            return one.line, next(following, len(document.lines) + 1) - 1
    return None


@dataclass(frozen=True, slots=True)
class Place:
    """A document that a ref leads to."""

    base: Base
    path: str
    docid: str


class Library:
    """The documents of all active bases, by ref.

    Args:
        shelves: each base with its index; the project base first.
        max_bytes: size limit of a file.
    """

    def __init__(self, shelves: Sequence[tuple[Base, Index]], max_bytes: int) -> None:
        self.shelves, self.max_bytes = shelves, max_bytes

    def read(self, refs: str | Sequence[str], characters: int = ANSWER_CHARACTERS) -> ReadResult:
        """Read documents or parts of them, as they are on disk now; see `Hub.read`."""
        if isinstance(refs, str):
            refs = self.split(refs)
        refs = [ref.encode("utf-8", "replace").decode("utf-8") for ref in refs]
        readings, unread = [], []
        left = characters
        for number, ref in enumerate(refs):
            try:
                reading = self._read(ref, left // (len(refs) - number))
            except KbhubError as error:
                unread.append(Unread(ref=ref, message=str(error)))
                continue
            left -= len(reading.text)
            readings.append(reading)
        return ReadResult(readings=tuple(readings), unread=tuple(unread))

    def split(self, refs: str) -> list[str]:
        """Split a string at its commas, unless there is a document that has them in its name."""
        parts = [part.strip() for part in refs.split(",") if part.strip()]
        if len(parts) < 2 or any(map(self._in_any_base, parse_reference(refs))):
            return [refs]
        return parts

    def find(self, reference: Reference) -> Place | None:
        """Find the document that a ref leads to, none if no base has it."""
        if re.fullmatch(r"#[0-9a-fA-F]{4,16}", reference.target):
            return self._by_docid(reference.target[1:].lower())
        name, mark, path = reference.target.partition("@")
        for base, _ in self.shelves:
            if mark and name in (base.id, *base.names):
                return self._in_base(base, path)
        homes = [base for base, _ in self.shelves if base.id == "project"] or [base for base, _ in self.shelves]
        for base in homes:
            if place := self._in_base(base, reference.target):
                return place
        elsewhere = [
            place for base, _ in self.shelves if base not in homes if (place := self._in_base(base, reference.target))
        ]
        if len(elsewhere) > 1:
            refs = [self._ref(place.base, place.path) for place in elsewhere]
            raise DocumentNotFound(reference.target, "several bases have one of this name", refs)
        return elsewhere[0] if elsewhere else None

    def _read(self, ref: str, budget: int) -> Reading:
        meanings = parse_reference(ref)
        for reference in meanings:
            if place := self.find(reference):
                return self._part(ref, place, reference, budget)
        raise DocumentNotFound(ref, self._why_not(meanings), self._near(meanings[-1].target))

    def _part(self, ref: str, place: Place, reference: Reference, budget: int) -> Reading:
        try:
            with open_contained(place.base, place.path) as file:
                document = parse_document(place.path, file.read(self.max_bytes + 1))
        except OSError as error:
            raise DocumentNotFound(ref, f"its file cannot be read ({error.strerror})") from error
        first, last = 1, len(document.lines)
        if reference.heading:
            found = section(document, reference.heading)
            if found is None:
                headings = ", ".join(f"`{heading.text}`" for heading in document.headings[:HEADINGS])
                raise DocumentNotFound(ref, f"it has no heading {reference.heading!r}; it has {headings or 'none'}")
            first, last = found
        elif reference.start:
            if reference.start > max(last, 1):
                raise DocumentNotFound(ref, f"it has {last} lines only")
            first, last = reference.start, min(last, reference.start + (reference.count or last) - 1)
        lines = cut_lines(document.lines[first - 1 : last], budget)
        end = first + len(lines) - 1
        name = self._ref(place.base, place.path)
        with self._open() as indexes:
            docid = short_docid(place.docid, indexes)
        return Reading(
            ref=name,
            docid=docid,
            title=document.title,
            start_line=first,
            end_line=max(end, first - 1),
            total_lines=len(document.lines),
            text="\n".join(lines),
            rest=f"{name}:{end + 1}:{last - end}" if end < last else None,
        )

    def _ref(self, base: Base, path: str) -> str:
        return ref_of(base, path, [other for other, _ in self.shelves])

    def _in_any_base(self, reference: Reference) -> bool:
        try:
            return self.find(reference) is not None
        except DocumentNotFound:  # several documents answer to it
            return True

    def _in_base(self, base: Base, path: str) -> Place | None:
        """Find a document in a base by its path, with or without its ending, indexed or not yet."""
        path = path.removeprefix("./")
        for form in dict.fromkeys((path, unicodedata.normalize("NFC", path), unicodedata.normalize("NFD", path))):
            for name in (form, *(form + suffix for suffix in MARKDOWN_SUFFIXES)):
                try:
                    open_contained(base, name).close()
                except (OSError, PathNotContained, ValueError):
                    continue
                if excluded_by(base, name, max_bytes=self.max_bytes) is None:
                    return Place(base, name, document_id(base, name))
        return None

    def _by_docid(self, digits: str) -> Place | None:
        with self._open() as indexes:
            found = [
                Place(base, row.path, row.docid)
                for base, index in self.shelves
                if index in indexes
                for row in index.documents_by_docid(digits)
            ]
        if len(found) > 1:
            refs = [self._ref(place.base, place.path) for place in found]
            raise DocumentNotFound(f"#{digits}", "several documents have a docid that starts so", refs)
        return found[0] if found else None

    def _why_not(self, meanings: Sequence[Reference]) -> str:
        """Say which rule keeps an existing file out, or that a path leads out of every base."""
        for reference in meanings:
            name, mark, rest = reference.target.partition("@")
            for base, _ in self.shelves:
                path = rest if mark and name in (base.id, *base.names) else reference.target
                try:
                    open_contained(base, path).close()
                except PathNotContained:
                    return "it lies outside every base"
                except (OSError, ValueError):
                    continue
                if rule := excluded_by(base, path, max_bytes=self.max_bytes):
                    return rule
        return ""

    def _near(self, target: str) -> list[str]:
        with self._open() as indexes:
            refs = [self._ref(base, path) for base, index in self.shelves if index in indexes for path in index.paths()]
        by_name: dict[str, list[str]] = {}
        for ref in refs:
            by_name.setdefault(_stem(ref), []).append(ref)
        same = by_name.get(_stem(target), [])
        similar, named = _similar(target, refs), _similar(_stem(target), by_name)
        return list(dict.fromkeys([*same, *similar, *(ref for name in named for ref in by_name[name])]))[:NEAR]

    @contextmanager
    def _open(self) -> Iterator[list[Index]]:
        """Give the indexes that can be read, each held to one state."""
        with ExitStack() as stack:
            opened = []
            for _, index in self.shelves:
                try:
                    stack.enter_context(index.snapshot())
                except IndexUnavailable:
                    continue
                opened.append(index)
            yield opened


def cut_lines(lines: Iterable[str], budget: int) -> list[str]:
    """Take whole lines up to a budget in characters, at least one, which is itself cut if it alone is too long."""
    taken: list[str] = []
    used = 0
    for line in lines:
        if taken and used + len(line) + 1 > budget:
            break
        taken.append(line if len(line) <= budget else f"{line[: max(0, budget - 1)]}…")
        used += len(taken[-1]) + 1
    return taken


def _similar(target: str, names: Iterable[str]) -> list[str]:
    """Give the names most like one, nearest first."""
    parts = {target[at : at + PART] for at in range(min(len(target), PARTS_FROM) - PART + 1)}
    likely = heapq.nlargest(NEAR_AMONG, names, key=lambda name: sum(part in name for part in parts))
    return difflib.get_close_matches(target, likely, n=NEAR, cutoff=NEAR_ENOUGH)


def _number(digits: str) -> int:
    return int(digits[:MAX_DIGITS])


def _stem(ref: str) -> str:
    return ref.rpartition("/")[2].rpartition("@")[2].removesuffix(".md").casefold()


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold().strip().strip("#").strip()


def _anchor(text: str) -> str:
    return re.sub(r"[^\w\- ]", "", text.casefold().strip()).replace(" ", "-")
