"""Trust binds a pointer to what it leads to, and is never lost or written over."""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kbhub.errors import ConfigError
from kbhub.workspace.project import TrustStore


@pytest.fixture
def store(tmp_path):
    return TrustStore(tmp_path / "data" / "trust.json")


@pytest.fixture
def pointer(tmp_path):
    file = tmp_path / "project" / ".kbhub.json"
    file.parent.mkdir()
    file.write_text("{}")
    return file


@pytest.fixture
def notes(tmp_path):
    """What may be trusted."""
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


def test_a_grant_is_for_this_pointer_this_target_and_this_use_alone(store, pointer, notes):
    assert (store.grant(pointer, notes), store.entries(), store.path.exists()) == (None, (), False)
    store.add(pointer, notes)
    assert store.grant(pointer, notes)
    assert TrustStore(store.path).grant(pointer, notes)  # for another process
    assert not store.grant(pointer, notes.with_name("other"))
    assert not store.grant(pointer.with_name("other.json"), notes)
    assert not store.grant(pointer, notes, use="cacheDir")
    store.revoke(pointer)
    store.add(pointer, notes, use="cacheDir")
    assert not store.grant(pointer, notes)
    assert store.grant(pointer, notes, use="cacheDir")


def test_writing_is_allowed_only_where_that_was_said_in_a_store_for_the_user_alone(store, pointer, notes):
    store.add(pointer, notes)
    assert not store.grant(pointer, notes, "knowledge").writable
    store.add(pointer, notes, writable=True)
    assert store.grant(pointer, notes, "knowledge").writable
    assert len(store.entries()) == 1

    store.add(pointer, notes)
    grant = {"pointer": str(pointer.resolve()), "target": str(notes.resolve()), "use": "knowledge"}
    data = json.loads(store.path.read_text())
    assert data == {"version": 1, "grants": [{**grant, "writable": False, "project": ""}]}
    if os.name != "nt":
        assert [one.stat().st_mode & 0o777 for one in (store.path, store.path.parent)] == [0o600, 0o700]


def test_links_are_followed_at_both_ends_unless_one_is_itself_trusted(store, pointer, notes):
    """A target that is moved behind a link needs trust anew."""
    link = notes.with_name("link")
    link.symlink_to(notes)
    store.add(pointer, link)
    assert store.grant(pointer, link)
    link.unlink()
    link.symlink_to(pointer.parent)
    assert not store.grant(pointer, link)
    store.add(link / pointer.name, notes)
    assert store.grant(pointer, notes)
    trusted = pointer.parent / "knowledge"
    trusted.symlink_to(notes)
    assert store.add(trusted, notes).pointer == trusted.parent.resolve() / "knowledge"
    assert store.revoke(trusted)


def test_revoking_takes_back_every_grant_of_the_pointer_and_no_other(store, pointer, notes):
    store.add(pointer, notes)
    store.add(pointer, notes.parent, use="cacheDir")
    store.add(pointer.with_name("other.json"), notes)
    pointer.unlink()
    assert (store.revoke(pointer), store.revoke(pointer)) == (True, False)
    assert [grant.pointer.name for grant in store.entries()] == ["other.json"]


@pytest.mark.parametrize(
    ("grant", "told"),
    [
        ('{"pointer": "/a", "target": "/b", "writable": null}', "grants.0.writable: expected true or false, not null"),
        ('{"pointer": "/a"}', "grants.0.target: is missing"),
        ('{"pointer": "/a", "target": "/b", "use": "all"}', "grants.0.use: expected one of 'knowledge', 'cacheDir'"),
        ('{"pointer": "/a", "target": "/b", "more": 1}', "grants.0.more: unknown field"),
        ('["pointer"]', "grants.0: expected an object in braces"),
    ],
)
def test_the_error_says_what_is_to_be_mended(store, grant, told):
    store.path.parent.mkdir()
    store.path.write_text(f'{{"version": 1, "grants": [{grant}]}}', "utf-8")
    with pytest.raises(ConfigError, match=re.escape(told)):
        store.entries()


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"[]", b"{}", b'{"version": 2, "grants": []}', b'{"version": 1, "grants": [{"pointer": "/a"}]}'),
        *(b'{"version": 1, "grants": [], "more": 1}', b'{"version": 1, "grants": [], "x": "\xff"}'),
    ],
)
def test_a_malformed_store_is_a_loud_error_and_is_not_written_over(store, pointer, notes, data):
    store.path.parent.mkdir()
    store.path.write_bytes(data)
    for call in (
        store.entries,
        lambda: store.grant(pointer, notes),
        lambda: store.add(pointer, notes),
        lambda: store.revoke(pointer),
    ):
        with pytest.raises(ConfigError, match=r"trust\.json: the trust store cannot be used"):
            call()
    assert store.path.read_bytes() == data


def test_who_adds_at_once_loses_nothing(store):
    def add(name):
        for number in range(8):
            TrustStore(store.path).add(Path(f"/p/{name}-{number}"), Path("/t"))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(add, "ab"))
    assert len(store.entries()) == 16
