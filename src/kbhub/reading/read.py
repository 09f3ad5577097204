"""Read parts of documents by ref, as they are on disk now, with a cursor for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field, replace

from kbhub.documents.markdown import section
from kbhub.errors import DocumentNotFound, IndexUnavailable, KbhubError, PartNotFound, UsageError
from kbhub.hub import Hub
from kbhub.index import references
from kbhub.index.engine import DocumentRow
from kbhub.index.references import ParsedRef
from kbhub.reading.links import squashed
from kbhub.reading.reports import Reading, ReadResult, Unread
from kbhub.reading.resolver import ResolvedDocument, Resolver
from kbhub.types import Base, Document
from kbhub.values import counted, struct
from kbhub.workspace.git import Commit, history

ANSWER_BYTES = 24_000
"""UTF-8 bytes of one answer to `read`, some 6,000 tokens; clients truncate at 25,000 tokens or less."""

LEAST_BYTES = 2_000
"""Fewest bytes for each of several documents; a document with less room left begins the next page."""

FRAME_BYTES = 100
"""Overhead per document in an answer, besides ref and title: docid, lines, fence."""

NUMBER_BYTES = 8
"""Bytes of a line number with its separator."""

HEADINGS = 20
"""Headings listed when the requested one does not exist."""

SUGGESTED = 10
"""Refs per answer that get suggestions."""

NO_LINES = (
    "is not a valid range of lines: lines count from 1, and the last cannot precede the first. Use `:FROM-TO` or "
    "`:FROM:COUNT`."
)


@struct
class ReadOptions:
    """How much of the documents an answer contains."""

    answer_bytes: int = ANSWER_BYTES
    """UTF-8 bytes of the answer; what is left out is listed in `rest` and `cursor`."""
    document_bytes: int | None = None
    """The same per document; None for a fair share of the answer."""
    line_numbers: bool = False
    """Whether to reserve room for line numbers; the text itself is unchanged."""
    cursor: str | None = None
    """Cursor of the page, from the previous answer."""


def read(hub: Hub, refs: str | Sequence[str], options: ReadOptions | None = None) -> ReadResult:
    """Read documents or parts of them, as they are on disk now.

    A ref is `path.md`, `id@path.md` or `#docid`, each with `:from-to` or `#Heading` for a part; a string contains one,
    or several separated by commas. `{a,b}.md` and `runbooks/*.md` stand for several documents. Raises `UsageError` if
    the cursor belongs to other refs.
    """
    refs, options = refs if isinstance(refs, str) else tuple(refs), options or ReadOptions()
    with hub.readers, Resolver(hub).opened() as resolver:
        parts = (part for text in _listed(refs) for part in _split(resolver, text))
        texts = [ref.encode("utf-8", "replace").decode("utf-8") for ref in parts]
        entries = list(dict.fromkeys(entry for text in texts for entry in _expanded(resolver, text)))
        start = references.offset_of(options.cursor, refs) if options.cursor else 0
        readings: list[Reading] = []
        unread: list[Unread] = []
        left, number = options.answer_bytes, start
        for number, entry in enumerate(entries[start:], start):
            if left < min(LEAST_BYTES, options.answer_bytes):
                break
            room = max(left // (len(entries) - number), min(LEAST_BYTES, left))
            try:
                room -= FRAME_BYTES + len(entry.ref)
                reading = _read(resolver, entry, min(room, options.document_bytes or room), options, len(unread))
            except KbhubError as error:
                unread.append(Unread(ref=entry.ref, message=str(error)))
                left -= len(entry.ref) + len(str(error))
                continue
            readings.append(reading)
            text = "".join((reading.text, reading.ref, reading.title, *reading.contexts))
            numbered = reading.end_line - reading.start_line + 1 if options.line_numbers else 0
            left -= len(text.encode("utf-8", "replace")) + NUMBER_BYTES * numbered + FRAME_BYTES
        else:
            number = len(entries)
    return ReadResult(
        readings=tuple(readings),
        unread=tuple(unread),
        notes=resolver.notes(entry.place for entry in entries[start:number] if entry.place),
        total=len(entries),
        cursor=references.make_cursor(refs, number) if number < len(entries) else None,
    )


@struct
class _Wanted:
    """A document to read, or a ref that leads nowhere."""

    ref: str
    reference: ParsedRef | None = None
    place: ResolvedDocument | None = field(default=None, compare=False)
    error: KbhubError | None = field(default=None, compare=False)


def _split(resolver: Resolver, refs: str) -> list[str]:
    """Split a string at its commas, unless a document has them in its name."""
    parts = references.split_refs(refs)
    if len(parts) < 2:
        return [refs]
    if len(refs) > references.LONGEST_REF:
        return parts
    try:
        return [refs] if resolver.find(refs.encode("utf-8", "replace").decode("utf-8")) else parts
    except KbhubError:  # several documents match
        return [refs]


def _expanded(resolver: Resolver, ref: str) -> list[_Wanted]:
    try:
        if match := resolver.find(ref):
            return [_found(resolver, ref, *match)]
        choices = references.expand_braces(ref)
    except KbhubError as error:
        return [_Wanted(ref, error=error)]
    if choices != [ref]:
        return [entry for choice in choices for entry in _expanded(resolver, choice)]
    if matching := resolver.matching(ref):
        reference, places = matching
        return [_found(resolver, ref, reference, place) for place in places]
    return [_Wanted(ref)]


def _found(resolver: Resolver, ref: str, reference: ParsedRef, place: ResolvedDocument) -> _Wanted:
    # A ref may contain 0, or end before it begins.
    if (reference.start is not None and reference.start < 1) or (reference.count is not None and reference.count < 1):
        return _Wanted(ref, error=UsageError(f"{ref!r} {NO_LINES}"))
    # Drop the name used, so that two names of one document are equal.
    return _Wanted(resolver.ref(place), replace(reference, target=""), place)


def _read(resolver: Resolver, entry: _Wanted, room: int, options: ReadOptions, missed: int) -> Reading:
    """Read one document, or raise what to say about it; `missed` is the number of earlier failures."""
    if entry.error:
        raise entry.error
    if entry.place is None or entry.reference is None:
        raise resolver.not_found(entry.ref, suggest=missed < SUGGESTED)
    place, name = entry.place, entry.ref
    opened = resolver.open(place, name)
    document = opened.document
    if not document.lines and document.problems:
        raise PartNotFound(name, f"it has no text. {' '.join(document.problems).rstrip('.')}")
    first, last = lines_of(document, entry.reference, name)
    offset = entry.reference.offset
    if offset and offset >= len(document.lines[first - 1]):
        raise PartNotFound(name, f"its line {first} has only {len(document.lines[first - 1])} characters")
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
        docid=resolver.docid(place),
        title=document.title,
        start_line=first,
        end_line=max(end, first - 1),
        total_lines=len(document.lines),
        offset=offset,
        text="\n".join(taken),
        rest=rest,
        hash=references.short_hash(opened.digest.hex()),
        contexts=resolver.contexts(place),
        deleted=opened.deleted,
    )


def by_index(refs: str | Sequence[str], result: ReadResult) -> bool:
    """Return whether refs may lead elsewhere after a sync: patterns may, and missing documents may be new."""
    return bool(result.unread) or any(map(references.is_pattern, _listed(refs)))


def _listed(refs: str | Sequence[str]) -> Sequence[str]:
    return (refs,) if isinstance(refs, str) else refs


def fit(lines: Sequence[str], room: int, extra: int = 0) -> tuple[list[str], int]:
    """Take as many whole lines as fit; cut a line if whole ones would leave half of the room empty.

    Lines have no line endings. `room` and `extra`, the overhead of each line, are in UTF-8 bytes. Returns the lines (at
    least one if there is any), and the number of characters taken of the last line if it was cut, else 0.
    """
    taken: list[str] = []
    left = room
    for line in lines:
        left -= extra
        # Each character takes at least a byte, so longer lines need not be encoded.
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


def lines_of(document: Document, reference: ParsedRef, name: str) -> tuple[int, int]:
    """Return the first and last line that a reference selects."""
    last = len(document.lines)
    if reference.heading:
        lines = section(document, reference.heading)
        if lines is None:
            headings = ", ".join(f"`{heading.text}`" for heading in document.headings[:HEADINGS])
            reason = f"it has no heading {reference.heading!r}; it has {headings or 'none'}"
            raise PartNotFound(f"{name}#{reference.heading}", reason)
        return lines
    if reference.start is None:
        return 1, last
    if reference.start > max(last, 1):
        raise PartNotFound(f"{name}:{reference.start}", f"the document has only {counted(last, 'line')}")
    return reference.start, min(last, reference.start + (reference.count or last) - 1)


COMMITS = 10


@struct
class Whole:
    """A document and facts about it."""

    ref: str
    docid: str
    base: Base
    path: str
    document: Document
    lines: tuple[int, int] | None
    """First and last line that were asked for; None for all."""
    hash: str
    """As of `Reading`."""
    deleted: str | None
    contexts: tuple[str, ...]
    row: DocumentRow | None
    """As it is in the index, if it is."""
    outdated: str
    """Why it may no longer hold, by its own word; empty if it says nothing."""


def open_whole(hub: Hub, ref: str) -> Whole:
    """Open a document by a ref as for `read`.

    A heading may be given as the anchor that GitHub makes of it; one that does not exist stands for the whole document.
    Raises `DocumentNotFound` and `PathNotContained`; `UsageError` if the ref is too long.
    """
    with hub.readers, Resolver(hub).opened() as resolver:
        reference, place = resolver.one(ref)
        opened = resolver.open(place, ref)
        row, reason = None, ""
        with suppress(IndexUnavailable), hub.index(place.base).snapshot() as index:
            if known := index.document(place.path):
                reason = references.declared(index, [known], hub.options.clock()).outdated.get(known.id, "")
                row = known
        return Whole(
            ref=resolver.ref(place),
            docid=resolver.docid(place),
            base=place.base,
            path=place.path,
            document=opened.document,
            lines=_asked(opened.document, reference, ref),
            hash=references.short_hash(opened.digest.hex()),
            deleted=opened.deleted,
            contexts=resolver.contexts(place),
            row=row,
            outdated=reason,
        )


def commits(whole: Whole) -> list[Commit]:
    """Return the last commits that changed a document."""
    return [] if whole.base.engine else history(whole.base, whole.path, COMMITS)


def _asked(document: Document, reference: ParsedRef, ref: str) -> tuple[int, int] | None:
    if reference.heading is None:
        return lines_of(document, reference, ref) if reference.start else None
    try:
        return lines_of(document, reference, ref)
    except DocumentNotFound:
        wanted = squashed(reference.heading)
        heading = next((one for one in document.headings if squashed(one.text) == wanted), None)
        return section(document, heading.text) if heading else None
