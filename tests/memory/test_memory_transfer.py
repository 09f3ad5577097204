"""Memories go out, come in, come back and change their scope whole, also from two other memory servers."""

import json
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbhub.errors import KbhubError, MemoryNotFound, UsageError, WriteRefused
from kbhub.memory.changes import forget, remember
from kbhub.memory.files import new_file
from kbhub.memory.lists import memories, restore, trashed
from kbhub.memory.transfer import export, import_, memory_graph, move, refile
from kbhub.search.search import search

GRAPH = [
    {"type": "entity", "name": "Anna", "entityType": "team member", "observations": ["Owns billing", "Works in Bern"]},
    {"type": "entity", "name": "Billing", "entityType": "service", "observations": []},
    {"type": "relation", "from": "Anna", "to": "Billing", "relationType": "owns"},
    {"type": "relation", "from": "Boris", "to": "Anna", "relationType": "asks"},
]


def text_of(hub):
    return {memory.title: memory for memory in memories(hub, limit=100).memories}


def test_an_export_taken_in_elsewhere_is_the_same(environment, hub, there, tmp_path):
    environment.write("src/a.py", "def f(): ...\n")
    old = remember(hub, "The timeout is 30 s", tags=["a"], namespace="x/y", about=["src/a.py::f"], client="c").memory
    new = remember(hub, "The timeout is 60 s", supersedes=[old.id], origin="a talk").memory
    remember(hub, "The user likes tea", scope="user")
    remember(hub, id=old.id)
    exported = export(hub)
    file = tmp_path / "memories.json"
    file.write_text(exported.model_dump_json())

    other = environment.hub(env={**environment.env, "KBHUB_DATA_DIR": str(tmp_path / "data2")}, cwd=there.options.cwd)
    done = import_(other, file)

    assert (done.format, done.added, done.known, done.failed) == ("kbhub", 3, 0, ())
    assert export(other) == exported
    assert {new.id, old.id} <= {memory.id for memory in memories(other).memories}
    assert import_(other, exported.model_dump_json()).known == 3
    assert export(other) == exported


def test_tags_and_namespaces_that_were_written_by_hand_come_in_as_they_are(environment, hub, tmp_path):
    one = remember(hub, "Models are trained nightly").memory
    (file,) = environment.memories()
    file.write_text(file.read_text().replace("---\n\n", "tags: [machine learning, C#]\nnamespace: ops notes\n---\n\n"))
    exported = export(hub)
    other = environment.hub(env={**environment.env, "KBHUB_DATA_DIR": str(tmp_path / "data2")})
    done = import_(other, exported.model_dump_json())
    assert (done.added, done.failed) == (1, ())
    assert export(other) == exported
    assert memories(other).memories[0].tags == ("machine learning", "C#")
    assert memories(other).memories[0].id == one.id


@pytest.mark.parametrize(
    ("record", "added"),
    [
        ({"file": "alpha", "uses": 10**30, "last_use": "2024-01-01"}, 2),
        ({"file": "alpha", "uses": 1, "last_use": "0001-01-01T00:00:00+05:00"}, 2),
        ({"file": new_file({"created": "9999-12-31T23:59:59-05:00"}, "alpha")}, 2),
        ({"file": new_file({"tags": ["x" * 70_000]}, "alpha")}, 1),
        ({"file": new_file({"about_hash": {str(number): "" for number in range(12_000)}}, "alpha")}, 1),
        ({"file": "---\n[\n---\n\nalpha\n"}, 1),
        ({"file": "---\nid: abcdefgh\n---\n"}, 1),
        ({"file": "alpha", "uses": -1}, 1),
        ({"file": "alpha", "unknown": 1}, 1),
        ({"scope": "user"}, 1),
        (None, 1),
    ],
)  # fmt: skip
def test_a_memory_that_cannot_be_taken_stops_no_other(hub, record, added):
    text = json.dumps({"format": "kbhub-memories", "version": 1, "memories": [record, {"file": "beta"}]})
    done = import_(hub, text)
    assert (done.added, len(done.failed)) == (added, 2 - added)
    assert {problem.subject for problem in done.failed} <= {"memory 1"}
    listed = {memory.text: memory for memory in memories(hub).memories}
    assert "beta" in listed
    assert remember(hub, id=listed["beta"].id).memory.uses == 1
    assert import_(hub, text).known == added


def test_basic_memory_keeps_text_tags_dates_and_folders(environment, hub, tmp_path):
    folder = shutil.copytree(Path(__file__).parent / "basic", tmp_path / "basic")
    (folder / "out.md").symlink_to("/etc/hostname")

    done = import_(hub, folder)

    assert (done.format, done.added) == ("basic-memory", 2)
    assert {problem.subject for problem in done.failed} == {"out.md", "Empty"}
    coffee = text_of(hub)["Coffee Brewing"]
    assert coffee.text.startswith("# Coffee Brewing\n\n## Observations\n- [method] Pour over gives clarity #clear")
    assert coffee.tags == ("brewing", "two-words", "note")
    assert (coffee.namespace, coffee.created) == ("coffee", "2025-03-01T10:00:00+00:00")
    assert coffee.origin == "basic-memory: coffee/coffee-brewing"
    assert import_(hub, folder).added == 0


def test_a_memory_graph_becomes_one_memory_per_entity(hub):
    done = import_(hub, "\n".join(map(json.dumps, GRAPH)))
    assert (done.format, done.added, done.failed) == ("mcp-memory", 3, ())
    found = text_of(hub)
    assert found["Anna"].text == "# Anna\n\n- Owns billing\n- Works in Bern\n\n## Relations\n\n- owns Billing"
    assert found["Anna"].tags == ("team-member",)
    assert found["Boris"].text == "# Boris\n\n\n## Relations\n\n- asks Anna"
    assert found["Billing"].by == "mcp-memory"


def test_only_a_line_feed_ends_a_line_of_a_memory_graph(hub):
    """JavaScript leaves other line breaks in strings as they are."""
    rows = [{**GRAPH[0], "observations": ["One\u2028two\u2029three\x85four"]}, GRAPH[1]]
    done = import_(hub, "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    assert (done.format, done.added, done.failed) == ("mcp-memory", 2, ())
    assert text_of(hub)["Anna"].text == "# Anna\n\n- One two three four"


def test_broken_lines_are_named_and_stop_no_other(hub):
    """Half a character costs its memory alone."""
    lines = [
        json.dumps(GRAPH[0]), "{", "[]", '{"type": "entity"}', '{"type": "entity", "name": "B", "observations": 3}',
        json.dumps({**GRAPH[0], "name": "a\ud800"}),
    ]  # fmt: skip
    done = import_(hub, "\n".join(lines))
    assert done.added == 2
    assert {problem.subject for problem in done.failed} == {"line 2", "line 3", "line 4", "memory 3"}
    assert json.loads(done.model_dump_json())["added"] == 2


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", "word", '{"format": "kbhub-memories", "version": 2}', "[" * 5000]
)
def test_what_is_none_of_the_formats_is_a_clear_error(hub, text):
    with pytest.raises(UsageError, match="Unknown format"):
        import_(hub, text)
    assert memories(hub).total == 0


def test_a_folder_without_markdown_and_a_file_that_is_not_there_are_errors(hub, tmp_path):
    with pytest.raises(UsageError, match="no Markdown"):
        import_(hub, tmp_path)
    with pytest.raises(OSError, match="No such file"):
        import_(hub, tmp_path / "nothing.json")


def test_an_import_cannot_leave_its_folder_or_take_the_place_of_a_memory(environment, hub):
    """Ids, names and tags of an import are a stranger's."""
    mine = remember(hub, "Mine stays mine").memory
    records = [
        {"file": new_file({"id": "../../../x"}, "One")},
        {"file": new_file({"id": mine.id}, "Two")},
        {
            "file": new_file({"id": "x" * 8, "title": "../..", "tags": ["a/../b"], "created": "never"}, "Three"),
            "uses": 9,
        },
        {"file": new_file({"id": "y" * 8, "tags": ["x" * 70_000]}, "Four")},
        {"file": new_file({"id": "z" * 8, "namespace": "../x"}, "Five")},
        {"file": new_file({"id": "w" * 8}, "a\u0000b")},
    ]

    done = import_(hub, json.dumps({"format": "kbhub-memories", "version": 1, "memories": records}))

    assert (done.added, len(done.failed)) == (4, 2)
    found = {memory.text: memory for memory in memories(hub).memories}
    assert found["Mine stays mine"].id == mine.id
    assert found["Two"].id != mine.id
    assert found["Three"].uses == 0
    assert found["Five"].namespace == "../x"
    assert len(environment.memories()) == 5
    assert not list(environment.home.parent.glob("x*"))


@given(st.text(max_size=100) | st.recursive(st.none() | st.text(max_size=5), st.lists, max_leaves=5).map(json.dumps))
def test_any_text_is_a_graph_or_is_not(text):
    memory_graph(text, [])


def ids_of_files(environment):
    return [re.search(r"^id: (\S+)$", file.read_text(), re.MULTILINE)[1] for file in environment.memories()]


def test_ids_stay_unique_over_all_folders(environment, hub, there):
    """What is imported beside its original gets ids of its own, and what was moved on top of it is there once."""
    old = remember(hub, "The timeout is 30 s").memory
    remember(hub, "The timeout is 60 s", supersedes=[old.id])
    exported = export(hub)
    assert import_(there, exported.model_dump_json()).added == 2
    ids = ids_of_files(environment)
    assert len(set(ids)) == len(ids) == 4
    assert import_(there, exported.model_dump_json()).known == 2
    copies = {memory.text: memory for memory in memories(there).memories}
    assert copies["The timeout is 60 s"].supersedes == (copies["The timeout is 30 s"].id,)

    done = move(there, str(environment.project))
    ids = ids_of_files(environment)

    assert (done.moved, done.known) == (0, 2)
    assert len(set(ids)) == len(ids) == 2
    assert len(forget(there, [copies["The timeout is 30 s"].id]).memories) == 1
    assert [memory.text for memory in memories(there).memories] == ["The timeout is 60 s"]


def test_a_moved_memory_whose_id_another_one_has_gets_a_new_one(environment, hub, there):
    """Files that were copied by hand, or came from another machine, have ids that nobody compared."""
    one = remember(hub, "The timeout is 30 s").memory
    newer = remember(hub, "The timeout is 60 s", supersedes=[one.id]).memory
    other = remember(there, "Deploy on Mondays").memory
    (file,) = (file for file in environment.memories() if other.id in file.name)
    file.write_text(file.read_text().replace(other.id, one.id))

    done = move(there, str(environment.project))
    found = {memory.text: memory for memory in memories(there, limit=10).memories}

    assert (done.moved, done.known, done.renamed) == (2, 0, 1)
    assert found["Deploy on Mondays"].id == one.id
    assert len({memory.id for memory in found.values()}) == 3
    assert found["The timeout is 60 s"].supersedes == (found["The timeout is 30 s"].id,) != (one.id,)
    assert found["The timeout is 60 s"].id == newer.id


def test_a_file_that_cannot_be_edited_is_moved_as_it_is(environment, hub, there):
    """One with broken front matter, and one that is longer than what is read of it."""
    remember(hub, "The timeout is 30 s")
    (file,) = environment.memories()
    contents = {"broken.md": "---\n[\n---\n\nBroken.\n", "long.md": "Long. " * 50_000}
    for name, text in contents.items():
        file.with_name(name).write_text(text)
    assert move(there, str(environment.project)).moved == 3
    moved = {file.name: file for file in environment.memories()}
    assert {name: moved[name].read_text() for name in contents} == contents


def test_forgetting_an_id_that_several_have_touches_none_and_names_them(environment, hub):
    """A copy made by hand has the id of its original; their refs tell them apart."""
    one = remember(hub, "The timeout is 30 s").memory
    (file,) = environment.memories()
    file.with_name("copy.md").write_text(file.read_text().replace("30 s", "40 s"))
    with pytest.raises(MemoryNotFound, match=r"matches several memories: memory@copy\.md, memory@.*Name one of these"):
        forget(hub, [one.id])
    assert memories(hub).total == 2
    assert [memory.ref for memory in forget(hub, ["memory@copy.md"]).memories] == ["memory@copy.md"]
    assert [memory.text for memory in memories(hub).memories] == ["The timeout is 30 s"]


def test_one_id_is_not_given_twice_in_two_scopes_or_projects(environment, hub, there):
    remember(hub, "The timeout is 30 s")
    again = remember(there, "The timeout is 30 s").memory
    remember(hub, "The timeout is 30 s", scope="user")
    assert len(set(ids_of_files(environment))) == 3
    for any_hub in (there, environment.hub(cwd=there.options.cwd)):
        assert remember(any_hub, "The timeout is 30 s").memory.id == again.id


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
    with pytest.raises(KbhubError, match="No forgotten memory 'nowhere'"):
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
