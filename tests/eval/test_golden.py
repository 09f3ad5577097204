"""Search answers questions about a small handbook at least as well as it did when the floors were set.

The handbook is that of a shop that does not exist; `queries.jsonl` says what answers what. A floor lies some .03
below what was measured (see `docs/explanation/ranking.md` for the large sets), so that a lucky change of one rank
does not fail it and a broken signal does. Raise the floors when ranking gets better; never tune to one query.
"""

from dataclasses import replace
from operator import itemgetter
from pathlib import Path

from conftest import make_environment
from kbhub.extensions.lab.corpus import Setup
from kbhub.extensions.lab.datasets import SECTION_MARK, load_dataset
from kbhub.extensions.lab.measurement import Options, evaluate

GOLDEN = Path(__file__).parent

SECTIONS = {"all": 0.89, "keyword": 0.93, "question": 0.78, "vague": 0.84, "identifier": 0.95}
"""Least nDCG@10 of hybrid by stratum, where only the right section counts."""

DOCUMENTS = {"all": 0.89, "keyword": 0.95, "question": 0.78, "vague": 0.86, "identifier": 0.95}
"""The same where the right document is enough."""

NOISE = 0.02
"""nDCG@10 by which hybrid may lie below one of its signals: a rank or two of 34 queries."""

LOSS = 0.005
"""What cutting the corpus into bases may cost in any metric."""

AUC = 0.85
"""Least share of pairs in which an answerable query scores above one without an answer."""


def by_document(dataset):
    """The same queries, answered by whole documents, each worth its best section."""
    queries = []
    for query in dataset.queries:
        worst_first = sorted(query.gold.items(), key=itemgetter(1))
        queries.append(replace(query, gold={name.partition(SECTION_MARK)[0]: gain for name, gain in worst_first}))
    return replace(dataset, name="handbook by document", queries=tuple(queries), sections=None)


def test_the_handbook_is_answered_at_least_as_well_as_before(tmp_path):
    """The second signal adds more than it costs, and splitting knowledge over repositories costs nothing."""
    dataset = load_dataset(GOLDEN)
    options = Options(modes=("naive", "keyword", "semantic", "hybrid"), parts=4)
    setup = Setup(make_environment(tmp_path).env)
    sections, documents = evaluate([dataset, by_document(dataset)], [], options, setup).datasets
    for measured, floors in ((sections, SECTIONS), (documents, DOCUMENTS)):
        runs = {run.name: run for run in measured.runs}
        hybrid, ndcg = runs["hybrid"], {name: run.overall.ndcg10 for name, run in runs.items()}
        found = {"all": ndcg["hybrid"]} | {name: one.ndcg10 for name, one in hybrid.strata.items()}
        lost = {name: one.difference for name, one in runs["hybrid, 4 bases"].comparison.changes.items()}

        assert found.keys() == floors.keys()
        assert {name: value for name, value in found.items() if value < floors[name]} == {}
        assert ndcg["hybrid"] >= max(ndcg["keyword"], ndcg["semantic"]) - NOISE
        assert ndcg["hybrid"] > ndcg["naive"]
        assert hybrid.overall.empty == 0
        assert {name: difference for name, difference in lost.items() if difference < -LOSS} == {}
        if measured is sections:
            assert hybrid.verdicts[0].auc >= AUC
