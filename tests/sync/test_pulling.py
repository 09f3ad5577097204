"""Pulling fast-forwards the user's own checkouts and nothing else."""

import shutil
import subprocess

import pytest

from conftest import make_repository
from kbhub.sync.git_pull import pull


def git(folder, *arguments):
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def cloned(tmp_path_factory):
    """A repository and a clone of it."""
    folder = tmp_path_factory.mktemp("cloned")
    make_repository(folder / "origin")
    commit(folder / "origin", "a.md")
    git(folder, "clone", "-q", str(folder / "origin"), "notes")
    return folder


@pytest.fixture
def checkout(environment, cloned):
    """A base of the user's that is a clone, and the repository that it is of."""
    origin, notes = environment.home / "origin", environment.home / "notes"
    for folder in (origin, notes):
        shutil.copytree(cloned / folder.name, folder)
    config = notes / ".git/config"
    config.write_text(config.read_text().replace(str(cloned / "origin"), str(origin)))
    environment.write(environment.home / ".kbhub.json", '{"bases": {"notes": "~/notes"}, "repos": {"*": "notes"}}')
    return environment, origin, notes


def commit(origin, name="b.md"):
    (origin / name).write_text("# new\n")
    git(origin, "add", ".")
    git(origin, "commit", "-qm", name)


def pulled(environment, name="notes"):
    hub = environment.hub()
    return pull(hub, hub.select((name,))[0])


def test_new_commits_are_taken_over(checkout):
    """The second pull finds nothing new; no hook of the checkout runs."""
    environment, origin, notes = checkout
    ran = environment.home / "ran"
    for name in ("post-merge", "post-checkout", "reference-transaction", "pre-auto-gc"):
        hook = notes / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
        hook.chmod(0o755)
    commit(origin)

    first, second = pulled(environment), pulled(environment)

    assert (first.state, second.state) == ("updated", "current")
    assert first.after == (origin / ".git/refs/heads/main").read_text().strip()
    assert (notes / "b.md").exists()
    assert not ran.exists()


def test_commits_and_changes_of_the_users_are_never_touched(checkout):
    environment, origin, notes = checkout
    commit(origin)
    (notes / "b.md").write_text("mine\n")

    assert pulled(environment).state == "failed"
    assert (notes / "b.md").read_text() == "mine\n"

    commit(notes, "c.md")
    assert "Merge or rebase it yourself" in pulled(environment).message
    assert not (notes / ".git" / "MERGE_HEAD").exists()


def test_settings_that_pulling_would_obey_are_refused(checkout):
    """They are named, and nothing is fetched; git refuses a remote that is a command."""
    environment, origin, notes = checkout
    commit(origin)
    config = notes / ".git/config"
    harmless = config.read_text()
    for name, section, line in (
        ("core.sshcommand", "core", "sshCommand = touch ran"),
        ("credential.helper", "credential", "helper = !touch ran"),
        ("filter.x.smudge", 'filter "x"', "smudge = touch ran"),
        ("remote.origin.uploadpack", 'remote "origin"', "uploadpack = touch ran"),
        ("url.ext::sh.insteadof", 'url "ext::sh"', "insteadOf = /"),
        ("include.path", "include", "path = /tmp/x"),
        ("branch.main.mergeoptions", 'branch "main"', "mergeOptions = -s x"),
        ("extensions.worktreeconfig", "extensions", "worktreeConfig = true"),
    ):
        config.write_text(f"{harmless}[{section}]\n\t{line}\n")
        one = pulled(environment)
        assert (one.state, name in one.message) == ("skipped", True), name
    assert not (notes / "b.md").exists()

    config.write_text(harmless.replace(f"url = {origin}", f"url = ext::touch {environment.home}/ran"))
    one = pulled(environment)
    assert (one.state, "ext" in one.message) == ("failed", True)
    assert not (environment.home / "ran").exists()


def test_a_project_base_is_not_pulled_unless_it_is_trusted(checkout):
    """What comes with a clone has no authority over git."""
    environment, origin, notes = checkout
    shutil.copytree(notes, environment.project / "knowledge")
    commit(origin)

    assert "found in the project" in pulled(environment, "project").message

    environment.hub().trust.add(environment.project / "knowledge", environment.project / "knowledge")
    assert pulled(environment, "project").state == "updated"


def test_what_is_no_checkout_of_its_own_is_skipped(checkout):
    environment, _, notes = checkout
    environment.write(environment.home / "plain" / "a.md", "# A\n")
    environment.write(notes / "sub" / "a.md", "# A\n")
    environment.write(
        environment.home / ".kbhub.json",
        '{"bases": {"plain": "~/plain", "sub": "~/notes/sub"}, "repos": {"*": ["plain", "sub"]}}',
    )

    assert pulled(environment, "plain").message == "It is not a git checkout."
    assert "part of the checkout" in pulled(environment, "sub").message


def test_a_branch_without_a_remote_one_is_skipped(checkout):
    environment, origin, notes = checkout
    head = notes / ".git/HEAD"
    head.write_text((origin / ".git/refs/heads/main").read_text())

    assert pulled(environment).state == "skipped"


def test_a_remote_that_is_gone_is_a_failure(checkout):
    environment, origin, _ = checkout
    origin.rename(origin.with_name("moved"))

    one = pulled(environment)

    assert one.state == "failed"
    assert "Cannot fetch" in one.message
