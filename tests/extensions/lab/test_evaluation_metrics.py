"""The figures are the standard ones, a difference is judged fairly, and run files are those of the field."""

import math

import numpy as np
import pytest

from kbhub.errors import DatasetError
from kbhub.extensions.lab.corpus import QueryResult
from kbhub.extensions.lab.datasets import EvalQuery
from kbhub.extensions.lab.measurement import area_under_curve, judge, randomisation_p
from kbhub.extensions.lab.report import read_run, write_run


def test_figures_worked_by_hand():
    """Relevant a (1), b (2) and c (1), found b at 2 and a at 7 of ten results."""
    ranked = ["x", "b", "y", "z", "v", "w", "a", "u", "t", "s"]
    ideal = 2 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)

    found = judge(ranked, {"a": 1, "b": 2, "c": 1})

    ndcg5, ndcg10 = (2 / math.log2(3)) / ideal, (2 / math.log2(3) + 1 / math.log2(8)) / ideal
    assert found == pytest.approx((ndcg5, ndcg10, 1 / 3, 2 / 3, 1 / 2, 0, 1, 1, 0, 0))


def test_the_test_gives_the_exact_p_of_a_small_case():
    """Of the 2⁵ ways to swap signs of five equal differences, two are as large as the observed: p = 1/16."""
    first = np.full((5, 1), 0.2)

    assert randomisation_p(first, np.zeros((5, 1)))[0] == pytest.approx(1 / 16, abs=0.01)


def test_the_area_under_the_curve_counts_pairs():
    """Of the four pairs two are in order, one is tied and one is not."""
    assert area_under_curve(np.array([0.9, 0.4]), np.array([0.4, 0.5])) == (2 + 0.5) / 4


def answer(query, ranked, scores):
    return QueryResult(EvalQuery(query, "", {"a": 1}), tuple(ranked), tuple(scores), 1.0)


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


def test_a_run_file_of_another_tool_is_read(tmp_path):
    file = tmp_path / "other.run"
    file.write_text("q1\tQ0\td2\t2\t3.5\tx\n\nq2 Q0 d1 1 1 x\nq1 Q0 d1 1 9 x\nq1 Q0 d0 3 -1e3 x\n", "utf-8")

    assert read_run(file) == {"q1": ("d1", "d2", "d0"), "q2": ("d1",)}


@pytest.mark.parametrize("line", ["q1 Q0 d1 1 0.5", "q1 Q0 d1 one 0.5 x", "query-id\tcorpus-id\tscore"])
def test_a_file_that_is_no_run_file_is_refused_with_its_line(tmp_path, line):
    file = tmp_path / "wrong.run"
    file.write_text(f"q1 Q0 d1 1 0.5 x\n{line}\n", "utf-8")

    with pytest.raises(DatasetError, match=r"wrong\.run, line 2: expected six fields"):
        read_run(file)
