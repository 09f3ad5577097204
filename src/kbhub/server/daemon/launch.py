"""Find the daemon, start it once for all concurrent windows, stop it, and have it answer hooks or serve an app.

Light: every editor window loads it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import fields
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kbhub import __version__
from kbhub.server.daemon import protocol
from kbhub.values import Value, struct
from kbhub.workspace.files import own_folder

if TYPE_CHECKING:
    from subprocess import Popen

T = TypeVar("T")

START_SECONDS = 30.0
"""How long a client waits for a daemon to start; half a second is usual, and MCP clients wait this long."""

AGAIN_SECONDS = 10.0
"""Time after which a daemon that was started and is not there is started again by those who do not wait for it."""

POLL_SECONDS = 0.01
"""Interval of checks for the daemon, each of a file and a socket."""

LEAVE_SECONDS = 20.0
"""Time after which an ending daemon counts as stuck; it gives its calls five seconds."""

KEPT = (
    *("PATH", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "COMSPEC"),
    *("PATHEXT", "WINDIR", "USERNAME", "PROGRAMDATA", "PYTHONHOME", "PYTHONUTF8", "PYTHONWARNINGS"),
    *("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "VIRTUAL_ENV"),
    *("HF_HOME", "HF_HUB_OFFLINE", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
)
"""Variables for a new daemon, besides those that clients pass on. It must not retain any window's secrets."""

STOP_SECONDS = 10.0
"""Time for a daemon to end on request: it gives its calls five seconds."""

SIGNAL_SECONDS = 5.0


class DaemonUnavailable(Exception):
    """Raised when there is no daemon and none can be started; the text says why."""


def reach(
    folder: protocol.DaemonFolder, hello: Mapping[str, Any], start: Mapping[str, Any], env: Mapping[str, str]
) -> protocol.DaemonLink:
    """Connect to the daemon and greet it; start it if necessary, replace it if it is older than this kbhub."""
    return _started(folder, start, env, lambda starting: greeted(folder, hello, starting=starting))


def launch(folder: protocol.DaemonFolder, start: Mapping[str, Any], env: Mapping[str, str]) -> protocol.DaemonRecord:
    """Start a daemon in a folder where none is running, and wait until it is ready."""

    def ready(_: bool) -> protocol.DaemonRecord | None:
        record = protocol.running(folder)
        return record if record and status(folder, record) else None

    return _started(folder, start, env, ready)


def begin(folder: protocol.DaemonFolder, start: Mapping[str, Any], env: Mapping[str, str]) -> None:
    """Start a daemon in a folder where none is running, without waiting, unless one was just started."""
    folder.make()
    try:
        lately = time.time() - folder.crash.stat().st_mtime < AGAIN_SECONDS
    except FileNotFoundError:
        lately = False
    if not lately and not protocol.is_held(folder.starting):
        _spawn(folder, start, env)


def newer(one: str, other: str) -> bool:
    """Return whether a version such as `1.12.0` is newer than another; False if they cannot be compared."""

    def parts(version: str) -> list[int]:
        return [int(part) for part in version.split(".")[:3] if part.isdigit()]

    return parts(one) > parts(other)


def _started(
    folder: protocol.DaemonFolder, start: Mapping[str, Any], env: Mapping[str, str], there: Callable[[bool], T | None]
) -> T:
    """Poll until something is `there`, which is told whether this process may start it; start a daemon if need be."""
    end = time.monotonic() + START_SECONDS
    lock: FileIO | None = None
    child: Popen[bytes] | None = None
    try:
        folder.make()
        while (value := there(lock is not None)) is None:
            if time.monotonic() > end:
                raise DaemonUnavailable(f"it was not ready within {START_SECONDS:.0f} s; see {folder.log}")
            if lock is None:
                # Check again with the lock: another window may have been faster.
                if lock := protocol.try_lock(folder.starting):
                    continue
            elif child is None:
                child = _spawn(folder, start, env)
            elif (code := child.poll()) is not None:
                if code > 0:
                    raise DaemonUnavailable(f"it exited immediately: {last_words(folder) or folder.log}")
                child = None  # told to end, or killed
            time.sleep(POLL_SECONDS)
        return value
    except OSError as error:
        raise DaemonUnavailable(str(error)) from error
    finally:
        if lock:
            lock.close()


def greeted(
    folder: protocol.DaemonFolder, hello: Mapping[str, Any], *, starting: bool = False
) -> protocol.DaemonLink | None:
    """Open a wire to a running daemon; None if one has to be started.

    An older one is asked to end if this process is `starting` another: else its windows could be faster to start it.
    """
    record = protocol.read_record(folder)
    token = protocol.read_token(folder)
    if record is None or token is None or not protocol.is_held(folder.lock):
        return None
    if newer(__version__, record.version):
        if record.start is None:
            raise protocol.Refused(
                "version", f"a daemon of kbhub {record.version} is running in a terminal; stop it there"
            )
        if starting:
            _told_to_end(folder, record, "upgrade")
            _gone(folder, LEAVE_SECONDS)
        return None
    if record.prefix != sys.prefix:
        raise protocol.Refused("installation", f"a daemon of the installation in {record.prefix} is running")
    try:
        link = protocol.dial(record.link)
    except OSError:
        return None
    try:
        link.note = protocol.greet(link, "hello", token, version=__version__, **hello).get("note")
        return link
    except TimeoutError:
        link.close()
        raise protocol.Refused("hangs", f"the daemon (process {record.pid}) does not answer") from None
    except (OSError, protocol.Refused) as error:
        link.close()
        if isinstance(error, protocol.Refused) and error.reason != "leaving":
            raise
        return None  # it is ending


def _told_to_end(folder: protocol.DaemonFolder, record: protocol.DaemonRecord, why: str) -> bool:
    """Ask the daemon to end; return whether it agreed, as one has that is ending."""
    try:
        _told(folder, record, "stop", why=why)
    except protocol.Refused as refusal:
        return refusal.reason == "leaving"
    except OSError:
        return False
    return True


def status(folder: protocol.DaemonFolder, record: protocol.DaemonRecord) -> dict[str, Any] | None:
    """Return what a daemon says of itself; None if it does not answer."""
    with suppress(OSError, protocol.Refused):
        return _told(folder, record, "status")
    return None


def _told(folder: protocol.DaemonFolder, record: protocol.DaemonRecord, kind: str, **said: Any) -> dict[str, Any]:
    with closing(protocol.dial(record.link)) as link:
        return protocol.greet(link, kind, protocol.read_token(folder) or "", **said)


def _gone(folder: protocol.DaemonFolder, seconds: float) -> bool:
    """Wait until the daemon has ended; return False if it takes longer than some seconds."""
    end = time.monotonic() + seconds
    while held := protocol.is_held(folder.lock):
        if time.monotonic() > end:
            break
        time.sleep(POLL_SECONDS)
    return not held


def _spawn(folder: protocol.DaemonFolder, start: Mapping[str, Any], env: Mapping[str, str]) -> Popen[bytes]:
    """Start the daemon as the last one, in a session of its own, so that it outlives its window."""
    import subprocess  # noqa: PLC0415 - 2 MB, which windows that find a daemon do without

    died = protocol.read_record(folder)
    command = [sys.executable, "-P", "-m", "kbhub.server.daemon", json.dumps(dict((died and died.start) or start))]
    options: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        options = {"creationflags": subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP}
    plain = {name: value for name, value in env.items() if name in KEPT or name.startswith("LC_")}
    kept, code = protocol.passed_on(env) | plain, str(Path(__file__).parents[3])
    if code in env.get("PYTHONPATH", "").split(os.pathsep):  # another folder is a matter of one window's project
        kept["PYTHONPATH"] = code
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    with os.fdopen(os.open(folder.crash, flags, 0o600), "wb") as crash:
        options |= {"stdin": subprocess.DEVNULL, "stdout": crash, "stderr": crash, "cwd": folder.path}
        return subprocess.Popen(command, env=kept, **options)  # noqa: S603 - our own program


def own_server(wanted: protocol.ConnectOptions) -> tuple[protocol.DaemonLink, Popen[bytes]]:
    """Start a server for this window alone, on a wire like the daemon's; `OSError` if that is impossible."""
    import subprocess  # noqa: PLC0415 - as above

    command = [sys.executable, "-P", "-m", "kbhub", "serve"]
    for option in fields(protocol.ConnectOptions):
        value = getattr(wanted, option.name)
        name = f"--{option.name.replace('_', '-')}"
        each = value if isinstance(value, tuple) else [value] if value else []
        command += [word for one in each for word in ([name] if one is True else [name, one])]
    here, there = socket.socketpair()
    with there:
        return protocol.DaemonLink(here), subprocess.Popen(command, stdin=there.fileno(), stdout=there.fileno())  # noqa: S603 - our own program


def last_words(folder: protocol.DaemonFolder) -> str:
    """Return the last line of the last daemon that is not in its log; empty if none."""
    try:
        lines = folder.crash.read_text("utf-8", "replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else ""


class StopResult(Value):
    """What `kbhub admin stop` did."""

    running: bool
    """Whether a daemon was running."""
    stopped: bool
    """Whether none is running now."""
    pid: int | None = None
    """Process id of the daemon."""
    how: str
    """How it was stopped: `asked`, `signal`, `killed`, or `none` if nothing was done."""
    message: str
    """The outcome as a sentence."""


def stop(folder: protocol.DaemonFolder) -> StopResult:
    """End the daemon: by request or, after some seconds, by signal if its process is provably the recorded one."""
    if not protocol.is_held(folder.lock):
        return StopResult(running=False, stopped=True, how="none", message="No daemon is running.")
    record = protocol.running(folder)
    if record is None:
        message = (
            f"A daemon is starting, or holds {folder.lock} without having recorded its process. Try again in a moment."
        )
        return StopResult(running=True, stopped=False, how="none", message=message)
    how, stopped, process = "none", False, f"process {record.pid}"
    if _told_to_end(folder, record, "user") and _gone(folder, STOP_SECONDS):
        how, stopped, message = "asked", True, f"Stopped the daemon ({process})."
    elif record.mark is None or protocol.process_mark(record.pid) != record.mark:
        message = f"The daemon does not answer, and {process} is not provably the daemon. Stop it by other means."
    else:
        signals = {"killed": signal.SIGTERM}
        if sys.platform != "win32":
            signals = {"signal": signal.SIGTERM, "killed": signal.SIGKILL}
        for how, number in signals.items():  # noqa: B007 - the last one is told
            with suppress(OSError):
                os.kill(record.pid, number)
            if stopped := _gone(folder, SIGNAL_SECONDS):
                break
        end = "did not answer and was stopped by a signal" if stopped else "does not stop"
        message = f"The daemon ({process}) {end}."
    return StopResult(running=True, stopped=stopped, pid=record.pid, how=how, message=message)


@struct
class Http(protocol.ConnectOptions):
    """The HTTP endpoint, and the workspace of requests that name none."""

    port: int | None = None
    """None for the port of the settings, 0 for a free one."""
    socket: str | None = None
    """Path of a Unix socket, instead of a port."""
    cwd: str = "/"


@struct
class Start:
    """The start parameters of a daemon."""

    ends: bool = False
    """Whether it ends by itself after a long time without clients."""
    detached: bool = True
    """Whether it runs without a terminal."""
    http: Http | None = None


def start_of(stored: Mapping[str, Any]) -> Start:
    """Return the start parameters that a command line or a daemon's record has."""
    http = stored.get("http")
    return Start(**{**stored, "http": http and Http(**{**http, "base": tuple(http.get("base", ()))})})


def _of_this_version(env: Mapping[str, str]) -> tuple[protocol.DaemonRecord, str] | None:
    """Return the running daemon and its token, if it is of this version of kbhub."""
    folder = protocol.DaemonFolder(own_folder("data", env))
    record, token = protocol.running(folder), protocol.read_token(folder)
    return (record, token) if record and token and record.version == __version__ else None


def serve_by_daemon(
    app: str, asked: Any, wanted: protocol.ConnectOptions, env: Mapping[str, str], told: Callable[[Any], object]
) -> bool:
    """Have the running daemon serve an app until it ends or this process is interrupted; return whether it did.

    It does not if it is missing, of another version, or refuses. `told` is called with each value that the app sends.
    """
    if (found := _of_this_version(env)) is None:
        return False
    record, token = found
    hello = protocol.greeting(wanted, env, os.getcwd())  # noqa: PTH109 - a string is needed
    hello |= {"also": protocol.other_variables(env), "app": app, "asked": asked}
    try:
        with closing(protocol.dial(record.link)) as link:
            said, more = protocol.greet(link, "app", token, **hello), map(json.loads, link.lines())
            while said.get(protocol.OURS) == "app":  # else it is leaving
                told(said["told"])
                said = next(more, {})
    except (OSError, protocol.Refused):
        return False
    return True


HOOK_SECONDS = 0.4
"""Time for an answer, after which there is none: issue "Knowledge that arrives by itself"."""

HANDED_OVER, HANDED_OVER_SECONDS = ("compact", "stop"), 0.001
"""Events without an answer, which is hardly waited for: the log is read while the client goes on."""

END = "session-end"
END_SECONDS = 20.0
"""The event for which nobody waits, and the time that it may take: the session's whole log is read."""

INPUT_BYTES = 32 << 20
"""Bytes read of standard input: a tool that writes a file is given all of it."""


def wanted_hook(arguments: Sequence[str]) -> tuple[str, str] | None:
    """Return the event and the client of a command line; None if it is not plainly `hook EVENT --client NAME`."""
    if len(arguments) != 4 or arguments[2] != "--client" or arguments[1].startswith("-"):
        return None
    return arguments[1], arguments[3]


def run_hook(event: str, client: str, env: Mapping[str, str]) -> int:
    """Answer an event on standard input; silent, with exit code 0, if that fails, takes too long or is unknown."""
    limit = END_SECONDS if event == END else HOOK_SECONDS
    timer = threading.Timer(limit, os._exit, (0,))
    timer.daemon = True
    timer.start()
    try:
        text = _answered(event, client, sys.stdin.buffer.read(INPUT_BYTES), env, limit)
    except Exception:  # noqa: BLE001 - whatever it is, the client must go on as if there were no hook
        text = ""
    timer.cancel()
    with suppress(OSError):  # the client is gone
        sys.stdout.write(text)
        sys.stdout.flush()
    return 0


def _answered(event: str, client: str, data: bytes, env: Mapping[str, str], limit: float) -> str:
    if len(data) < protocol.GREETING_BYTES // 2 and (found := _of_this_version(env)):
        record, token = found
        hello = protocol.greeting(protocol.ConnectOptions(), env, os.getcwd())  # noqa: PTH109 - a string is needed
        try:
            with closing(protocol.dial(record.link)) as link:
                link.seconds = HANDED_OVER_SECONDS if event in HANDED_OVER else limit
                told = {"event": event, "client": client, "data": data.decode("utf-8", "replace")}
                return str(protocol.greet(link, "hook", token, **hello, hook=told)["output"])
        except (OSError, protocol.Refused, KeyError):
            return ""
    if event in HANDED_OVER and hasattr(os, "fork"):
        if os.fork():
            return ""
        try:  # in this process, which holds nothing that a client waits for
            os.setsid()
            signal.alarm(round(END_SECONDS))
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nothing, stream)
            _by_itself(event, client, data, env)
        finally:
            os._exit(0)
    return _by_itself(event, client, data, env)


def _by_itself(event: str, client: str, data: bytes, env: Mapping[str, str]) -> str:
    folder = protocol.DaemonFolder(own_folder("data", env))
    if event != END and protocol.running(folder) is None:
        begin(folder, {"ends": True}, env)
    # All of a hub: on a slow machine the time is over before it is loaded, so the daemon comes first.
    from kbhub.hooks.delivery import Hooking, HookMessage  # noqa: PLC0415

    return Hooking().answered(HookMessage(event, client, data), dict(env))
