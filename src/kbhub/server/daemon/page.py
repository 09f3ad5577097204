"""The command's side of `kbhub ui` through the shared daemon."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from kbhub import __version__
from kbhub.server.daemon.folder import DaemonFolder, read_token, running
from kbhub.server.daemon.protocol import OURS, Refused, dial, greet, greeting
from kbhub.ui.access import PageAddress
from kbhub.workspace.files import data_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kbhub.server.daemon.protocol import ConnectOptions

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
                changed(PageAddress(**said["page"]))
    except (OSError, Refused):
        return False
    return True
