"""Pulling fast-forwards the user's own checkouts and nothing else."""

from __future__ import annotations

import subprocess

import pytest

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


@pytest.fixture
def checkout(environment):
    """A base of the user's that is a clone, and the repository that it is of."""
    origin = environment.home / "origin"
    environment.write(origin / "a.md", "# A\n")
    git(origin, "init", "-q")
    git(origin, "add", ".")
    git(origin, "commit", "-qm", "one")
    git(environment.home, "clone", "-q", str(origin), "notes")
    environment.write(environment.home / ".kbhub.json", '{"bases": {"notes": "~/notes"}, "repos": {"*": "notes"}}')
    return environment, origin, environment.home / "notes"


def commit(origin, name="b.md"):
    (origin / name).write_text("# new\n")
    git(origin, "add", ".")
    git(origin, "commit", "-qm", name)


def pulled(environment, name="notes"):
    hub = environment.hub()
    return pull(hub, hub.select((name,))[0])


def test_new_commits_are_taken_over(checkout):
    """The second pull finds nothing new."""
    environment, origin, notes = checkout
    commit(origin)

    first, second = pulled(environment), pulled(environment)

    assert (first.state, second.state) == ("updated", "current")
    assert first.after == git(origin, "rev-parse", "HEAD")
    assert (notes / "b.md").exists()


def test_commits_and_changes_of_the_users_are_never_touched(checkout):
    """What cannot be fast-forwarded stays as it is, and the reason is said."""
    environment, origin, notes = checkout
    commit(origin)
    (notes / "b.md").write_text("mine\n")

    assert pulled(environment).state == "failed"
    assert (notes / "b.md").read_text() == "mine\n"

    commit(notes, "c.md")
    assert "Merge or rebase it yourself" in pulled(environment).message
    assert not (notes / ".git" / "MERGE_HEAD").exists()


def test_no_hook_and_no_program_of_the_checkout_runs(checkout):
    """A repository's own files decide nothing."""
    environment, origin, notes = checkout
    ran = environment.home / "ran"
    for name in ("post-merge", "post-checkout", "reference-transaction", "pre-auto-gc"):
        hook = notes / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
        hook.chmod(0o755)
    commit(origin)

    assert pulled(environment).state == "updated"
    assert not ran.exists()


@pytest.mark.parametrize(
    "setting",
    [
        ("core.sshCommand", "touch ran"),
        ("credential.helper", "!touch ran"),
        ("filter.x.smudge", "touch ran"),
        ("remote.origin.uploadpack", "touch ran"),
        ("url.ext::sh.insteadOf", "/"),
        ("include.path", "/tmp/x"),
        ("branch.main.mergeOptions", "-s x"),
        ("extensions.worktreeConfig", "true"),
    ],
)
def test_settings_that_pulling_would_obey_are_refused(checkout, setting):
    """They are named, and nothing is fetched."""
    environment, origin, notes = checkout
    commit(origin)
    git(notes, "config", *setting)

    one = pulled(environment)

    assert one.state == "skipped"
    assert setting[0].lower() in one.message
    assert not (notes / "b.md").exists()


def test_a_remote_that_is_a_command_is_not_run(checkout):
    """The transport `ext` is refused by git."""
    environment, _, notes = checkout
    git(notes, "remote", "set-url", "origin", f"ext::touch {environment.home}/ran")

    one = pulled(environment)

    assert one.state == "failed"
    assert "ext" in one.message
    assert not (environment.home / "ran").exists()


def test_a_project_base_is_not_pulled_unless_it_is_trusted(checkout):
    """What comes with a clone has no authority over git."""
    environment, origin, _ = checkout
    git(environment.project, "clone", "-q", str(origin), "knowledge")
    commit(origin)

    assert "found in the project" in pulled(environment, "project").message

    environment.hub().trust.add(environment.project / "knowledge", environment.project / "knowledge")
    assert pulled(environment, "project").state == "updated"


def test_what_is_no_checkout_of_its_own_is_skipped(checkout):
    """Neither plain folders nor parts of a larger checkout are pulled."""
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
    """There is nothing to follow."""
    environment, _, notes = checkout
    git(notes, "checkout", "-q", "--detach")

    assert pulled(environment).state == "skipped"


def test_a_remote_that_is_gone_is_a_failure(checkout):
    """Git's own words say why."""
    environment, origin, _ = checkout
    origin.rename(origin.with_name("moved"))

    one = pulled(environment)

    assert one.state == "failed"
    assert "Cannot fetch" in one.message
