"""Looking at the files that changed alone finds what looking at all of them finds."""

import os
import random
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import kbhub.sync.sync
from conftest import make_repository, synced
from kbhub.documents.walk import Limits
from kbhub.index.engine import Index
from kbhub.index.sqlite.index import IndexWriter, SqliteIndex, index_path
from kbhub.models.embedding import packaged_embedder
from kbhub.sync.background import Background
from kbhub.sync.comparison import compare_some
from kbhub.sync.freshness import MOST_PATHS, Freshness
from kbhub.sync.sync import compare, sync_base
from kbhub.sync.watch import changes_of
from kbhub.types import Base, Query

LIMITS = Limits(file_bytes=400, files=60, kept=Path("/nonexistent"))
EMBEDDER = packaged_embedder()
WAIT_SECONDS = 30

FOLDERS = ("", "sub", "sub/deep", "other", "v1.0", ".hidden", "node_modules")
NAMES = ("a.md", "b.md", "A.md", "é.md", "c d.MDX", "note.txt", ".dot.md", "deep", "sub.md", "x.markdown")
RULES = ("b.md\n", "*\n!a.md\n", "deep/\n", "/sub/\n", "# nothing\n", "", "!b.md\n", "*.md\n")


class Twice:
    """A base with two indexes: one follows what events told, the other looks at all files each time."""

    def __init__(self, folder: Path, **more: object) -> None:
        self.base = Base(id="b", path=folder / "repo" / "notes", origin="config", **more)
        self.base.path.mkdir(parents=True)
        make_repository(folder / "repo")
        self.told, self.whole = (SqliteIndex(index_path(self.base, folder / name), "b") for name in ("told", "whole"))
        self.looks = Freshness()
        self.partial = 0

    def follow(self, paths: set[Path]) -> None:
        """Bring both in step after some paths changed."""
        changes = changes_of({str(path) for path in paths}, {str(self.base.path): self.base})
        if changes or not paths:
            difference = self.looks.compare(self.base, self.told, LIMITS, changes.get("b"))
            self.partial += difference.paths is not None
            sync_base(self.base, self.told.path, EMBEDDER, LIMITS, difference=difference)
        sync_base(self.base, self.whole.path, EMBEDDER, LIMITS)

    @staticmethod
    def content(index: Index) -> list[object]:
        """Everything in an index that does not depend on how it came there."""
        with index.snapshot():
            rows = index._local.seen.connection.execute(
                "SELECT path, size, abs(mtime_ns), title, tags, front_matter, headings, start_line, text, embedding "
                "FROM document LEFT JOIN chunk ON document_id = document.id LEFT JOIN vector ON chunk_id = chunk.id "
                "ORDER BY path, start_line, chunk.id"
            )
            return [
                *rows.fetchall(),
                *index.problems(),
                index._local.seen.connection.execute("SELECT count(*) FROM fts").get,
            ]

    def same(self) -> None:
        assert self.content(self.told) == self.content(self.whole)


@pytest.fixture
def twice(tmp_path):
    made = Twice(tmp_path)
    for number in range(4):
        (made.base.path / f"{number}.md").write_text(f"# Note {number}\n\nAbout {number}.\n")
    made.follow(set())
    return made


def remove(path: Path) -> set[Path]:
    gone = {path, *path.rglob("*")}
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    return gone


def is_told(path: Path) -> bool:
    """Whether changes of what has such a name are told; it may be another name of a document."""
    hidden = any(part.startswith(".") or part == "node_modules" for part in path.parts)
    return not hidden and path.suffix.lower() in ("", ".md", ".mdx", ".markdown")


def edit(chance: random.Random, root: Path) -> set[Path]:
    """Do something to a folder; gives the paths that a system tells of."""
    path = root / chance.choice(FOLDERS) / chance.choice(NAMES)
    present = sorted(one for one in root.rglob("*") if not one.is_symlink() and is_told(one))
    what = chance.choices(
        ("write", "remove", "rename", "rules", "link", "hard link", "pipe", "folder", "again"),
        (8, 4, 4, 2, 1, 1, 1, 2, 6),
    )[0]
    if what == "hard link" and not is_told(path):
        return set()
    if what in ("remove", "rename", "again") and present:
        old = chance.choice(present)
        if what == "remove":
            return remove(old)
        if what == "again" and old.is_file():
            with old.open("a") as file:
                file.write(chance.choice(("more\n", "# Head\n\nbody\n", "long " * 120)))
            return {old}
        if what == "rename" and path.parent.is_dir() and not os.path.lexists(path) and not path.is_relative_to(old):
            if not is_told(path) and not old.is_dir() and old.stat().st_nlink > 1:
                return set()
            old.rename(path)
            return {old, path}
        return set()
    if what == "rules":
        path = root / chance.choice(FOLDERS[:4]) / chance.choice((".gitignore", ".kbhubignore"))
    above = next(one for one in (path, *path.parents) if os.path.lexists(one))
    writable = above.is_dir() if above != path else what in ("write", "rules") and path.is_file()
    if above.is_symlink() or not writable:
        return set()
    made = {one for one in path.parents if one.is_relative_to(root) and not one.exists()}
    path.parent.mkdir(parents=True, exist_ok=True)
    if what == "folder":
        path.mkdir()
    elif what == "link":
        path.symlink_to(chance.choice([*present, root / "nowhere.md", root.parent]))
    elif what == "hard link":
        files = [one for one in present if one.is_file()]
        os.link(chance.choice(files), path) if files else path.touch()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.write_text(chance.choice(RULES) if what == "rules" else f"# {chance.random()}\n\ntext\n")
    return {*made, path}


@pytest.mark.skipif(os.name != "posix", reason="pipes and links")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_following_events_gives_the_index_that_looking_at_everything_gives(tmp_path, seed):
    """Files, folders, links, pipes and rules come, change and go in any order; some of it is looked at in part."""
    chance = random.Random(seed)
    twice = Twice(tmp_path)
    for number in range(3):
        (twice.base.path / f"{number}.md").write_text("# Stays\n")
    twice.follow(set())
    for step in range(60):
        if step % 20 == 19:  # so that there are links, which make every look a whole one, for a part of the time only
            gone = {path for path in twice.base.path.rglob("*") if path.is_symlink()}
            for path in gone:
                path.unlink()
            twice.follow(gone)
        paths = {path for _ in range(chance.randint(1, 3)) for path in edit(chance, twice.base.path)}
        if paths:
            twice.follow(paths)
            twice.same()
    assert twice.partial >= 5


def problems(index: Index) -> list[tuple[str, str]]:
    with index.snapshot():
        return index.problems()


def partly(twice: Twice, *paths: str) -> bool:
    """Whether some paths are looked at alone."""
    return twice.looks.compare(twice.base, twice.told, LIMITS, paths).paths is not None


def test_a_path_that_is_none_in_the_base_is_never_looked_at_and_a_path_of_nothing_changes_nothing(twice):
    """Whatever an event names, nothing outside of the base is touched, and all of the base is looked at.

    A file that came and went, or one that is never taken, leaves the index as it is.
    """
    for path in (
        "", "/", "..", "../other.md", "/etc/passwd", "a/../0.md", "./0.md", "a//b.md", "0.md/", "x\0.md", "\udcff.md",
    ):  # fmt: skip
        assert not partly(twice, path), path
        assert twice.told.path.exists()

    for path in ("nowhere.md", "0.md/below.md", ".git/x.md", "node_modules/x.md", "é" * 300 + ".md", "0.MD", "\\0.md"):
        difference = twice.looks.compare(twice.base, twice.told, LIMITS, [path])
        assert (difference.paths, len(difference)) == ({path}, 0)


def test_a_file_below_a_link_that_leads_out_is_not_taken(twice, tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.md").write_text("# Zebra\n")
    (twice.base.path / "way").symlink_to(tmp_path / "secret")
    twice.follow({twice.base.path / "way" / "key.md"})
    with twice.told.snapshot():
        assert "way/key.md" not in twice.told.paths()
    twice.same()


def link(root: Path) -> Iterator[set[str]]:
    """What lies under two names changes under both."""
    (root / "link.md").symlink_to("0.md")
    yield {"link.md"}
    (root / "0.md").write_text("# Zebra\n")
    yield {"0.md"}


def rules_above(root: Path) -> Iterator[set[str]]:
    """They are not watched."""
    (root.parent / ".gitignore").write_text("1.md\n")
    (root / "0.md").write_text("# Zebra\n")
    yield {"0.md"}


def folder_gone(root: Path) -> Iterator[set[str]]:
    """Of a folder that was removed or renamed, the system may name nothing else."""
    (root / "sub").mkdir()
    (root / "sub" / "a.md").write_text("# A\n")
    yield {"sub"}
    shutil.rmtree(root / "sub")
    yield {"sub"}


def too_many(root: Path) -> Iterator[set[str]]:
    """The limit of files holds for what is told, too."""
    for number in range(4, LIMITS.files):
        (root / f"{number}.md").write_text("# Many\n")
    yield set()
    (root / "more.md").write_text("# More\n")
    yield {"more.md"}


@pytest.mark.parametrize("changes", [link, rules_above, folder_gone, too_many])
def test_some_changes_make_every_look_a_whole_one(twice, changes):
    for told in changes(twice.base.path):
        twice.follow({twice.base.path / name for name in told})
    assert twice.partial == 0
    assert len(problems(twice.told)) == (changes is too_many)
    twice.same()


def test_an_index_that_was_never_complete_is_compared_whole_and_everything_read_anew_reads_everything(twice):
    with IndexWriter(twice.told.path) as writer, writer.transaction():
        writer.set_meta({"synced": None})
    assert not partly(twice, "0.md")
    difference = twice.looks.compare(twice.base, twice.told, LIMITS, ["0.md"])
    report = sync_base(twice.base, twice.told.path, EMBEDDER, LIMITS, difference=difference, full=True)
    assert (report.removed, report.unchanged) == (0, 4)


def test_many_paths_and_a_first_look_are_whole(twice):
    """Before the first look, nothing is known of links and limits; one look serves all who asked before it began."""
    assert not partly(twice, *(f"{number}.md" for number in range(MOST_PATHS + 1)))
    twice.looks.forget(twice.told.path)
    assert not partly(twice, "0.md")
    assert partly(twice, "0.md")
    path, before = twice.told.path, time.perf_counter()
    assert twice.looks.due(path, 0, before)
    twice.looks.compare(twice.base, twice.told, LIMITS)
    assert not twice.looks.due(path, 0, before)
    assert twice.looks.due(path, 0, time.perf_counter())
    assert twice.looks.compare(twice.base, twice.told, LIMITS, None, lambda: False) is None


def test_kept_texts_are_compared_whole(tmp_path):
    """Where texts of deleted files stay, what is gone is decided with a look at them."""
    twice = Twice(tmp_path, keep_deleted=("*",))
    limits = replace(LIMITS, kept=tmp_path / "kept")
    (twice.base.path / "a.md").write_text("# A\n")
    sync_base(twice.base, twice.told.path, EMBEDDER, limits)
    twice.looks.compare(twice.base, twice.told, limits)
    frame = twice.looks.last[twice.told.path].frame
    assert frame is not None
    assert compare_some(twice.base, twice.told, ["a.md"], frame, limits) is None


def test_another_process_that_wrote_costs_a_whole_look_and_a_change_after_looks_at_the_same_state_is_noticed(twice):
    (twice.base.path / "0.md").write_text("# Zebra\n")
    difference = twice.looks.compare(twice.base, twice.told, LIMITS, ["0.md"])
    (twice.base.path / "1.md").write_text("# Lion\n")
    sync_base(twice.base, twice.told.path, EMBEDDER, LIMITS)
    (twice.base.path / "2.md").write_text("# Gnu\n")
    sync_base(twice.base, twice.told.path, EMBEDDER, LIMITS, difference=difference)
    sync_base(twice.base, twice.whole.path, EMBEDDER, LIMITS)
    assert difference.paths == {"0.md"}
    twice.same()

    # That nothing had changed is remembered, and does not hide what changes then.
    for age in range(3):
        for path in twice.base.path.iterdir():
            os.utime(path, (1_600_000_000 + age, 1_600_000_000))
        twice.follow(set())
    assert [0, 0] == [len(twice.looks.compare(twice.base, twice.told, LIMITS)) for _ in range(2)]
    assert twice.looks.last[twice.told.path].in_step
    os.utime(twice.base.path / "1.md", (1_600_000_000, 1_600_000_001))
    assert ["1.md"] == [one.path for one in twice.looks.compare(twice.base, twice.told, LIMITS).suspects]
    (twice.base.path / "2.md").rename(twice.base.path / "z.md")
    found = twice.looks.compare(twice.base, twice.told, LIMITS)
    assert (("2.md",), ["1.md", "z.md"]) == (found.gone, [one.path for one in found.suspects])


def test_events_name_paths_of_bases_and_one_file_is_looked_at_alone(twice):
    root = str(twice.base.path)
    roots = {root: twice.base}

    def told(*paths: str) -> object:
        return changes_of([root + path for path in paths], roots).get("b", "nothing")

    assert told("/a.md", "/sub/b.md", "/x.png") == {"a.md", "sub/b.md"}
    assert told("/x.png", "/.git/index", "/.obsidian/a.md", "ier/a.md") == "nothing"
    for path in ("", "/.gitignore", "/sub/.kbhubignore", "/\N{REPLACEMENT CHARACTER}.md"):
        assert told("/a.md", path, "/b.md") is None

    # An edit, a new file and a deletion that are told are indexed; what was not told waits for a look at all.
    (twice.base.path / "0.md").write_text("# Zebra\n")
    (twice.base.path / "1.md").write_text("# Not told\n")
    paths = {"0.md", "new/deep.md", "2.md"}
    (twice.base.path / "new").mkdir()
    (twice.base.path / "new/deep.md").write_text("# Deep\n")
    (twice.base.path / "2.md").unlink()
    difference = twice.looks.compare(twice.base, twice.told, LIMITS, paths)
    report = sync_base(twice.base, twice.told.path, EMBEDDER, LIMITS, difference=difference)
    assert paths == difference.paths
    assert (report.added, report.changed, report.removed, report.unchanged) == (1, 1, 1, 2)
    assert ["1.md"] == [one.path for one in compare(twice.base, twice.told, LIMITS).suspects if one.size == 11]


def test_who_asks_while_a_few_files_are_indexed_does_not_wait(environment, monkeypatch):
    """That may take long with a slow embedder; the base is busy, as where another process indexes it."""
    environment.write("knowledge/a.md", "# A\n")
    hub = synced(environment)
    environment.write("knowledge/b.md", "# B\n")
    indexing, release, locked = threading.Event(), threading.Event(), kbhub.sync.sync._locked
    given_up = []

    def slow(*arguments, **options):
        indexing.set()
        if not release.wait(WAIT_SECONDS):
            given_up.append(arguments)
        return locked(*arguments, **options)

    monkeypatch.setattr(kbhub.sync.sync, "_locked", slow)
    first = threading.Thread(target=hub.freshen)
    first.start()
    assert indexing.wait(WAIT_SECONDS)
    (behind,) = hub.freshen(max_age=0)
    release.set()
    first.join()

    assert behind.busy
    assert given_up == []


def test_what_no_event_told_is_found_later_and_changes_that_come_together_are_one_look(environment):
    environment.write("knowledge/a.md", "# A\n")
    environment.write("knowledge/b.md", "# B\n")
    hub = synced(environment)
    environment.write("knowledge/a.md", "# Zebra\n")
    environment.write("knowledge/b.md", "# Lion\n")
    (behind,) = hub.freshen(max_age=0, changed={"project": {"a.md"}}) or (None,)
    found = [len(hub.search(Query(text=text, mode="keyword")).hits) for text in ("zebra", "lion")]
    background = Background(hub)
    background.look({"project": frozenset({"a.md"})})
    with background._changed:
        assert background._changed.wait_for(lambda: background._thread is None, WAIT_SECONDS)
    later = [len(hub.search(Query(text=text, mode="keyword")).hits) for text in ("zebra", "lion")]

    assert behind is None
    assert (found, later) == ([1, 0], [1, 1])

    # Paths of one base are joined; one that cannot be named, or a look at everything, wins.
    background = Background(environment.hub())
    background._stopping = True  # so that nothing is taken up
    background.look({"a": frozenset({"1.md"}), "b": frozenset({"2.md"})})
    background.look({"a": frozenset({"3.md"}), "b": None, "c": frozenset({"4.md"})})
    background.look({"b": frozenset({"5.md"})})
    assert {"a": {"1.md", "3.md"}, "b": None, "c": {"4.md"}} == background._looking
    background.look({"a": None})
    assert background._looking["a"] is None
    background.look()
    background.look({"a": frozenset({"1.md"})})
    assert background._looking == {}
