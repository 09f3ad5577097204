"""What a session's log leaves: memories that it suggests, which wait in the inbox for a person.

And what the session is told again after its client has compacted it: decisions, refs, commands that worked.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import apsw
from pydantic import Field, ValidationError

from kbhub.documents.secrets import find_secrets
from kbhub.documents.sessions import ToolCall, Transcript, Turn, read_transcript
from kbhub.errors import KbhubError, UsageError
from kbhub.frozen import Model
from kbhub.hooks.events import Event, as_data, inert
from kbhub.hooks.sessions import COMPACT, project_folder, session_log
from kbhub.hub import Hub
from kbhub.index.foreign_sessions import events, opencode_database, opened, stored_sessions
from kbhub.memory.catalog import all_known
from kbhub.memory.changes import remember
from kbhub.memory.files import read, wording
from kbhub.memory.results import Remembered
from kbhub.search.document_signals import timestamp
from kbhub.values import struct
from kbhub.workspace.config_edits import alone
from kbhub.workspace.files import private_directory, write_atomically

Why = Literal["asked", "decided", "corrected"]

MOST_PROPOSALS = 3
"""Proposals per session: issue "Knowledge that arrives by itself"."""

SHORTEST, LONGEST = 24, 400
"""Characters of a sentence: shorter ones need their context, longer ones are pastes."""

LEAST_CONTENT = 3
"""Least number of words with a meaning in it."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9`\"'])|\n+")
_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(r"^[ \t]*(?:[-*] )?(?:>|\||[$#%] ).*$", re.MULTILINE)
"""Lines that the user did not write: quotes, what hooks said among them, tables, and commands."""

_MARKS: tuple[tuple[Why, int, str], ...] = (
    ("asked", 4, r"\b(?:remember|keep in mind|make a note|note(?: to self)?:|for (?:the )?future)\b"),
    ("asked", 4, r"\b(?:from now on|going forward|in (?:this|our) (?:repo|repository|project|code ?base))\b"),
    ("decided", 3, r"\b(?:we|i) (?:have )?(?:decided|agreed|chose|settled|went with)\b|\bdecision:"),
    ("decided", 3, r"\blet'?s (?:go with|use|stick (?:with|to)|keep)\b|\bwe(?:'ll| will) (?:use|go with|keep)\b"),
    ("decided", 2, r"\b(?:rule|convention|policy|standard) (?:here )?is\b|\bwe (?:only|prefer|require)\b"),
    ("corrected", 3, r"\b(?:always|never)\b(?! mind)"),
    ("corrected", 3, r"^(?:no|nope|wrong|actually|that'?s (?:wrong|not right)|not like that)\b[,.:! ]"),
    ("corrected", 2, r"^(?:please )?(?:do not|don'?t|stop|avoid)\b|\binstead(?: of)?\b|\bnot\b.{3,60}\bbut\b"),
)
"""Why a sentence is worth remembering, how much, and the words that show it."""

_LEADING = re.compile(
    r"^(?:no|nope|wrong|actually|ok(?:ay)?|well|hm+|please|remember(?: that)?)[,.:!]?\s+", re.IGNORECASE
)
_POINTING = """
about again also always another because before doing done from have here instead into just like make more never only
please remember same should something still stop sure than thanks that their them then there these they thing things
this those very want wants what when where which will with would wrong your
"""
"""Words of four letters and more that mean nothing without their context."""
_EMPTY = frozenset(_POINTING.split())
_WORD = re.compile(r"[\w./:@#-]{4,}")
_IDENTIFIER = re.compile(r"`[^`]+`|\b\w+[._/:-]\w+|\b[a-z]+[A-Z]\w+|\b[A-Z]{2,}\b")


@struct
class Suggested:
    """A sentence that may be worth remembering."""

    text: str
    why: Why
    line: int
    """Line of the session's log, from 1; 0 if unknown."""
    weight: int


def suggested(turns: Iterable[Turn]) -> list[Suggested]:
    """Return the suggestions of a session in the order of its turns, at most `MOST_PROPOSALS`."""
    found: dict[str, Suggested] = {}
    answered = False
    for turn in turns:
        if turn.role == "user":
            for text in turn.texts:
                for one in _of(text, turn.line, answered=answered):
                    key = " ".join(one.text.casefold().split())
                    found[key] = max(one, found.get(key, one), key=lambda one: one.weight)
        answered = turn.role == "assistant"
    best = sorted(found.values(), key=lambda one: (-one.weight, one.line))[:MOST_PROPOSALS]
    return sorted(best, key=lambda one: one.line)


def _of(text: str, line: int, *, answered: bool) -> Iterator[Suggested]:
    for sentence in _SENTENCE.split(_QUOTED.sub("", _CODE_BLOCK.sub("\n", text))):
        said = sentence.strip(" \t-*•")
        if not SHORTEST <= len(said) <= LONGEST or said.endswith("?") or said[0] in "</{[":
            continue
        marks = [(weight, why) for why, weight, pattern in _MARKS if re.search(pattern, said, re.IGNORECASE)]
        # A correction answers something; at the beginning of a session, the same words begin a task.
        marks = [(weight, why) for weight, why in marks if answered or why != "corrected" or weight > 2]
        plain = _LEADING.sub("", said)
        content = {word.casefold() for word in _WORD.findall(plain)} - _EMPTY
        if not marks or len(content) < LEAST_CONTENT or find_secrets(said):
            continue
        weight = sum(weight for weight, _ in marks) + bool(_IDENTIFIER.search(plain))
        yield Suggested(inert(plain[0].upper() + plain[1:], LONGEST), max(marks)[1], line, weight)


NAME = "inbox.json"

MOST_WAITING = 50
"""Proposals kept per project; the oldest go when there are more, since long lists are not read."""

MOST_DISMISSED = 500

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


class _Stored(Inbox):
    """The file of a project's inbox."""

    dismissed: tuple[str, ...] = ()
    """Hashes of the wordings of dismissed proposals, which are not proposed again; the oldest go first."""


class Settled(Model):
    """What `kbhub memories inbox --accept` or `--dismiss` did."""

    accepted: tuple[Remembered, ...] = Field((), description="Accepted proposals, now memories.")
    dismissed: tuple[str, ...] = Field((), description="Ids of the dismissed proposals.")
    left: int = Field(0, description="Number of proposals left.")


def waiting(hub: Hub) -> tuple[Proposal, ...]:
    """Return the proposals of the project, oldest first; none if their file cannot be read."""
    return _stored(hub).proposals


def _stored(hub: Hub) -> _Stored:
    with suppress(OSError, ValidationError):
        return _Stored.model_validate_json((project_folder(hub) / NAME).read_bytes())
    return _Stored()


TAIL_BYTES = 8 << 20
"""Bytes read at the end of a log while its session goes on, in .2 s; 51 MB took 1.4 s."""


def log_of(hub: Hub, event: Event) -> Transcript:
    """Return the log of an event's session, without turns if there is none to read."""
    env, home, transcript = hub.options.env, hub.options.home, Transcript()
    path = Path(event.transcript) if event.transcript else None
    if event.client == "copilot-cli" and path is None and re.fullmatch(r"[\w-]+", event.session):
        # It does not say where the log is, but names its folder by the session.
        path = Path(env.get("COPILOT_HOME") or home / ".copilot") / "session-state" / event.session / "events.jsonl"
    with suppress(OSError, ValueError):  # a path that no system has
        if hub.config().settings.read_only:
            return transcript
        if event.client == "opencode":  # keeps all sessions in one database; nothing of a subagent's is read
            with suppress(apsw.Error), opened(opencode_database(env, home)) as connection:
                for one in stored_sessions(connection):
                    if one.id == event.session and not one.inner:
                        for number, record in enumerate(events(connection, one), 1):
                            transcript.take(record, number)
        elif path and path.is_file():
            with path.open("rb") as file:
                tail = None if event.name == "session-end" else TAIL_BYTES  # the client goes on in a moment
                return read_transcript(path.name, file, hub.config().settings.limits.session_bytes, tail)[0]
    return transcript


def propose(hub: Hub, event: Event) -> tuple[Proposal, ...]:
    """Read the log of a session, put its suggestions into the inbox, and return the new proposals."""
    return put(hub, event, suggested(log_of(hub, event).turns.values()))


def put(hub: Hub, event: Event, found: Sequence[Suggested]) -> tuple[Proposal, ...]:
    """Put suggestions into the inbox that do not wait there, and were not dismissed, remembered or just proposed."""
    if not found:
        return ()
    remembered = set()
    for memory in all_known(hub):
        if stored := read(memory.shelf, memory.path):
            remembered.add(stored.wording)
    session = session_log(hub, event.session)
    with _changing(hub) as (proposals, dropped):
        known = remembered | {wording(one.text) for one in proposals}
        made = []
        for one in (one for one in found if wording(one.text) not in known and _digest(one) not in dropped):
            said, agent = "asked for" if one.why == "asked" else one.why, _AGENTS.get(event.client, event.client)
            line = f", line {one.line}" if one.line else ""
            digest = hashlib.sha256(f"{event.session}\0{one.text}".encode("utf-8", "replace")).hexdigest()
            about = {"client": event.client, "session": event.session, "at": timestamp(hub.options.clock())}
            about["origin"] = f"what the user {said} in a session of {agent}{line}"
            made.append(Proposal(id=digest[:ID_DIGITS], text=one.text, why=one.why, **about))
        new = [one for one in made if one.id not in session.proposed][: max(0, MOST_PROPOSALS - len(session.proposed))]
        proposals += new
        del proposals[:-MOST_WAITING]
    if new:
        session.add("proposed", hub.options.clock(), proposed=[one.id for one in new])
    return tuple(new)


def settle(hub: Hub, names: Sequence[str], *, accept: bool) -> Settled:
    """Remember or drop the proposals with these ids, or `all`."""
    if not names:
        raise UsageError("No proposal given. Name proposals by id, or `all`; `kbhub memories inbox` lists them.")
    accepted: list[Remembered] = []
    dismissed: list[str] = []
    with _changing(hub) as (proposals, dropped):
        ids = [one.id for one in proposals]
        if unknown := [name for name in names if name != "all" and name not in ids]:
            held = f"it contains {', '.join(ids)}" if ids else "it is empty"
            raise UsageError(f"No proposal {unknown[0]!r} in the inbox; {held}.")
        for one in [one for one in proposals if "all" in names or one.id in names]:
            if accept:
                accepted.append(
                    remember(hub, one.text, client=None, origin=one.origin or None, session=one.session or None)
                )
            else:
                dismissed.append(one.id)
                dropped.append(_digest(one))
            proposals.remove(one)
        left = len(proposals)
    return Settled(accepted=tuple(accepted), dismissed=tuple(dismissed), left=left)


def _digest(one: Suggested | Proposal) -> str:
    return hashlib.sha256(wording(one.text).encode("utf-8", "replace")).hexdigest()


@contextmanager
def _changing(hub: Hub) -> Iterator[tuple[list[Proposal], list[str]]]:
    """Lock the inbox: its proposals, and hashes of dismissed ones; write both, also if only a part of it succeeded."""
    path = project_folder(hub) / NAME
    try:
        private_directory(path.parent)
        with alone(hub.data):
            stored = _stored(hub)
            proposals, dismissed = [*stored.proposals], [*stored.dismissed]
            try:
                yield proposals, dismissed
            finally:
                after = _Stored(proposals=tuple(proposals), dismissed=tuple(dismissed[-MOST_DISMISSED:]))
                write_atomically(path, f"{after.model_dump_json(indent=2)}\n")
    except OSError as error:
        raise KbhubError(f"Cannot write {path}: {error.strerror or error}.") from error


MOST_COMMANDS, MOST_REFS = 3, 5
"""Commands and refs that are kept, those of last."""

DECISION_BYTES, COMMAND_BYTES = 200, 120
"""UTF-8 bytes of what the user said, which is cut, and of a command: half of one is no use."""

_REF = re.compile(r"[\w@./:#+-]+")
"""A ref in which nothing can be said: without blanks."""

_ASIDE = re.compile(r"cd [^&;|\n]+ && |(?:ba|z)?sh -l?c ")
"""What may come before a command, and is not worth repeating."""

_LOOKING = re.compile(
    r"(?:cat|cd|cp|date|echo|find|grep|head|ls|mkdir|mv|printf|pwd|rg|rm|sed|sleep|tail|tree|wc|which"
    r"|git (?:add|branch|checkout|diff|log|show|status))(?:\s|$)"
)
"""Commands that anybody would find again."""

_PRIVATE = re.compile(r"(?i)pass|secret|token|key|credential|auth|\s-u\s*\S+:|\s-p[^\s=]")
"""What a command with a credential is likely to say, which `find_secrets` need not know."""


def keep(hub: Hub, event: Event) -> None:
    """Note what to give back after a compaction, and put what the user decided into the inbox."""
    log = log_of(hub, event)
    found = suggested(log.turns.values())
    session, calls = session_log(hub, event.session), tuple(log.calls.values())
    lines = [f"- The user {one.why}: {as_data(one.text, DECISION_BYTES)}" for one in found]
    # What the session read with kbhub, the latest first, and what it was told.
    looked_up = [ref.strip() for call in calls if "kbhub" in call.name and call.worked for ref in call.refs.split(",")]
    known = dict.fromkeys([*reversed(looked_up), *sorted(session.refs)])
    if refs := [ref for ref in known if _REF.fullmatch(ref)][:MOST_REFS]:
        lines.append(f'- Notes of before: read(refs="{",".join(refs)}")')
    lines += [f"- This command ran without an error: {as_data(one, COMMAND_BYTES)}" for one in _worked(calls)]
    session.add(COMPACT, hub.options.clock(), kept=lines)
    put(hub, event, found)


def _worked(calls: Iterable[ToolCall]) -> list[str]:
    """Return the commands that did not fail when they last ran: those that ran most often, then the latest."""
    runs: dict[str, int] = {}
    ended: dict[str, bool] = {}
    for call in calls:
        text = call.command.strip()
        while before := _ASIDE.match(text):
            text = text[before.end() :].strip()
        if text and "\n" not in text and len(text.encode()) <= COMMAND_BYTES and not _LOOKING.match(text):
            runs[text], ended[text] = runs.pop(text, 0) + 1, call.worked
    latest = [text for text in reversed(runs) if ended[text] and not _PRIVATE.search(text) and not find_secrets(text)]
    return sorted(latest, key=lambda text: -runs[text])[:MOST_COMMANDS]
