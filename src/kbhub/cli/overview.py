"""What `kbhub status` adds for a person: changes since the last sync, tags, memories, queries, the daemon."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from statistics import fmean
from typing import TYPE_CHECKING

from kbhub.errors import BaseUnavailable, IndexUnavailable
from kbhub.hooks.delivery import hooks_state
from kbhub.index.catalogue import tag_counts
from kbhub.memory.catalog import all_known
from kbhub.reading.lists import status
from kbhub.reading.reports import DaemonStatus, MemorySummary, TagUse
from kbhub.render.hooks import summary_line
from kbhub.search.base_suggestions import outside
from kbhub.search.memory_boost import FADING_DAYS
from kbhub.server.daemon.folder import DaemonFolder, running
from kbhub.sync.comparison import behind_of, compare
from kbhub.usage.gaps import summary
from kbhub.values import DAY_SECONDS, counted

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.reading.reports import BaseStatus, Status
    from kbhub.types import Base

LOOPBACK = "127.0.0.1"
"""Where a daemon listens on a port."""

TAGS = 8
"""Tags that are named."""


def overview(hub: Hub) -> Status:
    """Return an overview of the workspace; reads the times of all files."""
    here = status(hub)
    return here.model_copy(
        update={
            "bases": tuple(_compared(hub, base) for base in here.bases),
            "notes": outside(hub),
            "tags": top_tags(hub, [base.base for base in here.bases if base.documents]),
            "memories": memory_summary(hub),
            "queries": summary(hub),
            "hooks": _hooks(hub),
            "daemon": daemon_status(DaemonFolder(hub.data)),
        }
    )


def _hooks(hub: Hub) -> str:
    state = hooks_state(hub, ())
    waiting = f"; {counted(state.proposals, 'proposed memory', 'proposed memories')}: `kbhub memories inbox`"
    return (summary_line(state) if state.deliveries else "") + (waiting if state.proposals else "")


def daemon_status(folder: DaemonFolder) -> DaemonStatus | None:
    """Return the running daemon's status, or None if none is running."""
    record = running(folder)
    if record is None:
        return None
    try:
        ready = datetime.fromtimestamp(folder.record.stat().st_mtime, UTC).isoformat(timespec="seconds")
    except OSError:
        ready = None
    address = record.link if isinstance(record.link, str) else f"{LOOPBACK}:{record.link}"
    return DaemonStatus(pid=record.pid, address=address, http=record.http, since=ready, version=record.version)


def top_tags(hub: Hub, bases: list[Base]) -> tuple[TagUse, ...]:
    """Return the most frequent tags of some bases, equally frequent ones in alphabetical order."""
    counted: Counter[str] = Counter()
    for base in bases:
        index = hub.index(base)
        try:
            with index.snapshot():
                counted.update(tag_counts(index))
        except IndexUnavailable:  # one of its problems says so
            continue
    ordered = sorted(counted.items(), key=lambda one: (-one[1], one[0]))
    return tuple(TagUse(tag=str(tag), documents=count) for tag, count in ordered[:TAGS])


def memory_summary(hub: Hub) -> MemorySummary | None:
    """Return the state of the memories of this project and its user; None if there are none."""
    now, known = hub.options.clock(), all_known(hub)
    if not known:
        return None
    return MemorySummary(
        memories=len(known),
        strength=round(fmean(memory.strength(now) for memory in known), 2),
        faded=sum(now - memory.last_use() >= FADING_DAYS * DAY_SECONDS for memory in known),
        superseded=sum(bool(memory.facts.superseded_by) for memory in known),
    )


def _compared(hub: Hub, status: BaseStatus) -> BaseStatus:
    if status.index is None or status.indexing:
        return status
    index = hub.index(status.base)
    try:
        found = compare(status.base, status.index, hub.limits())
        behind = len(behind_of(found, index))
    except (BaseUnavailable, IndexUnavailable):  # one of its problems says so
        return status
    return status.model_copy(update={"behind": behind, "passed_over": dict(found.scan.passed_over)})
