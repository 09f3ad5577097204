"""What nothing needs is found and deleted; what somebody may need is not."""

import os
import shutil
import time

import pytest
from filelock import FileLock

from conftest import DAY
from kbhub.extensions.models.llm import Expansion
from kbhub.extensions.models.server import StoredAnswers
from kbhub.memory.changes import remember
from kbhub.render.bases import cleanup_report
from kbhub.render.terminal import text as text_of
from kbhub.setup.cache import RESTING_SECONDS, delete, examine_cache
from kbhub.workspace.files import own_folder


@pytest.fixture
def indexed(environment):
    """A project and two bases of the user's, all indexed."""
    environment.write("knowledge/x.md", "# X\n")
    for name in ("notes", "gone"):
        environment.write(environment.home / name / "a.md", "# A\n")
    bases = '{"bases": {"notes": "~/notes", "gone": "~/gone"}, "repos": {"*": ["notes", "gone"]}}'
    environment.write(environment.home / ".kbhub.json", bases)
    environment.hub().sync()
    return environment


def indexes(environment):
    folder = environment.hub().cache / "bases"
    return {path.name.rsplit("-", 1)[0] for path in folder.glob("*.db")}


def test_indexes_in_use_are_never_found_and_an_index_that_no_base_has_any_more_is_found(indexed):
    other = indexed.project.parent / "app"
    other.mkdir()
    indexed.write(indexed.project.parent / "app.knowledge" / "s.md", "# S\n")
    indexed.hub(cwd=other).sync()
    assert {"app-knowledge", "app.knowledge"} & indexes(indexed)
    indexed.configure(bases={"notes": "~/notes", "gone": "~/gone"})
    assert examine_cache(indexed.hub(cwd=other)).found == examine_cache(indexed.hub(cwd=indexed.home)).found == ()
    indexed.configure(bases={"notes": "~/notes"})
    found = examine_cache(indexed.hub()).found
    assert [one.base for one in found] == [indexed.home / "gone"]
    assert "no known base is" in found[0].reason


def test_the_index_of_a_folder_that_is_gone_is_deleted_unless_somebody_writes_it(indexed):
    shutil.rmtree(indexed.home / "gone")
    hub = indexed.hub()
    found = examine_cache(hub)
    assert [(one.kind, one.base) for one in found.found] == [("index", indexed.home / "gone")]
    assert "is gone" in found.found[0].reason
    assert found.bytes > 0

    with FileLock(f"{found.found[0].path}.lock"):
        done = delete(hub, found)
    assert (done.deleted, done.freed) == ((), 0)
    assert "is using it" in done.kept[0].message
    assert found.found[0].path.exists()

    done = delete(hub, found)
    assert (done.deleted, done.freed, done.kept) == ((found.found[0].path,), found.bytes, ())
    assert not list((hub.cache / "bases").glob("gone-*"))
    assert indexes(indexed) == {"notes", "shop-knowledge"}


def test_what_was_set_aside_and_locks_without_index_are_found(indexed):
    folder = indexed.hub().cache / "bases"
    index = next(folder.glob("notes-*.db"))
    aside = index.with_suffix(".aside.db")
    aside.write_bytes(b"old")
    lock, journal, kept = (
        folder / f"{name}" for name in ("old-0123456789ab.db.lock", "old-0123456789ab.db-wal", f"{index.name}.lock")
    )
    for path in (lock, journal, kept):
        path.touch()
    unknown = folder / "README.txt"
    unknown.write_text("mine")

    found = examine_cache(indexed.hub())
    delete(indexed.hub(), found)

    assert {(one.path, one.kind) for one in found.found} == {(aside, "leftover"), (journal, "leftover"), (lock, "lock")}
    assert index.exists()
    assert kept.exists()
    assert unknown.exists()
    assert not any(map(os.path.exists, (aside, journal, lock)))


def test_a_base_that_came_back_keeps_its_index_and_so_do_memories_that_are_off(indexed):
    folder = indexed.home / "gone"
    folder.rename(indexed.home / "away")
    found = examine_cache(indexed.hub())
    (indexed.home / "away").rename(folder)
    delete(indexed.hub(), found)
    assert "gone" in indexes(indexed)
    remember(indexed.hub(), "staging restarts at noon")
    indexed.hub().sync()
    indexed.configure(bases={"notes": "~/notes", "gone": "~/gone"}, memory={"enabled": False})
    assert len(indexes(indexed)) == 4
    assert examine_cache(indexed.hub()).found == ()


def test_nothing_outside_the_cache_is_touched(indexed, tmp_path):
    """A link in the cache is no index, and where it leads is nobody's business."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine-0123456789ab.db").write_bytes(b"mine")
    folder = indexed.hub().cache / "bases"
    (folder / "link-0123456789ab.db").symlink_to(elsewhere / "mine-0123456789ab.db")
    (indexed.hub().cache / "eval").symlink_to(elsewhere)
    StoredAnswers(elsewhere).save(Expansion(), ["a"])
    (indexed.hub().cache / "answers").symlink_to(elsewhere / "answers")

    assert examine_cache(indexed.hub()).found == ()

    shutil.rmtree(folder)
    folder.symlink_to(elsewhere)
    assert examine_cache(indexed.hub()).found == ()


def test_corpora_of_measurements_that_rest_and_caches_are_listed_with_size_and_age_and_deleted(indexed):
    cache = indexed.hub().cache
    old, new = cache / "eval" / "0123456789abcdef", cache / "eval" / "fedcba9876543210"
    for folder in (old, new):
        (folder / "bases1" / "all").mkdir(parents=True)
        (folder / "bases1" / "all" / "a.md").write_text("x" * 100)
    os.utime(old / "bases1" / "all" / "a.md", (0, 0))
    assert RESTING_SECONDS > 60
    found = examine_cache(indexed.hub())
    delete(indexed.hub(), found)
    assert [(one.path, one.kind, one.bytes) for one in found.found] == [(old, "corpus", 100)]
    assert not old.exists()
    assert new.exists()

    stored = StoredAnswers(indexed.hub().cache)
    for number in range(3):
        stored.save(Expansion(), [str(number)])
    for path in stored.folder.iterdir():
        os.utime(path, (time.time() - 5 * DAY,) * 2)
    mine = stored.folder / "notes.txt"
    mine.write_text("mine")

    found = examine_cache(indexed.hub())
    row, total = text_of(cleanup_report(found)).splitlines()
    assert row.split("  ")[1:3] == ["5 days ago", str(stored.folder)]
    assert total.startswith("1 item, ")
    done = delete(indexed.hub(), found)

    assert [(one.kind, one.path, one.age // DAY) for one in found.found] == [("answers", stored.folder, 5)]
    assert found.bytes == done.freed > 0
    assert done.deleted == (stored.folder,)
    assert [*stored.folder.iterdir()] == [mine]
    assert examine_cache(indexed.hub()).found == ()
    mine.unlink()
    stored.save(Expansion(), ["a"])
    delete(indexed.hub(), examine_cache(indexed.hub()))
    assert not stored.folder.exists()


@pytest.fixture
def keeping(indexed):
    """Two bases of the user's with a kept text each, of which one is deleted."""
    bases = {name: {"knowledge": f"~/{name}", "keepDeleted": ["*"]} for name in ("notes", "gone")}
    indexed.configure(bases=bases, repos={"*": list(bases)})
    indexed.hub().sync(full=True)
    for name in ("notes", "gone"):
        (indexed.home / name / "a.md").unlink()
    return indexed


def kept_texts(environment):
    return sorted((own_folder("data", environment.env) / "kept").glob("*/*.kept"))


def test_kept_texts_of_known_bases_are_not_mentioned_and_what_says_of_which_they_are_may_be_damaged(keeping):
    assert len(kept_texts(keeping)) == 2
    assert examine_cache(keeping.hub()).spared == ()
    assert examine_cache(keeping.hub(cwd=keeping.home)).spared == ()
    for about in (own_folder("data", keeping.env) / "kept").glob("*/base.json"):
        about.write_text("{")
    assert [(one.base, "unknown" in one.reason) for one in examine_cache(keeping.hub()).spared] == [(None, True)] * 2


@pytest.mark.parametrize("lost", ["config", "folder"])
def test_kept_texts_of_no_base_are_told_and_never_deleted(keeping, lost):
    """Nobody can make them anew: their documents are deleted, and a folder may lie on a drive that is away."""
    before = kept_texts(keeping)
    if lost == "config":
        keeping.configure(bases={"notes": "~/notes"})
    else:
        (keeping.home / "gone").rmdir()

    found = examine_cache(keeping.hub())
    done = delete(keeping.hub(), found)

    (spared,) = found.spared
    assert spared.base == keeping.home / "gone"
    assert spared.path.parent == own_folder("data", keeping.env) / "kept"
    assert spared.bytes > 0
    assert ("is gone" if lost == "folder" else "no known base is") in spared.reason
    assert spared.path not in {one.path for one in found.found}
    assert kept_texts(keeping) == before
    assert "cannot be recreated" in text_of(cleanup_report(done))
