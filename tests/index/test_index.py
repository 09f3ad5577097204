"""The SQLite file of a base."""

import os
import stat
import threading

import numpy as np
import pytest

import kbhub.index.sqlite.schema
from corpus import EMBEDDER, make_index, sentences
from kbhub.errors import IndexUnavailable
from kbhub.index.query.parser import parse_query
from kbhub.index.sqlite.index import IndexWriter, SqliteIndex
from kbhub.index.sqlite.schema import index_path, set_aside
from kbhub.types import Base

(DEPLOY,) = parse_query("deploy").terms


@pytest.fixture
def index(tmp_path):
    return make_index(tmp_path / "a.db", sentences(40))


def test_semantic_ranking_is_exact(index):
    query = EMBEDDER.embed(["restore a database backup"])[0]
    with index.snapshot():
        found = index.semantic(query, 10)
    texts = list(sentences(40).values())
    exact = np.argsort(-(EMBEDDER.embed(texts) @ query), kind="stable")[:10] + 1

    assert len(set(exact) & {chunk for chunk, _ in found}) >= 9
    assert found[0][0] == exact[0]
    assert all(-1.001 <= similarity <= 1.001 for _, similarity in found)


def test_vectors_are_compared_the_same_without_the_extension(index, monkeypatch):
    """To the last bit."""
    query = EMBEDDER.embed(["restore a database backup"])[0]
    with index.snapshot():
        expected = index.semantic(query, 100)
    monkeypatch.setattr("kbhub.index.sqlite.schema._vector_extension", lambda: None)
    bare = SqliteIndex(index.path, "project")
    with bare.snapshot():
        assert not kbhub.index.sqlite.schema.has_vector_functions(bare._local.seen.connection)
        assert bare.semantic(query, 100) == expected


def test_reading_changes_no_byte(index):
    """Of a file that no other user can read; a docid of eight digits leads to its document."""
    before = index.path.read_bytes()
    with index.snapshot():
        index.counts(), index.columns(), index.paths(), len(index.postings(DEPLOY))
        index.semantic(EMBEDDER.embed(["x"])[0], 5)
        document = index.document("notes/007.md")
        assert document is not None
        assert [document] == index.documents_by_docid(document.docid[:8])
        assert index.documents_by_docid("zz") == []
    index.close()

    assert before == index.path.read_bytes()
    if os.name == "posix":
        assert stat.S_IMODE(index.path.stat().st_mode) == 0o600


def test_a_snapshot_does_not_see_what_is_written_meanwhile(index):
    """What is remembered, such as document frequencies, is forgotten when the index changes."""
    holding = next(name for name, text in sentences(40).items() if "deploy" in text.split())
    with index.snapshot():
        before, postings = index.counts(), len(index.postings(DEPLOY))
        with IndexWriter(index.path) as writer, writer.transaction():
            writer.remove(holding)
        with index.snapshot():  # of the same thread, within the other
            assert index.counts()[0] == before[0] - 1
        assert before == index.counts()
    with index.snapshot():
        assert (before[0] - 1, postings - 1) == (index.counts()[0], len(index.postings(DEPLOY)))


def test_signatures_do_not_depend_on_when_they_were_first_asked_for(index):
    """Who searched before a change has the same candidates after it as who did not."""
    with index.snapshot():
        index.signed(None, EMBEDDER.dimensions)
    with IndexWriter(index.path) as writer, writer.transaction():
        for number in range(5):
            writer.remove(f"notes/{number:03}.md")
    other = SqliteIndex(index.path, "project")
    with index.snapshot(), other.snapshot():
        warm, alive = index.signed(None, EMBEDDER.dimensions)
        cold, there = other.signed(None, EMBEDDER.dimensions)
        assert (warm.mean == cold.mean).all()
        assert (warm.bits[:, alive] == cold.bits[:, there]).all()
    other.close()


def test_a_file_replaced_within_a_snapshot_changes_nothing_in_it(tmp_path, index):
    """Also if the index is set aside meanwhile; the next one reads the new file, and remembers nothing of the old."""
    other = make_index(tmp_path / "other" / index.path.name, dict.fromkeys("abc", "nothing of the kind"))
    with index.snapshot():
        before = index.counts()
        assert len(index.postings(DEPLOY)) > 0
        set_aside(index.path)
        assert before == index.counts()
        other.close()
        other.path.replace(index.path)
        assert before == index.counts()
    with index.snapshot():
        assert index.counts()[0] == 3
        assert len(index.postings(DEPLOY)) == 0


@pytest.mark.parametrize("before", [(), ("size",), ("size", "near")])
def test_a_snapshot_stays_at_its_state_while_others_read_later_ones(index, before):
    vector = EMBEDDER.embed(["deploy"])[0]
    reads = {"size": lambda: index.columns().chunks, "near": lambda: len(index.semantic(vector, 99))}

    def change(number):
        make_index(index.path, {f"new/{number}.md": f"a new word {number}"}).close()
        with IndexWriter(index.path) as writer, writer.transaction():
            writer.remove(f"notes/{number:03}.md")
            writer.remove(f"new/{number - 1}.md")

    def look():
        with index.snapshot():
            seen.append([read() for read in reads.values()])

    seen = []
    with index.snapshot():
        index.counts()
        assert [reads[name]() for name in before] == [40] * len(before)
        for number in (1, 2, 3):
            change(number)
            thread = threading.Thread(target=look)
            thread.start()
            thread.join(30)
        assert [read() for read in reads.values()] == [40, 40]
        ids = [chunk for chunk, _ in index.semantic(vector, 99)]
        assert {chunk.text for chunk in index.chunks(ids).values()} == set(sentences(40).values())
    look()
    assert seen == [[40, 40], [39, 39], [38, 38], [38, 38]]


def test_a_missing_index_says_how_to_make_it(tmp_path):
    """Between its first byte and its first table a file is no damaged index."""
    path = tmp_path / "new.db"
    for told in ("kbhub admin index ops", "not exist yet"):
        with pytest.raises(IndexUnavailable, match=told), SqliteIndex(path, "ops").snapshot():
            pass
        path.touch()


def test_one_folder_has_one_index_and_two_folders_two(tmp_path):
    """The name is readable, and depends on the real path and on what is taken from it, not on the id."""
    base = Base(id="project", path=tmp_path / "shop" / "knowledge", origin="knowledge")
    same = base.model_copy(update={"id": "shop"})
    part = base.model_copy(update={"include": ("*.txt",)})
    other = Base(id="project", path=tmp_path / "other" / "knowledge", origin="knowledge")

    assert index_path(base, tmp_path) == index_path(same, tmp_path)
    assert len({index_path(one, tmp_path) for one in (base, part, other)}) == 3
    assert index_path(base, tmp_path).name.startswith("shop-knowledge-")
    # File systems take 255 bytes, and journals and the lock have endings of their own.
    path = index_path(Base(id="ja", path=tmp_path / ("\u732b" * 80), origin="config"), tmp_path)
    assert len(f"{path.name}.lock".encode()) <= 255
    assert len(f"{path.with_suffix('.aside.db').name}-wal".encode()) <= 255
