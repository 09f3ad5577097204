"""`kbhub hook`, as a client runs it: an answer in time or nothing, and the exit code 0 whatever happens."""

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from conftest import ran
from daemons import PATIENCE, folder_of, settings, until, windows
from hook_events import CLIENTS, EDITS, claude_log, sent
from kbhub.hooks.delivery import hooks_state
from kbhub.hooks.inbox import waiting
from kbhub.memory.changes import remember
from kbhub.server.daemon import launch
from kbhub.server.daemon.launch import stop
from kbhub.server.daemon.protocol import DaemonRecord, read_record, running

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for systems with Unix sockets and signals")

PROMPT = "On which day are refunds booked in the ledger?"

CUT_SHORT = """
import sys
sys.modules["kbhub.hooks.delivery"] = None
from kbhub.__main__ import main
main()
"""
"""`kbhub` on a machine so busy that its time is over before all is loaded that an answer needs."""


@pytest.fixture
def daemon(shop, environment):
    """A running daemon; it is ended afterwards."""
    with windows(environment) as begin:
        window = begin(inside=True)
        window.handshake()
        yield window


@pytest.fixture
def ending(environment):
    """A daemon that a hook starts is ended."""
    yield
    until(lambda: running(folder_of(environment)))
    stop(folder_of(environment))


def run(environment, name, data, *, client="claude-code", program=("-m", "kbhub")):
    line, options = [*program, "hook", name, "--client", client], {"input": data.decode(), "cwd": environment.project}
    done = ran(sys.executable, *line, **options, env=settings(environment))
    assert (done.code, done.err) == (0, "")
    return done.out


@pytest.fixture
def hook(kbhub, monkeypatch):
    """Answers an event in this process, which starts no daemon and may take its time."""
    monkeypatch.setattr(launch, "HOOK_SECONDS", 60.0)
    monkeypatch.setattr(launch, "begin", lambda *_: None)

    def answer(name, data, client="claude-code"):
        done = kbhub("hook", name, "--client", client, stdin=data, code=0)
        assert done.err == ""
        return done.out

    return answer


def told(out):
    return json.loads(out)["hookSpecificOutput"]["additionalContext"] if out else ""


def test_the_daemon_answers_hooks_of_every_client_and_of_nobody_else(
    daemon, shop, environment, tmp_path, hook, kbhub, monkeypatch
):
    """It takes the directory from the event, and counts what is read; if it hangs, that costs the time limit."""
    ref = remember(shop, "charge() must not round.", about=["src/pay.py"]).memory.ref
    monkeypatch.chdir(tmp_path)
    assert told(hook("prompt", sent("claude-code", "prompt", environment.project, prompt=PROMPT)))
    monkeypatch.chdir(environment.project)
    assert hook("prompt", sent("claude-code", "prompt", tmp_path, prompt=PROMPT, session="s-2")) == ""
    assert kbhub("admin", "hooks", "--json", code=0).json["delivered"] == 1
    daemon.ask({"method": "tools/call", "params": {"name": "read", "arguments": {"refs": "refunds.md:3:3"}}})
    state = hooks_state(shop, ())
    assert (state.deliveries, state.delivered, state.read) == (1, 1, 1)
    assert "1 read afterwards" in kbhub("status", code=0).out
    assert "1 read afterwards" in kbhub("admin", "hooks", code=0).out
    assert told(hook("prompt", sent("claude-code", "prompt", "/nonexistent", prompt=PROMPT, session="s-3")))

    for client in CLIENTS:
        data = sent(client, "prompt", environment.project, prompt=PROMPT, session=client)
        assert 'read(refs="refunds.md:' in told(hook("prompt", data, client))
        assert hook("prompt", data, client) == ""
        tool = sent(client, "tool", environment.project, tool=EDITS[client]("src/pay.py", "x"), session=client)
        text = told(hook("tool", tool, client))
        assert ("webhooks.md" in text, ref in text) == (True, True)

    record = running(folder_of(environment))
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(PATIENCE)
        wire.connect(record.link)
        asked = {"event": "prompt", "client": "codex", "data": "{}"}
        wire.sendall(json.dumps({"kbhub": "hook", "token": "x" * 64, "hook": asked}).encode() + b"\n")
        assert b"refused" in wire.makefile("rb").readline()
    os.kill(record.pid, signal.SIGSTOP)
    try:
        assert run(environment, "prompt", sent("codex", "prompt", environment.project, prompt=PROMPT)) == ""
    finally:
        os.kill(record.pid, signal.SIGCONT)


RULE = ("user", "From now on, run make check before every commit in this project.")


def test_a_hook_that_finds_no_daemon_starts_one_for_the_next(shop, environment, tmp_path, ending, hook):
    """Also one that is cut short: else every event on a slow machine would be, and none ever answered."""
    data = sent("claude-code", "prompt", environment.project, prompt=PROMPT)
    assert run(environment, "prompt", data, program=("-c", CUT_SHORT)) == ""
    record = until(lambda: running(folder_of(environment)))
    assert record.start["ends"]
    assert told(hook("prompt", sent("claude-code", "prompt", environment.project, prompt=PROMPT, session="s-2")))
    log = claude_log(tmp_path / "s.jsonl", RULE)
    assert hook("compact", sent("codex", "compact", environment.project, transcript=log), "codex") == ""
    assert until(lambda: waiting(shop))[0].why == "asked"
    assert read_record(folder_of(environment)).pid == record.pid


def test_the_end_of_a_session_fills_the_inbox_and_starts_no_daemon(shop, environment, tmp_path, hook, monkeypatch):
    begun, log = [], claude_log(tmp_path / "s.jsonl", RULE)
    monkeypatch.setattr(launch, "begin", lambda *given: begun.append(given))
    assert hook("session-end", sent("claude-code", "session-end", environment.project, transcript=log)) == ""
    assert ([one.why for one in waiting(shop)], begun) == (["asked"], [])
    for name in ("session-start", "prompt", "tool"):
        data = sent("codex", name, environment.project, prompt=PROMPT, tool=EDITS["codex"]("src/pay.py", "x"))
        hook(name, data, "codex")
    assert len(begun) == 3


def test_a_daemon_that_was_just_started_is_not_started_again(shop, environment, kbhub, monkeypatch):
    started, folder = [], folder_of(environment)
    monkeypatch.setattr(launch, "HOOK_SECONDS", 60.0)
    monkeypatch.setattr(launch, "_spawn", lambda *given: started.append(given))
    for _ in range(2):
        data = sent("codex", "prompt", environment.project, prompt=PROMPT)
        kbhub("hook", "prompt", "--client", "codex", stdin=data, code=0)
        folder.crash.write_text("it is about to be there")
    assert len(started) == 1


def test_what_a_client_should_not_send_is_answered_with_silence(environment, hook):
    noise = (b"", b"{", b"null", b"[1]", b"\xff\xfe", b"[" * 99_999)
    for name in ("session-start", "prompt", "tool", "session-end", "someday"):
        for data in (*noise, b'{"session_id": "s"}', b'{"session_id": "s", "cwd": "\\u0000"}'):
            assert hook(name, data) == ""
    assert hook("prompt", sent("codex", "prompt", environment.project), "someone") == ""


def test_without_a_daemon_or_with_a_dead_one_the_process_answers_itself(shop, environment, hook):
    folder = folder_of(environment)
    data = sent("codex", "prompt", environment.project, prompt=PROMPT, session="s-1")
    assert 'read(refs="refunds.md:' in told(hook("prompt", data, "codex"))
    assert running(folder) is None
    folder.make()
    folder.record.write_text(json.dumps(asdict(DaemonRecord(999_999, None, "0.1.0", "/gone", None, None))))
    assert told(hook("prompt", sent("codex", "prompt", environment.project, prompt=PROMPT), "codex"))


def test_an_input_that_never_ends_costs_the_time_limit(environment):
    line = [sys.executable, "-m", "kbhub", "hook", "prompt", "--client", "codex"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(line, **pipes, env=settings(environment), cwd=environment.project) as process:
        process.stdin.write(b'{"session_id":')
        process.stdin.flush()
        assert (process.wait(PATIENCE), process.stdout.read()) == (0, b"")


@pytest.mark.parametrize("fault", ["index", "data", "settings", "knowledge"])
def test_what_is_missing_or_broken_is_silence(shop, environment, fault, hook):
    data = Path(environment.env["KBHUB_DATA_DIR"])
    if fault == "index":
        for file in Path(environment.env["KBHUB_CACHE_DIR"]).rglob("*.db*"):
            file.unlink()
    elif fault == "data":
        (data / "trust.json").write_text("{")
    elif fault == "settings":
        environment.configure(bases=7)
    else:
        (environment.project / ".kbhub.json").write_text('{"knowledge": "../../.."}')
        (environment.project / "knowledge").rename(environment.project / "moved")

    for name in ("session-start", "prompt"):
        assert hook("prompt", sent("codex", name, environment.project, prompt=PROMPT)) == ""


def test_the_command_is_for_clients(kbhub, environment, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    done = kbhub("hook", "prompt", "--client", "codex")
    assert (done.code, done.out) == (2, "")
    assert "`kbhub admin hooks` shows" in done.err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="elsewhere the process itself reads the log")
def test_a_compaction_is_not_kept_waiting(shop, environment, tmp_path, ending):
    """Also without a daemon, the hook is over before the log is read, which takes as long as it takes."""
    log = claude_log(tmp_path / "s.jsonl", RULE)
    assert run(environment, "compact", sent("codex", "compact", environment.project, transcript=log)) == ""
    assert until(lambda: waiting(shop))[0].why == "asked"


def test_each_turn_of_vs_code_may_be_the_last(shop, environment, tmp_path, hook, monkeypatch):
    monkeypatch.delattr("os.fork", raising=False)
    log, turns = tmp_path / "transcripts/s.jsonl", [RULE, "No, never call the payment gateway from a test."]
    said = [{"type": "session.start", "data": {"sessionId": "s", "vscodeVersion": "1.112.0"}}]
    for number, text in enumerate(turns, 1):
        said.append({"type": "user.message", "data": {"content": text, "attachments": []}})
        environment.write(log, "".join(f"{json.dumps(one)}\n" for one in said))
        data = {"sessionId": "s", "hookEventName": "Stop", "cwd": str(environment.project), "transcript_path": str(log)}
        assert hook("stop", json.dumps({**data, "stop_hook_active": False}).encode(), client="copilot-cli") == ""
        assert [one.why for one in waiting(shop)] == ["asked", "corrected"][:number]
    monkeypatch.setattr("os.fork", lambda: 1, raising=False)  # where there is one, the client does not wait
    environment.write(log, log.read_text().replace("payment gateway", "real database"))
    hook("stop", json.dumps(data).encode(), client="copilot-cli")
    assert len(waiting(shop)) == len(turns)
