"""Where indexes lie, all may go wrong: what is there is searched, what is wrong is said, and nothing is done twice."""

import json
import os
import shutil
import tempfile
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import faults
import kbhub.hub
import kbhub.index.sqlite.schema
import kbhub.sync.freshness
from conftest import Environment, make_environment, synced
from corpus import sentences
from kbhub.errors import IndexUnavailable
from kbhub.models.embedding import PACKAGED_MODEL
from kbhub.types import Query

pytestmark = pytest.mark.usefixtures("always_fresh")

ROOT = os.name == "posix" and os.geteuid() == 0


@pytest.fixture
def shop(environment):
    """A project with a document and a global base beside it."""
    return furnish(environment)


def furnish(environment: Environment) -> Environment:
    environment.write("knowledge/deploy.md", "# Deploying\n\nRedeploy the tag before; a platypus takes five minutes.\n")
    environment.write(environment.home / "notes" / "vim.md", "# Vim\n\nQuit with a platypus word.\n")
    environment.configure(bases={"notes": "~/notes"}, repos={"*": "notes"})
    return environment


def edit(environment: Environment, documents: int = 40) -> None:
    """Add documents that are indexed in several transactions' worth of pages."""
    for name, text in sentences(documents).items():
        environment.write(f"knowledge/{name}", f"# {name}\n\nfresh {text}\n")


def places(environment: Environment) -> dict:
    return {"project": environment.project, "home": environment.home, "env": environment.env}


def index_of(hub, name="project") -> Path:
    return hub.index(hub.select([name])[0]).path


def refs(hub, words="platypus"):
    return {hit.ref for hit in hub.search(Query(text=words, mode="keyword")).hits}


def problems(hub):
    status = hub.status()
    return [one.message for each in (*status.bases, status) for one in each.problems]


def rebuilt(environment: Environment) -> list:
    cache = environment.home / "elsewhere"
    hub = environment.hub(cache=cache)
    hub.sync(["project"])
    made = faults.content(index_of(hub))
    shutil.rmtree(cache)
    return made


@pytest.mark.parametrize("indexed", [True, False])
def test_a_full_disk_loses_nothing_and_heals(shop, children, indexed):
    path = index_of(shop.hub())
    if indexed:
        shop.hub().sync()
        edit(shop)
    *failed, last = children.call("fill_up", places(shop), "platypus", [0, 2, 15])

    for answer in failed:
        assert answer["errors"][0].startswith("IndexUnavailable: project: Cannot use the index: ")
        assert "full. Free space" in answer["errors"][0]
        assert not indexed or {"deploy.md", "notes@vim.md"} <= set(answer["refs"])
        assert any("full" in problem for problem in answer["problems"])
    assert last["errors"] == last["said"] == []
    assert "deploy.md" in last["refs"]
    assert last["problems"] == []
    faults.sound(path)
    assert faults.content(path) == rebuilt(shop)


def test_a_full_file_system_loses_nothing_and_heals(shop, mounted, tmp_path):
    mount = tmp_path / "small"
    mount.mkdir()
    shop.env["KBHUB_CACHE_DIR"] = str(mount)
    edit(shop)
    before, full, after = mounted("small", mount, "fill_mount", places(shop), "platypus", mount)
    assert before["errors"] == after["errors"] == []
    assert "Free space" in full["errors"][0]
    assert "deploy.md" in full["refs"]
    assert any("Free space" in problem for problem in full["problems"])
    assert "late.md" in after["refs"]
    assert after["problems"] == []


def check_read_only(answer: dict) -> None:
    assert {"deploy.md", "notes@vim.md"} == set(answer["refs"])
    assert answer["skipped"] == []
    assert "Make it writable" in answer["errors"][0]
    assert any("searched as last indexed" in note for note in answer["notes"])
    assert any("Cannot use" in problem for problem in answer["problems"])


def test_an_index_on_a_read_only_file_system_is_searched(shop, mounted):
    """One that was closed, and one whose journal is left."""
    killed(index_of(synced(shop), "notes"))
    shop.write("knowledge/new.md", "# New\n\nA platypus that is not indexed.\n")
    check_read_only(mounted("read-only", shop.env["KBHUB_CACHE_DIR"], "sync_and_ask", places(shop), "platypus"))


def killed(path: Path) -> None:
    """Leave the journal of an index as a process does that is killed after a transaction."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE document SET title = title")
        for suffix in ("", "-wal", "-shm"):
            shutil.copyfile(f"{path}{suffix}", f"{path}{suffix}.copy")
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}.copy").replace(f"{path}{suffix}")


@pytest.fixture
def public(monkeypatch):
    """A project that every user of the machine can reach."""
    with tempfile.TemporaryDirectory() as name:
        real = Path(name).resolve()
        real.chmod(0o755)
        yield furnish(make_environment(real))
        for path, folders, files in os.walk(real):
            for one in (path, *(f"{path}/{inner}" for inner in (*folders, *files))):
                Path(one).chmod(0o700)


def give_away(environment: Environment) -> None:
    """Let the user `NOBODY` own all that there is, where this is root."""
    own = environment.home.parent
    for path in (own, *own.rglob("*")) if ROOT else ():
        os.chown(path, faults.NOBODY, faults.NOBODY)


@pytest.mark.skipif(os.name != "posix", reason="modes are for POSIX")
def test_an_index_in_a_folder_of_another_user_is_searched(public, children):
    killed(index_of(synced(public), "notes"))
    cache = Path(public.env["KBHUB_CACHE_DIR"])
    for path in (cache, *cache.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    public.write("knowledge/new.md", "# New\n\nA platypus that is not indexed.\n")
    check_read_only(children.call("as_nobody", "sync_and_ask", places(public), "platypus"))


@pytest.mark.skipif(os.name != "posix", reason="modes are for POSIX")
@pytest.mark.parametrize("closed", ["cache", "index", "base", "above the base", "file", "folder"])
def test_what_may_not_be_read_is_said_and_stops_nothing_else(public, children, closed):
    public.write("knowledge/secret.md", "# Secret\n\nA platypus.\n")
    public.write("knowledge/inner/deep.md", "# Deep\n\nA platypus.\n")
    cache = Path(public.env["KBHUB_CACHE_DIR"])
    for folder in (cache, cache / "bases"):
        folder.mkdir()
    if closed in ("cache", "index"):
        public.hub().sync()
    give_away(public)
    {
        "cache": cache, "index": index_of(public.hub()), "base": public.project / "knowledge",
        "above the base": public.project, "file": public.project / "knowledge/secret.md",
        "folder": public.project / "knowledge/inner",
    }[closed].chmod(0)  # fmt: skip
    public_places = places(public) | {"project": public.project if closed != "above the base" else public.home}
    if closed == "above the base":
        config = '{"bases": {"notes": "~/notes", "shop": "%s"}, "repos": {"*": ["notes", "shop"]}}'
        public.write(public.home / ".kbhub.json", config % (public.project / "knowledge"))
        (public.home / ".kbhub.json").chmod(0o644)
    answer = children.call("as_nobody", "sync_and_ask", public_places, "platypus")

    said = [*answer["errors"], *answer["problems"], *answer["skipped"]]
    assert any("Permission denied" in one or "Cannot read" in one for one in said), answer
    if closed != "cache":
        assert "notes@vim.md" in answer["refs"]
    if closed in ("file", "folder"):
        assert "deploy.md" in answer["refs"]


def test_a_read_only_base_is_indexed_and_searched(shop, mounted):
    """In a project where nothing can be written."""
    answer = mounted("read-only", shop.project, "sync_and_ask", places(shop), "platypus")
    assert answer["errors"] == answer["problems"] == []
    assert "deploy.md" in answer["refs"]


def test_an_index_that_another_program_holds_is_searched_and_later_written(shop, monkeypatch):
    monkeypatch.setattr(kbhub.index.sqlite.schema, "BUSY_MS", 50)
    hub = synced(shop)
    shop.write("knowledge/new.md", "# New\n\nAnother platypus.\n")
    with closing(apsw.Connection(str(index_of(hub)))) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(IndexUnavailable, match=r"locked.*[Aa]nother program"):
            hub.sync(["project"])
        assert hub.freshen() == ()
        assert refs(hub) == {"deploy.md", "notes@vim.md"}
        assert any("locked" in problem for problem in problems(hub))
    hub.freshen()

    assert "new.md" in refs(hub)
    assert problems(hub) == []


@pytest.mark.skipif(os.name != "posix", reason="modes are for POSIX")
def test_a_file_that_may_not_be_read_is_no_work_for_every_search(public, children):
    """It is named and left in peace until it can be read; then it is indexed though it has not changed."""
    secret = public.write("knowledge/secret.md", "# Secret\n\nA platypus.\n")
    give_away(public)
    secret.chmod(0)
    answer = children.call("as_nobody", "look_again", places(public), str(secret))
    assert ([0, 0, 0, 0], False, 1) == (answer["looks"], answer["written"], answer["opened"])
    assert "secret.md" in answer["refs"]
    assert [] == answer["problems"]


def test_two_versions_on_one_cache_leave_each_other_alone(shop, monkeypatch):
    hub = synced(shop)
    mine = index_of(hub)
    monkeypatch.setattr(kbhub.index.sqlite.schema, "SCHEMA_VERSION", kbhub.index.sqlite.schema.SCHEMA_VERSION + 1)
    other = shop.hub()
    assert index_of(other) != mine
    assert [report.added for report in other.sync(["project"])] != [0]
    monkeypatch.undo()
    again = shop.hub()
    assert index_of(again) == mine
    assert [(report.added, report.changed, report.notes) for report in again.sync()] == [(0, 0, ())] * 2


def test_two_embedders_on_one_cache_leave_each_other_alone(shop, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    for file in PACKAGED_MODEL.iterdir():
        if file.suffix in (".json", ".safetensors"):
            (model / file.name).symlink_to(file)
    config = json.loads((shop.home / ".kbhub.json").read_text())
    second = shop.write(shop.home / "second.json", json.dumps({**config, "embedder": {"model": str(model)}}))
    none = shop.write(shop.home / "none.json", json.dumps({**config, "embedder": {"model": "none"}}))
    made = [sum(report.vectors_made for report in shop.hub(config=one).sync()) for one in (None, second)]
    again = [
        (report.vectors_made, report.vectors_reused, report.added, report.notes)
        for one in (None, second, none, None, second)
        for report in shop.hub(config=one).sync()
    ]

    assert all(made)
    assert set(again) == {(0, 0, 0, ())}
    assert index_of(shop.hub()) == index_of(shop.hub(config=none)) != index_of(shop.hub(config=second))
