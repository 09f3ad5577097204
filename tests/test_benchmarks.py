"""The benchmarks' data maker and report: what `benchmarks/run.py` rests on. Nothing here is about time."""

import importlib
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

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


@pytest.fixture
def stand(bench, tmp_path, vault, monkeypatch):
    monkeypatch.setattr(bench("data"), "FREQUENT", 5)
    return bench("stand").open_stand(tmp_path / "work", [vault])


def chunks_of(bench, folder):
    data = bench("data")
    return [
        chunk.text
        for file in sorted(folder.rglob("*.md"))
        for chunk in data.chunk_document(data.parse_document(file.name, file.read_bytes()))
    ]


def test_a_base_has_the_size_asked_for_and_no_chunk_twice(bench, stand):
    wanted = 3 * sum(source.chunks for source in stand.corpus.sources)
    texts = chunks_of(bench, stand.made[stand.sized(wanted)])
    assert abs(len(texts) - wanted) <= 0.1 * wanted
    assert max(Counter(texts).values()) == 1


def test_the_first_round_is_the_vault_itself_and_the_vocabulary_grows_after_it(bench, stand, vault):
    data = bench("data")
    size = sum(source.chunks for source in stand.corpus.sources)
    first = dict(data.documents(stand.corpus, size))
    assert {name.split("/", 2)[2]: text for name, text in first.items()} == {
        file.name: file.read_text() for file in vault.glob("*.md")
    }
    assert (
        data.vocabulary(text for _, text in data.documents(stand.corpus, 4 * size))[0]
        > data.vocabulary(first.values())[0]
    )


def test_parts_share_out_the_very_documents_of_the_whole(stand):
    whole = stand.made[stand.sized(40)]
    parts = [stand.made[name] for name in stand.split(40, 3)]
    files = [{file.relative_to(one).as_posix() for file in one.rglob("*.md")} for one in (whole, *parts)]
    assert files[0] == set.union(*files[1:])
    assert len(files[0]) == sum(map(len, files[1:]))


@pytest.mark.slow
def test_a_tiny_run_gives_tables_and_plots(bench, stand, tmp_path):
    queries = bench("queries").made_queries(stand.corpus, 24, 12)
    assert len(queries) == len(set(queries)) == 12
    rounds = bench("queries").rounds_of(queries, 2, 6)
    results = {
        "machine": bench("common").machine(),
        "date": "2026-11-22",
        "commands": {"query": "python benchmarks/run.py vault"},
        "query": bench("query").measure_queries(stand, [24, 48], rounds),
        "recall": bench("query").measure_recall(stand, [24], queries),
    }
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
    assert seen == 1
    assert lines[0].startswith("BROKEN recall@10")
    assert "0.5" in lines[0]
