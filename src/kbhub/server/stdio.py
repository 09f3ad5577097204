"""The process around the server: standard streams, signals, shutdown."""

# ruff: noqa: E402 - the imports stand between two calls on purpose
import gc

_COLLECTING = gc.isenabled()
gc.disable()  # the SDK creates thousands of classes; collecting garbage meanwhile takes a tenth of the startup

import logging
import os
import select
import signal
import stat
import sys
from contextlib import suppress
from io import RawIOBase
from typing import NoReturn

import anyio
from anyio.to_thread import run_sync

from kbhub.errors import UsageError
from kbhub.hub import Hub, HubOptions
from kbhub.server.daemon.protocol import PROTOCOLS
from kbhub.server.server import KbhubServer, create_server, log_level
from kbhub.server.wire import converse
from kbhub.workspace.child_processes import serve_frugally

gc.freeze()  # all of it is permanent, and the first collection would scan it (90 ms)
if _COLLECTING:
    gc.enable()

log = logging.getLogger(__name__)

PIECE_BYTES = 64 * 1024
"""Bytes read at once: the size of a pipe."""

GRACE_SECONDS = 0.5
"""Time for a signalled server to end its calls; clients kill after two seconds, some much sooner."""

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Streams:
    """The client on unbuffered standard input and output."""

    def __init__(self, source: RawIOBase, sink: RawIOBase) -> None:
        self._source, self._sink, self._ended = source, sink, False
        self._writable = _writable(sink.fileno())

    async def hear(self) -> bytes:
        """Return the next data; empty at the end."""
        data = await run_sync(self._source.read, PIECE_BYTES) or b""
        self._ended = not data
        return data

    async def say(self, line: bytes) -> None:
        """Send a line."""
        await run_sync(self._write, line, abandon_on_cancel=True)

    def say_at_once(self, line: bytes) -> bool:
        """Send a line if that cannot block; return whether it was sent."""
        if self._writable is None or len(line) > select.PIPE_BUF or not self._writable.poll(0):
            return False
        self._write(line)
        return True

    def gone(self) -> bool:
        """Return whether the client has closed its end, even if there is data left to read."""
        if self._ended or not hasattr(select, "poll"):
            return self._ended
        look = select.poll()
        look.register(self._source.fileno(), 0)
        return bool(look.poll(0))

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        while left:  # a pipe may accept only a part
            left = left[self._sink.write(left) or 0 :]


def _writable(sink: int) -> "select.poll | None":
    """Return a poll for whether a descriptor takes `PIPE_BUF` bytes at once; None where there is none."""
    # POSIX guarantees it of pipes. Node gives its children Unix sockets, which are writable while three quarters of
    # their buffer are free on Linux, and 2,048 bytes, four times `PIPE_BUF`, on macOS.
    kind = os.fstat(sink).st_mode
    if not hasattr(select, "poll") or not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        return None
    look = select.poll()
    look.register(sink, select.POLLOUT)
    return look


def serve(options: HubOptions, *, structured: bool = False, protocol: str = "auto") -> NoReturn:
    """Serve MCP on standard input and output until the client closes it or a signal comes, then end the process.

    `structured` is as for `KbhubServer`. Raises `UsageError` if the protocol is none of `PROTOCOLS`.
    """
    if protocol not in PROTOCOLS:
        raise UsageError(f"KBHUB_PROTOCOL is {protocol!r}; it must be `auto` or `legacy`.")
    client = _claim_wire()
    hub = Hub(options)
    logging.basicConfig(level=log_level(hub), format=LOG_FORMAT, stream=sys.stderr)
    server = create_server(hub, structured=structured)
    serve_frugally()
    try:
        anyio.run(_serve, server, client, protocol)
    except* (KeyboardInterrupt, BrokenPipeError) as ends:  # Ctrl-C on Windows; client gone
        log.info("Ending: %s", ends.exceptions)
    _end()


async def _serve(server: KbhubServer, client: Streams, protocol: str) -> None:
    closed = anyio.Event()
    """Set when the calls are over and the lifespan has ended."""
    async with anyio.create_task_group() as group:
        if sys.platform != "win32":
            group.start_soon(_end_on_signal, group.cancel_scope, closed)
        try:
            await converse(server, client, protocol)
        finally:
            closed.set()
        group.cancel_scope.cancel()


async def _end_on_signal(scope: anyio.CancelScope, closed: anyio.Event) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            log.info("Stopping on %s.", signal.Signals(number).name)
            scope.cancel()
            with anyio.move_on_after(GRACE_SECONDS, shield=True):
                await closed.wait()
            # The thread that reads the client's next line cannot be woken; the process ends without it.
            _end()


def _claim_wire() -> Streams:
    """Reserve standard input and output for the protocol.

    Whatever else the process or its children print, including buffered output, goes to standard error from now on;
    other readers of standard input get the end of file.
    """
    source, sink = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without standard error
        os.dup2(null, 1)
    os.close(null)
    return Streams(source, sink)


def _end() -> NoReturn:
    """End the process at once: interpreter shutdown would take a fifth of a second and wait for threads."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(0)
