"""Proposals that wait for a person: no search finds them, no agent reads them, until somebody accepts them."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import filelock
from pydantic import Field, ValidationError

from kbhub.documents.sources.sessions import read_transcript
from kbhub.errors import KbhubError, UsageError
from kbhub.frozen import Model
from kbhub.hooks.deliveries import project_folder
from kbhub.hooks.proposals import Suggested, Why, suggested
from kbhub.memory.catalog import all_known
from kbhub.memory.remember import remember
from kbhub.memory.results import Remembered
from kbhub.memory.similarity import wording
from kbhub.memory.store import read
from kbhub.search.memory_boost import timestamp
from kbhub.workspace.files import private_directory, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kbhub.hooks.events import Event
    from kbhub.hub import Hub

NAME = "inbox.json"
"""File of a project's proposals."""

MOST_WAITING = 50
"""Proposals kept per project; the oldest go when there are more, as nobody looks through them."""

LOCK_SECONDS = 5.0

ID_DIGITS = 6

_AGENTS = {"claude-code": "Claude Code", "codex": "Codex", "copilot-cli": "Copilot CLI", "gemini-cli": "Gemini CLI"}


class Proposal(Model):
    """Something that may be worth remembering."""

    id: str = Field(description="Its id.")
    text: str = Field(description="What to remember, as the user wrote it.")
    why: Why = Field(description="`asked`, `decided` or `corrected`, by the words in it.")
    client: str = Field("", description="The client of the session.")
    session: str = Field("", description="The client's id of the session.")
    origin: str = Field("", description="Its source: the session's log and line.")
    at: str = Field("", description="When it was proposed: ISO 8601.")


class Inbox(Model):
    """The proposals of a project."""

    proposals: tuple[Proposal, ...] = Field((), description="Oldest first.")


class Settled(Model):
    """What `kbhub memories inbox --accept` or `--dismiss` did."""

    accepted: tuple[Remembered, ...] = Field((), description="Accepted proposals, now memories.")
    dismissed: tuple[str, ...] = Field((), description="Ids of the dismissed proposals.")
    left: int = Field(0, description="Number of proposals left.")


def waiting(hub: Hub) -> tuple[Proposal, ...]:
    """Return the proposals of the project, oldest first; none if their file cannot be read."""
    try:
        return Inbox.model_validate_json(_path(hub).read_bytes()).proposals
    except (OSError, ValidationError):
        return ()


def propose(hub: Hub, event: Event) -> tuple[Proposal, ...]:
    """Read the log of a session that ended, put its suggestions into the inbox, and return the new proposals."""
    path = Path(event.transcript)
    if not event.transcript or not path.is_file() or hub.config().settings.read_only:
        return ()
    try:
        with path.open("rb") as file:
            turns = read_transcript(path.name, file, hub.config().settings.limits.session_bytes).turns.values()
    except OSError:
        return ()
    return put(hub, event, suggested(turns))


def put(hub: Hub, event: Event, found: Sequence[Suggested]) -> tuple[Proposal, ...]:
    """Put suggestions into the inbox, except those that wait there or are already remembered."""
    if not found:
        return ()
    remembered = set()
    for memory in all_known(hub):
        if stored := read(memory.shelf, memory.path):
            remembered.add(wording(stored.content.body))
    with _changing(hub) as proposals:
        known = remembered | {wording(one.text) for one in proposals}
        new = [_proposal(hub, event, one) for one in found if wording(one.text) not in known]
        proposals += new
        del proposals[:-MOST_WAITING]
    return tuple(new)


def settle(hub: Hub, names: Sequence[str], *, accept: bool) -> Settled:
    """Remember or drop the proposals with these ids, or `all`.

    An unknown id raises `UsageError`, and nothing is changed. A proposal that cannot be remembered stays in the inbox.
    """
    if not names:
        raise UsageError("No proposal given. Name proposals by id, or `all`; `kbhub memories inbox` lists them.")
    accepted: list[Remembered] = []
    dismissed: list[str] = []
    with _changing(hub) as proposals:
        ids = [one.id for one in proposals]
        if unknown := [name for name in names if name != "all" and name not in ids]:
            held = f"it contains {', '.join(ids)}" if ids else "it is empty"
            raise UsageError(f"No proposal {unknown[0]!r} in the inbox; {held}.")
        chosen = [one for one in proposals if "all" in names or one.id in names]
        for one in chosen:
            if accept:
                accepted.append(
                    remember(hub, one.text, client=None, origin=one.origin or None, session=one.session or None)
                )
            else:
                dismissed.append(one.id)
            proposals.remove(one)
        left = len(proposals)
    return Settled(accepted=tuple(accepted), dismissed=tuple(dismissed), left=left)


def _proposal(hub: Hub, event: Event, one: Suggested) -> Proposal:
    name = hashlib.sha256(f"{event.session}\0{one.text}".encode("utf-8", "replace")).hexdigest()[:ID_DIGITS]
    line = f", line {one.line}" if one.line else ""
    return Proposal(
        id=name,
        text=one.text,
        why=one.why,
        client=event.client,
        session=event.session,
        origin=f"what the user {_SAID[one.why]} in a session of {_AGENTS[event.client]}{line}",
        at=timestamp(hub.options.clock()),
    )


_SAID: dict[Why, str] = {"asked": "asked for", "decided": "decided", "corrected": "corrected"}


def _path(hub: Hub) -> Path:
    return project_folder(hub) / NAME


@contextmanager
def _changing(hub: Hub) -> Iterator[list[Proposal]]:
    """Lock the inbox, and write the changed list, also if only a part of a change succeeded."""
    path = _path(hub)
    try:
        private_directory(path.parent)
        with filelock.FileLock(f"{path}.lock", timeout=LOCK_SECONDS, mode=0o600):
            proposals = list(waiting(hub))
            try:
                yield proposals
            finally:
                text = Inbox(proposals=tuple(proposals)).model_dump_json(indent=2)
                write_atomically(path, f"{text}\n")
    except filelock.Timeout as error:
        raise KbhubError(f"Another process has held {path}.lock for {LOCK_SECONDS:g} s. Try again.") from error
    except OSError as error:
        raise KbhubError(f"Cannot write {path}: {error.strerror or error}.") from error
