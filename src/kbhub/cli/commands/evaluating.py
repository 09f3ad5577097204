"""Measuring search: eval."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub.cli.console import progress_bars, show_json, show_text
from kbhub.cli.hubs import hub_options
from kbhub.cli.options import Common
from kbhub.errors import UsageError
from kbhub.evaluation import Options, load_dataset
from kbhub.evaluation import evaluate as measure
from kbhub.evaluation.corpus import Setup, logged_dataset
from kbhub.hub import Hub
from kbhub.render.evaluation import evaluation_text
from kbhub.search.evidence import AMOUNTS
from kbhub.search.names import SIGNAL as NAME
from kbhub.search.rerank_transformer import SIGNAL as SECOND_LOOK
from kbhub.search.scores import SIGNALS
from kbhub.types import MOST_HITS

if TYPE_CHECKING:
    from kbhub.evaluation.asking import EvalMode

LEAST_RESULTS = 10
"""Results that the figures look at."""
MOST_BASES = 100
"""Bases that a corpus is cut into at most."""

DEFAULT_MODES: tuple[EvalMode, ...] = ("keyword", "semantic", "hybrid")


def evaluate(
    *datasets: Path,
    log: Annotated[bool, Parameter(name="--log")] = False,
    mode: Annotated[tuple[Literal["naive", "keyword", "semantic", "rrf", "hybrid"], ...], Parameter()] = (),
    without: Annotated[tuple[str, ...], Parameter(metavar="SIGNAL")] = (),
    bases: Annotated[int, Parameter(metavar="N", validator=Number(gte=1, lte=MOST_BASES))] = 1,
    wordings: bool = False,
    none: Annotated[tuple[Path, ...], Parameter(metavar="DATASET")] = (),
    limit: Annotated[int | None, Parameter(metavar="N", validator=Number(gte=1))] = None,
    depth: Annotated[int, Parameter(metavar="N", validator=Number(gte=LEAST_RESULTS, lte=MOST_HITS))] = LEAST_RESULTS,
    run: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    compare: Annotated[Path | None, Parameter(metavar="RUNFILE")] = None,
    min_ndcg10: Annotated[float | None, Parameter(metavar="X", validator=Number(gte=0, lte=1))] = None,
    without_answers: bool = False,
    fresh: bool = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Measure how well search finds what is known to answer queries.

    A data set is a BEIR folder (corpus.jsonl, queries.jsonl, qrels.tsv), or a folder of Markdown with a
    queries.jsonl whose answers are files or sections. Neither the project's bases nor your own take part.

    Example: kbhub eval ~/beir/scifact --mode keyword --mode hybrid

    Args:
        datasets: Folders to measure on.
        log: Measure on what was asked in this project, answered by the documents that were read afterwards.
        mode: Measure this mode; may be repeated. Without it, keyword, semantic and hybrid; naive is the baseline of
            plain full-text search, rrf is hybrid with ranks joined in place of values.
        without: Measure again without this signal, or without several joined by commas; may be repeated.
        bases: Measure again with the documents cut into N bases at random.
        wordings: Measure again with the other wordings of each query in rewordings.jsonl, and with its made-up answer.
        none: Ask the queries of this other data set, which nothing here answers, and show how well scores and
            verdicts tell; may be repeated.
        limit: Ask only N queries of each data set, chosen at random.
        depth: Results to ask for, and to write into run files.
        run: Write a TREC run file; with several runs, one each, with data set and run in the name.
        compare: Compare with such a file by a paired randomisation test; with several runs, with those of --run.
        min_ndcg10: Fail if the nDCG@10 of hybrid (or of the modes named) is below this on any data set.
        without_answers: Ask each question also of bases of 10 to 1,000 documents, with its answer and without it, and
            show how well scores and verdicts tell.
        fresh: Index the documents again.
        common: Options of every command.

    Returns:
        The exit code: 1 if a floor was set and something is below it.
    """
    if not datasets and not log:
        raise UsageError("Nothing to measure on. Name a folder: kbhub eval DATASET; or --log, for what was asked here.")
    chosen = tuple(dict.fromkeys(mode)) or DEFAULT_MODES
    signals = (*SIGNALS, *AMOUNTS, NAME, SECOND_LOOK)
    for name in (name.strip() for group in without for name in group.split(",")):
        if name not in signals:
            raise UsageError(f"There is no signal {name!r} to leave out; there are {', '.join(signals)}.")
    options = Options(
        modes=chosen,
        main=chosen if mode else ("hybrid",),
        without=tuple(tuple(part.strip() for part in signals.split(",") if part.strip()) for signals in without),
        parts=bases,
        wordings=wordings,
        depth=depth,
        limit=limit,
        run=run,
        compare=compare,
        floor=min_ndcg10,
        without_answers=without_answers,
    )
    judged, unanswerable = [load_dataset(folder) for folder in datasets], [load_dataset(folder) for folder in none]
    if wordings and not any(query.wordings for dataset in judged for query in dataset.queries):
        raise UsageError("No data set here has other wordings: a `rewordings.jsonl` with `id` and `queries`.")
    judged += [logged_dataset(Hub(hub_options(common)))] if log else []
    with progress_bars("") as progress:
        setup = Setup(dict(os.environ), common.cache_dir, common.config, fresh=fresh, progress=progress)
        report = measure(judged, unanswerable, options, setup)
    if common.json:
        show_json(report.model_dump_json(indent=2))
    else:
        show_text(evaluation_text(report))
    return 1 if report.below else 0
