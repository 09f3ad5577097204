"""What a daemon is told at its start: data that one process hands to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.discovery import parse_base_arguments
from kbhub.frozen import Model
from kbhub.options import HubOptions

if TYPE_CHECKING:
    from collections.abc import Mapping


class Http(Model):
    """The HTTP endpoint that is wanted, and the workspace of requests that name none."""

    port: int | None = None
    """None for that of the settings, 0 for a free one."""
    socket: str | None = None
    """Path of a Unix socket in place of a port."""
    root: str | None = None
    config: str | None = None
    cache_dir: str | None = None
    base: tuple[str, ...] = ()
    cwd: str = "/"
    structured: bool = False
    read_only: bool = False

    def options(self, env: Mapping[str, str]) -> HubOptions:
        """Give the options of its hubs.

        Raises:
            UsageError, ConfigError: `--base` or `KBHUB_BASES` is no list of ID=PATH.
        """
        return HubOptions(
            root=self.root,
            config=Path(self.config) if self.config else None,
            bases=parse_base_arguments(self.base, env),
            cache=Path(self.cache_dir) if self.cache_dir else None,
            read_only=self.read_only,
            env=dict(env),
            cwd=Path(self.cwd),
        )


class Start(Model):
    """What a daemon is told."""

    ends: bool = False
    """Whether it ends by itself when nobody has come for long."""
    detached: bool = True
    """Whether it has no terminal."""
    http: Http | None = None
