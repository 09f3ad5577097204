"""Commit times of documents, for bases in a git repository."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from kbhub.values import struct
from kbhub.workspace.formats import is_text
from kbhub.workspace.gitroot import git_root

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbhub.types import Base

LOG_SECONDS = 10
"""Timeout in seconds for a git command; after it, file times are used."""

FRESH_PATHS = 200
"""Most paths passed to git individually; for more, the whole base is listed."""

_SAFE = (
    # A repository's own configuration may name programs; none of them may run because a folder is searched.
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false"),
    *("-c", "core.quotePath=false", "-c", "log.mailmap=false", "-c", "core.alternateRefsCommand="),
)
_QUIET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # the same for older versions of git
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
}

_COMMIT = re.compile(r"//(\d{1,11})")
"""A commit's time in the log (seconds since the epoch); no file name can look like it."""

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@struct
class Commits:
    """Commit times of the files of a base."""

    head: str
    """The commit that was checked out."""
    times: Mapping[str, int]
    """Path in the base → time of its last commit after `since`, seconds since the epoch."""


def commit_times(base: Base, since: str | None, fresh: Sequence[str] = ()) -> Commits | None:
    """Return when the files of a base were last committed.

    Args:
        base: the base.
        since: head commit of the previous call; only later commits are listed.
        fresh: paths added since then, for which older commits count too.

    Returns:
        None if there is no git, no repository, no commit, or no answer in time.
    """
    head = _git(base.path, "rev-parse", "--verify", "--quiet", "HEAD")
    if head is None:
        return None
    head = head.strip()
    later = since is not None and (head == since or _is_ancestor(base.path, since, head))
    times: Mapping[str, int] | None = {}
    if not later:
        times = _log(base, [head], base.only or (".",))
    elif head != since:
        times = _log(base, [f"{since}..{head}"], base.only or (".",))
    if times is None:
        return None
    if later and (older := _tracked(base, [path for path in fresh if path not in times])):
        times = {**(_log(base, [head], older) or {}), **times}
    return Commits(head, times)


def _tracked(base: Base, paths: Sequence[str]) -> list[str]:
    """Pathspecs of the tracked files among `paths`, or of the whole base if they are too many for a command line."""
    if not paths:
        return []
    pathspecs = [f":(literal){path}" for path in paths] if len(paths) <= FRESH_PATHS else list(base.only or (".",))
    listing = _git(base.path, "ls-files", "-z", "--", *pathspecs)
    tracked = set(listing.split("\0")).intersection(paths) if listing else set()
    return [f":(literal){path}" for path in tracked] if len(tracked) <= FRESH_PATHS else pathspecs


def _log(base: Base, commits: Sequence[str], paths: Sequence[str]) -> dict[str, int] | None:
    """Time of the last commit of each path, or None if git fails."""
    options = ("--format=//%ct", "--name-only", "-z", "--relative", "--no-renames", "--no-ext-diff", "--no-textconv")
    log = _git(base.path, "log", *options, "--diff-merges=first-parent", *commits, "--", *paths)
    if log is None:
        return None
    times: dict[str, int] = {}
    seconds, first = None, False
    for entry in log.split("\0"):
        name = entry.removeprefix("\n") if first else entry
        first = entry.startswith("//")
        if first:
            commit = _COMMIT.fullmatch(entry)
            seconds = int(commit[1]) if commit else None
        elif name and seconds is not None and is_text(name):
            times.setdefault(name, seconds)
    return times


def head_commit(folder: Path) -> str | None:
    """Return the hash of the commit checked out at a folder, or None."""
    return _hash(_git(folder, "rev-parse", "--verify", "--quiet", "HEAD"))


def root_commit(folder: Path) -> str | None:
    """Return the hash of the first commit of a folder's repository, following first parents, or None."""
    return _hash(_git(folder, "rev-list", "--max-parents=0", "--first-parent", "HEAD"))


def _hash(text: str | None) -> str | None:
    """The hash that git printed, if it is one."""
    return text.strip() if text and _HASH.fullmatch(text.strip()) else None


def _is_ancestor(folder: Path, old: str, new: str) -> bool:
    return _git(folder, "merge-base", "--is-ancestor", old, new) is not None


def _git(folder: Path, *arguments: str) -> str | None:
    if git_root(Path(os.path.realpath(folder)), None) is None:  # starting git to find this out takes 5 ms
        return None
    git = which("git")
    if git is None or not os.path.isabs(git):  # noqa: PTH117 - never run a `git` found in the working directory
        return None
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | _QUIET
    try:
        result = subprocess.run(  # noqa: S603 - git itself, with fixed options
            [git, "--no-pager", *_SAFE, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=LOG_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.decode("utf-8", "surrogateescape")
