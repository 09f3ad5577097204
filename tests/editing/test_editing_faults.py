"""A process that is killed while it changes documents leaves the old one or the new one, and never half of one."""

import errno
import os
import random
import shutil
import signal

import pytest

import faults
from conftest import synced
from kbhub.editing.trash import delete_document, restore
from kbhub.errors import WriteRefused
from kbhub.workspace.trash import Trash

KILLS, KILLS_AT_ONCE = 100, 4
"""Moments at which a process is killed in all, and those of them that every run of the tests takes."""

MOST_SECONDS = 0.06
"""After which the last process is killed; by then it has written several documents."""

STEPS_AT_ONCE = 2
"""Steps of each kind of change before which every run of the tests kills; `-m slow` tries all."""

OLD, INDEX, GONE = b"# Old\n", b"[a](a.md)\n", b"# Gone\n"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")


def places(environment) -> dict:
    return {"project": str(environment.project), "home": str(environment.home), "env": environment.env}


def prepare(environment) -> None:
    """Make a base with a document, a link to it, and a document in the trash."""
    for folder in (environment.project / "knowledge", environment.home.parent / "data"):
        shutil.rmtree(folder, ignore_errors=True)
    for path, data in (("a.md", OLD), ("index.md", INDEX), ("gone.md", GONE)):
        environment.write(f"knowledge/{path}", data)
    hub = synced(environment)
    delete_document(hub, "gone.md")


def check(environment, act: str, *, finished: bool) -> None:
    """Assert that every document is the old one or the new one, and is somewhere."""
    knowledge = environment.project / "knowledge"
    there = {path.relative_to(knowledge).as_posix(): path.read_bytes() for path in knowledge.rglob("*.md")}
    kept = {entry.path: entry for entry in Trash(environment.hub().data).documents()}
    root = environment.home.parent / "data" / "trash"
    for entry in kept.values():
        assert (root / entry.id / "document").read_bytes() == {"a.md": OLD, "gone.md": GONE}[entry.path]
    after = {
        "create": "fresh/b.md" in there,
        "update": there.get("a.md") == OLD + b"\nnew\n",
        "delete": "a.md" not in there and "a.md" in kept,
        "restore": there.get("gone.md") == GONE and "gone.md" not in kept,
        "rename": there.get("fresh/c.md") == OLD and "a.md" not in there,
    }
    assert after[act] or not finished
    assert there.get("a.md", OLD) in (OLD, OLD + b"\nnew\n")
    assert "a.md" in there or "a.md" in kept or "fresh/c.md" in there
    assert "gone.md" in there or "gone.md" in kept
    assert there.get("fresh/b.md", b"# New\n").endswith(b"# New\n")
    assert there["index.md"] in (INDEX, b"[a](fresh/c.md)\n")
    assert not any(path.endswith(".tmp") for path in there)


@pytest.mark.parametrize("anywhere", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["", "anywhere"])
@pytest.mark.parametrize("act", ["create", "update", "delete", "restore", "rename"])
def test_a_change_that_is_cut_short_leaves_the_old_or_the_new(environment, children, act, anywhere):
    prepare(environment)
    steps = children.call("edit_until", places(environment), act, 1000)
    check(environment, act, finished=True)
    assert steps > STEPS_AT_ONCE
    for step in range(steps) if anywhere else random.Random(act).sample(range(steps), STEPS_AT_ONCE):
        prepare(environment)
        children.start("edit_until", places(environment), act, step)
        assert children.ended() == -signal.SIGKILL
        check(environment, act, finished=False)


def test_what_was_cut_short_can_be_done_again(environment, children):
    prepare(environment)
    for step in range(4):
        children.start("edit_until", places(environment), "restore", step)
        assert children.ended() == -signal.SIGKILL
    gone = environment.project / "knowledge" / "gone.md"
    assert gone.exists() or restore(environment.hub(), "gone.md").indexed
    assert gone.read_bytes() == GONE


def test_a_document_that_cannot_be_removed_is_not_in_the_trash(environment, mounted):
    """However often it is tried; it is where it was."""
    prepare(environment)
    knowledge = environment.project / "knowledge"
    refusals = mounted("read-only", knowledge, "try_to_delete", places(environment), "a.md", 2)
    assert [refusal.split(":")[0] for refusal in refusals] == ["'a.md' was not changed"] * 2
    assert [entry.path for entry in Trash(environment.hub().data).documents()] == ["gone.md"]
    assert (knowledge / "a.md").read_bytes() == OLD


def test_a_document_that_was_removed_is_in_the_trash_whatever_fails_then(environment, monkeypatch):
    prepare(environment)
    hub = environment.hub()

    def failing(_) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("kbhub.workspace.files.Folder.flush", failing)
    with pytest.raises(WriteRefused):
        delete_document(hub, "a.md")
    monkeypatch.undo()
    check(environment, "delete", finished=True)


@pytest.mark.parametrize("kills", [KILLS_AT_ONCE, pytest.param(KILLS, marks=pytest.mark.slow)])
def test_a_long_document_is_never_half_written(environment, children, kills):
    chance = random.Random(kills)
    folder = environment.project / "knowledge"
    environment.write("knowledge/long.md", b"version 0\n" * faults.VERSION_LINES)
    for _ in range(kills):
        children.start("store_until", folder, chance.uniform(0.001, MOST_SECONDS))
        assert children.ended() == -signal.SIGALRM
        for file in folder.glob("*.md"):
            lines = file.read_bytes().splitlines()
            assert (len(set(lines)), len(lines)) == (1, faults.VERSION_LINES), file
            if file.name != "long.md":
                file.unlink()
