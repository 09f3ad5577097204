"""Windows that share a daemon: what they are told before it runs, and what they notice of its end."""

import io
import json
import os
import random
import signal
import stat
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import make_environment, make_repository
from daemons import (
    INITIALIZE,
    META,
    PATIENCE,
    SOURCE,
    call,
    folder_of,
    furnish,
    kill,
    settings,
    text_of,
    until,
    windows,
)
from kbhub import __version__
from kbhub.server.daemon import proxy
from kbhub.server.daemon.launch import DaemonUnavailable, newer, own_server, stop
from kbhub.server.daemon.protocol import ConnectOptions, read_record, running, try_lock
from kbhub.workspace.files import RACY_SECONDS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for systems with Unix sockets and signals")

DISCOVER = {"method": "server/discover", "params": {"_meta": META}}


@pytest.fixture(scope="module")
def noted(tmp_path_factory):
    """A project, what opens its windows, and what the daemon answered to both first requests when it left a note.

    What changed in the last two seconds is not noted, as it may change once more and look the same.
    """
    place = furnish(make_environment(tmp_path_factory.mktemp("noted")), "canary")
    with windows(place) as begin:
        time.sleep(RACY_SECONDS)
        window = begin()
        answers = [window.ask(DISCOVER)["result"], window.handshake()["result"]]
        notes = folder_of(place).notes
        until(lambda: any("initialize" in note.read_text() for note in notes.glob("*.json")))
        window.end()
        yield place, begin, answers


@pytest.fixture
def let_go(noted):
    """No daemon runs, and none starts until this is called."""
    folder = folder_of(noted[0])
    stop(folder)
    locks = [until(lambda path=path: try_lock(path)) for path in (folder.starting, folder.lock)]

    def release():
        while locks:
            locks.pop().close()

    yield release
    release()


def test_the_first_answers_come_before_the_daemon_and_are_what_it_says(noted, let_go):
    place, begin, (discovered, initialized) = noted
    modern, legacy = begin(), begin()
    assert modern.ask(DISCOVER)["result"] == discovered
    assert legacy.handshake()["result"] == initialized
    assert running(folder_of(place)) is None
    let_go()

    assert "1. deploy.md" in text_of(legacy.ask(call("search", query="canary")))
    assert "1. deploy.md" in text_of(modern.ask(call("search", modern=True, query="canary")))
    assert legacy.ask({"method": "tools/list"})["result"]["tools"]
    assert [message for message in legacy.kept if "method" in message] == []
    notes = folder_of(place).notes
    assert {stat.S_IMODE(note.stat().st_mode) for note in notes.iterdir()} == {0o600}
    assert stat.S_IMODE(notes.stat().st_mode) == 0o700


def test_a_window_that_was_answered_early_serves_itself_if_no_daemon_can_start(noted):
    place, begin, (_, initialized) = noted
    folder = folder_of(place)
    stop(folder)
    folder.crash.unlink()
    folder.crash.mkdir()
    window = begin()

    assert window.handshake()["result"] == initialized
    assert "1. deploy.md" in text_of(window.ask(call("search", query="canary")))
    assert running(folder) is None
    assert window.end() == 0
    assert window.errors.count(b"serving without it") == 1
    folder.crash.rmdir()


def test_a_daemon_that_hangs_fails_a_call_and_the_window_serves_itself_and_a_signal_ends_it(place, begin, monkeypatch):
    begin().handshake()
    given, sink, folder = [], io.BytesIO(), folder_of(place)
    pid, wire = running(folder).pid, "kbhub.server.daemon.protocol.GREETING_SECONDS"
    monkeypatch.chdir(place.project)
    for name, value in settings(place).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(proxy, "run", lambda *arguments: given.extend(arguments))
    proxy.connect(ConnectOptions(), settings(place))
    window = proxy.Proxy(*given[:2], sink, *given[2:])
    monkeypatch.setattr(wire, 0.5)
    monkeypatch.setattr(proxy, "SILENT_SECONDS", 0.1)
    monkeypatch.setattr("kbhub.server.daemon.launch.SIGNAL_SECONDS", 0.5)
    monkeypatch.setattr(proxy, "own_server", lambda wanted: monkeypatch.setattr(wire, PATIENCE) or own_server(wanted))

    def asked():
        for number, message in enumerate((DISCOVER, call("search", True, query="canary")) * 2):
            yield line_of({**message, "id": number})
            until(lambda number=number: sink.getvalue().count(b"\n") > number)
            if number == 0:
                os.kill(pid, signal.SIGSTOP)

    try:
        window.run(asked())
    finally:
        window._leaving = True  # else the end of its server is that of this process
        window._link.close()
        monkeypatch.setattr(wire, 0.2)
        done = stop(folder)
    lost, _, found = (json.loads(line)["result"] for line in sink.getvalue().splitlines()[1:])
    assert "Nothing was changed; try again." in lost["content"][0]["text"]
    assert "1. deploy.md" in found["content"][0]["text"]
    assert (lost["isError"], lost["resultType"], done.stopped, done.how) == (True, "complete", True, "killed")


@pytest.mark.usefixtures("let_go")
def test_what_is_no_longer_certain_waits_for_the_daemon(noted, monkeypatch):
    """Another variable, version, pointer or revision: no note answers."""
    place, _, (_, initialized) = noted
    known, reached, sink = [], threading.Event(), io.BytesIO()

    def lost():
        assert reached.wait(PATIENCE)
        raise ConnectionError

    def unavailable(*_):
        raise DaemonUnavailable("none")

    def told(**variables):
        known.clear()
        proxy.connect(ConnectOptions(), settings(place, **variables))
        return list(known)

    def asked():
        yield line_of(INITIALIZE)
        reached.set()
        yield line_of({**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": "2025-06-18"}})

    monkeypatch.chdir(place.project)
    monkeypatch.setattr(proxy, "run", lambda *given: known.extend(given[3]))
    proxy.Proxy(None, lost, sink, told=told()).run(asked())
    monkeypatch.setattr(proxy, "reach", unavailable)

    assert [json.loads(line).get("result") for line in sink.getvalue().splitlines()] == [initialized, None]
    assert told(KBHUB_MEMORY__ENABLED="false") == []
    with monkeypatch.context() as patch:
        patch.setattr(proxy, "__version__", "0.0.1")
        assert told() == []
    assert told() != []
    place.write(".kbhub.json", '{"name": "Aviary"}')
    assert told() == []


def line_of(message):
    return json.dumps({"jsonrpc": "2.0", "id": 1, **message}).encode() + b"\n"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_windows_outlive_their_daemons(place, begin):
    """Windows of two projects ask while one daemon after the other is killed: all answers are right, or say so."""
    project = place.project.parent / "bank"
    make_repository(project)
    places = {"canary": place, "albatross": furnish(replace(place, project=project), "albatross")}
    opened = [(word, begin(place=places[word])) for word in [*places] * 2]
    over, wrong, counts = threading.Event(), [], {"right": 0, "again": 0}

    def work(number, word, window):
        window.handshake()
        while not over.is_set():
            for question in (call("search", query=word), call("read", refs="deploy.md"), {"method": "tools/list"}):
                answer = window.ask(question)
                text = json.dumps(answer)
                again = "stopped during this call. Nothing was changed; try again." in text
                right = "search" in text if "params" not in question else f"the {word} takes five minutes" in text
                counts["again" if again else "right"] += 1
                if not (again or right) or any(other in text for other in places if other != word):
                    wrong.append(answer)
        text = f"Window {number} saw the {word} land."
        kept = window.ask(call("remember", text=text))
        if "Remembered" not in text_of(kept) and "may or may not have been done" not in text_of(kept):
            wrong.append(kept)

    threads = [threading.Thread(target=work, args=(number, *one)) for number, one in enumerate(opened)]
    for thread in threads:
        thread.start()
    chance, folder, killed = random.Random(7), folder_of(place), None
    until(lambda: folder.log.exists() and "connected; there are 4." in folder.log.read_text())  # one of all
    for _ in range(int(os.environ.get("KILLS", "10"))):
        before = sum(counts.values()) + chance.choice((0, 0, 1, 5, 20))
        until(lambda killed=killed: (record := running(folder)) and record.pid != killed)
        until(lambda before=before: sum(counts.values()) >= before)
        killed = kill(place)
    over.set()
    for thread in threads:
        thread.join(PATIENCE)

    assert wrong == []
    assert counts["right"] > 0
    assert [(window.end(), window.errors) for _, window in opened] == [(0, b"")] * len(opened)


def test_a_newer_window_replaces_the_daemon_and_none_is_lost(place, begin, tmp_path):
    """Two versions are installed; a call in flight is answered, and the older window does not bring the older back."""
    older = tmp_path / "older"
    (older / "kbhub").mkdir(parents=True)
    for entry in (Path(SOURCE) / "kbhub").iterdir():
        if entry.name == "__init__.py":
            (older / "kbhub" / entry.name).write_text(entry.read_text().replace(__version__, "0.0.9"))
        elif entry.name != "__pycache__":
            (older / "kbhub" / entry.name).symlink_to(entry)
    old = begin(PYTHONPATH=str(older))
    old.handshake()
    folder = folder_of(place)
    first = read_record(folder)
    assert first.version == "0.0.9"
    asked = old.begin(call("search", query="canary"))

    window = begin()
    assert "result" in window.handshake()

    second = read_record(folder)
    assert (second.version, second.pid == first.pid) == (__version__, False)
    answer = text_of(old.answer(asked))
    assert "1. deploy.md" in answer or "try again" in answer
    for each in (old, window):
        assert "1. deploy.md" in text_of(each.ask(call("search", query="canary")))
    assert read_record(folder) == second
    assert newer("0.10.0", "0.9.3")
    assert not newer("0.9.3", "0.9.3")
