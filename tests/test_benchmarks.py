"""The bounds that `benchmarks/run.py` keeps. Nothing here is about time."""

import importlib
import sys
from pathlib import Path

import pytest

from kbhub.extensions.lab.measurement import METRICS

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="benchmarks read /proc and resource usage"),
    pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="a source distribution has no benchmarks"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def bench(monkeypatch):
    """The modules of `benchmarks/bench`, by name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return lambda name: importlib.import_module(f"bench.{name}")


def test_a_broken_bound_is_named_with_its_figure(bench):
    bounds = bench("bounds")
    assert bounds.broken({}) == ([], 0)
    lines, seen = bounds.broken({"recall": [{"recall": 0.5}, {"recall": 0.99}]})
    assert (seen, lines[0].startswith("BROKEN recall@10"), "0.5" in lines[0]) == (1, True, True)


def test_each_question_of_longmemeval_is_asked_of_its_own_sessions(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    found = importlib.import_module("longmemeval").figures(Path(__file__).with_name("longmemeval.json"))
    any5, all5 = METRICS.index("recall_any5"), METRICS.index("recall_all5")
    assert [(rows[0][any5], rows[0][all5]) for kind, rows in found.items() if kind != "all"] == [(1, 1), (1, 1), (1, 0)]
    assert len(found["all"]) == 3
