"""Refs → parts of documents, as they are on disk now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from kbhub.covering import matching
from kbhub.errors import DocumentNotFound, KbhubError, UsageError
from kbhub.paging import offset_of_reading, reading_cursor
from kbhub.references import LONGEST_REF, Reference, expand_braces, is_pattern, split_refs
from kbhub.reports import Reading, ReadResult, Unread
from kbhub.sections import section
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.shelves import Place, Shelves
    from kbhub.types import Document

ANSWER_BYTES = 24_000
"""UTF-8 bytes of one answer to `read`, some 6,000 tokens; clients cut answers at 25,000 tokens or less."""

LEAST_BYTES = 2_000
"""Bytes that a document of several gets at least; one for which less is left begins the next page."""

FRAME_BYTES = 100
"""Bytes of what an answer writes around a document besides its ref and title: docid, lines, fence."""

NUMBER_BYTES = 8
"""Bytes of a line number with its mark, where lines are numbered."""

HEADINGS = 20
"""Headings named when the one asked for is not there."""

HASH_DIGITS = 12
"""Hex digits of the hash of a file's bytes: 48 bits tell two versions of one file apart."""

SUGGESTED = 10
"""Refs of one answer for which similar ones are looked for."""

NO_LINES = "names no lines: they count from 1, and the last is not before the first. Say `:FROM-TO` or `:FROM:COUNT`."


@struct
class ReadOptions:
    """How much of what is read an answer holds."""

    answer_bytes: int = ANSWER_BYTES
    """UTF-8 bytes of the answer; what is left out is named in `rest` and `cursor`."""
    document_bytes: int | None = None
    """The same of each document; none for a fair share of the answer."""
    line_numbers: bool = False
    """Whether room is needed for line numbers; the text itself stays as it is."""
    cursor: str | None = None
    """Of the page, as the last answer gave it."""


@struct
class _Wanted:
    """A document to be read, or a ref that leads nowhere."""

    ref: str
    reference: Reference | None = None
    place: Place | None = field(default=None, compare=False)
    error: KbhubError | None = field(default=None, compare=False)


class Library:
    """Reads the documents of all active bases.

    Args:
        shelves: their documents, by what they are called.
        contexts: what the global config says of paths in every base.
    """

    def __init__(self, shelves: Shelves, contexts: Mapping[str, str] | None = None) -> None:
        self._shelves = shelves
        self._contexts = contexts or {}

    def read(self, refs: str | Sequence[str], options: ReadOptions | None = None) -> ReadResult:
        """Read documents or parts of them, as they are on disk now.

        Args:
            refs: each string holds one ref, or several with commas; see `parse_reference`, and `{a,b}.md` and
                `runbooks/*.md` for several documents.
            options: how much of them.

        Raises:
            UsageError: the cursor is of other refs.
        """
        options = options or ReadOptions()
        refs = refs if isinstance(refs, str) else tuple(refs)
        with self._shelves.opened():
            wanted = self._wanted(refs)
            start = offset_of_reading(options.cursor, refs) if options.cursor else 0
            readings: list[Reading] = []
            unread: list[Unread] = []
            left, number = options.answer_bytes, start
            for number, one in enumerate(wanted[start:], start):
                if left < min(LEAST_BYTES, options.answer_bytes):
                    break
                room = max(left // (len(wanted) - number), min(LEAST_BYTES, left))
                try:
                    room -= FRAME_BYTES + len(one.ref)
                    reading = self._read(one, min(room, options.document_bytes or room), options, len(unread))
                except KbhubError as error:
                    unread.append(Unread(ref=one.ref, message=str(error)))
                    left -= len(one.ref) + len(str(error))
                    continue
                readings.append(reading)
                left -= _cost(reading, options)
            else:
                number = len(wanted)
        return ReadResult(
            readings=tuple(readings),
            unread=tuple(unread),
            total=len(wanted),
            cursor=reading_cursor(refs, number) if number < len(wanted) else None,
        )

    def _wanted(self, refs: str | Sequence[str]) -> list[_Wanted]:
        """Give what is to be read, in the order asked for; what several refs name is read once."""
        given = [part for one in _listed(refs) for part in self._split(one)]
        texts = [ref.encode("utf-8", "replace").decode("utf-8") for ref in given]
        return list(dict.fromkeys(one for text in texts for one in self._expanded(text)))

    def _split(self, refs: str) -> list[str]:
        """Split a string at its commas, unless there is a document that has them in its name."""
        parts = split_refs(refs)
        if len(parts) < 2:
            return [refs]
        if len(refs) > LONGEST_REF:
            return parts
        try:
            return [refs] if self._shelves.find(refs.encode("utf-8", "replace").decode("utf-8")) else parts
        except KbhubError:  # several documents answer to it
            return [refs]

    def _expanded(self, ref: str) -> list[_Wanted]:
        try:
            if found := self._shelves.find(ref):
                return [self._found(ref, *found)]
            choices = expand_braces(ref)
        except KbhubError as error:
            return [_Wanted(ref, error=error)]
        if choices != [ref]:
            return [one for choice in choices for one in self._expanded(choice)]
        if matching := self._shelves.matching(ref):
            reference, places = matching
            return [self._found(ref, reference, place) for place in places]
        return [_Wanted(ref)]

    def _found(self, ref: str, reference: Reference, place: Place) -> _Wanted:
        if not reference.names_lines():
            return _Wanted(ref, error=UsageError(f"{ref!r} {NO_LINES}"))
        # What it was called does not matter any more, so that two names of one document are one.
        return _Wanted(self._shelves.ref(place), replace(reference, target=""), place)

    def _read(self, one: _Wanted, room: int, options: ReadOptions, missed: int) -> Reading:
        """Read one document, or raise what there is to say about it; `missed` refs were told so before."""
        if one.error:
            raise one.error
        if one.place is None or one.reference is None:
            raise self._shelves.not_found(one.ref, suggest=missed < SUGGESTED)
        place, name = one.place, one.ref
        try:
            opened = self._shelves.open(place)
        except OSError as error:
            raise DocumentNotFound(name, f"its file cannot be read ({error.strerror})") from error
        document = opened.document
        first, last = _lines_of(document, one.reference, name)
        offset = one.reference.offset
        if offset and offset >= len(document.lines[first - 1]):
            raise DocumentNotFound(name, f"its line {first} has {len(document.lines[first - 1])} characters only")
        lines = list(document.lines[first - 1 : last])
        if lines:
            lines[0] = lines[0][offset:]
        taken, cut = fit(lines, room, NUMBER_BYTES if options.line_numbers else 0)
        end = first + len(taken) - 1
        rest = None
        if cut:
            rest = f"{name}:{end}+{(offset if end == first else 0) + cut}:{last - end + 1}"
        elif end < last:
            rest = f"{name}:{end + 1}:{last - end}"
        return Reading(
            ref=name,
            docid=self._shelves.docid(place),
            title=document.title,
            start_line=first,
            end_line=max(end, first - 1),
            total_lines=len(document.lines),
            offset=offset,
            text="\n".join(taken),
            rest=rest,
            hash=opened.digest.hex()[:HASH_DIGITS],
            contexts=matching(place.base.contexts, self._contexts, place.path),
            deleted=opened.deleted,
        )


def by_index(refs: str | Sequence[str], result: ReadResult) -> bool:
    """Whether refs lead elsewhere once the index is in step: patterns do, and what was not found may be new.

    Args:
        refs: as they were read.
        result: what came of it.
    """
    return bool(result.unread) or any(map(is_pattern, _listed(refs)))


def _listed(refs: str | Sequence[str]) -> Sequence[str]:
    return (refs,) if isinstance(refs, str) else refs


def fit(lines: Sequence[str], room: int, extra: int = 0) -> tuple[list[str], int]:
    """Take whole lines as far as there is room. A line is cut where whole ones would leave half of the room empty.

    Args:
        lines: without their ends.
        room: UTF-8 bytes.
        extra: bytes that each line takes besides its text.

    Returns:
        The lines, at least one if there is any, and how many characters of the last were taken if it was cut, else 0.
    """
    taken: list[str] = []
    left = room
    for line in lines:
        left -= extra
        # A character takes a byte at least, so what is longer need not be encoded.
        size = len(line) if len(line) > left else len(line.encode("utf-8", "replace"))
        if size > left:
            if taken and left < room / 2:
                break
            piece = line[: max(left, 0)].encode("utf-8", "replace")[: max(left, 0)].decode("utf-8", "ignore")
            piece = piece or ("" if taken else line[:1])
            if not piece:
                break
            if len(piece) < len(line):
                return [*taken, piece], len(piece)
        taken.append(line)
        left -= size + 1
    return taken, 0


def _lines_of(document: Document, reference: Reference, name: str) -> tuple[int, int]:
    """Give the first and the last line that a reference asks for."""
    last = len(document.lines)
    if reference.heading:
        found = section(document, reference.heading)
        if found is None:
            headings = ", ".join(f"`{heading.text}`" for heading in document.headings[:HEADINGS])
            reason = f"it has no heading {reference.heading!r}; it has {headings or 'none'}"
            raise DocumentNotFound(f"{name}#{reference.heading}", reason)
        return found
    if reference.start is None:
        return 1, last
    if reference.start > max(last, 1):
        raise DocumentNotFound(f"{name}:{reference.start}", f"it has {last} lines only")
    return reference.start, min(last, reference.start + (reference.count or last) - 1)


def _cost(reading: Reading, options: ReadOptions) -> int:
    numbers = NUMBER_BYTES * (reading.end_line - reading.start_line + 1) if options.line_numbers else 0
    text = "".join((reading.text, reading.ref, reading.title, *reading.contexts))
    return len(text.encode("utf-8", "replace")) + numbers + FRAME_BYTES
