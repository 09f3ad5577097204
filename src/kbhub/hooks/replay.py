"""What hooks would have said during a past session, event by event."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from kbhub.documents.sources.sessions import read_transcript
from kbhub.errors import UsageError
from kbhub.frozen import Model
from kbhub.hooks.consent import may_speak
from kbhub.hooks.deliveries import SessionLog
from kbhub.hooks.delivery import considered
from kbhub.hooks.events import Event, EventName, HookClient, named_files
from kbhub.hooks.proposals import suggested

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.documents.sources.sessions import Transcript
    from kbhub.hub import Hub

_CLIENTS: dict[str, HookClient] = {"Claude Code": "claude-code", "Codex": "codex", "Gemini CLI": "gemini-cli"}

_CALL = "Tool "
"""What a line of a turn with a tool call begins with."""

SHOWN = 120
"""Characters shown of what an event was about."""


class Said(Model):
    """One event of a session, and what a hook would have said."""

    line: int = Field(description="Line of the log, from 1; 0 for none.")
    event: EventName = Field(description="`session-start`, `prompt` or `tool`.")
    about: str = Field("", description="The beginning of the prompt, or the files.")
    text: str = Field("", description="What would have been delivered; empty if nothing.")
    tokens: int = Field(0, description="Tokens of it.")


class Replayed(Model):
    """A session, replayed. Nothing was noted, and the inbox is as it was."""

    transcript: str = Field(description="The log.")
    agent: str = Field("", description="The client.")
    events: tuple[Said, ...] = Field((), description="All events, in order.")
    tokens: int = Field(0, description="Tokens of everything that would have been delivered.")
    proposals: tuple[str, ...] = Field((), description="Memories that would have been proposed.")
    notes: tuple[str, ...] = Field((), description="Notes, as sentences.")


def replay(hub: Hub, path: Path) -> Replayed:
    """Replay the log of a Claude Code, Codex or Gemini CLI session against current knowledge."""
    try:
        with path.open("rb") as file:
            transcript = read_transcript(path.name, file, hub.config().settings.limits.session_bytes)
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from error
    if not transcript.turns:
        raise UsageError(f"{path} contains no session of Claude Code, Codex or Gemini CLI.")
    said: list[Said] = []
    session = SessionLog(Path(), frozenset(), 0)
    for line, about, event in _events(hub, transcript):
        delivery = considered(hub, event, session)
        if delivery:
            session = SessionLog(Path(), session.refs | set(delivery.refs), session.tokens + delivery.tokens)
        said.append(
            Said(
                line=line,
                event=event.name,
                about=about[:SHOWN],
                text=delivery.text if delivery else "",
                tokens=delivery.tokens if delivery else 0,
            )
        )
    note = "Here hooks deliver only memories that you wrote, until you allow the rest with `kbhub trust --documents`."
    return Replayed(
        transcript=str(path),
        agent=transcript.agent,
        events=tuple(said),
        tokens=session.tokens,
        proposals=tuple(one.text for one in suggested(transcript.turns.values())),
        notes=() if may_speak(hub) else (note,),
    )


def _events(hub: Hub, transcript: Transcript) -> Iterator[tuple[int, str, Event]]:
    client = _CLIENTS.get(transcript.agent, "claude-code")
    directory = hub.discovery().workspace.directory
    cwd = transcript.folder if Path(transcript.folder or "?").is_dir() else str(directory or "")
    session = transcript.session or "replayed"
    yield 0, "", Event("session-start", client, session, cwd, source="startup")
    for turn in transcript.turns.values():
        for text in turn.texts if turn.role == "user" else ():
            yield turn.line, " ".join(text.split()), Event("prompt", client, session, cwd, prompt=text)
        for call in turn.tools:
            name, _, arguments = call.removeprefix(_CALL).partition(": ")
            if call.startswith(_CALL) and (paths := named_files(arguments)):
                yield turn.line, f"{name}: {', '.join(paths)}", Event("tool", client, session, cwd, paths=paths)
