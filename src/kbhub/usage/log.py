"""A project's query log: where it is, and what is written to it off the request path."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import deque
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path

from kbhub.errors import KbhubError, QueryLogUnavailable
from kbhub.hub import Hub
from kbhub.index.query.parser import normalise, parse_query
from kbhub.index.references import parse_reference
from kbhub.index.side_files import Asked, Opening, QueryLog
from kbhub.types import Query, SearchResult
from kbhub.workspace.git import identify

FOLDER = "queries"

NO_PROJECT = "no-project"


class LogSession:
    """The session that a hub's memories belong to."""

    name = ""
    """Of the connection; empty where there is none, as on the command line."""


def log_path(hub: Hub) -> Path:
    """Return the path of the log of a hub's project, in the folder of all; clones and worktrees share one."""
    identity = identify(hub.discovery().workspace)
    return Path(os.path.realpath(hub.data)) / FOLDER / f"{identity.digest if identity else NO_PROJECT}.db"


log = logging.getLogger(__name__)

USER = "user"

WRITE_SECONDS = 0.5
"""Delay before queued entries are written, so that a burst is one write."""

MOST_WAITING = 1000
"""Limit of queued entries while the log cannot be written; the oldest are dropped."""

TOP_HITS = 10
"""Hits kept per query: two pages, which get most of the reads."""

TEXT_CHARACTERS = 2000
"""Length to which queries are cut; questions are shorter, and longer ones are pasted text."""

_ENDS = "?!.,;: "

_waiting: deque[tuple[Hub, Asked | Opening]] = deque(maxlen=MOST_WAITING)
_starting = threading.Lock()
_writing = threading.Lock()
_writer: list[threading.Thread] = []


def record(
    hub: Hub, result: SearchResult, query: Query, client: str | None = None, *, took: float | None = None
) -> None:
    """Queue a query of an MCP client, or of the user (None), for the log. Returns at once and never fails."""
    if query.offset or not result.searched or not query.text.strip():
        return
    text = result.query[:TEXT_CHARACTERS]
    subject = " ".join(parse_query(text).text.split())
    entry = Asked(
        at=hub.options.clock(),
        text=text,
        subject=subject,
        # Ignores case, white space and punctuation at the ends of a question.
        key=" ".join(normalise(subject).casefold().split()).strip(_ENDS),
        mode=result.mode,
        bases=result.searched,
        verdict=result.verdict,
        score=result.hits[0].score if result.hits else None,
        client=client or USER,
        hits=tuple(dict.fromkeys(map(attrgetter("ref"), result.hits)))[:TOP_HITS],  # several chunks may have one ref
        took=took,
    )
    _put(hub, entry)


def note_read(hub: Hub, refs: str | Iterable[str], client: str | None = None) -> None:
    """Log that documents were read, which marks them as answers to the query that listed them. Returns at once."""
    now = hub.options.clock()
    for ref in [refs] if isinstance(refs, str) else refs:
        meanings = tuple(dict.fromkeys(meaning.target for meaning in parse_reference(ref)))
        _put(hub, Opening(now, meanings, client or USER))


def flush() -> None:
    """Write the queued entries; those that cannot be written stay queued."""
    with _writing:
        _writer.clear()  # later entries start a new thread
        batches: dict[Hub, list[Asked | Opening]] = {}
        while _waiting:
            hub, entry = _waiting.popleft()
            batches.setdefault(hub, []).append(entry)
        for hub, batch in batches.items():
            try:
                if not hub.config().settings.log.queries:
                    continue
                path = log_path(hub)
            except KbhubError:  # unknown whether the user wants a log
                continue
            for _ in range(2):  # the first attempt sets a damaged file aside
                try:
                    QueryLog(path).write(batch)
                    break
                except QueryLogUnavailable as error:
                    log.info("%s", error)
            else:
                _waiting.extendleft((hub, entry) for entry in reversed(batch))


def log_of(hub: Hub) -> QueryLog:
    """Return the log of a hub's project, after writing this process's queued entries."""
    flush()
    return QueryLog(log_path(hub))


def _put(hub: Hub, entry: Asked | Opening) -> None:
    _waiting.append((hub, entry))
    with _starting:
        if not _writer:
            timer = threading.Timer(WRITE_SECONDS, flush)
            timer.daemon = True  # `flush` writes the rest of the queue at exit
            _writer.append(timer)
            timer.start()


atexit.register(flush)
