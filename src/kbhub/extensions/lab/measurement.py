"""Run search modes over data sets and compute the metrics."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kbhub.errors import DatasetError, UsageError
from kbhub.extensions.lab import report
from kbhub.extensions.lab.corpus import SEED, EvalMode, EvalPlan, QueryResult, Setup, ask, open_corpus, sample
from kbhub.extensions.lab.datasets import Dataset
from kbhub.values import struct

METRICS = (*report.HEADS, *report.EVIDENCE_HEADS)
"""Metrics of each query, all in 0..1."""

PERMUTATIONS = 10_000
"""Number of sign swaps; p is exact to about ±.004 near .05."""

BLOCK = 1 << 22
"""Signs held in memory at a time; 32 MiB as float64."""

_ROUNDING = 1e-12
"""Tolerance for sums in a different order."""


def judge(ranked: Iterable[str], gold: Mapping[str, int], *, exponential: bool = False) -> tuple[float, ...]:
    """Compute all metrics of a ranking, one value per name in `METRICS`.

    `ranked` has distinct results, best first; `gold` maps each relevant item, at least one, to its gain, above 0. With
    `exponential`, a gain g counts as 2^g − 1.
    """
    ideal = {name: float(2**gain - 1 if exponential else gain) for name, gain in gold.items()}
    gains = [ideal.get(name, 0.0) for name in ranked]
    relevant = [gain > 0 for gain in gains]
    first = relevant.index(True) + 1 if any(relevant[:10]) else 0
    recalls = [sum(relevant[:depth]) / len(ideal) for depth in (5, 10)]
    best = sorted(ideal.values(), reverse=True)
    return (
        *(_dcg(gains[:depth]) / (_dcg(best[:depth]) or 1.0) for depth in (5, 10)),
        *recalls,
        1 / first if first else 0.0,
        float(first == 1),
        *(float(share > 0) for share in recalls),
        *(float(share == 1) for share in recalls),
    )


def _dcg(gains: Sequence[float]) -> float:
    """Return the discounted cumulative gain (Järvelin and Kekäläinen 2002, discount log2(rank + 1))."""
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def randomisation_p(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Test for several metrics at once whether the means of two runs differ, by swapping signs at random.

    Both arrays have the shape (queries, metrics), for the same queries. Returns a two-sided p per metric, never 0,
    because the observed order counts as a permutation.
    """
    differences = first - second
    queries = len(differences)
    observed = np.abs(differences.sum(axis=0))
    generator = np.random.default_rng(SEED)
    at_least_observed = np.zeros(differences.shape[1])
    block = max(1, BLOCK // max(1, queries))
    for start in range(0, PERMUTATIONS, block):
        size = min(block, PERMUTATIONS - start)
        signs = generator.integers(0, 2, (size, queries), dtype=np.int8).astype(np.float64) * 2 - 1
        at_least_observed += (np.abs(signs @ differences) >= observed - _ROUNDING).sum(axis=0)
    return (at_least_observed + 1) / (PERMUTATIONS + 1)


def area_under_curve(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """Return the probability that a positive scores higher than a negative, with ties counting half (ROC AUC)."""
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, "left")
    not_above = np.searchsorted(ordered, positive, "right")
    return float((below + not_above).mean() / 2 / len(negative))


DIGITS = 4
"""Decimal digits of metrics in a report; milliseconds have two."""

ANSWERED = ""


@struct
class Options:
    """What to measure, and where to read and write runs."""

    modes: tuple[EvalMode, ...] = ("keyword", "semantic", "hybrid")
    main: tuple[EvalMode, ...] = ("hybrid",)
    """Modes to which ablations, splits and the floor apply."""
    without: tuple[tuple[str, ...], ...] = ()
    parts: int = 1
    """Number of bases into which the corpus is also split; 1 for no split."""
    wordings: bool = False
    depth: int = 10
    limit: int | None = None
    """Maximum of queries per data set, sampled at random."""
    run: Path | None = None
    compare: Path | None = None
    floor: float | None = None
    """Minimum nDCG@10 of the main modes."""

    def plans(self) -> list[EvalPlan]:
        """Return the plans to run on each data set."""
        main = [mode for mode in self.modes if mode in self.main and mode != "naive"]
        plans = [EvalPlan(mode) for mode in self.modes]
        plans += [EvalPlan(mode, signals) for mode in main for signals in self.without]
        if self.wordings:
            plans += [EvalPlan(mode, wordings=True, passage=passage) for mode in main for passage in (False, True)]
        if self.parts > 1:
            plans += [EvalPlan(mode, parts=self.parts) for mode in main]
        return plans


def evaluate(
    datasets: Sequence[Dataset], unanswerable: Sequence[Dataset], options: Options, setup: Setup
) -> report.EvalReport:
    """Run all plans on all data sets, whose names differ; the queries of `unanswerable` have no answer in them."""
    for name, count in Counter(dataset.name for dataset in datasets).items():
        if count > 1:
            raise UsageError(f"Two data sets are named {name!r}. Rename one, so that their results can be told apart.")
    plans = options.plans()
    alone = len(datasets) == 1 and len(plans) == 1
    measurements = [_Measurement(dataset, unanswerable, options, setup, alone=alone) for dataset in datasets]
    for measurement in measurements:
        measurement.check_files(plans)
    figures = tuple(measurement.measure(plans) for measurement in measurements)
    means: dict[str, dict[str, float]] = {}
    for number, plan in enumerate(plans if len(figures) > 1 else ()):
        overall = [dict(figure.runs[number].overall) for figure in figures]
        means[plan.name] = {name: round(float(np.mean([run[name] for run in overall])), DIGITS) for name in METRICS}
    below = [
        f"{figure.name}, {run.name}: nDCG@10 is {run.overall.ndcg10:.4f}, below {options.floor:g}."
        for figure in figures
        for run in figure.runs
        if run.mode in options.main and not run.without and run.bases == 1
        if options.floor is not None and run.overall.ndcg10 < options.floor
    ]
    return report.EvalReport(datasets=figures, means=means, below=tuple(below))


class _Measurement:
    """Runs plans on one data set."""

    def __init__(
        self, dataset: Dataset, unanswerable: Sequence[Dataset], options: Options, setup: Setup, *, alone: bool
    ) -> None:
        self.dataset, self.options, self.setup, self.alone = dataset, options, setup, alone
        self.queries = sample([query for query in dataset.queries if query.gold], options.limit)
        own = sample([query for query in dataset.queries if not query.gold], options.limit)
        self.unanswerable = {"queries without an answer": own} if own else {}
        self.unanswerable |= {other.name: sample(other.queries, options.limit) for other in unanswerable}

    def measure(self, plans: Sequence[EvalPlan]) -> report.DatasetFigures:
        """Run the plans and compute the figures."""
        dataset, options, setup = self.dataset, self.options, self.setup
        corpora = {cuts: open_corpus(dataset, setup, cuts) for cuts in sorted({1, *(plan.parts for plan in plans)})}
        measured: dict[EvalPlan, NDArray[np.float64]] = {}
        """Plan → values of the metrics, of shape (queries, metrics)."""
        runs = list[report.RunFigures]()
        for plan in plans:
            found = dict[str, list[QueryResult]]()
            for source, queries in {ANSWERED: self.queries, **self.unanswerable}.items():
                if source and (plan.mode == "naive" or plan.without or plan.parts > 1):
                    continue
                depth = 1 if source else options.depth
                found[source] = ask(corpora[plan.parts], queries, plan, depth=depth, progress=setup.progress)
            runs.append(self._figures(plan, found, measured))
        return report.DatasetFigures(
            name=dataset.name,
            documents=len(dataset.documents),
            chunks=corpora[1].chunks,
            index_seconds=round(corpora[1].index_seconds, 2),
            gains="exponential" if dataset.exponential else "linear",
            unit="document" if dataset.sections is None else "section",
            runs=tuple(runs),
            notes=(*dataset.notes, *corpora[1].notes),
        )

    def _values(self, rankings: Sequence[Iterable[str]]) -> NDArray[np.float64]:
        pairs = zip(rankings, self.queries, strict=True)
        return np.array([judge(ranked, query.gold, exponential=self.dataset.exponential) for ranked, query in pairs])

    def _figures(
        self, plan: EvalPlan, found: dict[str, list[QueryResult]], measured: dict[EvalPlan, NDArray[np.float64]]
    ) -> report.RunFigures:
        """Summarise the answers to the answerable queries, and by source those to queries without an answer."""
        answers = found.pop(ANSWERED)
        values = measured[plan] = self._values([answer.ranked for answer in answers])
        if self.options.run:
            report.write_run(self._file(self.options.run, plan), answers, plan.name)
        # It is compared with the same without ablation, split or wordings, else with the first one.
        first = EvalPlan("naive") if EvalPlan("naive") in measured else next(iter(measured))
        reference = EvalPlan(plan.mode) if plan.without or plan.parts > 1 or plan.wordings else first
        comparison = _comparison(reference.name, values, measured[reference]) if reference != plan else None
        verdicts, strata = [], np.array([query.stratum for query in self.queries])
        for source, vain in found.items():
            best, worst = ([next(iter(answer.ranked.values()), 0.0) for answer in group] for group in (answers, vain))
            told = report.Verdicts(
                unanswerable=source,
                answerable_queries=len(answers),
                unanswerable_queries=len(vain),
                auc=round(area_under_curve(np.array(best), np.array(worst)), DIGITS),
                answerable_shares=_shares(answers),
                unanswerable_shares=_shares(vain),
            )
            verdicts.append(told)
        earlier = None
        if file := self._earlier_file(plan):
            rankings = report.read_run(file)
            if not any(query.id in rankings for query in self.queries):
                raise DatasetError(file, f"has none of the queries of {self.dataset.name}")
            before = self._values([rankings.get(query.id, ()) for query in self.queries])
            earlier = _comparison(str(file), values, before)
        return report.RunFigures(
            name=plan.name,
            mode=plan.mode,
            without=plan.without,
            bases=plan.parts,
            overall=_means(answers, values, np.ones(len(strata), dtype=bool)),
            strata={name: _means(answers, values, strata == name) for name in dict.fromkeys(strata.tolist()) if name},
            fell_back=sum(answer.fell_back for answer in answers),
            comparison=comparison,
            earlier=earlier,
            verdicts=tuple(verdicts),
        )

    def check_files(self, plans: Sequence[EvalPlan]) -> None:
        """Raise `DatasetError` before measuring if a run file cannot be read or the folder for one does not exist."""
        if self.options.run and not self.options.run.parent.is_dir():
            raise DatasetError(self.options.run, "cannot be written: its folder does not exist")
        for plan in plans:
            file = self._earlier_file(plan)
            if file and not file.is_file():
                fault = f"does not exist, so {plan.name} on {self.dataset.name} cannot be compared with it"
                raise DatasetError(file, fault)

    def _earlier_file(self, plan: EvalPlan) -> Path | None:
        """Return the file of the earlier run: the named one or, of several, the one for this plan."""
        file = self.options.compare
        return file if file is None or file.is_file() else self._file(file, plan)

    def _file(self, file: Path, plan: EvalPlan) -> Path:
        """Return the file of a run, with data set and plan in its name unless it is alone."""
        if self.alone:
            return file
        middle = ".".join(re.sub(r"[^\w.+-]+", "-", name).strip("-") for name in (self.dataset.name, plan.name))
        return file.with_name(f"{file.stem}.{middle}{file.suffix}")


def _means(every: Sequence[QueryResult], values: NDArray[np.float64], selected: NDArray[np.bool_]) -> report.Figures:
    answers = [answer for answer, counts in zip(every, selected, strict=True) if counts]
    times = np.array([answer.milliseconds for answer in answers])
    means = values[selected].mean(axis=0)
    return report.Figures(
        queries=len(answers),
        **{name: round(float(mean), DIGITS) for name, mean in zip(METRICS, means, strict=True)},
        empty=round(sum(not answer.ranked for answer in answers) / len(answers), DIGITS),
        p50_ms=round(float(np.percentile(times, 50)), 2),
        p95_ms=round(float(np.percentile(times, 95)), 2),
    )


def _comparison(other: str, first: NDArray[np.float64], second: NDArray[np.float64]) -> report.Comparison:
    differences, chances = (first - second).mean(axis=0), randomisation_p(first, second)
    changes = {
        name: report.MetricChange(difference=round(float(difference), DIGITS), p=round(float(p), DIGITS))
        for name, difference, p in zip(METRICS, differences, chances, strict=True)
    }
    return report.Comparison(other=other, changes=changes)


def _shares(answers: Sequence[QueryResult]) -> dict[str, float]:
    counts = Counter(answer.verdict for answer in answers if answer.verdict)
    return {verdict: round(count / len(answers), DIGITS) for verdict, count in counts.most_common()}
