"""The daemon's process: its log, endpoints, idle times and end; and its clients on the wire, each with its own hub."""

from __future__ import annotations

import ctypes
import gc
import hmac
import json
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from io import FileIO
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, NoReturn

import anyio
from anyio.abc import ByteStream, SocketAttribute, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.to_thread import run_sync
from mcp.server.request_state import RequestStateSecurity
from pydantic import Field, ValidationError

from kbhub import __version__
from kbhub.errors import ConfigError, KbhubError, UsageError
from kbhub.frozen import Model
from kbhub.hooks.delivery import Hooking, HookMessage
from kbhub.hub import Hub, HubOptions, SharedState
from kbhub.server.daemon import protocol
from kbhub.server.daemon.http import MCP_PATH, Guarded, Workspaces, bind_path
from kbhub.server.daemon.launch import Start
from kbhub.server.daemon.loopback import HOST, HttpServer, bind_port
from kbhub.server.frames import line_of
from kbhub.server.server import KbhubServer
from kbhub.server.stdio import LOG_FORMAT, Transport, converse, protocol_of
from kbhub.usage.log import flush
from kbhub.workspace.child_processes import serve_frugally
from kbhub.workspace.config import load_config, parse_base_arguments
from kbhub.workspace.extensions import app_for, load
from kbhub.workspace.files import FileStates, own_folder, probe, write_atomically
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

TICK_SECONDS = 5.0


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

    async def run(self, ready: Callable[[str | None], None]) -> None:
        """Serve until told to end; once reachable, call `ready` with the address of the HTTP endpoint, or None."""
        http, bound = self._start.http, None
        if http:
            port = self._settings.port if http.port is None else http.port
            bound = bind_path(Path(http.socket)) if http.socket else bind_port(port)
        listener, where = await self._listener()
        try:
            async with anyio.create_task_group() as group:
                if sys.platform != "win32":
                    group.start_soon(self._end_on_signal)
                group.start_soon(self._accept, listener, group)
                if bound and http:
                    options = replace(self._options, shared=self._shared, ask_roots=False)
                    self._workspaces = Workspaces(options, http.structured, group)
                    token, own_port = (None, None) if http.socket else (self._token, bound.getsockname()[1])
                    self._guarded = Guarded(self._workspaces, token, own_port, self._status)
                    self._endpoint = HttpServer(self._guarded)
                    self._http = f"http://{HOST}:{own_port}{MCP_PATH}" if own_port else f"unix:{http.socket}"
                    group.start_soon(partial(self._endpoint.serve, sockets=[bound]))
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
                # The clients go to the next daemon, if any.
                await self._connections.leave(self._why, LEAVE_SECONDS)
                if self._endpoint:
                    self._endpoint.should_exit = True
                with anyio.move_on_after(CLOSE_SECONDS):
                    while self._guarded and self._guarded.busy:
                        await anyio.sleep(TICK_SECONDS / 100)
                group.cancel_scope.cancel()
        finally:
            # The lock goes with the process.
            leftovers = [self._folder.record, *([Path(where)] if isinstance(where, str) else [])] * self._recorded()
            leftovers += [Path(http.socket)] if http and http.socket else []
            for path in leftovers:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            if self._here:
                shutil.rmtree(self._here, ignore_errors=True)

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
            with suppress(OSError):  # its writers append
                if self._folder.crash.stat().st_size > LOG_BYTES:
                    os.truncate(self._folder.crash, 0)
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
                if self._workspaces:
                    self._workspaces.close_idle()
                self._connections.hooking.forget()
                self._shared.forget_models()
                await run_sync(_collect)
                log.info("Idle: releasing indexes and models.")
            if idle >= end and self._start.ends and not clients:
                self._dismiss("idle")
            if not (self._recorded() and (isinstance(where, int) or Path(where).exists())):
                self._dismiss("unreachable")

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


def run(
    start: Start, folder: protocol.DaemonFolder, lock: FileIO, ready: Callable[[str | None], None] = lambda _: None
) -> NoReturn:
    """Run the daemon, as `Daemon.run`, then end the process; the held lock proves that there is no other one."""
    os.umask(0o077)
    env = dict(os.environ)
    http = start.http
    options = hub_options(http, env, cwd=Path(http.cwd)) if http else HubOptions(env=env)
    settings, problem = Settings(), None
    try:
        settings = load_config(options.config, options.env, options.home).settings
    except ConfigError as error:  # every client is told; the daemon uses defaults
        problem = error
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if start.detached:
        handler = RotatingFileHandler(folder.log, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8")
    level = settings.log.level
    logging.basicConfig(level=level, format=LOG_FORMAT, handlers=[handler])
    logging.getLogger("kbhub.server.daemon").setLevel(min(logging.INFO, logging.getLevelName(level)))
    if problem:
        log.warning("%s", problem)
    record = protocol.read_record(folder)  # a dead daemon's, as the lock is ours
    if record and isinstance(record.link, str):
        place = Path(record.link).parent
        if place.parent == Path(tempfile.gettempdir()) and OWN in place.name:
            shutil.rmtree(place, ignore_errors=True)
    folder.record.unlink(missing_ok=True)
    daemon = Daemon(start, folder, options, settings.serve)
    gc.collect()
    serve_frugally()
    anyio.run(daemon.run, ready)
    flush()
    logging.shutdown()
    with suppress(OSError):
        sys.stderr.flush()
    lock.close()
    os._exit(0)  # as for standard streams: threads blocked on files would delay the end


def _collect() -> None:
    gc.collect()
    if sys.platform == "linux":
        # Returns freed memory to the system; only glibc has it.
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


MOST_CONNECTIONS = 200
"""Most clients at a time, more windows than anybody has. Each takes three threads and some file descriptors."""

MOST_GREETING = 20
"""Most clients that have not sent a greeting yet. With one more, the oldest is dropped: on a loopback port, any local
process could open such connections."""

GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.IncompleteRead)


class Greeting(Model, extra="ignore"):
    """The first line of a client."""

    kbhub: str
    link: int
    token: str
    why: str = "user"
    cwd: Path = Path("/")
    home: Path = Path("/")
    env: dict[str, str] = Field(default_factory=dict)
    also: dict[str, str] = Field(default_factory=dict)
    version: str = ""
    wanted: protocol.ConnectOptions = protocol.ConnectOptions()
    app: str = ""
    asked: Any = None
    hook: HookMessage | None = None


class Connections:
    """The clients on the wire; `dismissed` is called with why the daemon is to end: `user` or `upgrade`."""

    def __init__(
        self, token: str, shared: SharedState, status: Callable[[], dict[str, Any]], dismissed: Callable[[str], None]
    ) -> None:
        self._token, self._shared, self._status, self._dismissed = token, shared, status, dismissed
        self._open: set[Peer] = set()
        self._greeting: dict[int, ByteStream] = {}
        self._leaving = False
        self.hooking = Hooking(shared)

    def __len__(self) -> int:
        return len(self._open)

    async def serve(self, stream: ByteStream) -> None:
        """Serve one client until it or the daemon ends."""
        try:
            async with stream:
                await self._serve(stream)
        except GONE:
            log.debug("A client hung up.")
        except TimeoutError:
            log.info("A client sent no greeting.")
        except Exception:  # BLE001: one client's failure must not affect the others
            log.exception("A connection failed.")

    async def leave(self, why: str, seconds: float) -> None:
        """Tell the clients why the daemon ends, and wait up to some seconds until they have disconnected."""
        self._leaving = True
        line = line_of({protocol.OURS: "leaving", "why": why})
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as group:
                for peer in list(self._open):
                    group.start_soon(peer.say, line)
            while self._open:
                await anyio.sleep(0.01)

    @contextmanager
    def _counted(self, peer: Peer) -> Iterator[None]:
        self._open.add(peer)
        try:
            yield
        finally:
            self._open.discard(peer)

    async def _serve(self, stream: ByteStream) -> None:
        buffered = BufferedByteReceiveStream(stream)
        self._greeting[id(stream)] = stream
        if len(self._greeting) > MOST_GREETING:
            await self._greeting.pop(next(iter(self._greeting))).aclose()
        try:
            with anyio.fail_after(protocol.GREETING_SECONDS):
                line = await buffered.receive_until(b"\n", protocol.GREETING_BYTES)
        except anyio.DelimiterNotFound:
            await stream.send(line_of(_refusal("greeting", "The greeting is too long.")))
            return
        finally:
            self._greeting.pop(id(stream), None)
        answer, greeting = self._answer(line)
        server = None
        if greeting and greeting.kbhub == "hello":
            try:
                server = await run_sync(self._made, greeting)
            except KbhubError as error:
                usage = isinstance(error, UsageError | ConfigError)
                answer = _refusal("usage" if usage else "failed", str(error), error.exit_code if usage else 0)
            else:
                answer = {protocol.OURS: "hello", "version": __version__, "note": _note(line, greeting, server.hub)}
        if greeting and greeting.kbhub == "app" and (serves := app_for(greeting.app)):
            await self._serve_app(Peer(stream, buffered), greeting, serves)
            return
        if greeting and greeting.kbhub == "hook" and greeting.hook:
            answer = await run_sync(self._hooked, greeting, greeting.hook)
        await stream.send(line_of(answer))
        if server and greeting:
            peer = Peer(stream, buffered)
            with self._counted(peer):
                log.info("A client connected; there are %d.", len(self._open))
                await converse(server, peer, protocol_of(greeting.wanted.protocol, greeting.env))
            log.info("A client disconnected; there are %d.", len(self._open))
        elif greeting and greeting.kbhub == "stop":
            self._dismissed(greeting.why)

    def _answer(self, line: bytes) -> tuple[dict[str, Any], Greeting | None]:
        """Answer a greeting as far as possible without a hub; also return the greeting if it is valid."""
        try:
            greeting = Greeting.model_validate_json(line)
        except ValidationError:
            return _refusal("greeting", "The greeting is malformed."), None
        if not hmac.compare_digest(greeting.token.encode(), self._token.encode()):
            return _refusal("token", "The token is wrong."), None
        if greeting.link != protocol.LINK:
            return _refusal("link", f"The daemon of kbhub {__version__} speaks another protocol."), None
        if greeting.kbhub == "status":
            return {protocol.OURS: "status", **self._status()}, greeting
        if greeting.kbhub == "stop":
            return {protocol.OURS: "stop", "version": __version__}, greeting
        if greeting.kbhub not in ("hello", "app", "hook"):
            return _refusal("greeting", "The greeting is malformed."), None
        if self._leaving:
            return _refusal("leaving", "The daemon is stopping."), None
        if len(self._open) >= MOST_CONNECTIONS:
            return _refusal("busy", f"The daemon already has {MOST_CONNECTIONS} clients"), None
        return {}, greeting

    def _made(self, greeting: Greeting) -> KbhubServer:
        protocol_of(greeting.wanted.protocol, greeting.env)
        options = self._options(greeting)
        # The state of a question is valid for the next daemon, but not for servers of other workspaces.
        identity = greeting.model_dump_json(exclude={"token"}).encode()
        key = hmac.digest(self._token.encode(), b"request state\0" + identity, "sha256")
        return KbhubServer(
            Hub(options), structured=greeting.wanted.structured, request_state=RequestStateSecurity(keys=[key])
        )

    def _hooked(self, greeting: Greeting, hook: HookMessage) -> dict[str, Any]:
        """Answer a hook; whatever fails is silence."""
        try:
            output = self.hooking.answered(hook, greeting.env, str(greeting.cwd))
        except (KbhubError, ValueError) as error:
            log.info("A hook stays silent: %s", error)
            output = ""
        return {protocol.OURS: "hook", "version": __version__, "output": output}

    async def _serve_app(self, peer: Peer, greeting: Greeting, serves: str) -> None:
        """Serve what an extension has for a command, for as long as the command is there."""

        async def say(told: Any) -> None:
            await peer.say(line_of({protocol.OURS: "app", "told": told}))

        async def left() -> AsyncIterator[object]:
            yield await peer.hear()

        options = replace(self._options(greeting), serve=False, ask_roots=False)
        try:
            with self._counted(peer):
                serve, hub = await run_sync(lambda: (load(serves), Hub(options)))
                await serve(hub, greeting.asked, say, left())
        except KbhubError as error:
            await peer.say(line_of(_refusal("failed", str(error))))

    def _options(self, greeting: Greeting) -> HubOptions:
        places: dict[str, Any] = {"cwd": greeting.cwd, "home": greeting.home, "shared": self._shared}
        return hub_options(greeting.wanted, greeting.also | greeting.env, serve=True, **places)


def hub_options(wanted: protocol.ConnectOptions, env: dict[str, str], **more: Any) -> HubOptions:
    """Return what options of a command line and variables say of a hub, and what else is known of it."""
    return HubOptions(
        root=wanted.root,
        config=Path(wanted.config) if wanted.config else None,
        bases=parse_base_arguments(wanted.base, env),
        cache=own_folder("cache", env, Path(wanted.cache_dir)) if wanted.cache_dir else None,
        read_only=wanted.read_only,
        env=env,
        **more,
    )


class Peer(Transport):
    """A client's process; `buffered` wraps its stream with the data after the greeting."""

    def __init__(self, stream: ByteStream, buffered: BufferedByteReceiveStream) -> None:
        self._stream, self._buffered, self._sending, self._gone = stream, buffered, anyio.Lock(), False

    async def hear(self) -> bytes:
        """Return the next data; empty at the end."""
        try:
            return await self._buffered.receive()
        except GONE:
            self._gone = True
            return b""

    async def say(self, line: bytes) -> None:
        """Send a line; ignored if the client is gone."""
        with suppress(*GONE):
            async with self._sending:
                await self._stream.send(line)

    def gone(self) -> bool:
        """Return whether the client has disconnected."""
        return self._gone


def _note(line: bytes, greeting: Greeting, hub: Hub) -> tuple[str, list[Any]] | None:
    """Return the name of a window's note, and what its first answers depend on; None if that is uncertain."""
    installed = FileStates()
    with installed.record():
        for folder in sys.path:  # extensions
            probe(folder, entries=True)
    seen, also = hub.files.as_list() if hub.files else None, installed.as_list()
    if greeting.version != __version__ or seen is None or also is None:
        return None
    return protocol.note_name(greeting.version, json.loads(line)), [*seen, *also]


def _refusal(reason: str, message: str, exit_code: int = 0) -> dict[str, Any]:
    return {protocol.OURS: "refused", "reason": reason, "message": message, "exit": exit_code}
