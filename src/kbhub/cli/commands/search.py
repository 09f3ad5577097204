"""Searching: search. Loads nothing that only other commands need."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub.cli.console import terminal_width, wants_colour
from kbhub.cli.hits import MACHINE_LIMIT, hits_listing, search_with
from kbhub.cli.hubs import bring_in_step, broken_bases, complain_all, complain_nothing, decoded, hub_options
from kbhub.cli.options import Formats, Hits, within
from kbhub.cli.output import present
from kbhub.errors import UsageError
from kbhub.hub import Hub
from kbhub.index.sqlite import noted_damage
from kbhub.render.terminal import Painter, search_notes, search_text
from kbhub.render.words import verdict_words
from kbhub.search.notes import LEADING_NOTES
from kbhub.types import Query
from kbhub.usage.log import flush, record

if TYPE_CHECKING:
    from kbhub.types import SearchResult


QUERY_BYTES = 1 << 20
"""Bytes of a query read from standard input; more than `query.MAX_TERMS` words are not looked up anyway."""


def search(
    *query: str,
    stdin: Annotated[bool, Parameter(name="-")] = False,
    also: Annotated[tuple[str, ...], Parameter(name="--also", metavar="WORDS")] = (),
    bases: Annotated[tuple[str, ...], Parameter(name="--in", metavar="BASE")] = (),
    mode: Literal["keyword", "semantic", "hybrid"] | None = None,
    limit: Annotated[int | None, Parameter(name=("--limit", "-n"), metavar="N", validator=within("limit"))] = None,
    page: Annotated[int, Parameter(metavar="N", validator=Number(gte=1))] = 1,
    granularity: Literal["document", "chunk"] = "document",
    explain: bool = False,
    hits: Hits = Hits(),  # noqa: B008 - frozen
    formats: Formats = Formats(),  # noqa: B008 - frozen
) -> int:
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
        formats: Options of every command.

    Returns:
        The exit code: 1 if nothing could be searched.
    """
    form = formats.format()
    text = " ".join([*map(decoded, query), *([_standard_input()] if stdin else [])])
    if not text.strip():
        raise UsageError("No query given. Usage: kbhub search QUERY, or `-` to read it from standard input")
    if hits.all_ and (limit is not None or page > 1):
        raise UsageError("--all cannot be used with --limit or --page.")
    hub = Hub(hub_options(formats))
    config = hub.config()
    defaults = config.settings.search
    chosen = form == "text" or ("search", "limit") in config.said
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
    )
    result, took = _found(hub, asked, hits)
    complain_all(_said_first(result, form))
    _print(hub, result, hits, formats)
    if form != "json":  # which says all of it
        broken = [] if bases else broken_bases(hub)
        notes = search_notes(result, offset=asked.offset, page=page, reworded=bool(asked.queries))
        complain_all(note for note in notes if note not in broken)
        complain_all(broken)
        if not result.searched and not result.skipped:
            complain_nothing(hub)
    record(hub, result, asked, took=took)
    flush()
    return 0 if result.searched else 1


def _found(hub: Hub, query: Query, hits: Hits) -> tuple[SearchResult, float]:
    """Bring small bases in step and search, once more if the search met a damaged index; with the seconds it took."""
    bring_in_step(hub, query.bases)
    began = time.perf_counter()
    result = search_with(hub, query, hits)
    if any(noted_damage(hub.index(base).path) for base in hub.select(query.bases)):
        bring_in_step(hub, query.bases)
        began = time.perf_counter()
        result = search_with(hub, query, hits)
    return result, time.perf_counter() - began


def _print(hub: Hub, result: SearchResult, hits: Hits, formats: Formats) -> None:
    """Print the hits in the format that was asked for."""
    whole = hits.full or hits.around is not None
    present(
        formats,
        lambda: hits_listing(hub, result),
        lambda: search_text(
            result,
            Painter(wants_colour(sys.stdout, os.environ)),
            whole=whole,
            verbatim=hits.line_numbers or hits.around is not None,
            width=terminal_width(),
        ),
        document=lambda: result.model_dump_json(indent=2),
    )


def _said_first(result: SearchResult, form: str) -> list[str]:
    """Return the verdict, and what the format has no place for."""
    verdict = [verdict_words(result.verdict)] if result.verdict and result.hits else []
    leading = " ".join([*verdict, *(note for note in result.notes if note in LEADING_NOTES)])
    said = [leading] if leading and form != "json" else []
    if form == "files":  # each other format has a place for it
        said += [f"{hit.ref}: {hit.outdated}." for hit in result.hits if hit.kept]
    return said


def _standard_input() -> str:
    return sys.stdin.buffer.read(QUERY_BYTES).decode("utf-8", "replace")
