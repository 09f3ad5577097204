"""Leave the answer out: does search know what a base does not answer?

Each question is asked of a base that has its answer, and of the same base from which every document relevant to the
question was taken. So what is there and what is not are about the same things, and no judge is needed.
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
from kbhub.evaluation.corpus import SEED, WRITTEN, Corpus, eval_folder, eval_hub, sync_corpus
from kbhub.evaluation.headed import SECTION_MARK
from kbhub.evaluation.report import WithheldFigures
from kbhub.evaluation.significance import area_under_curve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.evaluation.corpus import Setup
    from kbhub.evaluation.datasets import Dataset, EvalQuery

SIZES = (10, 50, 200, 1000)
"""Documents of the bases that a data set is cut into; the data set as a whole is measured, too."""

QUESTIONS = 60
"""Questions asked of each size at most, chosen at random, always the same."""

CUTS = {10: 40, 50: 10, 200: 4, 1000: 2}
"""Different choices of documents per size: of a few documents, which they are matters more."""

ANSWERS = 10
"""A base has one of a question's relevant documents, and one more for as many documents as this."""

DIGITS = 4


def withhold(
    dataset: Dataset, queries: Sequence[EvalQuery], modes: Sequence[EvalMode], setup: Setup
) -> tuple[WithheldFigures, ...]:
    """Measure how verdicts tell questions that are answered from the same without their answers.

    Args:
        dataset: documents to cut bases from.
        queries: those that have an answer.
        modes: ways to search; `naive` has no verdict and is passed over.
        setup: where bases are made, and which settings count.

    Raises:
        KbhubError: as `open_corpus`.
    """
    judged = [mode for mode in modes if mode != "naive"]
    chosen = _sample(queries)
    sizes = [size for size in SIZES if size < len(dataset.documents)]
    found: list[WithheldFigures] = []
    for size in [*sizes, len(dataset.documents)]:
        with tempfile.TemporaryDirectory(dir=eval_folder(setup), prefix="without-") as folder:
            base = _ChangingBase(dataset, Path(folder), setup)
            answers = _asked(base, dataset, chosen, judged, size, setup)
        found += [_figures(size, mode, *answers[mode]) for mode in judged]
    return tuple(found)


class _ChangingBase:
    """A base whose documents change from question to question."""

    def __init__(self, dataset: Dataset, folder: Path, setup: Setup) -> None:
        self._documents = {one.id: one for one in dataset.documents}
        self._folder, self._setup, self._name = folder / "all", setup, dataset.name
        self._folder.mkdir()
        hub = eval_hub({"all": self._folder}, folder / "index", len(self._documents), setup)
        names = {("all", one.path): one.id for one in dataset.documents}
        self.corpus = Corpus(hub, ("all",), names, 0, 0.0, ())
        self._held: set[str] = set()

    def hold(self, documents: set[str]) -> Corpus:
        """Have these documents and no others."""
        for name in self._held - documents:
            (self._folder / self._documents[name].path).unlink()
        for name in documents - self._held:
            file = self._folder / self._documents[name].path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self._documents[name].data)
            os.utime(file, (WRITTEN, WRITTEN))
        self._held = documents
        sync_corpus(self.corpus.hub, ("all",))
        return self.corpus


def _asked(
    base: _ChangingBase,
    dataset: Dataset,
    queries: Sequence[EvalQuery],
    modes: Sequence[EvalMode],
    size: int,
    setup: Setup,
) -> dict[EvalMode, tuple[list[Answer], list[Answer]]]:
    """Ask each question with and without its answer: mode → both."""
    found: dict[EvalMode, tuple[list[Answer], list[Answer]]] = {mode: ([], []) for mode in modes}
    everything = [one.id for one in dataset.documents]
    cuts = CUTS.get(size, 1)
    for done, number in enumerate(sorted(range(len(queries)), key=lambda number: number % cuts), 1):
        query = queries[number]
        relevant = {name.partition(SECTION_MARK)[0] for name in query.gold} & set(everything)
        choose = random.Random(f"{SEED} {size} {number % cuts}")  # noqa: S311 - a cut, no secret
        cut = everything if size == len(everything) else choose.sample(everything, size)
        without = set(cut) - relevant
        kept = sorted(relevant) if size == len(everything) else sorted(relevant)[: max(1, size // ANSWERS)]
        for at, documents in enumerate((without | set(kept), without)):
            corpus = base.hold(documents)
            for mode in modes:
                found[mode][at].append(ask_one(corpus, dataset, query, Plan(mode), 10))
        if setup.progress:
            setup.progress(f"{dataset.name} without answers, {size} documents", done, len(queries))
    return found


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


def _sample(queries: Sequence[EvalQuery]) -> list[EvalQuery]:
    if len(queries) <= QUESTIONS:
        return list(queries)
    chosen = random.Random(SEED).sample(range(len(queries)), QUESTIONS)  # noqa: S311 - a choice, no secret
    return [queries[number] for number in sorted(chosen)]
