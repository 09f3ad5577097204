"""Changes are noticed as they happen, however they come."""

import json
import queue
import random
import shutil

import pytest
from filelock import FileLock

import kbhub.sync.background
import kbhub.sync.freshness
import kbhub.sync.watch
from conftest import synced
from kbhub.sync.background import Background
from kbhub.sync.freshness import freshen, is_in_step
from kbhub.sync.watch import LIVE, Watcher
from kbhub.types import Query

WAIT_SECONDS = 30
"""How long a test waits for what should come at once."""


@pytest.fixture(autouse=True)
def restless(monkeypatch):
    """What is done when all else is done begins at once."""
    monkeypatch.setattr(kbhub.sync.background, "REST_SECONDS", 0.0)


class Watched:
    """A hub that is kept in step by events, and what was told on the way."""

    def __init__(self, hub) -> None:
        self.hub, self.background = hub, Background(hub)
        self.told: queue.Queue[frozenset[str] | None] = queue.Queue()
        self.watcher = Watcher(hub, self._changed)

    def _changed(self, changes):
        self.background.look(changes or {})
        self.told.put(None if changes is None else frozenset(changes))

    def __enter__(self):
        self.watcher.start()
        assert self.next() is None  # events have begun, and all has been compared once
        self.settle()
        return self

    def __exit__(self, *_):
        self.watcher.stop(WAIT_SECONDS)
        self.background.stop(WAIT_SECONDS)

    def next(self):
        """What is told next."""
        return self.told.get(timeout=WAIT_SECONDS)

    def until(self, wanted):
        """Wait until something is told; gives what was told before."""
        before = []
        while (told := self.next()) != wanted:
            before.append(told)
        self.settle()
        return before

    def settle(self):
        """Wait until what was told has been done."""
        background = self.background
        with background._changed:
            idle = background._changed.wait_for(lambda: background._thread is None, WAIT_SECONDS)
        assert idle

    def found(self, text):
        return [hit.ref for hit in self.hub.search(Query(text=text, mode="keyword", limit=50)).hits]


@pytest.fixture
def shop(environment):
    """A project with one document."""
    environment.write("knowledge/deploy.md", "# Deploy\n\nPush a tag.\n")
    return environment


def test_a_saved_file_is_found(shop):
    """A new file, one that an editor renames over the old one, an ignore file and a deletion."""
    folder = shop.project / "knowledge"
    with Watched(shop.hub()) as watched:
        assert watched.watcher.state("project") == LIVE
        shop.write("knowledge/new/zebra.md", "# Zebra\n")
        watched.until(frozenset({"project"}))
        if not watched.found("zebra"):  # the folder was told before the file in it
            watched.until(frozenset({"project"}))
        assert watched.found("zebra") == ["new/zebra.md"]
        assert watched.watcher.follows("project")

        shop.write("knowledge/.deploy.md.swp", "# Deploy\n\nGiraffe.\n").rename(folder / "deploy.md")
        watched.until(frozenset({"project"}))
        assert watched.found("giraffe") == ["deploy.md"]

        shop.write("knowledge/.gitignore", "zebra.md\n")
        watched.until(frozenset({"project"}))
        assert watched.found("zebra") == []

        (folder / "deploy.md").unlink()
        watched.until(frozenset({"project"}))
        assert watched.found("giraffe") == []
    assert not watched.watcher._thread.is_alive()


def test_what_is_no_document_is_not_looked_at(shop):
    for folder in ("node_modules/x", ".obsidian"):
        shop.write(f"knowledge/{folder}/start.txt", "")
    with Watched(shop.hub()) as watched:
        for name in ("node_modules/x/README.md", ".obsidian/workspace.md", "image.png", ".deploy.md.swp"):
            shop.write(f"knowledge/{name}", "x")
        (shop.project / "knowledge" / "deploy.md").touch()
        before = watched.until(frozenset({"project"}))
        assert before == []


def test_knowledge_that_appears_disappears_and_comes_back_is_taken_up(environment):
    with Watched(environment.hub()) as watched:
        assert watched.hub.discovery().bases == ()
        environment.write("knowledge/zebra.md", "# Zebra\n")
        watched.until(None)
        if not watched.found("zebra"):  # the folder was seen before the file
            watched.until(None)
        assert watched.found("zebra") == ["zebra.md"]

        shutil.move(environment.project / "knowledge", environment.project / "away")
        watched.until(None)
        environment.write("away/gnu.md", "# Gnu\n")
        shutil.move(environment.project / "away", environment.project / "knowledge")
        watched.until(None)
        if not watched.found("gnu"):
            watched.until(None)
        assert watched.found("gnu") == ["gnu.md"]

        environment.write("knowledge/giraffe.md", "# Giraffe\n")
        watched.until(frozenset({"project"}))
        assert watched.found("giraffe") == ["giraffe.md"]


def test_a_mended_config_is_picked_up(shop):
    shop.write(shop.home / "notes" / "zebra.md", "# Zebra\n")
    config = shop.write(shop.home / ".kbhub.json", '{"bases": {')
    with Watched(shop.hub()) as watched:
        config.write_text(json.dumps({"bases": {"notes": "~/notes"}, "repos": {"*": ["notes"]}}))
        watched.until(None)
        if watched.hub.recent() is None or not watched.found("zebra"):
            watched.until(None)
        assert watched.found("zebra") == ["notes@zebra.md"]
        assert watched.watcher.state("notes") == LIVE


def test_where_events_cannot_be_had_files_are_polled(shop, monkeypatch):
    """An exhausted limit of watches is said, and changes are noticed all the same."""

    def refuse(*_, **__):
        raise OSError("OS file watch limit reached.")

    monkeypatch.setattr(kbhub.sync.watch, "watch", refuse)
    monkeypatch.setattr(kbhub.sync.watch, "POLL_SECONDS", 0.2)
    with Watched(shop.hub()) as watched:
        shop.write("knowledge/zebra.md", "# Zebra\n")
        watched.until(frozenset({"project"}))
        if not watched.found("zebra"):
            watched.until(frozenset({"project"}))
        assert watched.found("zebra") == ["zebra.md"]
        assert "watch limit reached" in watched.watcher.state("project")


def test_a_base_that_another_process_indexes_is_taken_over(shop):
    """While the lock is held elsewhere nothing is done twice; when its holder goes, the rest is done here."""
    hub = shop.hub()
    lock = f"{hub.index(hub.select()[0]).path}.lock"
    background = Background(hub)
    with FileLock(lock):
        background.look()
        with background._changed:
            assert background._changed.wait_for(lambda: background._waiting, WAIT_SECONDS)
        assert not hub.index(hub.select()[0]).path.exists()
    with background._changed:
        assert background._changed.wait_for(lambda: background._thread is None, WAIT_SECONDS)
    assert [hit.ref for hit in hub.search(Query(text="deploy")).hits] == ["deploy.md"]


def test_a_base_that_another_process_indexes_is_not_looked_at(shop, monkeypatch):
    """Not even that the folder has gone is noticed; nor is a lock missed that is taken after the comparison."""
    hub = synced(shop)
    shop.write("knowledge/new.md", "# New\n")
    with FileLock(f"{hub.index(hub.select()[0]).path}.lock"):
        with monkeypatch.context() as patch:
            patch.setattr(kbhub.sync.freshness.Freshness, "is_elsewhere", lambda *_: False)
            assert hub.freshen(max_age=0)[0].busy
        assert hub.freshen()[0].busy
        (shop.project / "knowledge").rename(shop.project / "gone")
        (behind,) = hub.freshen(max_age=0)
    assert behind.busy


def test_a_base_in_step_is_searched_whoever_holds_its_lock(shop, monkeypatch):
    """That its writer has nothing to write is seen from the files; when it had, they are soon compared again."""
    monkeypatch.setattr(kbhub.sync.freshness, "QUICK_SECONDS", 0.0)
    monkeypatch.setattr(kbhub.sync.freshness, "COMPARING_SHARE", 1e-9)
    hub = synced(shop)
    with FileLock(f"{hub.index(hub.select()[0]).path}.lock"):
        assert hub.freshen(max_age=0) == ()
        shop.write("knowledge/new.md", "# New\n")
        (behind,) = hub.freshen(max_age=0)
    assert behind.busy
    assert hub.freshen() == ()
    assert hub.search("new").hits[0].ref == "new.md"


def test_a_search_relies_on_events_for_a_moment(shop, monkeypatch):
    hub = synced(shop)
    freshen(hub)
    shop.write("knowledge/new.md", "# Zebra\n")
    monkeypatch.setattr(kbhub.sync.freshness, "WATCHED_SECONDS", 1e9)
    freshen(hub, watched={"project"})
    assert not hub.search("zebra").hits
    monkeypatch.setattr(kbhub.sync.freshness, "WATCHED_SECONDS", 0.0)
    freshen(hub, watched={"project"})
    assert hub.search("zebra").hits[0].ref == "new.md"


@pytest.mark.parametrize("fault", ["deleted", "a folder", "noise"])
def test_no_events_hide_what_happens_to_an_index(shop, fault):
    """A base whose index is gone or unusable is not in step, however recently it was compared."""
    hub = synced(shop)
    freshen(hub)
    (base,) = hub.select()
    path = hub.index(base).path
    assert is_in_step(hub, base)

    if fault == "noise":
        path.write_bytes(random.Random(1).randbytes(path.stat().st_size))
        assert not hub.search("deploy").hits
    else:
        path.unlink()
    if fault == "a folder":
        path.mkdir()

    assert not is_in_step(hub, base)
    assert [behind.new_index for behind in freshen(hub, watched={base.id})] == [True]


def test_a_search_does_not_rely_on_events_that_are_not_followed(shop):
    hub = shop.hub()
    assert not Watcher(hub, lambda _: None).follows("project")
    with Watched(hub) as watched:
        watched.watcher._plan.polled["project"] = "it is on nfs"
        assert not watched.watcher.follows("project")
