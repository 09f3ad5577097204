"""What kills a process or its storage: all is whole afterwards, heals, and says why."""

import os
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from filelock import FileLock

import faults
from corpus import sentences
from kbhub.index.sqlite.index import SqliteIndex, index_path
from kbhub.models.embedding import packaged_embedder
from kbhub.sync.sync import sync_base
from kbhub.types import Base

KILLS, KILLS_AT_ONCE = 120, 8
"""Moments at which a process is killed in all, and those of them that every run of the tests takes."""

PHASES = ("indexing", "optimising", "checkpointing", "outside")
POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals and modes")


@dataclass
class Scene:
    """A base and the index that it has when a process begins to bring it in step."""

    base: Base
    index: Path
    saved: Path | None = None
    """The folder of the index as it is before; none where there is none."""
    changes: dict[str, int] = field(default_factory=dict)
    """Changes of files that bringing it in step takes, per phase."""
    content: list = field(default_factory=list)
    """What the index holds afterwards."""

    def restore(self) -> None:
        shutil.rmtree(self.index.parent, ignore_errors=True)
        if self.saved:
            shutil.copytree(self.saved, self.index.parent)

    def sync(self):
        return sync_base(self.base, self.index, packaged_embedder(), faults.LIMITS)

    def rehearse(self, children: faults.Children) -> None:
        self.restore()
        self.changes = children.call("index_until", self.base.path, self.index, "none", 0)
        self.changes["outside"] = sum(self.changes.values())
        shutil.rmtree(self.index.parent)
        self.sync()
        self.content = faults.content(self.index)


def put(folder: Path, documents: dict[str, str], age_hours: int) -> None:
    for name, text in documents.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# {name}\n\n{text}\n")
        moment = file.stat().st_mtime_ns - age_hours * 3_600_000_000_000
        os.utime(file, ns=(moment, moment))


@pytest.fixture(scope="module")
def scenes(tmp_path_factory, children):
    """A first indexing, and one after many edits."""
    made = []
    for warm in (False, True):
        folder = tmp_path_factory.mktemp("scene").resolve()
        base = Base(id="project", path=folder / "notes", origin="knowledge")
        scene = Scene(base, index_path(base, folder / "cache"))
        put(base.path, sentences(60), age_hours=2)
        if warm:
            scene.sync()
            scene.saved = folder / "saved"
            shutil.copytree(scene.index.parent, scene.saved)
            put(base.path, {f"notes/{number:03}.md": f"edited {number}" for number in range(20)}, age_hours=1)
            put(base.path, {f"new/{number}.md": f"new {number} " * 50 for number in range(10)}, age_hours=1)
            for number in range(40, 50):
                (base.path / f"notes/{number:03}.md").unlink()
                (base.path / f"notes/{number + 10:03}.md").rename(base.path / f"renamed-{number}.md")
        scene.rehearse(children)
        made.append(scene)
    return made


@POSIX
@pytest.mark.parametrize(
    "number",
    [pytest.param(number, marks=[] if number < KILLS_AT_ONCE else pytest.mark.slow) for number in range(KILLS)],
)
def test_a_killed_process_leaves_a_whole_index_that_heals(scenes, children, number):
    scene, phase = scenes[number % 2], PHASES[number // 2 % len(PHASES)]
    moment = random.Random(number).randrange(scene.changes[phase])
    scene.restore()
    reader = SqliteIndex(scene.index, "project")
    if scene.saved:
        with reader.snapshot():
            before = reader.counts()

    child = children.start("index_until", scene.base.path, scene.index, phase, moment)
    if phase == "outside":  # wherever it is by the time that it is hit
        for _ in range(moment + 1):
            assert children.line() == "change"
        os.kill(child, signal.SIGKILL)

    assert children.ended() == -signal.SIGKILL
    # The lock goes with its process, or as soon as a `git` that was just being started has been.
    with FileLock(f"{scene.index}.lock", timeout=10):
        pass
    if scene.saved:
        with reader.snapshot():
            assert reader.counts()[0] >= before[0] - 20
        reader.close()
    faults.sound(scene.index)
    report = scene.sync()
    faults.sound(scene.index)
    assert report.notes == ()
    assert faults.content(scene.index) == scene.content


INDEX = """
import faults, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests themselves run in the background
faults.tell_of_transactions()
from kbhub.__main__ import main; sys.exit(main(['admin', 'index']))
"""


@POSIX
@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGINT, signal.SIGINT]], ids=["TERM", "INT twice"])
def test_a_signal_ends_indexing_in_order(environment, numbers):
    for name, text in sentences(40).items():
        environment.write(f"knowledge/{name}", f"# {name}\n\n{text}\n")
    arguments = [sys.executable, "-c", INDEX]
    env = faults.environment() | environment.env
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=environment.project, env=env
    ) as process:
        try:
            assert process.stdout
            for _ in range(3):
                assert process.stdout.readline() == b"transaction\n"
            for number in numbers:
                process.send_signal(number)
            _, errors = process.communicate(timeout=faults.CHILD_SECONDS)
        finally:
            process.kill()

    assert process.returncode in (-numbers[0].value, 128 + signal.SIGINT)
    assert b"Traceback" not in errors
    assert errors.count(b"\n") <= len(numbers)
    hub = environment.hub()
    path = hub.index(hub.select()[0]).path
    faults.sound(path)
    (report,) = hub.sync()
    assert report.notes == ()
    assert report.added + report.unchanged == 40
    faults.sound(path)
