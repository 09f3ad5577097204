"""A discovery is repeated when a file that decided it says so, and only then."""

import json
import os
import shutil
import time

import pytest

import kbhub.hub
import kbhub.workspace.files
from kbhub.hub import Hub, HubOptions


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A home with a config and notes, and a repository with knowledge and docs."""
    monkeypatch.setattr(kbhub.hub, "REDISCOVER_SECONDS", 0.0)
    monkeypatch.setattr(kbhub.workspace.files, "RACY_SECONDS", 0.0)
    for folder in ("home", "repo/.git", "repo/knowledge", "repo/docs/deep", "notes", "other", "data"):
        (tmp_path / folder).mkdir(parents=True)
        if folder not in ("home", "repo/.git", "repo/docs/deep", "data"):
            (tmp_path / folder / "a.md").write_text("# A\n")
    (tmp_path / "home/notes").symlink_to(tmp_path / "notes")
    config(tmp_path, notes="~/notes")
    return tmp_path


def config(place, **bases):
    text = json.dumps({"bases": bases, "repos": {"*": list(bases)}})
    (place / "home/.kbhub.json").write_text(text)


def opened(place):
    home = place / "home"
    env = {"HOME": str(home), "KBHUB_DATA_DIR": str(place / "data")}
    return Hub(HubOptions(root=place / "repo", home=home, env=env, cache=place / "cache", cwd=place))


def swapped(link, target):
    link.unlink()
    link.symlink_to(target)


def linked(folder, target):
    shutil.move(folder, f"{folder}.old")
    folder.symlink_to(target)


def pointer(place, **said):
    (place / "repo/.kbhub.json").write_text(json.dumps({"knowledge": "knowledge", **said}))


CHANGES = {
    "config changed": lambda place: config(place, notes="~/notes", others=str(place / "other")),
    "config gone": lambda place: (place / "home/.kbhub.json").unlink(),
    "config replaced by a link": lambda place: linked(place / "home/.kbhub.json", place / "other/config.json"),
    "pointer appears": lambda place: pointer(place, name="Named"),
    "knowledge gone": lambda place: shutil.rmtree(place / "repo/knowledge"),
    "knowledge leads out": lambda place: linked(place / "repo/knowledge", place / "other"),
    "knowledge in the repository's sibling": lambda place: (
        shutil.rmtree(place / "repo/knowledge"),
        (place / "repo.knowledge").mkdir(),
    ),
    "link to a base leads elsewhere": lambda place: swapped(place / "home/notes", place / "other"),
    "base gone": lambda place: shutil.rmtree(place / "notes"),
    "no repository any more": lambda place: (place / "repo/.git").rmdir(),
    "document deep in docs": lambda place: (place / "repo/docs/deep/b.md").write_text("# B\n"),
    "memory of the user": lambda place: (
        (place / "data/memories/user").mkdir(parents=True),
        (place / "data/memories/user/m.md").write_text("# M\n"),
    ),
    "base is a vault": lambda place: (place / "notes/.obsidian").mkdir(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_is_found(place, change):
    (place / "other/config.json").write_text(
        '{"bases": {"linked": "%s"}, "repos": {"*": "linked"}}' % (place / "other")
    )
    hub = opened(place)
    before = hub.current()
    time.sleep(0.02)  # the clock of the file system ticks
    assert hub.current() is before
    change(place)

    assert hub.current() == opened(place).current() != before


@pytest.mark.parametrize("said", [{"name": "Longer"}, {"name": "B"}, {"enabled": False}, None])
def test_a_pointer_counts_as_it_is_now(place, said):
    """Even with the time and size that it had."""
    pointer(place, name="A")
    file = place / "repo/.kbhub.json"
    hub, status = opened(place), file.stat()
    before = hub.current()
    time.sleep(0.02)
    file.unlink() if said is None else pointer(place, **said)
    if said == {"name": "B"}:
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert hub.current() == opened(place).current() != before


def test_trust_counts_at_once(place):
    pointer(place, knowledge="../other")
    hub = opened(place)
    assert "project" not in {base.id for base in hub.discovery().bases}
    time.sleep(0.02)
    opened(place).trust.add(place / "repo/.kbhub.json", place / "other")

    assert hub.discovery().bases[0].path == place / "other"
    time.sleep(0.02)
    opened(place).trust.revoke(place / "repo/.kbhub.json")
    assert hub.discovery() == opened(place).discovery()


def test_nothing_is_read_again_while_nothing_changes(place, monkeypatch):
    hub = opened(place)
    before = hub.current()
    monkeypatch.setattr(kbhub.hub, "load_config", None)
    (place / "notes/new.md").write_text("# New\n")  # what a base holds decides nothing
    assert hub.current() is before
    assert hub.config() is before[0]
    assert hub.discovery() is before[1]


def test_what_changed_just_now_is_read_again(place, monkeypatch):
    """The clock of a file system may not tell a second change from the first."""
    monkeypatch.setattr(kbhub.workspace.files, "RACY_SECONDS", 60.0)
    hub, found = opened(place), []
    before = hub.current()
    load = kbhub.hub.load_config
    monkeypatch.setattr(kbhub.hub, "load_config", lambda *given: found.append(given) or load(*given))

    assert hub.current() is before  # as it is equal
    assert found
