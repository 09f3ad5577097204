"""Show what hooks would have said during a past session: `python benchmarks/replay.py SESSION.jsonl [--root DIR]`.

SESSION.jsonl is a log of Claude Code, Codex or Gemini CLI. The inbox stays as it is.
"""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from kbhub.api import Hub
from kbhub.documents.sessions import Transcript, read_transcript
from kbhub.errors import KbhubError, UsageError
from kbhub.hooks.delivery import SESSION_TOKENS, Delivery, deliver
from kbhub.hooks.events import Event, HookClient, event_of, words_like_files
from kbhub.hooks.inbox import suggested
from kbhub.hooks.sessions import session_log
from kbhub.hub import HubOptions

CLIENTS: dict[str, HookClient] = {"Claude Code": "claude-code", "Codex": "codex", "Gemini CLI": "gemini-cli"}

CALL = "Tool "
"""What a line of a turn with a tool call begins with."""


def transcript_of(hub: Hub, path: Path) -> Transcript:
    """Read a session log; `UsageError` if it is none."""
    try:
        with path.open("rb") as file:
            transcript, _ = read_transcript(path.name, file, hub.config().settings.limits.session_bytes)
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from error
    if not transcript.turns:
        raise UsageError(f"{path} contains no session of Claude Code, Codex or Gemini CLI.")
    return transcript


def replay(hub: Hub, transcript: Transcript) -> Iterator[tuple[int, Event, Delivery | None]]:
    """Yield each event with its line in the log (0 for none) and what a hook would have delivered."""
    session = str(uuid.uuid4())  # told nothing yet, and forgotten at the end
    try:
        for line, event in _events(hub, transcript, session):
            yield line, event, deliver(hub, event)
    finally:
        session_log(hub, session).path.unlink(missing_ok=True)


def _events(hub: Hub, transcript: Transcript, session: str) -> Iterator[tuple[int, Event]]:
    client = CLIENTS.get(transcript.agent, "claude-code")
    directory = hub.discovery().workspace.directory
    cwd = transcript.folder if Path(transcript.folder or "?").is_dir() else str(directory or "")
    yield 0, Event("session-start", client, session, cwd, source="startup")
    for turn in transcript.turns.values():
        for text in turn.texts if turn.role == "user" else ():
            yield turn.line, Event("prompt", client, session, cwd, prompt=text)
        for call in turn.tools:
            if call.startswith(CALL) and (paths := _paths(call.partition(": ")[2])):
                yield turn.line, Event("tool", client, session, cwd, paths=paths)


def _paths(arguments: str) -> tuple[str, ...]:
    """Return the files in a tool's arguments: JSON, or a command or JSON that was cut off."""
    try:
        event = event_of("tool", "claude-code", {"session_id": "replayed", "tool_input": json.loads(arguments)})
    except ValueError:
        return words_like_files(arguments)
    return event.paths if event else ()


def main() -> int:
    """Print the events with a delivery, the proposals, and the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("transcript", type=Path)
    parser.add_argument("--root", type=Path, default=Path.cwd())
    arguments = parser.parse_args()
    hub = Hub(HubOptions(root=arguments.root))
    try:
        transcript = transcript_of(hub, arguments.transcript)
        events = list(replay(hub, transcript))
    except KbhubError as error:
        print(error, file=sys.stderr)
        return 2
    said = [(line, event, delivery) for line, event, delivery in events if delivery]
    for line, event, delivery in said:
        about = " ".join(event.prompt.split())[:120] or ", ".join(event.paths)
        print(f"line {line} · {event.name} · {delivery.tokens} tokens · {about}\n{delivery.text}\n")
    for one in suggested(transcript.turns.values()):
        print(f"would propose to remember: {one.text}")
    tokens = sum(delivery.tokens for _, _, delivery in said)
    print(f"{len(events)} events, {len(events) - len(said)} silent; {tokens:,} of {SESSION_TOKENS:,} tokens")
    return 0


if __name__ == "__main__":
    sys.exit(main())
