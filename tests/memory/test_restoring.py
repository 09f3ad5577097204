"""Forgotten memories come back, and memories change their scope, without losing anything."""

import pytest

from kbhub.errors import MemoryNotFound, UsageError, WriteRefused
from kbhub.memory.catalog import all_known
from kbhub.memory.changes import forget, remember
from kbhub.memory.lists import memories, restore, trashed
from kbhub.memory.transfer import refile
from kbhub.search.search import search
from kbhub.ui.memories import alike


@pytest.mark.parametrize("scope", ["project", "user"])
def test_a_forgotten_memory_comes_back_as_it_was(hub, scope):
    made = remember(hub, "The xylophone is tuned on Fridays.", tags=["music"], scope=scope).memory
    forget(hub, [made.id])
    assert memories(hub).total == 0

    (lost,) = trashed(hub)
    assert (lost.id, lost.scope, lost.title) == (made.id, scope, made.title)
    back = restore(hub, made.id)

    assert (back.ref, back.text, back.tags) == (made.ref, made.text, made.tags)
    assert [hit.ref for hit in search(hub, "xylophone").hits] == [made.ref]
    assert trashed(hub) == ()


def test_what_is_remembered_again_is_not_overwritten_and_the_last_forgotten_of_several_comes_back(hub, clock):
    """By its id; by its path in the trash any of them does."""
    made = remember(hub, "The xylophone is tuned on Fridays.").memory
    forget(hub, [made.id])
    clock.now += 60
    remember(hub, "The xylophone is tuned on Fridays.", tags=["later"])
    with pytest.raises(UsageError, match="exists again"):
        restore(hub, made.id)
    assert len(trashed(hub)) == 1  # the older one stays there

    forget(hub, [made.id])
    assert [one.id for one in trashed(hub)] == [made.id] * 2
    assert restore(hub, made.id).tags == ("later",)
    with pytest.raises(MemoryNotFound):
        restore(hub, "nowhere")


def test_a_memory_changes_its_scope_with_its_id_and_uses(environment, hub):
    made = remember(hub, "The xylophone is tuned on Fridays.").memory
    remember(hub, id=made.id)

    moved = refile(hub, made.id, "user")

    assert (moved.id, moved.scope, moved.uses) == (made.id, "user", 1)
    assert [one.scope for one in memories(hub).memories] == ["user"]
    assert trashed(hub) == ()
    with pytest.raises(UsageError, match="already"):
        refile(hub, made.id, "user")


def test_a_file_of_any_bytes_is_moved_forgotten_and_restored_whole(environment, hub):
    """Also one that is longer than what is read of a memory, or not UTF-8."""
    remember(hub, "The xylophone is tuned.", scope="user")
    folder = environment.memories()[0].parent
    (folder / "long.md").write_bytes(whole := b"Sm\xf8rrebr\xf8d " * 20_000)

    refile(hub, "long", "project")
    forget(hub, ["long"])
    restore(hub, trashed(hub)[0].name)

    assert [path.read_bytes() for path in folder.parent.rglob("long*.md")] == [whole]


def test_a_link_is_forgotten_and_what_it_leads_to_stays(environment, hub):
    remember(hub, "The xylophone is tuned.")
    (file,) = environment.memories()
    (file.parent / "link.md").symlink_to(file.name)

    with pytest.raises(WriteRefused, match="it is a link"):
        remember(hub, id="link.md", tags=["music"])
    forget(hub, ["link.md"])

    assert [path.name for path in file.parent.glob("*.md")] == [file.name]
    assert "music" not in file.read_text("utf-8")


def test_on_the_command_line(environment, kbhub):
    """Without an id those that can be restored are listed."""
    kbhub("remember", "The xylophone is tuned on Fridays.", code=0)
    name = memories(environment.hub()).memories[0].id
    kbhub("forget", name, code=0)

    assert f"{name}  The xylophone is tuned on Fridays  (project" in kbhub("memories", "restore", code=0).out
    assert kbhub("memories", "restore", "--json", code=0).json["memories"][0]["id"] == name
    assert "Restored memory@the-xylophone" in kbhub("memories", "restore", name, code=0).out
    assert "no memories" in kbhub("memories", "restore", code=0).out


def test_memories_that_are_alike_are_found(environment, hub):
    """Each pair once; what another one replaces is not named again."""
    one = remember(hub, "The staging database is wiped on Sundays.").memory
    two = remember(hub, "Every Sunday the staging database is wiped.").memory
    remember(hub, "Releases need the VPN.")
    hub.sync()

    ((first, second, similarity),) = alike(hub, all_known(hub))
    assert {first.facts.id, second.facts.id} == {one.id, two.id}
    assert 0.65 <= similarity <= 1
    remember(hub, id=one.id, supersedes=[two.id])
    assert alike(hub, all_known(hub)) == []
