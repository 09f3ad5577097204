"""What tests of the shared daemon share: a project, windows that speak to it line by line, and its end."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from kbhub.server.daemon import launch, proxy
from kbhub.server.daemon.http import Guarded, Workspaces
from kbhub.server.daemon.loopback import HttpServer, bind_port
from kbhub.server.daemon.protocol import DaemonFolder, read_record

SOURCE = str(Path(__file__).parent.parent / "src")
PATIENCE = 60
"""Seconds after which what does not come is a failure; generous, for a busy machine."""

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
INITIALIZE = {
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
CONNECT = ("-m", "kbhub", "serve", "--connect")


def call(tool, modern=False, **arguments):
    meta = {"_meta": META} if modern else {}
    return {"method": "tools/call", "params": {"name": tool, "arguments": arguments, **meta}}


def text_of(answer):
    return answer["result"]["content"][0]["text"]


def settings(environment, **variables):
    """The environment of a window; its daemon does not outlive the tests by long."""
    return {**environment.env, "PYTHONPATH": SOURCE, "KBHUB_SERVE__END_MINUTES": "2", **variables}


def folder_of(environment):
    return DaemonFolder(Path(environment.env["KBHUB_DATA_DIR"]))


def pid_of(environment):
    return read_record(folder_of(environment)).pid


def kill(environment, *, while_asked=lambda: None):
    """End the daemon as a crash would; give its process.

    What is asked meanwhile has surely not been answered, and been sent unless the machine is very busy.
    """
    pid = pid_of(environment)
    os.kill(pid, signal.SIGSTOP)
    while_asked()
    os.kill(pid, signal.SIGKILL)
    return pid


def until(fact, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not (found := fact()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


class Window:
    """A client's process, spoken to line by line."""

    def __init__(self, environment, arguments=CONNECT, cwd=None, **variables):
        self.process = subprocess.Popen(
            [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=cwd or environment.project, env=settings(environment, **variables),
        )  # fmt: skip
        self.ids, self.said, self.kept, self.errors = 0, queue.Queue(), [], b""
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self._hear, self._hear_errors)]
        for thread in self.threads:
            thread.start()

    def _hear(self):
        for line in self.process.stdout:
            self.said.put(json.loads(line))
        self.said.put(None)

    def _hear_errors(self):
        for line in self.process.stderr:
            self.errors += line

    def feed(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        self.feed(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def begin(self, message):
        """Ask, and do not wait for the answer; give the id."""
        self.ids += 1
        self.send({**message, "id": self.ids})
        return self.ids

    def answer(self, number):
        """Wait for the answer to a question; what comes before it is kept."""
        return self._await(lambda message: message.get("id") == number and "method" not in message)

    def ask(self, message):
        return self.answer(self.begin(message))

    def handshake(self):
        answer = self.ask(INITIALIZE)
        self.send({"method": "notifications/initialized"})
        return answer

    def notice(self, method):
        return self._await(lambda message: message.get("method") == method)

    def _await(self, wanted):
        while True:
            for message in self.kept:
                if wanted(message):
                    self.kept.remove(message)
                    return message
            message = self.said.get(timeout=PATIENCE)
            assert message is not None, self.errors
            self.kept.append(message)

    def rest(self):
        """Give what came and was not awaited, once the process has ended."""
        return [*self.kept, *iter(self.said.get_nowait, None)]

    def end(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()
        return self.ended()

    def ended(self):
        try:
            code = self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
        for thread in self.threads:
            thread.join(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()
        return code


class Relay(Window):
    """A window in this process: what `serve --connect` relays, without pipes of its own."""

    def __init__(self, environment, arguments=CONNECT, **variables):
        self.ids, self.said, self.kept, self.errors, self.lines = 0, queue.Queue(), [], b"", queue.Queue()
        made = []
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(environment.project)
            patch.setattr(proxy, "run", made.append)
            proxy.connect(proxy.wanted([*arguments[2:]]), settings(environment, **variables))
        (self.proxy,) = made
        self.proxy._sink = self
        self.thread = threading.Thread(target=self.proxy.run, args=(iter(self.lines.get, None),), daemon=True)
        self.thread.start()

    def write(self, line):
        self.said.put(json.loads(line))

    def flush(self):
        pass

    def feed(self, data):
        self.lines.put(data)

    def end(self):
        self.lines.put(None)
        self.thread.join(PATIENCE)
        self.proxy._leaving = True  # it wants no other daemon
        if link := self.proxy._link:
            link.close()
        self.said.put(None)
        return 0


@contextmanager
def windows(environment):
    """Open windows; at the end, they and the daemon are gone."""
    opened, started, spawn, folder = [], [], launch._spawn, folder_of(environment)

    def begin(*arguments, inside=False, **options):
        opened.append((Relay if inside else Window)(options.pop("place", environment), *arguments, **options))
        return opened[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "_spawn", lambda *given: started.append(spawn(*given)) or started[-1])
        try:
            yield begin
        finally:
            for relay in [window for window in opened if isinstance(window, Relay)]:
                relay.end()  # else it would start the next daemon
            launch.stop(folder)  # first: a server behind HTTP does not end with its input
            for window in opened:
                window.end()
            until(lambda: launch.stop(folder).stopped)
            for daemon in started:
                daemon.wait(PATIENCE)


@contextmanager
def endpoint(environment, token):
    """Serve a project over HTTP in this process; gives the port."""
    bound, servers = bind_port(0), []
    port = bound.getsockname()[1]

    async def serve():
        async with anyio.create_task_group() as group:
            workspaces = Workspaces(environment.hub().options, False, group)
            servers.append(HttpServer(Guarded(workspaces, token, port, dict)))
            await servers[0].serve(sockets=[bound])
            group.cancel_scope.cancel()

    thread = threading.Thread(target=anyio.run, args=(serve,))
    thread.start()
    until(lambda: servers and servers[0].started)
    try:
        yield port
    finally:
        servers[0].should_exit = True
        thread.join(PATIENCE)


def furnish(environment, word):
    """Give a project a document with a word of its own, and an index."""
    environment.write(
        "knowledge/deploy.md", f"# Deploying\n\nRedeploy the tag before; the {word} takes five minutes.\n"
    )
    environment.hub().sync()
    return environment


@pytest.fixture
def place(environment):
    """A project with a document and an index."""
    return furnish(environment, "canary")


@pytest.fixture
def begin(place):
    """Opens windows of that project."""
    with windows(place) as opened:
        yield opened
