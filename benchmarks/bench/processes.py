"""Processes to measure: servers that speak MCP on a pipe, commands, and the memory they hold (Linux)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROTOCOL = "2025-06-18"

BARE = [sys.executable, str(Path(__file__).with_name("bare_server.py"))]
KBHUB = [sys.executable, "-m", "kbhub"]

QUIET_SECONDS, LOOK_SECONDS = 1.5, 0.25
"""How long a server has used no CPU that is said to rest, and how often that is looked at."""

REST_SECONDS = 300.0
"""How long it may take until then."""

MEMORY_SECONDS = 0.1
"""How often the memory of a process is read that runs to its end."""

END_SECONDS = 30
"""How long a server may take to end once its input is closed."""


class Server:
    """A server on a pipe, spoken to line by line.

    Args:
        command: what starts it.
        env: its variables.
        cwd: its working directory.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command, env=env, cwd=cwd, text=True, encoding="utf-8",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.number = 0

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a message."""
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and give the whole answer; what else the server says meanwhile is passed over.

        Raises:
            EOFError: it has ended.
        """
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise EOFError(f"{self.process.args[0]} ended")
            answer = json.loads(line)
            if answer.get("id") == self.number and "method" not in answer:
                return answer

    def handshake(self) -> float:
        """Introduce ourselves; gives the seconds from the start of the process to the answer."""
        client = {"name": "bench", "version": "0"}
        answer = self.ask("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client})
        moment = time.perf_counter() - self.started
        assert "result" in answer, answer
        self.send({"method": "notifications/initialized"})
        return moment

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool; gives its result.

        Raises:
            RuntimeError: it failed.
        """
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        if "result" not in answer or answer["result"].get("isError"):
            raise RuntimeError(f"{tool}: {str(answer)[:300]}")
        return answer["result"]

    def memory(self) -> dict[str, float]:
        """Give its memory in MiB; see `memory_of`."""
        return memory_of(self.process.pid)

    def cpu(self) -> float:
        """Give the seconds of CPU that it has used."""
        return cpu_of(self.process.pid)

    def rest(self) -> None:
        """Wait until it does nothing any more of its own accord.

        Raises:
            TimeoutError: it has ended, or goes on and on.
        """
        used, quiet, end = self.cpu(), 0.0, time.monotonic() + REST_SECONDS
        while quiet < QUIET_SECONDS:
            if self.process.poll() is not None or time.monotonic() > end:
                raise TimeoutError(f"{self.process.args[0]} does not come to rest")
            time.sleep(LOOK_SECONDS)
            now = self.cpu()
            quiet = quiet + LOOK_SECONDS if now == used else 0.0
            used = now

    def end(self) -> int:
        """Close its input and give its exit code; one that does not end is killed."""
        self.process.stdin.close()
        try:
            return self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(END_SECONDS)
        finally:
            self.process.stdout.close()


def memory_of(pid: int) -> dict[str, float]:
    """Give the memory of a process in MiB.

    Returns:
        `rss`, all that is resident; `pss`, where a page that n processes share counts 1/n; `private`, what is its own.
    """
    path = Path(f"/proc/{pid}/smaps_rollup")
    fields = {}
    try:
        lines = path.read_text().splitlines()[1:]
    except OSError:  # it has ended, or this is no Linux
        lines = []
    for line in lines:
        name, _, rest = line.partition(":")
        fields[name] = int(rest.split()[0]) / 1024
    private = fields.get("Private_Clean", 0.0) + fields.get("Private_Dirty", 0.0)
    return {"rss": fields.get("Rss", 0.0), "pss": fields.get("Pss", 0.0), "private": private}


def cpu_of(pid: int) -> float:
    """Give the CPU seconds of a process so far, in ticks of 10 ms."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / 100


def peaks_of(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> dict[str, float]:
    """Run a command to its end and give the most memory that it held, in MiB, looked at again and again.

    Returns:
        `main`, resident, of the process itself; `all`, of it and its children, where shared pages count once.
    """
    peaks = {"main": 0.0, "all": 0.0}
    with subprocess.Popen(command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            found = [memory_of(pid) for pid in (process.pid, *_children(process.pid))]
            peaks["main"] = max(peaks["main"], found[0]["rss"])
            peaks["all"] = max(peaks["all"], sum(one["pss"] for one in found))
            time.sleep(MEMORY_SECONDS)
    assert process.returncode == 0, command
    return peaks


def _children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob(f"{pid}/task/*/children"):
        try:
            found += [int(child) for child in path.read_text().split()]
        except OSError:  # it has just ended
            continue
    return [*found, *(inner for child in found for inner in _children(child))]


def run(command: Sequence[str], env: Mapping[str, str], cwd: Path, timeout: float = 600) -> subprocess.CompletedProcess:
    """Run a command to its end; its output is kept, its exit code not judged."""
    return subprocess.run(
        command, env=env, cwd=cwd, capture_output=True, text=True, encoding="utf-8", errors="replace",
        check=False, timeout=timeout, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def family_of(pid: int) -> list[int]:
    """Give a process and all that descend from it: some commands start what does the work."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended meanwhile
        parents.setdefault(parent, []).append(int(entry.parent.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def family_memory(pid: int) -> dict[str, float]:
    """Give the memory of a process and all that descend from it; see `memory_of`."""
    every = [memory_of(one) for one in family_of(pid)]
    return {name: sum(one[name] for one in every) for name in every[0]}


def family_cpu(pid: int) -> float:
    """Give the CPU seconds of a process and all that descend from it so far."""
    return sum(cpu_of(one) for one in family_of(pid))
