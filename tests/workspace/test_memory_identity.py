"""A project is the same one in every clone and worktree, however its origin is spelt, and no other one."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import make_repository
from kbhub.workspace.git import git_root
from kbhub.workspace.memory_folders import identify_directory, normal_origin, origin_address
from repositories import add_remote, commit

START = 1_700_000_000


def git(folder: Path, *arguments: str) -> None:
    env = {**os.environ, "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    names = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *names, *arguments], cwd=folder, env=env, check=True, capture_output=True)


def identity(folder: Path):
    real = folder.resolve()
    return identify_directory(real, git_root(real, Path("/nobody")))


@pytest.fixture(scope="module")
def committed(tmp_path_factory):
    """A repository with a commit."""
    folder = tmp_path_factory.mktemp("committed")
    commit(folder, START)
    return folder


@pytest.fixture
def repository(committed, tmp_path):
    return Path(shutil.copytree(committed, tmp_path / "shop"))


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
    assert normal_origin("https://git.example.org/a/b") != normal_origin(f"https://git.example{other}")


@pytest.mark.parametrize(
    "address",
    [
        *("", "   ", "/srv/git/shop.git", "../shop", "C:\\work\\shop", "C:/work/shop", "file:///srv/shop"),
        *("https://", "x" * 5000, "https://github.com/", "a\nb:c", "https://[bad/x", "https://h:99999/x"),
    ],
)
def test_what_is_no_remote_address_is_none(address):
    assert normal_origin(address) is None


def test_credentials_never_reach_an_identity():
    assert "secret" not in str(normal_origin("https://oauth2:secret@git.example.org:8443/a/b.git"))


@pytest.mark.parametrize(
    ("config", "address"),
    [
        ('[remote "origin"]\n\turl = https://a/b # mine\n', "https://a/b"),
        ('[core]\n\turl = no\n[remote "origin"]\n\tfetch = +x\n\tURL = "https://a/b#c"\n', "https://a/b#c"),
        ('[Remote "origin"] url = https://a/b', "https://a/b"),
        ('[remote "origin"]\n\turl = https://a/\\\nb\n', "https://a/b"),
        ('[remote "origin"]\r\n\turl = https://a/b\r\n', "https://a/b"),
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


def test_the_address_is_the_one_that_git_gives(repository):
    git(repository, "remote", "add", "origin", "https://example.org/a b;c#d.git")
    given = subprocess.check_output(["git", "config", "--get", "remote.origin.url"], cwd=repository, text=True)
    assert origin_address((repository / ".git" / "config").read_text()) == given.strip()


def test_clones_and_worktrees_with_an_origin_are_one_project(repository, tmp_path):
    add_remote(repository, "git@git.example.org:acme/shop.git")
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    git(tmp_path, "clone", "-q", str(repository), "clone")  # its origin is a path, whose origin counts
    (repository / "deep" / "er").mkdir(parents=True)

    folders = (repository, repository / "deep" / "er", tmp_path / "tree", tmp_path / "clone")
    found = {identity(folder) for folder in folders}

    assert {(one.kind, one.text) for one in found} == {("origin", "git.example.org/acme/shop")}


def test_without_an_origin_the_first_commit_is_the_project(repository, tmp_path):
    commit(repository, START + 1)
    git(tmp_path, "clone", "-q", str(repository), "clone")
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    found = {identity(folder) for folder in (repository, tmp_path / "clone", tmp_path / "tree")}
    assert len(found) == 1
    assert found.pop().kind == "root"


def test_a_shallow_clone_does_not_take_its_last_commit_for_the_first(repository, tmp_path):
    commit(repository, START + 1)
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", "clone")
    git(tmp_path / "clone", "remote", "remove", "origin")
    assert identity(tmp_path / "clone").kind == "path"


def test_without_git_or_commits_the_path_is_the_project(tmp_path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    make_repository(tmp_path / "new")
    assert identity(tmp_path / "plain") == identity(tmp_path / "link")
    assert {identity(tmp_path / "plain").kind, identity(tmp_path / "new").kind} == {"path"}
    assert identity(tmp_path / "plain") != identity(tmp_path / "new")


def test_a_submodule_is_its_own_project(repository, tmp_path):
    make_repository(tmp_path / "outer")
    git(tmp_path / "outer", "submodule", "add", "-q", str(repository), "inner")
    assert identity(tmp_path / "outer" / "inner").kind == "root"
    assert identity(tmp_path / "outer" / "inner") == identity(repository)
    assert identity(tmp_path / "outer").kind == "path"


def test_a_git_file_that_points_into_another_repository_makes_no_project_of_it(repository, tmp_path):
    """An archive can hold any `.git` file; it is believed only if the repository knows the worktree."""
    add_remote(repository, "https://git.example.org/bank/core")
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    (hostile / ".git").write_text(f"gitdir: {repository / '.git'}\n")
    assert identity(hostile).kind == "path"
    assert identity(hostile).text == str(hostile.resolve())


def test_a_configuration_that_includes_a_file_reads_no_file(repository, tmp_path):
    (tmp_path / "other").write_text('[remote "origin"]\n\turl = https://git.example.org/bank/core\n')
    with (repository / ".git" / "config").open("a") as config:
        config.write(f"[include]\n\tpath = {tmp_path / 'other'}\n")
    assert identity(repository).kind == "root"


def test_origins_that_lead_in_a_circle_end(repository, tmp_path):
    git(tmp_path, "clone", "-q", str(repository), "clone")
    add_remote(repository, str(tmp_path / "clone"))
    assert identity(repository) == identity(tmp_path / "clone")
