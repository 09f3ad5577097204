"""How a hub is opened, and what it says of a base that is behind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.places import working_directory
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.shared import Shared
    from kbhub.types import Problem


@struct
class HubOptions:
    """How a hub is opened; the defaults are those of the command line."""

    root: Path | str | None = None
    """Workspace directory that wins over everything else."""
    config: Path | None = None
    """Global config instead of `~/.kbhub.json`."""
    bases: Mapping[str, Path] = field(default_factory=dict)
    """Further global bases: id → folder."""
    cache: Path | None = None
    """Cache directory instead of the user's."""
    serve: bool = False
    """Whether a client's own variables may name the workspace."""
    read_only: bool = False
    """Whether nothing may be written, whatever the settings say."""
    every_base: bool = False
    """Whether every base of the global config is active, whatever its `repos` say."""
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cwd: Path = field(default_factory=lambda: working_directory() or Path(os.sep))
    """Working directory; if it is gone, the root of the file system, which is no workspace."""
    typed_in: Path | None = None
    """Directory in which a person types refs, so that paths from there lead to documents; none where nobody does."""
    home: Path = field(default_factory=Path.home)
    clock: Callable[[], float] = time.time
    """Seconds since the epoch."""
    shared: Shared | None = None
    """What it has in common with other hubs of the process; none for nothing."""
    warn: Callable[[Sequence[Problem]], object] | None = None
    """Told after each look which fields and variables have no effect; none where nobody is to be told."""
    ask_roots: bool = True
    """Whether the client's roots may name the workspace: not where several clients have one hub."""


@struct
class Behind:
    """A base that is further behind its files than a search will wait for."""

    base: str
    files: int
    """Files to look at."""
    new_index: bool
    """Whether it has no usable index at all."""
    busy: bool = False
    """Whether another process, or another thread, is indexing it."""
