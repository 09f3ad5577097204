"""Consent of projects to speak unasked, and the log of what each session was told."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import Field

from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.memory.catalog import count_refs
from kbhub.types import Base
from kbhub.usage.log import note_read
from kbhub.values import DAY_SECONDS, struct
from kbhub.workspace.files import private_directory
from kbhub.workspace.git import identify, project_text
from kbhub.workspace.project import PROJECT_ID, Grant, required


def let_speak(hub: Hub) -> Grant:
    """Let the documents of the workspace's project reach agents unasked."""
    workspace = hub.discovery().workspace
    root = required(workspace.root)
    return hub.trust.add(root, root, use="documents", project=project_text(workspace))


def may_speak(hub: Hub) -> bool:
    """Return whether the user allowed the documents of the workspace's project to speak; so may no project at all."""
    workspace = hub.discovery().workspace
    grant = hub.trust.grant(workspace.root, workspace.root, "documents") if workspace.root else None
    return workspace.root is None or (grant is not None and grant.project == project_text(workspace))


def speaking_bases(hub: Hub) -> list[Base]:
    """Return the bases whose documents may reach agents unasked: the user's own, others where `may_speak` says so."""
    root, all_speak = hub.discovery().workspace.root, may_speak(hub)
    return [
        base
        for base in hub.discovery().bases
        if all_speak or (base.id != PROJECT_ID and (root is None or base.engine or not base.path.is_relative_to(root)))
    ]


FOLDER = "hooks"

KEPT_DAYS = 30
"""Days that a session's file is kept after its last line; `status` counts these."""

READ_DAYS = 1
"""Days after which a reading is no longer ascribed to a delivery."""

COMPACT = "compact"
"""The event before a client replaces a session's history by a summary."""

FILE_BYTES = 1 << 20
"""Bytes read of a session's file: a hundred times what the budget of a session allows."""


@struct
class SessionLog:
    """What a session was told until now."""

    path: Path
    refs: frozenset[str]
    """The delivered ref, as in its `read` call."""
    later: frozenset[str]  # those after the start
    tokens: int
    kept: tuple[str, ...] = ()
    """What its last compaction is to leave of it, until that was said."""
    proposed: frozenset[str] = frozenset()

    def add(self, event: str, at: float, **what: Any) -> None:
        """Note an event with fields of `_lines`; ignored if it cannot be written."""
        _append(self.path, {"at": round(at), "event": event, **what})

    def add_subagent(self, agent: str, at: float) -> bool:
        """Note that a subagent starts; return False if a hook of the user, the project or a plugin did so before."""
        mine = [agent, os.urandom(8).hex()]  # they run at once, and the first line in the file counts
        self.add("subagent-start", at, agent=mine)
        return not agent or next((line["agent"] for line in _lines(self.path) if agent in line["agent"]), mine) == mine


class HooksState(Model):
    """Hooks in a project."""

    clients: tuple[str, ...] = Field(
        (), description="Titles of the clients that run them, with ` (plugin)` if kbhub's plugin brings them."
    )
    allowed: bool = Field(description="Whether the documents of this project may be delivered.")
    days: int = Field(KEPT_DAYS, description="Number of days the counts cover.")
    sessions: int = Field(0, description="Sessions to which something was delivered.")
    deliveries: int = Field(0, description="Events for which something was delivered.")
    delivered: int = Field(0, description="Memories and documents that were delivered.")
    read: int = Field(0, description="Those that were read afterwards.")
    tokens: int = Field(0, description="Tokens of everything delivered.")
    proposals: int = Field(0, description="Proposed memories in the inbox.")


def session_log(hub: Hub, session: str) -> SessionLog:
    """Return the log of a session; an empty one if its file cannot be read."""
    name = hashlib.sha256(session.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    path = project_folder(hub) / f"{name}.jsonl"
    every = list(_lines(path))
    proposed = frozenset(one for line in every for one in line["proposed"])
    # What was said before a compaction, the session does not know any more.
    begin = max((number for number, line in enumerate(every) if line["event"] == COMPACT), default=0)
    lines = every[begin:]
    said = any(line["event"] in ("session-start", "prompt") and line["tokens"] for line in lines)
    kept = () if said or not lines else tuple(lines[0]["kept"])
    refs = frozenset(ref for line in lines for ref in line["refs"])
    later = frozenset(ref for line in lines if line["event"] != "session-start" for ref in line["refs"])
    return SessionLog(path, refs, later, sum(line["tokens"] for line in lines), kept, proposed)


def mark_read(hub: Hub, refs: Sequence[str], client: str | None = None) -> None:
    """Note that documents were read: as uses of memories, in the query log, and as deliveries that were of use."""
    count_refs(hub, refs)
    note_read(hub, refs, client)
    wanted = {_document(ref) for ref in refs}
    for path in _recent(project_folder(hub), hub.options.clock() - READ_DAYS * DAY_SECONDS):
        lines = list(_lines(path))
        delivered = {_document(ref) for line in lines for ref in line["refs"]}
        known = {ref for line in lines for ref in line["read"]}
        if new := sorted(wanted & delivered - known):
            _append(path, {"at": round(hub.options.clock()), "read": new})


def delivery_counts(hub: Hub) -> Counter[str]:
    """Count what was delivered in this project in the last `KEPT_DAYS` days, by the fields of `HooksState`."""
    totals: Counter[str] = Counter()
    for path in _recent(project_folder(hub), 0.0):
        lines = list(_lines(path))
        totals["sessions"] += any(line["tokens"] for line in lines)
        totals["deliveries"] += sum(line["tokens"] > 0 for line in lines)
        totals["delivered"] += len({_document(ref) for line in lines for ref in line["refs"]})
        totals["read"] += len({ref for line in lines for ref in line["read"]})
        totals["tokens"] += sum(line["tokens"] for line in lines)
    return totals


def sweep(hub: Hub) -> None:
    """Delete the files of sessions that ended long ago."""
    folder = project_folder(hub)
    recent = _recent(folder, hub.options.clock() - KEPT_DAYS * DAY_SECONDS)
    for path in set(_recent(folder, 0.0)).difference(recent):
        with suppress(OSError):
            path.unlink()


def project_folder(hub: Hub) -> Path:
    """Return the folder for data of the workspace's project, which may not exist."""
    found = identify(hub.discovery().workspace)
    return hub.data / FOLDER / (found.digest if found else "none")


def _recent(folder: Path, since: float) -> list[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        return [
            folder / entry.name
            for entry in entries
            if entry.name.endswith(".jsonl") and entry.stat(follow_symlinks=False).st_mtime >= since
        ]
    return []


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a session's file, each with all fields; broken ones are left out."""
    data = b""
    with suppress(OSError), path.open("rb") as file:
        data = file.read(FILE_BYTES)
    for line in data.split(b"\n"):
        with suppress(ValueError, TypeError, AttributeError):
            value = json.loads(line)
            lists = {name: [*map(str, value.get(name, ()))] for name in ("refs", "read", "kept", "proposed", "agent")}
            yield {**lists, "tokens": int(value.get("tokens", 0)), "event": str(value.get("event", ""))}


def _append(path: Path, value: dict[str, Any]) -> None:
    with suppress(OSError):
        private_directory(path.parent)
        with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "wb") as file:  # noqa: PTH123
            file.write(json.dumps(value).encode() + b"\n")


def _document(ref: str) -> str:
    """Return a ref without its lines."""
    path, mark, lines = ref.partition(".md:")
    return f"{path}.md" if mark and lines[:1].isdigit() else ref
