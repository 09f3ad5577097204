"""What is read out of other tools' answers, and how it is judged: what the page on other tools rests on."""

import importlib
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="benchmarks read /proc and resource usage"),
    pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="a source distribution has no benchmarks"),
]


@pytest.fixture
def bench(monkeypatch):
    """The modules of `benchmarks/bench`, by name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return lambda name: importlib.import_module(f"bench.{name}")


def said(text: str, **more):
    return {"content": [{"type": "text", "text": text}], "isError": False, **more}


KBHUB = """Hits 1-2 of 8 for "metric names" in bench (hybrid)

1. bench@eips/eip-2159.md:43-60 \u00b7 "Metrics" \u00b7 0.96 \u00b7 also lines 1-14
```
2. bench@not/a-hit.md, said by the text itself? No: it is quoted, and this line has no number of lines.
```
2. bench@notes/Plan B.md:1-3 \u00b7 "Plan" \u00b7 0.19
   > See bench@eips/eip-1.md:1-2.

To open another hit: read(refs="bench@eips/eip-1.md:150-170"); same for every ref above."""

BASIC_MEMORY = """# Search Results: metric names
*project: bench*

### Metrics
- permalink: bench/eips/eip-2159
- score: -5.72

### An observation in it
- permalink: bench/eips/eip-2159/observations/decision/use-names

---
*2 results | page 1*"""


def test_hits_are_read_out_of_the_answers_of_each_tool(bench):
    tools = bench("rival_tools")
    mdvault = {"results": [{"file_path": "vaults/eips/eip-1.md"}, {"file_path": "vaults/tldr/pages.zh/tar.md"}]}
    qmd = {"results": [{"file": "bench/eips/eip-2159.md"}, {"file": "qmd://bench/tldr/pages-zh/tar.md"}]}
    semble = {"results": [{"file_path": "eips/eip-1.md"}, {"file_path": "eips/eip-1.md"}]}
    assert tools.mdvault_paths(said(json.dumps(mdvault))) == ["eips/eip-1.md", "tldr/pages.zh/tar.md"]
    assert tools.qmd_paths(said("Found 2", structuredContent=qmd)) == ["eips/eip-2159.md", "tldr/pages-zh/tar.md"]
    assert tools.semble_paths(said(json.dumps(semble))) == ["eips/eip-1.md", "eips/eip-1.md"]
    assert tools.semble_paths(said(json.dumps({"error": "No results found."}))) == []
    assert tools.basic_memory_paths(said(BASIC_MEMORY))[0] == "eips/eip-2159"
    assert tools.kbhub_paths(said(KBHUB)) == ["eips/eip-2159.md", "notes/Plan B.md"]


def test_words_with_a_hyphen_are_asked_for_and_not_excluded(bench):
    quoted = bench("rival_tools").qmd_query
    assert quoted("why does --type all skip my well-known file") == 'why does "--type" all skip my well-known file'
    assert quoted("--hidden") == '"--hidden"'


def test_slugs_and_paths_are_one_document_that_counts_once(bench):
    tools = bench("rival_tools")
    known = {tools.key(path): path for path in ("tldr/pages.zh/git_log.md", "eips/eip-1.md")}
    named = ["eips/eip-1", "tldr/pages-zh/git-log.md", "tldr/pages.zh/git_log.md", "EIPS/EIP-1.md", "other.md"]
    assert tools.ranking(named, known) == ["eips/eip-1.md", "tldr/pages.zh/git_log.md", "other.md"]


def test_tools_are_judged_by_document_and_kind(bench):
    quality = bench("rival_quality")
    query = bench("rival_quality").EvalQuery
    questions = [
        query("1", "one", {"a.md::Top > Part": 2, "a.md": 1}, "keyword"),
        query("2", "two", {"b.md": 2}, "vague"),
    ]
    golds = [quality.gold_of(one, {"a.md": "vault/a.md", "b.md": "vault/b.md"}) for one in questions]
    assert golds == [{"vault/a.md": 2}, {"vault/b.md": 2}]
    asked = {
        "good": quality.Rankings([["vault/a.md"], ["vault/c.md", "vault/b.md"]]),
        "bad": quality.Rankings([["vault/a.md"], []], failed=1),
    }
    rows = quality.figures_of(asked, questions, golds, exponential=True)
    assert rows["good"]["strata"]["keyword"] == 1
    assert 0 < rows["good"]["strata"]["vague"] < 1
    assert (rows["good"]["empty"], rows["good"]["p"]) == (0, None)
    assert rows["bad"] | {"empty": 1, "failed": 1, "hit1": 0.5, "ndcg10": 0.5} == rows["bad"]
