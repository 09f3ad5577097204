"""Noting queries and readings: a search only puts a note into a queue, and a thread writes it a moment later."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import KbhubError, QueryLogUnavailable
from kbhub.index.querylog import Asked, Opening, QueryLog
from kbhub.memory.identity import identify
from kbhub.places import data_dir
from kbhub.query import normalise, parsed
from kbhub.references import parse_reference
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbhub.hub import Hub
    from kbhub.types import Query, SearchResult

log = logging.getLogger(__name__)

FOLDER = "queries"
"""Folder of the logs in the data directory, one file per project."""

NO_PROJECT = "no-project"
"""Name of the log where kbhub works for no directory."""

USER = "user"
"""Who asked, where no client did: the command line."""

WRITE_SECONDS = 0.5
"""Time for which notes are gathered before they are written: a burst pays once."""

MOST_WAITING = 1000
"""Notes that wait while the log cannot be written; the oldest give way."""

TOP_HITS = 10
"""Hits of a query that are kept: two pages, of which more are read than of all others."""

TEXT_CHARACTERS = 2000
"""Characters of a query that are kept; a question is shorter, and a pasted page is none."""

_ENDS = "?!.,;: "


@struct
class _Note:
    """What happened, and where."""

    hub: Hub
    entry: Asked | Opening


_waiting: deque[_Note] = deque(maxlen=MOST_WAITING)
_starting = threading.Lock()
_writing = threading.Lock()
_writer: list[threading.Thread] = []
"""The thread that writes what waits, while there is one."""


def record(hub: Hub, result: SearchResult, query: Query, client: str | None = None) -> None:
    """Note a query of the user's or an agent's; returns at once, and never fails.

    Further pages of an answer, and queries for which nothing could be searched, are not noted.

    Args:
        hub: what answered.
        result: the answer.
        query: what was asked.
        client: name of the MCP client; none stands for the user.
    """
    if query.offset or not result.searched or not query.text.strip():
        return
    text = result.query[:TEXT_CHARACTERS]
    entry = Asked(
        at=hub.options.clock(),
        text=text,
        subject="",
        key="",
        mode=result.mode,
        bases=result.searched,
        verdict=result.verdict,
        score=result.hits[0].score if result.hits else None,
        client=client or USER,
        hits=tuple(dict.fromkeys(hit.ref for hit in result.hits))[:TOP_HITS],  # chunks of one document are one
    )
    _put(_Note(hub, entry))


def note_read(hub: Hub, refs: str | Iterable[str], client: str | None = None) -> None:
    """Note that documents were read, which says of the query that listed them that they answer it; returns at once.

    Args:
        hub: what read them.
        refs: as readings name them.
        client: name of the MCP client; none stands for the user.
    """
    now = hub.options.clock()
    for ref in [refs] if isinstance(refs, str) else refs:
        meanings = tuple(dict.fromkeys(meaning.target for meaning in parse_reference(ref)))
        _put(_Note(hub, Opening(now, meanings, client or USER)))


def flush() -> None:
    """Write what waits; what cannot be written goes on waiting."""
    with _writing:
        notes: list[_Note] = []
        while _waiting:
            notes.append(_waiting.popleft())
        batches: dict[Path, list[_Note]] = {}
        paths = {hub: _path_if_wanted(hub) for hub in {note.hub for note in notes}}
        for note in notes:
            if path := paths[note.hub]:
                batches.setdefault(path, []).append(note)
        for path, batch in batches.items():
            if not _written(path, [_understood(note.entry) for note in batch]):
                _waiting.extendleft(reversed(batch))


def log_of(hub: Hub) -> QueryLog:
    """Give the log of a hub's project, with everything in it that was noted in this process."""
    flush()
    return QueryLog(log_path(hub))


def logs_folder(hub: Hub) -> Path:
    """Give the folder of the logs of all projects."""
    return Path(os.path.realpath(data_dir(hub.options.env))) / FOLDER


def log_path(hub: Hub) -> Path:
    """Say where the log of a hub's project lies: clones and worktrees share one."""
    identity = identify(hub.discovery().workspace)
    return logs_folder(hub) / f"{identity.digest if identity else NO_PROJECT}.db"


def key_of(subject: str) -> str:
    """Give what is equal for questions that differ in nothing but case, white space and the marks at their ends."""
    return " ".join(normalise(subject).casefold().split()).strip(_ENDS)


def _put(note: _Note) -> None:
    _waiting.append(note)
    with _starting:
        if not _writer:
            # A daemon: what waits at the end of the process is written by `flush`, which is called then.
            thread = threading.Thread(target=_write_later, name="kbhub-query-log", daemon=True)
            _writer.append(thread)
            thread.start()


def _write_later() -> None:
    threading.Event().wait(WRITE_SECONDS)
    with _starting:
        _writer.clear()  # what comes from now on starts a thread of its own
    flush()


def _path_if_wanted(hub: Hub) -> Path | None:
    try:
        return log_path(hub) if hub.config().settings.log.queries else None
    except KbhubError:  # nobody knows whether the user wants it
        return None


def _understood(entry: Asked | Opening) -> Asked | Opening:
    """Add what a query is about."""
    if isinstance(entry, Opening):
        return entry
    subject = " ".join(parsed(entry.text).text.split())
    return Asked(
        *(entry.at, entry.text, subject, key_of(subject), entry.mode, entry.bases, entry.verdict, entry.score),
        *(entry.client, entry.hits),
    )


def _written(path: Path, entries: list[Asked | Opening]) -> bool:
    for _ in range(2):  # a damaged file is set aside by the first attempt
        try:
            QueryLog(path).write(entries)
            return True
        except QueryLogUnavailable as error:
            log.info("%s", error)
    return False


atexit.register(flush)
