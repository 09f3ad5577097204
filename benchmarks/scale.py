"""Bases of millions of chunks: `python benchmarks/scale.py VAULT… --work DIR --chunks N [--only STEP…]`.

    multiply  instead of make and index: what a search reads of the index of --source, until there are so many chunks
    make      write the files, in whole rounds over the vaults; a smaller base in DIR lends its files (hard links)
    index     a first index in a process of its own: CPU, wall, memory of all its processes, size, by phase. With
              --beside M, another process meanwhile searches a base of M chunks, and the one that is being indexed
    search    a fresh process for each mode: its first query, quantiles of the others, memory; a cold command
    change    comparing unchanged files, then one that changed, until it is found; the same by a server that watches

Results are added to DIR/scale.json, so steps can be run one by one. Linux only. 1,000,000 chunks take some 5 GB of
disk and ten minutes on two quiet cores.
"""

# ruff: noqa: E402 - before numpy is imported

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbhub.workspace.child_processes import be_frugal, serve_frugally

be_frugal(os.environ)  # as kbhub's own processes do, before numpy is imported

from bench.common import load, parser, read_json, report_step, unpack
from bench.data import Corpus, Round, read_corpus, write
from bench.figures import Series, cpu_seconds
from bench.index import _stat
from bench.multiplied import multiply
from bench.processes import KBHUB, Server, cpu_of, memory_of, run
from bench.queries import made_queries
from bench.stand import Stand
from kbhub.index.sqlite.schema import open_reader
from kbhub.types import Mode, Query

if TYPE_CHECKING:
    from kbhub.api import Hub

STEPS = ("make", "multiply", "index", "search", "change")
MODES = ("hybrid", "keyword", "semantic")

SAMPLED = 1.0
"""Seconds between two looks at the processes of an index."""

ASKED_OF = 100_000
"""Chunks from whose texts the queries are made."""

PAUSE = 1.0
"""Seconds between searches while something is indexed."""

LOOKS = 5

_corpus: Corpus
"""What the processes that make files write copies of."""


def main() -> None:
    """Run steps, or be one of the processes that a step starts."""
    reading = parser(__doc__)
    reading.add_argument("vaults", nargs="*", type=Path)
    reading.add_argument("--work", type=Path, required=True)
    reading.add_argument("--chunks", type=int, required=True)
    reading.add_argument("--only", nargs="+", default=("make", "index", "search", "change"), choices=STEPS)
    reading.add_argument("--beside", type=int, help="chunks of the base that is searched during an index")
    reading.add_argument("--source", default="n1000000", help="base that is multiplied")
    reading.add_argument("--bases", nargs="+", help="search these together instead of the base of that size")
    reading.add_argument("--queries", type=int, default=100, help="of each mode")
    reading.add_argument("--child", nargs="+", help="for the processes that this starts")
    arguments = reading.parse_args()
    work = arguments.work.resolve()
    names = arguments.bases or [f"n{arguments.chunks}"]
    if arguments.child:
        what, *rest = arguments.child
        print(json.dumps(CHILDREN[what](work, names, *rest)))
        return
    if "make" in arguments.only:
        make(arguments.vaults, work, arguments.chunks)
    if "search" in arguments.only or arguments.beside:
        _questions(arguments.vaults, work, arguments.queries)
    for step in ("multiply", "index", "search", "change"):
        if step in arguments.only:
            began = load()
            if step == "multiply":
                (work / "bases" / names[0]).mkdir(exist_ok=True)
                _prepare(work, [names[0], arguments.source])
                found = _asked(work, [names[0], arguments.source], "multiplied", str(arguments.chunks))
            else:
                _prepare(work, names)
            if step == "index":
                found = measure_index(work, names[0], arguments.beside)
            elif step == "search":
                found = measure_search(work, names)
            elif step == "change":
                found = measure_change(work, names)
            known = read_json(work / "scale.json")
            known.setdefault("+".join(names), {})[step] = {**found, "load": [began, load()]}
            (work / "scale.json").write_text(json.dumps(known, indent=1), "utf-8")
            print("+".join(names), step, json.dumps({k: v for k, v in found.items() if k != "samples"}, indent=1))


def _stand(work: Path) -> Stand:
    return Stand(work, {}, Corpus(()))


def _project(work: Path, names: list[str]) -> Path:
    return _stand(work).home / "projects" / "+".join(names)


def _hub(work: Path, names: list[str]) -> Hub:
    return _stand(work).hub(_project(work, names))


def _prepare(work: Path, names: list[str]) -> None:
    """Make bases active in a project of their own, before processes read the settings."""
    stand = _stand(work)
    for name in names:
        stand.add(name, work / "bases" / name)
    stand.project("+".join(names), *names)


def _child(work: Path, names: list[str], *child: str) -> list[str]:
    return [sys.executable, __file__, "--work", str(work), "--chunks", "0", "--bases", *names, "--child", *child]


def _questions(vaults: list[Path], work: Path, count: int) -> None:
    made = made_queries(corpus_of(vaults, work), ASKED_OF, count)
    (work / "queries.json").write_text(json.dumps(made), "utf-8")


def corpus_of(vaults: list[Path], work: Path) -> Corpus:
    folders = {vault.name.split(".")[0]: unpack(vault, work) for vault in vaults}
    return read_corpus(folders, work / "counts.json")


def make(vaults: list[Path], work: Path, chunks: int) -> Path:
    """Write a base of at least so many chunks; its folder appears once it is complete."""
    folder = work / "bases" / f"n{chunks}"
    if folder.exists():
        return folder
    corpus = corpus_of(vaults, work)
    rounds = -(-chunks // sum(source.chunks for source in corpus.sources))
    partial = folder.with_name(f"{folder.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    _ = corpus.rank, corpus.rarer, corpus.paragraphs  # once, before there are several processes
    with get_context("fork").Pool(os.cpu_count(), _share, (corpus,)) as pool:
        todo = [(number, work / "bases", partial) for number in range(rounds)]
        for done, _ in enumerate(pool.imap(make_round, todo), 1):
            if done % 10 == 0:
                report_step(f"{done} of {rounds} rounds")
    partial.rename(folder)
    return folder


def _share(corpus: Corpus) -> None:
    global _corpus
    _corpus = corpus


def make_round(job: tuple[int, Path, Path]) -> None:
    """Write one reworded copy of the vaults, unless it is there."""
    number, bases, partial = job
    corpus = _corpus
    target, half = partial / str(number), partial.with_name(f"{partial.name}.{number}")
    if target.exists():
        return
    shutil.rmtree(half, ignore_errors=True)
    if made := next(bases.glob(f"n*[0-9]/{number}"), None):
        shutil.copytree(made, half, copy_function=os.link)
    else:
        change = Round(corpus, number)
        for source in corpus.sources:
            write(half / source.vault / source.path, change.apply(source) if number else source.text)
    half.rename(target)


def measure_index(work: Path, name: str, other: int | None) -> dict[str, Any]:
    """Index a base for the first time, and look at the processes that do it."""
    hub, env = _hub(work, [name]), _stand(work).env()
    index = hub.index(hub.select()[0]).path
    for file in index.parent.glob(f"{index.stem}*"):
        file.unlink()
    asking = None
    if other:
        _prepare(work, [f"n{other}"])
        asking = subprocess.Popen(
            _child(work, [f"n{other}", name], "beside"), env=env, stdout=subprocess.PIPE, text=True
        )
    started = time.perf_counter()
    process = subprocess.Popen(_child(work, [name], "build"), env=env, stdout=subprocess.PIPE, text=True)
    samples, lines = [], []
    reading = threading.Thread(target=lambda: lines.extend(process.stdout or ()))
    reading.start()
    while process.poll() is None:
        size = sum(_size(path) for path in index.parent.glob(f"{index.stem}*"))
        samples.append({"at": time.perf_counter() - started, "bytes": size, **_family(process.pid)})
        time.sleep(SAMPLED)
    reading.join()
    found = json.loads(lines[-1])
    if asking:
        asking.terminate()
        found["beside"] = json.loads(asking.communicate()[0] or "{}")
    peak = {what: max(one[what] for one in samples) for what in ("rss", "own_rss", "workers_rss", "bytes")}
    return {**found, "peak": peak, "samples": samples[:: max(1, len(samples) // 200)]}


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _family(pid: int) -> dict[str, float]:
    """Give CPU seconds and resident MiB of a process and of its children; nothing of one that has just ended."""
    children = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    own, workers = _memory(pid, "rss"), sum(_memory(one, "pss") for one in children)
    cpu = {"own_cpu": cpu_of(pid), "workers_cpu": sum(cpu_of(one) for one in children)}
    return {"rss": own + workers, "own_rss": own, "workers_rss": workers, **cpu}


def _memory(pid: int, what: str) -> float:
    with suppress(OSError):
        return memory_of(pid)[what]
    return 0.0


def build(work: Path, names: list[str]) -> dict[str, Any]:
    """Make an index as `kbhub admin index` does, and note when which phase began."""
    from kbhub.index.sqlite import index

    hub = _hub(work, names)
    hub.embedder().embed(["warm"])
    started, began = time.perf_counter(), cpu_seconds()
    phases: list[tuple[str, float, float, float]] = []

    def note(what: str) -> None:
        peak = _peak()
        phases.append((what, time.perf_counter() - started, time.process_time(), peak))
        print(json.dumps(phases[-1]), flush=True)

    shown = 0.0

    def progress(_: str, done: int, total: int) -> None:
        nonlocal shown
        if done / total >= shown:
            note(f"{done} of {total} files")
            shown = done / total + 0.05

    def named(what: str, call: Any) -> Any:
        def wrapped(*arguments: Any) -> Any:
            note(f"{what}: begins")
            result = call(*arguments)
            note(f"{what}: done")
            return result

        return wrapped

    index.IndexWriter.tidy = named("finishing", index.IndexWriter.tidy)
    (report,) = hub.sync(progress=progress)
    wall, cpu = time.perf_counter() - started, cpu_seconds() - began
    note("end")
    path = hub.index(hub.select()[0]).path
    return {
        "files": report.added, "chunks": report.chunks, "wall": wall, "cpu": cpu, "phases": phases,
        "index_bytes": _size(path), "failed": len(report.failed), "notes": report.notes,
    }  # fmt: skip


def _peak() -> float:
    """Give the most MiB that this process ever had; `getrusage` counts what started it, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def beside(work: Path, names: list[str]) -> dict[str, Any]:
    """Search one base and then another again and again, until told to end; the second one is being indexed."""
    import signal

    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    queries = json.loads((work / "queries.json").read_text("utf-8"))
    other, itself = (_hub(work, [name]) for name in names)
    series = {"other": Series(), "itself": Series()}
    for one in series.values():
        one.round()
    found, number = [], 0
    while not ended.wait(PAUSE):
        query = Query(text=queries[number % len(queries)])
        series["other"].time(lambda q=query: other.search(q))
        with suppress(Exception):  # there is no index yet
            found.append(series["itself"].time(lambda q=query: len(itself.search(q).hits)))
        number += 1
    return {what: one.summary() for what, one in series.items()} | {
        "with_hits": sum(map(bool, found)), "searches": number, "rss": memory_of(os.getpid())["rss"],
    }  # fmt: skip


def measure_search(work: Path, names: list[str]) -> dict[str, Any]:
    """Ask in fresh processes, and by a command."""
    found = {mode: _asked(work, names, "ask", mode) for mode in MODES}
    series = Series()
    series.round()  # of a multiplied index, there are no files, which a command would look for
    queries = json.loads((work / "queries.json").read_text("utf-8"))
    for query in queries[:LOOKS] if any((work / "bases" / names[0]).iterdir()) else ():
        series.time(lambda q=query: run([*KBHUB, "search", q], _stand(work).env(), _project(work, names)))
    return {**found, "command": series.summary()}


def _asked(work: Path, names: list[str], *child: str) -> dict[str, Any]:
    done = run(_child(work, names, *child), _stand(work).env(), work, timeout=20_000)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def ask(work: Path, names: list[str], mode: Mode) -> dict[str, Any]:
    """Ask all queries in one mode."""
    serve_frugally()
    hub = _hub(work, names)
    queries = json.loads((work / "queries.json").read_text("utf-8"))
    first, later = Series(), Series()
    first.round()
    later.round()
    hub.select()
    before = memory_of(os.getpid())["rss"]
    first.time(lambda: hub.search(Query(text=queries[0], mode=mode)))
    once = memory_of(os.getpid())["rss"]
    hits = 0
    for query in queries[1:]:
        hits += bool(later.time(lambda q=query: hub.search(Query(text=q, mode=mode))).hits)
    found = {"first": first.summary(), "later": later.summary(), "with_hits": hits, "queries": len(queries) - 1}
    return found | {"rss_before": before, "rss_once": once, "rss": memory_of(os.getpid())["rss"],
                    "rss_peak": _peak()}  # fmt: skip


def measure_change(work: Path, names: list[str]) -> dict[str, Any]:
    """Compare unchanged files and change one: in a process that only looks, and in a server that watches."""
    return {**_asked(work, names, "look"), "server": _served(work, names)}


def _served(work: Path, names: list[str]) -> dict[str, Any]:
    file = sorted((work / "bases" / names[0] / "0").rglob("*.md"))[-1]
    before, word = file.read_bytes(), "quizzaciously"
    with Server([*KBHUB, "serve"], _stand(work).env(), _project(work, names)) as server:
        server.handshake()
        began, cpu = time.perf_counter(), server.cpu()
        server.call("search", {"query": "how are files listed"})
        first = time.perf_counter() - began, server.cpu() - cpu
        began = time.perf_counter()
        server.rest()
        rested = time.perf_counter() - began, server.cpu(), server.memory()["rss"]
        _replace(file, before + f"\n\nThe {word} was added.\n".encode())
        try:
            began, tries = time.perf_counter(), 0
            asked = {"query": word, "mode": "keyword", "limit": 1}
            while f"{word} was added" not in str(server.call("search", asked)["content"]):
                tries += 1
                time.sleep(0.2)
            seen = time.perf_counter() - began
            changed = server.cpu() - rested[1], server.memory()["rss"]
        finally:
            _replace(file, before)
    return {"first": first, "rested": rested, "seen": seen, "tries": tries, "changed": changed}


def _replace(file: Path, data: bytes) -> None:
    """Write a file anew, as editors do; a hard link of another base stays what it was."""
    new = file.with_name(f".{file.name}.new")
    new.write_bytes(data)
    new.replace(file)


def look(work: Path, names: list[str]) -> dict[str, Any]:
    """Compare a base with its files: the first time in a process, then again, then with one that changed."""
    hub, folder = _hub(work, names), work / "bases" / names[0]
    what = ("times alone", "first", "unchanged", "changed", "changed, named", "search after it")
    series = {one: Series() for one in what}
    for one in series.values():
        one.round()
    files = series["times alone"].time(lambda: _stat(folder))
    series["first"].time(hub.sync)
    for _ in range(2):
        series["times alone"].time(lambda: _stat(folder))
        series["unchanged"].time(hub.sync)
    rss = memory_of(os.getpid())["rss"]
    hub.search(Query(text="warm"))
    every = sorted((folder / "0").rglob("*.md"))
    for number in range(3):
        file, word = every[number * 7], f"quizzacious{number}ly"
        before = file.read_bytes()
        _replace(file, before + f"\n\nThe {word} was added.\n".encode())
        named = number > 0
        path = {names[0]: [file.relative_to(folder).as_posix()]}
        series["changed, named" if named else "changed"].time(
            lambda p=path, n=named: hub.freshen(max_age=0, changed=p if n else None)
        )
        result = series["search after it"].time(lambda w=word: hub.search(Query(text=w)))
        assert result.hits, word
        assert not result.unmatched, word
        _replace(file, before)
        hub.freshen(max_age=0, changed=path)
    peak = _peak()
    return {"files": files, "rss": rss, "rss_peak": peak, **{name: one.summary() for name, one in series.items()}}


def multiplied(work: Path, names: list[str], chunks: str) -> dict[str, Any]:
    """Make an index; see `bench.multiplied`."""
    hub = _hub(work, names)
    target, source = (hub.index(base).path for base in hub.select(names))
    had = _chunks(source)
    return multiply(source, target, -(-int(chunks) // had), report_step) | {"peak": _peak()}


def _chunks(path: Path) -> int:
    with closing(open_reader(path)) as connection:
        return int(connection.execute("SELECT max(id) FROM chunk").get)


CHILDREN = {"build": build, "ask": ask, "beside": beside, "look": look, "multiplied": multiplied}

if __name__ == "__main__":
    main()
