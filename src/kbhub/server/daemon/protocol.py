r"""The wire between a client's process and the daemon. Light: every editor window loads it.

One JSON object per line, over a Unix socket private to the user, or a loopback port where there are no such sockets.
The client's first line is a greeting with the token, the daemon's first line the answer. Then follows the MCP
conversation as on standard streams, plus lines of our own with a key `kbhub`.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kbhub.workspace.files import user_home

LINK = 1
"""Version of this wire. A daemon refuses a client with another version, which then serves by itself."""

ANSWER_BYTES = 64 * 1024 * 1024
"""Limit of a line: a whole document, many times over."""

GREETING_BYTES = 256 * 1024
"""Limit of a greeting: a hundred variables and paths."""

GREETING_SECONDS = 15.0
"""Timeout for the other side's first line; generous, for a busy machine."""

OURS = "kbhub"
"""Key of lines that are not MCP."""

PASSED_ON = (
    *("HOME", "USERPROFILE", "CLAUDE_PROJECT_DIR", "OLLAMA_HOST"),
    *("UV_CACHE_DIR", "UV_TOOL_DIR", "PIP_CACHE_DIR", "PIPX_HOME", "npm_config_cache"),
    *("XDG_CACHE_HOME", "XDG_DATA_HOME", "LOCALAPPDATA", "APPDATA"),
)
"""Variables besides `KBHUB_…` that determine the workspace and bases: paths and an address, no secrets."""


PATHS = ("KBHUB_CONFIG", "KBHUB_CACHE_DIR", "KBHUB_DATA_DIR")
"""Variables with paths relative to the client's working directory."""

BASES = "KBHUB_BASES"


class ConnectOptions(NamedTuple):
    """The command line of a client, as written."""

    root: str | None = None
    config: str | None = None
    cache_dir: str | None = None
    base: tuple[str, ...] = ()
    structured: bool = False
    protocol: str | None = None
    read_only: bool = False


def passed_on(env: Mapping[str, str]) -> dict[str, str]:
    """Select the variables passed to the daemon: those of kbhub and those that determine the workspace."""
    return {name: value for name, value in env.items() if name.startswith("KBHUB_") or name in PASSED_ON}


def greeting(wanted: ConnectOptions, env: Mapping[str, str], cwd: str) -> dict[str, Any]:
    """Describe the client's workspace independently of the process that reads it."""

    def absolute(path: str | None) -> str | None:
        return os.path.join(cwd, path) if path and not path.startswith("~") else path  # noqa: PTH118

    def based(entry: str) -> str:
        name, mark, path = entry.partition("=")
        return f"{name}{mark}{absolute(path) or ''}"

    variables = passed_on(env)
    variables |= {name: absolute(variables[name]) or "" for name in PATHS if name in variables}
    if BASES in variables:
        variables[BASES] = os.pathsep.join(map(based, variables[BASES].split(os.pathsep)))
    absolute_wanted = wanted._replace(
        config=absolute(wanted.config), cache_dir=absolute(wanted.cache_dir), base=tuple(map(based, wanted.base))
    )
    return {"cwd": cwd, "home": str(user_home(env)), "env": variables, "wanted": absolute_wanted._asdict()}


class Refused(Exception):
    """Raised when the daemon refuses to serve this client.

    `reason` is one word, `message` is for people. `exit_code` is set if the client itself is wrong.
    """

    def __init__(self, reason: str, message: str, exit_code: int = 0) -> None:
        self.reason, self.message, self.exit_code = reason, message, exit_code
        super().__init__(message)


class DaemonLink:
    """The client's side of an open wire."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._file = connected.makefile("rb")
        self.seconds = GREETING_SECONDS
        self.version = ""
        """Version of the daemon's kbhub."""

    def send(self, line: bytes) -> None:
        """Send a line; on `OSError` the daemon is gone and has not received it.

        It ignores lines without a newline.
        """
        self._socket.sendall(line if line.endswith(b"\n") else line + b"\n")

    def limit(self, seconds: float) -> None:
        """Set the timeout in seconds for the next answer."""
        self.seconds = seconds

    def lines(self) -> Iterator[bytes]:
        """Yield the daemon's lines until it is gone."""
        try:
            while (line := self._file.readline()).endswith(b"\n"):
                yield line
        except (OSError, ValueError):
            return

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Send a line of our own and wait for the answer; `OSError` if it does not come in time."""
        self._socket.settimeout(self.seconds)
        self.send(json.dumps(message).encode())
        answer = self._next()
        self._socket.settimeout(None)
        return answer

    def await_answer(self, request: bytes, identifier: str) -> None:
        """Send an MCP request and wait for its answer, skipping other lines; `OSError` if it does not come in time."""
        self._socket.settimeout(GREETING_SECONDS)
        self.send(request)
        while self._next().get("id") != identifier:
            pass
        self._socket.settimeout(None)

    def _next(self) -> dict[str, Any]:
        try:
            answer = json.loads(self._file.readline(ANSWER_BYTES))
        except ValueError:
            raise ConnectionError("the daemon's answer is malformed") from None
        return answer if isinstance(answer, dict) else {}

    def __enter__(self) -> DaemonLink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect; wakes threads that wait for a line."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other side has already disconnected
            pass
        self._file.close()
        self._socket.close()


def dial(where: str | int) -> DaemonLink:
    """Open a wire to a Unix socket's path or a loopback port."""
    if isinstance(where, int):
        return DaemonLink(socket.create_connection(("127.0.0.1", where), GREETING_SECONDS))
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.settimeout(GREETING_SECONDS)
        connected.connect(where)
    except OSError:
        connected.close()
        raise
    return DaemonLink(connected)


def greet(link: DaemonLink, kind: str, token: str, **said: Any) -> dict[str, Any]:
    """Send the greeting on a new wire and return the answer; raise `Refused` if the daemon refuses.

    `kind` is `hello` to be served, `stop`, or `status`. `said` are further members of the greeting.
    """
    answer = link.ask({OURS: kind, "link": LINK, "token": token, **said})
    if answer.get(OURS) == "refused":
        message, code = str(answer.get("message")), answer.get("exit", 0)
        raise Refused(str(answer.get("reason")), message, code if isinstance(code, int) else 0)
    if answer.get(OURS) != kind:
        raise ConnectionError("whatever listens there is not a kbhub daemon")
    link.version = str(answer.get("version", ""))
    return answer
