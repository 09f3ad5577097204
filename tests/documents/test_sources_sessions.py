"""Logs of coding agents are searched by turn, whatever is broken in them."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kbhub.documents.sessions
from conftest import synced
from kbhub.documents.sessions import read_transcript
from kbhub.documents.source import chunks_of, read_source
from kbhub.reading.read import ReadOptions
from kbhub.types import Base, Query

BASE = Base(id="logs", path=Path("/logs"), origin="config", kind="session")
MEGABYTE = 1 << 20


def log(*records) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def claude(kind, content, line_time="2026-11-02T10:11:12.000Z", **more):
    message = {"role": kind, "content": content, **more.pop("message", {})}
    return {"type": kind, "message": message, "sessionId": "s-1", "timestamp": line_time, "cwd": "/work/shop", **more}


CLAUDE = log(
    {"type": "file-history-snapshot", "messageId": "m"},
    claude("user", "<system-reminder>be kind</system-reminder>Why does the build fail? It worked before."),
    claude("user", "Caveat: injected", isMeta=True),
    claude("assistant", [{"type": "thinking", "thinking": "hidden"}, {"type": "text", "text": "Let me look."}],
           message={"id": "a1", "model": "claude-sonnet-4"}),
    claude("assistant", [{"type": "tool_use", "name": "Bash", "input": {"command": "make"}}],
           message={"id": "a1", "model": "claude-sonnet-4"}),
    claude("user", [{"type": "tool_result", "content": [{"type": "text", "text": "error: no rule\n" + "x" * 5000}]}]),
    claude("assistant", [{"type": "text", "text": "The Makefile lacks the target."}],
           "2026-11-02T10:20:00Z", message={"id": "a2", "model": "claude-sonnet-4"}),
)  # fmt: skip

CODEX, COPILOT, CURSOR, GEMINI = (
    (Path(__file__).parent / f"sessions/{client}.jsonl").read_bytes()
    for client in ("codex", "copilot-cli", "cursor", "gemini")
)
"""Short logs as these clients write them; Cursor's is made by reports of users, as its format is not public."""

OLD_TURNS = [
    {"id": "1", "type": "user", "content": "Old question"},
    {"id": "2", "type": "gemini", "content": "Old answer", "model": "gemini-2.5-pro"},
]
GEMINI_JSON = json.dumps({"sessionId": "g-0", "projectHash": "abc", "messages": OLD_TURNS}).encode()


def parse(data, path="a.jsonl"):
    document = read_source(BASE, path, io.BytesIO(data), len(data))
    return document, chunks_of(document, "session")


def said(chunks):
    """Heading and prose of each chunk."""
    return [(chunk.headings[0], chunk.text[chunk.prose :]) for chunk in chunks]


def test_sessions_of_claude_code_and_copilot_cli_have_a_chunk_per_turn():
    """It says what it is, and a turn names its line in the log."""
    document, chunks = parse(CLAUDE)

    assert "Why does the build fail?" == document.title
    assistant = "2026-11-02 · assistant (claude-sonnet-4)"
    assert ["2026-11-02 · user", assistant, assistant] == [heading for heading, _ in said(chunks)]
    assert "Why does the build fail? It worked before." == said(chunks)[0][1]
    assert said(chunks)[1][1].startswith("Let me look.\n\nTool Bash: make\nResult: error: no rule xxx")
    assert len(said(chunks)[1][1]) < 600
    assert "hidden" not in "\n".join(document.lines)
    agent = {"session": "s-1", "agent": "Claude Code", "model": "claude-sonnet-4"}
    assert {**agent, "folder": "/work/shop", "date": "2026-11-02T10:20:00+00:00"} == document.front_matter
    assert document.lines[:2] == ("session: s-1", "agent: Claude Code")
    assert document.aliases == ("s-1",)
    assert [
        "## user · 2026-11-02 10:11 · line 2",
        "## assistant (claude-sonnet-4) · 2026-11-02 10:11 · line 4",
        "## assistant (claude-sonnet-4) · 2026-11-02 10:20 · line 7",
    ] == [line for line in document.lines if line.startswith("## ")]

    # Commands with their exit status and edits; no reasoning, nothing that nobody typed.
    document, chunks = parse(COPILOT)

    assert document.title == "Why is the cart empty?"
    agent = {"session": "p-1", "agent": "Copilot CLI", "model": "gpt-5.2", "folder": "/work/shop"}
    assert {**agent, "date": "2026-11-20T09:00:00+00:00"} == document.front_matter
    assert said(chunks) == [
        ("2026-11-20 · user", "Why is the cart empty?"),
        (
            "2026-11-20 · assistant (gpt-5.2)",
            "Tool bash: make test\nResult (exit 2): 1 failed\n"
            "Tool edit: cart.py: ttl=0 → ttl=60\nResult (failed): no such text",
        ),
        ("2026-11-20 · assistant (gpt-5.2)", "The session expires at once."),
        ("2026-11-20 · summary", "Carts outlive sessions."),
    ]


@pytest.mark.parametrize(
    ("data", "path", "title", "turns"),
    [
        # a message that was written again counts once, one that was taken back not at all
        (GEMINI, "a.jsonl", "How the cache works",
         ["Explain the cache", 'It is an LRU.\n\nTool read_file: {"path": "c.py"}\nResult: class Cache']),
        # one document, not lines
        (GEMINI_JSON, "session-2025-09-30-abc.json", "Old question", ["Old question", "Old answer"]),
        (log({"role": "user", "content": "hi"}, {"role": "assistant", "content": "oh"}), "a.jsonl", "hi", ["hi", "oh"]),
    ],
)  # fmt: skip
def test_other_sessions_are_read(data, path, title, turns):
    document, chunks = parse(data, path)
    assert (document.title, [text for _, text in said(chunks)], document.problems) == (title, turns, ())


def test_a_session_is_called_what_its_log_calls_it_and_a_session_of_codex_is_read():
    """Messages once, though events repeat them; no environment, no reasoning."""
    summary = {"type": "summary", "summary": "Build mended", "leafUuid": "x"}
    for more, title in (
        ((summary,), "Build mended"),
        (({"type": "custom-title", "customTitle": "My build", "sessionId": "s-1"}, summary), "My build"),
    ):
        assert parse(CLAUDE + log(*more))[0].title == title

    document, chunks = parse(CODEX)

    assert ("Add a health check", "c-1", "gpt-5-codex") == (
        document.title, document.front_matter["session"], document.front_matter["model"],
    )  # fmt: skip
    assert ["Add a health check", "Tool shell: ls\nResult: main.go", "Added /healthz."] == [
        text for _, text in said(chunks)
    ]


def test_broken_lines_are_counted_once_and_passed_over(monkeypatch):
    monkeypatch.setattr(kbhub.documents.sessions, "LINE_BYTES", 20_000)
    broken = [b"{oops", b"\xff\xfe", b'{"type": "user"', b"[" * 15_000, b'{"type":"user","x":"' + b"y" * 70_000 + b'"}']
    odd = [b"[1,2]", b"null", b"7", b'"text"', b'{"type": 5}', b'{"type":"user","message":7}', b"", b"{}"]
    being_written = b'{"type": "user", "mess'
    document, chunks = parse(b"\n".join([*broken, *odd, b""]) + CLAUDE + being_written)
    assert 3 == len(chunks)
    (problem,) = document.problems
    assert problem.startswith("5 lines are no JSON or too long, line 1 first")
    assert "## user · 2026-11-02 10:11 · line 15" in document.lines
    document, chunks = parse(log({"id": 1, "price": 2}, {"id": 2, "price": 3}))
    assert chunks == []
    assert "no record of a session" in document.problems[0]


@settings(max_examples=60)
@given(
    st.lists(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["type", "message", "content", "role", "payload", "text", "id", "$set", "messages", "toolCalls",
                     "timestamp", "result", "summary", "$rewindTo", "name"]
                ),
                inner | st.sampled_from(["user", "assistant", "gemini", "response_item", "message", "text"]),
                max_size=5,
            ),
            max_leaves=12,
        ),
        max_size=8,
    )
)  # fmt: skip
def test_no_record_breaks_the_reading(records):
    document, chunks = parse(log(*records))
    for chunk in chunks:
        assert chunk.text == "\n".join(document.lines[chunk.start_line - 1 : chunk.end_line])
    covered = {line for chunk in chunks for line in range(chunk.start_line, chunk.end_line + 1)}
    assert all(number in covered for number, line in enumerate(document.lines, 1) if line.strip())


def test_a_log_is_read_as_a_stream():
    """No more than its limit is read, and no more than a line is in memory at once."""

    class Counting(io.BytesIO):
        longest = 0

        def readline(self, size=-1):
            line = super().readline(size)
            self.longest = max(self.longest, len(line))
            return line

        def read(self, *_):
            raise AssertionError("read as a whole")

    file = Counting(CLAUDE * 200)
    document = read_source(BASE, "a.jsonl", file, len(CLAUDE) * 10)

    assert file.longest < 6000
    assert 30 == len(chunks_of(document, "session"))


@pytest.fixture
def logs(environment):
    """A base of logs, which have a limit of their own, with files beside them that are none."""
    folder = environment.home / ".claude" / "projects"
    bases = {"logs": {"knowledge": "~/.claude/projects", "kind": "session"}}
    environment.configure(bases=bases, repos={"*": ["logs"]}, limits={"fileBytes": 10})
    environment.write(folder / "-work-shop" / "s-1.jsonl", CLAUDE)
    environment.write(folder / "chats" / "session-1.json", GEMINI_JSON)
    environment.write(folder / "settings.json", "{}")
    environment.write(folder / "memory.md", "# Makefile notes\n")
    return folder


def test_only_logs_are_taken_a_turn_is_found_and_read_and_a_log_that_grew_embeds_its_new_turns_alone(environment, logs):
    hub = synced(environment)
    index = hub.index(hub.select(["logs"])[0])
    with index.snapshot():
        assert ["-work-shop/s-1.jsonl", "chats/session-1.json"] == index.paths()
    assert "not a session log" in hub.read(["logs@memory.md"]).unread[0].message
    hit = hub.search(Query(text="Makefile lacks the target")).hits[0]
    reading = hub.read([f"{hit.ref}:{hit.start_line}-{hit.end_line}"]).readings[0]
    assert ("logs@-work-shop/s-1.jsonl", "session", ("2026-11-02 · assistant (claude-sonnet-4)",)) == (
        hit.ref, hit.kind, hit.headings,
    )  # fmt: skip
    assert reading.text.split("\n")[1] == "The Makefile lacks the target." == hit.excerpt.strip()

    environment.write(logs / "-work-shop" / "s-1.jsonl", CLAUDE + log(claude("user", "And the tests?")))
    (report,) = hub.sync()
    assert (1, 1, 3) == (report.changed, report.vectors_made, report.vectors_reused)


def test_what_is_read_is_the_same_from_index_and_file(environment, logs):
    long = "\n\n".join(f"Paragraph {n} " + "word " * 60 for n in range(12)) + "\n```\ncode\n\n\n```\n" + "long " * 2000
    data = CLAUDE + log(claude("assistant", [{"type": "text", "text": long}]), claude("user", "thanks"))
    environment.write(logs / "one.jsonl", data)
    hub = synced(environment)
    environment.write(logs / "two.jsonl", data)
    every = ReadOptions(answer_bytes=1 << 20)
    one, two = (hub.read([f"logs@{name}.jsonl"], every).readings[0] for name in ("one", "two"))
    assert (one.text, one.total_lines) == (two.text, two.total_lines)
    assert "```\ncode\n\n\n```" in two.text


def test_commands_have_their_exit_status_edits_their_texts_and_cursor_logs_what_was_asked_said_and_run():
    failed = {"type": "tool_result", "is_error": True, "content": "Exit code 2\nmake: *** no rule"}
    edit = {"file_path": "src/pay.py", "old_string": "x = 1", "new_string": "x = 2"}
    claude_said = log(
        claude("assistant", [{"type": "tool_use", "name": "Bash", "input": {"command": "make\ttest", "timeout": 3}}]),
        claude("user", [failed]),
        claude("assistant", [{"type": "tool_use", "name": "Edit", "input": edit}]),
        claude("user", [{"type": "tool_result", "is_error": True, "content": "File has changed"}]),
        claude("assistant", [{"type": "tool_use", "name": "Write", "input": {"file_path": "a.py", "content": "y"}}]),
    )
    output = json.dumps({"output": "main.go\n", "metadata": {"exit_code": 0, "duration_seconds": 0.1}})
    lines = [
        {"type": "function_call", "name": "shell", "arguments": json.dumps({"command": ["bash", "-lc", "go test"]})},
        {"type": "function_call_output", "output": output},
        {"type": "function_call", "name": "exec_command", "arguments": json.dumps({"cmd": "go vet"})},
        {"type": "function_call_output", "output": "Process exited with code 1\nOutput:\nvet: no"},
        {"type": "function_call", "name": "broken", "arguments": '{"command": '},
    ]
    codex_said = log(*({"type": "response_item", "payload": line} for line in lines))

    assert told(claude_said) == [
        "Tool Bash: make test", "Result (exit 2): Exit code 2 make: *** no rule",
        "Tool Edit: src/pay.py: x = 1 → x = 2", "Result (failed): File has changed", "Tool Write: a.py: y",
    ]  # fmt: skip
    assert told(codex_said) == [
        "Tool shell: bash -lc go test", "Result (exit 0): main.go", "Tool exec_command: go vet",
        "Result (exit 1): Process exited with code 1 Output: vet: no", 'Tool broken: {"command"',
    ]  # fmt: skip

    turns = read_transcript("u.jsonl", io.BytesIO(CURSOR), MEGABYTE)[0].turns.values()
    assert [(turn.role, turn.texts, turn.tools) for turn in turns] == [
        ("user", ["Why is tax zero?"], []),
        ("assistant", ["I look at the rates."], ["Tool Shell: make rates", "Tool StrReplace: tax.py: 0 → 0.19"]),
        ("assistant", ["The rate was missing."], []),
    ]
    assert read_source(BASE, "u.jsonl", io.BytesIO(CURSOR), MEGABYTE).front_matter["agent"] == "Cursor"


def told(content):
    turns = read_transcript("s.jsonl", io.BytesIO(content), 10**6)[0].turns.values()
    return [line for turn in turns for line in turn.tools]
