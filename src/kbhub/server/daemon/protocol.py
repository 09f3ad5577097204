"""The daemon's files (a record of itself, locks, a token) and the wire to it. Light: every editor window loads it.

On the wire there is one JSON object per line, over a Unix socket private to the user, or a loopback port where there
are no such sockets. The client's first line is a greeting with the token, the daemon's first line the answer. Then
follows the MCP conversation as on standard streams, plus lines of our own with a key `kbhub`.
"""

from __future__ import annotations

import json
import os
import random
import socket
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from io import FileIO
from pathlib import Path
from typing import Any, Self

from kbhub.values import struct
from kbhub.workspace.files import FileStates, own_folder, private_directory, user_home, write_atomically

TOKEN_BYTES = 32
"""Random bytes of the token: 256 bits cannot be guessed."""

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def try_lock(path: Path) -> FileIO | None:
    """Take a lock without waiting; None if it is held. The file, which is never removed, holds it while it is open."""
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", 0)
    try:
        if sys.platform == "win32":
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def is_held(path: Path) -> bool:
    """Return whether a lock is held."""
    if not os.path.exists(path):  # noqa: PTH110 - Path.exists raises where it may not look
        return False
    if lock := try_lock(path):
        lock.close()
    return lock is None


class DaemonFolder:
    """The daemon's folder in a data directory, accessible to the current user only; each has its own daemon."""

    def __init__(self, data: Path) -> None:
        self.path = data / "daemon"
        self.record = self.path / "daemon.json"
        self.lock = self.path / "daemon.lock"
        """Held by the daemon for its lifetime."""
        self.starting = self.path / "starting.lock"
        """Held while starting a daemon."""
        self.token = self.path / "token"
        self.notes = self.path / "notes"
        """What daemons answered first, one file per workspace; see `notes`."""
        self.log = self.path / "daemon.log"
        self.crash = self.path / "crash.log"
        """Output of a daemon that did not go to its log, such as a crash at startup."""

    def make(self) -> None:
        """Create the folder and restrict it to the user."""
        private_directory(self.path)
        if os.name != "nt" and stat.S_IMODE(self.path.stat().st_mode) & 0o077:
            self.path.chmod(0o700)


@struct
class DaemonRecord:
    """A daemon's record of itself."""

    pid: int
    mark: str | None
    """Distinguishes the process from later ones with the same id; None if the system does not tell."""
    version: str
    link: str | int
    """Path of its Unix socket, or its loopback port."""
    http: str | None
    start: dict[str, Any] | None
    """Its start parameters, to start a successor in the same way; None if it runs in a terminal."""
    prefix: str = sys.prefix
    """Its installation, which decides on extras and extensions."""


def read_record(folder: DaemonFolder) -> DaemonRecord | None:
    """Return the record of the last daemon, which may be dead, or None if it is missing or invalid."""
    try:
        stored: dict[str, Any] = json.loads(folder.record.read_bytes())
        record = DaemonRecord(**stored)
    except (OSError, ValueError, TypeError):
        return None
    sound = isinstance(record.pid, int) and isinstance(record.link, str | int) and isinstance(record.version, str)
    return record if sound else None


def running(folder: DaemonFolder) -> DaemonRecord | None:
    """Return the record of the running daemon, or None; without a held lock, the recorded daemon is dead."""
    return read_record(folder) if is_held(folder.lock) else None


def read_token(folder: DaemonFolder) -> str | None:
    """Return the token, or None if it is missing or was accessible to others."""
    try:
        descriptor = os.open(folder.token, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if os.name != "nt" and (facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o077):
            return None
        token = file.read(4 * TOKEN_BYTES).decode("ascii", "replace").strip()
    return token if len(token) == 2 * TOKEN_BYTES else None


START_FIELD = 19
"""Field of `/proc/PID/stat`, counted after the name in brackets: start in clock ticks since boot (proc(5): 22)."""

PS_SECONDS = 2.0
"""Timeout of `ps`, which reads a kernel table."""


def process_mark(pid: int) -> str | None:
    """Return opaque text that tells a process from later ones with its id: its start time; None if unknown."""
    if sys.platform == "win32":
        return None
    if Path("/proc/self/stat").exists():
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            return f"{boot} {int(fields[START_FIELD])}"
        except (OSError, ValueError, IndexError):
            return None
    import subprocess  # noqa: PLC0415 - 2 MB, which windows do without

    command = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
    try:
        ps = subprocess.run(command, capture_output=True, text=True, timeout=PS_SECONDS, check=False)  # noqa: S603 - an int
    except (OSError, subprocess.SubprocessError):
        return None
    return ps.stdout.strip() or None


LINK = 1
"""Version of this wire. A daemon refuses a client with another version, which then serves by itself."""

ANSWER_BYTES = 64 * 1024 * 1024

GREETING_BYTES = 256 * 1024
"""Limit of a greeting: a hundred variables and paths."""

GREETING_SECONDS = 15.0
"""Timeout for the other side's first line; generous, for a busy machine."""

MOST_CHARACTERS = 4096
"""Limit of a variable that is none of kbhub's."""

PROTOCOLS = ("auto", "legacy")
"""`auto` serves the era that the client opens with, `legacy` only the one with a handshake (up to 2025-11-25)."""

OURS = "kbhub"
"""Key of lines that are not MCP."""

PASSED_ON = (
    *("HOME", "USERPROFILE", "CLAUDE_PROJECT_DIR", "OLLAMA_HOST"),
    *("UV_CACHE_DIR", "UV_TOOL_DIR", "PIP_CACHE_DIR", "PIPX_HOME", "npm_config_cache"),
    *("XDG_CACHE_HOME", "XDG_DATA_HOME", "LOCALAPPDATA", "APPDATA"),
)
"""Variables besides `KBHUB_…` that determine the workspace and bases: paths and an address, no secrets."""

BASES = "KBHUB_BASES"


@struct
class ConnectOptions:
    """The options of `kbhub serve --connect`, as written; `proxy.wanted` parses them by these fields."""

    root: str | None = None
    config: str | None = None
    cache_dir: str | None = None
    base: tuple[str, ...] = ()
    structured: bool = False
    protocol: str | None = None
    read_only: bool = False

    def absolute(self, cwd: str) -> Self:
        """Return them independent of the process that reads them."""
        config, cache_dir = _absolute(self.config, cwd), _absolute(self.cache_dir, cwd)
        return replace(self, config=config, cache_dir=cache_dir, base=tuple(_absolute_bases(self.base, cwd)))


def passed_on(env: Mapping[str, str]) -> dict[str, str]:
    """Select the variables of kbhub and those that determine the workspace."""
    return {name: value for name, value in env.items() if name.startswith("KBHUB_") or name in PASSED_ON}


def other_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Select the rest, which may be what a setting names: the shortest, as many as half a greeting holds."""
    passed, rest, left = passed_on(env), {}, GREETING_BYTES // 2
    for name, value in sorted(env.items(), key=lambda item: len(item[1])):
        left -= len(json.dumps([name, value]))
        if left < 0 or len(value) >= MOST_CHARACTERS:
            break
        if name not in passed and (name + value).encode(errors="ignore").decode() == name + value:
            rest[name] = value
    return rest


def greeting(wanted: ConnectOptions, env: Mapping[str, str], cwd: str) -> dict[str, Any]:
    """Describe the client's workspace independently of the process that reads it."""
    variables = passed_on(env)
    if "KBHUB_CONFIG" in variables:
        variables["KBHUB_CONFIG"] = _absolute(variables["KBHUB_CONFIG"], cwd) or ""
    # Resolved here: where they follow from the system, that is from the variables of the process that asks.
    variables |= {"KBHUB_CACHE_DIR": str(own_folder("cache", env)), "KBHUB_DATA_DIR": str(own_folder("data", env))}
    if BASES in variables:
        variables[BASES] = os.pathsep.join(_absolute_bases(variables[BASES].split(os.pathsep), cwd))
    return {"cwd": cwd, "home": str(user_home(env)), "env": variables, "wanted": asdict(wanted.absolute(cwd))}


def _absolute(path: str | None, cwd: str) -> str | None:
    return os.path.join(cwd, path) if path and not path.startswith("~") else path  # noqa: PTH118


def _absolute_bases(entries: Sequence[str], cwd: str) -> Iterator[str]:
    for name, mark, path in (entry.partition("=") for entry in entries):
        yield f"{name}{mark}{_absolute(path, cwd) or ''}"


FIRST = ("initialize", "server/discover")
"""Requests that a client waits for when it starts, and whose answers depend on nothing but files and variables."""

MOST_NOTES, MOST_NOTED = 100, 8
"""Workspaces with a note, and clients of each."""


def note_name(version: str, hello: Mapping[str, Any]) -> str:
    """Return the name of the note on a workspace; a hash, since variables may be secrets."""
    text = json.dumps([version, sys.prefix, *(hello[key] for key in ("cwd", "home", "env", "wanted"))], sort_keys=True)
    # It hashes with SHA-512; hashlib would load OpenSSL, 4 MB in each window.
    return f"{random.Random(text).getrandbits(128):032x}.json"  # noqa: S311


def read_note(path: Path, seen: Sequence[Any] | None = None) -> list[list[Any]]:
    """Return the noted answers (method, params, result) that hold: those for `seen`, or for the files as they are."""
    try:
        noted, told = json.loads(path.read_bytes())
        states = {(name, entries): tuple(state) for name, entries, state in noted}
        holds = noted == seen if seen else FileStates(states).unchanged()
        return list(told) if holds else []
    except (OSError, ValueError, TypeError):
        return []


def write_note(path: Path, seen: Sequence[Any], method: str, params: Any, result: Any) -> None:
    """Note an answer and the state of the files that it depends on."""
    told = read_note(path, seen)
    if [method, params, result] in told:
        return
    told = [*(one for one in told if one[:2] != [method, params]), [method, params, result]]
    private_directory(path.parent)
    write_atomically(path, json.dumps([seen, told[-MOST_NOTED:]]))
    for old in sorted(path.parent.iterdir(), key=lambda one: -one.stat().st_mtime)[MOST_NOTES:]:
        old.unlink(missing_ok=True)


class Refused(Exception):
    """Raised when the daemon refuses to serve; `exit_code` is set if the client itself is wrong."""

    def __init__(self, reason: str, message: str, exit_code: int = 0) -> None:
        self.reason, self.message, self.exit_code = reason, message, exit_code
        super().__init__(message)


class DaemonLink:
    """The client's side of an open wire."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._file = connected.makefile("rb")
        self.seconds = GREETING_SECONDS
        self.note: tuple[str, list[Any]] | None = None
        """Name of the note on this workspace, and the state of the files that its first answers depend on."""

    def send(self, line: bytes) -> None:
        """Send a line; on `OSError` the daemon, which ignores lines without a newline, has not received it."""
        self._socket.sendall(line if line.endswith(b"\n") else line + b"\n")

    def lines(self) -> Iterator[bytes]:
        """Yield the daemon's lines until it is gone."""
        with suppress(OSError, ValueError):
            while (line := self._file.readline()).endswith(b"\n"):
                yield line

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Send a message and wait for the answer, skipping other lines; `OSError` if it does not come in time."""
        self._socket.settimeout(GREETING_SECONDS)
        self.send(json.dumps(message).encode())
        self._socket.settimeout(self.seconds)
        answer: Any = None
        while not isinstance(answer, dict) or answer.get("id") != message.get("id"):
            try:
                answer = json.loads(self._file.readline(ANSWER_BYTES))
            except ValueError:
                raise ConnectionError("the daemon's answer is malformed") from None
        self._socket.settimeout(None)
        return answer

    def close(self) -> None:
        """Disconnect; wakes threads that wait for a line."""
        with suppress(OSError):  # the other side has already disconnected
            self._socket.shutdown(socket.SHUT_RDWR)
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
    """Send the greeting (`hello` to be served) on a new wire and return the answer, or raise `Refused`."""
    answer = link.ask({OURS: kind, "link": LINK, "token": token, **said})
    if answer.get(OURS) == "refused":
        message, code = str(answer.get("message")), answer.get("exit", 0)
        raise Refused(str(answer.get("reason")), message, code if isinstance(code, int) else 0)
    if answer.get(OURS) != kind:
        raise ConnectionError("whatever listens there is not a kbhub daemon")
    return answer
