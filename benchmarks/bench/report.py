"""Results → a page of tables and plots."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.figures import middle, ratio
from bench.plots import Spread, bars, lines

Results = Mapping[str, Any]

FLOORS = (
    ("keyword", "FTS5 OR", "keyword / bare FTS5, OR"),
    ("hybrid", "FTS5 OR", "hybrid / bare FTS5, OR"),
    ("semantic", "numpy, Hamming distances", "semantic / Hamming distances"),
    ("semantic", "memory, int8 vectors", "semantic / reading the int8 vectors"),
    ("hybrid", "memory, sign bits", "hybrid / reading the sign bits"),
    ("hybrid", "rg", "hybrid / `rg`"),
)
"""Ours, what it is held against, and how the row is called."""

ORDER = (
    "hybrid", "keyword", "semantic", "FTS5 OR", "FTS5 AND", "numpy, Hamming distances", "memory, sign bits",
    "memory, int8 vectors", "rg",
)  # fmt: skip

MIB = 2**20


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Give the lines of a Markdown table, and an empty one."""
    return [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(map(str, row))} |" for row in rows),
        "",
    ]


def figure(value: float) -> str:
    """Give a number with three digits that count."""
    if value != value:
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def spread(found: Spread) -> str:
    """Give a value with its lowest and highest."""
    return f"{figure(found[0])} ({figure(found[1])}–{figure(found[2])})"


def write_report(results: Results, page: Path, assets: Path) -> None:
    """Write the page and the plots that go with it."""
    link = Path(os.path.relpath(assets, page.parent)).as_posix()
    drawn = find_spec("matplotlib") is not None
    text = [*_method(results)]
    for name, (write, draw) in PARTS.items():
        if results.get(name):
            text += write(results[name])
            if drawn:
                text += [f"![{alt}]({link}/{file})\n" for file, alt in draw(results[name], assets)]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(text).rstrip() + "\n", "utf-8", newline="\n")


def measured_on(results: Results) -> str:
    """Say when and on what was measured."""
    machine = results["machine"]
    parts = ", ".join(part for part in (f"{machine['cores']} cores", machine["processor"], machine["memory"]) if part)
    return f"Measured on {results['date']}; {parts}, {machine['system']}, Python {machine['python']}"


def _method(results: Results) -> list[str]:
    by: dict[str, list[str]] = {}
    for name, command in results["commands"].items():
        if name == "rivals":
            continue  # they have a page of their own
        by.setdefault(command, []).append(name)
    commands = "; ".join(f"{', '.join(names)} with `{command}`" for command, names in by.items())
    loads = ", ".join(f"{name} {value:.1f}" for name, value in results.get("load", {}).items() if name != "rivals")
    return [
        "# Benchmarks",
        "",
        f"{measured_on(results)}; {commands}.",
        "",
        "Things that are compared are measured in one run, in turn: forwards in one round, backwards in the next. CPU is "
        "that of the process (for commands, also of the children they wait for) and hardly depends on what else runs; "
        "wall time does. A ratio is the median of the rounds' ratios, with the lowest and the highest in brackets. "
        "Machines differ and are noisy, so compare within a table.",
        "",
        *([f"Load of the machine when each part began (other work ran beside it): {loads}.", ""] if loads else []),
        "To run it: `python benchmarks/run.py VAULT… --quick --work DIR` (20,000 and 100,000 chunks; more sizes without "
        "`--quick`, up to 1,000,000 with `--full`). `--only query,index,start,memory,rivals` runs some parts "
        "([other tools](rivals.md), a [soak test](soak.md) and [readers during writes](readers.md) have their own pages), "
        "`--queries FILE…` adds questions, `--check` exits with 1 if a figure exceeds its limit "
        "(`benchmarks/bench/bounds.py` has them, with reasons), and "
        "`--write` writes the pages (their plots need the dependency group `bench`). Files in DIR are reused.",
        "",
        "The data are real vaults of Markdown (design documents, proposals, cheat sheets in four languages), first as they "
        "are and then reworded: frequent words stay; the others are replaced, consistently within a round, by real words "
        "that are about as frequent or by new ones. Paragraphs move between documents, and headings get new words. So the "
        "vocabulary and the document frequencies grow as in real text, and no two chunks are alike. Queries are "
        "questions built from headings, two to four words of one text, names of code, and, if given, questions that "
        "people wrote. Each round has its own, so a warm process sees every query for the first time.",
        "",
    ]


def _sizes(cases: Results) -> list[int]:
    return sorted({int(name.split()[0]) for name in cases})


def _query(cases: Results) -> list[str]:
    rows, ratios = [], []
    for size in _sizes(cases):
        known = [(what, cases[f"{size} {what}"]) for what in ORDER if f"{size} {what}" in cases]
        rows += [
            (
                f"{size:,}", what, figure(one["cpu_p50"]), figure(one["cpu_p95"]), figure(one["cpu_p99"]),
                f"{figure(one['cpu_low'])}–{figure(one['cpu_high'])}", figure(one["wall_p50"]),
                figure(one["wall_p95"]), figure(one["wall_p99"]), f"{one['n']:,}",
            )
            for what, one in known
        ]  # fmt: skip
    for ours, floor, name in FLOORS:
        row = [name]
        for size in _sizes(cases):
            one, other = cases.get(f"{size} {ours}"), cases.get(f"{size} {floor}")
            row.append(spread(ratio(one, other, "wall" if floor == "rg" else "cpu")) if one and other else "–")
        ratios.append(row)
    return [
        "## Queries, warm", "",
        "Milliseconds, one process, one base, the search itself. The baselines: the same terms in a bare FTS5 on the same "
        "index, best 100 by BM25; reading as many bytes as there are sign bits (64 per chunk) and int8 vectors (256 per "
        "chunk) once from memory; the distances to all sign bits in numpy; `rg` over the files.", "",
        *table(("chunks", "what", "CPU p50", "p95", "p99", "medians of rounds", "wall p50", "p95", "p99", "n"), rows),
        *table(("CPU ratio (`rg`: wall)", *(f"{size:,} chunks" for size in _sizes(cases))), ratios),
    ]  # fmt: skip


def _draw_query(cases: Results, assets: Path) -> list[tuple[str, str]]:
    series = {
        what: points
        for what in ORDER
        if (
            points := [
                (size, cases[f"{size} {what}"]["cpu_p50"]) for size in _sizes(cases) if f"{size} {what}" in cases
            ]
        )
    }
    lines(assets / "query.svg", "A query, CPU, median", series, ("chunks", "ms"))
    return [("query.svg", "CPU per query by size of the base, with the baselines")]


def _bases(found: Results) -> list[str]:
    cases, parts = found["cases"], found["parts"]
    rows = [
        (mode, figure(cases[f"1 {mode}"]["cpu_p50"]), figure(cases[f"{parts} {mode}"]["cpu_p50"]),
         spread(ratio(cases[f"{parts} {mode}"], cases[f"1 {mode}"])))
        for mode in ("hybrid", "keyword", "semantic")
    ]  # fmt: skip
    return [
        "## Several bases", "",
        f"The same documents, {found['chunks']:,} chunks, as one base and as {parts}; CPU p50, ms.", "",
        *table(("mode", "one base", f"{parts} bases", "ratio"), rows),
    ]  # fmt: skip


def _recall(rows: Sequence[Results]) -> list[str]:
    return [
        "## Recall of the semantic candidates", "",
        "The share of the ten chunks with the truly nearest int8 vectors (every vector compared) that the search finds; "
        "the packaged model. The first size is the vaults as they are. Up to 250 chunks, all are compared: what is "
        "missing there is due to the query's vector, which the search also rounds to int8.", "",
        *table(("chunks with a vector", "queries", "recall@10"),
               [(f"{row['vectors']:,}", row["queries"], f"{row['recall']:.3f}") for row in rows]),
    ]  # fmt: skip


def _index(found: Results) -> list[str]:
    text = ["## Indexing", ""]
    for build in found["builds"]:
        rows = []
        floor = build["cases"]["parsing and embedding alone, all cores"]
        for kind, taken in build["cases"].items():
            wall, cpu = middle(taken["wall"]), middle(taken["cpu"])
            rows.append((
                kind, figure(build["files"] / wall), figure(build["chunks"] / wall), figure(build["bytes"] / 1e6 / wall),
                f"{figure(build['chunks'] / cpu)} ({figure(build['chunks'] / max(taken['cpu']))}–"
                f"{figure(build['chunks'] / min(taken['cpu']))})",
                *(_share(floor[what], taken[what]) for what in ("wall", "cpu")),
            ))  # fmt: skip
        memory = build.get("memory")
        weight = f" At most {memory['main']:.0f} MiB, {memory['all']:.0f} with its workers." if memory else ""
        text += [
            f"A first build of {build['vault']}: {build['files']:,} files, {build['bytes'] / 1e6:.1f} MB, "
            f"{build['chunks']:,} chunks; {build['index_bytes'] / build['chunks']:,.0f} bytes of index per chunk. Each in "
            f"a fresh process, {_rounds(len(floor['cpu']))}.{weight}", "",
            *table(("what", "files/s", "chunks/s", "MB/s", "chunks per CPU second",
                    "rate, of parsing and embedding alone on all cores, wall", "the same, CPU"), rows),
        ]  # fmt: skip
    rows = [
        (f"{one['files']:,}", what, figure(case["wall_p50"]), figure(case["wall_p95"]), figure(case["cpu_p50"]))
        for one in found["changes"]
        for what, case in one["cases"].items()
    ]
    weighed = [
        (
            f"{one['chunks']:,}",
            f"{one['files']:,}",
            f"{one['text'] / 1e6:.1f}",
            f"{one['bytes'] / 1e6:.1f}",
            figure(one["bytes"] / one["chunks"]),
        )
        for one in found["sizes"]
    ]
    return [
        *text, "Files that did not change, and one that did (searched for by a word that nothing else has), ms:", "",
        *table(("files", "what", "wall p50", "p95", "CPU p50"), rows),
        *(table(("chunks", "files", "text, MB", "index, MB", "bytes per chunk"), weighed) if weighed else []),
    ]  # fmt: skip


def _share(floor: Sequence[float], taken: Sequence[float]) -> str:
    shares = [least / took for least, took in zip(floor, taken, strict=True)]
    return spread((middle(shares), min(shares), max(shares)))


def _rounds(count: int) -> str:
    return "one round" if count == 1 else f"{count} rounds"


def _draw_index(found: Results, assets: Path) -> list[tuple[str, str]]:
    groups: dict[str, dict[str, Spread]] = {}
    for build in found["builds"]:
        for kind, taken in build["cases"].items():
            rates = [build["chunks"] / wall for wall in taken["wall"]]
            groups.setdefault(kind, {})[build["vault"]] = (middle(rates), min(rates), max(rates))
    bars(assets / "index.svg", "First build beside its parts, wall", groups, "chunks a second")
    return [("index.svg", "Chunks a second of a first build and of its parts alone")]


def _start(found: Results) -> list[str]:
    cases = found["cases"]
    pairs = (
        ("kbhub serve, handshake", "bare server, handshake"),
        ("kbhub serve, list of tools", "bare server, list of tools"),
        ("kbhub --help", "python -c pass"),
        ("kbhub search", "python, numpy and apsw"),
        ("kbhub search --mode keyword", "python, numpy and apsw"),
    )
    more = [
        (one, other, f"{figure(cases[one]['wall_p50'] - cases[other]['wall_p50'])}",
         spread(ratio(cases[one], cases[other], "wall")))
        for one, other in pairs
    ]  # fmt: skip
    rows = [
        (name, figure(one["wall_p50"]), figure(one["wall_p95"]), f"{figure(one['wall_low'])}–{figure(one['wall_high'])}",
         figure(one["cpu_p50"]), one["n"])
        for name, one in cases.items()
    ]  # fmt: skip
    return [
        "## Start", "",
        f"Fresh processes, files in the system's cache, byte-compiled; a base of {found['size']:,} chunks. ms.", "",
        *table(("what", "wall p50", "p95", "lowest–highest", "CPU p50", "n"), rows),
        *table(("what", "compared with", "more, ms", "ratio, wall"), more),
    ]  # fmt: skip


def _draw_start(found: Results, assets: Path) -> list[tuple[str, str]]:
    groups = {
        name: {"wall": (one["wall_p50"], one["wall_low"], one["wall_high"])} for name, one in found["cases"].items()
    }
    bars(assets / "start.svg", "Start, wall", groups, "ms")
    return [("start.svg", "Milliseconds to start, next to the baselines")]


def _memory(found: Results) -> list[str]:
    bare = found["bare_rss"]
    rows = [
        (f"{one['size']:,}", f"{one['idle_rss']:.1f}", f"{one['idle_rss'] / bare:.2f}", f"{one['idle_pss']:.1f}",
         f"{one['words_rss']:.1f}", f"{one['first_rss']:.1f}", f"{one['after_rss']:.1f}", f"{one['after_pss']:.1f}", f"{one['after_private']:.1f}")
        for one in found["rows"]
    ]  # fmt: skip
    growth, sharing, per_chunk = found["growth"], found["sharing"], found["bytes_per_chunk"]
    return [
        "## Memory", "",
        f"MiB of `kbhub serve`; a bare server of the SDK has {bare:.1f} resident ({found['bare_pss']:.1f} proportional). "
        "Idle: it has sent its tools, compared the base with its files, and gets no calls. Then: after `status` and "
        "a search by words, after a first search by meaning and words, and after 20 more.",
        "",
        *table(("chunks", "idle, resident", "× bare", "idle, proportional", "a search by words, resident",
                "first semantic query, resident", "20 more, resident", "proportional", "private"), rows),
        *([f"Per chunk, private, between the smallest and the largest base: {figure(per_chunk)} bytes."] if per_chunk else []),
        f"{sharing['servers']} servers on one base that have each answered: {sharing['rss']:.1f} resident, "
        f"{sharing['pss']:.1f} proportional, {sharing['private']:.1f} private each.",
        f"Over {growth['queries']:,} queries at {growth['size']:,} chunks: from {growth['readings'][0][1]:.1f} (after "
        f"{growth['readings'][0][0]:,}) to {growth['readings'][-1][1]:.1f} MiB, {growth['times']:.3f} ×, "
        f"{growth['bytes_per_query']:.0f} bytes per query.", "",
    ]  # fmt: skip


def _draw_memory(found: Results, assets: Path) -> list[tuple[str, str]]:
    points = [tuple(one) for one in found["growth"]["readings"]]
    lines(
        assets / "memory.svg",
        "Resident memory over many queries",
        {"kbhub serve": points},
        ("queries", "MiB"),
        logarithmic=False,
    )
    return [("memory.svg", "Resident memory of a server over many queries")]


def _undrawn(*_: object) -> list[tuple[str, str]]:
    return []


PARTS = {
    "query": (_query, _draw_query),
    "bases": (_bases, _undrawn),
    "recall": (_recall, _undrawn),
    "index": (_index, _draw_index),
    "start": (_start, _draw_start),
    "memory": (_memory, _draw_memory),
}
"""Part of the results → how it is written, and drawn."""
