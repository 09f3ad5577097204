"""What is left of a session whose history its client replaces by a summary: decisions, refs, commands that worked."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kbhub.documents.secrets import find_secrets
from kbhub.documents.sessions import ToolCall
from kbhub.hooks.events import Event, as_data
from kbhub.hooks.inbox import log_of, put, suggested
from kbhub.hooks.sessions import COMPACT, session_log
from kbhub.hub import Hub

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
    if refs := _refs(calls, session.refs):
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


def _refs(calls: Iterable[ToolCall], told: frozenset[str]) -> list[str]:
    """Return what the session read with kbhub, the latest first, and what it was told."""
    read = [ref.strip() for call in calls if "kbhub" in call.name and call.worked for ref in call.refs.split(",")]
    known = dict.fromkeys([*reversed(read), *sorted(told)])
    return [ref for ref in known if _REF.fullmatch(ref)][:MOST_REFS]
