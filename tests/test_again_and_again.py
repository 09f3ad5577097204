"""What was done is not done again: not for a file that cannot be read, and not for another version or embedder."""

import json
import os

import pytest

import kbhub.index.sqlite.schema
from conftest import synced
from kbhub.models.embedding import PACKAGED_MODEL
from kbhub.workspace.git import FRESH_PATHS
from test_faults_storage import give_away, index_of, places, public, shop
from test_sync import commit, committed, folder

__all__ = ["folder", "public", "shop"]
pytestmark = pytest.mark.usefixtures("always_fresh")


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


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.slow), FRESH_PATHS + 5])
def test_a_document_that_is_taken_later_knows_its_commit(folder, count):
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

    folder.write(".kbhubignore", "late*\n")
    folder.sync()
    commit(folder, when=1_710_000_000)
    folder.write(".kbhubignore", "")
    folder.sync()
    assert set(committed(folder).values()) == {1_700_000_000, 1_710_000_000}
    assert committed(folder)["new.md"] == 1_710_000_000
