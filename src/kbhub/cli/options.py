"""Options that all commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

_COMMON = Group("Common options", sort_key=2)


@Parameter(name="*", group=_COMMON)
@dataclass(frozen=True, kw_only=True)
class Places:
    """Where to look."""

    root: Annotated[str | None, Parameter(name="--root", metavar="DIR")] = None
    """Work for this directory instead of the working directory."""

    config: Annotated[Path | None, Parameter(name="--config", metavar="FILE")] = None
    """Global config instead of ~/.kbhub.json."""

    cache_dir: Annotated[Path | None, Parameter(name="--cache-dir", metavar="DIR")] = None
    """Keep indexes in this directory."""

    base: Annotated[tuple[str, ...], Parameter(name="--base", metavar="ID=PATH")] = ()
    """A further base for this call; may be repeated."""


@Parameter(name="*", group=_COMMON)
@dataclass(frozen=True, kw_only=True)
class Common(Places):
    """Where to look, and how to answer."""

    json: Annotated[bool, Parameter(name="--json")] = False
    """Print one JSON document instead of text."""
