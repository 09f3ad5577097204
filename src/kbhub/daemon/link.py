r"""The wire between a client's process and the daemon. Light: every editor window loads it.

One JSON object a line, over a Unix socket that only the user may open, or a loopback port where there are none. The
first line of a client is a greeting with the token; the daemon's first line is its answer. What follows is the MCP
conversation of that client as it would be on standard streams, and lines with a key `kbhub`, which are ours.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

LINK = 1
"""Version of this wire. A daemon refuses a client with another one, which then serves by itself."""

ANSWER_BYTES = 64 * 1024 * 1024
"""Bytes of the longest line that is waited for: a document that is read whole, many times over."""

GREETING_BYTES = 256 * 1024
"""Bytes of the longest greeting: a hundred variables and paths."""

GREETING_SECONDS = 15.0
"""How long either side waits for the other's first line; generous, for a busy machine."""

OURS = "kbhub"
"""Key of the lines that are no MCP."""

PASSED_ON = (
    *("HOME", "USERPROFILE", "CLAUDE_PROJECT_DIR", "OLLAMA_HOST"),
    *("UV_CACHE_DIR", "UV_TOOL_DIR", "PIP_CACHE_DIR", "PIPX_HOME", "npm_config_cache"),
    *("XDG_CACHE_HOME", "XDG_DATA_HOME", "LOCALAPPDATA", "APPDATA"),
)
"""Variables besides `KBHUB_…` that say which workspace and which bases are meant: paths and an address, no secrets."""


class Wanted(NamedTuple):
    """What a client's command line asks for, as it was written."""

    root: str | None = None
    config: str | None = None
    cache_dir: str | None = None
    base: tuple[str, ...] = ()
    structured: bool = False
    protocol: str | None = None
    read_only: bool = False


def passed_on(env: Mapping[str, str]) -> dict[str, str]:
    """Choose the variables that the daemon is told: those of kbhub and those that say which workspace is meant."""
    return {name: value for name, value in env.items() if name.startswith("KBHUB_") or name in PASSED_ON}


class Refused(Exception):
    """The daemon does not serve this client.

    Args:
        reason: one word.
        message: for a person.
        exit_code: that the process should end with, if the client itself is wrong.
    """

    def __init__(self, reason: str, message: str, exit_code: int = 0) -> None:
        self.reason, self.message, self.exit_code = reason, message, exit_code
        super().__init__(message)


class Link:
    """An open wire, on the client's side.

    Args:
        connected: the socket.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._file = connected.makefile("rb")
        self.version = ""
        """Of the daemon's kbhub."""

    def send(self, line: bytes) -> None:
        """Send a line.

        Raises:
            OSError: the daemon is gone. It has not got the line then: what is not ended by a newline is none.
        """
        self._socket.sendall(line if line.endswith(b"\n") else line + b"\n")

    def lines(self) -> Iterator[bytes]:
        """Give what the daemon sends, until it is gone."""
        try:
            while (line := self._file.readline()).endswith(b"\n"):
                yield line
        except (OSError, ValueError):
            return

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Send a line of ours and wait for the answer.

        Raises:
            OSError: the daemon is gone or does not answer in time.
        """
        self._socket.settimeout(GREETING_SECONDS)
        self.send(json.dumps(message).encode())
        answer = self._next()
        self._socket.settimeout(None)
        return answer

    def await_answer(self, request: bytes, identifier: str) -> None:
        """Send a request of MCP and wait for its answer; what comes before that is passed over.

        Raises:
            OSError: the daemon is gone or does not answer in time.
        """
        self._socket.settimeout(GREETING_SECONDS)
        self.send(request)
        while self._next().get("id") != identifier:
            pass
        self._socket.settimeout(None)

    def _next(self) -> dict[str, Any]:
        try:
            answer = json.loads(self._file.readline(ANSWER_BYTES))
        except ValueError:
            raise ConnectionError("the daemon does not answer in a way that can be understood") from None
        return answer if isinstance(answer, dict) else {}

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; wakes who waits for a line."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other side was faster
            pass
        self._file.close()
        self._socket.close()


def dial(where: str | int) -> Link:
    """Open a wire.

    Args:
        where: path of a Unix socket, or a loopback port.

    Raises:
        OSError: nobody listens there.
    """
    if isinstance(where, int):
        return Link(socket.create_connection(("127.0.0.1", where), GREETING_SECONDS))
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.settimeout(GREETING_SECONDS)
        connected.connect(where)
    except OSError:
        connected.close()
        raise
    return Link(connected)


def greet(link: Link, kind: str, token: str, **said: Any) -> dict[str, Any]:
    """Say what is wanted and hear the answer.

    Args:
        link: a wire just opened.
        kind: `hello` to be served, `stop`, or `status`.
        token: from the daemon's folder.
        said: what else there is to say.

    Raises:
        Refused: the daemon will not.
        OSError: it is gone.
    """
    answer = link.ask({OURS: kind, "link": LINK, "token": token, **said})
    if answer.get(OURS) == "refused":
        message, code = str(answer.get("message")), answer.get("exit", 0)
        raise Refused(str(answer.get("reason")), message, code if isinstance(code, int) else 0)
    if answer.get(OURS) != kind:
        raise ConnectionError("what listens there is no daemon of kbhub")
    link.version = str(answer.get("version", ""))
    return answer
