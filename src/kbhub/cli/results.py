"""Models for the `--json` output of commands that neither the API nor the server has."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from kbhub.frozen import Model
from kbhub.sync.git_pull import Pull
from kbhub.sync.report import SyncReport
from kbhub.types import Problem
from kbhub.workspace.trust import Grant


class IndexResult(Model):
    """What `kbhub index` did."""

    pulled: tuple[Pull, ...] = Field((), description="One per base, with `--pull`.")
    reports: tuple[SyncReport, ...] = Field((), description="One per base that was brought in step.")
    failed: tuple[Problem, ...] = Field((), description="Bases that could not be indexed, and why.")
    interrupted: bool = Field(False, description="Whether Ctrl-C ended it before it was done.")


class TrustResult(Model):
    """What `kbhub trust` recorded, listed or took back."""

    grants: tuple[Grant, ...] = Field((), description="What pointers may reach: recorded now, or all with `--list`.")
    revoked: tuple[Path, ...] = Field((), description="Pointers whose trust was taken back.")


class StopResult(Model):
    """What `kbhub stop` did."""

    running: bool = Field(description="Whether a daemon was running.")
    stopped: bool = Field(description="Whether none is running now.")
    pid: int | None = Field(None, description="Its process.")
    how: str = Field(description="`asked`, `signal`, `killed`, or `none` if nothing was done.")
    message: str = Field(description="The same in words.")
