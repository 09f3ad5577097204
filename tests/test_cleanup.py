"""What nothing needs is found and deleted; what somebody may need is not."""

from __future__ import annotations

import os
import shutil

import pytest
from filelock import FileLock

from kbhub.cleanup import RESTING_SECONDS, delete, examine_cache


@pytest.fixture
def indexed(environment):
    """A project and two bases of the user's, all indexed."""
    environment.write("knowledge/x.md", "# X\n")
    for name in ("notes", "gone"):
        environment.write(environment.home / name / "a.md", "# A\n")
    environment.write(
        environment.home / ".kbhub.json",
        '{"bases": {"notes": "~/notes", "gone": "~/gone"}, "repos": {"*": ["notes", "gone"]}}',
    )
    environment.hub().sync()
    return environment


def indexes(environment):
    folder = environment.hub().cache / "bases"
    return {path.name.rsplit("-", 1)[0] for path in folder.glob("*.db")}


def test_indexes_in_use_are_never_found(indexed):
    """Also from another project, and for a base that is not active there."""
    other = indexed.home.parent / "other"
    other.mkdir()
    indexed.write(indexed.home / ".kbhub.json", '{"bases": {"notes": "~/notes", "gone": "~/gone"}}')

    assert examine_cache(indexed.hub(cwd=other)).found == ()


def test_the_index_of_a_folder_that_is_gone_is_deleted(indexed):
    """With its journals and its lock; the others stay."""
    shutil.rmtree(indexed.home / "gone")
    hub = indexed.hub()

    found = examine_cache(hub)
    done = delete(hub, found)

    assert [(one.kind, one.base) for one in found.found] == [("index", indexed.home / "gone")]
    assert "is gone" in found.found[0].reason
    assert (done.deleted, done.freed, done.kept) == ((found.found[0].path,), found.bytes, ())
    assert found.bytes > 0
    assert not list((hub.cache / "bases").glob("gone-*"))
    assert indexes(indexed) == {"notes", "shop-knowledge"}


def test_an_index_that_no_base_has_any_more_is_found(indexed):
    """The folder is there, but the config has forgotten it."""
    indexed.write(indexed.home / ".kbhub.json", '{"bases": {"notes": "~/notes"}}')

    found = examine_cache(indexed.hub()).found

    assert [one.base for one in found] == [indexed.home / "gone"]
    assert "no base that kbhub knows of" in found[0].reason


def test_what_was_set_aside_and_locks_without_index_are_found(indexed):
    """Left over from damage and from indexes that are gone."""
    folder = indexed.hub().cache / "bases"
    index = next(folder.glob("notes-*.db"))
    aside = index.with_suffix(".aside.db")
    aside.write_bytes(b"old")
    lock = folder / "old-0123456789ab.db.lock"
    lock.touch()
    unknown = folder / "README.txt"
    unknown.write_text("mine")

    found = examine_cache(indexed.hub())
    delete(indexed.hub(), found)

    assert {(one.path, one.kind) for one in found.found} == {(aside, "leftover"), (lock, "lock")}
    assert index.exists()
    assert unknown.exists()
    assert not aside.exists()
    assert not lock.exists()


def test_an_index_that_somebody_writes_is_left_alone(indexed):
    """A held lock is respected, and said."""
    shutil.rmtree(indexed.home / "gone")
    hub = indexed.hub()
    found = examine_cache(hub)
    path = found.found[0].path

    with FileLock(f"{path}.lock"):
        done = delete(hub, found)

    assert (done.deleted, done.freed) == ((), 0)
    assert "uses it" in done.kept[0].message
    assert path.exists()


def test_a_base_that_came_back_keeps_its_index(indexed):
    """What was found is looked at again before it is deleted."""
    folder = indexed.home / "gone"
    folder.rename(indexed.home / "away")
    found = examine_cache(indexed.hub())
    (indexed.home / "away").rename(folder)

    delete(indexed.hub(), found)

    assert "gone" in indexes(indexed)


def test_nothing_outside_the_cache_is_touched(indexed, tmp_path):
    """A link in the cache is no index, and where it leads is nobody's business."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine-0123456789ab.db").write_bytes(b"mine")
    folder = indexed.hub().cache / "bases"
    (folder / "link-0123456789ab.db").symlink_to(elsewhere / "mine-0123456789ab.db")
    (indexed.hub().cache / "eval").symlink_to(elsewhere)

    assert examine_cache(indexed.hub()).found == ()

    shutil.rmtree(folder)
    folder.symlink_to(elsewhere)
    assert examine_cache(indexed.hub()).found == ()


def test_corpora_of_measurements_are_deleted_when_they_rest(indexed):
    """One that was made a moment ago may be in use."""
    cache = indexed.hub().cache
    old, new = cache / "eval" / "0123456789abcdef", cache / "eval" / "fedcba9876543210"
    for folder in (old, new):
        (folder / "bases1" / "all").mkdir(parents=True)
        (folder / "bases1" / "all" / "a.md").write_text("x" * 100)
    for path in (old / "bases1", old):
        os.utime(path, (0, 0))
    assert RESTING_SECONDS > 60

    found = examine_cache(indexed.hub())
    delete(indexed.hub(), found)

    assert [(one.path, one.kind, one.bytes) for one in found.found] == [(old, "corpus", 100)]
    assert not old.exists()
    assert new.exists()


def test_a_projects_index_is_kept_from_elsewhere(indexed):
    """Looked at from the home directory, every project's knowledge is still somebody's."""
    sibling = indexed.project.parent / "app.knowledge"
    (indexed.project.parent / "app").mkdir()
    indexed.write(sibling / "s.md", "# S\n")
    indexed.hub(cwd=indexed.project.parent / "app").sync()
    assert "app-knowledge" in indexes(indexed) or "app.knowledge" in indexes(indexed)

    assert examine_cache(indexed.hub(cwd=indexed.home)).found == ()
