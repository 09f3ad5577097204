"""The command's side of the daemon: its start parameters, and the page of `kbhub ui` through it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub import __version__
from kbhub.frozen import Model
from kbhub.hub import HubOptions
from kbhub.server.daemon.folder import DaemonFolder, read_token, running
from kbhub.server.daemon.protocol import OURS, ConnectOptions, Refused, dial, greet, greeting
from kbhub.workspace.discovery import parse_base_arguments
from kbhub.workspace.files import data_dir

if TYPE_CHECKING:
    from kbhub.ui.access import PageAddress


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


KIND = "ui"
"""Of the greeting."""


def serve_by_daemon(
    wanted: ConnectOptions,
    env: Mapping[str, str],
    door: PageAddress,
    ready: Callable[[], object],
    changed: Callable[[PageAddress], object],
) -> bool:
    """Have the running daemon serve the page until it ends or this process is interrupted; return whether it did.

    It does not if it is missing, of another version, or refuses. `ready` is called once browsers can connect, `changed`
    as in `ui.access.Guard`.
    """
    folder = DaemonFolder(data_dir(env))
    record, token = running(folder), read_token(folder)
    if record is None or token is None or record.version != __version__:
        return False
    hello = greeting(wanted, env, os.getcwd())  # noqa: PTH109 - a string is needed
    try:
        with dial(record.link) as link:
            greet(link, KIND, token, **hello, page=door._asdict())
            ready()
            for line in link.lines():
                said = json.loads(line)
                if said.get(OURS) != KIND:
                    break  # it is leaving
                changed(type(door)(**said["page"]))
    except (OSError, Refused):
        return False
    return True
