"""What starts and ends the shared daemon and the server behind HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kbhub.cli.console import complain, show_json, show_text
from kbhub.cli.hubs import hub_options
from kbhub.cli.results import StopResult
from kbhub.daemon.asked import Http, Start
from kbhub.daemon.connecting import connect
from kbhub.daemon.folder import Folder
from kbhub.daemon.link import Wanted
from kbhub.daemon.locks import try_lock
from kbhub.daemon.starting import DaemonUnavailable, launch, running
from kbhub.daemon.stopping import stop as stop_daemon
from kbhub.errors import DaemonFault, UsageError
from kbhub.places import data_dir

if TYPE_CHECKING:
    from kbhub.cli.options import Common, Places, Ways
    from kbhub.daemon.folder import Record


def serve(*, structured: bool, protocol: str | None, read_only: bool, ways: Ways, places: Places) -> int | None:
    """Serve by way of the daemon, or be one; none if it has to be done without."""
    _check(ways, protocol)
    if ways.connect:
        text = str(places.config) if places.config else None, str(places.cache_dir) if places.cache_dir else None
        wanted = Wanted(places.root, *text, places.base, structured, protocol, read_only)
        return connect(wanted, os.environ)
    http = _http(structured=structured, read_only=read_only, ways=ways, places=places)
    start = Start(http=http if ways.http else None, detached=ways.daemon)
    folder = Folder(data_dir(os.environ))
    folder.make()
    _make_way(folder, start)
    return _in_background(folder, start) if ways.daemon else _in_terminal(folder, start)


def stop(*, common: Common) -> int:
    """End the daemon, and say what became of it."""
    done = stop_daemon(Folder(data_dir(os.environ)))
    if common.json:
        show_json(StopResult(**done._asdict()).model_dump_json(indent=2))
    elif done.stopped:
        show_text(done.message)
    else:
        complain(done.message)
    return 0 if done.stopped else 1


def _check(ways: Ways, protocol: str | None) -> None:
    others = [f"--{name}" for name in ("http", "daemon", "port", "socket") if getattr(ways, name) not in (False, None)]
    if ways.connect and others:
        raise UsageError(f"--connect and {others[0]} exclude each other; use one.")
    if (ways.port is not None or ways.socket) and not ways.http:
        raise UsageError(f"{others[-1]} is about --http; add that.")
    if ways.port is not None and ways.socket:
        raise UsageError("--port and --socket exclude each other; use one.")
    if protocol and not ways.connect:
        raise UsageError("--protocol is about standard input and output; HTTP answers both eras.")


def _make_way(folder: Folder, start: Start) -> None:
    """End a daemon that serves no HTTP, where one is wanted that does: its clients go on with the new one.

    Raises:
        DaemonFault: there is one that must not be ended.
    """
    there = running(folder)
    if there is None:
        return
    if there.http or start.http is None:
        raise DaemonFault(f"A daemon runs already (process {there.pid}{_at(there)}); `kbhub stop` ends it.")
    done = stop_daemon(folder)
    if not done.stopped:
        raise DaemonFault(done.message)


def _in_background(folder: Folder, start: Start) -> int:
    try:
        record = launch(folder, start.model_dump(mode="json"), os.environ)
    except DaemonUnavailable as error:
        raise DaemonFault(f"The daemon does not start: {error}.") from error
    complain(f"The daemon runs (process {record.pid}). {_where(folder, record.http)}")
    return 0


def _in_terminal(folder: Folder, start: Start) -> NoReturn:
    lock = try_lock(folder.lock)
    if lock is None:
        raise DaemonFault("Another daemon has just been started; `kbhub stop` ends it.")
    # The SDK takes half a second to import; what starts a daemon in the background does without.
    from kbhub.daemon.process import run  # noqa: PLC0415

    run(start, folder, lock, lambda address: complain(_where(folder, address)))


def _http(*, structured: bool, read_only: bool, ways: Ways, places: Places) -> Http:
    """Give the endpoint that is wanted, in a way that does not depend on the process that reads it."""
    hub_options(places)  # says what is wrong with them before anything is started
    return Http(
        port=ways.port,
        socket=str(ways.socket.absolute()) if ways.socket else None,
        root=places.root,
        config=str(places.config.absolute()) if places.config else None,
        cache_dir=str(places.cache_dir.absolute()) if places.cache_dir else None,
        base=tuple(map(_absolute, places.base)),
        cwd=str(Path.cwd()),
        structured=structured,
        read_only=read_only,
    )


def _where(folder: Folder, address: str | None) -> str:
    if address is None:
        return "`kbhub serve --connect` uses it."
    if address.startswith("unix:"):
        return f"MCP over HTTP is served on the socket {address.removeprefix('unix:')}."
    return f"MCP is served at {address}; the bearer token is in {folder.token}."


def _at(record: Record) -> str:
    return f", {record.http}" if record.http else ""


def _absolute(base: str) -> str:
    name, mark, path = base.partition("=")
    return base if not mark or path.startswith("~") else f"{name}={Path(path).absolute()}"
