"""Serve on the standard streams, through the shared daemon or over HTTP: serve, stop."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub import __version__
from kbhub.cli.app import complain
from kbhub.cli.options import Places, Reply, command, hub_options
from kbhub.errors import DaemonFault, UsageError
from kbhub.reading.reports import Finding, bad, ok
from kbhub.server.daemon.launch import DaemonUnavailable, Http, Start, last_words, launch, newer, status
from kbhub.server.daemon.launch import stop as stop_daemon
from kbhub.server.daemon.protocol import ConnectOptions, DaemonFolder, is_held, running, try_lock
from kbhub.server.daemon.proxy import connect
from kbhub.values import Value, counted
from kbhub.workspace.files import own_folder

MOST_PORT = 65535


@Parameter(name="*")
class Ways(Value):
    """What is served, and how it is reached other than on standard input and output."""

    structured: bool = False
    """Add output schemas and structured content for programs; models only need the text."""

    protocol: Literal["auto", "legacy"] | None = None
    """Protocol versions to serve: all, or only those of 2025 (`initialize`). Also set by KBHUB_PROTOCOL."""

    read_only: bool = False
    """Offer no tool that writes memories or documents. Also set by KBHUB_READ_ONLY=true."""

    connect: bool = False
    """Serve through the shared daemon, starting it if necessary."""

    http: bool = False
    """Serve MCP over HTTP, on this machine only, with a token."""

    daemon: bool = False
    """Run in the background; `kbhub admin stop` stops it."""

    port: Annotated[int | None, Parameter(metavar="N", validator=Number(gte=0, lte=MOST_PORT))] = None
    """Port for --http; 0 picks a free one (28722 unless set in the config)."""

    socket: Annotated[Path | None, Parameter(metavar="PATH")] = None
    """Unix socket for --http instead of a port; needs no token."""


def serve(*, ways: Ways = Ways(), places: Places = Places()) -> int:  # noqa: B008 - frozen
    """Run the MCP server on standard input and output.

    With --connect, one process serves all windows. With --http, the server listens on a local port.

    Example, in the agent's list of servers: "kbhub": {"command": "kbhub", "args": ["serve", "--connect"]}

    Args:
        ways: What is served, and how.
        places: Options of every command.
    """
    given = {name: getattr(ways, name) for name in ("http", "daemon", "port", "socket")}
    others = [f"--{name}" for name, value in given.items() if value is not None and value is not False]
    if ways.connect and others:
        raise UsageError(f"--connect cannot be used with {others[0]}.")
    if ways.connect:
        wanted = connect_options(places, structured=ways.structured, read_only=ways.read_only, protocol=ways.protocol)
        done = connect(wanted, os.environ)
        if done is not None:
            return done
    elif others:
        return _be_daemon(ways, places)
    # The MCP SDK takes half a second to import; no other command needs it.
    from kbhub.server.stdio import serve as serve_stdio  # noqa: PLC0415

    if sys.stdin.isatty():
        complain("Waiting for an MCP client on standard input. Press Ctrl-D to quit.")
    options = replace(hub_options(places, serve=True), read_only=ways.read_only)
    return serve_stdio(options, structured=ways.structured, protocol=ways.protocol)


@command()
def stop() -> Reply:
    """Stop the shared daemon.

    Windows that use the daemon keep working: their next request starts it again. Only a process that is proven to be
    the daemon is stopped.

    Example: kbhub admin stop
    """
    done = stop_daemon(DaemonFolder(own_folder("data", os.environ)))
    return Reply(done, done.message) if done.stopped else Reply(done, notes=(done.message,), code=1)


def daemon_finding(folder: DaemonFolder) -> Finding:
    """Say which process the windows share, or why they share none."""
    record, failed = running(folder), last_words(folder)
    if record is None and failed and not is_held(folder.lock):
        message = f"None is running. The last one left: {failed}. If it fails again, windows serve themselves."
        return bad("daemon", message, f"See {folder.log}. `kbhub setup --own-process` does without it.")
    if record is None:
        return ok("daemon", "None is running. The first window that `kbhub setup` registered starts one.")
    process = f"Process {record.pid}, version {record.version},"
    said = status(folder, record)
    if said is None:
        return bad("daemon", f"{process} does not answer: new windows serve themselves.", "Run `kbhub admin stop`.")
    if newer(__version__, record.version) and record.start is not None:
        return ok("daemon", f"{process} is older than this kbhub. The next window replaces it; no window is lost.")
    if record.prefix != sys.prefix:
        message = f"{process} is that of {record.prefix}: windows of this installation serve themselves."
        return bad("daemon", message, "Register one installation, and run `kbhub admin stop`.")
    ends = " It ends when idle." if (record.start or {}).get("ends") else ""
    return ok("daemon", f"{process} serves {counted(said['connections'], 'window')}.{ends}")


def connect_options(places: Places, **own: Any) -> ConnectOptions:
    """Return what the daemon is asked for."""
    config, cache = (str(place) if place else None for place in (places.config, places.cache_dir))
    return ConnectOptions(places.root, config, cache, places.base, **own)


def _be_daemon(ways: Ways, places: Places) -> int:
    """Serve over HTTP or in the background, in place of a daemon without HTTP, whose clients go on with the new one."""
    if (ways.port is not None or ways.socket) and not ways.http:
        raise UsageError(f"{'--socket' if ways.socket else '--port'} requires --http.")
    if ways.port is not None and ways.socket:
        raise UsageError("--port cannot be used with --socket.")
    if ways.protocol:
        raise UsageError("--protocol cannot be used with --http, which serves all protocol versions.")
    hub_options(places)  # says what is wrong with them before anything is started
    wanted = connect_options(places, structured=ways.structured, read_only=ways.read_only)
    socket, here = str(ways.socket.absolute()) if ways.socket else None, str(Path.cwd())
    http = Http(**asdict(wanted), port=ways.port, socket=socket, cwd=here).absolute(here)
    start = Start(http=http if ways.http else None, detached=ways.daemon)
    folder = DaemonFolder(own_folder("data", os.environ))
    folder.make()
    if (there := running(folder)) is not None:
        if there.http or start.http is None:
            at = f", {there.http}" if there.http else ""
            raise DaemonFault(
                f"A daemon is already running (process {there.pid}{at}). Stop it with `kbhub admin stop`."
            )
        if not (done := stop_daemon(folder)).stopped:
            raise DaemonFault(done.message)
    if ways.daemon:
        try:
            record = launch(folder, asdict(start), os.environ)
        except DaemonUnavailable as error:
            raise DaemonFault(f"Cannot start the daemon: {error}.") from error
        complain(f"The daemon is running (process {record.pid}). {_where(folder, record.http)}")
        return 0
    lock = try_lock(folder.lock)
    if lock is None:
        raise DaemonFault("Another daemon has just started. Stop it with `kbhub admin stop`.")
    # The SDK takes half a second to import; what starts a daemon in the background does without.
    from kbhub.server.daemon.process import run  # noqa: PLC0415

    return run(start, folder, lock, lambda address: complain(_where(folder, address)))


def _where(folder: DaemonFolder, address: str | None) -> str:
    if address is None:
        return "Connect to it with `kbhub serve --connect`."
    if address.startswith("unix:"):
        return f"Serving MCP over HTTP on the socket {address.removeprefix('unix:')}."
    return f"Serving MCP at {address}; the bearer token is in {folder.token}."
