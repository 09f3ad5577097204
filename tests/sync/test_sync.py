"""An index is brought in step with its files, and nothing is lost on the way."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from unittest.mock import Mock

import apsw
import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

import faults
import kbhub.index.engine
import kbhub.sync.sync
import kbhub.workspace.git
import repositories
from conftest import HOUR_NS, make_repository
from kbhub.documents.walk import Limits, Scan, digest_of
from kbhub.errors import BaseUnavailable, EmbedderError
from kbhub.index.sqlite.index import SqliteIndex, index_path
from kbhub.models.embedding import StaticEmbedder, packaged_embedder
from kbhub.sync.comparison import is_being_indexed
from kbhub.sync.sync import compare, sync_base
from kbhub.types import Base
from kbhub.workspace.git import FRESH_PATHS, history

LIMITS = Limits(file_bytes=5 << 20, files=100_000)
EMBEDDER = packaged_embedder()

LINUX = sys.platform == "linux"

ASKING = 12
"""Threads that ask at once, as a client that makes so many calls at once lets them."""


class Folder:
    """A base in a temporary folder, with its index."""

    def __init__(self, path):
        self.base = Base(id="project", path=(path / "notes"), origin="knowledge")
        self.base.path.mkdir(parents=True)
        self.index_path = index_path(self.base, path / "cache")

    def write(self, name: str, text: str | bytes, age_hours: float = 1) -> None:
        """Write a file; it is an hour old, so that its time is trusted."""
        path = self.base.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        stamp = path.stat().st_mtime_ns - int(age_hours * HOUR_NS)
        os.utime(path, ns=(stamp, stamp))

    def sync(self, embedder=EMBEDDER, **options):
        return sync_base(self.base, self.index_path, embedder, LIMITS, **options)

    def content(self):
        """Everything that a search can see, in an index that is whole."""
        faults.sound(self.index_path)
        return faults.content(self.index_path)


@pytest.fixture
def folder(tmp_path):
    """What a folder's repository names runs never, see `commit`."""
    made = Folder(tmp_path)
    for number in range(5):
        made.write(f"{number}.md", f"# Note {number}\n\nAbout topic {number} and deployment.\n")
    yield made
    assert not (tmp_path / "ran").exists()


def counts(report):
    return report.added, report.changed, report.removed, report.unchanged


def test_only_what_is_new_or_changed_is_read(folder):
    """A file of another time with the same content costs one reading, once."""
    report = folder.sync()
    assert counts(report) == (5, 0, 0, 0)
    assert (report.chunks, report.vectors_made, report.vectors_reused) == (5, 5, 0)

    before = folder.content()
    os.utime(folder.base.path / "1.md", (0, 0))
    report = folder.sync()
    assert (counts(report), report.vectors_made) == ((0, 0, 0, 5), 0)
    assert before == folder.content()
    index = SqliteIndex(folder.index_path, "project")
    assert len(compare(folder.base, index, LIMITS)) == 0

    folder.write("new.md", "# New\n\nfresh words\n")
    assert len(compare(folder.base, index, LIMITS)) == 1  # and not the one of 1970
    folder.write("1.md", "# Note 1\n\nentirely different now\n", age_hours=0.5)
    (folder.base.path / "2.md").unlink()
    assert counts(folder.sync()) == (1, 1, 1, 3)


def test_a_file_of_which_nothing_can_be_read_counts_as_failed(folder, parsed_here):
    """First, unchanged, read again, changed and mended: it is in one count, and the report always says why."""
    folder.write("broken.odt", b"no archive")
    folder.write("notes.eml", "Subject: A\n\nabout deployment\n")
    reports = [folder.sync(), folder.sync(), folder.sync(full=True)]
    folder.write("broken.odt", b"still no archive", age_hours=0.5)
    reports.append(folder.sync())

    assert [counts(report) for report in reports] == [(6, 0, 0, 0), (0, 0, 0, 6), (0, 0, 0, 6), (0, 0, 0, 6)]
    for report in reports:
        assert [problem.subject for problem in report.failed] == ["broken.odt"]
        assert "left out" in report.failed[0].message
    (folder.base.path / "broken.odt").unlink()
    (folder.base.path / "broken.odt").symlink_to(folder.base.path.parent / "elsewhere.odt")
    (folder.base.path / "notes.eml").rename(folder.base.path / "notes.odt")
    report = folder.sync()
    assert counts(report) == (0, 0, 2, 5)
    assert [problem.subject for problem in report.failed] == ["broken.odt", "notes.odt"]


def test_a_document_whose_text_cannot_be_kept_is_added_all_the_same(folder, tmp_path):
    (tmp_path / "kept").write_text("a file where the folder should be")
    folder.base = replace(folder.base, keep_deleted=("0.md",))
    report = sync_base(folder.base, folder.index_path, EMBEDDER, replace(LIMITS, kept=tmp_path / "kept"))
    assert counts(report) == (5, 0, 0, 0)
    assert [(one.subject, one.message[:11]) for one in report.failed] == [("0.md", "Cannot keep")]


@pytest.mark.parametrize("looks", [1, 2])
def test_a_file_changed_within_a_tick_of_the_clock_is_noticed(folder, looks):
    """Same size and same time, other content, written just now; also after a look within that tick found it equal."""
    path = folder.base.path / "now.md"
    path.write_text("aaaa")
    stamp = path.stat().st_mtime_ns
    for _ in range(looks):
        folder.sync()
    path.write_text("bbbb")
    os.utime(path, ns=(stamp, stamp))
    assert folder.sync().changed == 1


def test_full_reads_and_embeds_everything_anew_but_keeps_what_cannot_be_embedded(folder, monkeypatch):
    """A rebuild trusts nothing that the index had: vectors that were overwritten with others are right again."""
    folder.sync()
    before = folder.content()
    with closing(apsw.Connection(str(folder.index_path))) as connection:
        connection.execute("UPDATE vector SET embedding = (SELECT embedding FROM vector ORDER BY chunk_id LIMIT 1)")
    assert before != folder.content()
    report = folder.sync(full=True)

    assert counts(report) == (0, 0, 0, 5)
    assert (report.vectors_made, report.vectors_reused) == (5, 0)
    assert before == folder.content()

    folder.sync()
    before = folder.content()
    monkeypatch.setattr(StaticEmbedder, "embed", Mock(side_effect=EmbedderError("The model does not answer.")))
    report = folder.sync(full=True)

    assert before == folder.content()
    assert "does not answer" in report.notes[0]


def test_another_embedder_means_new_vectors_and_one_that_does_not_load_stops_nothing(folder, tmp_path):
    """Vectors of two models are never compared; documents are not read again."""
    folder.sync()
    model = packaged_embedder()
    other = StaticEmbedder(model.source, "other", "another fingerprint")
    report = folder.sync(other)
    assert "embedder changed to other" in report.notes[0]
    assert counts(report) == (0, 0, 0, 5)
    assert report.vectors_made == 5
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "model.safetensors").write_bytes(b"no model")
    report = folder.sync(StaticEmbedder(str(tmp_path / "bad"), "bad", "f"))
    assert (report.chunks, any("Cannot load" in note for note in report.notes)) == (5, True)


def test_without_an_embedder_keyword_search_is_indexed(folder):
    assert (folder.sync(None).chunks, folder.sync(None).vectors_made) == (5, 0)
    assert (folder.sync().added, 5 if all(row[-1] for row in folder.content()) else 0) == (0, 5)


def test_files_are_compared_a_few_documents_at_a_time(folder, monkeypatch):
    """What is new, changed or gone is found wherever it stands among what is the same."""
    folder.sync()
    folder.write("3.md", "# Note 3\n", age_hours=0.5)
    folder.write("a.md", "# New\n")
    folder.write("0.5.md", "# New, too\n")
    (folder.base.path / "1.md").unlink()
    (folder.base.path / "4.md").unlink()
    for at_once in (1, 2, 5, 500):
        monkeypatch.setattr(kbhub.index.engine, "AT_ONCE", at_once)
        found = compare(folder.base, SqliteIndex(folder.index_path, "project"), LIMITS)
        assert [one.path for one in found.suspects] == ["0.5.md", "3.md", "a.md"]
        assert found.gone == ("1.md", "4.md")


files = st.dictionaries(st.text("ab/", max_size=3), st.tuples(st.integers(-2, 2), st.integers(-2, 2)), max_size=4)
scans = files.map(lambda found: Scan(dict(sorted(found.items()))))


@given(scans, scans)
def test_files_that_differ_have_another_digest(one, other):
    assert (digest_of(one) == digest_of(other)) == (one.files == other.files)


def test_documents_out_of_order_are_damage_and_no_endless_loop(folder, monkeypatch):
    """What is read a few documents at a time goes on behind the last of them."""
    monkeypatch.setattr(kbhub.index.engine, "AT_ONCE", 2)
    folder.sync()
    with closing(apsw.Connection(str(folder.index_path))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'document'").fetchone()
        size = connection.execute("PRAGMA page_size").get
    data = bytearray(folder.index_path.read_bytes())
    page = (root - 1) * size  # a leaf: its header, then where each row is
    at = page + int.from_bytes(data[page + 8 + 2 * 3 : page + 10 + 2 * 3], "big")
    number = at + 1 + (data[at] >> 7)  # behind the length of the row, of one byte or two
    assert (data[page], data[number]) == (0x0D, 4)
    data[number] = 1
    folder.index_path.write_bytes(data)
    folder.write("new.md", "so that the index is read")

    assert compare(folder.base, SqliteIndex(folder.index_path, "project"), LIMITS).new_index


def test_a_file_that_vanishes_before_it_is_read_stops_nothing_and_one_that_cannot_be_read_keeps_its_row(folder):
    difference = compare(folder.base, SqliteIndex(folder.index_path, "project"), LIMITS)
    (folder.base.path / "3.md").unlink()
    report = folder.sync(difference=difference)
    assert (report.added, [problem.subject for problem in report.failed]) == (4, ["3.md"])
    folder.write("1.md", "# Note 1\n\nother words\n", age_hours=0.1)
    difference = compare(folder.base, SqliteIndex(folder.index_path, "project"), LIMITS)
    (folder.base.path / "1.md").unlink()
    (folder.base.path / "1.md").mkdir()
    report = folder.sync(difference=difference)
    assert [problem.subject for problem in report.failed] == ["1.md"]
    assert any("topic 1" in row[-2] for row in folder.content())


def test_what_lies_below_an_unlisted_folder_or_in_a_base_that_vanished_is_not_gone(folder):
    """What the walk could not see is not taken out."""
    folder.write("sub/deep.md", "zebra")
    folder.sync()
    removed = []
    for unlisted in (("sub",), ()):
        difference = compare(folder.base, SqliteIndex(folder.index_path, "project"), LIMITS)
        seen = {path: file for path, file in difference.scan.files.items() if path != "sub/deep.md"}
        scan = replace(difference.scan, files=seen, unlisted=unlisted)
        removed.append(folder.sync(difference=replace(difference, scan=scan), full=True).removed)
    assert removed == [0, 1]

    folder.sync()
    # A drive that is not mounted is not a deletion of everything on it.
    before = folder.content()
    folder.base.path.rename(folder.base.path.with_name("away"))
    with pytest.raises(BaseUnavailable):
        folder.sync()
    assert before == folder.content()


def test_progress_reaches_the_number_of_files_and_a_renamed_document_keeps_its_vectors(folder, monkeypatch):
    monkeypatch.setattr(kbhub.sync.sync, "BATCH_FILES", 2)
    seen = []
    folder.sync(progress=lambda base, done, todo: seen.append((base, done, todo)))
    assert seen == [("project", 2, 5), ("project", 4, 5), ("project", 5, 5)]
    folder.sync()
    (folder.base.path / "sub").mkdir()
    (folder.base.path / "1.md").rename(folder.base.path / "sub" / "renamed.md")
    report = folder.sync()
    assert counts(report) == (1, 0, 1, 4)
    assert (report.vectors_made, report.vectors_reused) == (0, 1)


def test_one_process_indexes_and_the_others_say_so(folder):
    folder.index_path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder.index_path}.lock"):
        assert folder.sync().notes == ("Another kbhub process is indexing this base.",)
    assert folder.sync().added == 5


def test_who_asks_whether_an_index_is_written_is_not_taken_for_its_writer(folder):
    """Neither by others who ask at the same moment nor by a sync."""
    folder.index_path.parent.mkdir(parents=True)
    start, done = threading.Barrier(ASKING), threading.Event()

    def ask(_):
        start.wait()
        heard = {is_being_indexed(folder.index_path) for _ in range(100)}
        while not done.is_set():
            is_being_indexed(folder.index_path)
        return heard

    with ThreadPoolExecutor(ASKING) as pool:
        answers = pool.map(ask, range(ASKING))
        done.wait(0.05)
        done.set()
        assert set().union(*answers) == {False}
        done.clear()
        answers = pool.map(ask, range(ASKING))
        try:
            reports = [folder.sync(full=True) for _ in range(5)]
        finally:
            done.set()
        list(answers)

    assert not any(report.busy for report in reports)


def commit(folder, when=1_700_000_000):
    """Commit the base; its repository is made where there is none, with a configuration that names programs."""
    root = folder.base.path.parent
    if not (root / ".git").exists():
        make_repository(root)
        evil = root / "evil"
        evil.write_text(f"#!/bin/sh\ntouch {root}/ran\n")
        evil.chmod(0o755)
        with (root / ".git/config").open("a") as config:
            config.write(f"[core]\n fsmonitor = {evil}\n pager = {evil}\n sshCommand = {evil}\n hooksPath = {evil}\n")
            config.write(f"[gpg]\n program = {evil}\n[diff]\n external = {evil}\n[log]\n showSignature = true\n")
    return repositories.commit(root, when, "notes")


def committed(folder):
    index = SqliteIndex(folder.index_path, "project")
    with index.snapshot():
        found = {path: index.document(path).committed for path in index.paths()}
    index.close()
    return found


def test_a_git_in_a_searched_folder_is_not_run(folder, monkeypatch):
    """Which `.` in PATH would find there."""
    commit(folder)
    (folder.base.path.parent / "evil").rename(folder.base.path / "git")
    monkeypatch.chdir(folder.base.path)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.environ['PATH']}")
    folder.sync()
    assert {None} == set(committed(folder).values())


@pytest.mark.slow
def test_documents_know_their_last_commit(folder, tmp_path):
    """Age comes from history, is followed to later commits, to another history, and through links.

    Names and times are only data: names may have the marks of git's own output or be no text, also when the file is
    gone, and times be impossible.
    """
    odd = os.fsencode(folder.base.path) + b"/caf\xe9.md"
    for name in ("x\x01y.md", "\n7\n.md", "\u00fc 'x'.md"):
        folder.write(name, "odd name")
    if LINUX:  # other file systems take no such name
        with open(odd, "w") as file:  # noqa: PTH123 - a path of bytes
            file.write("# Odd\n")
    start = commit(folder)
    failed = [len(folder.sync().failed)]
    first = committed(folder)

    folder.write("1.md", "changed", age_hours=0.2)
    commit(folder, when=1_710_000_000)
    folder.write("late.md", "three")
    commit(folder, when=int("9" * 30))
    if LINUX:
        os.unlink(odd)  # noqa: PTH108
    failed.append(len(folder.sync().failed))
    later = committed(folder)
    (folder.base.path.parent / ".git/refs/heads/main").write_text(start)
    folder.write("1.md", "# Note 1\n\nAbout topic 1 and deployment.\n")
    commit(folder, when=1_720_000_000)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("notes", ".git"):
        (tmp_path / name).rename(elsewhere / name)
    folder.base.path.symlink_to(elsewhere / "notes")
    failed.append(len(folder.sync().failed))

    assert set(first.values()) == {1_700_000_000}
    assert later == first | {"1.md": 1_710_000_000, "late.md": None}
    assert committed(folder) == first | {"late.md": 1_720_000_000}
    assert failed == [LINUX, 0, 0]


def test_documents_that_are_taken_later_know_their_commit(folder):
    """More than git is asked about by name."""
    count = FRESH_PATHS + 5
    folder.write(".kbhubignore", "late*\n")
    for number in range(count):
        folder.write(f"late {number} [x].md", "# Late\n")
    commit(folder)
    folder.sync()
    assert len(committed(folder)) == 5
    folder.write(".kbhubignore", "")
    folder.write("new.md", "# New\n")
    folder.sync()

    late = {path: moment for path, moment in committed(folder).items() if path.startswith("late")}
    assert late == {f"late {number} [x].md": 1_700_000_000 for number in range(count)}
    assert committed(folder)["new.md"] is None


def test_git_never_fetches_what_a_repository_lacks(folder, tmp_path):
    """A partial clone may name a program as its remote; nothing of it is run to find out when a file changed."""
    commit(folder)
    name = repositories.tree(tmp_path, folder.base.path)
    (tmp_path / ".git/objects" / name[:2] / name[2:]).unlink()
    (tmp_path / ".git/config").write_text(
        '[core]\n repositoryFormatVersion = 1\n[extensions]\n partialClone = origin\n[protocol "ext"]\n'
        f' allow = always\n[remote "origin"]\n promisor = true\n url = ext::touch {tmp_path}/ran\n'
    )
    folder.sync()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("way", ["packed", "symbolic", "detached"])
def test_a_commit_is_seen_where_no_branch_has_a_file(folder, tmp_path, way):
    name, git = commit(folder), tmp_path / ".git"
    (git / "refs/heads/main").unlink()
    if way == "packed":
        (git / "packed-refs").write_text(f"{name} refs/heads/main\n")
    elif way == "symbolic":
        (git / "refs/origin").write_text(f"{name}\n")
        (git / "HEAD").write_text("ref: refs/origin\n")
    else:  # in a worktree; the repository itself is on a branch without commits
        repositories.add_worktree(tmp_path, tmp_path / "tree")
        folder = Folder(tmp_path / "tree")
        (git / "worktrees/tree/HEAD").write_text(f"{name}\n")
    assert [one.at for one in history(folder.base, "1.md", 2)] == [1_700_000_000]
