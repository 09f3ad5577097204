"""Measure whether search knows what a base does not answer, by leaving the answer out.

Each question is asked of a base with its answer, and of the same base without the documents relevant to the question.
Both bases are about the same topics, and no judge is needed.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kbhub.evaluation.asking import Answer, EvalMode, Plan, ask_one
from kbhub.evaluation.corpus import SEED, WRITTEN, Corpus, eval_folder, eval_hub, sample, sync_corpus
from kbhub.evaluation.datasets import SECTION_MARK
from kbhub.evaluation.metrics import area_under_curve
from kbhub.evaluation.report import WithheldFigures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.evaluation.corpus import Setup
    from kbhub.evaluation.datasets import Dataset, EvalQuery

SIZES = (10, 50, 200, 1000)
"""Sizes, in documents, of the bases sampled from a data set; the whole data set is measured, too."""

QUESTIONS = 60
"""Maximum of questions per size; the random sample is the same in every run."""

CUTS = {10: 40, 50: 10, 200: 4, 1000: 2}
"""Number of document samples per size; with few documents, the choice matters more."""

ANSWERS = 10
"""A base keeps one of a question's relevant documents for every so many documents, and at least one."""

DIGITS = 4


def withhold(
    dataset: Dataset, queries: Sequence[EvalQuery], modes: Sequence[EvalMode], setup: Setup
) -> tuple[WithheldFigures, ...]:
    """Measure how well verdicts distinguish answered questions from the same questions without their answers.

    Args:
        dataset: the documents from which bases are sampled.
        queries: queries with an answer.
        modes: search modes; `naive` is skipped, since it has no verdict.
        setup: how bases are created and opened.

    Raises:
        KbhubError: as for `open_corpus`.
    """
    judged = [mode for mode in modes if mode != "naive"]
    chosen = sample(queries, QUESTIONS)
    sizes = [size for size in SIZES if size < len(dataset.documents)]
    figures: list[WithheldFigures] = []
    for size in [*sizes, len(dataset.documents)]:
        with tempfile.TemporaryDirectory(dir=eval_folder(setup), prefix="without-") as folder:
            base = _ChangingBase(dataset, Path(folder), setup)
            answers = _ask_twice(base, dataset, chosen, judged, size, setup)
        figures += [_figures(size, mode, *answers[mode]) for mode in judged]
    return tuple(figures)


class _ChangingBase:
    """A base whose documents change from question to question."""

    def __init__(self, dataset: Dataset, folder: Path, setup: Setup) -> None:
        self._documents = {document.id: document for document in dataset.documents}
        self._folder, self._setup, self._name = folder / "all", setup, dataset.name
        self._folder.mkdir()
        hub = eval_hub({"all": self._folder}, folder / "index", len(self._documents), setup)
        names = {("all", document.path): document.id for document in dataset.documents}
        self.corpus = Corpus(hub, ("all",), names, 0, 0.0, ())
        self._current: set[str] = set()

    def hold(self, documents: set[str]) -> Corpus:
        """Make the base consist of these documents."""
        for name in self._current - documents:
            (self._folder / self._documents[name].path).unlink()
        for name in documents - self._current:
            file = self._folder / self._documents[name].path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self._documents[name].data)
            os.utime(file, (WRITTEN, WRITTEN))
        self._current = documents
        sync_corpus(self.corpus.hub, ("all",))
        return self.corpus


def _ask_twice(
    base: _ChangingBase,
    dataset: Dataset,
    queries: Sequence[EvalQuery],
    modes: Sequence[EvalMode],
    size: int,
    setup: Setup,
) -> dict[EvalMode, tuple[list[Answer], list[Answer]]]:
    """Ask each question with and without its answer, and return mode → both lists of answers."""
    answers: dict[EvalMode, tuple[list[Answer], list[Answer]]] = {mode: ([], []) for mode in modes}
    all_ids = [document.id for document in dataset.documents]
    cuts = CUTS.get(size, 1)
    for asked, number in enumerate(sorted(range(len(queries)), key=lambda number: number % cuts), 1):
        query = queries[number]
        relevant = {name.partition(SECTION_MARK)[0] for name in query.gold} & set(all_ids)
        generator = random.Random(f"{SEED} {size} {number % cuts}")  # noqa: S311 - a cut, no secret
        cut = all_ids if size == len(all_ids) else generator.sample(all_ids, size)
        without = set(cut) - relevant
        answering = sorted(relevant) if size == len(all_ids) else sorted(relevant)[: max(1, size // ANSWERS)]
        for variant, documents in enumerate((without | set(answering), without)):
            corpus = base.hold(documents)
            for mode in modes:
                answers[mode][variant].append(ask_one(corpus, dataset, query, Plan(mode), 10))
        if setup.progress:
            setup.progress(f"{dataset.name} without answers, {size} documents", asked, len(queries))
    return answers


def _figures(size: int, mode: EvalMode, answered: Sequence[Answer], withheld: Sequence[Answer]) -> WithheldFigures:
    best, worst = (np.array([answer.best for answer in some]) for some in (answered, withheld))
    return WithheldFigures(
        documents=size,
        mode=mode,
        queries=len(answered),
        auc=round(area_under_curve(best, worst), DIGITS),
        answered_shares=_shares(answered),
        withheld_shares=_shares(withheld),
    )


def _shares(answers: Sequence[Answer]) -> dict[str, float]:
    counts = Counter(answer.verdict for answer in answers)
    return {verdict: round(counts[verdict] / len(answers), DIGITS) for verdict in ("strong", "weak", "none")}
