"""Tables of evaluations, for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kbhub.extensions.lab.report import (
    Comparison,
    DatasetFigures,
    EvalReport,
    Figures,
    RunFigures,
    Verdicts,
)
from kbhub.render.terminal import table, visible_line
from kbhub.values import counted

HEADS = {
    "ndcg5": "nDCG@5",
    "ndcg10": "nDCG@10",
    "recall5": "recall@5",
    "recall10": "recall@10",
    "mrr10": "MRR@10",
    "hit1": "hit@1",
}
"""Metric → column heading."""

EVIDENCE_HEADS = {"recall_any5": "any@5", "recall_any10": "any@10", "recall_all5": "all@5", "recall_all10": "all@10"}
"""The same for metrics that differ from recall where a query has several relevant documents."""

SIGNIFICANT = 0.05
"""p-value below which a difference is marked with a star."""

FELL_BACK = "only part of this mode could run for {} of the queries, which have no vector."
_TIMES = ("empty", "p50 ms", "p95 ms")
_CHANGE = "Δ nDCG@10"


def evaluation_text(report: EvalReport) -> str:
    """Return a table per data set, the means over several, and the values below the floor."""
    blocks = [_dataset(figures) for figures in report.datasets]
    if report.means:
        heads = _heads(report.means.values())
        rows = [[name, *(_share(figures[metric]) for metric in heads)] for name, figures in report.means.items()]
        blocks.append(f"Mean over {counted(len(report.datasets), 'data set')}\n" + _table(["", *heads.values()], rows))
    blocks += [visible_line(sentence) for sentence in report.below]
    return "\n\n".join(blocks)


def _heads(rows: Iterable[Mapping[str, float]]) -> Mapping[str, str]:
    """Return metric → column heading, with those of the evidence if queries have several pieces of it."""
    return HEADS | (EVIDENCE_HEADS if any(row["recall_any10"] != row["recall_all10"] for row in rows) else {})


def _dataset(dataset: DatasetFigures) -> str:
    queries = dataset.runs[0].overall.queries if dataset.runs else 0
    sizes = (counted(dataset.documents, "document"), counted(dataset.chunks, "chunk"))
    counts = ", ".join((*sizes, counted(queries, "query", "queries")))
    heads, rows = _heads(dict(run.overall) for run in dataset.runs), []
    for run in dataset.runs:
        rows.append([run.name, *_cells(run.overall, heads), *_change(run.comparison)])
        rows += [[f"  {name}", *_cells(figures, heads), "", "", ""] for name, figures in run.strata.items()]
    table = _table(["", *heads.values(), *_TIMES, _CHANGE, "p", "against"], rows)
    lines = [f"{visible_line(dataset.name)}: {counts}; answers are {dataset.unit}s", table]
    lines += [_changes(run, run.comparison) for run in dataset.runs if run.comparison and run.bases > 1]
    lines += [_changes(run, run.earlier) for run in dataset.runs if run.earlier]
    lines += [_verdicts(run, verdicts) for run in dataset.runs for verdicts in run.verdicts]
    lines += [f"{run.name}: {FELL_BACK.format(run.fell_back)}" for run in dataset.runs if run.fell_back]
    remarks = ["\n".join(map(visible_line, text.split("\n"))) for text in (*lines[2:], *dataset.notes)]
    return "\n".join([*lines[:2], *remarks])


def _cells(figures: Figures, metrics: Iterable[str]) -> list[str]:
    times = (f"{figures.p50_ms:.1f}", f"{figures.p95_ms:.1f}")
    return [*(_share(getattr(figures, metric)) for metric in metrics), _share(figures.empty), *times]


def _change(comparison: Comparison | None) -> list[str]:
    if comparison is None:
        return ["", "", ""]
    change = comparison.changes["ndcg10"]
    return [_signed(change.difference), _chance(change.p), comparison.other]


def _changes(run: RunFigures, comparison: Comparison) -> str:
    changes = (
        f"{head} {_signed(comparison.changes[metric].difference)} (p {_chance(comparison.changes[metric].p)})"
        for metric, head in HEADS.items()
    )
    return f"{run.name} against {comparison.other}: {', '.join(changes)}"


def _verdicts(run: RunFigures, verdicts: Verdicts) -> str:
    counts = f"{verdicts.answerable_queries} answerable, {verdicts.unanswerable_queries} not"
    text = f"{run.name}, {verdicts.unanswerable}: AUC of the best score {_share(verdicts.auc)} ({counts})"
    if verdicts.answerable_shares or verdicts.unanswerable_shares:
        text += f"; answerable {_shares(verdicts.answerable_shares)}; not {_shares(verdicts.unanswerable_shares)}"
    return text


def _shares(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items()) or "without a verdict"


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0") if value < 1 else f"{value:.2f}"


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("0.", ".", 1)


def _chance(p: float) -> str:
    return f"{_share(p) if p >= 0.001 else '<.001'}{'*' if p < SIGNIFICANT else ''}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align a table: names and the last column to the left, numbers to the right."""
    cells = [[visible_line(cell) for cell in row] for row in (heads, *rows)]
    numbers = frozenset(column for column, head in enumerate(heads) if column and head != "against")
    return "\n".join(table(cells, right=numbers))
