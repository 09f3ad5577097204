"""Measure search, and embed texts: eval, embed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number
from pydantic import Field

from kbhub.cli.app import progress_bars
from kbhub.cli.options import RARE, Common, Exact, Reply, command, decoded, standard_input
from kbhub.errors import UsageError
from kbhub.extensions.lab.corpus import EvalMode, Setup, logged_dataset
from kbhub.extensions.lab.datasets import load_dataset
from kbhub.extensions.lab.measurement import Options
from kbhub.extensions.lab.measurement import evaluate as measure
from kbhub.extensions.lab.report import evaluation_text
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.search.pipeline import RANKING_SIGNALS
from kbhub.search.retrieval import SIGNALS
from kbhub.types import MOST_HITS

LEAST_RESULTS = 10
MOST_BASES = 100

VECTOR_DIGITS = 6
"""Digits of a component that are printed; a vector has no more to say."""


@command(evaluation_text)
def evaluate(
    hub: Hub,
    *datasets: Annotated[Path, Parameter(name="DATASET")],
    log: bool = False,
    mode: tuple[EvalMode, ...] = (),
    without: Annotated[tuple[str, ...], Parameter(metavar="SIGNAL")] = (),
    bases: Annotated[int, Parameter(metavar="N", validator=Number(gte=1, lte=MOST_BASES))] = 1,
    wordings: bool = False,
    transformer: Annotated[bool, Parameter(group=RARE)] = False,
    none: Annotated[tuple[Path, ...], Parameter(metavar="DATASET", group=RARE)] = (),
    limit: Annotated[int | None, Parameter(metavar="N", validator=Number(gte=1))] = None,
    depth: Annotated[int, Parameter(metavar="N", validator=Number(gte=LEAST_RESULTS, lte=MOST_HITS))] = LEAST_RESULTS,
    run: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    compare: Annotated[Path | None, Parameter(metavar="RUNFILE")] = None,
    min_ndcg10: Annotated[float | None, Parameter(metavar="X", validator=Number(gte=0, lte=1))] = None,
    fresh: Annotated[bool, Parameter(group=RARE)] = False,
    common: Common,
) -> Reply:
    """Measure search on data sets with known answers.

    A data set is a BEIR folder (corpus.jsonl, queries.jsonl, qrels.tsv), or a folder of Markdown with a queries.jsonl
    whose answers are files or sections. Your bases are not used.

    Example: kbhub dev eval ~/beir/scifact --mode keyword --mode hybrid

    Args:
        datasets: Folders to measure on.
        log: Measure on the queries logged in this project, with the documents read afterwards as answers.
        mode: Measure this mode; may be repeated. Default: keyword, semantic and hybrid. naive is plain full-text search
            as a baseline.
        without: Also measure without this signal, or several separated by commas; may be repeated.
        bases: Also measure with the documents split at random into N bases.
        wordings: Also measure with the wordings and the hypothetical answer of each query in rewordings.jsonl.
        transformer: Rerank with all-MiniLM-L6-v2 (`kbhub[onnx]`). Computes its vectors first, about 20 per second.
        none: Also run the queries of this data set, which have no answer here, and show how well that is recognised.
        limit: Run only N queries of each data set, chosen at random.
        depth: Results to request per query, and to write to run files.
        run: Write a TREC run file; of several runs, one each.
        compare: Compare with a TREC run file by a paired randomisation test; of several runs, with those of --run.
        min_ndcg10: Fail if nDCG@10 of hybrid (or of the given modes) is below this on any data set.
        fresh: Rebuild the indexes.

    Returns:
        The exit code: 1 if a result is below the floor that was set.
    """
    if not datasets and not log:
        raise UsageError(
            "Nothing to measure. Name a data set: kbhub dev eval DATASET, or measure on logged queries: "
            "kbhub dev eval --log"
        )
    chosen: tuple[EvalMode, ...] = tuple(dict.fromkeys(mode)) or ("keyword", "semantic", "hybrid")
    signals = (*SIGNALS, *(name for signal in RANKING_SIGNALS for name in signal.names))
    ablations = tuple(tuple(name.strip() for name in group.split(",") if name.strip()) for group in without)
    for name in (name for ablation in ablations for name in ablation):
        if name not in signals:
            raise UsageError(f"Unknown signal {name!r}. Signals: {', '.join(signals)}.")
    main: tuple[EvalMode, ...] = chosen if mode else ("hybrid",)
    options = Options(chosen, main, ablations, bases, wordings, depth, limit, run, compare, floor=min_ndcg10)
    judged, unanswerable = [load_dataset(folder) for folder in datasets], [load_dataset(folder) for folder in none]
    if wordings and not any(query.wordings for dataset in judged for query in dataset.queries):
        raise UsageError(
            "No data set given has other wordings. Add a `rewordings.jsonl` with `id` and `queries` to one."
        )
    judged += [logged_dataset(hub)] if log else []
    with progress_bars("") as progress:
        places = common.cache_dir, common.config
        setup = Setup(dict(os.environ), *places, fresh=fresh, transformer=transformer, progress=progress)
        report = measure(judged, unanswerable, options, setup)
    return Reply(report, code=1 if report.below else 0)


class EmbedResult(Model):
    """What `kbhub dev embed` made."""

    embedder: str = Field(description="Name of the model.")
    dimensions: int = Field(description="Length of each vector.")
    vectors: tuple[tuple[float, ...], ...] = Field(
        description="One vector per text, of length 1; all zeros if the model knows none of the words."
    )


@command()
def embed(hub: Hub, *texts: Annotated[str, Parameter(name="TEXT")], query: bool = False) -> Reply:
    """Print the vector of each text, one JSON list per line.

    Uses the embedder set in the config. Without TEXT, all of standard input is one text.

    Example: kbhub dev embed --query "how do we roll back"

    Args:
        texts: Texts to embed.
        query: Embed them as queries instead of documents, if the model distinguishes the two.
    """
    embedder = hub.embedder()
    if embedder is None:
        raise UsageError(
            "No embedder: `embedder.model` in the config is `none`. Name a model there, or remove the line to use "
            "the default."
        )
    limit = hub.config().settings.limits.file_bytes
    given = [*map(decoded, texts)] or ["" if sys.stdin.isatty() else standard_input(limit, "a text")]
    if not texts and not given[0].strip():
        raise UsageError('No text to embed. Give it as an argument or on standard input: kbhub dev embed "TEXT"')
    rows = [embedder.embed_query(text) for text in given] if query else list(embedder.embed(given))
    vectors = tuple(tuple(round(float(value), VECTOR_DIGITS) for value in row) for row in rows)
    none = [number for number, vector in enumerate(vectors, 1) if not any(vector)]
    hints = [f"Text {number} has no vector: the embedding model knows none of its words." for number in none]
    made = EmbedResult(embedder=embedder.name, dimensions=len(vectors[0]), vectors=vectors)
    lines = Exact("".join(f"{json.dumps(vector, separators=(',', ':'))}\n" for vector in vectors))
    return Reply(made.model_dump_json(), lines, hints=hints)
