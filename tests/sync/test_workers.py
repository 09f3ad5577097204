"""A large first index is read by processes of their own, and is the very index that one process makes."""

import os
import pickle
import queue
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import apsw
import pytest

import kbhub.sync.indexer
from conftest import synced
from kbhub.documents.walk import Limits
from kbhub.errors import EmbedderError
from kbhub.sync.indexer import GREETING, Job, _send
from kbhub.workspace.child_processes import end, start
from test_cli import ROOT

FILES = 40
END_SECONDS = 20.0
"""Bound of waiting for a process to end."""


@pytest.fixture
def many(environment, monkeypatch):
    """A base whose files are many, on a machine of two cores."""
    monkeypatch.setattr(kbhub.sync.indexer, "LARGE_FILES", FILES)
    monkeypatch.setattr(kbhub.sync.indexer, "PART_FILES", 7)
    monkeypatch.setattr(kbhub.sync.indexer, "cores", lambda: 2)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setattr(kbhub.sync.indexer, "PART_BYTES", 700)
    environment.write("knowledge/long.md", "words " * 200)  # more than a part, beside which nothing is held ahead
    for number in range(FILES):
        same = "The same words stand in each of them.\n" if number % 2 else f"Only here: zebra{number}.\n"
        environment.write(f"knowledge/{number:03}.md", f"---\ntags: [t{number % 3}]\n---\n# Note {number}\n\n{same}")
    environment.write("knowledge/bad.md", b"# Caf\xe9\n\xff\n")
    environment.write("knowledge/twin.md", (environment.project / "knowledge/001.md").read_bytes())
    return environment


@pytest.fixture
def alone(many, tmp_path, monkeypatch):
    """What one process makes of the same files."""
    with monkeypatch.context() as here:
        here.setattr(kbhub.sync.indexer, "cores", lambda: 1)
        hub = many.hub(cache=tmp_path / "alone")
        return hub.sync()[0], content(hub)


def content(hub):
    """All that an index says, with the ids of its rows."""
    connection = apsw.Connection(str(hub.index(hub.select()[0]).path))
    tables = ("document", "property", "link", "chunk", "vector", "problem")
    said = {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables}
    said["fts"] = connection.execute("SELECT rowid, * FROM fts ORDER BY 1").fetchall()
    connection.close()
    return said


def started(monkeypatch):
    """The processes that are started from here on."""
    processes, start = [], kbhub.sync.indexer._started
    monkeypatch.setattr(kbhub.sync.indexer, "_started", lambda *given: processes.append(start(*given)) or processes[-1])
    return processes


def told(report):
    """What a report says that must not depend on who did it; a text that two workers meet is embedded by both."""
    assert report.vectors_made in (FILES + 2, FILES + 3)
    return report.model_dump(exclude={"seconds", "vectors_made", "vectors_reused"})


def test_workers_make_the_same_index(many, alone, monkeypatch):
    """Row by row; and none of them is left."""
    processes = started(monkeypatch)
    hub = many.hub()
    (report,) = hub.sync()
    assert len(processes) == 2
    assert [process.returncode is not None for process in processes] == [True, True]
    assert content(hub) == alone[1]
    assert told(report) == told(alone[0])
    assert report.added == FILES + 3
    assert hub.search("zebra8").hits[0].path == "008.md"


def test_a_worker_that_dies_costs_nothing_but_time(many, alone, monkeypatch):
    """What it has not answered is read by the process that waited: one dies before its first answer, one after it."""
    processes, answer = started(monkeypatch), kbhub.sync.indexer.Workers._answer

    def die(worker):
        worker.kill()
        worker.wait()
        worker.stdout.read()

    def last_words(self, number):
        if number == 0 and self._processes[0]:
            die(self._processes[0])
        said = answer(self, number)
        if number == 1 and self._processes[1]:
            die(self._processes[1])
        return said

    monkeypatch.setattr(kbhub.sync.indexer.Workers, "_answer", last_words)
    hub = many.hub()
    (report,) = hub.sync()

    assert {process.returncode for process in processes} <= {0, -signal.SIGKILL}  # it may have had nothing left to do
    assert content(hub) == alone[1]
    assert told(report) == told(alone[0])


def test_another_program_is_no_worker(many, tmp_path, monkeypatch):
    """One that does not find this kbhub ends before it has heard all; one that prints something is not listened to."""
    deep = "/".join(letter * 200 for letter in "abcdefgh")
    for number in range(120):  # more than a pipe holds
        many.write(f"knowledge/{deep}/{number}.md", f"# Deep {number}\n")
    monkeypatch.setattr(kbhub.sync.indexer, "cores", lambda: 1)
    here = synced(many, cache=tmp_path / "alone")
    monkeypatch.setattr(kbhub.sync.indexer, "cores", lambda: 2)
    processes, start = [], kbhub.sync.indexer._started
    others = {
        "kbhub/__init__": "raise SystemExit(3)",
        "sitecustomize": "import os, sys; print('INFO ready', flush=True); sys.stdin.buffer.read(); os._exit(0)",
    }

    def start_another(*given):
        module, text = list(others.items())[len(processes)]
        file = tmp_path / str(len(processes)) / f"{module}.py"
        file.parent.mkdir(parents=True)
        file.write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / str(len(processes))))
        processes.append(start(*given))
        return processes[-1]

    monkeypatch.setattr(kbhub.sync.indexer, "_started", start_another)
    hub = synced(many)

    assert content(hub) == content(here)
    assert [process.returncode is not None for process in processes] == [True, True]


def test_a_worker_that_cannot_speak_ends(monkeypatch):
    """Who waits for it would wait for ever."""
    ready, codes = queue.Queue(), []
    monkeypatch.setattr(os, "_exit", codes.append)
    ready.put(b"read")
    _send(ready, Mock(flush=Mock(side_effect=MemoryError)))
    assert codes == [1]


def test_where_no_worker_can_run_the_index_is_made_without(many, alone, monkeypatch, tmp_path):
    for number, python in enumerate(("", "/nowhere/python")):
        monkeypatch.setattr(sys, "executable", python)
        hub = synced(many, cache=tmp_path / str(number))
        assert content(hub) == alone[1]


def test_a_module_in_the_working_directory_is_not_loaded(many, monkeypatch):
    trace = many.project / "loaded"
    for name in ("kbhub", "numpy", "apsw", "pickle"):
        many.write(f"{name}.py", f"open({str(trace)!r}, 'w').close()\nraise SystemExit(3)\n")
    monkeypatch.chdir(many.project)
    worker = start("kbhub.sync.indexer")
    pickle.dump(Job(many.hub().select()[0], Limits(file_bytes=1, files=1), None, ()), worker.stdin)
    worker.stdin.close()
    said = worker.stdout.read()
    end(worker)
    assert not trace.exists()
    assert said == GREETING


def test_an_error_here_ends_them(many, monkeypatch):
    processes = started(monkeypatch)

    def stop(*_):
        raise EmbedderError("enough")

    with pytest.raises(EmbedderError):
        many.hub().sync(progress=stop)
    assert {process.returncode for process in processes} <= {0, -signal.SIGKILL}  # it may have had nothing left to do


@pytest.mark.skipif(sys.platform == "win32", reason="processes end otherwise there")
def test_workers_end_with_who_started_them(many):
    """Also where that is killed; Ctrl-C does not make them speak."""
    script = (
        "import os, sys, threading\n"
        "from kbhub.workspace.child_processes import be_frugal\n"
        "be_frugal(os.environ)\n"
        "import kbhub.sync.indexer as workers\n"
        "workers.LARGE_FILES, workers.PART_FILES, workers.cores = 2, 1, lambda: 2\n"
        "start = workers._started\n"
        "def started(*given):\n"
        "    process = start(*given)\n"
        "    print(process.pid, flush=True)\n"
        "    return process\n"
        "workers._started = started\n"
        "from kbhub import Hub\n"
        "def stop(name, done, todo):\n"
        "    print('at', flush=True)\n"
        "    threading.Event().wait()\n"
        "Hub.open('.').sync(progress=stop)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=many.project,
        env={**os.environ, **many.env, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        pids = [int(process.stdout.readline()) for _ in range(2)]
        assert process.stdout.readline() == "at\n"
        for pid in pids:
            os.kill(pid, signal.SIGINT)  # which they leave to the other
            os.kill(pid, 0)
        process.kill()
        process.communicate(timeout=END_SECONDS)
    end = time.monotonic() + END_SECONDS
    while any(map(is_alive, pids)):
        assert time.monotonic() < end, "a worker outlives the process that started it"
        os.sched_yield()


def is_alive(pid):
    """Whether a process runs; one that nobody has waited for is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
