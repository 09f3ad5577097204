"""How verdicts tell questions that a base answers from the same questions of the same base without their answers.

    python benchmarks/withheld.py SET… --mode hybrid --mode keyword

Bases of several sizes are sampled from each data set, as `kbhub dev eval` reads it, the same in every run. Prints, for
each size and mode, the area under the curve of the best score, and the share of each verdict in both cases.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kbhub.extensions.lab.corpus import (
    SEED,
    Corpus,
    EvalMode,
    EvalPlan,
    QueryResult,
    Setup,
    ask_one,
    eval_folder,
    eval_hub,
    sample,
    sync_corpus,
    write_document,
)
from kbhub.extensions.lab.datasets import SECTION_MARK, Dataset, EvalQuery, load_dataset
from kbhub.extensions.lab.measurement import area_under_curve

SIZES = (10, 50, 200, 1000)
"""Documents of the bases; the whole data set is measured, too."""

QUESTIONS = 60

CUTS = {10: 40, 50: 10, 200: 4, 1000: 2}
"""Number of document samples per size; with few documents, the choice matters more."""

ANSWERS = 10
"""A base keeps one of a question's relevant documents for every so many documents, and at least one."""

VERDICTS = ("strong", "weak", "none")


class ChangingBase:
    """A base whose documents change from question to question."""

    def __init__(self, dataset: Dataset, folder: Path, setup: Setup) -> None:
        self._documents = {document.id: document for document in dataset.documents}
        self._folder, self._current = folder / "all", set[str]()
        self._folder.mkdir()
        hub = eval_hub({"all": self._folder}, folder / "index", len(self._documents), setup)
        names = {("all", document.path): document.id for document in dataset.documents}
        self.corpus = Corpus(dataset, hub, ("all",), names, 0, 0.0, ())

    def variants(self, query: EvalQuery, size: int, generator: random.Random) -> tuple[set[str], set[str]]:
        """Choose the documents of a base with the answer of a question, and of the same base without it."""
        everything = size == len(self._documents)
        relevant = {name.partition(SECTION_MARK)[0] for name in query.gold} & self._documents.keys()
        without = set(self._documents if everything else generator.sample([*self._documents], size)) - relevant
        answering = sorted(relevant)[: None if everything else max(1, size // ANSWERS)]
        return without | set(answering), without

    def hold(self, documents: set[str]) -> None:
        """Make the base consist of these documents."""
        for name in self._current - documents:
            (self._folder / self._documents[name].path).unlink()
        for name in documents - self._current:
            write_document(self._folder, self._documents[name])
        self._current = documents
        sync_corpus(self.corpus.hub, ("all",))


def withhold(dataset: Dataset, modes: Sequence[EvalMode], setup: Setup) -> list[str]:
    """Return a line per size and mode: AUC, and the share of each verdict with the answer and without it."""
    lines = []
    queries = [query for query in dataset.queries if query.gold]
    chosen, total = sample(queries, QUESTIONS), len(dataset.documents)
    for size in [*(size for size in SIZES if size < total), total]:
        answers: dict[EvalMode, tuple[list[QueryResult], list[QueryResult]]] = {mode: ([], []) for mode in modes}
        with tempfile.TemporaryDirectory(dir=eval_folder(setup), prefix="without-") as folder:
            base, cuts = ChangingBase(dataset, Path(folder), setup), CUTS.get(size, 1)
            for number in sorted(range(len(chosen)), key=lambda number: number % cuts):
                generator = random.Random(f"{SEED} {size} {number % cuts}")
                for variant, documents in enumerate(base.variants(chosen[number], size, generator)):
                    base.hold(documents)
                    for mode, results in answers.items():
                        results[variant].append(ask_one(base.corpus, chosen[number], EvalPlan(mode), 10))
        for mode, both in answers.items():
            best = [[next(iter(answer.ranked.values()), 0.0) for answer in some] for some in both]
            auc = area_under_curve(*map(np.array, best))
            counts = [Counter(answer.verdict for answer in some) for some in both]
            shares = [f"{count[verdict] / len(chosen):.2f}" for count in counts for verdict in VERDICTS]
            lines.append(" ".join((dataset.name, str(size), mode, f"{auc:.3f}", *shares)))
    return lines


def main() -> None:
    """Measure the named sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--mode", action="append", choices=("keyword", "semantic", "hybrid"))
    given = parser.parse_args()
    print("set documents mode AUC", *(f"{case}:{verdict}" for case in ("answered", "without") for verdict in VERDICTS))
    for folder in given.sets:
        for line in withhold(load_dataset(folder), given.mode or ["hybrid"], Setup(dict(os.environ))):
            print(line, flush=True)


if __name__ == "__main__":
    main()
