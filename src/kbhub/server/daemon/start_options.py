"""The daemon's start parameters, passed from one process to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.frozen import Model
from kbhub.hub import HubOptions
from kbhub.workspace.discovery import parse_base_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping


class Http(Model):
    """The HTTP endpoint, and the workspace of requests that name none."""

    port: int | None = None
    """None for the port of the settings, 0 for a free one."""
    socket: str | None = None
    """Path of a Unix socket, instead of a port."""
    root: str | None = None
    config: str | None = None
    cache_dir: str | None = None
    base: tuple[str, ...] = ()
    cwd: str = "/"
    structured: bool = False
    read_only: bool = False

    def options(self, env: Mapping[str, str]) -> HubOptions:
        """Return the options of its hubs."""
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
    """The start parameters of a daemon."""

    ends: bool = False
    """Whether it ends by itself after a long time without clients."""
    detached: bool = True
    """Whether it runs without a terminal."""
    http: Http | None = None
