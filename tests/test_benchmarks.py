"""The benchmarks' data maker and report: what `benchmarks/run.py` rests on. Nothing here is about time."""

import importlib
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kbhub.extensions.lab.corpus import Setup
from kbhub.extensions.lab.datasets import load_dataset

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="benchmarks read /proc and resource usage"),
    pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="a source distribution has no benchmarks"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

TOPICS = ("rollback", "gateway", "billing", "parser", "queue", "login")


@pytest.fixture
def bench(monkeypatch):
    """The modules of `benchmarks/bench`, by name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return lambda name: importlib.import_module(f"bench.{name}")


@pytest.fixture
def vault(tmp_path):
    folder = tmp_path / "vault"
    folder.mkdir()
    for number, topic in enumerate(TOPICS):
        sections = "\n\n".join(
            f"## The {topic} of part {part}\n\nThe {topic} service keeps `{topic}_{part}` in mind.\n\n"
            f"Whoever changes the {topic} asks the team{number} first, because part {part} depends on it."
            for part in range(4)
        )
        (folder / f"{topic}.md").write_text(f"# About the {topic}\n\n{sections}\n\n```sh\nrun {topic}\n\n  now\n```\n")
    return folder


@pytest.mark.slow
def test_a_tiny_run_gives_tables_and_plots(bench, vault, monkeypatch, tmp_path):
    monkeypatch.setattr(bench("data"), "FREQUENT", 5)
    stand = bench("stand").open_stand(tmp_path / "work", [vault])
    queries = bench("queries").made_queries(stand.corpus, 24, 12)
    assert len(queries) == len(set(queries)) == 12
    rounds = bench("queries").rounds_of(queries, 2, 6)
    results = {
        "machine": bench("common").machine(), "date": "2026-11-22",
        "commands": {"query": "python benchmarks/run.py vault"},
        "query": bench("query").measure_queries(stand, [24, 48], rounds),
        "recall": bench("query").measure_recall(stand, [24], queries),
    }  # fmt: skip
    assert results["recall"][0]["recall"] == 1  # so few that all are compared
    report, plots = bench("report"), tmp_path / "page" / "plots"
    report.write_report(results, tmp_path / "page" / "benchmarks.md", plots)
    page = (tmp_path / "page" / "benchmarks.md").read_text()
    assert "| 48 | hybrid |" in page
    assert "(plots/query.svg)" in page
    bench("plots").bars(plots / "bars.svg", "Bars", {"a": {"x": (2.0, 1.0, 3.0)}, "b": {"x": (4.0, 4.0, 4.0)}}, "ms")
    for name in ("query.svg", "bars.svg"):
        assert ElementTree.fromstring((plots / name).read_text()).tag.endswith("svg")
    assert bench("report").figure(float("nan")) == "–"


def test_a_broken_bound_is_named_with_its_figure(bench):
    bounds = bench("bounds")
    assert bounds.broken({}) == ([], 0)
    lines, seen = bounds.broken({"recall": [{"recall": 0.5}, {"recall": 0.99}]})
    assert (seen, lines[0].startswith("BROKEN recall@10"), "0.5" in lines[0]) == (1, True, True)


def test_questions_are_asked_without_their_answers(bench, vault, tmp_path):
    """Verdicts tell a base with the answer from the same one without it; nothing of the scratch bases is left."""
    queries = [{"query": f"who keeps `{topic}_2` in mind", "expected": f"{topic}.md"} for topic in TOPICS]
    (vault / "queries.jsonl").write_text("".join(f"{json.dumps(query)}\n" for query in queries))
    setup = Setup({"HOME": str(tmp_path), "KBHUB_CACHE_DIR": str(tmp_path / "cache")})
    (line,) = importlib.import_module("withheld").withhold(load_dataset(vault), ["hybrid"], setup)

    _, documents, mode, auc, strong, *_, strong_without, _, _ = line.split()
    assert (documents, mode) == (str(len(TOPICS)), "hybrid")
    assert float(auc) > 0.5
    assert float(strong_without) < float(strong)
    assert not list((tmp_path / "cache").rglob("without-*"))
