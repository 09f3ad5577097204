"""A discovery is repeated when a file that decided it says so, and only then."""

import json
import os
import shutil
import time

import pytest

import kbhub.hub
import kbhub.workspace.files


@pytest.fixture
def place(environment, monkeypatch):
    """A user with a config and notes, in a project with knowledge and docs."""
    monkeypatch.setattr(kbhub.hub, "REDISCOVER_SECONDS", 0.0)
    monkeypatch.setattr(kbhub.workspace.files, "RACY_SECONDS", 0.0)
    for path in ("knowledge/a.md", "../notes/a.md", "../other/a.md"):
        environment.write(path, "# A\n")
    (environment.project / "docs/deep").mkdir(parents=True)
    (environment.home / "notes").symlink_to(environment.project.parent / "notes")
    environment.configure(bases={"notes": "~/notes"}, repos={"*": "notes"})
    return environment


def swapped(link, target):
    link.unlink()
    link.symlink_to(target)


def linked(folder, target):
    shutil.move(folder, f"{folder}.old")
    folder.symlink_to(target)


def pointer(place, **said):
    (place.project / ".kbhub.json").write_text(json.dumps({"knowledge": "knowledge", **said}))


def other(place):
    return place.project.parent / "other"


CHANGES = {
    "config changed": lambda place: place.configure(bases={"others": str(other(place))}, repos={"*": "others"}),
    "config gone": lambda place: (place.home / ".kbhub.json").unlink(),
    "config replaced by a link": lambda place: linked(place.home / ".kbhub.json", other(place) / "config.json"),
    "pointer appears": lambda place: pointer(place, name="Named"),
    "knowledge gone": lambda place: shutil.rmtree(place.project / "knowledge"),
    "knowledge leads out": lambda place: linked(place.project / "knowledge", other(place)),
    "knowledge in the repository's sibling": lambda place: shutil.move(
        place.project / "knowledge", place.project.with_name("shop.knowledge")
    ),
    "link to a base leads elsewhere": lambda place: swapped(place.home / "notes", other(place)),
    "base gone": lambda place: shutil.rmtree(place.project.parent / "notes"),
    "no repository any more": lambda place: shutil.rmtree(place.project / ".git"),
    "document deep in docs": lambda place: place.write("docs/deep/b.md", "# B\n"),
    "memory of the user": lambda place: place.write(f"{place.env['KBHUB_DATA_DIR']}/memories/user/m.md", "# M\n"),
    "base is a vault": lambda place: (place.project.parent / "notes/.obsidian").mkdir(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_is_found(place, change):
    place.write("../other/config.json", json.dumps({"bases": {"linked": str(other(place))}, "repos": {"*": "linked"}}))
    hub = place.hub()
    before = hub.current()
    time.sleep(0.02)  # the clock of the file system ticks
    assert hub.current() is before
    change(place)
    assert hub.current() == place.hub().current() != before


@pytest.mark.parametrize("said", [{"name": "Longer"}, {"name": "B"}, {"enabled": False}, None])
def test_a_pointer_counts_as_it_is_now(place, said):
    """Even with the time and size that it had."""
    pointer(place, name="A")
    file = place.project / ".kbhub.json"
    hub, status = place.hub(), file.stat()
    before = hub.current()
    time.sleep(0.02)
    file.unlink() if said is None else pointer(place, **said)
    if said == {"name": "B"}:
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert hub.current() == place.hub().current() != before


def test_trust_counts_at_once(place):
    pointer(place, knowledge="../other")
    hub = place.hub()
    assert "project" not in {base.id for base in hub.discovery().bases}
    time.sleep(0.02)
    place.hub().trust.add(place.project / ".kbhub.json", other(place))
    assert hub.discovery().bases[0].path == other(place)
    time.sleep(0.02)
    place.hub().trust.revoke(place.project / ".kbhub.json")
    assert hub.discovery() == place.hub().discovery()


def test_nothing_is_read_again_while_nothing_changes(place, monkeypatch):
    hub = place.hub()
    before = hub.current()
    monkeypatch.setattr(kbhub.hub, "load_config", None)
    place.write("../notes/new.md", "# New\n")  # what a base holds decides nothing
    assert hub.current() is before
    assert hub.config() is before[0]
    assert hub.discovery() is before[1]


def test_what_changed_just_now_is_read_again(place, monkeypatch):
    """The clock of a file system may not tell a second change from the first."""
    monkeypatch.setattr(kbhub.workspace.files, "RACY_SECONDS", 60.0)
    hub, found = place.hub(), []
    before = hub.current()
    load = kbhub.hub.load_config
    monkeypatch.setattr(kbhub.hub, "load_config", lambda *given: found.append(given) or load(*given))
    assert hub.current() is before  # as it is equal
    assert found
