"""The SQLite file of a base, and what it keeps side by side for queries, against the tables that it is made of."""

import os
import random
import stat
import threading

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kbhub.index.sqlite.schema
from conftest import synced
from corpus import EMBEDDER, make_index, nearest, ranking_of, rankings, sentences
from kbhub.errors import IndexUnavailable
from kbhub.index.engine import Index
from kbhub.index.matches import keys_of, spread
from kbhub.index.query.parser import parse_query
from kbhub.index.signatures import BITS, LEAST_COMPARED, Signatures, growing, likely, sign, written
from kbhub.index.sqlite import columns
from kbhub.index.sqlite import index as pack
from kbhub.index.sqlite.index import IndexWriter, SqliteIndex, index_path
from kbhub.index.sqlite.schema import open_writer, remedy, set_aside
from kbhub.models.static_model import quantise, similarity
from kbhub.types import Base

QUERIES = [
    "roll back a release", "restore a database backup from the replica", "refund", "w17 w200 w399", "the of and to",
    "deploy", '"release rollback"', "user-account", "nothingmatchesthis deploy", "000",
]  # fmt: skip


@pytest.fixture
def small(monkeypatch):
    """Pack indexes of a few hundred chunks, terms that one in twenty chunks has among what is packed."""
    monkeypatch.setattr(pack, "PACKED_FROM", 100)
    monkeypatch.setattr(columns, "COMMON", 20)


def counted(index: Index, table: str) -> int:
    with index.snapshot():
        return int(index.rows(f"SELECT count(*) FROM {table}")[0][0])


def tidied(index: Index) -> None:
    with IndexWriter(index.path) as writer:
        writer.tidy(0)


@pytest.mark.parametrize("at_once", [7, 1000])
def test_a_large_index_is_packed_and_read_in_parts(small, monkeypatch, tmp_path, at_once):
    """No answer changes. Rows come some at a time, signatures word by word, as no value may exceed SQLite's limit."""
    monkeypatch.setattr(columns, "AT_ONCE", at_once)
    monkeypatch.setattr(columns, "MOST_BYTES", 1000)
    index = make_index(tmp_path / "a.db", sentences(300))
    before = {query: rankings([index], query) for query in QUERIES}
    tidied(index)

    assert counted(index, "posting") > 50
    with index.snapshot():
        names = {name for (name,) in index.rows("SELECT name FROM packed")}
    assert {one for one in names if one.startswith("bits")} == {f"bits{n}" for n in range(EMBEDDER.dimensions // 32)}
    with IndexWriter(index.path) as writer:
        assert writer.check() is None
    for query in QUERIES:
        assert before[query] == rankings([index], query) == rankings([SqliteIndex(index.path, "project")], query)


def test_a_base_that_is_too_large_for_one_index_says_so(small, tmp_path):
    """A value above SQLite's limit, which is lowered here, cannot be packed; what was indexed stays."""
    index = make_index(tmp_path / "a.db", sentences(300))
    connection = open_writer(index.path)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, 1000)
    with pytest.raises(apsw.TooBigError) as refused, pack.packing(connection) as write, connection:
        write()
    connection.close()
    assert "several bases" in remedy(refused.value)
    assert counted(index, "chunk") == 300


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_what_comes_and_goes_after_packing_is_found_as_in_an_index_made_anew(small, tmp_path, seed):
    """Every edit after a packing shows at once: what is new, what is gone, and the weights of all terms."""
    choose = random.Random(seed)
    documents = sentences(300)
    index = make_index(tmp_path / "a.db", documents)
    tidied(index)
    for query in QUERIES[:2]:
        rankings([index], query)  # what it keeps in memory must follow, too
    for batch in range(2):
        changed = choose.sample(sorted(documents), 8)
        texts = dict(zip(changed, sentences(8, seed=100 * seed + batch).values(), strict=True))
        fresh = {f"new/{seed}-{batch}.md": "deploy refund w17 release rollback " * (batch + 1)}
        dropped = choose.sample([name for name in sorted(documents) if name not in changed], 3)
        documents |= texts | fresh
        make_index(index.path, texts | fresh)
        with IndexWriter(index.path) as writer, writer.transaction():
            for name in dropped:
                writer.remove(name)
                del documents[name]
        anew = make_index(tmp_path / f"{batch}.db", documents)
        for query in QUERIES:
            assert rankings([index], query)[0] == rankings([anew], query)[0]
            assert dict(rankings([index], query)[1][:20]).keys() == dict(rankings([anew], query)[1][:20]).keys()
    with index.snapshot():
        assert index.columns().packed == 300
    tidied(index)
    with index.snapshot():
        assert index.columns().packed == len(documents) == index.columns().chunks
    assert counted(index, "gone") == 0


def test_signatures_of_another_embedder_are_not_used(small, tmp_path):
    """After a change of the embedder, the packed bits are those of vectors that are gone."""
    index = make_index(tmp_path / "a.db", sentences(300))
    tidied(index)
    with IndexWriter(index.path) as writer, writer.transaction():
        writer.set_meta({"embedder": "another"})
        writer.forget_vectors()
    with index.snapshot():
        assert nearest(index, EMBEDDER.embed(["deploy"])[0], 10) == []
    tidied(index)
    with SqliteIndex(index.path, "project").snapshot():
        assert pack.is_loose(apsw.Connection(str(index.path))) is False


def test_tables_that_differ_are_made_anew_when_they_are_packed(small, environment):
    """A chunk that is gone from one table and not from the other ends no sync with a traceback."""
    for name, text in sentences(120).items():
        environment.write(f"knowledge/{name}", f"# {name}\n\n{text}\n")
    hub = synced(environment)
    index = hub.index(hub.select()[0])
    connection = apsw.Connection(str(index.path))
    connection.execute("DELETE FROM chunk WHERE id = 5")
    connection.execute("DELETE FROM meta WHERE key = 'packed_to'")
    connection.close()
    environment.write("knowledge/more.md", "# More\n\nA zebra.\n")

    (report,) = hub.sync()

    assert any("moved aside" in note for note in report.notes)
    assert report.added == 121
    assert [hit.path for hit in hub.search("zebra").hits] == ["more.md"]


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM packed WHERE name = 'lengths'",
        "UPDATE packed SET data = x'0102' WHERE name = 'lengths'",
        "UPDATE packed SET data = x'0102' WHERE name = 'bits'",
        "UPDATE packed SET data = x'ff' WHERE name = 'ids'",
        "UPDATE posting SET places = zeroblob(9)",
        "UPDATE posting SET places = x'fffffffffefefe', counts = x'01010101'",
        "DELETE FROM meta WHERE key = 'pack'",
    ],
)
def test_damage_to_what_is_packed_is_said(small, tmp_path, damage):
    """A file that somebody else wrote to is named as damaged, to be made anew, and nothing breaks."""
    index = make_index(tmp_path / "a.db", sentences(300))
    tidied(index)
    index.close()
    connection = apsw.Connection(str(index.path))
    connection.execute(damage)
    connection.close()
    with pytest.raises(IndexUnavailable, match="Rebuild it with"):
        rankings([index], "deploy a release")


@given(st.lists(st.integers(0, 3000)))
def test_numbers_are_read_as_they_were_written(steps):
    numbers = np.cumsum(np.array(steps, np.int64), dtype=np.int64)
    assert growing(written(numbers)).tolist() == numbers.tolist()


(DEPLOY,) = parse_query("deploy").terms


@pytest.fixture
def index(tmp_path):
    return make_index(tmp_path / "a.db", sentences(40))


def test_vectors_are_compared_the_same_without_the_extension(index, monkeypatch):
    """To the last bit; one of another size is damage."""
    query = EMBEDDER.embed(["restore a database backup"])[0]
    with index.snapshot():
        expected = nearest(index, query, 100)
    monkeypatch.setattr("kbhub.index.sqlite.schema._vector_extension", lambda: None)
    bare = SqliteIndex(index.path, "project")
    with bare.snapshot():
        assert not kbhub.index.sqlite.schema.has_vector_functions(bare._local.seen.connection)
        assert nearest(bare, query, 100) == expected
    with apsw.Connection(str(index.path)) as connection:
        connection.execute("UPDATE vector SET embedding = substr(embedding, 1, 100)")
    with SqliteIndex(index.path, "project").snapshot() as damaged, pytest.raises(IndexUnavailable):
        damaged.similarities(np.ones(EMBEDDER.dimensions, np.int8), [1, 2])


def test_reading_changes_no_byte(index):
    """Of a file that no other user can read; a docid of eight digits leads to its document."""
    before = index.path.read_bytes()
    with index.snapshot():
        index.counts(), index.columns(), index.paths(), len(index.postings(DEPLOY).positions)
        nearest(index, EMBEDDER.embed(["x"])[0], 5)
        document = index.document("notes/007.md")
        assert document is not None
        assert [document] == index.documents_by_docid(document.docid[:8])
        assert index.documents_by_docid("zz") == []
    index.close()

    assert before == index.path.read_bytes()
    if os.name == "posix":
        assert stat.S_IMODE(index.path.stat().st_mode) == 0o600


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
        assert len(index.postings(DEPLOY).positions) > 0
        set_aside(index.path)
        assert before == index.counts()
        other.close()
        other.path.replace(index.path)
        assert before == index.counts()
    with index.snapshot():
        assert index.counts()[0] == 3
        assert len(index.postings(DEPLOY).positions) == 0


@pytest.mark.parametrize("before", [(), ("size",), ("size", "near")])
def test_a_snapshot_stays_at_its_state_while_others_read_later_ones(index, before):
    vector = EMBEDDER.embed(["deploy"])[0]
    reads = {"size": lambda: index.columns().chunks, "near": lambda: len(nearest(index, vector, 99))}

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
        ids = [chunk for chunk, _ in nearest(index, vector, 99)]
        assert {chunk.text for chunk in index.chunks(ids)} == set(sentences(40).values())
    look()
    assert seen == [[40, 40], [39, 39], [38, 38], [38, 38]]


def test_a_missing_index_says_how_to_make_it_and_one_folder_has_one_index_and_two_folders_two(tmp_path):
    """Between its first byte and its first table a file is no damaged index."""
    path = tmp_path / "new.db"
    for told in ("kbhub admin index ops", "not exist yet"):
        with pytest.raises(IndexUnavailable, match=told), SqliteIndex(path, "ops").snapshot():
            pass
        path.touch()

    # The name is readable, and depends on the real path and on what is taken from it, not on the id.
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


def vectors(count: int, seed: int = 1) -> np.ndarray:
    """Make unit vectors in clusters, as those of texts are."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(40, 64))
    made = centres[random.integers(0, 40, count)] + random.normal(size=(count, 64))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


MOST = LEAST_COMPARED * BITS // 128
"""Of these short vectors that are compared."""


def reader(stored):
    """What reads int8 vectors by id, id being the row."""
    blobs = [row.tobytes() for row in quantise(stored)]
    return lambda ids: [(one, blobs[one]) for one in ids.tolist()]


def compared(signatures: Signatures, vector, least, allowed=True) -> np.ndarray:
    """The positions of one base that are compared, among those that are allowed."""
    (found,) = likely([(signatures, allowed)], vector, least)
    return found


@pytest.mark.parametrize("apart", [False, True], ids=["at random", "by what they are about"])
def test_bases_share_what_is_compared(apart):
    """The ten nearest are found wherever they are, and eight bases cost little more than one."""
    stored, asked = vectors(20_000), vectors(20, seed=2)
    order = np.argsort(stored @ stored[0]) if apart else np.random.default_rng(4).permutation(20_000)
    bases = np.array_split(order, 8)
    signed = [sign(None, np.arange(len(base)), reader(stored[base])) for base in bases]
    found = 0
    for vector in asked:
        near = likely([(one, True) for one in signed], vector, 100)
        compared = np.concatenate([base[at] for base, at in zip(bases, near, strict=True)])
        assert len(compared) <= 2 * MOST
        found += len(np.intersect1d(compared, np.argsort(-(stored @ vector))[:10]))
    assert found / 200 >= 0.97


def test_a_small_base_gives_nothing_that_may_not_be_found_and_the_best_are_kept_with_their_equals():
    """It has fewer chunks to compare than each base is granted, and others besides."""
    stored, allowed = vectors(20_040), np.arange(40) % 2 == 0
    large, small = sign(None, np.arange(20_000), reader(stored)), sign(None, np.arange(40), reader(stored[-40:]))
    _, near, none = likely([(large, True), (small, allowed), (sign(None, np.arange(0), list), True)], stored[0], 100)
    assert (near.tolist(), none.tolist()) == (np.flatnonzero(allowed).tolist(), [])
    # Which of equals is kept is decided by their places, not by where they lie in an index.
    values = np.array([1.0, 3.0, 2.0, 2.0, 0.5, 2.0])
    assert sorted(spread(np.arange(6), values, 2, None)) == [1, 2, 3, 5]


@pytest.mark.parametrize("share", [0.1, 0.6, 1])
def test_what_may_not_be_found_takes_no_place(share):
    """Among some of 20,000 vectors, nearly all of the ten nearest of those are candidates, and nothing else is."""
    stored, asked = vectors(20_000), vectors(20, seed=2)
    signatures = sign(None, np.arange(20_000), reader(stored))
    chosen = np.random.default_rng(3).random(20_000) < share
    inside, found = np.flatnonzero(chosen), 0
    for vector in asked:
        candidates = set(compared(signatures, vector, 100, chosen).tolist())
        assert candidates <= set(inside.tolist())
        assert len(candidates) <= MOST
        found += len(candidates & set(inside[np.argsort(-(stored[inside] @ vector))[:10]].tolist()))
    assert found / 200 >= 0.97


@pytest.mark.parametrize("first", [1000, 4500])
def test_signatures_follow_changes(first):
    stored = vectors(6_000)
    ids = np.arange(5_000)
    some = sign(None, ids[:first], lambda wanted: reader(stored)(wanted[wanted % 7 > 0]))
    followed, anew = sign(some, ids, reader(stored)), sign(None, ids, reader(stored))
    assert followed.signed.all()
    assert followed.bits.shape == anew.bits.shape
    candidates = compared(followed, stored[4_000], 100)
    assert 4_000 in candidates
    assert len(np.intersect1d(candidates, compared(anew, stored[4_000], 100))) > 0.8 * len(candidates)


def test_no_vectors_are_no_candidates_rounding_changes_little_and_equal_scores_go_by_path_line_and_base():
    for chunks in (0, 10):
        signatures = sign(None, np.arange(chunks), lambda ids: [])
        assert compared(signatures, vectors(1)[0], 10).tolist() == []
    stored, asked = vectors(500), vectors(1, seed=3)[0]
    exact = stored @ asked
    rounded = similarity([row.tobytes() for row in quantise(stored)], quantise(asked))
    assert np.abs(exact - np.array(rounded)).max() < 0.01

    # Ties are decided the same way on every run and for every cut of a corpus.
    places = {
        (0, 7): ("z.md", 1, "y"), (1, 1): ("b.md", 1, "x"), (0, 2): ("a.md", 9, "y"), (0, 1): ("a.md", 2, "y"),
        (1, 2): ("a.md", 2, "x"),
    }  # fmt: skip
    found = ranking_of([(key, 1, 2.0 if key == (0, 7) else 1.0) for key in places])
    asked = []

    def where(keys):
        asked.extend(keys)
        return places

    assert keys_of(found.best(4, where).chunks) == [(0, 7), (1, 2), (0, 1), (0, 2)]
    assert (0, 7) not in asked


@pytest.mark.parametrize(("each", "chosen"), [(1, [0, 4, 5]), (2, [0, 1, 4, 5]), (None, [0, 1, 2])])
def test_a_long_document_leaves_room_for_others(each, chosen):
    documents, values = np.array([7, 7, 7, 7, 8, 9]), np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    assert sorted(spread(documents, values, 3, each)) == chosen
