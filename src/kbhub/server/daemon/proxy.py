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
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from kbhub import __version__
from kbhub.server.daemon import protocol
from kbhub.server.daemon.launch import DaemonUnavailable, greeted, own_server, reach, status
from kbhub.server.frames import ENVELOPE, LAST_WORDS_SECONDS, LISTEN, PIECE_BYTES, Frame, frames, line_of, refusal
from kbhub.values import struct
from kbhub.workspace.files import own_folder, working_directory
from kbhub.workspace.tool_names import WRITERS

if TYPE_CHECKING:
    from subprocess import Popen

_LOST = -32000
"""Error code for a request whose server went away; the SDKs use it too."""

ATTEMPTS = 3
"""Daemons tried per message; each has started and died before the next."""

FINISHING_SECONDS = 5.0
"""Time for an ending daemon to answer what it was asked."""

SILENT_SECONDS = 15.0
"""Time without a word of a daemon that owes an answer, after which it is asked whether it still works."""

LISTENING = "notifications/subscriptions/acknowledged"

CHANGED = ("notifications/tools/list_changed", "notifications/resources/list_changed")
"""Sent to a client of the handshake era after a change of daemon, since another version may have other tools."""

_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

_CANCELLED = "notifications/cancelled"


def key_of(identifier: Any) -> str:
    """Return a key for the id of a request: 1 and "1" are different."""
    return json.dumps(identifier)


@struct(frozen=False)
class Request:
    """A request of the client."""

    id: Any
    method: str
    line: bytes
    params: dict[str, Any]
    acknowledged: bool = False
    """Whether the client knows that its stream of notifications is open."""

    def failure(self) -> bytes:
        """Return an answer on behalf of the daemon: for a tool a result that a model reads, else an error."""
        again = "Nothing was changed; try again."
        if self.params.get("name") in WRITERS:
            again = "It may or may not have been done. Check before you call it again."
        text = f"The kbhub daemon stopped during this call. {again}"
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": self.id}
        if self.method == "tools/call":
            answer["result"] = {"content": [{"type": "text", "text": text}], "isError": True}
            if ENVELOPE in _inside(self.params, "_meta"):  # the era without a handshake
                answer["result"]["resultType"] = "complete"
        else:
            answer["error"] = {"code": _LOST, "message": text}
        return line_of(answer)


class Proxy:
    """One client's conversation with the current daemon; `reach` opens the next wire or raises `OSError`.

    A new daemon is told the handshake and the subscriptions; calls that another one left unanswered fail. Until the
    first one has started, `told` has the answers that are certain (see `protocol.read_note`); `notes` is their folder.
    A daemon that owes an answer, says nothing and is not `alive` is left, as one that died.
    """

    def __init__(
        self,
        link: protocol.DaemonLink | None,
        reach: Callable[[], protocol.DaemonLink],
        sink: BinaryIO,
        notes: Path | None = None,
        told: Sequence[Sequence[Any]] = (),
        alive: Callable[[], bool] = lambda: True,
    ) -> None:
        self._reach, self._sink, self._notes, self._told, self._alive = reach, sink, notes, told, alive
        self._state = threading.Condition(threading.RLock())
        self._link: protocol.DaemonLink | None = link
        self._writing = threading.Lock()
        self._session: dict[str, dict[str, Any]] = {}
        """What a new daemon must be told of a client of the handshake era, the handshake first."""
        self._shaken = False
        """Whether the handshake was answered."""
        self._pending: dict[str, Request] = {}
        self._asked: dict[str, Any] = {}
        """Request of the daemon: id seen by the client → the daemon's id."""
        self._daemons = 1 if link else 0
        self._starting = link is None
        self._leaving = False
        self._owing, self._sending, self._heard = threading.Event(), False, 0

    def run(self, source: Iterable[bytes]) -> None:
        """Relay messages until the client closes its end."""
        for work in (self._listen, self._doubt):
            threading.Thread(target=work, daemon=True).start()
        for frame in frames(source):
            self.from_client(frame)

    def from_client(self, frame: Frame) -> None:
        """Relay a message of the client, or answer it if it is unreadable."""
        if frame.refusal:
            self._write(frame.refusal)
        if (message := frame.message) is None:
            return
        method, key = message.get("method"), key_of(message.get("id"))
        with self._state:
            if not isinstance(method, str):
                if key in self._asked:  # else it answers a daemon that is gone
                    self._send(line_of({**message, "id": self._asked.pop(key)}))
                return
            params = _inside(message, "params")
            if "id" in message and key in self._pending:
                self._write(refusal("A request with this id is already in progress.", message["id"]).refusal)
                return
            self._note(method, params, message)
            if "id" not in message:
                self._send(frame.line)
                return
            request = Request(message["id"], method, frame.line, params)
            for known, given, result in self._told if self._starting else ():
                if (known, given) == (method, params):
                    self._shaken = self._shaken or method == "initialize"
                    self._write(line_of({"jsonrpc": "2.0", "id": request.id, "result": result}))
                    return
            for _ in range(ATTEMPTS):
                if not self._connected():
                    break
                if self._send(frame.line):
                    self._pending[key] = request
                    return
            self._write(request.failure())

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
        try:
            message = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return
        if protocol.OURS in message:
            with self._state:
                self._leaving = True
                leaving = self._link, message.get("why") == "upgrade"
            threading.Thread(target=self._finish, args=leaving, name="kbhub-finishing", daemon=True).start()
            return
        method, identifier = message.get("method"), message.get("id")
        request = None
        with self._state:
            if not isinstance(method, str):
                request = self._pending.pop(key_of(identifier), None)
                self._state.notify_all()
                if request is None:
                    return  # already answered, cancelled, or a request of our own
                self._shaken = self._shaken or request.method == "initialize"
            elif identifier is not None:
                seen = identifier if self._daemons == 1 else f"kbhub-{self._daemons}-{identifier}"
                self._asked[key_of(seen)] = identifier
                line = line if seen == identifier else line_of({**message, "id": seen})
            elif method == _CANCELLED:
                params = _inside(message, "params")
                for seen in [key for key, own in self._asked.items() if own == params.get("requestId")]:
                    del self._asked[seen]
                    line = line_of({**message, "params": {**params, "requestId": json.loads(seen)}})
            elif method == LISTENING:
                key = key_of(_inside(_inside(message, "params"), "_meta").get(_SUBSCRIPTION))
                if stream := self._pending.get(key):
                    if stream.acknowledged:
                        return
                    stream.acknowledged = True
        self._write(line)
        note = (link := self._link) and link.note
        if request and request.method in protocol.FIRST and "result" in message and self._notes and note:
            name, seen = note
            with suppress(OSError):  # such as a full disk
                protocol.write_note(self._notes / name, seen, request.method, request.params, message["result"])

    def _note(self, method: str, params: dict[str, Any], message: dict[str, Any]) -> None:
        """Record what a new daemon must be told."""
        subscription = f"uri {params.get('uri')}"
        if method == "initialize":
            self._session, self._shaken = {method: message}, False
        elif method in ("notifications/initialized", "logging/setLevel"):
            self._session[method] = message
        elif method == "resources/subscribe":
            self._session[subscription] = message
        elif method == "resources/unsubscribe":
            self._session.pop(subscription, None)
        elif method == _CANCELLED:
            self._pending.pop(key_of(params.get("requestId")), None)

    def _listen(self) -> None:
        if self._starting:
            first = None
            with suppress(OSError):
                first = self._reach()
            with self._state:
                self._starting = False
                if first:
                    self._adopt(first)
                self._state.notify_all()
        while True:
            with self._state:
                while (link := self._link) is None:
                    self._state.wait()
            for line in link.lines():
                self._heard += 1
                self.from_daemon(line)
            with self._state:
                self._lost(link)
                # After a requested end, start no new daemon before the client needs one.
                if not self._leaving:
                    self._connected()

    def _doubt(self) -> None:
        """Disconnect from a daemon that hangs. Takes no lock: who holds it may wait for that very daemon."""
        while self._owing.wait():
            self._owing.clear()
            while (link := self._link) and (
                self._sending or any(request.method != LISTEN for request in list(self._pending.values()))
            ):
                heard = self._heard
                time.sleep(SILENT_SECONDS)
                if heard == self._heard and link is self._link and not self._alive():
                    link.close()
                    break

    def _finish(self, link: protocol.DaemonLink | None, upgraded: bool) -> None:
        """Let an ending daemon answer what it was asked, then disconnect."""
        with self._state:
            self._state.wait_for(
                lambda: all(request.method == LISTEN for request in self._pending.values()), FINISHING_SECONDS
            )
            if link:
                self._lost(link)
            if upgraded:
                self._connected()

    def _lost(self, link: protocol.DaemonLink) -> None:
        """Answer for a daemon that is gone."""
        if self._link is not link:
            return
        self._link = None
        link.close()
        for seen in self._asked:
            gone = {"requestId": json.loads(seen), "reason": "The kbhub daemon that sent the request has stopped."}
            self._write(line_of({"jsonrpc": "2.0", "method": _CANCELLED, "params": gone}))
        self._asked.clear()
        for key, request in list(self._pending.items()):
            if request.method != LISTEN:
                del self._pending[key]
                self._write(request.failure())

    def _send(self, line: bytes) -> bool:
        """Send a line; return whether the daemon is still there."""
        if link := self._link:
            self._sending = True
            self._owing.set()
            try:
                link.send(line)
            except OSError:
                self._lost(link)
            self._sending = False
        return self._link is not None

    def _connected(self) -> bool:
        """Return whether there is a daemon that knows this client; start one if necessary."""
        while self._starting:
            self._state.wait()
        for _ in range(ATTEMPTS):
            if self._link:
                return True
            try:
                link = self._reach()
            except OSError:
                break
            self._adopt(link)
        for request in self._pending.values():
            self._write(request.failure())
        self._pending.clear()
        return False

    def _adopt(self, link: protocol.DaemonLink) -> None:
        """Tell a new daemon of the client, and go on with it unless it dies at once."""
        self._daemons += 1
        self._leaving = False
        try:
            for number, message in enumerate(self._session.values() if self._shaken else ()):
                if "id" in message:
                    link.ask({**message, "id": f"kbhub-again-{number}"})
                else:
                    link.send(line_of(message))
            for request in self._pending.values():  # streams of notifications
                link.send(request.line)
        except OSError:
            link.close()
            return
        self._link = link
        self._state.notify_all()
        for method in CHANGED if self._shaken and self._daemons > 1 else ():
            self._write(line_of({"jsonrpc": "2.0", "method": method}))

    def _write(self, line: bytes) -> None:
        with self._writing:
            try:
                self._sink.write(line)
                self._sink.flush()
            except (OSError, ValueError):  # the client is gone
                os._exit(0)


def run(proxy: Proxy) -> NoReturn:
    """Relay standard input until the client closes it or a signal comes, then end the process."""
    source = sys.stdin.fileno()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: proxy.finish())
    if hasattr(select, "poll"):
        threading.Thread(target=proxy.watch, args=(source,), name="kbhub-client-is-there", daemon=True).start()
    proxy.run(iter(lambda: os.read(source, PIECE_BYTES), b""))
    proxy.finish()


def _inside(message: dict[str, Any], name: str) -> dict[str, Any]:
    member = message.get(name)
    return member if isinstance(member, dict) else {}


MODE = "--connect"


def wanted(arguments: Sequence[str]) -> protocol.ConnectOptions | None:
    """Parse arguments after the program's name; None if they are not `serve --connect` with plainly valid options."""
    if arguments[:1] != ["serve"] or MODE not in arguments:
        return None
    known = {f"--{field.name.replace('_', '-')}": field for field in fields(protocol.ConnectOptions)}
    options: dict[str, Any] = {}
    rest = iter(arguments[1:])
    for argument in rest:
        option, mark, value = argument.partition("=")
        if argument == MODE:
            continue
        if (field := known.get(option)) is None:
            return None
        name, unset = field.name, field.default
        if unset is False:
            if mark:
                return None
            options[name] = True
            continue
        value = value if mark else next(rest, "")
        if not value or value.startswith("-") or (unset is None and name in options):
            return None
        options[name] = value if unset is None else (*options.get(name, ()), value)
    return protocol.ConnectOptions(**options) if options.get("protocol", "auto") in protocol.PROTOCOLS else None


def connect(wanted: protocol.ConnectOptions, env: Mapping[str, str]) -> int | None:
    """Serve the client through the daemon; return an exit code, or None if it must be served without one."""
    folder = protocol.DaemonFolder(own_folder("data", env))
    hello = protocol.greeting(wanted, env, str(working_directory() or os.sep))
    said = {**hello, "also": protocol.other_variables(env)}
    own: list[Popen[bytes]] = []

    def open_link() -> protocol.DaemonLink:
        if own:  # its end is that of the window, as without a daemon
            os._exit(own[0].wait())
        try:
            return reach(folder, said, {"ends": True}, env)
        except (protocol.Refused, DaemonUnavailable) as error:
            _complain(f"Cannot use the daemon ({error}); serving without it.")
        link, process = own_server(wanted)
        own.append(process)
        return link

    def alive() -> bool:
        record = protocol.running(folder)
        return bool(own) or record is None or status(folder, record) is not None

    try:
        link = greeted(folder, said)
        told = [] if link else protocol.read_note(folder.notes / protocol.note_name(__version__, hello))
        if not link and not told:
            link = reach(folder, said, {"ends": True}, env)
        run(Proxy(link, open_link, sys.stdout.buffer, folder.notes, told, alive))
    except protocol.Refused as refusal:
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
