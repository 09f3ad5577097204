"""Reports of evaluations, and run files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from pydantic import Field

from kbhub.errors import DatasetError
from kbhub.extensions.lab.datasets import lines_of
from kbhub.frozen import Model
from kbhub.workspace.atomic_writes import write_atomically

if TYPE_CHECKING:
    from kbhub.extensions.lab.corpus import QueryResult

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


def write_run(file: Path, answers: Iterable[QueryResult], tag: str) -> None:
    """Write a run file atomically, replacing an existing one; whitespace in its tag becomes `-`."""
    name = re.sub(r"\s+", "-", tag)
    lines = []
    for answer in answers:
        score = float("inf")
        for rank, (item, value) in enumerate(zip(answer.ranked, answer.scores, strict=True), 1):
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


def run_file(file: Path, dataset: str, plan: str, *, alone: bool) -> Path:
    """Return the file of a run, with data set and plan in its name unless it is `alone`."""
    if alone:
        return file
    middle = ".".join(re.sub(r"[^\w.+-]+", "-", name).strip("-") for name in (dataset, plan))
    return file.with_name(f"{file.stem}.{middle}{file.suffix}")


def _escaped(name: str) -> str:
    """Percent-encode whitespace and `%`, since spaces separate fields."""
    return _UNSAFE.sub(lambda match: quote(match.group()), name)
