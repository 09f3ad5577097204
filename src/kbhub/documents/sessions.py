"""Parse session logs of coding agents into a `Document` with a part per turn.

Claude Code, Codex, Copilot CLI, Cursor and Gemini CLI write them. Credentials are left out.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from kbhub.documents.converted import Part, document_of_parts, storable
from kbhub.documents.secrets import find_secrets, masked
from kbhub.types import Document
from kbhub.values import moment_of, struct
from kbhub.workspace.files import read_regular
from kbhub.workspace.formats import LOG_SUFFIX, is_session
from kbhub.workspace.settings import DEFAULT_FILE_BYTES

TOOL_CHARACTERS = 400
"""Characters kept of a tool call or its result: enough to see what was done."""

LONGEST_COMMAND = 1_000
"""Characters kept of a command, and of the refs of a call."""

TITLE_RECORDS = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
"""Type of a Claude Code record with the session's title → its field, in ascending order of precedence."""

_INJECTED = re.compile(
    r"<(system-reminder|environment_context|user_instructions|session_context|local-command-caveat|hook_context)>"
    r".*?</\1>",
    re.DOTALL,
)
"""Text that agents inject into a user's message."""

_ASKED = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)
"""What the user wrote, in a message that Cursor adds to."""

_AGENTS_FILE = "# AGENTS.md instructions"
"""Prefix of the message in which Codex passes a project's instructions."""

_BLANKS = re.compile(r"\s+")

LINE_BYTES = 16 << 20
"""Bytes of the longest record that is read; longer ones (a picture, a build log) are skipped to bound memory."""

TITLE_CHARACTERS = 100

_SENTENCE = re.compile(r"(?<=[.!?])\s|[。！？]|\n")


@struct(frozen=False)
class Turn:
    """A message of one side, with the tools that it used."""

    role: str
    """`user`, `assistant` or `summary`."""
    line: int
    """Line of the log where it starts, from 1; 0 if the log has no lines."""
    when: str = ""
    """Time as written in the log, ISO 8601."""
    model: str = ""
    key: str = ""
    """Id of the message in the log; empty if it has none."""
    texts: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    """Tool calls and results in order, one line each."""


@struct(frozen=False)
class ToolCall:
    """A call of a tool, as far as it may be worth keeping."""

    name: str
    command: str = ""
    refs: str = ""
    """What it reads, if it is a call of `read`."""
    worked: bool = False
    """Whether it ended, and neither the client nor an exit status says that it failed."""


@struct(frozen=False)
class Transcript:
    """A session, built by passing its records to `take` in order."""

    turns: dict[str, Turn] = field(default_factory=dict)
    """By key, or by number for turns without one."""
    calls: dict[str, ToolCall] = field(default_factory=dict)
    """By the id of the call."""
    agent: str = ""
    session: str = ""
    folder: str = ""
    title: str = ""
    known: int = 0
    """Number of records in a known format, with or without text."""
    _model: str = ""
    _title_rank: int = -1
    """Position in `TITLE_RECORDS` of the record that set the title."""

    def take(self, record: object, line: int) -> None:
        """Add the next record, a JSON value from a line of the log; unknown ones are ignored."""
        if not isinstance(record, dict):
            return
        kind, when = record.get("type"), _text(record.get("timestamp"))
        self.known += isinstance(kind, str) or "role" in record or "projectHash" in record
        if isinstance(record.get("payload"), dict):
            self._codex(kind, record["payload"], when, line)
        elif isinstance(record.get("data"), dict):
            self._copilot(kind, record["data"], when, line)
        elif kind in ("user", "assistant", "system", *TITLE_RECORDS) and "content" not in record:
            self._claude(kind, record, when, line)
        elif {"$set", "$rewindTo"} & record.keys() or kind in ("user", "gemini") or "projectHash" in record:
            self._gemini(record, line)
        elif kind in ("message", "function_call", "function_call_output"):
            self._codex("response_item", record, when, line)
        elif record.get("role") in ("user", "assistant") and isinstance(record.get("message"), dict):
            self._cursor(record["role"], record["message"].get("content"), line)
        elif record.get("role") in ("user", "assistant", "model"):
            role = "user" if record["role"] == "user" else "assistant"
            text = _texts(record.get("content", record.get("parts")))
            self._say(Turn(role, line, when, _text(record.get("model")), texts=text))

    def _claude(self, kind: str, record: dict[str, Any], when: str, line: int) -> None:
        self.agent = "Claude Code"
        self.session = self.session or _text(record.get("sessionId"))
        self.folder = self.folder or _text(record.get("cwd"))
        if kind in TITLE_RECORDS:
            rank = list(TITLE_RECORDS).index(kind)
            if (title := _text(record.get(TITLE_RECORDS[kind]))) and rank >= self._title_rank:
                self.title, self._title_rank = title, rank
            return
        message = record.get("message")
        if kind == "system" or record.get("isMeta") or not isinstance(message, dict):
            return
        content = message.get("content")
        role = "summary" if record.get("isCompactSummary") else "user" if kind == "user" else "assistant"
        turn = Turn(role, line, when, _text(message.get("model")), _text(message.get("id")))
        turn.texts = _texts(content)
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_use":
                turn.tools.append(self._called(block.get("id"), block.get("name"), block.get("input")))
            elif isinstance(block, dict) and block.get("type") == "tool_result":
                failed = block.get("is_error") is True
                turn.tools += self._ended(block.get("tool_use_id"), block.get("content"), failed=failed)
        if turn.tools and not turn.texts:
            turn.role = "assistant"  # tool results are logged as user messages
        self._say(turn)

    def _codex(self, kind: object, payload: dict[str, Any], when: str, line: int) -> None:
        self.agent = self.agent or "Codex"
        if kind == "session_meta":
            self.session = self.session or _text(payload.get("id"))
            self.folder = self.folder or _text(payload.get("cwd"))
        elif kind == "turn_context":
            self._model = _text(payload.get("model")) or self._model
        elif kind == "compacted":
            self._say(Turn("summary", line, when, texts=_texts(payload.get("message"))))
        elif kind == "response_item":
            item = payload.get("type")
            if item == "message" and payload.get("role") in ("user", "assistant"):
                role = str(payload["role"])
                model = self._model if role == "assistant" else ""
                self._say(Turn(role, line, when, model, texts=_texts(payload.get("content"))))
            elif item in ("function_call", "custom_tool_call", "local_shell_call", "web_search_call"):
                arguments = payload.get("arguments") or payload.get("input") or payload.get("action")
                call = self._called(payload.get("call_id"), payload.get("name") or item, arguments)
                self._say(Turn("assistant", line, when, self._model, tools=[call]))
            elif item in ("function_call_output", "custom_tool_call_output"):
                result = self._ended(payload.get("call_id"), payload.get("output"))
                self._say(Turn("assistant", line, when, self._model, tools=result))

    def _copilot(self, kind: object, data: dict[str, Any], when: str, line: int) -> None:
        """Take an event of Copilot CLI, by the schema that it installs (session-events.schema.json)."""
        self.agent = self.agent or "Copilot CLI"
        if kind == "session.start":
            self.session = self.session or _text(data.get("sessionId"))
            self.folder = self.folder or _text(_object(data.get("context")).get("cwd"))
            if data.get("producer") == "opencode":  # a copy, see `index.foreign_sessions`
                self.agent, self.title = "opencode", _text(data.get("title"))
        elif kind == "user.message" and not _text(data.get("source")).startswith(("skill-", "agent-")):
            self._say(Turn("user", line, when, texts=_texts(data.get("content"))))
        elif kind == "session.compaction_complete":
            self._say(Turn("summary", line, when, texts=_texts(data.get("summaryContent"))))
        elif kind == "assistant.message":
            self._model = _text(data.get("model")) or self._model
            self._say(Turn("assistant", line, when, self._model, texts=_texts(data.get("content"))))
        elif kind == "tool.execution_start":
            call = self._called(data.get("toolCallId"), data.get("toolName"), data.get("arguments"))
            self._say(Turn("assistant", line, when, self._model, tools=[call]))
        elif kind == "tool.execution_complete":
            status = _object(data.get("shellExecution")).get("exitCode")
            said = _object(data.get("result")).get("content") or _object(data.get("error")).get("message")
            result, failed = {"content": said, "metadata": {"exit_code": status}}, data.get("success") is False
            lines = self._ended(data.get("toolCallId"), result, failed=failed)
            self._say(Turn("assistant", line, when, self._model, tools=lines))

    def _cursor(self, role: str, content: object, line: int) -> None:
        """Take a line of Cursor's `agent-transcripts`, which have neither times nor results of tools."""
        self.agent = "Cursor"
        blocks = [block for block in (content if isinstance(content, list) else ()) if isinstance(block, dict)]
        calls = [_call(one.get("name"), one.get("input")) for one in blocks if one.get("type") == "tool_use"]
        texts = [asked[1] if (asked := _ASKED.search(text)) else text for text in _texts(content)]
        self._say(Turn(role, line, texts=texts, tools=calls))

    def _gemini(self, record: dict[str, Any], line: int) -> None:
        self.agent = self.agent or "Gemini CLI"
        if isinstance(back := record.get("$rewindTo"), str):
            keys = list(self.turns)
            for key in keys[keys.index(back) if back in keys else 0 :]:
                del self.turns[key]
        elif isinstance(record.get("id"), str):
            self._gemini_message(record, line)
        elif isinstance(patch := record.get("$set", record), dict):
            self.session = self.session or _text(patch.get("sessionId"))
            self.title = _text(patch.get("summary")) or self.title
            messages = patch.get("messages")
            # A patch has the messages that the model sees from here on. After a compression some are missing, so a
            # patch only adds messages.
            for message in messages if isinstance(messages, list) else ():
                if isinstance(message, dict) and isinstance(message.get("id"), str):
                    self._gemini_message(message, line)

    def _gemini_message(self, record: dict[str, Any], line: int) -> None:
        if (kind := _text(record.get("type"))) not in ("user", "gemini"):
            return
        role = "user" if kind == "user" else "assistant"
        turn = Turn(role, line, _text(record.get("timestamp")), _text(record.get("model")), record["id"])
        turn.texts = _texts(record.get("content"))
        calls = record.get("toolCalls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                shown = call.get("resultDisplay")
                turn.tools.append(self._called(call.get("id"), call.get("name"), call.get("args")))
                result = shown if isinstance(shown, str) else call.get("result")
                turn.tools += _result(result, failed=call.get("status") == "error")
                if call.get("status") == "success":
                    self._ended(call.get("id"), call.get("result"))
        if not turn.texts and not turn.tools:
            return
        # The whole message is logged again whenever one of its tools has answered.
        if turn.key in self.turns:
            turn.line = self.turns[turn.key].line
        self.turns[turn.key] = turn

    def _called(self, key: object, name: object, arguments: object) -> str:
        """Keep a call of a tool, and return it as one short line."""
        given = _object(arguments)
        command, refs = _command(given), given.get("refs")
        if isinstance(key, str) and key and (command or refs):
            listed = ",".join(map(str, refs)) if isinstance(refs, list) else refs if isinstance(refs, str) else ""
            self.calls[key] = ToolCall(_text(name), storable(command[:LONGEST_COMMAND]), listed[:LONGEST_COMMAND])
        return _call(name, arguments)

    def _ended(self, key: object, result: object, *, failed: bool = False) -> list[str]:
        """Say whether a call worked, and return its result as `_result` does."""
        if isinstance(key, str) and (call := self.calls.get(key)):
            call.worked = not failed and _status(result, " ".join(_strings(_object(result) or result))) in _DONE
        return _result(result, failed=failed)

    def _say(self, turn: Turn) -> None:
        """Add a turn, or extend the last one if that continues."""
        if not turn.texts and not turn.tools:
            return
        last = next(reversed(self.turns.values()), None)
        same = last is not None and last.role == turn.role and turn.key and turn.key == last.key
        if last is not None and (same or (last.role == "assistant" == turn.role and not turn.texts)):
            last.texts += turn.texts
            last.tools += turn.tools
            return
        self.turns[f"{len(self.turns)} {turn.line}"] = turn


def _text(value: object) -> str:
    """Return a JSON string on one clean line; empty for any other value."""
    return _BLANKS.sub(" ", storable(value)).strip() if isinstance(value, str) else ""


def _texts(content: object) -> list[str]:
    """Texts of a message, which is a string or a list of blocks."""
    blocks = content if isinstance(content, list) else [content]
    texts = []
    for block in blocks:
        text = block
        if isinstance(block, dict):
            text = None if block.get("type") in ("thinking", "reasoning") or block.get("thought") else block.get("text")
        if isinstance(text, str):
            kept = _INJECTED.sub("", storable(text)).strip()
            if kept and not kept.startswith(_AGENTS_FILE):
                texts.append(kept)
    return texts


def _call(name: object, arguments: object) -> str:
    """A tool call as one short line: a command as it was typed, an edit as old and new text, all else as JSON."""
    given = _object(arguments)
    command = _command(given)
    new = next((given[key] for key in _NEW if isinstance(given.get(key), str)), None)
    file = next((given[key] for key in _FILE if isinstance(given.get(key), str)), "")
    if command:
        text = command
    elif file and new is not None:
        old = next((given[key] for key in _OLD if isinstance(given.get(key), str)), "")
        text = f"{file}: {f'{old[: TOOL_CHARACTERS // 2]} → ' if old else ''}{new}"
    else:
        text = arguments if isinstance(arguments, str) else json.dumps(given, ensure_ascii=False) if arguments else ""
    return _cut(f"Tool {_text(name) or 'call'}: {text}".rstrip(": "))


_FILE, _OLD = ("file_path", "filePath", "path", "absolute_path"), ("old_string", "oldString", "old_str")
_NEW = ("new_string", "newString", "new_str", "content", "contents", "file_text")
"""Parameters of tools that edit: the file, the text before and after."""

_EXIT = re.compile(r"(?i)\bexit(?:ed with)?[ _]code\b\W{0,3}(-?\d+)")

_DONE = (None, "", 0, "0")
"""Exit statuses of a command that worked, or does not say."""


def _command(given: dict[str, Any]) -> str:
    """The command in a tool's arguments; empty if it has none."""
    command = given.get("command") or given.get("cmd")
    if isinstance(command, list):
        command = " ".join(word for word in command if isinstance(word, str))
    return command if isinstance(command, str) else ""


def _status(result: object, said: str) -> object:
    """The exit status in a tool's result; None if it tells none."""
    about = _object(result).get("metadata")
    status = about.get("exit_code") if isinstance(about, dict) else None
    if status is None and (match := _EXIT.search(said[: 2 * TOOL_CHARACTERS])):
        status = match[1]
    return status


def _object(value: object) -> dict[str, Any]:
    """A JSON object, also one in a string, as Codex writes arguments and results."""
    if isinstance(value, str) and value.startswith("{") and len(value) < LINE_BYTES:
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    return value if isinstance(value, dict) else {}


def _result(content: object, *, failed: bool = False) -> list[str]:
    """A tool's result as one short line, with the exit status if it tells one, or nothing if it has no text."""
    said = " ".join(_strings(_object(content) or content)).strip()
    status = _status(content, said)
    how = f" (exit {status})" if isinstance(status, int | str) else " (failed)" if failed else ""
    return [_cut(f"Result{how}: {said}".rstrip(": "))] if said or how else []


def _strings(value: object) -> list[str]:
    """Strings in a tool's result, whatever its shape."""
    strings: list[str] = []
    pending = [value]
    while pending and sum(map(len, strings)) < TOOL_CHARACTERS:
        node = pending.pop()
        if isinstance(node, list):
            pending += reversed(node)
        elif isinstance(node, dict):
            keys = ("response", "functionResponse", "content", "output", "text")
            pending += [node[key] for key in keys if key in node]
        elif isinstance(node, str):
            strings.append(node)
    return strings


def _cut(text: str) -> str:
    # Cut first: a result may be as long as the log.
    line = _BLANKS.sub(" ", storable(text[: 4 * TOOL_CHARACTERS])).strip()
    return line if len(line) <= TOOL_CHARACTERS else f"{line[: TOOL_CHARACTERS - 1]}…"


FIRST_LINES = 50
"""Lines of a log in which it says where its session began."""

_SETTLED = 1 << 16
"""Bytes of a log that only grows, from which on its beginning is looked at no more."""


def began_in(file: Path, project: Path) -> bool | None:
    """Return whether the session of a log began in a project, not in another repository inside it; None: not said."""
    try:
        return _began_in(file, project, min(file.stat().st_size, _SETTLED))
    except OSError:
        return None


@lru_cache(maxsize=50_000)
def _began_in(file: Path, project: Path, _size: int) -> bool | None:
    transcript = Transcript()
    with file.open("rb") as lines:
        for number in range(1, FIRST_LINES):
            with suppress(ValueError, RecursionError):
                transcript.take(json.loads(lines.readline(LINE_BYTES) or b"null"), number)
            if transcript.folder:
                break
    if not os.path.isabs(transcript.folder):  # noqa: PTH117 - of this system
        return None
    folder = Path(os.path.realpath(transcript.folder))
    if not folder.is_relative_to(project):
        return False
    inner = (one for one in (folder, *folder.parents) if one != project and one.is_relative_to(project))
    return not any((one / ".git").exists() for one in inner)


def why_not_ours(file: Path, project: Path | None) -> str | None:
    """Return why a file must stay out of a base of sessions: the log of another project, or a memory with a secret."""
    if not is_session(file.name.lower()):
        # Two projects may come to share a folder of Claude Code.
        if project is not None and any(began_in(log, project) is False for log in file.parent.parent.glob("*.jsonl")):
            return f"the logs beside it are not of {project} alone"
        try:
            found = find_secrets(read_regular(file, DEFAULT_FILE_BYTES).decode("utf-8", "replace"))
        except OSError:
            return None  # what reads it says so
        return "it seems to hold a credential" if found else None
    if project is None or began_in(file, project) or not file.exists():  # what is kept was judged before
        return None
    return f"its session did not begin in {project}"


def read_session(path: str, file: BinaryIO, max_bytes: int) -> Document:
    """Parse the log of a session: `.jsonl` has one record per line, `.json` is a single record.

    A part is a turn below a line with role, model, time and line of the log. `problems` count unreadable lines.
    """
    transcript, problem = read_transcript(path, file, max_bytes)
    turns = list(transcript.turns.values())
    models = list(dict.fromkeys(turn.model for turn in turns if turn.model))
    moments = [moment for turn in turns if (moment := _moment(turn.when))]
    values = {
        "session": transcript.session,
        "agent": transcript.agent,
        "model": models[0] if len(models) == 1 else models,
        "folder": transcript.folder,
        "date": max(moments).isoformat(timespec="seconds") if moments else "",
    }
    if not transcript.known and not problem:
        problem = "It holds no record of a session of a coding agent."
    return document_of_parts(
        path,
        _title(transcript, path),
        [_part(turn) for turn in turns],
        {key: value for key, value in values.items() if value},
        aliases=[transcript.session] if transcript.session else (),
        problems=[problem] if problem else (),
    )


def read_transcript(
    path: str, file: BinaryIO, max_bytes: int, tail: int | None = None
) -> tuple[Transcript, str | None]:
    """Read the log of a session as its turns, up to `max_bytes`; return a message on what was left out, or None.

    With `tail`, only that many bytes at the end of a log with one record per line.
    """
    transcript = Transcript()
    if path.lower().endswith(LOG_SUFFIX):
        return transcript, _read_lines(file, max_bytes, transcript, _skipped(file, tail) if tail else 0)
    try:
        record = json.loads(file.read(max_bytes))
    except (ValueError, RecursionError) as error:
        return transcript, f"It is no JSON ({error}), so no turn could be read."
    if isinstance(record, dict) and "messages" in record:
        transcript.take(record, 0)
    return transcript, None


def _skipped(file: BinaryIO, tail: int) -> int:
    """Skip all but the last `tail` bytes, and the line that they begin in; return the number of skipped lines."""
    left, lines = file.seek(0, os.SEEK_END) - tail, 0
    file.seek(0)
    while left > 0 and (line := file.readline(LINE_BYTES)):
        left -= len(line)
        lines += line.endswith(b"\n")
    return lines


def _read_lines(file: BinaryIO, max_bytes: int, transcript: Transcript, number: int) -> str | None:
    """Feed all records after `number` lines to the transcript; return a message on unreadable lines, or None."""
    broken: list[int] = []
    read = 0
    while read < max_bytes and (line := file.readline(LINE_BYTES)):
        number += 1
        read += len(line)
        whole = line.endswith(b"\n")
        if not whole and len(line) == LINE_BYTES:
            while read < max_bytes and not line.endswith(b"\n") and (line := file.readline(LINE_BYTES)):
                read += len(line)
            broken.append(number)
            continue
        try:
            if line.strip():
                transcript.take(json.loads(line), number)
        except (ValueError, RecursionError):
            # The last line of a running session may be incomplete.
            broken += [number] if whole else []
    if not broken:
        return None
    lines = "1 line is" if len(broken) == 1 else f"{len(broken)} lines are"
    return f"{lines} no JSON or too long, line {broken[0]} first; the other turns were read."


def _part(turn: Turn) -> Part:
    who = turn.role if not turn.model else f"{turn.role} ({turn.model})"
    when = _moment(turn.when)
    day, minute = (when.strftime("%Y-%m-%d"), when.strftime("%Y-%m-%d %H:%M")) if when else ("", "")
    place = f"line {turn.line}" if turn.line else ""
    # People paste credentials into a chat, and tools print them; nobody looks for one in a log.
    lines = masked("\n\n".join([*turn.texts, *(["\n".join(turn.tools)] if turn.tools else [])])).split("\n")
    return Part(
        heading=" · ".join(text for text in (day, who) if text),
        header="## " + " · ".join(text for text in (who, minute, place) if text),
        lines=tuple(line.rstrip() for line in lines),
    )


def _title(transcript: Transcript, path: str) -> str:
    if transcript.title:
        return transcript.title
    for turn in transcript.turns.values():
        # A message that begins with a tag is a command or a paste, which makes no title.
        if turn.role == "user" and turn.texts and not turn.texts[0].startswith("<"):
            sentence = masked(_SENTENCE.split(turn.texts[0], maxsplit=1)[0].strip())
            return sentence if len(sentence) <= TITLE_CHARACTERS else f"{sentence[: TITLE_CHARACTERS - 1]}…"
    return PurePosixPath(path).stem


def _moment(text: str) -> datetime | None:
    moment = moment_of(text)
    return None if moment is None else datetime.fromtimestamp(moment, UTC)
