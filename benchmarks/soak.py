"""Six servers on one base that is edited all the time.

    python benchmarks/soak.py [--seconds 300] [--files 5000] [--servers 6] [--write docs/reference/soak.md]

Edits, renames, deletions and branch switches at random (seeded); queries from every server all the while. At the end
the index must equal a rebuild, no answer may have been an error, and no server may have grown.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import apsw

from bench.common import environment, parser
from bench.figures import quantile
from bench.processes import KBHUB, Server
from bench.words import WORDS
from kbhub.api import Hub
from kbhub.hub import HubOptions

SETTLE_SECONDS = 60
EDITS_PER_SECOND = 10
GROWTH = 1.25


class Asked(Server):
    """A `kbhub serve` process that is asked all the time."""

    def __init__(self, env: dict[str, str], cwd: Path) -> None:
        super().__init__([*KBHUB, "serve"], env, cwd)
        self.answers, self.errors, self.waits = 0, [], []
        self.stopping = threading.Event()
        self.handshake()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        choose = random.Random(id(self))
        while not self.stopping.is_set():
            started = time.perf_counter()
            query = " ".join(choose.sample(WORDS, 2))
            answer = self.ask("tools/call", {"name": "search", "arguments": {"query": query}})
            self.waits.append(time.perf_counter() - started)
            self.answers += 1
            if "result" not in answer or answer["result"].get("isError"):
                self.errors.append(str(answer)[:300])
            self.stopping.wait(0.2)

    def resident(self) -> float:
        return self.memory()["rss"]

    def end(self) -> int:
        self.stopping.set()
        self.thread.join(60)
        return super().end()


class Notes:
    """A repository of small documents, and random things that happen to it."""

    def __init__(self, root: Path, files: int) -> None:
        self.root, self.choose, self.serial = root, random.Random(1), 0
        (root / "knowledge").mkdir(parents=True)
        for number in range(files):
            self.write(f"{number % 50}/{number}.md")
        for command in (
            ("init", "-q", "-b", "one"),
            ("add", "."),
            ("commit", "-qm", "one"),
            ("checkout", "-qb", "two"),
        ):
            self.git(*command)
        for number in range(0, files, 5):
            self.write(f"{number % 50}/{number}.md")
        self.git("commit", "-qam", "two")

    def write(self, name: str) -> None:
        self.serial += 1
        path = self.root / "knowledge" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Note {self.serial}\n\n{' '.join(self.choose.choices(WORDS, k=40))}\n")

    def git(self, *arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=self.root, check=True, capture_output=True)

    def happen(self) -> str:
        files = sorted((self.root / "knowledge").rglob("*.md"))
        path = self.choose.choice(files)
        match self.choose.choices(("edit", "add", "rename", "delete", "switch"), (60, 15, 10, 14, 1))[0]:
            case "edit":
                self.write(str(path.relative_to(self.root / "knowledge")))
                return "edit"
            case "add":
                self.write(f"new/{self.serial}.md")
                return "add"
            case "rename":
                path.rename(path.with_name(f"renamed-{self.serial}.md"))
                self.serial += 1
                return "rename"
            case "delete":
                path.unlink()
                return "delete"
        self.git("add", "-A")
        self.git("commit", "-qm", "work", "--allow-empty")
        branch = subprocess.run(
            ["git", "branch", "--show-current"], cwd=self.root, check=True, capture_output=True, text=True
        )
        self.git("checkout", "-q", "two" if branch.stdout.strip() == "one" else "one")
        return "switch"


def content(path: Path) -> list[tuple]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    return connection.execute(
        "SELECT path, title, headings, start_line, end_line, text, embedding FROM document "
        "JOIN chunk ON document_id = document.id LEFT JOIN vector ON chunk_id = chunk.id ORDER BY path, start_line"
    ).fetchall()


def main() -> int:
    reading = parser(__doc__)
    reading.add_argument("--seconds", type=float, default=300)
    reading.add_argument("--files", type=int, default=5000)
    reading.add_argument("--servers", type=int, default=6)
    reading.add_argument("--write", type=Path)
    arguments = reading.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report, sound = soak(Path(folder), arguments.seconds, arguments.files, arguments.servers)
    print(report)
    if arguments.write:
        arguments.write.write_text(report, "utf-8")
    return 0 if sound else 1


def soak(folder: Path, seconds: float, files: int, count: int) -> tuple[str, bool]:
    home, root = folder / "home", folder / "home" / "shop"
    notes = Notes(root, files)
    env = environment(folder, home)
    servers = [Asked(env, root) for _ in range(count)]
    for server in servers:
        server.thread.start()
    started, happened, early = time.monotonic(), dict.fromkeys(("edit", "add", "rename", "delete", "switch"), 0), []
    while (passed := time.monotonic() - started) < seconds:
        happened[notes.happen()] += 1
        if passed > seconds / 5 and not early:
            early = [server.resident() for server in servers]
        time.sleep(1 / EDITS_PER_SECOND)
    hub = Hub(HubOptions(env=env, home=home, cwd=root))
    index = hub.index(hub.select()[0]).path
    settled = settle(hub, index, folder)
    late = [server.resident() for server in servers]
    codes = [server.end() for server in servers]
    errors = [error for server in servers for error in server.errors]
    waits = [wait for server in servers for wait in server.waits]
    growth = max(after / before for before, after in zip(early, late, strict=True))
    sound = bool(settled is not None and not errors and set(codes) == {0} and growth < GROWTH)
    rows = [
        ("servers, files, seconds", f"{count}, {files:,}, {seconds:.0f}"),
        ("edits, additions, renames, deletions, branch switches", ", ".join(f"{n:,}" for n in happened.values())),
        ("answers; errors among them", f"{len(waits):,}; {len(errors)}"),
        (
            "time of an answer, p50, p99, ms",
            f"{quantile(waits, 0.5) * 1000:.0f}, {quantile(waits, 0.99) * 1000:.0f}",
        ),
        ("index equal to a rebuild after the last change, s", "never" if settled is None else f"{settled:.1f}"),
        ("memory of a server at a fifth of the time and at the end, MiB", f"{max(early):.0f}, {max(late):.0f}"),
        ("largest growth of a server", f"{growth:.2f} ×"),
        ("exit codes", ", ".join(map(str, codes))),
    ]
    lines = ["# Soak", "", "Measured with `python benchmarks/soak.py`.", "", "| what | value |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in rows]
    return "\n".join([*lines, f"\nFirst errors: {errors[:3]}" if errors else ""]) + "\n", sound


def settle(hub: Hub, index: Path, folder: Path) -> float | None:
    """Wait until the servers' index equals one made anew; gives the seconds it took, none for never."""
    started = time.monotonic()
    fresh = Hub(
        HubOptions(
            env=hub.options.env | {"KBHUB_CACHE_DIR": str(folder / "fresh")}, home=hub.options.home, cwd=hub.options.cwd
        )
    )
    fresh.sync()
    expected = content(fresh.index(fresh.select()[0]).path)
    while time.monotonic() - started < SETTLE_SECONDS:
        if content(index) == expected:
            return time.monotonic() - started
        time.sleep(0.2)
    return None


if __name__ == "__main__":
    sys.exit(main())
