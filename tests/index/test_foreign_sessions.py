"""Sessions in opencode's database become logs that are read like any other, and nothing is written to it."""

import json
import os
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from conftest import synced
from hook_events import event
from kbhub.documents.sessions import Transcript
from kbhub.hooks.inbox import propose
from kbhub.index.foreign_sessions import LATEST, events, last_change, opened, stored_sessions
from kbhub.setup.found import add_found
from kbhub.types import Query

TABLES, LATER = (Path(__file__).with_name(f"opencode_{version}.sql").read_text("utf-8") for version in (1, 2))
"""Tables of opencode 1, and those that version 2 adds."""
AT = 1795781152195


def tool(name, given, **state):
    return {"type": "tool", "tool": name, "callID": f"call-{name}", "state": {"input": given, **state}}


RECORDED = [
    ({"role": "user"}, [{"type": "text", "text": "From now on we use integers for money."},
                        {"type": "text", "text": "Read the file", "synthetic": True}]),
    ({"role": "assistant", "modelID": "m"}, [
        {"type": "step-start", "snapshot": "e056"},
        {"type": "reasoning", "text": "secret thoughts"},
        tool("bash", {"command": "make test", "description": "Fails"}, status="completed", output="no rule\n",
             metadata={"output": "no rule\n", "exit": 2}),
        tool("edit", {"filePath": "/p/pay.py", "oldString": "return 1", "newString": "return 2"}, status="completed",
             output="Edit applied successfully.", metadata={"diff": "x"}),
        tool("read", {"filePath": "/p/none"}, status="error", error="File not found"),
        {"type": "text", "text": "Done: charges return two."}]),
    ({"role": "assistant", "modelID": "m", "summary": True}, [{"type": "text", "text": "What was done so far."}]),
]  # fmt: skip
"""Messages and parts as opencode 1.18.33 wrote them, shortened."""

SAID = [
    ("user", "From now on we use integers for money.", []),
    ("assistant", "", [
        "Tool bash: make test", "Result (exit 2): no rule",
        "Tool edit: /p/pay.py: return 1 → return 2", "Result: Edit applied successfully.",
        'Tool read: {"filePath": "/p/none"}', "Result (failed): File not found"]),
    ("assistant", "Done: charges return two.", []),
    ("summary", "What was done so far.", []),
]  # fmt: skip


def written(file: Path, folder, messages=RECORDED, *, name="ses_1", tables=TABLES) -> apsw.Connection:
    """Give a connection that has written a session and stays open, as opencode's does."""
    file.parent.mkdir(parents=True, exist_ok=True)
    connection = apsw.Connection(str(file))
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.execute(tables)
    connection.execute("INSERT INTO session VALUES (?, ?, 'Money', ?, NULL)", (name, str(folder), AT))
    for number, (message, parts) in enumerate(messages):
        row = (f"msg_{number}", name, AT + number, AT + number, json.dumps(message))
        connection.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", row)
        for place, part in enumerate(parts):
            row = (f"prt_{number}{place}", f"msg_{number}", name, AT + place, AT + place, json.dumps(part))
            connection.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
    return connection


def told(file: Path) -> Transcript:
    transcript = Transcript()
    with opened(file) as connection:
        for session in stored_sessions(connection):
            for number, event in enumerate(events(connection, session), 1):
                transcript.take(json.loads(json.dumps(event)), number)
    return transcript


def said(transcript: Transcript):
    return [(turn.role, "\n".join(turn.texts), turn.tools) for turn in transcript.turns.values()]


def contents(folder: Path, live: bool):
    """All files; a reader in the writer's own process, as none is but here, shares its open shared memory."""
    names = {path.name: not (live and path.name.endswith("-shm")) for path in folder.iterdir()}
    return {name: (folder / name).read_bytes() if whole else b"" for name, whole in names.items()}


@pytest.mark.parametrize("state", ["in use", "left behind", "closed"])
def test_a_session_is_read_without_a_trace_whatever_opencode_does(tmp_path, state):
    file = tmp_path / "live/opencode.db"
    writer = written(file, "/p")
    if state == "left behind":  # by a process that was killed
        (tmp_path / "dead").mkdir()
        for path in file.parent.iterdir():
            (tmp_path / "dead" / path.name).write_bytes(path.read_bytes())
        file = tmp_path / "dead/opencode.db"
    if state == "closed":
        writer.close()
    before = contents(file.parent, state == "in use")
    transcript = told(file)

    assert contents(file.parent, state == "in use") == before
    assert len(before) == (1 if state == "closed" else 3)
    assert said(transcript) == SAID
    assert (transcript.agent, transcript.session, transcript.folder) == ("opencode", "ses_1", "/p")
    assert (transcript.title, transcript.calls["call-bash"].worked) == ("Money", False)
    writer.close()


def test_the_tables_of_version_2_prevail(tmp_path):
    file = tmp_path / "opencode.db"
    assistant = {"agent": "build", "model": {"id": "m2", "providerID": "p"}, "content": [
        {"type": "reasoning", "id": "r", "text": "hidden"},
        {"type": "tool", "id": "t1", "name": "bash", "state": {"status": "completed", "input": {"command": "make"},
         "content": [{"type": "text", "text": "built"}], "structured": {"exit": 0}}},
        {"type": "text", "id": "x", "text": "It builds."}]}  # fmt: skip
    rows = [("user", {"text": "Build it"}), ("synthetic", {"text": "no"}), ("assistant", assistant),
            ("shell", {"callID": "s", "command": "ls", "output": "Makefile"}),
            ("compaction", {"summary": "Built.", "recent": "", "reason": "auto"})]  # fmt: skip
    with closing(written(file, "/old", tables=TABLES + LATER)) as writer:
        writer.execute("INSERT INTO session_v2 VALUES ('ses_1', '/new', NULL, ?, NULL)", (AT,))
        for number, (kind, data) in enumerate(rows):
            row = (f"m{number}", "ses_1", kind, number, AT, AT, json.dumps(data))
            writer.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    transcript = told(file)

    assert said(transcript) == [
        ("user", "Build it", []),
        ("assistant", "", ["Tool bash: make", "Result (exit 0): built"]),
        ("assistant", "It builds.", ["Tool shell: ls", "Result: Makefile"]),
        ("summary", "Built.", []),
    ]
    assert (transcript.folder, transcript.calls["t1"].worked) == ("/new", True)


def test_what_is_broken_or_crafted_is_left_out(tmp_path, monkeypatch):
    file = tmp_path / "opencode.db"
    with closing(written(file, "/p")) as writer:
        for number, data in enumerate(("no json", "[]", "null", '{"type": "tool"}', '{"type": "tool", "state": []}',
                                       '{"type": "text", "text": 7}', '{"a":' * 50_000, b"\xff\xfe")):  # fmt: skip
            writer.execute("INSERT INTO part VALUES (?, 'msg_0', 'ses_1', 'never', 0, ?)", (f"prt_0{number}x", data))
        writer.execute("INSERT INTO part SELECT 'prt_0y', 'msg_0', 'ses_1', 0, 0, CAST(x'22ff22' AS TEXT)")
        writer.execute("INSERT INTO session SELECT 'ses_2', CAST(x'2f00ff' AS TEXT), 7, 1 << 61, NULL")
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 'a' AS id, 'b' AS directory"
        writer.execute(f"CREATE VIEW session_v2 AS {endless}, 'c' AS title, i AS time_updated, 1 AS parent_id FROM n")
    assert said(told(file)) == SAID
    with opened(file) as connection:
        changed = {one.folder: last_change(connection, one) for one in stored_sessions(connection)}
        assert changed == {"/p": AT + 5, "/\ufffd": LATEST}
    if os.name != "nt":
        (tmp_path / "link.db").symlink_to(file)
        with pytest.raises(OSError), opened(tmp_path / "link.db"):
            pass
    (tmp_path / "text.db").write_text("no database " * 500)
    with pytest.raises(apsw.Error):
        told(tmp_path / "text.db")
    monkeypatch.setattr("kbhub.index.foreign_sessions.SECONDS", 0)
    with pytest.raises(apsw.InterruptError), opened(file) as connection:
        connection.execute(endless.replace("'a' AS id", "count(*)") + " FROM n").fetchall()


def test_the_sessions_of_this_project_alone_are_found_and_follow_the_database(environment):
    file = environment.home / ".local/share/opencode/opencode.db"
    environment.env.pop("XDG_DATA_HOME", None)
    writer = written(file, environment.project / "api")
    for name, folder in (("ses_2", environment.home), ("../../ses_3", environment.project)):
        writer.execute("INSERT INTO session VALUES (?, ?, 'Integers', ?, NULL)", (name, str(folder), AT))
        row = (f"prt_{name}", "msg_0", name, AT, AT, json.dumps({"type": "text", "text": "integers elsewhere"}))
        writer.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
    hub = environment.hub(cwd=environment.project)
    bases = {base.id: base for base in add_found(hub).bases}

    def found(words):
        return [hit.ref for hit in synced(environment, cwd=environment.project).search(Query(text=words)).hits]

    name = f"opencode-{environment.project.name}"
    assert found("integers") == [f"{name}@ses_1.jsonl"]
    assert [path.name for path in bases[name].path.iterdir()] == ["ses_1.jsonl"]
    data = json.dumps({"type": "text", "text": "The walrus came later."})
    writer.execute("INSERT INTO part VALUES ('prt_9', 'msg_1', 'ses_1', ?, ?, ?)", (AT, AT + 5000, data))
    assert found("walrus") == [f"{name}@ses_1.jsonl"]
    writer.execute("DELETE FROM session")
    assert found("walrus") == [f"{name}@ses_1.jsonl"]  # kept, as of other clients
    assert [*bases[name].path.iterdir()] == []
    writer.close()


def test_what_a_session_decided_is_proposed_when_it_is_idle_and_at_most_three_times(environment):
    """Its log is found by the session alone, as opencode's hooks do not say where it is."""
    texts = [f"From now on, the {word} ledger is closed on Sundays." for word in ("first", "second", "third", "fourth")]
    messages = [({"role": "user"}, [{"type": "text", "text": text}]) for text in texts]
    environment.env.pop("XDG_DATA_HOME", None)
    file, hub = environment.home / ".local/share/opencode/opencode.db", environment.hub()
    idle = event("session-end", environment.project, client="opencode", session="ses_1")
    assert propose(hub, idle) == ()
    written(file, environment.project, messages[:2]).close()
    assert [one.text for one in propose(hub, idle)] == texts[:2]
    assert propose(hub, idle) == ()
    file.unlink()
    written(file, environment.project, messages[1:]).close()
    assert [one.text for one in propose(hub, idle)] == texts[2:3]
    file.unlink()
    with closing(written(file, environment.project, messages, name="ses_2")) as writer:
        writer.execute("UPDATE session SET parent_id = 'ses_1'")  # what an agent asks a subagent is no person's word
    assert propose(hub, event("session-end", environment.project, client="opencode", session="ses_2")) == ()
