"""Passes messages between a client's standard streams and the daemon. Light: every editor window runs one.

Two threads: one reads what the client says, one what the daemon says. When the daemon dies, a new one is told what the
old one knew of this client, and asked again what it had not answered.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, NoReturn

from kbhub.daemon.link import OURS, Link
from kbhub.daemon.replay import LISTEN, Conversation, Pending, key_of, pending
from kbhub.frames import Frame, frames, refusal

ATTEMPTS = 3
"""Daemons that are tried for one message; each has come up and gone again before the next."""

FINISHING_SECONDS = 5.0
"""How long a daemon that was told to finish may take for what writes; what reads is asked again of the next one."""

LAST_WORDS_SECONDS = 0.4
"""How long a client that has closed its end may take to read the line that is being written to it."""

PIECE_BYTES = 64 * 1024
"""Bytes that are read at a time: what a pipe holds."""

LISTENING = "notifications/subscriptions/acknowledged"
CHANGED = ("notifications/tools/list_changed", "notifications/resources/list_changed")
"""What a client of the handshake is told after a change of daemon: another version may have other tools."""

_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_CANCELLED = "notifications/cancelled"


class Proxy:
    """One client's conversation with whichever daemon there is.

    Args:
        link: a wire to the daemon.
        reach: opens the next one; raises `OSError` if there can be none.
        sink: to the client.
    """

    def __init__(self, link: Link, reach: Callable[[], Link], sink: BinaryIO) -> None:
        self._reach, self._sink = reach, sink
        self._state = threading.Condition(threading.RLock())
        self._link: Link | None = link
        self._writing = threading.Lock()
        self._conversation = Conversation()
        self._pending: dict[str, Pending] = {}
        self._asked: dict[str, Any] = {}
        """Request of the daemon, by the id that the client sees → its own id."""
        self._acknowledged: set[str] = set()
        """Streams of notifications that the client was told of."""
        self._daemons = 1
        self._own = 0
        """Requests that were made here; their answers are not the client's."""
        self._leaving = False

    def run(self, source: Iterable[bytes]) -> None:
        """Pass messages on until the client closes its end."""
        threading.Thread(target=self._listen, name="kbhub-daemon-says", daemon=True).start()
        for frame in frames(source):
            self.from_client(frame)

    def from_client(self, frame: Frame) -> None:
        """Pass a message of the client on, or answer it if it cannot be read."""
        if frame.refusal is not None:
            self._write(frame.refused)
        if (message := frame.message) is None:
            return
        with self._state:
            method, identifier = message.get("method"), message.get("id")
            if not isinstance(method, str):
                own = self._asked.pop(key_of(identifier), None)
                if own is not None:  # else an answer to a daemon that is gone
                    self._send(json.dumps({**message, "id": own[0]}).encode())
                return
            if identifier is not None and key_of(identifier) in self._pending:
                self._write(refusal("A request with this id is being answered.", identifier).refused)
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
        """End the process once what is being written is, or its reader takes too long."""
        self._writing.acquire(timeout=LAST_WORDS_SECONDS)
        os._exit(0)

    def watch(self, descriptor: int) -> None:
        """End the process when the client has closed its end and reads nothing more, whatever waits for it to read.

        Args:
            descriptor: of what the client writes to.
        """
        look = select.poll()
        look.register(descriptor, 0)
        look.poll()
        while self._writing.acquire(timeout=LAST_WORDS_SECONDS):
            self._writing.release()
            time.sleep(LAST_WORDS_SECONDS)
        os._exit(0)

    def from_daemon(self, line: bytes) -> None:
        """Pass a message of the daemon on."""
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
                asked = self._pending.pop(key_of(identifier), None)
                self._state.notify_all()
                if asked is None:
                    return  # answered before, cancelled, or a question of our own
                self._conversation.answered(asked)
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
                # One that was told to end is not brought back before the client wants something.
                if not self._leaving:
                    self._connected()

    def _finish(self, link: Link | None, upgraded: bool) -> None:
        """Let a daemon that ends answer what must not be asked twice, then hang up."""
        with self._state:
            self._state.wait_for(lambda: all(one.may_repeat for one in self._pending.values()), FINISHING_SECONDS)
            if link:
                self._lost(link)
            if upgraded or any(one.method != LISTEN for one in self._pending.values()):
                self._connected()

    def _lost(self, link: Link) -> None:
        if self._link is not link:
            return
        self._link = None
        link.close()
        for seen in self._asked:
            gone = {"requestId": json.loads(seen), "reason": "The kbhub daemon that asked has ended."}
            self._write(json.dumps({"jsonrpc": "2.0", "method": _CANCELLED, "params": gone}).encode() + b"\n")
        self._asked.clear()

    def _send(self, line: bytes) -> None:
        """Send what needs no answer; if the daemon is gone, so is what it was about."""
        if self._link:
            try:
                self._link.send(line)
            except OSError:
                self._lost(self._link)

    def _ask(self, key: str) -> None:
        """Send a request, unless a new daemon has been asked it just now."""
        one = self._pending.get(key)
        if one is None or one.sent or self._link is None:
            return
        if not self._sent(self._link, key, one):
            self._connected()

    def _sent(self, link: Link, key: str, one: Pending) -> bool:
        try:
            link.send(one.line)
        except OSError:
            self._lost(link)
            return False
        self._pending[key] = one._replace(sent=one.sent + 1)
        return True

    def _connected(self) -> None:
        """See that there is a daemon that knows of this client; answer what waits if there can be none."""
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
            for one in self._pending.values():
                self._write(one.failure())
            self._pending.clear()

    def _told(self, link: Link) -> bool:
        """Tell a new daemon what the one before it knew; says whether it is still there."""
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

    def _asked_again(self, link: Link) -> bool:
        """Ask a new daemon what is not answered; says whether it is still there."""
        self._link = link
        for key, one in list(self._pending.items()):
            if not one.may_repeat:
                del self._pending[key]
                self._write(one.failure())
            elif not self._sent(link, key, one):
                return False
        if self._conversation.shaken:
            for method in CHANGED:
                self._write(json.dumps({"jsonrpc": "2.0", "method": method}).encode() + b"\n")
        return True

    def _called_back(self, message: dict[str, Any]) -> bytes | None:
        """Give the cancellation of a question of the daemon's, by the id that the client knows."""
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


def run(link: Link, reach: Callable[[], Link]) -> NoReturn:
    """Serve the client on standard input and output until it closes them or a signal comes, then end the process.

    Args:
        link: a wire to the daemon.
        reach: opens the next one; raises `OSError` if there can be none.
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
    found = message.get(name)
    return found if isinstance(found, dict) else {}
