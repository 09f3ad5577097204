"""Reports of evaluations are kept and shown."""

from browsers import served
from kbhub.extensions.lab.report import MOST_REPORTS, kept_reports


def test_an_evaluation_is_kept_and_shown(environment, kbhub):
    (environment.project / "set").mkdir()
    (environment.project / "set" / "a.md").write_text("A canary goes first.\n")
    (environment.project / "set" / "queries.jsonl").write_text('{"query": "canary", "expected": "a.md"}\n')
    kbhub("dev", "eval", "set", code=0)
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
