"""Searching: search, and the hits that it shows. Loads nothing that only other commands need."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub.cli.app import complain, misspelt, terminal_width, wants_colour
from kbhub.cli.options import RARE, WITHIN, Formats, Hits, Reply, bring_in_step, command, decoded, drawn, nothing_active
from kbhub.errors import UsageError
from kbhub.hub import Hub
from kbhub.index.query.excerpts import excerpt, spans
from kbhub.index.query.parser import Term, terms_of
from kbhub.index.sqlite.index import noted_damage
from kbhub.render.report import Listing, records
from kbhub.render.search import search_notes, search_report, verdict_words
from kbhub.render.terminal import OTHER_EXCERPT_CHARACTERS
from kbhub.render.terminal import text as text_of
from kbhub.search.judge import LEADING_NOTES
from kbhub.search.search import LlmOptions, every_hit, search_assisted
from kbhub.types import Hit, Query, SearchResult
from kbhub.usage.log import record
from kbhub.workspace.formats import converts, file_title

if TYPE_CHECKING:
    from kbhub.reading.reports import Reading

QUERY_BYTES = 1 << 20
"""Bytes of a query read from standard input; more than `parser.MAX_TERMS` words are not looked up anyway."""


@command(options=Formats)
def search(
    hub: Hub,
    *query: str,
    stdin: Annotated[bool, Parameter(name="-", group=RARE)] = False,
    also: Annotated[tuple[str, ...], Parameter(metavar="WORDS")] = (),
    bases: Annotated[tuple[str, ...], Parameter(name="--in", metavar="BASE")] = (),
    mode: Literal["keyword", "semantic", "hybrid"] | None = None,
    limit: Annotated[int | None, Parameter(name=("--limit", "-n"), metavar="N", validator=WITHIN["limit"])] = None,
    page: Annotated[int, Parameter(metavar="N", validator=Number(gte=1))] = 1,
    granularity: Annotated[Literal["document", "chunk"], Parameter(group=RARE)] = "document",
    explain: bool = False,
    hits: Hits = Hits(),  # noqa: B008 - frozen
    common: Formats,
) -> Reply:
    """Search all active bases.

    Changed bases are synced first. Filter documents with tag:ops, path:api/, base:notes, kind:memory, age:<30d or any
    KEY:VALUE of the front matter; exclude a word with -WORD. Put words that start with a dash after `--`.

    Example: kbhub search how do we roll back a release tag:ops

    Args:
        query: What to search for: a question, words, or a "phrase" in double quotes.
        stdin: Read the query from standard input.
        also: Another wording of the query, as the documents might put it; may be repeated. All are ranked as one query.
        bases: Search only this base; may be repeated.
        mode: Search by words (keyword), by meaning (semantic), or both (hybrid).
        limit: Maximum number of hits (5, or 20 in formats for programs, unless set in the config).
        page: Page of hits to show, from 1.
        granularity: One hit per document, or per chunk.
        explain: Explain each score.
        hits: Which hits, and how much of each.

    Returns:
        The exit code: 1 if nothing could be searched.
    """
    form = common.format()
    piped = sys.stdin.buffer.read(QUERY_BYTES).decode("utf-8", "replace") if stdin else ""
    text = " ".join([*map(decoded, query), *([piped] if stdin else [])])
    if not text.strip():
        raise UsageError("No query given. Usage: kbhub search QUERY, where `-` reads it from standard input.")
    if hits.all_ and (limit is not None or page > 1):
        raise UsageError("--all cannot be used with --limit or --page.")
    if hits.full and hits.around is not None:
        raise UsageError("--full cannot be used with --context.")
    config = hub.config()
    defaults = config.settings.search
    chosen = form == "text" or "limit" in config.said.get("search", {})
    size = limit or (defaults.limit if chosen else MACHINE_LIMIT)
    asked = Query(
        text=text,
        queries=tuple(map(decoded, also)),
        bases=bases,
        mode=mode or defaults.mode,
        limit=size,
        offset=(page - 1) * size,
        granularity=granularity,
        explain=explain,
        min_score=hits.min_score,
        recency=hits.recency,
    )
    assistance = LlmOptions(bool(hits.expand or hits.expand_model) or None, hits.rerank or None, hits.expand_model)
    for _ in range(2):  # once more if it met a damaged index
        bring_in_step(hub, bases)
        began = time.perf_counter()
        result = every_hit(hub, asked) if hits.all_ else search_assisted(hub, asked, assistance)
        if hits.full or hits.around is not None or hits.line_numbers:
            terms = terms_of(result.terms)
            shown = [_shown(hub, hit, terms, hits, asked, first=hit is result.hits[0]) for hit in result.hits]
            result = result.model_copy(update={"hits": tuple(shown)})
        took = time.perf_counter() - began
        if not [base for base in hub.select(bases) if noted_damage(hub.index(base).path)]:
            break
    # The verdict, and what the format has no place for.
    verdict = [verdict_words(result.verdict)] if result.verdict and result.hits else []
    above = " ".join(verdict + [note for note in result.notes if note in LEADING_NOTES])
    if above and form != "json":
        complain(above)
    if form == "files":
        complain(*(f"{hit.ref}: {hit.outdated}." for hit in result.hits if hit.kept))
    record(hub, result, asked, took=took)
    broken = [] if bases else [one.text for one in hub.missing()]
    notes = [note for note in search_notes(result, asked) if note not in broken] + broken
    if not result.searched and not result.skipped:
        notes += nothing_active(hub)
    notes += misspelt(query) if result.verdict != "strong" else []
    whole = hits.full or hits.around is not None
    said = ""
    if form == "text":
        draw = None if hits.line_numbers or hits.around is not None else drawn
        report = search_report(result, asked, full=whole)
        said = text_of(report, colour=wants_colour(sys.stdout), whole=whole, width=terminal_width(), draw=draw)
    return Reply(result, said, partial(hits_listing, result), notes, code=0 if result.searched else 1)


MACHINE_LIMIT = 20
"""Hits in a format for programs, where neither the call nor the config says how many."""

SEPARATOR = "--"
"""Between groups of lines that do not follow each other, as grep has it."""


def hits_listing(result: SearchResult) -> Listing:
    """Return hits as records."""
    fields = (
        *("docid", "score", "ref", "base", "path", "title", "headings", "start_line", "end_line", "kind"),
        *("age_days", "outdated", "context", "excerpt"),
    )
    return records("hit", fields, result.hits, lambda hit: {"context": " / ".join(hit.contexts)}, body="excerpt")


def numbered(text: str, first: int, marked: frozenset[int] | None = None, *, last: int = 0) -> str:
    """Number the lines of a text from `first` as grep does: `12:` before those in `marked` (None: all), else `12-`."""
    lines = text.split("\n")
    width = len(str(max(last, first + len(lines) - 1)))
    return "\n".join(
        f"{number:>{width}}{':' if marked is None or number in marked else '-'}{line}"
        for number, line in enumerate(lines, first)
    )


def hides_title(reading: Reading) -> bool:
    """Return whether a document has a title that its text does not show, such as the subject of a mail."""
    if reading.start_line != 1 or reading.offset or not converts(reading.ref):
        return False
    return reading.title not in reading.text and not file_title(PurePosixPath(reading.ref)).endswith(reading.title)


def cut_reading(reading: Reading, first: int | None, count: int | None) -> Reading:
    """Return at most `count` lines of what was read, from the 1-based line `first`; `UsageError` if it has none."""
    if first is None and count is None:
        return reading
    start = max(first or reading.start_line, reading.start_line)
    if start > max(reading.end_line, 1):
        raise UsageError(f"--from {start} is past the end of {reading.ref}; its last line here is {reading.end_line}.")
    end = min(reading.end_line, start + count - 1) if count else reading.end_line
    lines = reading.text.split("\n")[start - reading.start_line : end - reading.start_line + 1]
    rest = f"{reading.ref}:{end + 1}:{reading.end_line - end}" if end < reading.end_line else reading.rest
    return reading.model_copy(update={"start_line": start, "end_line": end, "text": "\n".join(lines), "rest": rest})


def _shown(hub: Hub, hit: Hit, terms: tuple[Term, ...], options: Hits, query: Query, *, first: bool) -> Hit:
    """Return a hit with the text to be shown as its excerpt."""
    text, line = hit.excerpt, hit.excerpt_line
    document = _document(hub, hit) if options.full or options.around is not None else None
    if document is not None:
        start, end = (1, len(document)) if query.granularity == "document" else (hit.start_line, hit.end_line)
        if options.around is None:
            text, line = "\n".join(document[start - 1 : end]), start
        elif matches := [at for at in range(start, end + 1) if spans(document[at - 1], terms)]:
            groups: list[tuple[int, int]] = []  # ranges of lines around matches; those that touch are joined
            for number in matches:
                low, high = max(1, number - options.around), min(len(document), number + options.around)
                if groups and low <= groups[-1][1] + 1:
                    low = groups.pop()[0]
                groups.append((low, high))
            parts, marked = ["\n".join(document[low - 1 : high]) for low, high in groups], frozenset(matches)
            if options.line_numbers:
                last = groups[-1][1]
                parts = [numbered(part, low, marked, last=last) for part, (low, _) in zip(parts, groups, strict=True)]
            text = f"\n{SEPARATOR}\n".join(parts)
            return hit.model_copy(update={"excerpt": text, "excerpt_line": groups[0][0]})
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
