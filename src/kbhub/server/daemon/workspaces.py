"""The servers behind HTTP: one per workspace, opened on the first request for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.to_thread import run_sync

from kbhub.hub import Hub
from kbhub.server.server import KbhubServer, create_server

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus
    from starlette.applications import Starlette

    from kbhub.hub import HubOptions

log = logging.getLogger(__name__)

MOST_WORKSPACES = 32
"""Most open workspaces; the one idle longest is closed first."""


@dataclass(slots=True)
class WorkspaceServer:
    """A workspace that is served."""

    server: KbhubServer
    app: Starlette
    closing: anyio.Event = field(default_factory=anyio.Event)
    busy: int = 0
    """Number of requests in progress."""
    used: float = 0.0
    """Time of its last use (seconds of the event loop's clock)."""


class Workspaces:
    """The open workspaces.

    `options` are for requests that name none. `structured` has tools publish output schemas, `app` creates the ASGI
    application of a server, and `group` runs the tasks that live as long as a workspace is open.
    """

    def __init__(
        self, options: HubOptions, structured: bool, app: Callable[[KbhubServer], Starlette], group: TaskGroup
    ) -> None:
        self._options, self._structured, self._app, self._group = options, structured, app, group
        self._open: dict[Path | None, WorkspaceServer] = {}
        self._opening = anyio.Lock()

    def __len__(self) -> int:
        return len(self._open)

    async def get(self, root: Path | None) -> WorkspaceServer | None:
        """Return the workspace of a directory, or None if there is no room; root None means the endpoint's own."""
        async with self._opening:
            if root not in self._open:
                if len(self._open) >= MOST_WORKSPACES and not self._make_room():
                    return None
                options = replace(self._options, root=root) if root else self._options
                server = await run_sync(self._made, options)
                workspace = WorkspaceServer(server, self._app(server))
                await self._group.start(self._hold, root, workspace)
                self._open[root] = workspace
            return self._open[root]

    def close_idle(self) -> int:
        """Close unused workspaces; return how many are left."""
        for root, workspace in list(self._open.items()):
            if not workspace.busy:
                self._close(root)
        return len(self._open)

    def _made(self, options: HubOptions) -> KbhubServer:
        return create_server(Hub(options), structured=self._structured)

    def _make_room(self) -> bool:
        idle = [(workspace.used, str(root), root) for root, workspace in self._open.items() if not workspace.busy]
        if not idle:
            return False
        self._close(min(idle)[2])
        return True

    def _close(self, root: Path | None) -> None:
        self._open.pop(root).closing.set()

    async def _hold(self, root: Path | None, workspace: WorkspaceServer, *, task_status: TaskStatus[None]) -> None:
        """Keep a workspace's sessions and its indexing and watching threads alive."""
        try:
            async with workspace.server.session_manager.run():
                task_status.started()
                await workspace.closing.wait()
        except Exception:  # BLE001: one workspace must not end the others
            log.exception("Serving %s failed.", root or "the workspace of the endpoint")
            self._open.pop(root, None)
