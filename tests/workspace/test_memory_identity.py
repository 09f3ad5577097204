"""A project is the same in every clone and worktree, and no other one; trust binds a pointer to what it leads to."""

import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from conftest import make_repository
from kbhub.errors import ConfigError
from kbhub.types import Workspace
from kbhub.workspace.git import git_root, identify, main_worktree, normal_origin, origin_address
from kbhub.workspace.project import TrustStore
from repositories import add_remote, add_worktree, commit


def identity(folder: Path):
    real = folder.resolve()
    return identify(Workspace(directory=real, source="", git_root=git_root(real, Path("/nobody"))))


@pytest.fixture
def repository(tmp_path):
    """A repository with a commit, a clone of it, and the worktree `tree`."""
    for at in (1_700_000_000, 1_700_000_001):
        commit(tmp_path / "shop", at)
    clone = Path(shutil.copytree(tmp_path / "shop", tmp_path / "clone"))
    add_remote(clone, tmp_path / "shop")
    add_worktree(tmp_path / "shop", tmp_path / "tree")
    return tmp_path / "shop"


@pytest.mark.parametrize(
    "address",
    [
        *("https://github.com/acme/shop.git", "https://github.com/acme/shop", "https://github.com/acme/shop/"),
        *("https://GitHub.com/Acme/Shop.git", "https://user:secret@github.com/acme/shop.git"),
        *("https://github.com:443/acme/shop", "http://github.com/acme//shop.git"),
        *("ssh://git@github.com/acme/shop.git", "ssh://git@github.com:22/acme/shop.git"),
        *("git+ssh://git@github.com/acme/shop.git", "git@github.com:acme/shop.git", "github.com:acme/shop"),
        *("git@github.com:/acme/shop.git", "git://github.com/acme/shop.git", "  https://github.com/acme/shop.git "),
    ],
)
def test_all_spellings_of_an_origin_are_one_project(address):
    assert normal_origin(address) == "github.com/acme/shop"


@pytest.mark.parametrize("other", [".org/A/b", ".org:8443/a/b", ".com/a/b", ".org/a/b/c"])
def test_other_addresses_are_other_projects(other):
    """Credentials never reach an identity."""
    assert normal_origin("https://git.example.org/a/b") != normal_origin(f"https://git.example{other}")
    assert "secret" not in str(normal_origin(f"https://oauth2:secret@git.example{other}"))


@pytest.mark.parametrize(
    "address",
    [
        *("", "   ", "/srv/git/shop.git", "../shop", "C:\\work\\shop", "C:/work/shop", "file:///srv/shop"),
        *("https://", "x" * 5000, "https://github.com/", "a\nb:c", "https://[bad/x", "https://h:99999/x"),
    ],
)
def test_what_is_no_remote_address_is_none(address):
    assert normal_origin(address) is None


@pytest.mark.parametrize(
    ("config", "address"),
    [
        ('[remote "origin"]\n\turl = https://a/b # mine\n', "https://a/b"),
        ('[core]\n\turl = no\n[remote "origin"]\n\tfetch = +x\n\tURL = "https://a/b#c"\n', "https://a/b#c"),
        ('[Remote "origin"] url = https://a/b', "https://a/b"),
        ('[remote "origin"]\n\turl = https://a/\\\nb\n', "https://a/b"),
        ('[remote "origin"]\r\n\turl = https://a/b\r\n', "https://a/b"),
        ('[remote "origin"]\n\turl = "https://a/b c;d#e.git"\n', "https://a/b c;d#e.git"),  # as git writes it
        ('[remote "origin"]\n\turl = https://a/b # was\u2028[core]\n\tfetch = +x\n', "https://a/b"),
        ('# once\x85[remote "origin"]\n\turl = https://a/b\n', None),
        ('[remote "Origin"]\n\turl = https://a/b\n', None),
        ('[remote "upstream"]\n\turl = https://a/b\n', None),
        ('[remote "origin"]\n[branch "main"]\n\turl = https://a/b\n', None),
        ("", None),
    ],
)
def test_git_configuration_is_read_as_git_reads_it(config, address):
    assert origin_address(config) == address


def test_clones_worktrees_and_submodules_are_one_project(repository, tmp_path):
    """By the address of their origin (that of the clone is a path, whose origin counts), or by the first commit.

    A submodule has a repository of its own in the one around it.
    """
    outer, inner = tmp_path / "outer", tmp_path / "outer/inner"
    make_repository(outer)
    module = Path(shutil.copytree(tmp_path / "clone/.git", outer / ".git/modules/inner"))
    with (module / "config").open("a") as config:
        config.write("[core]\n\tworktree = ../../../inner\n")
    folders = (tmp_path / "clone", tmp_path / "tree", inner)
    inner.mkdir()
    (inner / ".git").write_text("gitdir: ../.git/modules/inner\n")
    (first,) = {identity(folder) for folder in folders}
    add_remote(repository, "git@git.example.org:acme/shop.git")
    (address,) = {identity(folder) for folder in folders}

    assert first.kind == "root"
    assert (address.kind, address.text) == ("origin", "git.example.org/acme/shop")
    assert (main_worktree(inner), identity(outer).kind) == (None, "path")


def test_a_shallow_clone_and_a_forged_git_file_are_not_taken_for_the_project(repository, tmp_path):
    (repository / ".git/shallow").write_text((repository / ".git/refs/heads/main").read_text())
    assert identity(repository).kind == "path"
    # An archive can hold any `.git` file; it is believed only if the repository knows the worktree.
    add_remote(repository, "https://git.example.org/bank/core")
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    (hostile / ".git").write_text(f"gitdir: {repository / '.git'}\n")
    assert (identity(hostile).kind, identity(hostile).text) == ("path", str(hostile.resolve()))


def test_without_git_or_commits_the_path_is_the_project_and_an_included_file_or_a_circle_is_not_followed(tmp_path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    make_repository(tmp_path / "new")
    assert identity(tmp_path / "plain") == identity(tmp_path / "link")
    assert {identity(tmp_path / "plain").kind, identity(tmp_path / "new").kind} == {"path"}
    assert identity(tmp_path / "plain") != identity(tmp_path / "new")

    make_repository(tmp_path)
    (tmp_path / "other").write_text('[remote "origin"]\n\turl = https://git.example.org/bank/core\n')
    with (tmp_path / ".git/config").open("a") as config:
        config.write(f"[include]\n\tpath = {tmp_path / 'other'}\n")
    assert identity(tmp_path).kind == "path"
    for name, other in (("one", "two"), ("two", "one")):
        make_repository(tmp_path / name)
        add_remote(tmp_path / name, tmp_path / other)
    assert identity(tmp_path / "one").kind == "path"


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


def test_a_grant_is_for_one_pointer_target_and_use_and_revoking_takes_all_of_the_pointer(store, pointer, notes):
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

    store.add(pointer, notes)
    store.add(pointer, notes.parent, use="cacheDir")
    store.add(pointer.with_name("other.json"), notes)
    pointer.unlink()
    assert (store.revoke(pointer), store.revoke(pointer)) == (True, False)
    assert [grant.pointer.name for grant in store.entries()] == ["other.json"]


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
    pairs = [partial(call, pointer, notes) for call in (store.grant, store.add)]
    for call in (store.entries, *pairs, partial(store.revoke, pointer)):
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
