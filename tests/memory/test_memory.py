"""What is remembered is found again, in the right project, once, and as its owner left it."""

import json
import os
import shutil
from functools import partial

import pytest

from conftest import NOON, make_repository
from kbhub.errors import DocumentNotFound, MemoriesUnavailable, MemoryNotFound, UsageError, WriteRefused
from kbhub.index.sqlite.index import IndexWriter, index_path
from kbhub.memory.catalog import definition, subjects_changed
from kbhub.memory.changes import forget, remember
from kbhub.memory.exchange import exchange
from kbhub.memory.lists import memories, restore
from kbhub.memory.transfer import import_, move, refile
from kbhub.search.document_signals import SUPERSEDED_FACTOR
from kbhub.types import Query
from kbhub.workspace.discovery import project_folders
from repositories import add_remote, commit

VPN = "Releases need the VPN; without it the upload hangs."


def texts(found):
    return [memory.text for memory in found.memories]


def test_a_memory_is_a_readable_file_with_where_it_comes_from(environment, hub):
    done = remember(hub, VPN, tags=["#deploy"], namespace="Ops/Release", client="some-agent", origin="the release log")
    (file,) = environment.memories()
    assert file.name == f"releases-need-the-vpn-without-it-the-{done.memory.id}.md"
    assert file.read_text().endswith(f"---\n\n{VPN}\n")
    memory = done.memory
    assert (done.did, memory.scope, memory.tags, memory.namespace) == ("stored", "project", ("deploy",), "ops/release")
    assert (memory.by, memory.source, memory.origin) == ("some-agent", "agent", "the release log")
    assert memory.created == "2027-01-15T08:00:00+00:00"
    assert memory.project == str(environment.project)
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    head = commit(environment.project, 1_700_000_000)
    add_remote(environment.project, "h.example:a/b")
    assert remember(environment.hub(), "Tests need Docker").memory.commit == head


def test_to_search_among_memories_renews_vectors_of_another_model(environment, hub):
    remember(hub, VPN)
    os.utime(environment.memories()[0], (NOON, NOON))
    hub.sync()
    index = hub.index(hub.discovery().bases[0])
    with IndexWriter(index.path) as writer, writer.transaction():
        writer.set_meta({"embedder": "another"})
    assert texts(memories(hub, "vpn"))
    with index.snapshot():
        assert index.meta("embedder") == hub.embedder().fingerprint


def test_without_memories_or_where_kbhub_is_off_there_are_no_bases_for_them(environment, hub):
    assert hub.discovery().bases == ()
    remember(hub, VPN, scope="user")
    assert [base.id for base in hub.discovery().bases] == ["user"]
    forget(hub, everything=True, scope="user")
    assert hub.discovery().bases == ()
    remember(hub, VPN)
    off = environment.hub(env={**environment.env, "KBHUB_DISABLE": "1"})
    assert off.discovery().bases == ()
    environment.write(".kbhub.json", '{"enabled": false}')
    assert environment.hub().discovery().bases == ()


def test_other_projects_do_not_see_it_and_the_users_own_are_seen_everywhere(hub, there):
    remember(hub, VPN)
    remember(hub, "The user prefers short commit messages", scope="user")
    assert texts(memories(there)) == ["The user prefers short commit messages"]
    assert len(memories(hub).memories) == 2
    assert not there.search(Query(text="vpn", mode="keyword")).hits


def test_what_the_user_told_for_every_project_is_known_in_each(hub):
    first = remember(hub, VPN, scope="user")
    assert remember(hub, VPN).memory.id == first.memory.id
    assert remember(hub, "Tests need Docker").did == "stored"
    assert remember(hub, "Tests need Docker", scope="user").did == "stored"


@pytest.mark.parametrize("indexed", [True, False])
def test_what_a_project_says_again_strengthens_its_own_memory(environment, there, indexed):
    """Not an equal one of the user's, which all projects see; each command has a hub of its own."""
    there = {"cwd": there.options.cwd}
    for text in ("The timeout is 30 s", "Tests need Docker", "Cats sleep all day", VPN):
        remember(environment.hub(), text)
        own = remember(environment.hub(**there), text).memory
        users = remember(environment.hub(), text, scope="user").memory
        if not indexed:
            shutil.rmtree(environment.env["KBHUB_CACHE_DIR"])
        again = remember(environment.hub(**there), text, tags=["there"])
        assert (again.did, again.memory.id, again.memory.tags) == ("strengthened", own.id, ("there",))
        found = {memory.id: memory for memory in memories(environment.hub(**there), limit=100).memories}
        assert (found[users.id].tags, found[users.id].uses) == ((), 0)


def test_what_a_text_had_a_later_id_for_is_not_written_twice(environment, hub, there):
    """The first id was another project's, which has forgotten it since; the index lags."""
    first = remember(hub, VPN).memory
    own = remember(there, VPN).memory
    forget(hub, [first.id])
    shutil.rmtree(environment.env["KBHUB_CACHE_DIR"])
    assert remember(environment.hub(cwd=there.options.cwd), VPN).memory.id == own.id != first.id
    assert len(environment.memories()) == 1


def test_what_a_file_says_that_no_index_knows_yet_is_known(environment, hub):
    """Somebody wrote it just now, under a name and an id of their own."""
    remember(hub, "Cats sleep all day in the office")
    hub.sync()
    (file,) = environment.memories()
    file.with_name("mine.md").write_text(f"---\nid: mine\n---\n\n{VPN}\n")
    assert remember(environment.hub(), VPN).memory.id == "mine"


def test_what_is_said_again_in_another_order_confirms_the_memory(environment, hub, clock):
    first = remember(hub, "The tests are run with uv run pytest -n 4").memory
    doubt = remember(hub, "The tests are now run with uv run pytest -n 8").memory
    assert doubt.may_supersede == (first.id,)
    clock.pass_days(1)
    for text in ("Run the tests with uv run pytest -n 4", "uv run pytest -n 4 runs the tests"):
        again = remember(hub, text, client="a")
        assert (again.did, again.memory.id, again.memory.text) == ("strengthened", first.id, first.text)
        assert again.notes[0].startswith("Taken for the same in another order: ")
    assert (again.memory.uses, len(environment.memories())) == (2, 2)
    top = hub.search(Query(text="how are the tests run")).hits[0]
    assert (top.ref, top.outdated) == (first.ref, None)


def test_a_repeat_does_not_revive_what_was_superseded_or_is_replaced_by_it(hub):
    old = remember(hub, "The tests are run with uv run pytest -n 4").memory
    better = remember(hub, "Run the tests with uv run pytest -n 4", supersedes=[old.id])
    assert (better.did, better.superseded) == ("stored", (old.id,))
    again = remember(hub, "Use uv run pytest -n 4 to run the tests")
    assert (again.did, again.memory.id) == ("strengthened", better.memory.id)


def test_what_is_equal_is_known_among_any_number_of_near_ones(environment, hub):
    """The three nearest are others: the equal one has more articles, and its text comes from a change."""
    one = remember(hub, "Cats sleep all day in the office").memory
    remember(hub, "It is that the gateway is that it times out in the 30 seconds", id=one.id)
    for number in range(31, 36):
        remember(hub, f"Gateway times out in {number} seconds")
    hub.sync()
    assert remember(environment.hub(), "Gateway times out in 30 seconds").memory.id == one.id


def test_what_is_superseded_is_kept_marked_and_ranked_below(environment, hub):
    old = remember(hub, "The timeout of the gateway is 30 seconds").memory
    new = remember(hub, "The timeout of the gateway is 60 seconds", supersedes=[old.id])
    assert new.superseded == (old.id,)
    assert not new.near
    listed = {memory.id: memory for memory in memories(hub).memories}
    assert listed[old.id].superseded_by == (new.memory.id,)
    assert listed[new.memory.id].supersedes == (old.id,)
    hub.sync()
    hits = hub.search(Query(text="timeout of the gateway", explain=True)).hits
    assert [hit.ref for hit in hits] == [new.memory.ref, old.ref]
    assert hits[1].trace.factors["strength"] < SUPERSEDED_FACTOR < hits[0].trace.factors["strength"]
    assert hits[1].outdated == f"superseded by {new.memory.id}"
    third = remember(hub, "The timeout of the gateway is 90 seconds")
    assert (third.did, [near.id for near in third.near]) == ("stored", [new.memory.id])
    assert f'"supersedes": ["{new.memory.id}"]' in third.notes[0]

    forget(hub, [new.memory.id, third.memory.id])
    assert memories(hub).memories[0].superseded_by == ()
    with pytest.raises(UsageError, match="itself"):
        remember(hub, id=old.id, supersedes=[old.id])


def test_confirming_strengthens_and_to_be_shown_does_not(environment, hub, clock):
    one = remember(hub, VPN, client="a").memory
    before = environment.memories()[0].read_bytes()
    for _ in range(3):
        memories(hub)
        memories(hub, "vpn")
        hub.search(Query(text="vpn"))
    assert memories(hub).memories[0].uses == 0
    clock.pass_days(90)
    done = remember(hub, id=one.id)
    assert (done.did, done.memory.uses, done.memory.strength) == ("confirmed", 1, 0.6)
    assert environment.memories()[0].read_bytes() == before


def test_a_change_keeps_the_file_its_name_and_what_was_not_changed(environment, hub, clock):
    one = remember(hub, VPN, tags=["a"], namespace="x").memory
    (file,) = environment.memories()
    file.write_text(file.read_text().replace("---\n\n", "mine: kept  # by hand\n---\n\n"))
    clock.pass_days(1)
    done = remember(hub, "Releases need no VPN any more", id=one.ref, tags=["b"])
    assert (done.did, done.memory.text, done.memory.tags) == ("updated", "Releases need no VPN any more", ("b",))
    assert (done.memory.namespace, done.memory.created, done.memory.id) == ("x", one.created, one.id)
    assert done.memory.title == "Releases need no VPN any more"
    assert done.memory.updated != one.updated
    assert environment.memories() == [file]
    assert "mine: kept  # by hand" in file.read_text()
    assert hub.search(Query(text="no vpn any more")).hits[0].ref == one.ref


def test_editing_and_deleting_by_hand_is_as_good_as_a_call(environment, hub):
    remember(hub, VPN)
    remember(hub, "Tests need Docker")
    docker, vpn = sorted(environment.memories(), key=lambda file: "docker" not in file.name)
    docker.unlink()
    renamed = vpn.with_name("mine.md")
    vpn.rename(renamed)
    renamed.write_text("---\ntags: [hand]\n---\nReleases need a badge.\n")
    (vpn.parent / "sub").mkdir()
    (vpn.parent / "sub" / "new.md").write_text("No front matter at all.")

    listed = {memory.id: memory for memory in memories(hub).memories}

    said = {name: memory.text for name, memory in listed.items()}
    assert said == {"mine": "Releases need a badge.", "new": "No front matter at all."}
    assert listed["mine"].tags == ("hand",)
    assert remember(hub, id="new", tags=["x"]).memory.tags == ("x",)
    assert len(forget(hub, ["sub/new.md", "memory@mine.md"]).memories) == 2
    assert not memories(hub).memories


def test_search_among_memories_finds_no_documents_and_obeys_filters(environment, hub):
    environment.write("knowledge/release.md", "# Release\n\nReleases need the VPN and much more.\n")
    remember(hub, VPN, tags=["deploy", "Net"], namespace="ops/release")
    remember(hub, "Releases need a changelog", tags=["deploy"], namespace="ops")
    remember(hub, "Releases of the user need tea", scope="user")

    def found(**filters):
        return sorted(texts(memories(hub, "releases need", **filters)))

    assert len(found()) == 3
    assert found(tags=["deploy", "net"]) == [VPN]
    assert found(namespace="ops") == ["Releases need a changelog", VPN]
    assert found(namespace="op") == []
    assert found(scope="user") == ["Releases of the user need tea"]
    assert memories(hub, "releases need", limit=1).total == 3


def test_all_that_fit_a_filter_are_found_however_many_there_are(environment, hub):
    """Also one that fits the query least."""
    remember(hub, "Release 0 needs the word vpn0, and many others that nobody asks for", tags=["rare"])
    (file,) = environment.memories()
    for number in range(1, 30):
        file.with_name(f"{number}.md").write_text(f"Release {number} needs the word vpn{number}\n")
    assert memories(hub, "release word", limit=30).memories[-1].tags == ("rare",)
    assert [memory.tags for memory in memories(hub, "release word", tags=["rare"], limit=3).memories] == [("rare",)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": ""}, {"text": "a\0b"}, {"text": "x" * 100_001}, {"text": None}, {"text": "x", "tags": ["a b"]},
        {"text": "x", "namespace": "a/*"}, {"text": "x", "about": ["nothing.md"]},
        {"text": "x", "about": ["../../etc/passwd"]}, {"text": "x", "about": ["/etc/passwd"]},
        {"text": "x", "scope": "shared"}, {"text": "x", "supersedes": ["unknown1"]}, {"text": "x", "id": "unknown1"},
        {"id": "%"}, {"id": "../user/x.md"},
    ],
)  # fmt: skip
def test_bad_input_is_a_clear_error_and_changes_nothing(environment, hub, wrong):
    with pytest.raises((UsageError, MemoryNotFound)) as caught:
        remember(hub, wrong.pop("text", None), **wrong)
    assert len(str(caught.value)) < 400
    assert environment.memories() == []


def test_nothing_is_written_where_the_user_wants_none(environment, hub):
    new = (lambda: remember(hub, VPN), lambda: import_(hub, VPN), lambda: exchange(hub))
    old = [partial(act, hub, "x") for act in (move, restore)]
    old += [partial(forget, hub, ["x"]), partial(refile, hub, "x", "user")]
    for settings, calls in (({"readOnly": True}, (*new, *old)), ({"memory": {"enabled": False}}, new)):
        environment.configure(**settings)
        hub.rediscover()
        for call in calls:
            with pytest.raises(WriteRefused):
                call()
    assert environment.memories() == []


def test_without_a_project_there_is_only_the_users_scope(environment):
    hub = environment.hub(cwd=environment.home)
    with pytest.raises(UsageError, match="user"):
        remember(hub, VPN)
    assert remember(hub, VPN, scope="user").did == "stored"


def test_shared_memories_lie_in_the_project_if_the_user_allowed_it(environment, hub):
    environment.write("knowledge/a.md", "# Cats\n\nCats sleep.\n")
    environment.configure(memory={"shared": True})
    hub.rediscover()
    done = remember(hub, VPN, scope="shared")
    assert done.memory.ref.startswith("memories/releases-need")
    assert (environment.project / "knowledge" / done.memory.ref).is_file()
    assert hub.search(Query(text="vpn")).hits[0].ref == done.memory.ref
    assert [memory.id for memory in memories(hub, scope="shared").memories] == [done.memory.id]
    assert [memory.id for memory in memories(hub, "vpn", scope="shared").memories] == [done.memory.id]
    assert remember(hub, id=done.memory.id).memory.uses == 1
    assert forget(hub, [done.memory.id]).memories[0].scope == "shared"
    assert (environment.project / "knowledge" / "a.md").is_file()


def test_shared_memories_are_never_written_through_a_link_or_into_a_base_that_is_read_only(environment, hub, tmp_path):
    environment.write("knowledge/a.md", "# Cats\n")
    (tmp_path / "elsewhere").mkdir()
    (environment.project / "knowledge" / "memories").symlink_to(tmp_path / "elsewhere")
    environment.configure(memory={"shared": True})
    with pytest.raises(UsageError, match="link"):
        remember(hub, VPN, scope="shared")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (environment.project / "knowledge" / "memories").unlink()
    (environment.project / "knowledge").rename(environment.project / "docs")
    hub.rediscover()
    with pytest.raises(UsageError, match="read-only"):
        remember(hub, VPN, scope="shared")


def test_forgetting_by_filter_forgets_whole_segments_and_what_it_says(environment, hub, clock):
    remember(hub, "Cats sleep", namespace="user")
    remember(hub, "Dogs bark", namespace="user/prefs", tags=["x"])
    remember(hub, "Birds sing", namespace="users")
    remember(hub, "Fish swim", scope="user", namespace="user")
    done = forget(hub, namespace="user")
    assert sorted(memory.text for memory in done.memories) == ["Cats sleep", "Dogs bark"]
    assert sorted(texts(memories(hub))) == ["Birds sing", "Fish swim"]
    assert not hub.search(Query(text="cats", mode="keyword")).hits


def test_forgetting_by_age_counts_from_the_last_use(hub, clock):
    for text in ("Cats sleep", "Dogs bark"):
        remember(hub, text)
    clock.pass_days(100)
    remember(hub, "Dogs bark")
    clock.pass_days(50)
    assert [memory.text for memory in forget(hub, older_than=100).memories] == ["Cats sleep"]


def test_a_filter_that_would_match_everything_is_refused(environment, hub):
    one, _ = (remember(hub, text, tags=["all"]).memory for text in ("Cats sleep", "Dogs bark"))
    with pytest.raises(MemoryNotFound):  # of one of them, and nothing is forgotten
        forget(hub, [one.id, "%"])
    for filters in ({}, {"scope": "project"}, {"tags": ["all"]}):
        with pytest.raises(UsageError, match="`everything`, or `--all` on the command line"):
            forget(hub, **filters)
    with pytest.raises(UsageError, match="not a valid number of days"):
        forget(hub, older_than=-1)
    with pytest.raises(UsageError):
        forget(hub, ["x"], tags=["all"])
    assert len(environment.memories()) == 2
    assert len(forget(hub, tags=["all"], everything=True).memories) == 2


def test_a_first_commit_or_an_origin_loses_no_memory_without_a_word(environment, hub):
    remember(hub, VPN)
    add_remote(environment.project, "git@h.example:a/b")
    remember(hub, "Tests need Docker")
    listed = memories(hub)
    assert listed.total == 1
    command = listed.notes[0].split("`")[1].split()[-1]
    assert move(hub, command).moved == 1
    assert sorted(texts(memories(hub))) == [VPN, "Tests need Docker"]
    assert not memories(hub).notes


def test_clones_share_memories_by_their_origin_and_memories_follow_a_folder_that_was_moved(environment, tmp_path, hub):
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, address in zip(folders, ("git@h.example:a/b.git", "https://H.example/a/b"), strict=True):
        make_repository(folder)
        add_remote(folder, address)
    remember(environment.hub(cwd=folders[0]), VPN)
    assert texts(memories(environment.hub(cwd=folders[1]))) == [VPN]
    (folder,) = project_folders(tmp_path / "data")
    assert folder.name.startswith("b-")
    assert json.loads((folder / ".project.json").read_text()) == {"project": "h.example/a/b", "by": "origin"}

    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    old = environment.hub(cwd=before)
    one = remember(old, VPN).memory
    remember(old, id=one.id)
    before.rename(after)
    moved = environment.hub(cwd=after)
    assert memories(moved).total == 0

    done = move(moved, str(before))

    assert done.moved == 1
    assert [(memory.text, memory.uses) for memory in memories(moved).memories] == [(VPN, 1)]
    assert not done.source.exists()
    for wrong in (str(before), "nothing", str(after)):
        with pytest.raises(UsageError):
            move(moved, wrong)


def test_a_subject_is_found_by_the_end_of_its_path_if_only_one_fits(environment, hub):
    for path in ("docs/run.md", "docs/a/twin.md", "docs/b/twin.md"):
        environment.write(f"knowledge/{path}", "# Run\n\n## Back\n\nB\n")
    hub.sync()
    for name in ("run.md#Back", "https://x.org/docs/run/#Back"):
        assert remember(hub, VPN, about=[name]).memory.about == ("docs/run.md#Back",)
    with pytest.raises(DocumentNotFound, match=r"'twin.md' is ambiguous"):
        remember(hub, VPN, about=["twin.md"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.rst", "Guide\n=====\n\nBack\n----\n\nB\n"), ("a.adoc", "= Guide\n\n== Back\n\nB\n"),
        ("a.org", "* Guide\n\n** Back\n\nB\n"),
    ],
)  # fmt: skip
def test_a_subject_is_a_section_of_any_text_format(environment, hub, name, text):
    environment.write(f"knowledge/{name}", text)
    assert remember(hub, VPN, about=[f"{name}#Back"]).memory.about == (f"{name}#Back",)
    environment.write(f"knowledge/{name}", f"{text}\nC\n")
    assert [change.state for change in subjects_changed(hub)] == ["changed"]


def test_a_memory_says_when_its_subject_changed_or_vanished(environment, hub):
    environment.write("knowledge/run.md", "# Run\n\nA\n\n## Back\n\nB\n")
    environment.write("src/a.py", "def f(x):\n    return x\n\n\nclass K:\n    def g(self):\n        return 1\n")
    about = ["run.md#Back", "src/a.py::f", "src/a.py::K.g", "src/a.py"]
    one = remember(hub, VPN, about=about).memory
    assert one.about == tuple(about)
    assert subjects_changed(hub) == ()

    environment.write("src/a.py", "class K:\n    def g(self):\n        return 2\n\n\ndef f(x):\n    return x\n")
    environment.write("knowledge/run.md", "# Run\n\nC\n\n## Back\n\nB\n")
    found = {(change.subject, change.state) for change in subjects_changed(hub)}
    assert found == {("src/a.py::K.g", "changed"), ("src/a.py", "changed")}

    (environment.project / "src" / "a.py").write_text("x = 1\n")
    (environment.project / "knowledge" / "run.md").unlink()
    states = {change.subject: change.state for change in subjects_changed(hub)}
    vanished = dict.fromkeys(("run.md#Back", "src/a.py::f", "src/a.py::K.g"), "vanished")
    assert states == {**vanished, "src/a.py": "changed"}


@pytest.mark.parametrize(
    ("code", "symbol", "first", "lines"),
    [
        ("a()\nfunction a(x) {\n  return 1;\n}\nb\n", "a", "function a(x) {", 3),
        ("pub fn run<T>(t: T) {\n    x\n}\n", "run", "pub fn run<T>(t: T) {", 3),
        ("type T struct {\n\tA int\n}\nfunc (t *T) Do() {\n\treturn\n}\n", "Do", "func (t *T) Do() {", 3),
        ("# LIMIT is old\nLIMIT = 3\nuse(LIMIT)\n", "LIMIT", "LIMIT = 3", 1),
        ("class A:\n    def f(self): ...\nclass B:\n    def f(a):\n        return 2\n", "B.f", "    def f(a):", 2),
        ("x = 1\n", "y", None, 0),
        ("x = 1\n", "", None, 0),
        ("x.*y\n", ".*", None, 0),
    ],
)
def test_a_definition_is_found_in_any_language(code, symbol, first, lines):
    found = definition(code, symbol)
    assert (found.split("\n")[0] if found else None) == first
    assert (len(found.split("\n")) if found else 0) == lines


def test_counts_that_cannot_be_read_and_a_cache_that_is_thrown_away_cost_no_memory(environment, hub):
    """The index of memories is in the cache, and the memories are not."""
    one = remember(hub, VPN).memory
    counts = environment.home.parent / "data" / "memories" / "uses.db"
    counts.write_bytes(b"not a database, whatever it is called" * 100)
    assert memories(hub).memories[0].uses == 0
    assert remember(hub, id=one.id).memory.uses == 1
    assert counts.with_suffix(".aside.db").exists()

    (base,) = [base for base in hub.discovery().bases if base.origin == "memory"]
    path = index_path(base, hub.cache)
    assert path.is_relative_to(environment.home.parent / "cache")
    path.unlink()
    fresh = environment.hub(clock=hub.options.clock)
    assert memories(fresh).memories[0].uses == 1
    assert not list(environment.project.glob("*.md"))


def test_a_broken_front_matter_is_left_for_its_owner_to_mend(environment, hub):
    remember(hub, VPN)
    (file,) = environment.memories()
    file.write_text("---\nid: [\n---\nMine.\n")
    assert memories(hub).total == 1
    with pytest.raises(MemoriesUnavailable, match="YAML"):
        remember(hub, "New text", id=file.name)
    assert file.read_text() == "---\nid: [\n---\nMine.\n"


def test_a_memory_that_is_too_long_to_be_read_whole_is_never_cut(environment, hub):
    """It is not changed; a new one is kept or forgotten all the same, and says that the old one counts as before."""
    remember(environment.hub(), "Tests need Docker")
    file = environment.memories()[0].with_name("long.md")
    file.write_text(f"---\nid: long\n---\n\n{VPN}\n\n{'word ' * 40_000}\n\nThe end.\n")
    before = file.read_bytes()

    for change in ({"text": "Short"}, {"tags": ["x"]}):
        with pytest.raises(WriteRefused, match=r"memory@long\.md"):
            remember(hub, id="long", **change)
    done = remember(hub, "Birds sing at noon", supersedes=["long"])
    assert file.read_bytes() == before
    assert (done.did, done.superseded) == ("stored", ())
    assert "memory@long.md" in done.notes[-1]
    assert remember(hub, id="long").memory.uses == 1

    new = done.memory.id
    file.write_text(file.read_text().replace("id: long", f"id: long\nsuperseded_by: {new}"))
    before = file.read_bytes()
    done = forget(hub, [new])
    assert ([one.id for one in done.memories], file.read_bytes()) == ([new], before)
    assert "memory@long.md" in done.notes[-1]


def test_what_is_known_counts_as_used_also_where_nothing_can_be_added(environment, hub):
    one = remember(hub, VPN).memory
    (file,) = environment.memories()
    file.write_text(f"---\n{{id: {one.id}, source: user}}\n---\n\n{VPN}\n")
    before = file.read_bytes()
    done = remember(hub, VPN, tags=["deploy"])
    assert (done.did, done.memory.id, done.memory.uses, done.memory.tags) == ("strengthened", one.id, 1, ())
    assert "braces" in done.notes[0]
    assert file.read_bytes() == before


def test_where_the_trash_keeps_nothing_a_forgotten_memory_is_gone(environment, hub):
    environment.configure(memory={"trashDays": 0})
    remember(hub, VPN)
    environment.memories()[0].with_name("mine.markdown").write_text("Cats sleep.\n")
    done = forget(hub, everything=True)
    assert (len(done.memories), done.trash, done.notes) == (2, None, ())
    assert [path for path in (environment.home.parent / "data" / "trash").rglob("*") if path.is_file()] == []
