"""What was found about the other tools → the measured part of a page, and its plots."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.figures import ratio
from bench.plots import bars, points
from bench.report import MIB, figure, measured_on, spread, table
from bench.rival_quality import REWORDED
from bench.rival_tools import OWN

Results = Mapping[str, Any]

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
"""Between these, the page is made; what is written around them stays."""

CERTAIN = 0.05
"""A difference with a smaller p is marked."""

FIRST = next(iter(OWN))


def write_rivals(results: Results, page: Path, assets: Path) -> None:
    """Write the measured part of the page, and the plots that go with it; nothing without results."""
    found = results.get("rivals")
    if not found:
        return
    text = [*_method(results), *_quality(found), *_servers(found), *_commands(found), *_indexes(found), *_notes(found)]
    if find_spec("matplotlib") is not None:
        link = Path(os.path.relpath(assets, page.parent)).as_posix()
        text += [f"![{alt}]({link}/{file})\n" for file, alt in draw(found, assets)]
    before, after = "# Other tools\n\n", "\n"
    if page.exists():
        old = page.read_text("utf-8")
        before, after = old.partition(BEGIN)[0], old.partition(END)[2]
    page.parent.mkdir(parents=True, exist_ok=True)
    made = "\n".join(text).rstrip()
    page.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{after}", "utf-8", newline="\n")


def _method(results: Results) -> list[str]:
    found = results["rivals"]
    loads = ", ".join(f"{name} {value:.1f}" for name, value in found.get("load", {}).items())
    return [
        "## How it was measured", "",
        f"{measured_on(results)}; `{results['commands']['rivals']}`. {found['files']:,} files, "
        f"{found['text'] / 1e6:.1f} MB of text: {', '.join(sorted(found['vaults']))}, side by side in one folder."
        + (f" Load of the machine before each step: {loads}." if loads else ""), "",
    ]  # fmt: skip


def _named(found: Results, name: str) -> str:
    plain, _, more = name.partition(REWORDED)
    tool = found["tools"][plain]
    return f"{plain} {tool.get('version', '')}".strip() + (REWORDED if name != plain else "") + more


def _working(found: Results, part: str) -> list[tuple[str, Results]]:
    return [(name, one) for name, one in found["tools"].items() if part in one and "wall_p50" in one[part]]


def _quality(found: Results) -> list[str]:
    text = ["## What comes back", ""]
    for one in found.get("quality", []):
        strata = [kind for kind in one["strata"] if kind]
        rows = []
        for name, row in one["tools"].items():
            has, of = one["indexed"].get(name.removesuffix(REWORDED), [0, 0])
            rows.append((
                _named(found, name) + (f" ({has:,} of {of:,} files)" if has < of else ""),
                f"{row['ndcg10']:.3f}" + ("*" if row["p"] is not None and row["p"] < CERTAIN else ""),
                *([f"{row['strata'][kind]:.3f}" for kind in strata] if len(strata) > 1 else []),
                f"{row['recall10']:.3f}", f"{row['hit1']:.3f}", f"{row['mrr10']:.3f}", row["empty"],
            ))  # fmt: skip
        kinds = [f"{kind} ({one['strata'][kind]})" for kind in strata] if len(strata) > 1 else []
        text += [
            f"{one['name']}: {one['questions']} questions, {one['documents']:,} documents.", "",
            *table(("tool", "nDCG@10", *kinds, "recall@10", "first is right", "MRR@10", "no hit"), rows),
        ]  # fmt: skip
    return text


def _servers(found: Results) -> list[str]:
    rows = []
    for name, one in _working(found, "server"):
        server, own = one["server"], found["tools"][one["like"]]["server"]
        rows.append((
            _named(found, name), *(figure(server[f"wall_p{share}"]) for share in (50, 95, 99)),
            spread(ratio(server, own, "wall")), figure(server["cpu_mean"]), figure(server["first"]),
            figure(server["handshake"] * 1000), server["empty"], f"{server['bytes']:,.0f} ({server['most_bytes']:,})",
            f"{server['pss']:.0f} ({server['rss']:.0f})",
        ))  # fmt: skip
    count = next((one["server"]["n"] for _, one in _working(found, "server")), 0)
    return [
        "## A warm server", "",
        f"{count} queries over MCP; milliseconds. Bytes are those of the text of an answer.", "",
        *table(("tool", "wall p50", "p95", "p99", "× kbhub", "CPU, mean", "first search", "start", "no hit",
                "bytes of an answer (most)", "MiB, proportional (resident)"), rows),
    ]  # fmt: skip


def _commands(found: Results) -> list[str]:
    rows = [
        (_named(found, name), figure(one["command"]["wall_p50"]), figure(one["command"]["wall_p95"]),
         spread(ratio(one["command"], found["tools"][one["like"]]["command"], "wall")),
         figure(one["command"]["cpu_p50"]), f"{one['command']['bytes']:,.0f}", one["command"]["n"])
        for name, one in _working(found, "command")
    ]  # fmt: skip
    return [
        "## A command", "", "A new process each time; milliseconds.", "",
        *table(("tool", "wall p50", "p95", "× kbhub", "CPU p50", "bytes of an answer", "n"), rows),
    ]  # fmt: skip


def _indexes(found: Results) -> list[str]:
    rows = []
    for name, one in found["tools"].items():
        if "index" not in one or name in list(OWN)[1:]:
            continue
        index, update = one["index"], one.get("update")
        rows.append((
            _named(found, name), f"{index['files']:,} of {index['of']:,}", "stopped" if index["stopped"] else figure(index["wall"]), figure(index["cpu"]),
            f"{index['bytes'] / MIB:.0f}", "–" if index["stopped"] else f"{index['bytes'] / found['text']:.1f}",
            *((figure(update["wall_p50"] / 1000), figure(update["cpu_p50"] / 1000), f"{update['found']} of {update['of']}")
              if update else ("–", "–", "–")),
        ))  # fmt: skip
    return [
        "## The first index, and one changed file", "",
        "Seconds, and MiB on disk. A changed file: the command that takes it in, and whether it is then found.", "",
        *table(("tool", "files", "first, wall", "CPU", "index, MiB", "× text", "changed, wall", "CPU", "found"), rows),
    ]  # fmt: skip


def _notes(found: Results) -> list[str]:
    notes = [f"- {name}: {one['note']}." for name, one in found["tools"].items() if one["note"] and "failed" not in one]
    failed = [f"- {name}: {one['failed']}." for name, one in found["tools"].items() if "failed" in one]
    return [*notes, "", *(["Not measured:", "", *failed, ""] if failed else [])]


def draw(found: Results, assets: Path) -> list[tuple[str, str]]:
    """Draw the plots; gives file → what it shows."""
    drawn = []
    quality: Sequence[Results] = found.get("quality", [])
    if quality and (asked := _working(found, "server")):
        rows = quality[0]["tools"]
        places = {name: (one["server"]["wall_p50"], rows[name]["ndcg10"]) for name, one in asked if name in rows}
        title = f"Quality on {quality[0]['name']} by time, warm server"
        points(assets / "rivals-quality-time.svg", title, places, ("ms, wall, median", "nDCG@10"))
        drawn.append(("rivals-quality-time.svg", "nDCG@10 of each tool by the milliseconds of a warm search"))
        groups = {
            name: {one["name"]: (value := one["tools"][name]["ndcg10"], value, value) for one in quality}
            for name in rows
            if all(name in one["tools"] for one in quality)
        }
        bars(assets / "rivals-quality.svg", "Quality by collection", groups, "nDCG@10")
        drawn.append(("rivals-quality.svg", "nDCG@10 of each tool on each collection"))
    timed = {
        name: {
            how: (one[key]["wall_p50"], one[key]["wall_low"], one[key]["wall_high"])
            for how, key in (("command, cold", "command"), ("server, warm", "server"))
            if key in one and "wall_p50" in one[key]
        }
        for name, one in found["tools"].items()
        if "failed" not in one
    }
    if timed:
        bars(assets / "rivals.svg", "A search, wall", timed, "ms", logarithmic=True)
        drawn.append(("rivals.svg", "Milliseconds of a search, by command and by server"))
    costs = {
        name: {"first index, CPU": (one["index"]["files"] / one["index"]["cpu"],) * 3}
        for name, one in found["tools"].items()
        if "index" in one and name not in list(OWN)[1:]
    }
    if costs:
        bars(assets / "rivals-index.svg", "First index", costs, "files per second of CPU")
        drawn.append(("rivals-index.svg", "Files that a first index takes in per second of CPU"))
    return drawn
