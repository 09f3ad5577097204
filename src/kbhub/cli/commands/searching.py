"""What `search` does: bring small bases in step, ask the hub, print. Loads nothing that other commands want."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from kbhub.cli.console import terminal_width, wants_colour
from kbhub.cli.hits import MACHINE_LIMIT, hits_listing, search_with
from kbhub.cli.hubs import decoded, hub_options
from kbhub.cli.output import present
from kbhub.cli.readiness import bring_in_step, broken_bases, complain_all, complain_nothing
from kbhub.errors import UsageError
from kbhub.hub import Hub
from kbhub.index import noted_damage
from kbhub.querylog.recording import flush, record
from kbhub.render.terminal import Painter, search_notes, search_text
from kbhub.render.words import verdict_words
from kbhub.search import LEADING_NOTES
from kbhub.types import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.cli.given import Formats, Hits
    from kbhub.types import Granularity, Mode, SearchResult

QUERY_BYTES = 1 << 20
"""Bytes of a query read from standard input; more than `query.MAX_TERMS` words are not looked up anyway."""


def search(
    words: Sequence[str],
    *,
    stdin: bool,
    bases: tuple[str, ...],
    mode: Mode | None,
    limit: int | None,
    page: int,
    granularity: Granularity,
    explain: bool,
    options: Hits,
    formats: Formats,
) -> int:
    """Bring small bases in step, search, print the hits; 1 if nothing could be searched."""
    form = formats.format()
    text = " ".join([*map(decoded, words), *([_standard_input()] if stdin else [])])
    if not text.strip():
        raise UsageError("Nothing to search for. Name it: kbhub search WORDS, or `-` to read standard input.")
    if options.all_ and (limit is not None or page > 1):
        raise UsageError("--all shows every hit; leave --limit and --page out.")
    hub = Hub(hub_options(formats))
    config = hub.config()
    defaults = config.settings.search
    chosen = form == "text" or ("search", "limit") in config.said
    size = limit or (defaults.limit if chosen else MACHINE_LIMIT)
    offset = (page - 1) * size
    mode = mode or defaults.mode
    query = Query(
        text=text, bases=bases, mode=mode, limit=size, offset=offset, granularity=granularity, explain=explain
    )
    bring_in_step(hub, bases)
    result = search_with(hub, query, options)
    if any(noted_damage(hub.index(base).path) for base in hub.select(bases)):  # which the search met
        bring_in_step(hub, bases)
        result = search_with(hub, query, options)
    complain_all(_said_first(result, form))
    whole = options.full or options.around is not None
    present(
        formats,
        lambda: hits_listing(hub, result),
        lambda: search_text(
            result,
            Painter(wants_colour(sys.stdout, os.environ)),
            whole=whole,
            verbatim=options.line_numbers or options.around is not None,
            width=terminal_width(),
        ),
        document=lambda: result.model_dump_json(indent=2),
    )
    if form != "json":  # which says all of it
        broken = [] if bases else broken_bases(hub)
        complain_all(note for note in search_notes(result, offset=offset, page=page) if note not in broken)
        complain_all(broken)
        if not result.searched and not result.skipped:
            complain_nothing(hub)
    record(hub, result, query)
    flush()
    return 0 if result.searched else 1


def _said_first(result: SearchResult, form: str) -> list[str]:
    """Say what the answer is worth, and what its format has no place for."""
    verdict = [verdict_words(result.verdict)] if result.verdict and result.hits else []
    leading = " ".join([*verdict, *(note for note in result.notes if note in LEADING_NOTES)])
    said = [leading] if leading and form != "json" else []
    if form == "files":  # each other format has a place for it
        said += [f"{hit.ref}: {hit.outdated}." for hit in result.hits if hit.kept]
    return said


def _standard_input() -> str:
    return sys.stdin.buffer.read(QUERY_BYTES).decode("utf-8", "replace")
