"""The hits shown by a search on the command line, and how much of each document."""

from __future__ import annotations

import sys
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kbhub.errors import UsageError
from kbhub.index.query.excerpts import excerpt, spans
from kbhub.index.query.parser import terms_of
from kbhub.render import formats as listings
from kbhub.render.terminal import OTHER_EXCERPT_CHARACTERS
from kbhub.search.llm_assistance import LlmOptions, search_assisted
from kbhub.search.search import search
from kbhub.types import MOST_HITS
from kbhub.workspace.discovery import matching
from kbhub.workspace.formats import converts, file_title

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kbhub.cli.options import Hits
    from kbhub.hub import Hub
    from kbhub.index.query.parser import Term
    from kbhub.reading.reports import Reading
    from kbhub.render.formats import Listing
    from kbhub.types import Hit, Query, SearchResult

MACHINE_LIMIT = 20
"""Hits in a format for programs, where neither the call nor the config says how many."""

SEPARATOR = "--"
"""Between groups of lines that do not follow each other, as grep has it."""


def search_with(hub: Hub, query: Query, options: Hits) -> SearchResult:
    """Search, and return the requested hits with the requested text as their excerpt.

    Raises `UsageError` if options exclude each other.
    """
    if options.full and options.around is not None:
        raise UsageError("--full cannot be used with --context.")
    query = query.model_copy(
        update={"min_score": options.min_score, "min_signals": options.min_signals, "recency": options.recency}
    )
    assistance = LlmOptions(
        expand=True if options.expand or options.expand_model else None,
        rerank=options.rerank or None,
        expand_model=options.expand_model,
    )
    result = _every_hit(hub, query) if options.all_ else search_assisted(hub, query, assistance)
    if not (options.full or options.around is not None or options.line_numbers):
        return result
    terms = terms_of(result.terms)
    hits = [_shown(hub, hit, terms, options, query, first=number == 0) for number, hit in enumerate(result.hits)]
    return result.model_copy(update={"hits": tuple(hits)})


def hits_listing(hub: Hub, result: SearchResult) -> Listing:
    """Return hits as records."""
    fields = (
        *("docid", "score", "ref", "base", "path", "title", "headings", "start_line", "end_line", "kind"),
        *("age_days", "outdated", "context", "excerpt"),
    )
    said = {base.id: base.contexts for base in hub.discovery().bases}
    everywhere = hub.config().settings.contexts
    records = [
        {
            **hit.model_dump(mode="json", include=set(fields)),
            "context": " / ".join(matching(said.get(hit.base, {}), everywhere, hit.path)),
        }
        for hit in result.hits
    ]
    return listings.Listing("hit", fields, records, body="excerpt")


def readings_listing(readings: Sequence[Reading]) -> Listing:
    """Return what was read as records."""
    fields = ("docid", "ref", "title", "start_line", "end_line", "total_lines", "deleted", "text")
    records = [
        {**reading.model_dump(mode="json", include=set(fields)), "context": " / ".join(reading.contexts)}
        for reading in readings
    ]
    return listings.Listing("document", fields, records, body="text")


def numbered(text: str, first: int, marked: frozenset[int] | None = None, *, last: int = 0) -> str:
    """Put numbers before the lines of a text, as grep does: `12:` before marked lines, `12-` before the others.

    The first line has the number `first`; if `marked` is None, all lines are marked. There is room for the number
    `last`.
    """
    lines = text.split("\n")
    width = len(str(max(last, first + len(lines) - 1)))
    return "\n".join(
        f"{number:>{width}}{':' if marked is None or number in marked else '-'}{line}"
        for number, line in enumerate(lines, first)
    )


def hides_title(reading: Reading) -> bool:
    """Return whether a document has a title that its text does not show, such as the subject of a mail.

    A part shows no title of any document, and a title made from the file's name does not count.
    """
    if reading.start_line != 1 or reading.offset or not converts(reading.ref):
        return False
    return reading.title not in reading.text and not file_title(PurePosixPath(reading.ref)).endswith(reading.title)


def cut_reading(reading: Reading, first: int | None, count: int | None) -> Reading:
    """Return at most `count` lines of what was read, from the 1-based line `first`; by default all of them.

    Raises `UsageError` if there is no such line.
    """
    if first is None and count is None:
        return reading
    start = max(first or reading.start_line, reading.start_line)
    if start > max(reading.end_line, 1):
        raise UsageError(f"--from {start} is past the end of {reading.ref}; its last line here is {reading.end_line}.")
    end = min(reading.end_line, start + count - 1) if count else reading.end_line
    lines = reading.text.split("\n")[start - reading.start_line : end - reading.start_line + 1]
    rest = f"{reading.ref}:{end + 1}:{reading.end_line - end}" if end < reading.end_line else reading.rest
    return reading.model_copy(update={"start_line": start, "end_line": end, "text": "\n".join(lines), "rest": rest})


def _every_hit(hub: Hub, query: Query) -> SearchResult:
    """Search page by page until there are no more hits."""
    query = query.model_copy(update={"limit": MOST_HITS, "offset": 0})
    result = search(hub, query)
    hits, page = list(result.hits), result
    while page.hits and len(hits) < page.total:
        page = search(hub, query.model_copy(update={"offset": len(hits)}))
        hits += page.hits
    notes = tuple(dict.fromkeys((*result.notes, *page.notes)))
    return result.model_copy(update={"hits": tuple(hits), "total": len(hits), "notes": notes})


def _shown(hub: Hub, hit: Hit, terms: tuple[Term, ...], options: Hits, query: Query, *, first: bool) -> Hit:
    """Return a hit with the text to be shown as its excerpt."""
    text, line = hit.excerpt, hit.excerpt_line
    document = _document(hub, hit) if options.full or options.around is not None else None
    if document is not None and options.full:
        span = (1, len(document)) if query.granularity == "document" else (hit.start_line, hit.end_line)
        text, line = "\n".join(document[span[0] - 1 : span[1]]), span[0]
    elif document is not None and options.around is not None:
        span = (1, len(document)) if query.granularity == "document" else (hit.start_line, hit.end_line)
        matches = [number for number in range(span[0], span[1] + 1) if spans(document[number - 1], terms)]
        if matches:
            groups = list(_groups(matches, options.around, len(document)))
            return hit.model_copy(
                update={
                    "excerpt": _grep(document, groups, frozenset(matches), numbers=options.line_numbers),
                    "excerpt_line": groups[0][0],
                }
            )
    elif not first:
        text, offset = excerpt(text, terms, OTHER_EXCERPT_CHARACTERS)
        line += offset
    if options.line_numbers:
        text = numbered(text, line)
    return hit.model_copy(update={"excerpt": text, "excerpt_line": line})


def _document(hub: Hub, hit: Hit) -> list[str] | None:
    """Return the lines of a hit's document as it is on disk now; None if it was deleted since it was indexed."""
    # Its models take 50 ms to load, and excerpts are in the index.
    from kbhub.reading.read import ReadOptions, read  # noqa: PLC0415

    result = read(hub, [hit.docid], ReadOptions(answer_bytes=sys.maxsize))
    if not result.readings:
        return None
    lines = result.readings[0].text.split("\n")
    return lines if len(lines) >= hit.end_line else None


def _groups(matches: Sequence[int], around: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of lines around matches; those that touch are joined."""
    start, end = 0, -1
    for number in matches:
        low, high = max(1, number - around), min(last, number + around)
        if end >= 0 and low <= end + 1:
            end = high
            continue
        if end >= 0:
            yield start, end
        start, end = low, high
    yield start, end


def _grep(document: Sequence[str], groups: Sequence[tuple[int, int]], matches: frozenset[int], *, numbers: bool) -> str:
    parts = []
    for start, end in groups:
        text = "\n".join(document[start - 1 : end])
        parts.append(numbered(text, start, matches, last=groups[-1][1]) if numbers else text)
    return f"\n{SEPARATOR}\n".join(parts)
