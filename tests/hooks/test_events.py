"""What each client sends is understood, and answered in its form."""

import json

import pytest

from hook_events import CLIENTS, EDITS, NAMES, READS, SESSION, event, payload
from kbhub.hooks.events import EVENTS, answer, event_of


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", EVENTS)
def test_every_event_of_every_client_is_understood(client, name):
    more = {"tool": EDITS[client]("src/pay.py", "def charge():")} if name == "tool" else {}
    found = event(name, "/work/shop", client=client, prompt="how are refunds booked?", **more)

    assert (found.name, found.client, found.session, found.cwd) == (name, client, SESSION, "/work/shop")
    assert found.called == NAMES[client].get(name, "")
    assert found.prompt == ("how are refunds booked?" if name == "prompt" else "")
    assert found.source == ("startup" if name == "session-start" else "")
    assert found.paths == (("src/pay.py",) if name == "tool" else ())
    assert ("def charge():" in found.text) == (name == "tool")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_file_that_is_read_is_all_of_it(client):
    found = event("tool", "/work/shop", client=client, tool=READS[client]("src/pay.py"))

    assert (found.paths, found.text) == (("src/pay.py",), "")


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({"file_path": "a.py"}, ("a.py",)),
        ({"paths": ["a.py", "b/c.rs"]}, ("a.py", "b/c.rs")),
        ({"edits": [{"path": "a.py", "new_str": "b.py"}]}, ("a.py",)),
        ({"command": ["bash", "-lc", "cat src/a.py | grep -n x > out/b.txt"]}, ("src/a.py", "out/b.txt")),
        ({"command": "cd src && git diff -- 'pay/charge.py'; ls"}, ("pay/charge.py",)),
        ({"cmd": "python -m pytest tests/test_a.py::test_b"}, ("tests/test_a.py",)),
        ({"cmd": "vi src/a.py:12:3"}, ("src/a.py",)),
        ("*** Begin Patch\n*** Add File: new.py\n+x\n*** Delete File: old.py\n*** End Patch", ("new.py", "old.py")),
        ({"file_path": 7, "command": None, "x": {"y": []}}, ()),
        ({"file_path": ["a.py", "a.py"]}, ("a.py",)),
        ({"paths": [f"f{number}.py" for number in range(100)]}, tuple(f"f{number}.py" for number in range(8))),
    ],
)
def test_the_files_of_a_tool_are_found(given, paths):
    assert sorted(event("tool", "/work", tool=("Any", given)).paths) == sorted(paths)


@pytest.mark.parametrize("data", [None, [], "x", 7, {}, {"session_id": 7}, {"session_id": ""}, {"cwd": "/work"}])
@pytest.mark.parametrize("name", EVENTS)
def test_what_no_client_sends_is_no_event(data, name):
    assert event_of(name, "codex", data) is None


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("place", [{"cwd": 1}, *({"workspace_roots": odd} for odd in (None, [], [7], {}, "x"))])
def test_fields_of_another_kind_are_as_if_not_there(name, place):
    data = {"session_id": "s", "prompt": ["x"], "tool_input": 3, "source": {}, "transcript_path": False, **place}
    found = event_of(name, "gemini-cli", data)

    assert (found.cwd, found.prompt, found.paths, found.source, found.transcript) == ("", "", (), "", "")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", [name for name in EVENTS if name not in ("compact", "stop", "session-end")])
def test_an_answer_has_the_form_that_the_client_reads(client, name):
    more = {"tool": EDITS[client]("a.py", "x")} if name == "tool" else {}
    said = json.loads(answer(event(name, "/work", client=client, **more), "notes\nof “two” lines"))

    assert said["hookSpecificOutput"] == {
        "hookEventName": NAMES[client][name],
        "additionalContext": "notes\nof “two” lines",
    }
    # Codex refuses what its schema does not know; Copilot CLI reads the text beside it.
    assert said.keys() - {"hookSpecificOutput"} == ({"additionalContext"} if client == "copilot-cli" else set())


def test_an_event_without_its_name_has_one_and_vs_code_has_fields_of_its_own():
    data = payload("gemini-cli", "prompt", "/work", prompt="x")
    del data["hook_event_name"]

    assert json.loads(answer(event_of("prompt", "gemini-cli", data), "x"))["hookSpecificOutput"]["hookEventName"] == (
        "BeforeAgent"
    )

    sent = {
        "sessionId": "s",
        "hookEventName": "PreToolUse",
        "cwd": "/work",
        "tool_input": {"files": [], "filePath": "a.py"},
    }
    found = event_of("tool", "copilot-cli", {**sent, "timestamp": "2026-02-09T10:30:00.000Z"})

    assert (found.session, found.called, found.cwd, found.paths) == ("s", "PreToolUse", "/work", ("a.py",))


@pytest.mark.parametrize("name", EVENTS)
def test_cursor_takes_text_only_when_a_session_starts(name):
    sent = {"conversation_id": "s", "cursor_version": "2.4", "workspace_roots": ["/work"], "prompt": "x"}
    found = event_of(name, "claude-code", {**sent, "hook_event_name": "x", "transcript_path": None})

    assert (found is None) == (name in ("prompt", "tool", "subagent-start"))
    if found:
        assert (found.session, found.cwd) == ("s", "/work")
        assert json.loads(answer(found, "notes")) == {"additional_context": "notes"}
