"""Data sets and ways to search → figures."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kbhub.errors import DatasetError, UsageError
from kbhub.evaluation.asking import Answer, NaiveSearch, Plan, ask
from kbhub.evaluation.corpus import SEED, open_corpus
from kbhub.evaluation.metrics import METRICS, judge
from kbhub.evaluation.report import (
    Change,
    Comparison,
    DatasetFigures,
    EvalReport,
    Figures,
    RunFigures,
    Verdicts,
    WithheldFigures,
)
from kbhub.evaluation.runs import read_run, run_file, write_run
from kbhub.evaluation.significance import area_under_curve, randomisation_p
from kbhub.evaluation.withheld import withhold
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kbhub.evaluation.asking import EvalMode
    from kbhub.evaluation.corpus import Corpus, Setup
    from kbhub.evaluation.datasets import Dataset, EvalQuery

DIGITS = 4
"""Of the figures in a report; milliseconds have two."""

WITHIN = "queries without an answer"
"""Source of unanswerable queries that are the data set's own."""


@struct
class Options:
    """What is measured, and what becomes of it."""

    modes: tuple[EvalMode, ...] = ("keyword", "semantic", "hybrid")
    main: tuple[EvalMode, ...] = ("hybrid",)
    """Those of the modes that ablations, cuts and the floor are about."""
    without: tuple[tuple[str, ...], ...] = ()
    """Ablations: signals left out together."""
    parts: int = 1
    """Bases that the corpus is also cut into; 1 for no cut."""
    wordings: bool = False
    """Whether queries are also asked with their other wordings."""
    depth: int = 10
    limit: int | None = None
    """Queries of a data set at most, chosen at random."""
    run: Path | None = None
    compare: Path | None = None
    floor: float | None = None
    """Least nDCG@10 of the main modes."""
    without_answers: bool = False
    """Whether each question is also asked of bases without its answer."""

    def plans(self) -> list[Plan]:
        """List what is measured on each data set."""
        main = [mode for mode in self.modes if mode in self.main and mode != "naive"]
        plans = [Plan(mode) for mode in self.modes]
        plans += [Plan(mode, signals) for mode in main for signals in self.without]
        if self.wordings:
            plans += [Plan(mode, wordings=True, passage=passage) for mode in main for passage in (False, True)]
        if self.parts > 1:
            plans += [Plan(mode, parts=self.parts) for mode in main]
        return plans


@dataclass(slots=True)
class _Measured:
    """A plan with its answers to the queries that have one."""

    plan: Plan
    answers: list[Answer]
    values: NDArray[np.float64]
    """Shape (queries, metrics)."""


def evaluate(
    datasets: Sequence[Dataset], unanswerable: Sequence[Dataset], options: Options, setup: Setup
) -> EvalReport:
    """Measure.

    Args:
        datasets: what is searched, with queries.
        unanswerable: data sets whose queries the others do not answer.
        options: what is measured.
        setup: where corpora lie, and which settings count.

    Raises:
        UsageError: two data sets have one name.
        DatasetError: a run file cannot be read or written.
        KbhubError: as `Hub.sync` and `Hub.search`.
    """
    for name, count in Counter(one.name for one in datasets).items():
        if count > 1:
            raise UsageError(f"Two data sets are named {name!r}, so their figures could not be told apart; rename one.")
    plans = options.plans()
    alone = len(datasets) == 1 and len(plans) == 1
    chosen = [_Dataset(one, unanswerable, options, setup, alone=alone) for one in datasets]
    for one in chosen:
        one.check_files(plans)
    figures = tuple(one.measure(plans) for one in chosen)
    means: dict[str, dict[str, float]] = {}
    if len(figures) > 1:
        for plan in plans:
            overall = [run.overall for figure in figures for run in figure.runs if run.name == plan.name]
            means[plan.name] = {
                metric: round(float(np.mean([getattr(one, metric) for one in overall])), DIGITS) for metric in METRICS
            }
    return EvalReport(datasets=figures, means=means, below=_below(figures, options))


class _Dataset:
    """One data set on its way to figures."""

    def __init__(
        self, dataset: Dataset, unanswerable: Sequence[Dataset], options: Options, setup: Setup, *, alone: bool
    ) -> None:
        self.dataset, self.options, self.setup, self.alone = dataset, options, setup, alone
        self.queries = _sample([one for one in dataset.queries if one.gold], options.limit)
        own = _sample([one for one in dataset.queries if not one.gold], options.limit)
        self.unanswerable = {WITHIN: own} if own else {}
        self.unanswerable |= {one.name: _sample(one.queries, options.limit) for one in unanswerable}

    def measure(self, plans: Sequence[Plan]) -> DatasetFigures:
        """Ask everything and work the figures out."""
        dataset = self.dataset
        whole = open_corpus(dataset, self.setup)
        measured: dict[Plan, _Measured] = {}
        runs = []
        for plan in plans:
            corpus = whole if plan.parts == 1 else open_corpus(dataset, self.setup, plan.parts)
            answers = self._ask(corpus, plan)
            one = measured[plan] = _Measured(plan, answers, self._values([answer.ranked for answer in answers]))
            if self.options.run:
                write_run(self._file(self.options.run, plan), answers, plan.name)
            reference = _reference(plan, measured)
            runs.append(self._figures(one, reference, corpus))
        return DatasetFigures(
            name=dataset.name,
            documents=len(dataset.documents),
            chunks=whole.chunks,
            index_seconds=round(whole.index_seconds, 2),
            gains="exponential" if dataset.exponential else "linear",
            unit="document" if dataset.sections is None else "section",
            runs=tuple(runs),
            withheld=self._withheld(),
            notes=(*dataset.notes, *whole.notes),
        )

    def _withheld(self) -> tuple[WithheldFigures, ...]:
        if not self.options.without_answers:
            return ()
        return withhold(self.dataset, self.queries, self.options.modes, self.setup)

    def _ask(self, corpus: Corpus, plan: Plan) -> list[Answer]:
        depth = self.options.depth
        if plan.mode == "naive":
            return NaiveSearch(self.dataset).ask(self.queries, depth=depth)
        return ask(corpus, self.dataset, self.queries, plan, depth=depth, progress=self.setup.progress)

    def _values(self, rankings: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        pairs = zip(rankings, self.queries, strict=True)
        return np.array([judge(ranked, query.gold, exponential=self.dataset.exponential) for ranked, query in pairs])

    def _figures(self, one: _Measured, reference: _Measured | None, corpus: Corpus) -> RunFigures:
        plan = one.plan
        strata = list(dict.fromkeys(query.stratum for query in self.queries if query.stratum))
        of = np.array([query.stratum for query in self.queries])
        return RunFigures(
            name=plan.name,
            mode=plan.mode,
            without=plan.without,
            bases=plan.parts,
            overall=_means(one, np.full(len(self.queries), fill_value=True)),
            strata={stratum: _means(one, of == stratum) for stratum in strata},
            fell_back=sum(answer.fell_back for answer in one.answers),
            comparison=_comparison(reference.plan.name, one.values, reference.values) if reference else None,
            earlier=self._earlier(one),
            verdicts=self._verdicts(one, corpus),
        )

    def _earlier(self, one: _Measured) -> Comparison | None:
        file = self._earlier_file(one.plan)
        if file is None:
            return None
        rankings = read_run(file)
        if not any(query.id in rankings for query in self.queries):
            raise DatasetError(file, f"has none of the queries of {self.dataset.name}")
        values = self._values([rankings.get(query.id, ()) for query in self.queries])
        return _comparison(str(file), one.values, values)

    def _verdicts(self, one: _Measured, corpus: Corpus) -> tuple[Verdicts, ...]:
        if one.plan.mode == "naive" or one.plan.without or one.plan.parts > 1:
            return ()
        found = []
        for source, queries in self.unanswerable.items():
            others = ask(corpus, self.dataset, queries, one.plan, depth=1, progress=self.setup.progress)
            best, worst = (np.array([answer.best for answer in some]) for some in (one.answers, others))
            found.append(
                Verdicts(
                    unanswerable=source,
                    answerable_queries=len(one.answers),
                    unanswerable_queries=len(others),
                    auc=round(area_under_curve(best, worst), DIGITS),
                    answerable_shares=_shares(one.answers),
                    unanswerable_shares=_shares(others),
                )
            )
        return tuple(found)

    def check_files(self, plans: Sequence[Plan]) -> None:
        """Complain of files that cannot be read or written before anything is measured.

        Raises:
            DatasetError: an earlier run is not there, or the folder of a new one is not.
        """
        if self.options.run and not self.options.run.parent.is_dir():
            raise DatasetError(self.options.run, "cannot be written: its folder does not exist")
        for plan in plans:
            file = self._earlier_file(plan)
            if file and not file.is_file():
                raise DatasetError(file, f"is not there to compare {plan.name} on {self.dataset.name} with")

    def _earlier_file(self, plan: Plan) -> Path | None:
        """Give the one file of an earlier run, or what `--run` makes of its name for several."""
        file = self.options.compare
        return file if file is None or file.is_file() else self._file(file, plan)

    def _file(self, file: Path, plan: Plan) -> Path:
        return run_file(file, self.dataset.name, plan.name, alone=self.alone)


def _sample(queries: Sequence[EvalQuery], limit: int | None) -> list[EvalQuery]:
    if limit is None or len(queries) <= limit:
        return list(queries)
    chosen = random.Random(SEED).sample(range(len(queries)), limit)  # noqa: S311 - a choice, no secret
    return [queries[number] for number in sorted(chosen)]


def _reference(plan: Plan, measured: Mapping[Plan, _Measured]) -> _Measured | None:
    """Return what a run is compared with: the same without its ablation, cut or wordings, else the first one."""
    if plan.without or plan.parts > 1 or plan.wordings:
        return measured[Plan(plan.mode)]
    naive = measured.get(Plan("naive"))
    first = naive or next(iter(measured.values()))
    return None if first.plan == plan else first


def _means(one: _Measured, of: NDArray[np.bool_]) -> Figures:
    answers = [answer for answer, counts in zip(one.answers, of, strict=True) if counts]
    times = np.array([answer.milliseconds for answer in answers])
    means = one.values[of].mean(axis=0)
    return Figures(
        queries=len(answers),
        **{name: round(float(mean), DIGITS) for name, mean in zip(METRICS, means, strict=True)},
        empty=round(sum(not answer.ranked for answer in answers) / len(answers), DIGITS),
        p50_ms=round(float(np.percentile(times, 50)), 2),
        p95_ms=round(float(np.percentile(times, 95)), 2),
    )


def _comparison(other: str, first: NDArray[np.float64], second: NDArray[np.float64]) -> Comparison:
    differences, chances = (first - second).mean(axis=0), randomisation_p(first, second)
    changes = {
        name: Change(difference=round(float(difference), DIGITS), p=round(float(p), DIGITS))
        for name, difference, p in zip(METRICS, differences, chances, strict=True)
    }
    return Comparison(other=other, changes=changes)


def _shares(answers: Sequence[Answer]) -> dict[str, float]:
    counts = Counter(answer.verdict for answer in answers if answer.verdict)
    return {verdict: round(count / len(answers), DIGITS) for verdict, count in counts.most_common()}


def _below(figures: Sequence[DatasetFigures], options: Options) -> tuple[str, ...]:
    floor = options.floor
    if floor is None:
        return ()
    return tuple(
        f"{one.name}, {run.name}: nDCG@10 is {run.overall.ndcg10:.4f}, below {floor:g}."
        for one in figures
        for run in one.runs
        if run.mode in options.main and not run.without and run.bases == 1 and run.overall.ndcg10 < floor
    )
