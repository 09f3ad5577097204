"""Indexes that are broken or gone while they are used: set aside, made anew, and said in one line."""

import os
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

import faults
import kbhub.index.sqlite.index
import kbhub.sync.sync
from conftest import synced
from kbhub.errors import IndexUnavailable
from kbhub.index.sqlite.schema import SCHEMA_VERSION
from kbhub.reading.neighbours import related
from kbhub.setup.doctor import examine
from kbhub.sync.background import Background
from kbhub.types import Query
from test_faults_storage import edit, index_of, problems, rebuilt, refs, shop

__all__ = ["shop"]
pytestmark = pytest.mark.usefixtures("always_fresh")


def bring_in_step(hub):
    """Do what the command line does before a search; give what was said."""
    return [note for behind in hub.freshen() for report in hub.sync([behind.base]) for note in report.notes]


def overwrite(path: Path, at: int, size: int, choose: random.Random) -> None:
    """Write noise over a part of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(choose.randbytes(size))


def execute(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    connection.enable_load_extension(True)
    connection.execute(statement).fetchall()
    connection.close()


def put_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "of somebody").write_text("keep me")


BROKEN = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "cut short": lambda path: os.truncate(path, 100),
    "emptied": lambda path: os.truncate(path, 0),
    "noise": lambda path: overwrite(path, 0, path.stat().st_size, random.Random(1)),
    "noise behind the head": lambda path: overwrite(path, 4096, path.stat().st_size - 4096, random.Random(1)),
    "a folder": put_folder,
    "newer": lambda path: execute(path, f"PRAGMA user_version={SCHEMA_VERSION + 1}"),
    "noise in the journal": lambda path: Path(f"{path}-wal").write_bytes(random.Random(1).randbytes(40_000)),
}


@pytest.fixture
def sound(shop):
    """A hub of an indexed project, the path of its index, and what that holds."""
    edit(shop, 30)
    hub = synced(shop)
    return hub, index_of(hub), faults.content(index_of(hub))


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_index_is_set_aside_and_made_anew(shop, sound, how):
    hub, _, good = sound
    assert refs(hub) == {"deploy.md", "notes@vim.md"}
    BROKEN[how](index_of(hub))
    new = shop.hub()

    assert "notes@vim.md" in refs(hub)
    assert "notes@vim.md" in refs(new)
    said = bring_in_step(new)

    if how not in ("emptied", "noise in the journal"):
        assert len(said) == 1
        assert "moved aside" in said[0]
        assert "\n" not in said[0]
    for one in (hub, new):
        one.freshen()
        assert refs(one) == {"deploy.md", "notes@vim.md"}
        assert problems(one) == []
    assert faults.content(index_of(hub)) == good
    if how == "a folder":
        assert [file.read_text() for file in index_of(hub).parent.rglob("of somebody")] == ["keep me"]


TURNED = {
    "a path is no text": "UPDATE document SET path = CAST(x'626574b42e6d64' AS TEXT) WHERE path = 'deploy.md'",
    "a title is no text": "UPDATE document SET title = CAST(x'6265b474' AS TEXT)",
    "a title is bytes": "UPDATE document SET title = x'00'",
    "a time is no number": "UPDATE document SET mtime_ns = 'x'",
    "tags are no JSON": "UPDATE document SET tags = '[1'",
    "tags are no texts": "UPDATE document SET tags = '[1,null,{}]'",
    "tags are nested deeply": "UPDATE document SET tags = replace(hex(zeroblob(50000)), '0', '[')",
    "a kind is none": "UPDATE document SET kind = 'odd'",
    "a document is gone": "DELETE FROM document WHERE path = 'deploy.md'",
    "headings are no JSON": "UPDATE chunk SET headings = '[1'",
    "a line is no number": "UPDATE chunk SET start_line = 'x'",
    "a vector is too short": "UPDATE vector SET embedding = zeroblob(7) WHERE chunk_id = (SELECT max(id) FROM chunk)",
    "the state is no number": "UPDATE meta SET value = 'abc' WHERE key = 'generation'",
}
AT_ONCE = ("a path is no text", "tags are nested deeply", "a document is gone", "a vector is too short")
"""Those that every run of the tests takes."""


@pytest.mark.parametrize(
    "statement",
    [pytest.param(one, id=how, marks=() if how in AT_ONCE else pytest.mark.slow) for how, one in TURNED.items()],
)
def test_a_value_that_makes_no_sense_costs_one_base_its_answer_until_it_is_made_anew(shop, sound, statement):
    hub, path, good = sound
    change(hub, statement)
    result = shop.hub().search("platypus")
    (skipped,) = result.skipped
    assert "notes@vim.md" in {hit.ref for hit in result.hits}
    assert (skipped.base, "`kbhub admin index project --full`" in skipped.reason) == ("project", True)
    shop.hub().sync()
    shop.hub().sync(full=True)
    assert faults.content(path) == good
    assert refs(shop.hub()) == {"deploy.md", "notes@vim.md"}


def test_an_index_that_is_damaged_while_it_is_served_heals_by_itself(sound):
    hub, path, good = sound
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'fts_data'").get
    connection.close()
    overwrite(path, (page - 1) * 4096, 4096, random.Random(1))
    result = hub.search(Query(text="platypus", mode="keyword"))
    assert [skipped.base for skipped in result.skipped] == ["project"]
    said = bring_in_step(hub)
    assert len(said) == 1
    assert "moved aside" in said[0]
    assert faults.content(path) == good
    assert refs(hub) == {"deploy.md", "notes@vim.md"}


@pytest.mark.parametrize("what", ["cache", "index"])
def test_a_cache_that_is_deleted_under_a_hub_is_made_again(shop, what):
    hub = synced(shop)
    refs(hub)
    path = index_of(hub)
    if what == "cache":
        shutil.rmtree(shop.env["KBHUB_CACHE_DIR"])
    else:
        path.unlink()
    assert "notes@vim.md" in refs(hub) or what == "cache"
    background = Background(hub)
    background.look()
    assert background.wait({"project": False, "notes": False}, 60)
    background.stop(60)

    assert refs(hub) == {"deploy.md", "notes@vim.md"}
    assert problems(hub) == []


def test_a_cache_that_is_deleted_while_it_is_written_is_made_again(shop, monkeypatch):
    monkeypatch.setattr(kbhub.sync.sync, "BATCH_FILES", 4)
    edit(shop)
    hub = shop.hub()

    def delete(base, done, todo):
        if done == 8:
            shutil.rmtree(shop.env["KBHUB_CACHE_DIR"])

    with suppress(IndexUnavailable):
        hub.sync(["project"], progress=delete)
    hub.sync()

    assert refs(hub) == {"deploy.md", "notes@vim.md"}
    faults.sound(index_of(hub))
    assert faults.content(index_of(hub)) == rebuilt(shop)
    assert problems(hub) == []


def test_threads_that_find_an_index_gone_all_say_so(shop):
    hub = synced(shop)
    path = index_of(hub)

    def search(_):
        for _ in range(30):
            hub.search(Query(text="platypus", mode="keyword"))
            hub.status()

    with ThreadPoolExecutor(4) as pool:
        searches = pool.map(search, range(4))
        for _ in range(10):
            path.unlink(missing_ok=True)
            hub.sync(["project"])

    assert list(searches) == [None] * 4  # what ended a thread would be raised here
    assert refs(hub) == {"deploy.md", "notes@vim.md"}


FOREIGN = {
    "its vectors have another length": "UPDATE vector SET embedding = zeroblob(10)",
    "they do by what it says of itself": "UPDATE meta SET value = 10 WHERE key = 'dimensions'",
    "they are longer": "UPDATE vector SET embedding = CAST(embedding || embedding AS BLOB)",
}


@pytest.mark.parametrize("statement", FOREIGN.values(), ids=FOREIGN)
def test_vectors_of_a_wrong_length_cost_one_base_its_answer_and_are_made_anew(shop, sound, statement):
    hub, path, good = sound
    change(hub, statement)
    for mode in ("hybrid", "semantic"):
        shop.hub().search(Query(text="platypus", mode=mode))
    (report,) = shop.hub().sync(["project"], check=True)
    (note,) = report.notes
    assert "moved aside" in note
    assert faults.content(path) == good
    assert [one.base for one in shop.hub().search(Query(text="platypus", mode="semantic")).skipped] == []


def test_a_vector_that_is_too_short_costs_no_more_than_the_neighbours_by_meaning(shop, sound):
    change(sound[0], TURNED["a vector is too short"])
    assert related(shop.hub(), "deploy.md", kinds=["near"]).neighbours == ()


def change(hub, statement):
    hub.index(hub.select(["project"])[0]).close()
    execute(index_of(hub), statement)


@pytest.mark.parametrize("in_place", [False, True], ids=["moved", "copied over it"])
def test_an_index_in_anothers_place_answers_nothing(shop, kbhub, in_place):
    """Documents of one base are never shown as those of another, by a hub that has it open neither."""
    hub = synced(shop)
    ours, others = index_of(hub), index_of(hub, "notes")
    good = faults.content(ours)
    assert refs(hub) == {"deploy.md", "notes@vim.md"}
    for index in (hub.index(base) for base in hub.select()):
        index.close()
    if in_place:
        with ours.open("r+b") as file:
            file.write(others.read_bytes())
            file.truncate()
    else:
        shutil.copy(others, ours.with_suffix(".new"))
        ours.with_suffix(".new").replace(ours)

    for one in (hub, shop.hub()):
        result = one.search(Query(text="platypus", mode="keyword"))
        assert {hit.ref for hit in result.hits} == {"notes@vim.md"}
        assert "index of another base" in result.skipped[0].reason
        one.read("deploy.md")
        assert any("index of another base" in problem for problem in problems(one))
    told = kbhub("status", code=0).out
    assert " not usable " in told
    assert told.count("Problem: project: Cannot use the index: it is the index of another base. Rebuild") == 1
    said = bring_in_step(shop.hub())
    assert len(said) == 1
    assert "index of another base" in said[0]
    assert faults.content(ours) == good


ANYWHERE = (
    "search",
    "admin index",
    *(pytest.param(one, marks=pytest.mark.slow) for one in ("read", "status", "doctor")),
)


@pytest.mark.parametrize("command", ANYWHERE)
@pytest.mark.parametrize("how", ["headings are no JSON", pytest.param("a title is no text", marks=pytest.mark.slow)])
def test_damage_that_any_command_meets_is_mended_by_the_next_search(sound, kbhub, command, how):
    hub, path, good = sound
    change(hub, TURNED[how])
    words = {"search": ("platypus",), "read": ("deploy.md",), "admin index": ("project",)}.get(command, ())
    done = kbhub(*command.split(), *words)
    after = kbhub("search", "platypus")
    assert "Traceback" not in done.err + after.err
    assert (done.out + done.err + after.err).count("moved aside as") == 1  # where `index` tells what it did
    assert "deploy.md" in after.out
    assert faults.content(path) == good


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_noise_in_any_page_is_noticed_by_index_and_doctor(shop, sound, seed):
    hub, path, good = sound
    hub.index(hub.select(["project"])[0]).close()
    choose = random.Random(seed)
    overwrite(path, choose.randrange(1, path.stat().st_size // 4096) * 4096, 4096, choose)
    found = [one for one in examine(shop.hub()).findings if one.check == "index" and one.subject == "project"]
    assert [one.level for one in found] == ["error"]
    Path(f"{path}.damaged").unlink(missing_ok=True)
    (report,) = shop.hub().sync(["project"], check=True)
    assert "moved aside" in report.notes[0]
    assert faults.content(path) == good


def test_noise_in_what_is_packed_is_noticed(shop, monkeypatch):
    monkeypatch.setattr(kbhub.index.sqlite.index, "PACKED_FROM", 10)
    edit(shop, 60)
    hub = synced(shop)
    change(hub, "UPDATE packed SET data = zeroblob(length(data)) WHERE name = 'bits'")
    (report,) = shop.hub().sync(["project"], check=True)
    assert "packed" in report.notes[0]
    assert shop.hub().sync(["project"], check=True)[0].notes == ()
