"""`kbhub hook`: what a client's hook runs. Light, and never in the way: exit code 0 whatever happens.

What the client sent goes to the shared daemon as it is. Where none runs, this process starts one for the events to
come, and answers by itself, if it can in time.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

from kbhub import __version__
from kbhub.server.daemon.folder import DaemonFolder, read_token, running
from kbhub.server.daemon.protocol import GREETING_BYTES, ConnectOptions, Refused, dial, greet, greeting
from kbhub.workspace.files import data_dir

KIND = "hook"
"""Of the greeting."""

SECONDS = 0.4
"""Time for an answer, after which there is none: issue "Knowledge that arrives by itself"."""

END, END_SECONDS = "session-end", 20.0
"""The event for which nobody waits, and the time that it may take: the session's whole log is read."""

INPUT_BYTES = 32 << 20
"""Bytes read of standard input: a tool that writes a file is given all of it."""


def wanted(arguments: Sequence[str]) -> tuple[str, str] | None:
    """Return the event and the client of a command line; None if it is not plainly `hook EVENT --client NAME`."""
    if len(arguments) != 4 or arguments[2] != "--client" or arguments[1].startswith("-"):
        return None
    return arguments[1], arguments[3]


def run(event: str, client: str, env: Mapping[str, str]) -> int:
    """Answer an event on standard input; silent, with exit code 0, if that fails, takes too long or is unknown."""
    limit = END_SECONDS if event == END else SECONDS
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
    folder = DaemonFolder(data_dir(env))
    record, token = running(folder), read_token(folder)
    if record is not None and token is not None and record.version == __version__ and len(data) < GREETING_BYTES // 2:
        hello = greeting(ConnectOptions(), env, os.getcwd())  # noqa: PTH109 - a string is needed
        try:
            with dial(record.link) as link:
                link.limit(limit)
                told = {"event": event, "client": client, "data": data.decode("utf-8", "replace")}
                return str(greet(link, KIND, token, **hello, hook=told)["output"])
        except (OSError, Refused, KeyError):
            return ""
    if record is None and event != END:
        from kbhub.server.daemon.launch import begin  # noqa: PLC0415 - only where no daemon runs

        begin(folder, {"ends": True}, env)
    # All of a hub: on a slow machine the time is over before it is loaded, so the daemon comes first.
    from kbhub.server.hook_endpoint import Hooking, HookMessage  # noqa: PLC0415

    return Hooking().answered(HookMessage(event, client, data), dict(env))
