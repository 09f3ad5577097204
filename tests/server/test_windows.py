"""Windows that share a daemon: what they are told before it runs, and what they notice of its end."""

import json
import os
import queue
import random
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import make_repository
from daemons import (
    CONNECT,
    INITIALIZE,
    META,
    PATIENCE,
    SOURCE,
    call,
    folder_of,
    furnish,
    kill,
    pid_of,
    text_of,
    until,
    windows,
)
from kbhub import __version__
from kbhub.cli.commands.daemon import daemon_finding
from kbhub.server.daemon.launch import newer, stop
from kbhub.server.daemon.process import write_record
from kbhub.server.daemon.protocol import read_record, running, try_lock

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for systems with Unix sockets and signals")

DISCOVER = {"method": "server/discover", "params": {"_meta": META}}


@pytest.fixture
def place(environment):
    return furnish(environment, "canary")


@pytest.fixture
def begin(place):
    with windows(place) as opened:
        yield opened


def noted(place, begin):
    """Open windows until one has left a note, then stop the daemon; give what it answered to both first requests.

    What changed in the last two seconds is not noted, as it may change once more and look the same.
    """

    def told():
        window = begin()
        answers = [window.ask(DISCOVER)["result"], window.handshake()["result"]]
        window.end()
        return answers if any("initialize" in note.read_text() for note in folder_of(place).notes.glob("*")) else None

    answers = until(told)
    stop(folder_of(place))
    return answers


@pytest.fixture
def stuck(place):
    """Let no daemon start until this is called."""
    folder = folder_of(place)
    folder.make()
    locks = []

    def hold():
        locks.extend(until(lambda path=path: try_lock(path)) for path in (folder.starting, folder.lock))
        return lambda: [locks.pop().release() for _ in list(locks)]

    yield hold
    for lock in locks:
        lock.release()


def test_the_first_answers_come_before_the_daemon_and_are_what_it_says(place, begin, stuck):
    discovered, initialized = noted(place, begin)
    let_go = stuck()

    modern, legacy = begin(), begin()
    assert modern.ask(DISCOVER)["result"] == discovered
    assert legacy.handshake()["result"] == initialized
    assert running(folder_of(place)) is None
    let_go()

    assert "1. deploy.md" in text_of(legacy.ask(call("search", query="canary")))
    assert "1. deploy.md" in text_of(modern.ask(call("search", modern=True, query="canary")))
    assert legacy.ask({"method": "tools/list"})["result"]["tools"]
    assert [message for message in legacy.kept if "method" in message] == []


def test_what_is_no_longer_certain_waits_for_the_daemon(place, begin, stuck):
    """Another variable, revision, version or pointer: no note answers, and the daemon says what is so now."""
    _, before = noted(place, begin)
    let_go = stuck()
    older = {**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": "2025-06-18"}}
    waiting = []

    def ask(asked=INITIALIZE, **variables):
        window = begin(**variables)
        waiting.append((window, window.begin(asked), asked))
        with pytest.raises(queue.Empty):
            window.said.get(timeout=1)

    ask(KBHUB_MEMORY__ENABLED="false")
    ask(older)
    notes = [(note, note.rename(note.with_stem("0" * 32))) for note in folder_of(place).notes.iterdir()]
    ask()  # as another version would have named them
    for note, renamed in notes:
        renamed.rename(note)
    place.write(".kbhub.json", '{"name": "Aviary"}')
    ask()
    let_go()
    answers = [window.answer(number)["result"] for window, number, _ in waiting]
    assert ["`memories`" in one["instructions"] for one in answers] == [False, True, True, True]
    assert all("Aviary" in one["instructions"] for one in answers)
    assert "Aviary" not in before["instructions"]
    assert [one["protocolVersion"] for one in answers] == [asked["params"]["protocolVersion"] for *_, asked in waiting]


def test_a_window_that_was_answered_early_serves_itself_if_no_daemon_can_start(place, begin):
    _, initialized = noted(place, begin)
    folder = folder_of(place)
    folder.crash.unlink()
    folder.crash.mkdir()
    window = begin((*CONNECT, "--read-only"))
    assert "result" in window.handshake()
    window.end()
    window = begin()

    assert window.handshake()["result"] == initialized
    assert "1. deploy.md" in text_of(window.ask(call("search", query="canary")))
    assert running(folder) is None
    assert window.end() == 0
    assert window.errors.count(b"serving without it") == 1


def test_nothing_of_the_window_that_started_the_daemon_reaches_another(place, begin):
    """Neither its folders of modules, nor its cache, nor its variables; each has its own."""
    other = place.project.parent / "other"
    make_repository(other)
    elsewhere = replace(place, env={**place.env, "KBHUB_CACHE_DIR": str(other / "cache")})
    modules = place.home / "modules"
    modules.mkdir()
    (modules / "mcp.py").write_text("raise SystemExit('hostile')")
    first = begin(PYTHONPATH=f"{SOURCE}{os.pathsep}{modules}", AN_API_KEY="sesame", KBHUB_SEARCH__LIMIT="1")
    first.handshake()
    second = begin(place=elsewhere)
    second.handshake()

    assert "1. deploy.md" in text_of(second.ask(call("search", query="canary")))
    assert list((other / "cache").rglob("*.db*")) or list((other / "cache").iterdir())
    environ = Path(f"/proc/{pid_of(place)}/environ")
    assert not environ.exists() or not any(word in environ.read_bytes() for word in (b"sesame", bytes(modules)))


@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_windows_outlive_their_daemons(place, begin, kills):
    """Four windows of two projects ask while one daemon after the other is killed: all answers are right, or say so."""
    project = place.project.parent / "bank"
    make_repository(project)
    places = {"canary": place, "albatross": furnish(replace(place, project=project), "albatross")}
    opened = [(word, begin(place=places[word], cwd=places[word].project)) for word in (*places, *places)]
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
    for _ in range(kills):
        before = sum(counts.values()) + chance.choice((0, 0, 1, 5, 20))
        until(lambda killed=killed: (record := running(folder)) and record.pid != killed)
        until(lambda before=before: sum(counts.values()) >= before)
        killed = kill(place)
    over.set()
    for thread in threads:
        thread.join(PATIENCE)

    assert wrong == []
    assert counts["right"] > 0
    assert [window.end() for _, window in opened] == [0, 0, 0, 0]
    assert [window.errors for _, window in opened] == [b"", b"", b"", b""]


def test_a_newer_window_replaces_the_daemon_and_none_is_lost(place, begin, tmp_path):
    """Two versions are installed; calls in flight are answered, and the older windows do not bring the older back."""
    older = tmp_path / "older"
    (older / "kbhub").mkdir(parents=True)
    for entry in (Path(SOURCE) / "kbhub").iterdir():
        if entry.name == "__init__.py":
            (older / "kbhub" / entry.name).write_text(entry.read_text().replace(__version__, "0.0.9"))
        elif entry.name != "__pycache__":
            (older / "kbhub" / entry.name).symlink_to(entry)
    old = [begin(PYTHONPATH=str(older)) for _ in range(2)]
    for window in old:
        window.handshake()
    folder = folder_of(place)
    first = read_record(folder)
    assert first.version == "0.0.9"
    asked = [window.begin(call("search", query="canary")) for window in old]

    window = begin()
    assert "result" in window.handshake()

    second = read_record(folder)
    assert (second.version, second.pid == first.pid) == (__version__, False)
    answers = [text_of(window.answer(number)) for window, number in zip(old, asked, strict=True)]
    assert all("1. deploy.md" in text or "try again" in text for text in answers)
    for each in (*old, window):
        assert "1. deploy.md" in text_of(each.ask(call("search", query="canary")))
    assert read_record(folder) == second
    assert newer("0.10.0", "0.9.3")
    assert not newer("0.9.3", "0.9.3")


def test_a_daemon_that_nobody_can_reach_any_more_makes_way(place, begin):
    """Those who tidy up temporary folders delete old sockets; a socket that nobody listens on keeps nobody waiting."""
    window = begin(KBHUB_SERVE__UNLOAD_MINUTES="0.002")
    window.handshake()
    folder, old = folder_of(place), pid_of(place)
    Path(read_record(folder).link).unlink()

    until(lambda: (record := running(folder)) is None or record.pid != old)
    assert "1. deploy.md" in text_of(window.ask(call("search", query="canary")))
    kill(place)
    assert Path(folder.path / "socket").is_socket()
    assert "result" in begin().handshake()


def test_doctor_says_who_serves_the_windows(place, begin, monkeypatch):
    folder = folder_of(place)
    assert daemon_finding(folder).message.startswith("None is running. The first window")
    begin().handshake()
    finding = daemon_finding(folder)
    assert (finding.level, "serves 1 window. It ends when idle." in finding.message) == ("ok", True)

    record = read_record(folder)
    for changed, said in (
        (replace(record, prefix="/x"), "that of /x"),
        (replace(record, version="0.0.1"), "replaces it"),
    ):
        write_record(folder, changed)
        assert said in daemon_finding(folder).message
    write_record(folder, record)
    stop(folder)
    folder.crash.write_text("No space left on device\n")
    finding = daemon_finding(folder)
    assert (finding.level, "left: No space left on device." in finding.message) == ("warning", True)


def test_a_daemon_of_another_installation_is_left_alone(place, begin):
    """It may have other extras and extensions."""
    begin().handshake()
    folder = folder_of(place)
    write_record(folder, replace(read_record(folder), prefix="/elsewhere"))
    window = begin()

    assert "result" in window.handshake()
    assert window.end() == 0
    assert b"a daemon of the installation in /elsewhere is running; serving without the daemon." in window.errors
