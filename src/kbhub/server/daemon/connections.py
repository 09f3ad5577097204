"""One client on the wire: its greeting, its hub, its MCP conversation."""

from __future__ import annotations

import hmac
import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.to_thread import run_sync
from mcp.server.request_state import RequestStateSecurity
from pydantic import Field, ValidationError

from kbhub import __version__
from kbhub.errors import ConfigError, KbhubError, UsageError
from kbhub.frozen import Model
from kbhub.hooks.delivery import Hooking, HookMessage
from kbhub.hub import Hub, HubOptions, SharedState
from kbhub.server.daemon.protocol import (
    GREETING_BYTES,
    GREETING_SECONDS,
    LINK,
    OURS,
    ConnectOptions,
    note_name,
)
from kbhub.server.server import KbhubServer
from kbhub.server.stdio import Transport, converse, protocol_of
from kbhub.ui.loopback import bind_port
from kbhub.workspace.discovery import parse_base_arguments
from kbhub.workspace.files import FileStates, cache_dir

if TYPE_CHECKING:
    from anyio.abc import ByteStream

log = logging.getLogger(__name__)

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
    wanted: ConnectOptions = ConnectOptions()
    page: dict[str, Any] | None = None
    hook: HookMessage | None = None


class Connections:
    """The clients on the wire.

    They must send `token`. `dismissed` is called with `user` or `upgrade` when a client asks the daemon to end.
    """

    def __init__(
        self,
        token: str,
        shared: SharedState,
        status: Callable[[], dict[str, Any]],
        dismissed: Callable[[str], None],
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
        line = _line({OURS: "leaving", "why": why})
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
        try:
            line = await self._first_line(stream, buffered)
        except anyio.DelimiterNotFound:
            await stream.send(_line(_refusal("greeting", "The greeting is too long.")))
            return
        answer, greeting = self._answer(line)
        server = None
        if greeting and greeting.kbhub == "hello":
            server, answer = await self._server(line, greeting)
        if greeting and greeting.kbhub == "ui" and greeting.page:
            await self._show(Peer(stream, buffered), greeting, greeting.page)
            return
        if greeting and greeting.kbhub == "hook" and greeting.hook:
            answer = await run_sync(self._hooked, greeting, greeting.hook)
        await stream.send(_line(answer))
        if server and greeting:
            peer = Peer(stream, buffered)
            with self._counted(peer):
                log.info("A client connected; there are %d.", len(self._open))
                await converse(server, peer, protocol_of(greeting.wanted.protocol, greeting.env))
            log.info("A client disconnected; there are %d.", len(self._open))
        elif greeting and greeting.kbhub == "stop":
            self._dismissed(greeting.why)

    async def _first_line(self, stream: ByteStream, buffered: BufferedByteReceiveStream) -> bytes:
        """Wait for a client's greeting."""
        self._greeting[id(stream)] = stream
        if len(self._greeting) > MOST_GREETING:
            await self._greeting.pop(next(iter(self._greeting))).aclose()
        try:
            with anyio.fail_after(GREETING_SECONDS):
                return await buffered.receive_until(b"\n", GREETING_BYTES)
        finally:
            self._greeting.pop(id(stream), None)

    def _answer(self, line: bytes) -> tuple[dict[str, Any], Greeting | None]:
        """Answer a greeting as far as possible without a hub; also return the greeting if it is valid."""
        try:
            greeting = Greeting.model_validate_json(line)
        except ValidationError:
            return _refusal("greeting", "The greeting is malformed."), None
        if not hmac.compare_digest(greeting.token.encode(), self._token.encode()):
            return _refusal("token", "The token is wrong."), None
        if greeting.link != LINK:
            return _refusal("link", f"The daemon of kbhub {__version__} speaks another protocol."), None
        if greeting.kbhub == "status":
            return {OURS: "status", **self._status()}, greeting
        if greeting.kbhub == "stop":
            return {OURS: "stop", "version": __version__}, greeting
        if greeting.kbhub not in ("hello", "ui", "hook"):
            return _refusal("greeting", "The greeting is malformed."), None
        if self._leaving:
            return _refusal("leaving", "The daemon is stopping."), None
        if len(self._open) >= MOST_CONNECTIONS:
            return _refusal("busy", f"The daemon already has {MOST_CONNECTIONS} clients"), None
        return {}, greeting

    async def _server(self, line: bytes, greeting: Greeting) -> tuple[KbhubServer | None, dict[str, Any]]:
        """Create the server of a client; without one, the second value says why."""
        try:
            server = await run_sync(self._made, greeting)
        except (UsageError, ConfigError) as error:
            return None, _refusal("usage", str(error), error.exit_code)
        except KbhubError as error:
            return None, _refusal("failed", str(error))
        return server, {OURS: "hello", "version": __version__, "note": _note(line, greeting, server.hub)}

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
        return {OURS: "hook", "version": __version__, "output": output}

    async def _show(self, peer: Peer, greeting: Greeting, wanted: dict[str, Any]) -> None:
        """Serve the page of `kbhub ui` for as long as the command is there."""
        # Few daemons serve a page, which loads templates and the web framework.
        from kbhub.ui import access, app  # noqa: PLC0415

        async def changed(door: access.PageAddress) -> None:
            await peer.say(_line({OURS: "ui", "page": asdict(door)}))

        door = access.PageAddress(**wanted)
        try:
            options = replace(self._options(greeting), serve=False, ask_roots=False)
            page = await run_sync(lambda: app.PageServer(Hub(options), bind_port(door.port), door, changed))
        except KbhubError as error:
            await peer.say(_line(_refusal("failed", str(error))))
            return
        with self._counted(peer):
            async with anyio.create_task_group() as group:
                group.start_soon(page.serve, lambda: peer.say(_line({OURS: "ui", "version": __version__})))
                await peer.hear()
                page.end()

    def _options(self, greeting: Greeting) -> HubOptions:
        places: dict[str, Any] = {"cwd": greeting.cwd, "home": greeting.home, "shared": self._shared}
        return hub_options(greeting.wanted, greeting.also | greeting.env, serve=True, **places)


def hub_options(wanted: ConnectOptions, env: dict[str, str], **more: Any) -> HubOptions:
    """Return what options of a command line and variables say of a hub, and what else is known of it."""
    return HubOptions(
        root=wanted.root,
        config=Path(wanted.config) if wanted.config else None,
        bases=parse_base_arguments(wanted.base, env),
        cache=cache_dir(env, Path(wanted.cache_dir)) if wanted.cache_dir else None,
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
    for folder in sys.path:  # extensions
        installed.note(folder, entries=True)
    seen, also = hub.files.as_list() if hub.files else None, installed.as_list()
    if greeting.version != __version__ or seen is None or also is None:
        return None
    return note_name(greeting.version, json.loads(line)), [*seen, *also]


def _refusal(reason: str, message: str, exit_code: int = 0) -> dict[str, Any]:
    return {OURS: "refused", "reason": reason, "message": message, "exit": exit_code}


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"
