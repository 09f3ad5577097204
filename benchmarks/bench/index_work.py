"""One piece of indexing work in a fresh process: `python index_work.py WHAT FOLDER [--cores N]`; prints JSON.

`build` makes an index as `kbhub admin index` does; the other kinds do one part of it alone: `parse` reads, parses and cuts
the files, `embed` gives the chunks' texts to model2vec, `vectors` to kbhub's embedder. `read` parses and embeds in a
process a core, each its share of the files: what is left of a first build if writing took no time.
"""

# ruff: noqa: E402 - before numpy is imported
from __future__ import annotations

import os

from kbhub.workspace.child_processes import be_frugal

be_frugal(os.environ)  # as every process of kbhub does first; with the threads of numpy, none could be forked

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.common import environment
from bench.figures import cpu_seconds
from kbhub.api import Hub
from kbhub.documents.chunking import chunk_document
from kbhub.documents.markdown import parse_document
from kbhub.hub import HubOptions
from kbhub.models.embedding import PACKAGED_MODEL, open_embedder
from kbhub.sync.indexer import embedded_text

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue
    from multiprocessing.synchronize import Barrier

BATCH = 512
"""Texts that are embedded at a time."""

PATIENCE = 600
"""Seconds after which a process that others wait for is taken for dead."""


def build(folder: Path) -> dict[str, float]:
    """Make an index of a folder in a new cache."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name).resolve()
        (home / ".git").mkdir()
        hub = Hub(HubOptions(env=environment(home, home), home=home, cwd=home, bases={"all": folder}))
        hub.embedder().embed(["warm"])
        cpu, wall = cpu_seconds(), time.perf_counter()
        (report,) = hub.sync(["all"])
        wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
        index = hub.index(hub.select(["all"])[0]).path
        size = sum(path.stat().st_size for path in index.parent.glob(f"{index.stem}*"))
    return {"wall": wall, "cpu": cpu, "files": report.added, "chunks": report.chunks, "index_bytes": size}


def read(folder: Path, cores: int) -> dict[str, float]:
    """Parse and embed all files in so many processes at once, from when all of them are ready."""
    fresh = multiprocessing.get_context("spawn")
    ready, took = fresh.Barrier(cores + 1), fresh.SimpleQueue()
    shares = [fresh.Process(target=_share, args=(folder, number, cores, ready, took)) for number in range(cores)]
    for one in shares:
        one.start()
    ready.wait(PATIENCE)
    wall = time.perf_counter()
    ready.wait(PATIENCE)
    wall = time.perf_counter() - wall
    for one in shares:
        one.join(PATIENCE)
    return {"wall": wall, "cpu": sum(took.get() for _ in shares)}


def _share(folder: Path, number: int, of: int, ready: Barrier, took: SimpleQueue[float]) -> None:
    embed(["warm"], "vectors")
    ready.wait(PATIENCE)
    cpu = cpu_seconds()
    _, texts = parse(folder, number, of)
    embed(texts, "vectors")
    ready.wait(PATIENCE)
    took.put(cpu_seconds() - cpu)


def parse(folder: Path, number: int = 0, of: int = 1) -> tuple[dict[str, float], list[str]]:
    """Read, parse and cut all files or one of several shares; gives the texts that would be embedded, too."""
    texts = []
    cpu, wall = cpu_seconds(), time.perf_counter()
    files = sorted(folder.rglob("*.md"))[number::of]
    for file in files:
        document = parse_document(file.name, file.read_bytes())
        texts += [embedded_text(document.title, "document", chunk) for chunk in chunk_document(document)]
    return {
        "wall": time.perf_counter() - wall,
        "cpu": cpu_seconds() - cpu,
        "files": len(files),
        "chunks": len(texts),
    }, texts


def embed(texts: list[str], what: str) -> dict[str, float]:
    """Make the vectors of texts, with model2vec itself or with what kbhub uses."""
    if what == "embed":
        from model2vec import StaticModel

        model = StaticModel.from_pretrained(str(PACKAGED_MODEL), max_length=None)

        def call(some: list[str]) -> object:
            return model.encode(some, max_length=None, use_multiprocessing=False)
    else:
        call = open_embedder(None, None, {}).embed
    call(texts[:8])
    cpu, wall = cpu_seconds(), time.perf_counter()
    for at in range(0, len(texts), BATCH):
        call(texts[at : at + BATCH])
    return {"wall": time.perf_counter() - wall, "cpu": cpu_seconds() - cpu, "chunks": len(texts)}


def main() -> None:
    """Do the work and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("build", "read", "parse", "embed", "vectors"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cores", type=int, default=0, help="how many may be used; all by default")
    arguments = parser.parse_args()
    if arguments.cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])
    if arguments.what == "build":
        found = build(arguments.folder)
    elif arguments.what == "read":
        found = read(arguments.folder, len(os.sched_getaffinity(0)))
    else:
        parsed, texts = parse(arguments.folder)
        found = parsed if arguments.what == "parse" else embed(texts, arguments.what)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
