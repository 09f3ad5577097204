"""The bounds that `benchmarks/run.py` keeps. Nothing here is about time."""

import importlib
import sys
from pathlib import Path

import pytest

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
