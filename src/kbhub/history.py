"""When documents were last committed, where a base lies in a git repository."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from kbhub.gitroot import git_root
from kbhub.traversal import is_text
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbhub.types import Base

LOG_SECONDS = 10
"""Longest that git may take to list commits; beyond it, file times serve."""

FRESH_PATHS = 200
"""Paths that git is asked about one by one."""

_SAFE = (
    # A repository's own configuration may name programs; none of these may run because a folder is searched.
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false"),
    *("-c", "core.quotePath=false", "-c", "log.mailmap=false", "-c", "core.alternateRefsCommand="),
)
_QUIET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # the same for a git that does not know the line above
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
}

_COMMIT = re.compile(r"//(\d{1,11})")
"""How the log gives the time of a commit (seconds since the epoch): no name of a file can look like it."""

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@struct
class Commits:
    """What git knows of the files of a base."""

    head: str
    """The commit that was looked at."""
    times: Mapping[str, int]
    """Path in the base → its last commit since `since`, seconds since the epoch."""


def commit_times(base: Base, since: str | None, fresh: Sequence[str] = ()) -> Commits | None:
    """Find when the files of a base were last committed.

    Args:
        base: the base.
        since: the head of the last look; only later commits are listed.
        fresh: paths that were not there at the last look, so that older commits count for them too.

    Returns:
        None where there is no git, no repository, no commit, or no answer in time.
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
    """Give those of some paths that git knows, as pathspecs; nobody waits for the history of a file that has none.

    Of many it is the folder that is asked about: a command line has an end, and matching takes time by their number.
    """
    if not paths:
        return []
    wanted = [f":(literal){path}" for path in paths] if len(paths) <= FRESH_PATHS else list(base.only or (".",))
    known = _git(base.path, "ls-files", "-z", "--", *wanted)
    found = set(known.split("\0")).intersection(paths) if known else set()
    return [f":(literal){path}" for path in found] if len(found) <= FRESH_PATHS else wanted


def _log(base: Base, commits: Sequence[str], paths: Sequence[str]) -> dict[str, int] | None:
    """Give the time of the last of some commits for each path; none if git does not say."""
    log = _git(
        *(
            base.path,
            "log",
            "--format=//%ct",
            "--name-only",
            "-z",
            "--relative",
            "--no-renames",
            "--no-ext-diff",
        ),
        *("--no-textconv", "--diff-merges=first-parent", *commits, "--", *paths),
    )
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
        elif name and seconds is not None and is_text(name):  # no document has a name that is none
            times.setdefault(name, seconds)
    return times


def head_commit(folder: Path) -> str | None:
    """Give the commit that is checked out where a folder lies; none where git knows none."""
    return _hash(_git(folder, "rev-parse", "--verify", "--quiet", "HEAD"))


def root_commit(folder: Path) -> str | None:
    """Give the first commit of the history that is checked out, of several the one that the first parents lead to."""
    return _hash(_git(folder, "rev-list", "--max-parents=0", "--first-parent", "HEAD"))


def _hash(text: str | None) -> str | None:
    """Give a commit's hash, if that is what git said."""
    return text.strip() if text and _HASH.fullmatch(text.strip()) else None


def _is_ancestor(folder: Path, old: str, new: str) -> bool:
    return _git(folder, "merge-base", "--is-ancestor", old, new) is not None


def _git(folder: Path, *arguments: str) -> str | None:
    if git_root(Path(os.path.realpath(folder)), None) is None:  # git would say the same, but takes 5 ms for it
        return None
    git = which("git")
    if git is None or not os.path.isabs(git):  # noqa: PTH117 - one in the working directory came with the documents
        return None
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | _QUIET
    try:
        done = subprocess.run(  # noqa: S603 - git itself, with fixed options
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
    return done.stdout.decode("utf-8", "surrogateescape")
