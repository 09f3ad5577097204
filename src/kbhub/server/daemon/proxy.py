"""Relay messages between a client's standard streams and the daemon. Light: every editor window loads it."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple, NoReturn

from kbhub.server.daemon.folder import DaemonFolder
from kbhub.server.daemon.launch import DaemonUnavailable, reach
from kbhub.server.daemon.protocol import OURS, ConnectOptions, DaemonLink, Refused, greeting
from kbhub.server.frames import Frame, frames, refusal
from kbhub.workspace.files import data_dir
from kbhub.workspace.tool_names import ALL, WRITERS

LISTEN = "subscriptions/listen"
"""The request whose answer is a stream of notifications, open as long as the client wants."""

READING_METHODS = frozenset(
    (
        *("initialize", "ping", "server/discover", "logging/setLevel", "completion/complete"),
        *("tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get"),
        *("resources/subscribe", "resources/unsubscribe"),
    )
)
"""Requests that can be repeated."""

READING_TOOLS = frozenset(ALL) - WRITERS
"""Tools that can be called again."""

MOST_SENDINGS = 2
"""How often a request is sent: what crashed two daemons would crash the third."""

SUBSCRIBED = 10_000
"""Most subscriptions that are restored, the oldest first."""

_VERSION = "io.modelcontextprotocol/protocolVersion"
_LOST = -32000
"""Error code for a request whose server went away; the SDKs use it too."""


ATTEMPTS = 3
"""Daemons tried per message; each has started and died before the next."""

FINISHING_SECONDS = 5.0
"""Time for an ending daemon to finish writing calls; reading calls are repeated on the next one."""

LAST_WORDS_SECONDS = 0.4
"""Time for a client that has closed its end to read the line being written to it."""

PIECE_BYTES = 64 * 1024
"""Bytes read at once: the size of a pipe."""

LISTENING = "notifications/subscriptions/acknowledged"

CHANGED = ("notifications/tools/list_changed", "notifications/resources/list_changed")
"""Sent to a client of the handshake era after a change of daemon, since another version may have other tools."""

_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

_CANCELLED = "notifications/cancelled"


def key_of(identifier: Any) -> str:
    """Return a key for the id of a request: 1 and "1" are different."""
    return json.dumps(identifier)


class Pending(NamedTuple):
    """A request of the client without an answer yet."""

    id: Any
    line: bytes
    method: str
    tool: str
    modern: bool
    """Whether it belongs to the protocol era without a handshake."""
    sent: int = 0

    @property
    def may_repeat(self) -> bool:
        """Whether repeating it does no harm."""
        if not self.sent or self.method == LISTEN:
            return True
        reads = self.tool in READING_TOOLS if self.method == "tools/call" else self.method in READING_METHODS
        return reads and self.sent < MOST_SENDINGS

    def failure(self) -> bytes:
        """Return an answer on behalf of the daemon: for a tool a result that a model reads, else an error."""
        again = "Nothing was changed; try again."
        if self.tool in WRITERS:
            again = "It may or may not have been done. Check before you call it again."
        text = f"The kbhub daemon stopped during this call. {again}"
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": self.id}
        if self.method == "tools/call":
            answer["result"] = {"content": [{"type": "text", "text": text}], "isError": True}
            if self.modern:
                answer["result"]["resultType"] = "complete"
        else:
            answer["error"] = {"code": _LOST, "message": text}
        return json.dumps(answer).encode() + b"\n"


def pending(message: dict[str, Any], line: bytes) -> Pending:
    """Build the record of a request from its message and the received line."""
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    meta = params.get("_meta")
    name = params.get("name")
    modern = isinstance(meta, dict) and _VERSION in meta
    tool = name if message["method"] == "tools/call" and isinstance(name, str) else ""
    return Pending(message["id"], line, message["method"], tool, modern)


class Conversation:
    """The state of a client that a new daemon needs: its handshake, its log level, its subscriptions."""

    def __init__(self) -> None:
        self._initialize: dict[str, Any] | None = None
        self._shaken = False
        """Whether the handshake was answered."""
        self._initialized: dict[str, Any] | None = None
        self._level: dict[str, Any] | None = None
        self._subscribed: dict[str, dict[str, Any]] = {}

    def hear(self, message: dict[str, Any]) -> None:
        """Record a message of the client."""
        method, params = message.get("method"), message.get("params")
        uri = params.get("uri") if isinstance(params, dict) else None
        if method == "initialize":
            self._initialize, self._shaken, self._initialized = message, False, None
        elif method == "notifications/initialized":
            self._initialized = message
        elif method == "logging/setLevel":
            self._level = message
        elif method == "resources/subscribe" and isinstance(uri, str) and len(self._subscribed) < SUBSCRIBED:
            self._subscribed[uri] = message
        elif method == "resources/unsubscribe" and isinstance(uri, str):
            self._subscribed.pop(uri, None)

    def answered(self, asked: Pending) -> None:
        """Record that a request was answered."""
        if asked.method == "initialize":
            self._shaken = True

    @property
    def shaken(self) -> bool:
        """Whether the client has completed a handshake, so that a new daemon needs it too."""
        return self._shaken

    def again(self) -> list[dict[str, Any]]:
        """Return the messages that a new daemon needs before any other, the handshake first."""
        messages = (
            [self._initialize, self._initialized, self._level, *self._subscribed.values()] if self._shaken else []
        )
        return [message for message in messages if message]


class Proxy:
    """One client's conversation with the current daemon; `reach` opens the next wire or raises `OSError`."""

    def __init__(self, link: DaemonLink, reach: Callable[[], DaemonLink], sink: BinaryIO) -> None:
        self._reach, self._sink = reach, sink
        self._state = threading.Condition(threading.RLock())
        self._link: DaemonLink | None = link
        self._writing = threading.Lock()
        self._conversation = Conversation()
        self._pending: dict[str, Pending] = {}
        self._asked: dict[str, Any] = {}
        """Request of the daemon: id seen by the client → the daemon's id."""
        self._acknowledged: set[str] = set()
        """Notification streams acknowledged to the client."""
        self._daemons = 1
        self._own = 0
        """Number of requests made by the proxy itself, whose answers are not passed on."""
        self._leaving = False

    def run(self, source: Iterable[bytes]) -> None:
        """Relay messages until the client closes its end."""
        threading.Thread(target=self._listen, name="kbhub-daemon-says", daemon=True).start()
        for frame in frames(source):
            self.from_client(frame)

    def from_client(self, frame: Frame) -> None:
        """Relay a message of the client, or answer it if it is unreadable."""
        if frame.refusal is not None:
            self._write(frame.refused)
        if (message := frame.message) is None:
            return
        with self._state:
            method, identifier = message.get("method"), message.get("id")
            if not isinstance(method, str):
                own = self._asked.pop(key_of(identifier), None)
                if own is not None:  # else it answers a daemon that is gone
                    self._send(json.dumps({**message, "id": own[0]}).encode())
                return
            if identifier is not None and key_of(identifier) in self._pending:
                self._write(refusal("A request with this id is already in progress.", identifier).refused)
                return
            self._conversation.hear(message)
            if identifier is not None:
                self._pending[key_of(identifier)] = pending(message, frame.line)
                self._connected()
                self._ask(key_of(identifier))
                return
            if method == _CANCELLED:
                cancelled = key_of(_inside(message, "params").get("requestId"))
                self._pending.pop(cancelled, None)
                self._acknowledged.discard(cancelled)
            self._send(frame.line)

    def finish(self) -> NoReturn:
        """End the process once the current line is written, or its reader takes too long."""
        self._writing.acquire(timeout=LAST_WORDS_SECONDS)
        os._exit(0)

    def watch(self, descriptor: int) -> None:
        """End the process when the client has closed its end of a descriptor and stops reading."""
        look = select.poll()
        look.register(descriptor, 0)
        look.poll()
        while self._writing.acquire(timeout=LAST_WORDS_SECONDS):
            self._writing.release()
            time.sleep(LAST_WORDS_SECONDS)
        os._exit(0)

    def from_daemon(self, line: bytes) -> None:
        """Relay a message of the daemon."""
        message = _parsed(line)
        if message is None:
            return
        if OURS in message:
            with self._state:
                self._leaving = True
                leaving = self._link, message.get("why") == "upgrade"
            threading.Thread(target=self._finish, args=leaving, name="kbhub-finishing", daemon=True).start()
            return
        method, identifier = message.get("method"), message.get("id")
        with self._state:
            if not isinstance(method, str):
                request = self._pending.pop(key_of(identifier), None)
                self._state.notify_all()
                if request is None:
                    return  # already answered, cancelled, or a request of our own
                self._conversation.answered(request)
                self._acknowledged.discard(key_of(identifier))
            elif identifier is not None:
                seen = identifier if self._daemons == 1 else f"kbhub-{self._daemons}-{identifier}"
                self._asked[key_of(seen)] = (identifier,)
                line = line if seen == identifier else json.dumps({**message, "id": seen}).encode() + b"\n"
            elif method == _CANCELLED:
                line = self._called_back(message) or line
            elif method == LISTENING and not self._is_first(message):
                return
        self._write(line)

    def _listen(self) -> None:
        while True:
            with self._state:
                while (link := self._link) is None:
                    self._state.wait()
            for line in link.lines():
                self.from_daemon(line)
            with self._state:
                self._lost(link)
                # After a requested end, start no new daemon before the client needs one.
                if not self._leaving:
                    self._connected()

    def _finish(self, link: DaemonLink | None, upgraded: bool) -> None:
        """Let an ending daemon answer what must not be repeated, then disconnect."""
        with self._state:
            self._state.wait_for(
                lambda: all(request.may_repeat for request in self._pending.values()), FINISHING_SECONDS
            )
            if link:
                self._lost(link)
            if upgraded or any(request.method != LISTEN for request in self._pending.values()):
                self._connected()

    def _lost(self, link: DaemonLink) -> None:
        if self._link is not link:
            return
        self._link = None
        link.close()
        for seen in self._asked:
            gone = {"requestId": json.loads(seen), "reason": "The kbhub daemon that sent the request has stopped."}
            self._write(json.dumps({"jsonrpc": "2.0", "method": _CANCELLED, "params": gone}).encode() + b"\n")
        self._asked.clear()

    def _send(self, line: bytes) -> None:
        """Send a line that needs no answer; if the daemon is gone, it no longer matters."""
        if self._link:
            try:
                self._link.send(line)
            except OSError:
                self._lost(self._link)

    def _ask(self, key: str) -> None:
        """Send a request, unless a new daemon was just asked it."""
        request = self._pending.get(key)
        if request is None or request.sent or self._link is None:
            return
        if not self._sent(self._link, key, request):
            self._connected()

    def _sent(self, link: DaemonLink, key: str, request: Pending) -> bool:
        try:
            link.send(request.line)
        except OSError:
            self._lost(link)
            return False
        self._pending[key] = request._replace(sent=request.sent + 1)
        return True

    def _connected(self) -> None:
        """Ensure a daemon that knows this client; otherwise answer all pending requests with an error."""
        for _ in range(ATTEMPTS):
            if self._link:
                return
            try:
                link = self._reach()
            except OSError:
                break
            self._daemons += 1
            self._leaving = False
            if self._told(link) and self._asked_again(link):
                self._state.notify_all()
                return
        if self._link is None:
            for request in self._pending.values():
                self._write(request.failure())
            self._pending.clear()

    def _told(self, link: DaemonLink) -> bool:
        """Tell a new daemon the state of the conversation; return whether it is still there."""
        try:
            for message in self._conversation.again():
                if "id" not in message:
                    link.send(json.dumps(message).encode())
                    continue
                self._own += 1
                own = f"kbhub-again-{self._own}"
                link.await_answer(json.dumps({**message, "id": own}).encode(), own)
        except OSError:
            link.close()
            return False
        return True

    def _asked_again(self, link: DaemonLink) -> bool:
        """Repeat unanswered requests to a new daemon; return whether it is still there."""
        self._link = link
        for key, request in list(self._pending.items()):
            if not request.may_repeat:
                del self._pending[key]
                self._write(request.failure())
            elif not self._sent(link, key, request):
                return False
        if self._conversation.shaken:
            for method in CHANGED:
                self._write(json.dumps({"jsonrpc": "2.0", "method": method}).encode() + b"\n")
        return True

    def _called_back(self, message: dict[str, Any]) -> bytes | None:
        """Return the cancellation of a daemon's request, by the id that the client knows."""
        params = _inside(message, "params")
        for seen, own in self._asked.items():
            if own[0] == params.get("requestId"):
                params = {**params, "requestId": json.loads(seen)}
                del self._asked[seen]
                return json.dumps({**message, "params": params}).encode() + b"\n"
        return None

    def _is_first(self, message: dict[str, Any]) -> bool:
        key = key_of(_inside(_inside(message, "params"), "_meta").get(_SUBSCRIPTION))
        first = key not in self._acknowledged
        self._acknowledged.add(key)
        return first

    def _write(self, line: bytes) -> None:
        with self._writing:
            try:
                self._sink.write(line)
                self._sink.flush()
            except (OSError, ValueError):  # the client is gone
                os._exit(0)


def run(link: DaemonLink, reach: Callable[[], DaemonLink]) -> NoReturn:
    """Relay standard input and output until the client closes them or a signal comes, then end the process.

    `reach` opens the next wire or raises `OSError`.
    """
    proxy, source = Proxy(link, reach, sys.stdout.buffer), sys.stdin.fileno()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: proxy.finish())
    if hasattr(select, "poll"):
        threading.Thread(target=proxy.watch, args=(source,), name="kbhub-client-is-there", daemon=True).start()
    proxy.run(iter(lambda: os.read(source, PIECE_BYTES), b""))
    proxy.finish()


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _inside(message: dict[str, Any], name: str) -> dict[str, Any]:
    member = message.get(name)
    return member if isinstance(member, dict) else {}


COMMAND, MODE = "serve", "--connect"

_FLAGS = {"--structured": "structured", "--read-only": "read_only"}
_VALUES = {"--root": "root", "--config": "config", "--cache-dir": "cache_dir", "--protocol": "protocol"}
_BASE = "--base"
PROTOCOLS = ("auto", "legacy")


def wanted(arguments: Sequence[str]) -> ConnectOptions | None:
    """Parse arguments after the program's name; None if they are not `serve --connect` with plainly valid options."""
    if arguments[:1] != [COMMAND] or MODE not in arguments:
        return None
    options: dict[str, Any] = {}
    bases: list[str] = []
    rest = iter(arguments[1:])
    for argument in rest:
        name, mark, value = argument.partition("=")
        if argument == MODE:
            continue
        if argument in _FLAGS:
            options[_FLAGS[argument]] = True
            continue
        if name not in (*_VALUES, _BASE):
            return None
        value = value if mark else next(rest, "")
        if not value or value.startswith("-") or _VALUES.get(name) in options:
            return None
        if name == _BASE:
            bases.append(value)
        else:
            options[_VALUES[name]] = value
    if options.get("protocol", "auto") not in PROTOCOLS:
        return None
    return ConnectOptions(**options, base=tuple(bases))


def connect(wanted: ConnectOptions, env: Mapping[str, str]) -> int | None:
    """Serve the client on standard input and output through the daemon; blocks while that works.

    Returns an exit code if this client cannot be served at all, None if it must be served without a daemon.
    """
    folder = DaemonFolder(data_dir(env))
    hello = greeting(wanted, env, os.getcwd())  # noqa: PTH109 - a string is needed

    def open_link() -> DaemonLink:
        try:
            return reach(folder, hello, {"ends": True}, env)
        except (Refused, DaemonUnavailable) as error:
            raise ConnectionError(str(error)) from error

    try:
        run(reach(folder, hello, {"ends": True}, env), open_link)
    except Refused as refusal:
        if refusal.exit_code:
            _complain(refusal.message)
            return refusal.exit_code
        _complain(f"{refusal.message}; serving without the daemon.")
    except DaemonUnavailable as error:
        _complain(f"Cannot use the daemon ({error}); serving without it.")
    return None


def _complain(message: str) -> None:
    sys.stderr.write(f"kbhub: {' '.join(message.split())}\n")
    sys.stderr.flush()
