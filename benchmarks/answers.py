"""How good answers without a model are: `python benchmarks/answers.py DATASET… [--limit N] [--tokens | --thresholds]`.

Of each query that has an answer: whether the answer cites it (of a section: a line of it), what share of the citations
does, and how long it is. Of queries of the other sets, which nothing answers: how often something is answered.
With `--thresholds`, the same figures by which the two thresholds were chosen, for several values of each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

from kbhub.answers.answer import AskOptions, estimated_tokens
from kbhub.answers.question import answer_without_client, prepare
from kbhub.extensions.lab.corpus import Corpus, Setup, open_corpus
from kbhub.extensions.lab.datasets import Dataset, EvalQuery, best_answer, load_dataset

FOREIGN = 20
"""Queries of each other set that are asked."""

BASE = "all"

DIRECT, LEAST = (0.5, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)
"""Values of the two thresholds that are compared."""


def sample(queries: list[EvalQuery], limit: int | None) -> list[EvalQuery]:
    step = max(1, len(queries) // limit) if limit else 1
    return queries[::step][: limit or len(queries)]


def gold(dataset: Dataset, corpus: Corpus, query: EvalQuery, ref: str, lines: tuple[int, int]) -> bool:
    document = corpus.documents[BASE, ref.partition("@")[2] or ref]
    if dataset.sections is None:
        return query.gold.get(document, 0) > 0
    return query.gold.get(best_answer(document, dataset.sections[document], lines, query.gold), 0) > 0


def judge(dataset: Dataset, corpus: Corpus, queries: list[EvalQuery]) -> dict[str, float]:
    rows = []
    for query in queries:
        started = time.perf_counter()
        prepared = prepare(corpus.hub, query.text, bases=corpus.bases)
        answer = answer_without_client(corpus.hub, prepared)
        elapsed = (time.perf_counter() - started) * 1000
        refs = {one.number: one for one in answer.references}
        cited = [gold(dataset, corpus, query, refs[one.number].ref, (one.line, one.line)) for one in answer.support]
        direct = [one for one in answer.references if one.tier == "direct"][:3]
        given = [one for one in answer.references if one.tier in ("direct", "summarized")]
        right = [gold(dataset, corpus, query, one.ref, (one.start_line, one.end_line)) for one in direct]
        among = [gold(dataset, corpus, query, one.ref, (one.start_line, one.end_line)) for one in given]
        first = bool(cited) and cited[0]
        share = sum(cited) / len(cited) if cited else 0.0
        rows.append(
            (any(cited), first, share, any(right), any(among), len(cited), estimated_tokens(answer.text), elapsed)
        )
    names = (
        "cited",
        "cited first",
        "share of citations",
        "among direct",
        "among passages",
        "sentences",
        "tokens",
        "ms",
    )
    return {name: statistics.fmean(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def answered(corpus: Corpus, queries: list[EvalQuery]) -> tuple[float, float]:
    made = [answer_without_client(corpus.hub, prepare(corpus.hub, query.text, bases=corpus.bases)) for query in queries]
    direct = [any(one.tier == "direct" for one in answer.references) for answer in made]
    return statistics.fmean(answer.outcome == "written" for answer in made), statistics.fmean(direct)


def thresholds(dataset: Dataset, corpus: Corpus, queries: list[EvalQuery], others: list[EvalQuery]) -> dict[str, float]:
    """Of queries with an answer: whether it is among what a threshold lets through; of others, whether anything is."""

    def scored(query: EvalQuery) -> list[tuple[float, bool]]:
        everything = AskOptions(threshold=0.0, direct_threshold=1.0)
        prepared = prepare(corpus.hub, query.text, bases=corpus.bases, options=everything)
        found = [one for one in prepared.passages if one.tier in ("direct", "summarized")]
        return [
            (one.score or 0.0, gold(dataset, corpus, query, one.ref, (one.start_line, one.end_line))) for one in found
        ]

    own, foreign = [scored(query) for query in queries], [scored(query) for query in others]
    figures = {}
    for least in DIRECT:
        figures[f"direct {least:g}"] = statistics.fmean(
            any(right for score, right in one[:3] if score >= least) for one in own
        )
        figures[f"foreign direct {least:g}"] = statistics.fmean(
            any(score >= least for score, _ in one) for one in foreign
        )
    for least in LEAST:
        figures[f"used {least:g}"] = statistics.fmean(
            any(right for score, right in one if score >= least) for one in own
        )
        figures[f"foreign used {least:g}"] = statistics.fmean(
            any(score >= least for score, _ in one) for one in foreign
        )
    return figures


def tokens(datasets: list[Dataset]) -> None:
    """Compare the estimate with the packaged model's own tokenizer."""
    from kbhub.models.embedding import PACKAGED_MODEL
    from kbhub.models.static_vectors import StaticVectors

    tokenizer = StaticVectors(str(PACKAGED_MODEL)).model.tokenizer
    print("| set | texts | estimate / tokens: 1 of 100 below | half below |\n|---|---|---|---|")
    for dataset in datasets:
        texts = [part for one in dataset.documents for part in one.data.decode().split("\n\n") if len(part) > 100]
        shares = sorted(
            estimated_tokens(one) / max(1, len(tokenizer.encode(one, add_special_tokens=False).ids)) for one in texts
        )
        print(
            f"| {dataset.name} | {len(texts):,} | {shares[len(shares) // 100]:.2f} | {shares[len(shares) // 2]:.2f} |"
        )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="+", type=Path)
    parser.add_argument("--limit", type=int, help="queries of each set")
    parser.add_argument("--tokens", action="store_true", help="measure the estimate of tokens instead")
    parser.add_argument("--thresholds", action="store_true", help="compare values of the thresholds instead")
    parser.add_argument("--cache", type=Path, help="folder for the corpora and their indexes")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    datasets = [load_dataset(folder) for folder in arguments.datasets]
    if arguments.tokens:
        tokens(datasets)
        return
    report = {}
    for dataset in datasets:
        corpus = open_corpus(dataset, Setup(dict(os.environ), arguments.cache))
        queries = [query for query in dataset.queries if query.gold]
        others = [query for other in datasets if other is not dataset for query in sample(list(other.queries), FOREIGN)]
        if arguments.thresholds:
            report[dataset.name] = thresholds(dataset, corpus, sample(queries, arguments.limit), others)
            continue
        figures = judge(dataset, corpus, sample(queries, arguments.limit))
        if others:
            figures["foreign answered"], figures["foreign with direct"] = answered(corpus, others)
        report[dataset.name] = figures
        print(f"{dataset.name} done", file=sys.stderr)
    if arguments.json:
        print(json.dumps(report, indent=2))
        return
    names = list(next(iter(report.values())))
    print(f"| set | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for name, figures in report.items():
        print(
            f"| {name} | {' | '.join(f'{figures[one]:.0f}' if figures[one] >= 20 else f'{figures[one]:.2f}' for one in names)} |"
        )


if __name__ == "__main__":
    main()
