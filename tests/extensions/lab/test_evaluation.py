"""Data sets are read as they are meant, searched as a user's bases are, and reported."""

import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from kbhub.documents.markdown import parse_document
from kbhub.errors import DatasetError
from kbhub.extensions.lab.corpus import QueryResult
from kbhub.extensions.lab.datasets import EvalQuery, best_answer, headed_sections, load_dataset
from kbhub.extensions.lab.measurement import METRICS, area_under_curve, judge, randomisation_p
from kbhub.extensions.lab.report import read_run, write_run
from kbhub.index.matches import NaiveIndex

HERE = Path(__file__).parent


def jsonl(rows) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


@pytest.fixture
def beir(tmp_path):
    """A small BEIR folder whose ids no file system likes."""
    return shutil.copytree(HERE / "shop", tmp_path / "shop")


@pytest.fixture
def vault(tmp_path):
    """Markdown with sections as answers, and a question that nothing answers."""
    return shutil.copytree(HERE / "vault", tmp_path / "vault")


@pytest.fixture
def evaluate(environment, kbhub):
    """Runs `kbhub dev eval` in this process, for a user who has bases of their own."""
    environment.write("knowledge/noise.md", "# Rolling back\n\nHow do we roll back? Restore invoices.\n")
    return lambda *arguments: kbhub("dev", "eval", *map(str, arguments))


def runs_in(outcome) -> dict[str, dict]:
    return {run["name"]: run for run in outcome.json["datasets"][0]["runs"]}


def test_a_beir_folder_is_read(beir):
    """Titles become headings, judged documents gains; a query that nobody judged is left out and counted."""
    dataset = load_dataset(beir)

    assert [one.id for one in dataset.documents] == ["roll", "A/b c", "a/B C", "con", "dot"]
    assert dataset.documents[0].data == b"# Rolling back\n\nPut the earlier release in place again."
    gold = {query.id: query.gold for query in dataset.queries}
    assert gold == {"q1": {"roll": 2, "con": 1}, "q2": {"con": 1}, "q3": {"A/b c": 1}}
    assert dataset.notes == ("Skipped queries without a relevant document: 1.",)
    assert (dataset.exponential, dataset.sections) == (False, None)
    # Slashes, letters that differ in case only, and names of devices: what any file system takes, and distinct.
    paths = [one.path for one in dataset.documents]
    assert paths[0] == "roll.md"
    assert len({path.lower() for path in paths}) == 5
    assert not any("/" in path or path.startswith("con.") for path in paths)


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("queries.jsonl", '{"_id": "q1", "text": "x"}\n{"_id": \n', r"queries\.jsonl, line 2: is not JSON"),
        ("queries.jsonl", '\n{"_id": "q1"}\n', r"queries\.jsonl, line 2: has no `text`"),
        ("queries.jsonl", '{"_id": "q9", "text": "x"}\n', "no query has a relevant document"),
        ("corpus.jsonl", '{"_id": "a", "text": ""}\n{"_id": "a", "text": ""}\n', r"line 2: the document id 'a' occ"),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\troll\n", r"qrels\.tsv, line 2: expected query-id"),
    ],
)
def test_a_wrong_line_of_a_beir_folder_is_named(beir, file, text, fault):
    (beir / file).write_text(text, "utf-8")
    with pytest.raises(DatasetError, match=fault):
        load_dataset(beir)


def test_a_folder_that_is_no_data_set_is_named_in_full(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, said in ((".", "has no `queries.jsonl`, the file"), ("nosuch", "is not a folder. Name a BEIR folder, ")):
        with pytest.raises(DatasetError, match=re.escape(f"{tmp_path / name} {said}")):
            load_dataset(Path(name))


def test_a_wrong_line_of_a_vault_is_named(vault):
    """An answer that is not there would only look like a bad search."""
    file = vault / "queries.jsonl"
    right = file.read_text("utf-8")
    for row, fault in (
        ({"query": "x", "expected": "nowhere.md"}, "there is no document 'nowhere.md'"),
        ({"query": "x", "expected": "guide.md::Rolling back"}, "there is no section 'Rolling back' in 'guide.md'"),
        ({"query": "x", "expected": [3]}, "`expected` is"),
        ({"id": "s1", "query": "x", "expected": "guide.md"}, "the query id 's1' occurs twice"),
    ):
        file.write_text(f"{right}{json.dumps(row)}\n", "utf-8")
        with pytest.raises(DatasetError, match=rf"queries\.jsonl, line 5: .*{fault}"):
            load_dataset(vault)


def test_the_baseline_finds_any_word_stemmed_and_sections_cover_a_document_in_order():
    """From each heading to the next of any level; a chunk never counts as one that it does not cover."""
    index = NaiveIndex(["rolling back releases", "back", "nothing"])
    assert [number for number, _ in index.rank("release roll", 5)] == [0]
    assert [number for number, _ in index.rank('"back" OR NEAR(', 5)] == [1, 0]
    assert index.rank("?!", 5) == []
    document = parse_document("a.md", b"intro\n\n# One\ntext\n### Deep\n\n## Two\nmore\n# Three\n")
    sections = headed_sections(document)
    gold = {"a.md::One > Two": 2, "a.md::Three": 1}
    assert sections == (("", 1, 2), ("One", 3, 4), ("One > Deep", 5, 6), ("One > Two", 7, 8), ("Three", 9, 9))
    for lines, best in (((3, 9), "One > Two"), ((9, 9), "Three"), ((3, 4), "One")):
        assert best_answer("a.md", sections, lines, gold) == f"a.md::{best}"
    assert best_answer("a.md", sections, (3, 4), {"a.md": 2}) == "a.md"


def test_the_command_reports_every_mode_and_ablations_and_cuts_of_the_main_one(beir, evaluate):
    """Figures per mode, times, and what the run is compared with; the user's own bases take no part."""
    done = evaluate(beir, "--json", "--mode", "naive", "--mode", "keyword", "--mode", "hybrid")
    runs = runs_in(done)
    overall = runs["hybrid"]["overall"]
    assert (done.code, list(runs)) == (0, ["naive", "keyword", "hybrid"])
    assert done.json["datasets"][0]["documents"] == 5
    assert (overall["queries"], overall["hit1"], overall["recall10"], overall["empty"]) == (3, 1.0, 1.0, 0.0)
    assert 0 < overall["p50_ms"] <= overall["p95_ms"]
    assert runs["hybrid"]["comparison"]["other"] == "naive"
    assert set(runs["hybrid"]["comparison"]["changes"]) == set(METRICS)

    # Each is compared with the same mode whole; signals joined by commas are left out together.
    runs = runs_in(evaluate(beir, "--json", "--without", "semantic", "--without", "phrase,title", "--bases", "2"))
    assert {name: (run["comparison"] or {}).get("other") for name, run in runs.items()} == {
        "keyword": None, "semantic": "keyword", "hybrid": "keyword", "hybrid without semantic": "hybrid",
        "hybrid without phrase+title": "hybrid", "hybrid, 2 bases": "hybrid",
    }  # fmt: skip
    assert runs["hybrid without phrase+title"]["without"] == ["phrase", "title"]
    assert runs["hybrid, 2 bases"]["bases"] == 2


def test_sections_and_strata_and_queries_without_an_answer(vault, evaluate):
    """Only the right section counts; the query without an answer is in no figure but the verdicts'."""
    done = evaluate(vault, "--json", "--mode", "hybrid")
    dataset, run = done.json["datasets"][0], runs_in(done)["hybrid"]
    verdicts = run["verdicts"][0]
    assert (done.code, dataset["unit"], dataset["gains"]) == (0, "section", "exponential")
    assert (run["overall"]["queries"], run["overall"]["hit1"]) == (3, 1.0)
    assert {name: one["queries"] for name, one in run["strata"].items()} == {"question": 1, "keyword": 2}
    assert (verdicts["answerable_queries"], verdicts["unanswerable_queries"]) == (3, 1)
    assert 0 <= verdicts["auc"] <= 1


def test_a_run_is_compared_with_an_earlier_one(beir, evaluate, tmp_path):
    """The same run differs by nothing; files of several runs are found by the name they were written under."""
    file = tmp_path / "base.trec"
    modes = ("--mode", "keyword", "--mode", "hybrid")
    assert evaluate(beir, *modes, "--run", file).code == 0
    earlier = {
        name: run["earlier"] for name, run in runs_in(evaluate(beir, *modes, "--compare", file, "--json")).items()
    }
    written = {name: str(tmp_path / f"base.shop.{name}.trec") for name in ("keyword", "hybrid")}
    assert sorted(map(str, tmp_path.glob("base*"))) == sorted(written.values())
    assert {name: one["other"] for name, one in earlier.items()} == written
    changes = [change for one in earlier.values() for change in one["changes"].values()]
    assert {(change["difference"], change["p"]) for change in changes} == {(0.0, 1.0)}


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--compare", "missing.trec"), "missing.trec: does not exist, so hybrid on shop cannot be compared"),
        (("--bases", "50"), "shop has 5 documents, too few to fill 50 bases"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(beir, evaluate, arguments, fault):
    code, out, err = evaluate(beir, "--mode", "hybrid", *(one.format(beir=beir) for one in arguments))
    assert (code, out) == (2, "")
    assert fault in err
    assert err.count("\n") == 1


def test_other_wordings_are_measured_beside_the_query(beir, evaluate):
    queries = {"q1": "undo", "q2": "undo", "q3": "bills"}
    (beir / "queries.jsonl").write_text(jsonl({"_id": name, "text": text} for name, text in queries.items()), "utf-8")
    code, _, errors = evaluate(beir, "--wordings")
    assert (code, "rewordings.jsonl" in errors) == (2, True)
    rows = [{"id": "q1", "queries": ["earlier release"]}, {"id": "q2", "hyde": "Restore the database from the copy."}]
    (beir / "rewordings.jsonl").write_text(jsonl(rows), "utf-8")
    runs = runs_in(evaluate(beir, "--wordings", "--mode", "keyword", "--json"))
    assert list(runs) == ["keyword", "keyword with wordings", "keyword with wordings and passage"]
    alone, worded, both = (run["overall"]["mrr10"] for run in runs.values())
    assert alone < worded < both
    (beir / "rewordings.jsonl").write_text('{"id": "q1", "queries": "one"}\n', "utf-8")
    assert "rewordings.jsonl, line 1: `queries` is not a list of strings" in evaluate(beir, "--wordings")[2]


def test_a_floor_that_is_missed_names_the_run(beir, vault, evaluate):
    """One that is kept changes nothing; unless modes are named it is hybrid's, whatever the others do."""
    kept = evaluate(beir, "--min-ndcg10", "0.5")
    rows = [{"query": "zebra", "expected": "runbooks/backups.md"}, {"query": "card refused", "expected": "guide.md"}]
    (vault / "queries.jsonl").write_text(jsonl(rows), "utf-8")
    missed = evaluate(vault, "--mode", "keyword", "--min-ndcg10", "0.9")
    assert (kept.code, "below" in kept.out, missed.code) == (0, False, 1)
    assert missed.out.splitlines()[-1] == "vault, keyword: nDCG@10 is 0.5000, below 0.9."


def test_figures_worked_by_hand():
    """Relevant a (1), b (2) and c (1), found b at 2 and a at 7 of ten results.

    Of the 2⁵ ways to swap signs of five equal differences, two are as large as the observed: p = 1/16. Of the four
    pairs two are in order, one is tied and one is not.
    """
    ranked = ["x", "b", "y", "z", "v", "w", "a", "u", "t", "s"]
    ideal = 2 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    found = judge(ranked, {"a": 1, "b": 2, "c": 1})
    ndcg5, ndcg10 = (2 / math.log2(3)) / ideal, (2 / math.log2(3) + 1 / math.log2(8)) / ideal
    assert found == pytest.approx((ndcg5, ndcg10, 1 / 3, 2 / 3, 1 / 2, 0, 1, 1, 0, 0))
    first = np.full((5, 1), 0.2)
    assert randomisation_p(first, np.zeros((5, 1)))[0] == pytest.approx(1 / 16, abs=0.01)
    assert area_under_curve(np.array([0.9, 0.4]), np.array([0.4, 0.5])) == (2 + 0.5) / 4


def answer(query, ranked, scores):
    return QueryResult(EvalQuery(query, "", {"a": 1}), dict(zip(ranked, scores, strict=True)), 1.0)


def test_a_run_file_comes_back_as_it_was(tmp_path):
    """Names with spaces, per cent signs and other scripts too, and equal scores keep their order."""
    names = ["b.md::Setup > First run", "100%.md", "ロール　バック.md", "a b\u2028c", "%41"]
    file = tmp_path / "run.trec"
    write_run(file, [answer("q 1", names, [0.5, 0.5, 0.5, 0.1, 0.1])], "hybrid without path")
    lines = [line.split(" ") for line in file.read_text("utf-8").splitlines() if line]
    assert read_run(file) == {"q 1": tuple(names)}
    assert {len(fields) for fields in lines} == {6}
    assert [fields[3] for fields in lines] == list("12345")
    assert {fields[5] for fields in lines} == {"hybrid-without-path"}
    scores = [float(fields[4]) for fields in lines]
    assert scores == sorted(set(scores), reverse=True)


@pytest.mark.parametrize("line", ["q1 Q0 d1 1 0.5", "q1 Q0 d1 one 0.5 x", "query-id\tcorpus-id\tscore"])
def test_a_file_that_is_no_run_file_is_refused_with_its_line(tmp_path, line):
    file = tmp_path / "wrong.run"
    file.write_text(f"q1 Q0 d1 1 0.5 x\n{line}\n", "utf-8")
    with pytest.raises(DatasetError, match=r"wrong\.run, line 2: expected six fields"):
        read_run(file)
