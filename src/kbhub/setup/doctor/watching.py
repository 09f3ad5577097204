"""Check whether file changes can be watched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.reading.reports import Finding
from kbhub.sync.watch import POLL_SECONDS, remote_system, watched_folders
from kbhub.values import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kbhub.types import Base

WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")
"""On Linux, the number of folders that all of a user's programs together may watch (inotify(7))."""

POLLED = f"a server compares its files every {POLL_SECONDS:.0f} s instead"


def watch_findings(bases: Sequence[Base]) -> list[Finding]:
    """Check that the folders of the bases can be watched and do not exceed the system's limit."""
    findings = []
    local = []
    for base in bases:
        if system := remote_system(base.path):
            message = f"It lies on {system}, whose changes are not told; {POLLED}."
            remedy = "Nothing needs to be done; a copy on a local disk is noticed faster."
            findings.append(Finding(check="watch", level="warning", subject=base.id, message=message, remedy=remedy))
        else:
            local.append(base)
    limit = _limit()
    count = 0
    for _ in _folders(local):
        count += 1
        if limit is not None and count > limit:
            message = f"More than {limit} folders are to be watched, which is all that this system allows; {POLLED}."
            remedy = f"Raise fs.inotify.max_user_watches (`sysctl`, {WATCHES}), or `exclude` nothing-but-noise folders."
            return [*findings, Finding(check="watch", level="warning", message=message, remedy=remedy)]
    if not findings and bases:
        most = f" of {limit} allowed" if limit is not None else ""
        findings.append(Finding(check="watch", level="ok", message=f"{counted(count, 'folder')}{most}"))
    return findings


def _limit() -> int | None:
    try:
        return int(WATCHES.read_text("ascii"))
    except (OSError, ValueError):
        return None


def _folders(bases: Sequence[Base]) -> Iterator[str]:
    """Yield every folder that is watched, including those without indexed files; symlinks are not followed."""
    for base in bases:
        for root in watched_folders(base):
            for folder, _, _ in os.walk(root):
                yield folder
