"""One client on the wire: its greeting, its hub, its MCP conversation."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.to_thread import run_sync
from mcp.server.request_state import RequestStateSecurity
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter
from pydantic import BaseModel, ConfigDict, ValidationError

from kbhub import __version__
from kbhub.daemon.link import FRAME_BYTES, GREETING_BYTES, GREETING_SECONDS, LINK, OURS, PASSED_ON
from kbhub.discovery import parse_base_arguments
from kbhub.errors import ConfigError, KbhubError, UsageError
from kbhub.hub import Hub
from kbhub.options import HubOptions
from kbhub.places import cache_dir
from kbhub.server import KbhubServer, create_server
from kbhub.stdio import PROTOCOLS, serve_messages
from kbhub.values import struct

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from kbhub.shared import Shared

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 200
"""Clients at a time: more windows than anybody has. Each takes three threads, and descriptors of files."""

MOST_GREETING = 20
"""Clients that have not said yet who they are."""

GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.IncompleteRead)


class WantedModel(BaseModel):
    """What a client's command line asks for."""

    model_config = ConfigDict(extra="ignore")

    root: str | None = None
    config: Path | None = None
    cache_dir: Path | None = None
    base: tuple[str, ...] = ()
    structured: bool = False
    protocol: str | None = None
    read_only: bool = False


class Greeting(BaseModel):
    """The first line of a client."""

    model_config = ConfigDict(extra="ignore")

    kbhub: str
    link: int
    token: str
    why: str = "user"
    cwd: Path = Path("/")
    home: Path = Path("/")
    env: dict[str, str] = {}
    wanted: WantedModel = WantedModel()


@struct
class Dismissal:
    """Why a daemon ends."""

    why: str
    """`user`, `upgrade`, `idle` or `signal`."""


class Connections:
    """The clients on the wire.

    Args:
        token: that each of them has to know.
        shared: what their hubs have in common.
        base_env: variables of the daemon's own that are no client's matter.
        status: tells what a status is asked for.
        dismissed: called when a client tells the daemon to end.
    """

    def __init__(
        self,
        token: str,
        shared: Shared,
        base_env: dict[str, str],
        status: Callable[[], dict[str, Any]],
        dismissed: Callable[[Dismissal], None],
    ) -> None:
        self._token, self._shared, self._status, self._dismissed = token, shared, status, dismissed
        self._base_env = {
            name: value for name, value in base_env.items() if name not in PASSED_ON and not name.startswith("KBHUB_")
        }
        self._open: dict[int, ByteStream] = {}
        self._greeting = 0
        self._leaving: Dismissal | None = None
        self._sending: dict[int, anyio.Lock] = {}

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
            log.info("A client did not say what it wants.")
        except Exception:  # BLE001: one client's failure must not end those of the others; the log has it
            log.exception("A connection failed.")

    async def leave(self, dismissal: Dismissal, seconds: float) -> None:
        """Tell the clients that the daemon ends, and wait until they have hung up.

        Args:
            dismissal: why.
            seconds: how long at most.
        """
        self._leaving = dismissal
        line = _line({OURS: "leaving", "why": dismissal.why})
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as group:
                for number in list(self._open):
                    group.start_soon(self._tell, number, line)
            while self._open:
                await anyio.sleep(0.01)

    async def _tell(self, number: int, line: bytes) -> None:
        try:
            async with self._sending[number]:
                await self._open[number].send(line)
        except (*GONE, KeyError):
            log.debug("A client was gone before it could be told that the daemon ends.")

    async def _serve(self, stream: ByteStream) -> None:
        if self._greeting >= MOST_GREETING:
            return
        self._greeting += 1
        try:
            buffered = BufferedByteReceiveStream(stream)
            with anyio.fail_after(GREETING_SECONDS):
                line = await buffered.receive_until(b"\n", GREETING_BYTES)
            answer, greeting = self._answer(line)
            server = None
            if greeting and greeting.kbhub == "hello":
                server, answer = await self._server(greeting)
            await stream.send(_line(answer))
        except anyio.DelimiterNotFound:
            await stream.send(_line(_refusal("greeting", "The greeting is too long.")))
            return
        finally:
            self._greeting -= 1
        if server and greeting:
            await self._converse(stream, buffered, server, greeting.wanted.protocol or _protocol(greeting))
        elif greeting and greeting.kbhub == "stop":
            self._dismissed(Dismissal(greeting.why))

    def _answer(self, line: bytes) -> tuple[dict[str, Any], Greeting | None]:
        """Answer a greeting, as far as that needs no hub; with the greeting if it was in order."""
        try:
            greeting = Greeting.model_validate_json(line)
        except ValidationError:
            return _refusal("greeting", "The greeting cannot be understood."), None
        if not hmac.compare_digest(greeting.token.encode(), self._token.encode()):
            return _refusal("token", "The token is wrong."), None
        if greeting.link != LINK:
            return _refusal("link", f"The daemon of kbhub {__version__} speaks another language."), None
        if greeting.kbhub == "status":
            return {OURS: "status", **self._status()}, greeting
        if greeting.kbhub == "stop":
            return {OURS: "stop", "version": __version__}, greeting
        if greeting.kbhub != "hello":
            return _refusal("greeting", "The greeting cannot be understood."), None
        if self._leaving:
            return _refusal("leaving", "The daemon is ending."), None
        if len(self._open) >= MOST_CONNECTIONS:
            return _refusal("busy", f"The daemon has {MOST_CONNECTIONS} clients already"), None
        return {}, greeting

    async def _server(self, greeting: Greeting) -> tuple[KbhubServer | None, dict[str, Any]]:
        """Make the server of a client; none, and why, if what it asks for cannot be."""
        try:
            server = await run_sync(self._made, greeting)
        except (UsageError, ConfigError) as error:
            return None, _refusal("usage", str(error), error.exit_code)
        except KbhubError as error:
            return None, _refusal("failed", str(error))
        return server, {OURS: "hello", "version": __version__}

    def _made(self, greeting: Greeting) -> KbhubServer:
        protocol = greeting.wanted.protocol or _protocol(greeting)
        if protocol not in PROTOCOLS:
            raise UsageError(f"KBHUB_PROTOCOL is {protocol!r}; it must be `auto` or `legacy`.")
        options = self._options(greeting)
        # A question that one daemon asked is understood by the next, and by no other workspace's server.
        said = greeting.model_dump_json(exclude={"token"}).encode()
        key = hmac.digest(self._token.encode(), b"request state\0" + said, "sha256")
        return create_server(
            Hub(options), structured=greeting.wanted.structured, request_state=RequestStateSecurity(keys=[key])
        )

    def _options(self, greeting: Greeting) -> HubOptions:
        wanted, env = greeting.wanted, self._base_env | greeting.env
        return HubOptions(
            root=wanted.root,
            config=wanted.config,
            bases=parse_base_arguments(wanted.base, env),
            cache=wanted.cache_dir and cache_dir(env, wanted.cache_dir),
            serve=True,
            read_only=wanted.read_only,
            env=env,
            cwd=greeting.cwd,
            home=greeting.home,
            shared=self._shared,
        )

    async def _converse(
        self, stream: ByteStream, buffered: BufferedByteReceiveStream, server: KbhubServer, protocol: str
    ) -> None:
        number, lock = id(stream), anyio.Lock()
        self._open[number], self._sending[number] = stream, lock
        log.info("A client came; there are %d.", len(self._open))
        received, read = anyio.create_memory_object_stream[Any](0)
        write, sent = anyio.create_memory_object_stream[Any](0)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_receive, buffered, received)
                group.start_soon(_send, sent, stream, lock)
                await serve_messages(server, read, write, protocol)
                group.cancel_scope.cancel()
        finally:
            del self._open[number], self._sending[number]
            for end in (received, read, write, sent):
                end.close()
            log.info("A client went; there are %d.", len(self._open))


async def _receive(buffered: BufferedByteReceiveStream, received: Any) -> None:
    async with received:
        while True:
            try:
                line = await buffered.receive_until(b"\n", FRAME_BYTES)
            except GONE:
                return
            except anyio.DelimiterNotFound:
                log.warning("A client sent more than %d bytes in one message; it is cut off.", FRAME_BYTES)
                return
            try:
                text = line.decode("utf-8", "replace")
                message = jsonrpc_message_adapter.validate_json(text, by_name=False)
            except ValidationError as error:
                await received.send(error)
                continue
            await received.send(SessionMessage(message))


async def _send(sent: Any, stream: ByteStream, lock: anyio.Lock) -> None:
    async with sent:
        async for item in sent:
            line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            try:
                async with lock:
                    await stream.send(line)
            except GONE:
                return


def _protocol(greeting: Greeting) -> str:
    return greeting.env.get("KBHUB_PROTOCOL") or "auto"


def _refusal(reason: str, message: str, exit_code: int = 0) -> dict[str, Any]:
    return {OURS: "refused", "reason": reason, "message": message, "exit": exit_code}


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"
