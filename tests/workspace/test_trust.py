"""Trust binds a pointer to what it leads to, and is never lost or written over."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from kbhub.errors import ConfigError
from kbhub.workspace.project import TrustStore


@pytest.fixture
def store(tmp_path):
    return TrustStore(tmp_path / "data" / "trust.json")


@pytest.fixture
def pointer(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    file = folder / ".kbhub.json"
    file.write_text("{}")
    return file


def target(tmp_path, name="notes"):
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    return folder


def test_nothing_is_trusted_before_the_user_says_so(store, pointer, tmp_path):
    assert not store.allows(pointer, target(tmp_path))
    assert store.entries() == ()
    assert not store.path.exists()


def test_a_grant_is_for_this_pointer_and_this_target_alone(store, pointer, tmp_path):
    store.add(pointer, target(tmp_path))
    assert store.allows(pointer, target(tmp_path))
    assert not store.allows(pointer, target(tmp_path, "other"))
    assert not store.allows(pointer.with_name("other.json"), target(tmp_path))


def test_a_grant_lasts_for_another_process(store, pointer, tmp_path):
    store.add(pointer, target(tmp_path))
    assert TrustStore(store.path).allows(pointer, target(tmp_path))


def test_writing_is_allowed_only_where_that_was_said(store, pointer, tmp_path):
    store.add(pointer, target(tmp_path))
    assert not store.writable(pointer, target(tmp_path))
    store.add(pointer, target(tmp_path), writable=True)
    assert store.writable(pointer, target(tmp_path))
    assert len(store.entries()) == 1


def test_a_target_that_is_moved_behind_a_link_needs_trust_anew(store, pointer, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(target(tmp_path))
    store.add(pointer, link)
    assert store.allows(pointer, link)
    link.unlink()
    link.symlink_to(target(tmp_path, "elsewhere"))
    assert not store.allows(pointer, link)


def test_the_folder_of_an_index_and_the_folder_of_a_base_are_trusted_apart(store, pointer, tmp_path):
    store.add(pointer, target(tmp_path), use="cacheDir")
    assert store.allows(pointer, target(tmp_path), use="cacheDir")
    assert not store.allows(pointer, target(tmp_path))


def test_a_pointer_reached_through_a_link_is_the_same_pointer(store, pointer, tmp_path):
    (tmp_path / "alias").symlink_to(pointer.parent)
    store.add(tmp_path / "alias" / pointer.name, target(tmp_path))
    assert store.allows(pointer, target(tmp_path))


def test_a_link_that_is_itself_trusted_keeps_its_own_name(store, pointer, tmp_path):
    link = pointer.parent / "knowledge"
    link.symlink_to(target(tmp_path))
    grant = store.add(link, target(tmp_path))
    assert grant.pointer == link.parent.resolve() / "knowledge"
    assert store.revoke(link)


def test_revoking_takes_back_every_grant_of_the_pointer_and_no_other(store, pointer, tmp_path):
    other = pointer.with_name("other.json")
    store.add(pointer, target(tmp_path))
    store.add(pointer, target(tmp_path, "cache"), use="cacheDir")
    store.add(other, target(tmp_path))
    pointer.unlink()
    assert store.revoke(pointer) is True
    assert store.revoke(pointer) is False
    assert [grant.pointer.name for grant in store.entries()] == ["other.json"]


MALFORMED = ["", "{", "[]", "{}", '{"version": 2, "grants": []}', '{"version": 1, "grants": [{"pointer": "/a"}]}']


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


@pytest.mark.parametrize("text", [*MALFORMED, '{"version": 1, "grants": [], "more": 1}'])
def test_a_malformed_store_is_a_loud_error_and_is_not_written_over(store, pointer, tmp_path, text):
    store.path.parent.mkdir()
    store.path.write_text(text)
    for call in (
        store.entries,
        lambda: store.allows(pointer, tmp_path),
        lambda: store.add(pointer, tmp_path),
        lambda: store.revoke(pointer),
    ):
        with pytest.raises(ConfigError, match=r"trust\.json: the trust store cannot be used"):
            call()
    assert store.path.read_text() == text


def test_a_store_that_is_not_utf8_is_a_loud_error(store, pointer, tmp_path):
    store.path.parent.mkdir()
    store.path.write_bytes(b'{"version": 1, "grants": [], "x": "\xff"}')
    with pytest.raises(ConfigError):
        store.add(pointer, tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="modes are for POSIX")
def test_the_store_and_its_folder_are_for_the_user_alone(store, pointer, tmp_path):
    store.add(pointer, target(tmp_path))
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert store.path.parent.stat().st_mode & 0o777 == 0o700


def test_the_store_is_versioned_json(store, pointer, tmp_path):
    store.add(pointer, target(tmp_path))
    data = json.loads(store.path.read_text())
    assert data["version"] == 1
    assert data["grants"] == [
        {
            "pointer": str(pointer.resolve()),
            "target": str(target(tmp_path).resolve()),
            "use": "knowledge",
            "writable": False,
            "project": "",
        }
    ]


ADD = """
import sys
from pathlib import Path
from kbhub.workspace.project import TrustStore
store = TrustStore(Path(sys.argv[1]))
for number in range(15):
    store.add(Path(f"/p/{sys.argv[2]}-{number}"), Path("/t"))
"""


def test_two_processes_that_add_at_once_lose_nothing(store):
    commands = [[sys.executable, "-c", ADD, str(store.path), name] for name in ("a", "b")]
    running = [subprocess.Popen(command) for command in commands]
    assert [process.wait(timeout=60) for process in running] == [0, 0]
    assert len(store.entries()) == 30
