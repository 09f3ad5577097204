"""Reports of evaluations are kept and shown."""

from __future__ import annotations

import json

from browsers import served
from kbhub.extensions.lab.report import MOST_REPORTS, kept_reports

START = 1_800_000_000


def write_set(folder) -> None:
    """Write a data set in the form of BEIR."""
    (folder / "qrels").mkdir(parents=True)
    texts = {"d1": "A canary goes first.", "d2": "Lunch is soup."}
    rows = (json.dumps({"_id": name, "title": "", "text": text}) for name, text in texts.items())
    (folder / "corpus.jsonl").write_text("\n".join(rows) + "\n")
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "canary"}) + "\n")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")


def test_an_evaluation_is_kept_and_shown(environment, kbhub):
    """On the page, with its figures; a file that is none is passed over."""
    write_set(environment.project / "set")
    kbhub("eval", "set", code=0)
    (kept,) = kept_reports(environment.hub())
    assert kept.report.datasets[0].name == "set"
    folder = next(environment.hub().cache.glob("*/reports"))
    (folder / "2026-01-01T000000Z.json").write_text("{")

    with served(environment) as page:
        text = page.ask("/health", Cookie=page.enter())[2]
    assert "Evaluations" in text
    assert f"{kept.report.datasets[0].runs[0].overall.ndcg10:.3f}" in text
    assert len(kept_reports(environment.hub())) == 1
    assert MOST_REPORTS > 1
