"""The clients' hook contracts: input on standard input, output on standard output.

Sources, read in November 2026: code.claude.com/docs/hooks, developers.openai.com/codex/hooks, docs.github.com (hooks
reference of Copilot CLI), geminicli.com/docs/hooks/reference; schemas in Codex 0.169; Claude Code 2.1, Copilot CLI 1.0
and Gemini CLI 0.61. All send the names of Claude Code's fields, Copilot CLI where its events are written in PascalCase.

opencode has plugins; ours (`setup/skill/opencode.js`) sends the same fields. Its log is in a database, by session.

VS Code runs the hooks of Claude Code and Copilot CLI, Cursor those of Claude Code (code.visualstudio.com/docs,
cursor.com/docs/agent/third-party-hooks), with some fields of their own.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal, get_args

from kbhub.documents.shown_text import bare, one_line
from kbhub.values import struct

EventName = Literal["session-start", "subagent-start", "prompt", "tool", "compact", "stop", "session-end"]

EVENTS: tuple[EventName, ...] = get_args(EventName)

HookClient = Literal["claude-code", "codex", "copilot-cli", "gemini-cli", "opencode"]

CLIENTS: tuple[HookClient, ...] = get_args(HookClient)

BY_PLUGIN = " (plugin)"
"""What follows a client's title where kbhub's plugin brings the hooks."""

MOST_PATHS = 8
"""Files looked at in one event: an edit names one, a patch a few, and a shell command lists hundreds."""

TEXT_CHARACTERS = 200_000
"""Characters looked at of what a tool is given: a whole file that is written."""

_PATH_KEYS = frozenset(
    ("file_path", "path", "filePath", "absolute_path", "notebook_path", "filename", "paths", "files", "dir_path")
)
"""Parameters of the clients' own tools that name files."""

_TEXT_KEYS = frozenset(
    ("old_string", "new_string", "oldString", "newString", "old_str", "new_str", "content", "file_text", "new_source",
     "patch", "patchText", "diff", "input")
)  # fmt: skip
"""Parameters with the text of a change. What only reads, or runs, works on all of a file."""

_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
"""A file in a patch of Codex' tool `apply_patch`."""

_WORD = re.compile(r"""[^\s'"`|;&<>()=]+""")
_PLACE = re.compile(r"::.*|(?::\d+)+$")
"""A test or a line in a file, as compilers and test runners name them."""
_LIKE_A_FILE = re.compile(r"[\w@+./\\~-]*\w\.[A-Za-z]\w{0,9}|[\w@+.~-]+(?:[/\\][\w@+.~-]+)+")


@struct
class Event:
    """What happened in a client."""

    name: EventName
    client: HookClient
    session: str
    cwd: str
    """Where the session works; empty if the client does not say."""
    called: str = ""
    """The client's own name of the event, which the answer repeats."""
    prompt: str = ""
    paths: tuple[str, ...] = ()
    text: str = ""
    """The text of a change, in which a symbol may be named; empty if the tool works on all of a file."""
    transcript: str = ""
    source: str = ""
    """Why a session starts: `startup`, `resume`, `clear`, `compact`."""
    cursor: bool = False
    agent: str = ""  # id of the subagent that starts
    agent_type: str = ""


_CLAUDE: dict[EventName, str] = {
    "session-start": "SessionStart",
    "subagent-start": "SubagentStart",
    "prompt": "UserPromptSubmit",
    "tool": "PreToolUse",
    "compact": "PreCompact",
    "session-end": "SessionEnd",
}
CLIENT_EVENTS: dict[HookClient, dict[EventName, str]] = {
    "claude-code": _CLAUDE,
    "codex": _CLAUDE,
    "copilot-cli": {**_CLAUDE, "tool": "PostToolUse", "stop": "Stop"},  # VS Code has no end of a session
    "gemini-cli": {
        "session-start": "SessionStart",
        "prompt": "BeforeAgent",
        "tool": "AfterTool",
        "compact": "PreCompress",
        "session-end": "SessionEnd",
    },
    "opencode": _CLAUDE,
}


def event_of(name: EventName, client: HookClient, data: object) -> Event | None:
    """Return the event in a client's JSON value; None if it breaks the client's contract."""
    if not isinstance(data, dict):
        return None
    session = _text(data.get("session_id") or data.get("sessionId") or data.get("conversation_id"))
    cursor = "cursor_version" in data
    if not session or (cursor and name in ("subagent-start", "prompt", "tool")):
        return None  # Cursor takes text only when a session starts
    if client == "claude-code" and "timestamp" in data:
        client = "copilot-cli"  # which runs the hooks of Claude Code, too, as VS Code does
    folders = data.get("workspace_roots")
    paths, text = _tool(data.get("tool_input")) if name == "tool" else ((), "")
    return Event(
        name=name, client=client, session=session, paths=paths, text=text, cursor=cursor,
        cwd=_text(data.get("cwd") or (folders[0] if isinstance(folders, list) and folders else "")),
        called=_text(data.get("hook_event_name") or data.get("hookEventName")) or CLIENT_EVENTS[client].get(name, ""),
        prompt=_text(data.get("prompt") or data.get("initial_prompt")) if name == "prompt" else "",
        transcript=_text(data.get("transcript_path")), source=_text(data.get("source")),
        agent=_text(data.get("agent_id")), agent_type=_text(data.get("agent_type")),
    )  # fmt: skip


def answer(event: Event, text: str) -> str:
    """Return the client's input: JSON that adds the text to the model's context."""
    if event.cursor:
        return json.dumps({"additional_context": text})
    output: dict[str, Any] = {"hookSpecificOutput": {"hookEventName": event.called, "additionalContext": text}}
    if event.client == "copilot-cli":
        output["additionalContext"] = text
    return json.dumps(output)


def words_like_files(text: str) -> tuple[str, ...]:
    """Return the words of a shell command or prompt that look like files, without a leading `@`."""
    words = (_PLACE.sub("", word.removeprefix("@").rstrip(".,:?!")) for word in _WORD.findall(text[:TEXT_CHARACTERS]))
    return tuple(dict.fromkeys(word for word in words if _LIKE_A_FILE.fullmatch(word)))[:MOST_PATHS]


def _tool(given: object) -> tuple[tuple[str, ...], str]:
    """Return the files that a tool is to work on, and its whole input."""
    texts: list[str] = []
    paths: list[str] = []
    pending: list[tuple[str, object]] = [("", given)]
    while pending:
        key, value = pending.pop()
        if isinstance(value, dict):
            pending += reversed(value.items())
        elif isinstance(value, list) and key in ("command", "cmd"):
            pending.append((key, " ".join(map(str, value))))
        elif isinstance(value, list):
            pending += [(key, item) for item in reversed(value)]
        elif isinstance(value, str):
            if key in _PATH_KEYS:
                paths.append(value.strip())
            elif "*** Begin Patch" in value:
                paths += _PATCHED.findall(value)
                texts.append(value)
            elif key in ("command", "cmd", ""):
                paths += words_like_files(value)
            elif key in _TEXT_KEYS:
                texts.append(value)
    return tuple(dict.fromkeys(filter(None, paths)))[:MOST_PATHS], "\n".join(texts)[:TEXT_CHARACTERS]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


_TAG = re.compile(r"<(?=[/!?A-Za-z|])")
"""What could begin a tag: clients put what hooks say between tags of their own (`<system-reminder>`)."""

_MARKERS = re.compile(r"(?im)^[\s>*_#-]*(system|assistant|user|human|developer|tool)[\s*_]*:|\[/?INST\]|<\|")
"""Marks that could pass for a turn of the conversation."""

BYTES_PER_TOKEN = 3.2
"""UTF-8 bytes of a token, fewer than any of the clients' models take for Markdown in English (3.6 to 4.4)."""


def as_data(text: str, limit: int) -> str:
    """Return a text as a one-line quote of at most `limit` UTF-8 bytes, not counting the quote mark."""
    return f"> {inert(text, limit)}"


def named(text: str, limit: int) -> str:
    """Return a title or subject in double quotes that it cannot close; `limit` in UTF-8 bytes, without the quotes."""
    return f'"{inert(bare(text, limit), limit)}"'


def inert(text: str, limit: int) -> str:
    """Return a text on one line in which nothing is a tag or a turn of a conversation."""
    plain = _TAG.sub("‹", one_line(text, limit))
    return _MARKERS.sub(lambda match: match[0].replace(":", "").replace("[", "(").replace("<", "‹"), plain)


def tokens(text: str) -> int:
    """Return how many tokens a text takes at most."""
    return round(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN + 0.5)
