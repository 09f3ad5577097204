"""Real faults: a disk that fails or kills, other users, mounts, and child processes that suffer them."""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path

import apsw

import kbhub.sync.sync
from kbhub.__main__ import main
from kbhub.api import Hub
from kbhub.documents.walk import Limits
from kbhub.errors import KbhubError
from kbhub.hub import HubOptions
from kbhub.memory.changes import remember
from kbhub.models.embedding import packaged_embedder
from kbhub.models.static_model import quantise
from kbhub.sync.sync import compare, sync_base
from kbhub.types import Base, Query

TESTS = Path(__file__).parent
LIMITS = Limits(file_bytes=5 << 20, files=100_000)
CHILD_SECONDS = 100
"""After which a child is stuck; generous, for a busy machine."""

NOBODY = 65534
"""A user who owns nothing."""


_registered: list[apsw.VFS] = []
"""Keeps what SQLite only points to."""


class Disk(apsw.VFS):
    """The file system of every database of this process; says beforehand what is done to which file.

    Register it in child processes only: it stays until they end.
    """

    def __init__(self, change: Callable[[str], None]) -> None:
        self.change = change
        self.system = apsw.vfs_names()[0]
        super().__init__("faults", self.system, makedefault=True)
        _registered.append(self)

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name, as below
        return _File(self, name, flags)

    def xDelete(self, name, sync):  # noqa: N802
        self.change("delete")
        super().xDelete(name, sync)


class _File(apsw.VFSFile):
    def __init__(self, disk, name, flags) -> None:
        self.change = disk.change
        kinds = {apsw.SQLITE_OPEN_WAL: "wal", apsw.SQLITE_OPEN_MAIN_DB: "index"}
        self.kind = next((kind for flag, kind in kinds.items() if flags[0] & flag), "other")
        super().__init__(disk.system, name, flags)

    def xLock(self, level):  # noqa: N802
        try:
            super().xLock(level)
        except apsw.IOError as error:  # of a file that is open for reading; SQLite itself takes it as a no
            raise apsw.BusyError("busy") from error

    def xWrite(self, data, offset):  # noqa: N802
        self.change(f"{self.kind} write")
        super().xWrite(data, offset)

    def xSync(self, flags):  # noqa: N802
        self.change(f"{self.kind} sync")
        super().xSync(flags)

    def xTruncate(self, size):  # noqa: N802
        self.change(f"{self.kind} truncate")
        super().xTruncate(size)


def sound(path: Path) -> None:
    """Assert that an index, if there is one, is whole: structure, full text, and a row for every row it belongs to."""
    if not path.exists():
        return
    connection = apsw.Connection(str(path))
    try:
        assert connection.execute("PRAGMA quick_check").get == "ok"
        if not connection.execute("PRAGMA schema_version").get:
            return  # its first transaction was not finished
        connection.execute("INSERT INTO fts(fts) VALUES ('integrity-check')")
        for query in (
            "SELECT count(*) FROM chunk WHERE document_id NOT IN (SELECT id FROM document)",
            "SELECT count(*) FROM vector WHERE chunk_id NOT IN (SELECT id FROM chunk)",
            "SELECT count(*) FROM fts WHERE rowid NOT IN (SELECT id FROM chunk)",
            "SELECT count(*) FROM chunk WHERE id NOT IN (SELECT rowid FROM fts)",
            "SELECT count(*) FROM chunk WHERE id NOT IN (SELECT chunk_id FROM vector)",
        ):
            assert connection.execute(query).get == 0, query
    finally:
        connection.close(force=True)


def content(path: Path) -> list:
    """Everything that a search can see in an index; equal for equal files."""
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(
            "SELECT path, docid, title, tags, hash, problem, headings, start_line, end_line, prose, text, embedding "
            "FROM document LEFT JOIN chunk ON document_id = document.id LEFT JOIN vector ON chunk_id = chunk.id "
            "ORDER BY path, start_line, chunk.id"
        ).fetchall()
    finally:
        connection.close(force=True)


def environment() -> dict[str, str]:
    """Give the variables with which a child finds the code."""
    paths = os.pathsep.join((str(TESTS.parent / "src"), str(TESTS)))
    return os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}


class Children:
    """Starts child processes by forking one that has loaded all it needs: a tenth of a second each.

    It has no database open, for SQLite's do not survive a fork.
    """

    def __init__(self) -> None:
        self.idle = True
        self.process = self._forking()

    def _forking(self) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-c", "import faults; faults.fork_for_each_line()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(),
        )  # fmt: skip

    def start(self, name: str, *arguments) -> int:
        """Start a function of this module; gives the number of its process."""
        if not self.idle:  # a test gave up on the last one
            self.stop()
            self.process = self._forking()
        self.idle = False
        assert self.process.stdin
        self.process.stdin.write(json.dumps([name, *arguments], default=str) + "\n")
        self.process.stdin.flush()
        return int(self.line())

    def call(self, name: str, *arguments):
        """Run a function of this module in a process of its own; gives its result."""
        self.start(name, *arguments)
        result = self.line()
        assert not result.startswith("ended "), f"{name} failed; standard error says why"
        assert self.ended() == 0, result
        return json.loads(result)

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def ended(self) -> int:
        """Wait for the end of the child; gives its exit status, negative for the signal that killed it."""
        while not (line := self.line()).startswith("ended "):
            assert line, "the process that forks is gone"
        self.idle = True
        return int(line.removeprefix("ended "))

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(CHILD_SECONDS)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            pipe.close()


def rehearse() -> None:
    """Load all that indexing and searching load: a child that gives its rights away could not read it any more."""
    assert packaged_embedder().dimensions
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        (home / "knowledge").mkdir()
        (home / "knowledge/a.md").write_text("---\ntags: [a]\n---\n# Platypus\n\nA platypus.\n", "utf-8")
        (home / "knowledge/b.md").write_bytes(b"\xff\xfe")
        (home / "knowledge/c.md").write_bytes(b"\xef\xbb\xbf# C\n")
        env = {"HOME": str(home), "KBHUB_CACHE_DIR": str(home / "cache"), "KBHUB_DATA_DIR": str(home / "data")}
        (home / ".kbhub.json").write_text('{"bases": {"notes": "~/knowledge"}, "repos": {"*": "notes"}}', "utf-8")
        sync_and_ask({"project": home, "home": home, "env": env}, "platypus")


def fork_for_each_line() -> None:
    """For each line of input, `[function, argument, …]`, run the function in a process of its own, one at a time."""
    rehearse()
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        child = os.fork()
        if child == 0:
            os.write(1, f"{os.getpid()}\n".encode())
            result = globals()[name](*arguments)
            os.write(1, f"{json.dumps(result)}\n".encode())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        os.write(1, f"ended {os.waitstatus_to_exitcode(status)}\n".encode())


def index_until(base: str, index: str, phase: str, moment: int) -> dict[str, int]:
    """Bring an index in step in small batches; die at a moment of a phase, just before it changes a file."""
    now, counts = ["indexing"], Counter[str]()

    def change(_: str) -> None:
        counts[now[0]] += 1
        if phase == "outside":
            os.write(1, b"change\n")
        elif phase == now[0] and counts[phase] > moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def statement(_, sql, __) -> bool:
        steps = {"'optimize'": "optimising", "wal_checkpoint": "checkpointing"}
        now[0] = next((step for word, step in steps.items() if word in sql), "indexing")
        return True

    Disk(change)
    apsw.connection_hooks.append(lambda connection: connection.set_exec_trace(statement))
    kbhub.sync.sync.BATCH_FILES = 8
    found = Base(id="project", path=Path(base), origin="knowledge")
    sync_base(found, Path(index), packaged_embedder(), LIMITS)
    if phase == "outside":
        signal.pause()  # whoever is about to kill it was slower
    return dict(counts)


def tell_of_transactions() -> None:
    """Say so of each transaction that begins from now on; batches are small."""

    def statement(_, sql, __) -> bool:
        if sql.startswith("BEGIN IMMEDIATE"):
            os.write(1, b"transaction\n")
        return True

    apsw.connection_hooks.append(lambda connection: connection.set_exec_trace(statement))
    kbhub.sync.sync.BATCH_FILES = 4


def opened(places: dict) -> Hub:
    return Hub(HubOptions(cwd=Path(places["project"]), home=Path(places["home"]), env=places["env"]))


def sync_and_ask(places: dict, words: str) -> dict:
    """Try to index each base, then search as the command line does; give what there is to say about it."""
    hub, said, errors = opened(places), list[str](), list[str]()
    for base in hub.select():
        try:
            said += [note for report in hub.sync([base.id]) for note in report.notes]
        except KbhubError as failure:
            errors.append(f"{type(failure).__name__}: {failure}")
    hub.freshen()
    result, status = hub.search(Query(text=words)), hub.status()
    problems = [*status.problems, *(problem for base in status.bases for problem in base.problems)]
    return {
        "errors": errors, "said": said, "refs": [hit.ref for hit in result.hits], "notes": result.notes,
        "skipped": [one.reason for one in result.skipped], "problems": [problem.message for problem in problems],
    }  # fmt: skip


def fill_up(places: dict, words: str, steps: list[int]) -> list[dict]:
    """Index on a disk that takes only so many more writes, searching after each failure; at last it takes all."""
    left = [0]

    def change(what: str) -> None:
        if what.endswith("write"):
            left[0] -= 1
            if left[0] < 0:
                raise apsw.FullError("database or disk is full")

    Disk(change)
    answers = []
    for left[0] in [*steps, sys.maxsize]:
        answers.append(sync_and_ask(places, words))
    return answers


def as_nobody(name: str, *arguments):
    """Call a function of this module as a user whom modes bind, which they do not bind root."""
    # Loaded before: the interpreter may lie where only root can read.
    quantise(packaged_embedder().embed(["anything"]))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    return globals()[name](*arguments)


NO_CAPABILITIES = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
"""What Linux's `capset` takes from root, whom modes bind then."""


def command(env: dict[str, str], folder: str, *arguments: str) -> tuple[int, str, str]:
    """Run a command as a user whom modes bind; give its exit code and what it prints."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).capset(*NO_CAPABILITIES)
    os.environ.update(env)
    os.chdir(folder)
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main([*arguments])
    return code, out.getvalue(), err.getvalue()


MOUNTS = {
    "small": "mount -t tmpfs -o size=512k,mode=0700 none '{0}'",
    "read-only": "mount --bind '{0}' '{0}' && mount -o remount,bind,ro '{0}'",
}
NEW_MOUNTS, NEW_USER = 0x20000, 0x10000000
"""What Linux calls `CLONE_NEWNS` and `CLONE_NEWUSER`."""


def mounted(kind: str, folder: str, name: str, *arguments):
    """Call a function of this module where something is mounted over a folder, for this process alone.

    None where nobody may mount.
    """
    user, maps = os.geteuid(), {"setgroups": "deny", "uid_map": f"0 {os.geteuid()} 1", "gid_map": f"0 {os.getegid()} 1"}
    if sys.platform != "linux" or ctypes.CDLL(None).unshare(NEW_MOUNTS | (NEW_USER if user else 0)):
        return None
    try:
        for file, text in maps.items() if user else ():  # become root, as far as mounts go
            Path(f"/proc/self/{file}").write_text(text, "utf-8")
    except OSError:  # some systems let none but root
        return None
    script = f"mount --make-rprivate / && {MOUNTS[kind].format(folder)}"
    if subprocess.run(["sh", "-c", script], stdout=subprocess.DEVNULL, check=False).returncode:
        return None
    return globals()[name](*arguments)


def look_again(places: dict, closed: str) -> dict:
    """Index, look four times whether a search would have work, open a file that nobody may read, and look again."""
    hub = opened(places)
    hub.sync()
    (base,) = hub.select(["project"])
    before = hub.index(base).path.stat().st_mtime_ns
    looks = [len(compare(base, hub.index(base), LIMITS)) for _ in range(4)]
    hub.freshen(max_age=0)
    written = hub.index(base).path.stat().st_mtime_ns != before
    Path(closed).chmod(0o600)
    after = len(compare(base, hub.index(base), LIMITS))
    hub.freshen(max_age=0)
    problems = [problem.message for one in hub.status().bases for problem in one.problems]
    refs = [hit.ref for hit in hub.search(Query(text="platypus", mode="keyword")).hits]
    return {"looks": looks, "written": written, "opened": after, "problems": problems, "refs": refs}


def fill_mount(places: dict, words: str, mount: str) -> list[dict]:
    """Index on a small file system; again with more documents when it is full; again when there is space."""
    before, ballast = sync_and_ask(places, words), Path(mount) / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    late = Path(places["project"]) / "knowledge" / "late.md"
    late.write_text("# Late\n\nThe last platypus.\n" + "More of it. " * 20_000)
    full = sync_and_ask(places, words)
    ballast.unlink()
    late.write_text("# Late\n\nThe last platypus.\n")
    return [before, full, sync_and_ask(places, words)]


def edit_until(places: dict, act: str, step: int) -> int:
    """Change a document; die just before a step of it, if it has so many."""
    from kbhub.editing import documents, renames, trash

    hub = opened(places)
    acts = {
        "create": lambda: documents.write_document(hub, "fresh/b.md", text="# New\n"),
        "update": lambda: documents.write_document(hub, "a.md", text="new", mode="append"),
        "delete": lambda: trash.delete_document(hub, "a.md"),
        "restore": lambda: trash.restore(hub, "gone.md"),
        "rename": lambda: renames.rename(hub, "a.md", "fresh/c.md", update_links=True),
    }
    done = [0]

    def change(event: str, arguments: tuple) -> None:
        writing = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if writing or event in ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"):
            if done[0] >= step:
                os.kill(os.getpid(), signal.SIGKILL)
            done[0] += 1

    sys.addaudithook(change)
    acts[act]()
    return done[0]


def remember_until(places: dict, moment: str) -> None:
    """Remember something whole, and die at a call of the system that writes the next."""
    hub = Hub(HubOptions(cwd=Path(places["project"]), home=Path(places["home"]), env=places["env"]))
    remember(hub, "The first one, which is written whole.")
    setattr(os, moment, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    remember(hub, "The second one, which is not.")


def try_to_delete(places: dict, ref: str, times: int) -> list[str]:
    from kbhub.editing import trash

    hub = opened(places)
    refusals = []
    for _ in range(times):
        try:
            trash.delete_document(hub, ref)
        except KbhubError as failure:
            refusals.append(str(failure))
    return refusals


def store_until(folder: str, seconds: float) -> None:
    """Write versions of a long document over and over, and new ones, until the time is over; then die."""
    from kbhub.workspace.files import open_folder

    base = Base(id="project", path=Path(folder), origin="knowledge", writable=True)
    signal.setitimer(signal.ITIMER_REAL, seconds)  # whose signal ends a process that does not ask for it
    version = 0
    while True:
        version += 1
        with open_folder(base, ()) as opened:
            data = f"version {version}\n".encode() * VERSION_LINES
            assert opened.replace("long.md", data, opened.read("long.md"))
            opened.create(f"fresh-{os.getpid()}-{version}.md", data)


VERSION_LINES = 50_000
"""Lines of a document that takes several moments to write."""


def confined(statements: list[str], place: str) -> list[bool]:
    """Try statements, in which `place` is a file, as a parser of foreign files; say whether each is forbidden."""
    from kbhub.documents.source import _confine

    _confine()
    refusals = []
    for statement in statements:
        try:
            exec(statement, {"os": os, "socket": socket, "subprocess": subprocess, "sys": sys, "place": place})
            refusals.append(False)
        except PermissionError as error:
            refusals.append("may not" in str(error))
    return refusals


def note_until_killed(places: dict) -> None:
    """Note queries, twenty at a time, and say how many there are."""
    from kbhub.types import SearchResult
    from kbhub.usage.log import flush, record

    hub, number = opened(places), 0
    while True:
        for _ in range(20):
            text = f"Question{number} of a victim"
            result = SearchResult(query=text, mode="hybrid", hits=(), verdict="weak", searched=("project",))
            record(hub, result, Query(text=text))
            number += 1
        flush()
        os.write(1, f"{number}\n".encode())
