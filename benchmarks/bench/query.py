"""Queries: warm, by size and mode, beside what the machine and a bare full-text index need for the same."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

import apsw
import numpy as np

from bench.common import report_step
from bench.figures import side_by_side
from kbhub.index.engine import FTS_WEIGHTS
from kbhub.index.query.parser import parse_query
from kbhub.index.sqlite.schema import CACHE_KIB
from kbhub.search.retrieval import semantic_ranking
from kbhub.types import Mode, Query

if TYPE_CHECKING:
    from bench.stand import Stand
    from kbhub.api import Hub

MODES: tuple[Mode, ...] = ("hybrid", "keyword", "semantic")

BITS, DIMENSIONS = 512, 256
"""Sign bits and int8 components of a chunk, as the packaged model has them."""

HITS = 100
"""Rows that a bare full-text query gives: as many as kbhub fuses."""

WARM = 5
"""Queries that are not timed."""

GREPPED = 100_000
"""Chunks up to which `rg` is asked: it takes seconds for more, and says nothing new."""

GREPS = 8
"""Queries of a round that `rg` answers, for it reads every file each time."""

RECALLED = 10

BLOCK = 65_536
"""Vectors compared at a time when all are."""


def measure_queries(stand: Stand, sizes: list[int], rounds: list[list[str]]) -> dict[str, Any]:
    """Time every mode at every size beside its floors, all in turn."""
    cases: dict[str, Callable[[str], Any]] = {}
    for size in sizes:
        name = stand.sized(size)
        index = _index(stand.indexed(name))
        for mode in MODES:
            # Each has a hub of its own: what one learns of a query would make the next mode look faster.
            cases[f"{size} {mode}"] = _search(stand.hub(stand.project(name, name)), mode)
        cases |= {f"{size} {what}": call for what, call in _floors(index, size).items()}
    report_step(f"queries: {len(cases)} cases, {len(rounds)} rounds")
    series = side_by_side(cases, rounds, rounds[0][:WARM])
    if which("rg"):
        greps = {f"{size} rg": _grep(stand.made[f"n{size}"]) for size in sizes if size <= GREPPED}
        series |= side_by_side(greps, [one[:GREPS] for one in rounds], rounds[0][:1])
    return {name: one.summary() for name, one in series.items()}


def measure_bases(stand: Stand, chunks: int, parts: int, rounds: list[list[str]]) -> dict[str, Any]:
    """Time the same documents as one base and as several."""
    names = stand.split(chunks, parts)
    stand.indexed(*names)
    one = stand.sized(chunks)
    stand.indexed(one)
    cases: dict[str, Callable[[str], Any]] = {}
    for mode in MODES:
        cases[f"1 {mode}"] = _search(stand.hub(stand.project(one, one)), mode)
        cases[f"{parts} {mode}"] = _search(stand.hub(stand.project("-".join(names[:2]), *names)), mode)
    report_step(f"{parts} bases against one, {chunks:,} chunks together")
    found = side_by_side(cases, rounds, rounds[0][:WARM])
    return {"chunks": chunks, "parts": parts, "cases": {name: series.summary() for name, series in found.items()}}


def measure_recall(stand: Stand, sizes: list[int], queries: list[str]) -> list[dict[str, Any]]:
    """Say how many of the chunks that are truly nearest the semantic ranking gives."""
    rows = []
    for size in sizes:
        hub = stand.indexed(stand.sized(size))
        index, embedder = hub.index(hub.select()[0]), hub.embedder()
        vectors = np.array([vector for query in queries if (vector := embedder.embed_query(query)).any()])
        ids, stored = _vectors(index.path)
        leasts = _nearest(stored, vectors)[:, 0]
        shares = []
        with index.snapshot():
            for vector, least in zip(vectors, leasts, strict=True):
                near = semantic_ranking([index], vector)
                found = near.compared[np.argsort(-near.similarities)[:RECALLED]]
                values = _similarities(stored[np.searchsorted(ids, found)], vector[None])
                shares.append(float((values >= least - 1e-6).sum()) / RECALLED)
        rows.append({"size": size, "vectors": len(ids), "queries": len(shares), "recall": sum(shares) / len(shares)})
        report_step(f"recall at {size:,}: {rows[-1]['recall']:.3f}")
    return rows


def _index(hub: Hub) -> Path:
    return hub.index(hub.select()[0]).path


def _search(hub: Hub, mode: Mode) -> Callable[[str], Any]:
    return lambda text: hub.search(Query(text=text, mode=mode))


def _floors(index: Path, size: int) -> dict[str, Callable[[str], Any]]:
    connection = apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY)
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}").fetchall()
    weights = ", ".join(map(str, FTS_WEIGHTS))
    statement = (
        f"SELECT rowid, bm25(fts, {weights}) FROM fts WHERE fts MATCH ? ORDER BY bm25(fts, {weights}) LIMIT {HITS}"
    )

    def match(operator: str) -> Callable[[str], Any]:
        def call(text: str) -> Any:
            terms = [term.match for term in parse_query(text).terms]
            return connection.execute(statement, (f" {operator} ".join(terms),)).fetchall() if terms else []

        return call

    random = np.random.default_rng(1)
    bits = random.integers(0, 2**63, (BITS // 64, size), np.uint64)
    int8 = random.integers(0, 2**63, (size, DIMENSIONS // 8), np.uint64)
    word = bits[:, 0].copy()

    def hamming(_: str) -> Any:
        differing = np.zeros(size, np.uint16)
        for words, one in zip(bits, word, strict=True):
            differing += np.bitwise_count(words ^ one)
        return differing

    return {
        "FTS5 OR": match("OR"),
        "FTS5 AND": match("AND"),
        "numpy, Hamming distances": hamming,
        "memory, sign bits": lambda _: np.bitwise_or.reduce(bits, axis=None),
        "memory, int8 vectors": lambda _: np.bitwise_or.reduce(int8, axis=None),
    }


def _grep(folder: Path) -> Callable[[str], Any]:
    def call(text: str) -> Any:
        patterns = [part for term in parse_query(text).terms for part in ("-e", term.text)]
        command = ["rg", "--count-matches", "--ignore-case", "--fixed-strings", "--no-config", *patterns, str(folder)]
        return subprocess.run(command, capture_output=True, check=False).stdout

    return call


def _vectors(path: Path) -> tuple[np.ndarray, np.ndarray]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    rows = connection.execute(
        "SELECT chunk_id, embedding FROM vector WHERE embedding IS NOT NULL ORDER BY chunk_id"
    ).fetchall()
    ids = np.fromiter((chunk for chunk, _ in rows), np.int64, len(rows))
    return ids, np.frombuffer(b"".join(blob for _, blob in rows), np.int8).reshape(len(rows), -1)


def _nearest(stored: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Give the similarities of the `RECALLED` nearest to each vector, the least of them first."""
    best = np.full((len(vectors), RECALLED), -np.inf, np.float32)
    for at in range(0, len(stored), BLOCK):
        both = np.concatenate([best, _similarities(stored[at : at + BLOCK], vectors)], axis=1)
        best = np.partition(both, -RECALLED, axis=1)[:, -RECALLED:]
    return np.sort(best, axis=1)


def _similarities(stored: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Give those of each vector to each stored one, shape (vectors, stored)."""
    floats = stored.astype(np.float32)
    return vectors @ (floats / np.linalg.norm(floats, axis=1, keepdims=True)).T
