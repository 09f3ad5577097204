"""The daemon's process: its log, endpoints, idle times and end."""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, NoReturn

import anyio
from anyio.abc import SocketAttribute, TaskGroup
from anyio.to_thread import run_sync

from kbhub import __version__
from kbhub.errors import ConfigError
from kbhub.hub import HubOptions, SharedState
from kbhub.server.daemon import protocol
from kbhub.server.daemon.connections import Connections, hub_options
from kbhub.server.daemon.http import MCP_PATH, Guarded, Workspaces, bind_path
from kbhub.server.daemon.launch import Http, Start
from kbhub.server.stdio import LOG_FORMAT
from kbhub.ui.loopback import HOST, HttpServer, bind_port
from kbhub.usage.log import flush
from kbhub.workspace.atomic_writes import write_atomically
from kbhub.workspace.child_processes import serve_frugally
from kbhub.workspace.config import load_config
from kbhub.workspace.settings import ServeSettings, Settings

log = logging.getLogger(__name__)

LOG_BYTES, LOG_FILES = 1024 * 1024, 1
"""Size of the log and number of older ones: some weeks of noteworthy lines."""

LONGEST_PATH = 100
"""Limit of a Unix socket path: macOS allows 104 bytes with the terminator, Linux 108."""

OWN = "kbhub-"
"""Name prefix of a socket's own folder, used if the data directory's path is too long."""

LEAVE_SECONDS = 6.0
"""Time for clients to disconnect; they wait up to five seconds for writing calls."""

CLOSE_SECONDS = 2.0
"""Time for everything else to end after that."""

TICK_SECONDS = 5.0
"""Interval of idle checks."""


def write_record(folder: protocol.DaemonFolder, record: protocol.DaemonRecord) -> None:
    """Announce that a daemon is ready."""
    write_atomically(folder.record, json.dumps(asdict(record)))


def make_token(folder: protocol.DaemonFolder) -> str:
    """Return the token, creating a new one unless an existing one was private to the user."""
    if token := protocol.read_token(folder):
        return token
    token = os.urandom(protocol.TOKEN_BYTES).hex()
    write_atomically(folder.token, f"{token}\n")
    return token


class Daemon:
    """The one process for many clients; `options` are for HTTP requests that name no workspace."""

    def __init__(
        self, start: Start, folder: protocol.DaemonFolder, options: HubOptions, settings: ServeSettings
    ) -> None:
        self._start, self._folder, self._options, self._settings = start, folder, options, settings
        self._shared = SharedState()
        self._token = make_token(folder)
        self._began = time.monotonic()
        self._used = time.monotonic()
        self._unloaded = False
        self._ended = anyio.Event()
        self._why = "signal"
        """Why it ends: `user`, `upgrade`, `idle`, `unreachable` or `signal`."""
        self._connections = Connections(self._token, self._shared, self._status, self._dismiss)
        self._workspaces: Workspaces | None = None
        self._guarded: Guarded | None = None
        self._endpoint: HttpServer | None = None
        self._http: str | None = None
        self._here: Path | None = None
        """A folder created only for the socket."""

    async def run(self, ready: Callable[[str | None], None]) -> None:
        """Serve until told to end; once reachable, call `ready` with the address of the HTTP endpoint, or None."""
        bound = _bound(self._start.http, self._settings)
        listener, where = await self._listener()
        try:
            async with anyio.create_task_group() as group:
                if sys.platform != "win32":
                    group.start_soon(self._end_on_signal)
                group.start_soon(self._accept, listener, group)
                if bound and self._start.http:
                    self._serve_http(group, bound, self._start.http)
                mark = await run_sync(protocol.process_mark, os.getpid())
                told = asdict(self._start) if self._start.detached else None
                write_record(
                    self._folder, protocol.DaemonRecord(os.getpid(), mark, __version__, where, self._http, told)
                )
                ready(self._http)
                group.start_soon(self._watch, where)
                await self._ended.wait()
                log.info("Ending (%s).", self._why)
                await listener.aclose()
                await self._leave()
                group.cancel_scope.cancel()
        finally:
            self._clean(where)

    def _serve_http(self, group: TaskGroup, bound: socket.socket, http: Http) -> None:
        port = None if http.socket else bound.getsockname()[1]
        options = replace(self._options, shared=self._shared, ask_roots=False)
        self._workspaces = Workspaces(options, http.structured, group)
        self._guarded = Guarded(self._workspaces, None if http.socket else self._token, port, self._status)
        self._endpoint = HttpServer(self._guarded)
        self._http = f"unix:{http.socket}" if http.socket else f"http://{HOST}:{port}{MCP_PATH}"
        group.start_soon(partial(self._endpoint.serve, sockets=[bound]))

    async def _listener(self) -> tuple[Any, str | int]:
        """Open the wire for the clients' processes."""
        if not hasattr(socket, "AF_UNIX"):
            listener = await anyio.create_tcp_listener(local_host=HOST)
            return listener, int(listener.extra(SocketAttribute.local_port))  # noqa: S610 - anyio's, not Django's
        path = self._folder.path / "socket"
        if len(os.fsencode(path)) > LONGEST_PATH:
            self._here = Path(tempfile.mkdtemp(prefix=OWN))
            path = self._here / "socket"
        return await anyio.create_unix_listener(path, mode=0o600), str(path)

    async def _accept(self, listener: Any, group: TaskGroup) -> None:
        with suppress(anyio.ClosedResourceError):
            await listener.serve(self._connections.serve, group)

    async def _leave(self) -> None:
        """Send the clients to the next daemon, if any."""
        await self._connections.leave(self._why, LEAVE_SECONDS)
        if self._endpoint:
            self._endpoint.should_exit = True
        with anyio.move_on_after(CLOSE_SECONDS):
            while self._guarded and self._guarded.busy:
                await anyio.sleep(TICK_SECONDS / 100)

    def _dismiss(self, why: str) -> None:
        if not self._ended.is_set():
            self._why = why
            self._ended.set()

    async def _end_on_signal(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                self._dismiss("signal")

    async def _watch(self, where: str | int) -> None:
        """Release idle resources; end without clients, or if the socket was removed, as those of old files are."""
        before = 0
        unload, end = self._settings.unload_minutes * 60, self._settings.end_minutes * 60
        while True:
            await anyio.sleep(min(TICK_SECONDS, unload / 4, end / 4))
            _bound_size(self._folder.crash)
            clients = len(self._connections) + (self._guarded.busy if self._guarded else 0)
            if self._guarded and self._guarded.seen:
                self._guarded.seen = False
                self._used = time.monotonic()
            if clients:
                self._used, self._unloaded = time.monotonic(), False
            if clients < before:
                # Hubs have reference cycles; objects from startup are frozen and not scanned.
                await run_sync(_collect)
            before = clients
            idle = time.monotonic() - self._used
            if idle >= unload and not self._unloaded:
                self._unloaded = True
                await self._unload()
            if idle >= end and self._start.ends and not clients:
                self._dismiss("idle")
            if not (self._recorded() and (isinstance(where, int) or Path(where).exists())):
                self._dismiss("unreachable")

    async def _unload(self) -> None:
        if self._workspaces:
            self._workspaces.close_idle()
        self._connections.hooking.forget()
        self._shared.forget_models()
        await run_sync(_collect)
        log.info("Idle: releasing indexes and models.")

    def _status(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "pid": os.getpid(),
            "uptime": round(time.monotonic() - self._began, 3),
            "connections": len(self._connections),
            "requests": self._guarded.busy if self._guarded else 0,
            "workspaces": len(self._workspaces) if self._workspaces else 0,
            "loaded": not self._unloaded,
            "http": self._http,
        }

    def _recorded(self) -> bool:
        """Return whether the record is this daemon's: another one starts if somebody deletes the folder."""
        record = protocol.read_record(self._folder)
        return record is not None and record.pid == os.getpid()

    def _clean(self, where: str | int) -> None:
        """Remove the record and socket; the lock goes with the process."""
        leftovers = [self._folder.record, *([Path(where)] if isinstance(where, str) else [])] * self._recorded()
        leftovers += [Path(self._start.http.socket)] if self._start.http and self._start.http.socket else []
        for path in leftovers:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        if self._here:
            shutil.rmtree(self._here, ignore_errors=True)


def run(
    start: Start,
    folder: protocol.DaemonFolder,
    lock: protocol.Lock,
    ready: Callable[[str | None], None] = lambda _: None,
) -> NoReturn:
    """Run the daemon until told to end, then end the process.

    The held lock proves that there is no other daemon. `ready` is called as by `Daemon.run`.
    """
    os.umask(0o077)
    env = dict(os.environ)
    http = start.http
    options = hub_options(http, env, cwd=Path(http.cwd)) if http else HubOptions(env=env)
    settings, problem = Settings(), None
    try:
        settings = load_config(options.config, options.env, options.home).settings
    except ConfigError as error:  # every client is told; the daemon uses defaults
        problem = error
    _log_to(folder, settings.log.level, detached=start.detached)
    if problem:
        log.warning("%s", problem)
    _forget_dead(folder)
    daemon = Daemon(start, folder, options, settings.serve)
    gc.collect()
    serve_frugally()
    anyio.run(daemon.run, ready)
    flush()
    logging.shutdown()
    with suppress(OSError):
        sys.stderr.flush()
    lock.release()
    os._exit(0)  # as for standard streams: threads blocked on files would delay the end


def _bound(http: Http | None, settings: ServeSettings) -> socket.socket | None:
    if http is None:
        return None
    if http.socket:
        return bind_path(Path(http.socket))
    return bind_port(settings.port if http.port is None else http.port)


def _log_to(folder: protocol.DaemonFolder, level: str, *, detached: bool) -> None:
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if detached:
        handler = RotatingFileHandler(folder.log, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8")
    logging.basicConfig(level=level, format=LOG_FORMAT, handlers=[handler])
    logging.getLogger("kbhub.server.daemon").setLevel(min(logging.INFO, logging.getLevelName(level)))


def _forget_dead(folder: protocol.DaemonFolder) -> None:
    """Remove the socket folder of a killed daemon, if it had to be elsewhere."""
    record = protocol.read_record(folder)  # a dead daemon's, as the lock is ours
    if record and isinstance(record.link, str):
        place = Path(record.link).parent
        if place.parent == Path(tempfile.gettempdir()) and OWN in place.name:
            shutil.rmtree(place, ignore_errors=True)
    folder.record.unlink(missing_ok=True)


def _bound_size(path: Path) -> None:
    """Empty a file that has outgrown a log; its writers append."""
    with suppress(OSError):
        if path.stat().st_size > LOG_BYTES:
            os.truncate(path, 0)


def _collect() -> None:
    gc.collect()
    if sys.platform == "linux":
        # Returns freed memory to the system; only glibc has it.
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
