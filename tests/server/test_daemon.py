"""The shared daemon: real processes, over the wire that `serve --connect` speaks, and windows that notice its end."""

import io
import json
import os
import random
import signal
import stat
import sys
import threading
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import ListRootsResult, Root

from conftest import make_environment, make_repository
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
    settings,
    text_of,
    until,
    windows,
)
from kbhub import __version__
from kbhub.cli.app import app
from kbhub.cli.commands.daemon import daemon_finding
from kbhub.server.daemon import proxy
from kbhub.server.daemon.launch import DaemonUnavailable, newer, own_server, stop
from kbhub.server.daemon.process import write_record
from kbhub.server.daemon.protocol import (
    GREETING_BYTES,
    ConnectOptions,
    DaemonRecord,
    Refused,
    dial,
    greet,
    is_held,
    process_mark,
    read_record,
    running,
    try_lock,
)
from kbhub.workspace.tool_names import CORE
from test_frames import CASES, fuzz_window, judge

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for systems with Unix sockets and signals")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Two projects of one user, what opens windows, and one of each; the first has started the daemon of all."""
    one = furnish(make_environment(tmp_path_factory.mktemp("daemon")), "canary")
    project = one.project.parent / "bank"
    make_repository(project)
    other = furnish(replace(one, project=project), "albatross")
    modules = one.home / "modules"
    modules.mkdir()
    (modules / "mcp.py").write_text("raise SystemExit('hostile')")
    with windows(one) as begin:
        variables = {"PYTHONPATH": f"{SOURCE}{os.pathsep}{modules}", "AN_API_KEY": "sesame", "KBHUB_SEARCH__LIMIT": "1"}
        here = begin(inside=True, **variables)
        here.handshake()
        there = begin(inside=True, place=replace(other, env={**one.env, "KBHUB_CACHE_DIR": str(project / "cache")}))
        there.handshake()
        yield one, other, begin, here, there


@pytest.mark.anyio
async def test_a_client_of_either_era_is_served_and_asked_for_its_roots(shared, mode):
    one, asked = shared[0], []

    async def roots(_context):
        asked.append(mode)
        return ListRootsResult(roots=[Root(uri=one.project.as_uri())])

    server = StdioServerParameters(command=sys.executable, args=[*CONNECT], env=settings(one), cwd=one.home)
    async with Client(server, mode=mode, read_timeout_seconds=PATIENCE, list_roots_callback=roots) as client:
        assert client.protocol_version == {"auto": "2026-07-28", "legacy": "2025-11-25"}[mode]
        assert [tool.name for tool in (await client.list_tools()).tools] == list(CORE)
        assert asked == []
        found = await client.call_tool("search", {"query": "canary"})
        read = await client.call_tool("read", {"refs": "deploy.md"})

    assert "1. deploy.md:1-3" in found.content[0].text
    assert "the canary takes" in read.content[0].text
    assert asked == [mode]


def test_each_window_sees_its_own_workspace_and_no_other(shared):
    one, other, _, here, there = shared
    assert "Remembered" in text_of(there.ask(call("remember", text="The albatross flies at dawn, by order.")))

    for window, own, foreign in ((here, "canary", "albatross"), (there, "albatross", "canary")):
        assert own in text_of(window.ask(call("search", query=own)))
        found = text_of(window.ask(call("search", query=foreign)))
        read = text_of(window.ask(call("read", refs="deploy.md")))
        listed = json.dumps(window.ask({"method": "resources/list"}))
        assert f"the {foreign} takes" not in found + read + listed
        assert f"the {own} takes" in read
    assert "albatross" not in text_of(here.ask(call("memories")))
    assert "albatross" in text_of(there.ask(call("memories")))
    for address in (other.project / "knowledge" / "deploy.md", "../../bank/knowledge/deploy.md"):
        assert "albatross" not in text_of(here.ask(call("read", refs=str(address))))
    assert pid_of(one) == pid_of(other)


def test_what_a_window_was_started_with_is_in_force_for_it_alone(shared):
    """Its options, and, of the one that started the daemon, its folders of modules, its cache and its variables."""
    one, other, begin, here, there = shared
    notes = one.project.parent / "notes"
    notes.mkdir(exist_ok=True)
    (notes / "n.md").write_text("# Wombat\n\nA wombat digs.\n")
    options = ("--read-only", "--structured", "--base", "notes=../notes")
    window = begin((*CONNECT, *options), inside=True, KBHUB_PROTOCOL="legacy")

    # As a server that is pinned to the handshake refuses the probe, clients fall back.
    assert window.ask({"method": "server/discover", "params": {"_meta": META}})["error"]["code"] == -32601
    window.handshake()

    tools = window.ask({"method": "tools/list"})["result"]["tools"]
    assert all("outputSchema" in tool for tool in tools)
    assert "remember" not in [tool["name"] for tool in tools]
    assert "notes" in text_of(window.ask(call("status")))
    assert window.end() == 0
    assert "remember" in [tool["name"] for tool in here.ask({"method": "tools/list"})["result"]["tools"]]
    assert "deploy.md:1-3" in text_of(there.ask(call("search", query="redeploy the tag")))
    assert list((other.project / "cache").iterdir())
    environ = Path(f"/proc/{pid_of(one)}/environ")
    assert not environ.exists() or not any(word in environ.read_bytes() for word in (b"sesame", b"/modules"))


def served_by(environment, monkeypatch, *options, **named):
    """Return how a window ends that is not served by the daemon."""
    monkeypatch.chdir(environment.project)
    return proxy.connect(ConnectOptions(*options, **named), settings(environment))


def test_a_wrong_command_line_ends_the_window_and_another_installation_serves_none(shared, monkeypatch, capsys):
    """It may have other extras and extensions."""
    assert served_by(shared[0], monkeypatch, base=("x",)) == 2
    assert "expected ID=DIR" in (said := capsys.readouterr().err)
    assert said.count("\n") == 1

    folder = folder_of(shared[0])
    record = read_record(folder)
    write_record(folder, replace(record, prefix="/elsewhere"))
    try:
        assert served_by(shared[0], monkeypatch) is None
    finally:
        write_record(folder, record)
    assert (
        "a daemon of the installation in /elsewhere is running; serving without the daemon." in capsys.readouterr().err
    )


def test_only_the_user_can_open_the_daemons_files_and_who_does_not_know_the_token_is_not_served(shared):
    folder = folder_of(shared[0])
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    for path in (*folder.path.glob("*"), folder.path / read_record(folder).link):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path == folder.notes else 0o600), path

    where = read_record(folder_of(shared[0])).link
    for kind, token in (("hello", "0" * 64), ("stop", ""), ("status", "é")):
        with closing(dial(where)) as link, pytest.raises(Refused, match="token is wrong"):
            greet(link, kind, token)
    with closing(dial(where)) as link:
        link.send(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        assert [json.loads(line)["kbhub"] for line in link.lines()] == ["refused"]
    with closing(dial(where)) as link:
        with suppress(OSError):
            link.send(b"x" * (GREETING_BYTES + 1))
        assert [json.loads(line)["reason"] for line in link.lines()] in ([], ["greeting"])


@pytest.mark.parametrize(("modern", "seed", "count"), CASES)
def test_every_frame_is_answered_by_way_of_the_daemon(shared, tmp_path, modern, seed, count):
    """Of a window that speaks for a folder of its own."""
    one, _, begin, *_ = shared
    place = furnish(replace(one, project=tmp_path), "canary")
    make_repository(tmp_path)
    sent, answers, code = fuzz_window(begin(inside=True, place=place), modern, seed, count)
    judge(sent, answers)
    assert (code, b"Traceback" in folder_of(one).log.read_bytes()) == (0, False)


def test_a_daemon_that_dies_or_that_nobody_can_reach_is_replaced_and_its_calls_fail(place, begin):
    """Those who tidy up temporary folders delete old sockets; a socket that nobody listens on keeps nobody waiting.

    And a daemon without windows ends by itself.
    """
    folder = folder_of(place)
    window = begin(inside=True, KBHUB_SERVE__UNLOAD_MINUTES="0.002", KBHUB_SERVE__END_MINUTES="0.01")
    window.handshake()
    asked, text = [], "The canary is yellow."
    questions = (call("search", query="canary"), call("remember", text=text), {"method": "tools/list"})

    old = kill(place, while_asked=lambda: asked.extend(map(window.begin, questions)))
    assert Path(folder.path / "socket").is_socket()
    found, written, listed = (window.answer(number) for number in asked)

    # On a busy machine, the daemon may have died before the window had sent it this: then the next one has done it.
    if found["result"]["isError"]:
        assert "Nothing was changed; try again." in text_of(found)
    unsure = written["result"]["isError"]
    assert ("It may or may not have been done" in text_of(written)) is unsure
    assert listed.get("error", {"code": -32000})["code"] == -32000
    window.notice("notifications/tools/list_changed")
    assert "deploy.md:1-3" in text_of(window.ask(call("search", query="canary")))
    assert pid_of(place) != old
    assert text_of(window.ask(call("memories"))).count("canary is yellow") == (0 if unsure else 1)

    old = pid_of(place)
    Path(read_record(folder).link).unlink()
    until(lambda: (record := running(folder)) is None or record.pid != old)
    assert "deploy.md:1-3" in text_of(window.ask(call("search", query="canary")))
    window.end()
    until(lambda: not is_held(folder.lock))
    assert "releasing indexes and models" in folder.log.read_text()
    assert "Ending (idle)" in folder.log.read_text()


@pytest.mark.slow
def test_subscriptions_of_both_eras_outlive_a_daemon(place, begin):
    uri = "kbhub://project/deploy.md"
    legacy, modern = begin(), begin()
    legacy.handshake()
    assert "result" in legacy.ask({"method": "resources/subscribe", "params": {"uri": uri}})
    listening = {"notifications": {"resourceSubscriptions": [uri]}, "_meta": META}
    modern.begin({"method": "subscriptions/listen", "params": listening})
    modern.notice("notifications/subscriptions/acknowledged")

    kill(place)
    for window, question in ((legacy, call("status")), (modern, call("status", modern=True))):
        until(lambda window=window, question=question: not window.ask(question)["result"]["isError"])
    place.write("knowledge/deploy.md", "# Deploying\n\nThe finch takes a minute.\n")

    assert legacy.notice("notifications/resources/updated")["params"]["uri"] == uri
    assert modern.notice("notifications/resources/updated")["params"]["uri"] == uri
    assert all(message.get("method") != "notifications/subscriptions/acknowledged" for message in modern.kept)


@pytest.mark.slow
def test_a_question_of_the_daemon_dies_with_it(place, begin):
    window = begin(cwd=place.home)
    capable = {**INITIALIZE["params"], "capabilities": {"roots": {}}}
    window.ask({**INITIALIZE, "params": capable})
    window.send({"method": "notifications/initialized"})
    searching = window.begin(call("search", query="canary"))
    first = window.notice("roots/list")

    kill(place)
    cancelled = window.notice("notifications/cancelled")
    window.send({"id": first["id"], "result": {"roots": []}})
    assert text_of(window.answer(searching)).endswith("Nothing was changed; try again.")
    searching = window.begin(call("search", query="canary"))
    second = window.notice("roots/list")
    window.send({"id": second["id"], "result": {"roots": [{"uri": place.project.as_uri()}]}})

    assert cancelled["params"]["requestId"] == first["id"] != second["id"]
    assert "1. deploy.md" in text_of(window.answer(searching))


def test_the_command_line_that_is_read_at_a_glance_is_read_alike(monkeypatch):
    taken = []
    monkeypatch.setattr("kbhub.cli.commands.daemon.connect", lambda wanted, _env: taken.append(wanted) or 0)
    bases = ["--base", "a=b", "--base=c=d"]
    lines = [
        ["serve", "--connect"],
        ["serve", "--structured", "--connect", "--read-only", "--protocol", "legacy"],
        ["serve", "--connect", "--root=/tmp", "--config", "c.json", "--cache-dir", "cache", *bases],
    ]
    for line in lines:
        app(line)
        assert proxy.wanted(line) == taken[-1]
    for line in (["serve"], ["serve", "--connect", "--help"], ["serve", "--connect", "--protocol", "x"]):
        assert proxy.wanted(line) is None
    assert proxy.wanted(["serve", "--connect", "--root"]) is None
    assert proxy.wanted(["search", "--connect"]) is None
    assert ConnectOptions() == proxy.wanted(["serve", "--connect"])


def test_status_and_doctor_name_the_daemon_and_stop_ends_it_and_windows_go_on(shared, environment, kbhub, monkeypatch):
    """A record whose lock nobody holds is a dead daemon's, and keeps none from starting."""
    assert kbhub("admin", "stop", code=0).out == "No daemon is running.\n"
    assert daemon_finding(folder_of(environment)).message.startswith("None is running. The first window")
    one, _, _, window, _ = shared
    for name, value in one.env.items():
        monkeypatch.setenv(name, value)
    folder, old = folder_of(one), pid_of(one)

    told, text = kbhub("status", "--json", code=0).json["daemon"], kbhub("status", code=0).out
    assert (told["pid"], told["version"]) == (old, __version__)
    assert f"process {told['pid']} at {told['address']}, started " in text
    until(lambda: "serves 2 windows. It ends when idle." in daemon_finding(folder).message)
    finding, record = daemon_finding(folder), read_record(folder)
    assert finding.level == "ok"
    write_record(folder, replace(record, prefix="/x"))
    assert "that of /x" in daemon_finding(folder).message
    write_record(folder, replace(record, version="0.0.1"))
    assert "replaces it" in daemon_finding(folder).message
    assert ", version 0.0.1; stop it with `kbhub admin stop`" in kbhub("status", code=0).out

    done = stop(folder)

    assert (done.stopped, done.how, done.pid) == (True, "asked", old)
    assert not folder.record.exists()
    assert kbhub("status", "--json", code=0).json["daemon"] is None
    folder.crash.write_text("No space left on device\n")
    finding = daemon_finding(folder)
    assert (finding.level, "left: No space left on device." in finding.message) == ("warning", True)
    write_record(folder, replace(record, pid=os.getpid()))
    assert "1. deploy.md" in text_of(window.ask(call("search", query="canary")))
    assert pid_of(one) not in (old, os.getpid())


def test_a_process_that_only_has_the_number_is_left_alone(environment, monkeypatch):
    """A stale record that names a living process of somebody else ends nothing, whoever holds the lock."""
    signals = []
    monkeypatch.setattr(os, "kill", lambda *given: signals.append(given))
    folder, bystander = folder_of(environment), 1
    folder.make()
    write_record(folder, DaemonRecord(bystander, "another start", "0.1.0", str(folder.path / "none"), None, None))

    assert stop(folder).running is False
    lock = try_lock(folder.lock)
    held = stop(folder)
    lock.close()

    assert (held.running, held.stopped) == (True, False)
    assert "not provably" in held.message
    assert signals == []
    assert process_mark(bystander) not in (None, process_mark(os.getpid()))


def test_where_no_daemon_can_be_the_window_serves_by_itself(kbhub, environment, monkeypatch, capsys):
    blocked = environment.write(environment.home / "file", "")
    monkeypatch.setenv("KBHUB_DATA_DIR", str(blocked / "data"))
    monkeypatch.setattr("kbhub.server.stdio.serve_plainly", lambda: sys.exit("as without a daemon"))
    with pytest.raises(SystemExit, match="as without a daemon"):
        kbhub("serve", "--connect", stdin=b"")
    assert "serving without it" in capsys.readouterr().err


DISCOVER = {"method": "server/discover", "params": {"_meta": META}}


@pytest.fixture(scope="module")
def noted(tmp_path_factory):
    """A project, what opens its windows, and what the daemon answered to both first requests when it left a note."""
    place = furnish(make_environment(tmp_path_factory.mktemp("noted")), "canary")

    def answered():
        window = begin(inside=True)
        told = [window.ask(DISCOVER)["result"], window.handshake()["result"]]
        window.end()
        noted = [note.read_text() for note in folder_of(place).notes.glob("*.json")]
        return told if any("initialize" in note for note in noted) else None  # something changed just before

    with windows(place) as begin:
        yield place, begin, until(answered)


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
    modern, legacy = begin(inside=True), begin()
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
    monkeypatch.chdir(place.project)
    for name, value in settings(place).items():
        monkeypatch.setenv(name, value)
    window, folder, wire = begin(inside=True), folder_of(place), "kbhub.server.daemon.protocol.GREETING_SECONDS"
    monkeypatch.setattr(wire, 0.5)
    monkeypatch.setattr(proxy, "SILENT_SECONDS", 0.1)
    monkeypatch.setattr("kbhub.server.daemon.launch.SIGNAL_SECONDS", 0.5)
    monkeypatch.setattr(proxy, "own_server", lambda wanted: monkeypatch.setattr(wire, PATIENCE) or own_server(wanted))
    os.kill(running(folder).pid, signal.SIGSTOP)
    asked = (call("search", True, query="canary"), DISCOVER, call("search", True, query="canary"))
    lost, _, found = (window.ask(question)["result"] for question in asked)
    window.end()
    monkeypatch.setattr(wire, 0.2)
    done = stop(folder)
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
    monkeypatch.setattr(proxy, "run", lambda made: known.extend(made._told))
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

    window = begin(inside=True)
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
