"""Memories of two machines become the same through a git remote."""

import json
import os
import random
import shutil
import zlib
from collections import defaultdict
from types import MappingProxyType

import pytest

from conftest import make_environment, make_repository
from kbhub.errors import KbhubError, UsageError
from kbhub.memory.changes import forget, remember
from kbhub.memory.exchange import Gone, exchange, merged, same
from kbhub.memory.files import FolderFiles, new_file, parse_memory
from kbhub.memory.git_ref import Done, Git, MemoryIndex, RemoteRef, Tree, remote_ref
from kbhub.memory.lists import memories, restore, trashed
from kbhub.workspace.git import installed
from repositories import add_remote, commit, write_object

REF = "refs/kbhub/memories"


def refs(remote):
    return {str(file.relative_to(remote)): file.read_text() for file in (remote / "refs").rglob("*") if file.is_file()}


class Clock:
    """One clock for all machines, later than the files that are written; a second passes at each look."""

    now = 2_000_000_000.0

    def __call__(self):
        Clock.now += 1
        return Clock.now


class Shelf:
    """A ref that machines share in memory; git is tried where git is the point."""

    ref, remote = REF, "origin"

    def __init__(self):
        self.commits, self.head = {None: (None, Tree(MemoryIndex(version=1), {}, {}))}, None

    def fetched(self):
        return self.head

    def tree(self, commit):
        return self.commits[commit][1]

    def has(self, commit, ancestor):
        return commit == ancestor or (commit is not None and self.has(self.commits[commit][0], ancestor))

    def committed(self, files, index, parent, _old):
        name = str(len(self.commits))
        self.commits[name] = parent, Tree(index, files, {})
        return name

    def pushed(self, commit, before):
        if fits := self.head == before:
            self.head = commit
        return Done(fits, "", "others pushed")


class Machine:
    """A user's machine with a clone of a project."""

    def __init__(self, folder, remote):
        folder.mkdir()
        self.environment = make_environment(folder)
        add_remote(self.environment.project, remote)
        self.hub = self.environment.hub(clock=Clock())

    def folders(self):
        return [folder for folder in (self.hub.data / "memories").glob("*") if folder.is_dir()]

    @property
    def folder(self):
        (folder,) = self.folders()
        return folder

    def files(self):
        return {file.name: file.read_text() for folder in self.folders() for file in folder.glob("*.md")}

    syncs = False

    def sync(self, *, to=None, **options):
        self.syncs = True
        try:
            return exchange(self.hub, to, **options)
        finally:
            self.syncs = False

    def remember(self, text=None, **options):
        return remember(self.hub, text, **options).memory.id


@pytest.fixture
def remote(tmp_path):
    make_repository(tmp_path / "remote")
    return (tmp_path / "remote/.git").rename(tmp_path / "remote.git")


@pytest.fixture
def theirs(remote):
    """The ref of the remote, as somebody sees it who has the remote itself for a repository."""
    return RemoteRef(Git(installed(), remote), "origin", REF, ())


@pytest.fixture
def over_git(tmp_path, remote):
    return Machine(tmp_path / "one", remote)


@pytest.fixture
def shelves(monkeypatch):
    """The refs, by remote and scope."""
    shelves = defaultdict(Shelf)
    monkeypatch.setattr("kbhub.memory.exchange.remote_ref", lambda _, *which: shelves[which])
    return shelves


@pytest.fixture
def shelf(shelves):
    return shelves[None, "project"]


@pytest.fixture
def two(tmp_path, shelf):
    return Machine(tmp_path / "one", "h.example:a/b"), Machine(tmp_path / "two", "h.example:a/b")


def meet(one, other):
    for machine in (one, other, one):
        done = machine.sync()
    assert other.files() == one.files()
    return done


def change_at_random(machine, chance, number):
    ids = sorted(name.removesuffix(".md").rpartition("-")[2] for name in machine.files())
    what = chance.choice(("new", "new", "text", "text", "confirm", "doubt", "supersede", "forget", "hand", "rm"))
    if what == "new" or len(ids) < 5:
        machine.remember(f"Fact {chance.randrange(60)} is about number {chance.randrange(60)}.", tags=[f"t{number}"])
    elif what == "text":
        machine.remember(f"Changed by {number}: all is different.", id=chance.choice(ids))
    elif what == "confirm":
        machine.remember(id=chance.choice(ids))
    elif what == "doubt":
        machine.remember(id=chance.choice(ids), misleading=True)
    elif what == "supersede":
        machine.remember(f"What {number} says instead.", supersedes=chance.sample(ids, 2))
    elif what == "forget":
        forget(machine.hub, [chance.choice(ids)])
    else:
        file = chance.choice(sorted(machine.folder.glob("*.md")))
        file.unlink() if what == "rm" else file.write_text(f"{file.read_text()}\nBy hand, {number}.\n")


@pytest.mark.parametrize(
    ("seed", "changes"), [(1, 40), *(pytest.param(seed, 200, marks=pytest.mark.slow) for seed in (1, 2, 3, 4))]
)
def test_two_machines_converge_after_many_changes_whenever_they_sync(two, shelf, seed, changes):
    chance = random.Random(seed)
    for number in range(changes):
        change_at_random(chance.choice(two), chance, number)
        if chance.random() < 0.1:
            chance.choice(two).sync()

    meet(*two)

    one, other = two
    shown = [{m.id: m.model_dump(exclude={"strength"}) for m in memories(each.hub, limit=999).memories} for each in two]
    assert shown[0] == shown[1]
    assert len(shown[0]) > changes // 10
    assert {name: m["superseded_by"] for name, m in shown[0].items() if m["supersedes"]}
    for name, memory in shown[0].items():
        assert all(name in shown[0][older]["superseded_by"] for older in memory["supersedes"] if older in shown[0])
    last = shelf.head
    assert one.sync().here == other.sync().here
    assert shelf.head == last


def file_of(machine, name):
    return next(file for file in machine.folder.glob("*.md") if file.stem.endswith(name))


def on_both(machines, text="The timeout is 30 s.", **options):
    name = machines[0].remember(text, **options)
    meet(*machines)
    return name


def test_both_changes_of_a_memory_stay_and_the_later_counts_where_they_clash(two):
    one, other = two
    name = on_both(two, tags=["a", "b"])
    other.remember(id=name, tags=["b", "c"])
    file_of(other, name).write_text(file_of(other, name).read_text().replace("30 s.\n", "50 s.\n"))
    one.remember("The timeout is 40 s.", id=name)
    newer = other.remember("What else holds.", supersedes=[name])
    meet(one, other)
    (memory,) = (memory for memory in memories(one.hub).memories if memory.id == name)
    assert memory.text == "The timeout is 40 s."
    assert (memory.tags, memory.superseded_by) == (("b", "c"), (newer,))
    assert ["The timeout is 50 s."] == [entry.text for entry in trashed(other.hub)]


@pytest.mark.parametrize("forgetter", [0, 1])
@pytest.mark.parametrize("later", ["change", "deletion"])
def test_a_deletion_counts_unless_the_memory_was_changed_later(two, shelf, forgetter, later):
    name = on_both(two)
    one, other = two[forgetter], two[1 - forgetter]
    steps = [lambda: other.remember("The timeout is 40 s.", id=name), lambda: forget(one.hub, [name])]
    for step in steps if later == "deletion" else reversed(steps):
        step()
    meet(*two)
    assert len(one.files()) == (later == "change")
    assert name in {entry.id for machine in two for entry in trashed(machine.hub)}
    assert name in shelf.tree(shelf.head).index.gone or later == "change"


def test_what_was_forgotten_does_not_come_back_unless_it_is_restored(two, tmp_path):
    one, other = two
    name = on_both(two)
    stale = Machine(tmp_path / "three", "h.example:a/b")
    stale.sync()
    forget(one.hub, [name])
    meet(one, other)
    stale.sync()
    assert (one.files(), other.files(), stale.files()) == ({}, {}, {})
    restore(other.hub, name)
    meet(one, other)
    stale.sync()
    assert len(one.files()) == len(stale.files()) == 1


def test_files_may_swap_their_names(two):
    one, other = two
    one.remember("Something.")
    for name in ("first", "second"):
        (one.folder / f"{name}.md").write_text(NOTE.format(f"the-{name}"))
    meet(one, other)
    (one.folder / "first.md").rename(one.folder / "third.md")
    (one.folder / "second.md").rename(one.folder / "first.md")
    (one.folder / "third.md").rename(one.folder / "second.md")
    for machine in (one, other, other):
        machine.sync()
    meet(one, other)
    assert len(one.files()) == 3


def test_an_edit_by_hand_counts_from_when_its_file_was_written(two):
    one, other = two
    name = on_both(two)
    forget(other.hub, [name])
    file = file_of(one, name)
    file.write_text(file.read_text().replace("30 s", "90 s"))
    os.utime(file, (Clock.now, Clock.now + 1))
    meet(one, other)
    assert [memory.text for memory in memories(other.hub).memories] == ["The timeout is 90 s."]


def test_a_new_remote_an_emptied_one_and_a_lost_folder_take_nothing_away(two, shelf):
    one, other = two
    one.remember("The timeout is 30 s.")
    one.sync()
    files = one.files()
    shelf.head = None
    assert (one.sync().here.deleted, one.files()) == (0, files)
    assert one.sync(to="second").there.added == 1
    assert one.sync().here.deleted == 0
    assert one.files() == files
    one, other = two
    on_both(two)
    shutil.rmtree(other.folder)
    other.hub.rediscover()
    assert (other.sync().here.added, other.files()) == (1, one.files())


def test_clones_of_a_machine_share_what_was_synced(two, tmp_path):
    """What the machine forgot since another clone synced it does not come back through this one."""
    one, _ = two
    shutil.copytree(one.environment.project, tmp_path / "clone")
    name = one.remember("The user likes tea.", scope="user")
    one.sync(scope="user")
    forget(one.hub, [name])
    done = exchange(one.environment.hub(clock=Clock(), cwd=tmp_path / "clone"), scope="user")
    assert (done.here.added, done.there.deleted) == (0, 1)


def test_uses_are_counted_once_and_a_file_deleted_by_hand_is_deleted_everywhere(two):
    one, other = two
    name = on_both(two)
    for machine in (one, other, other):
        machine.remember(id=name)
    for _ in range(3):
        meet(one, other)
    assert [memory.uses for machine in two for memory in memories(machine.hub).memories] == [3, 3]
    file_of(one, name).unlink()
    meet(one, other)
    assert other.files() == {}
    assert [entry.id for entry in trashed(other.hub)] == [name]


def test_a_credential_stays_where_it_is(two):
    one, other = two
    secret = "The token is " + "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a."
    one.remember(secret, allow_secret=True)
    one.remember("Harmless.")

    done = one.sync()

    assert (done.there.added, len(done.left_out)) == (1, 1)
    assert "credential" in done.left_out[0].message
    one.sync(allow_secret=True)
    taken = other.sync()
    assert (taken.here.added, len(taken.left_out), len(other.files())) == (1, 1, 1)
    assert one.sync().there.deleted == 0
    other.sync(allow_secret=True)
    assert other.files() == one.files()


def tree_of(remote, entries):
    """Make a commit of (mode, name, content), and give its name; a content of None is a folder."""
    tree = b""
    for mode, name, content in sorted(entries, key=lambda entry: entry[1].encode("utf-8", "surrogateescape")):
        oid = write_object(remote, "tree" if content is None else "blob", (content or "").encode())
        tree += f"{mode} {name}\0".encode("utf-8", "surrogateescape") + bytes.fromhex(oid)
    who = "A <a@example.org> 1700000000 +0000"
    text = f"tree {write_object(remote, 'tree', tree)}\nauthor {who}\ncommitter {who}\n\nx\n"
    return write_object(remote, "commit", text.encode())


def object_of(remote, name):
    """Give the bytes of an object of git, without their length."""
    return zlib.decompress((remote / "objects" / name[:2] / name[2:]).read_bytes()).partition(b"\0")[2]


NOTE = "---\nid: {}\n---\n\nA note.\n"


def test_what_kbhub_did_not_write_is_left_out(two, shelf, theirs, remote):
    one, other = two
    file = "100644"
    far = 9_000_000_000_000_000
    index = {"version": 1, "gone": {"../../x": 5, "aaaaaaaa": far}, "memories": {"k7f3a9c2": {"uses": 3, "last": far}}}
    made = tree_of(
        remote,
        [
            (file, "index.json", json.dumps(index)), (file, "good-k7f3a9c2.md", NOTE.format("k7f3a9c2")),
            ("120000", "link-aaaaaaa1.md", "/etc/passwd"), ("100755", "run-aaaaaaa2.md", NOTE.format("aaaaaaa2")),
            ("40000", "folder.md", None), (file, ".hidden.md", "x"), (file, "-option.md", "x"),
            (file, "two\nlines.md", "x"), (file, "script.py", "x"), (file, "large-aaaaaaa3.md", "x" * 200_000),
            (file, "binary-aaaaaaa4.md", "\x01\x02"), (file, "empty-aaaaaaa5.md", NOTE.format("aaaaaaa5")[:-8]),
            (file, "path-aaaaaaa6.md", NOTE.format("../../aaaaaaa6")),
            (file, "broken-aaaaaaa7.md", "---\ntags: [a\n---\n\nBroken.\n"),
            (file, "twin-k7f3a9c2.md", NOTE.format("k7f3a9c2")), (file, "surrogate.md", NOTE.format('"\\uD800"')),
            (file, "latin-\udce9.md", "x"),
        ],
    )  # fmt: skip
    shelf.commits[made], shelf.head = (None, theirs.tree(made)), made

    done = one.sync()

    assert sorted(one.files()) == ["good-k7f3a9c2.md"]
    assert (len(done.left_out), len(done.model_dump_json()) > 100) == (15, True)
    assert memories(one.hub).memories[0].uses == 3
    assert {entry.name for entry in one.folder.iterdir()} == {"good-k7f3a9c2.md", ".project.json", ".synced"}
    one.remember("More.")
    assert (one.sync().there.added, other.sync().here.added) == (1, 2)


@pytest.mark.slow
def test_git_pushes_only_after_what_it_fetched_and_runs_no_hook(over_git, remote, tmp_path):
    """No branch and no tag goes along."""
    project = over_git.environment.project
    commit(project, 1_700_000_000)
    git = project / ".git"
    with (git / "config").open("a") as config:
        config.write("[push]\n\tfollowTags = true\n[core]\n\thooksPath = .git/own-hooks\n")
    names = ("pre-push", "pre-receive", "update", "post-receive", "post-update", "reference-transaction", "pre-auto-gc")
    for folder in (git / "own-hooks", git / "hooks", remote / "hooks"):
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
            (folder / name).chmod(0o755)
    index = MemoryIndex(version=1, gone={"x": 1})
    first = tree_of(remote, [("100644", "a.md", "A"), ("100644", "index.json", index.model_dump_json())])
    (remote / "refs/kbhub").mkdir()
    (remote / REF).write_text(first + "\n")

    ref = remote_ref(over_git.hub, None, "project")
    fetched = ref.fetched()
    tag = f"object {fetched}\ntype commit\ntag v1\ntagger A <a@example.org> 1700000000 +0000\n\nx\n"
    (git / "refs/tags").mkdir()
    (git / "refs/tags/v1").write_text(write_object(git, "tag", tag.encode()) + "\n")
    tree = Tree(index, {"a.md": b"A"}, {"a.md": write_object(remote, "blob", b"A")})
    second = ref.committed({**tree.files, "b.md": b"B"}, index, fetched, tree)
    assert not ref.pushed(second, None).ok
    assert ref.pushed(second, fetched).ok

    assert fetched == first
    assert {name: said.strip() for name, said in refs(remote).items()} == {REF: second}
    note = f"{index.model_dump_json(indent=1, exclude_defaults=True)}\n"
    wanted = tree_of(remote, [("100644", "a.md", "A"), ("100644", "b.md", "B"), ("100644", "index.json", note)])
    assert object_of(remote, second)[:45] == object_of(remote, wanted)[:45]  # the line with the name of its tree
    assert [ref.has(second, first), ref.has(first, second), ref.has(second, "--help")] == [True, False, False]
    assert not (tmp_path / "ran").exists()


def race(monkeypatch, one, other, races):
    pushed, left = Shelf.pushed, [races]

    def raced(self, commit, before):
        if left[0] and one.syncs and not other.syncs:
            left[0] -= 1
            other.remember(f"From the other, {left[0]}.")
            other.sync()
        return pushed(self, commit, before)

    monkeypatch.setattr(Shelf, "pushed", raced)


def test_who_pushes_meanwhile_is_merged_until_it_is_enough(two, monkeypatch):
    one, other = two
    one.remember("From one.")
    race(monkeypatch, one, other, 1)
    done = one.sync()
    assert (done.here.added, done.there.added, len(one.files())) == (1, 1, 2)
    one.remember("Another one.")
    race(monkeypatch, one, other, 5)
    with pytest.raises(KbhubError, match="5 times"):
        one.sync()
    meet(one, other)
    assert len(one.files()) == 7


def killed_after(written):
    def method(self, path, *data):
        written(self, path, *data)
        raise KeyboardInterrupt

    return method


def test_a_kill_in_the_middle_leaves_nothing_broken(two, monkeypatch):
    """Whatever was written, the next run goes on; a half-written file has a hidden name."""
    one, other = two
    names = [one.remember(f"Fact {number} of one machine.") for number in range(4)]
    meet(one, other)
    for name in names[:2]:
        one.remember(f"Changed {name}.", id=name)
    forget(one.hub, names[2:3])
    one.remember("A new one.")
    other.remember("Another text.", id=names[0])
    one.sync()
    kills = 0
    with monkeypatch.context() as patch:
        for method in ("create", "replace", "remove"):
            patch.setattr(FolderFiles, method, killed_after(getattr(FolderFiles, method)))
        while True:
            try:
                other.sync()
                break
            except KeyboardInterrupt:
                kills += 1
    (other.folder / ".kbhub-0123456789abcdef.tmp").write_text("half")

    meet(one, other)

    assert (kills, len(one.files())) == (3, 4)
    assert "Another text." in "".join(one.files().values())


def test_no_command_of_a_remote_is_run(over_git):
    project = over_git.environment.project
    add_remote(project, "ext::touch ran", "ext")
    with pytest.raises(KbhubError, match=r"Cannot fetch from 'ext', .* 'ext' not allowed"):
        RemoteRef(Git(installed(), project), "ext", REF, ()).fetched()
    assert not (project / "ran").exists()


class Told(Git):
    """Git that says what it is told to, by command."""

    says = MappingProxyType({"config": "", "remote": "origin\n"})

    def run(self, *arguments, data=b"", seconds=0):  # noqa: ARG002 - as git
        said = self.says.get(arguments[0])
        return Done(said is not None, said or "", "no such repository")


def test_what_is_missing_is_said_in_a_sentence(over_git, remote, monkeypatch):
    one, project = over_git, over_git.environment.project
    monkeypatch.setattr("kbhub.memory.git_ref.Git", Told)
    for name in ("--upload-pack=touch ran", str(remote)):
        with pytest.raises(UsageError, match=r"has no remote .* It has: origin"):
            one.sync(to=name)
    with pytest.raises(KbhubError, match="Cannot fetch from 'origin', refs/kbhub/user-memories: no such repository"):
        one.sync(scope="user")
    oid = "a" * 40
    files = (("", ""), (f"100644 blob {oid} 14\tindex.json\0", f'{oid} blob 14\n{{"version": 2}}\n'))
    for listed, content in files:
        of_others = {"ls-remote": f"{oid}\t{REF}\n", "fetch": "", "ls-tree": listed, "cat-file": content}
        monkeypatch.setattr(Told, "says", {"config": "", "remote": "origin\n", **of_others})
        with pytest.raises(KbhubError, match=r"has no index\.json that this kbhub understands\. Update kbhub"):
            one.sync()
    told = {"": r"origin'\. Add one", "core.bare\0core.sshCommand\0": r"git would obey \(core\.sshcommand\)"}
    for settings, why in told.items():  # a setting may name a command
        monkeypatch.setattr(Told, "says", {"config": settings, "remote": ""})
        with pytest.raises(UsageError, match=why):
            one.sync()
    monkeypatch.setattr("kbhub.memory.git_ref.installed", lambda: None)
    with pytest.raises(UsageError, match="Install git"):
        one.sync()
    shutil.rmtree(project / ".git")
    one.hub.rediscover()
    with pytest.raises(UsageError, match="in no git repository"):
        one.sync()


def test_the_command_says_what_it_did(kbhub, shelves):
    kbhub("remember", "Releases need the VPN.")
    kbhub("remember", "--scope", "user", "The user likes tea.")
    assert kbhub("memories", "sync", "--dry-run").out == (
        "Would sync 1 memory with origin. Here: no change. There: 1 new.\n"
    )
    assert shelves[None, "project"].head is None
    assert kbhub("memories", "sync").out == "Synced 1 memory with origin. Here: no change. There: 1 new.\n"
    assert kbhub("memories", "sync", "--user", "--json").json["there"]["added"] == 1
    assert all(shelves[None, scope].head for scope in ("project", "user"))


def version(chance, number):
    """A memory that somebody changed at some time, or that is gone."""
    if chance.random() < 0.2:
        return Gone(number)
    lists = {key: chance.sample("abcde", chance.randrange(4)) for key in ("tags", "supersedes", "superseded_by")}
    text = new_file({"id": "x", **lists, "namespace": chance.choice("abc")}, chance.choice(("One.", "Two.", "Three.")))
    return parse_memory(None, chance.choice(("a-x.md", "b-x.md")), text.encode(), number)


def test_merging_is_the_same_from_both_sides_and_twice():
    chance = random.Random(5)
    for _ in range(200):
        base, one, other = (version(chance, number) for number in chance.sample(range(9), 3))
        base = chance.choice((None, base))
        both = merged(base, one, other)
        assert merged(base, other, one) == both
        assert same(merged(base, both, both), both)
        assert same(merged(base, both, other), both)
        assert same(merged(other, both, other), both)
        assert merged(one, one, None) == one
        assert same(merged(base, one, base), one) or base is None
