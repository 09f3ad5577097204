"""Reports of evaluations, their tables for the terminal, and run files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, unquote

from pydantic import Field

from kbhub.errors import DatasetError
from kbhub.extensions.lab.corpus import QueryResult
from kbhub.extensions.lab.datasets import lines_of
from kbhub.frozen import Model
from kbhub.render.terminal import table, visible_line
from kbhub.values import counted
from kbhub.workspace.files import write_atomically

SCORE_STEP = 1e-6
"""Minimum difference between the scores of a query, because tools sort by score and must keep our order."""

_UNSAFE = re.compile(r"[\s%]")


class Figures(Model):
    """Means over queries."""

    queries: int = Field(description="Queries with a known answer.")
    ndcg5: float = Field(description="nDCG over the first 5 results.")
    ndcg10: float = Field(description="nDCG over the first 10 results.")
    recall5: float = Field(description="Share of what is relevant among the first 5 results.")
    recall10: float = Field(description="Share of what is relevant among the first 10 results.")
    mrr10: float = Field(description="1 / rank of the first relevant one of the first 10 results, 0 if there is none.")
    hit1: float = Field(description="Share of queries whose first result is relevant.")
    recall_any5: float = Field(description="Share of queries with any of what is relevant among the first 5 results.")
    recall_any10: float = Field(description="The same among the first 10.")
    recall_all5: float = Field(description="Share of queries with all that is relevant among the first 5 results.")
    recall_all10: float = Field(description="The same among the first 10.")
    empty: float = Field(description="Share of queries with no result at all.")
    p50_ms: float = Field(description="Median time of a search, milliseconds.")
    p95_ms: float = Field(description="Time within which 95 of 100 searches answered, milliseconds.")


class MetricChange(Model):
    """How a metric differs from another run's."""

    difference: float = Field(description="This run less the other.")
    p: float = Field(description="Two-sided p of the paired randomisation test: how often chance does as much.")


class Comparison(Model):
    """One run against another over the same queries."""

    other: str = Field(description="The other run, or its file.")
    changes: dict[str, MetricChange] = Field(description="Metric → change.")


class Verdicts(Model):
    """How well a run tells queries that the corpus answers from those that it does not."""

    unanswerable: str = Field(description="Where the queries without an answer are from.")
    answerable_queries: int = Field(description="Queries with an answer.")
    unanswerable_queries: int = Field(description="Queries without one.")
    auc: float = Field(description="Chance that the best score of an answerable query is above an unanswerable one's.")
    answerable_shares: dict[str, float] = Field(description="Verdict → share of the queries with an answer.")
    unanswerable_shares: dict[str, float] = Field(description="Verdict → share of the queries without one.")


class RunFigures(Model):
    """One way to search, measured on one data set."""

    name: str = Field(description="Mode, what was left out, and bases if there are several.")
    mode: str = Field(description="`naive`, `keyword`, `semantic` or `hybrid`.")
    without: tuple[str, ...] = Field((), description="Signals left out.")
    bases: int = Field(1, description="Bases that the corpus was cut into.")
    overall: Figures = Field(description="Over all queries.")
    strata: dict[str, Figures] = Field(default_factory=dict, description="Kind of query → over those.")
    fell_back: int = Field(0, description="Queries for which less than the mode could run.")
    comparison: Comparison | None = Field(
        None, description="Against the baseline, or against the same without the ablation or the cut."
    )
    earlier: Comparison | None = Field(None, description="Against the run file that was named.")
    verdicts: tuple[Verdicts, ...] = Field((), description="One per source of queries without an answer.")


class DatasetFigures(Model):
    """One data set."""

    name: str = Field(description="Name of its folder.")
    documents: int = Field(description="Documents.")
    chunks: int = Field(description="Chunks that kbhub made of them.")
    index_seconds: float = Field(description="Time to index them; near 0 where that was done before.")
    gains: str = Field(description="`linear`, or `exponential` where a gain g is worth 2^g - 1.")
    unit: str = Field(description="What an answer is: `document` or `section`.")
    runs: tuple[RunFigures, ...] = Field(description="In the order asked for.")
    notes: tuple[str, ...] = Field((), description="What was left out.")


class EvalReport(Model):
    """What `kbhub dev eval` found."""

    datasets: tuple[DatasetFigures, ...] = Field(description="In the order asked for.")
    means: dict[str, dict[str, float]] = Field(
        default_factory=dict, description="Run → metric → mean over the data sets, each counting the same."
    )
    below: tuple[str, ...] = Field((), description="What is below the floor that was set, in sentences.")


HEADS = {
    "ndcg5": "nDCG@5",
    "ndcg10": "nDCG@10",
    "recall5": "recall@5",
    "recall10": "recall@10",
    "mrr10": "MRR@10",
    "hit1": "hit@1",
}

EVIDENCE_HEADS = {"recall_any5": "any@5", "recall_any10": "any@10", "recall_all5": "all@5", "recall_all10": "all@10"}
"""The same for metrics that differ from recall where a query has several relevant documents."""

SIGNIFICANT = 0.05

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
        against, change = run.comparison, ["", "", ""]
        if against is not None:
            ndcg = against.changes["ndcg10"]
            change = [_signed(ndcg.difference), _chance(ndcg.p), against.other]
        rows.append([run.name, *_cells(run.overall, heads), *change])
        rows += [[f"  {name}", *_cells(figures, heads), "", "", ""] for name, figures in run.strata.items()]
    table = _table(["", *heads.values(), *_TIMES, _CHANGE, "p", "against"], rows)
    lines = [f"{visible_line(dataset.name)}: {counts}; answers are {dataset.unit}s", table]
    lines += [_changes(run, run.comparison) for run in dataset.runs if run.comparison and run.bases > 1]
    lines += [_changes(run, run.earlier) for run in dataset.runs if run.earlier]
    for name, one in ((run.name, verdicts) for run in dataset.runs for verdicts in run.verdicts):
        counts = f"{one.answerable_queries} answerable, {one.unanswerable_queries} not"
        text = f"{name}, {one.unanswerable}: AUC of the best score {_share(one.auc)} ({counts})"
        if one.answerable_shares or one.unanswerable_shares:
            text += f"; answerable {_shares(one.answerable_shares)}; not {_shares(one.unanswerable_shares)}"
        lines.append(text)
    lines += [f"{run.name}: {FELL_BACK.format(run.fell_back)}" for run in dataset.runs if run.fell_back]
    remarks = ["\n".join(map(visible_line, text.split("\n"))) for text in (*lines[2:], *dataset.notes)]
    return "\n".join([*lines[:2], *remarks])


def _cells(figures: Figures, metrics: Iterable[str]) -> list[str]:
    times = (f"{figures.p50_ms:.1f}", f"{figures.p95_ms:.1f}")
    return [*(_share(getattr(figures, metric)) for metric in metrics), _share(figures.empty), *times]


def _changes(run: RunFigures, comparison: Comparison) -> str:
    headed = ((head, comparison.changes[metric]) for metric, head in HEADS.items())
    changes = (f"{head} {_signed(change.difference)} (p {_chance(change.p)})" for head, change in headed)
    return f"{run.name} against {comparison.other}: {', '.join(changes)}"


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


def write_run(file: Path, answers: Iterable[QueryResult], tag: str) -> None:
    """Write a run file atomically, replacing an existing one; whitespace in its tag becomes `-`."""
    name = re.sub(r"\s+", "-", tag)
    lines = []
    for answer in answers:
        score = float("inf")
        for rank, (item, value) in enumerate(answer.ranked.items(), 1):
            score = min(value, score - SCORE_STEP)
            lines.append(f"{_escaped(answer.query.id)} Q0 {_escaped(item)} {rank} {score:.6f} {name}\n")
    try:
        write_atomically(file, "".join(lines))
    except OSError as error:
        raise DatasetError(file, f"cannot be written: {error.strerror}") from error


def read_run(file: Path) -> Mapping[str, tuple[str, ...]]:
    """Read a run file as query → documents, by descending score, then by rank."""
    runs: dict[str, list[tuple[float, int, str]]] = {}
    for number, line in lines_of(file):
        try:
            query, _, item, rank, score, _ = line.split()
            runs.setdefault(unquote(query), []).append((-float(score), int(rank), unquote(item)))
        except ValueError:
            expected = "expected six fields: query Q0 document rank score tag"
            raise DatasetError(file, expected, number) from None
    return {query: tuple(dict.fromkeys(item for _, _, item in sorted(rows))) for query, rows in runs.items()}


def _escaped(name: str) -> str:
    """Percent-encode whitespace and `%`, since spaces separate fields."""
    return _UNSAFE.sub(lambda match: quote(match.group()), name)
