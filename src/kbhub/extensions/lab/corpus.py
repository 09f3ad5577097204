"""Corpora and queries of an evaluation: of data sets, or of the user's own base and log."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from kbhub.documents.chunking import chunk_document
from kbhub.documents.markdown import decode, parse_document
from kbhub.errors import BaseUnavailable, DatasetError, IndexUnavailable, UsageError
from kbhub.extensions.lab.datasets import Dataset, EvalDocument, EvalQuery, best_answer, files_of
from kbhub.hub import Hub, HubOptions
from kbhub.index.matches import NaiveIndex
from kbhub.index.references import ref_of
from kbhub.search.search import search
from kbhub.sync.background import embed_ahead
from kbhub.sync.comparison import Progress
from kbhub.sync.freshness import sync
from kbhub.types import MOST_HITS, Mode, Query
from kbhub.usage.log import log_of
from kbhub.values import struct
from kbhub.workspace.files import own_folder, private_directory

FOLDER = "eval"
"""Folder in the cache directory for corpora and their indexes; safe to delete."""

SEED = 20260101
"""Seed for splitting into bases and for sampling queries, so that every run is the same."""

WRITTEN = 1_767_225_600
"""Modification time of all files, 2026-01-01 UTC in seconds since the epoch, so that ages are the same in every run."""

NOW = WRITTEN + 86_400.0
"""The hub's current time, unless the queries have one: a day later."""

BUSY_SECONDS, BUSY_STEP_SECONDS = 600.0, 0.5
"""How long to wait for another process that indexes the same corpus, and the polling interval."""

_PLACES = frozenset(("KBHUB_ROOT", "KBHUB_BASES", "KBHUB_CONFIG", "KBHUB_CACHE_DIR", "KBHUB_DATA_DIR", "KBHUB_DISABLE"))


@struct
class Setup:
    """How corpora are created and opened."""

    env: Mapping[str, str]
    """The user's environment, of which settings apply and places are ignored."""
    cache: Path | None = None
    config: Path | None = None
    """Global config with the settings to use, or None for the defaults."""
    fresh: bool = False
    transformer: bool = False
    """Whether to rerank by the transformer, whose vectors are then computed first."""
    progress: Progress | None = None
    """Called with a label, the number of finished steps and their total."""


@struct
class Corpus:
    """A data set that is indexed and ready to search."""

    dataset: Dataset
    hub: Hub
    bases: tuple[str, ...]
    documents: Mapping[tuple[str, str], str]
    """(base, path) → id of the document in the data set."""
    chunks: int
    index_seconds: float
    """Time to sync the index, near 0 if it existed."""
    notes: tuple[str, ...]
    """Files that could not be indexed, and why."""


def open_corpus(dataset: Dataset, setup: Setup, parts: int = 1, now: float = NOW) -> Corpus:
    """Write a data set's documents to files, if there are none, at random in `parts` bases, and index them."""
    if parts > len(dataset.documents):
        raise UsageError(f"{dataset.name} has {len(dataset.documents)} documents, too few to fill {parts} bases.")
    root, shares = eval_folder(setup), {"all": [*dataset.documents]}
    if parts > 1:
        random.Random(SEED).shuffle(shares["all"])  # noqa: S311 - a cut, no secret
        shares = {f"part{number + 1}": shares["all"][number::parts] for number in range(parts)}
    try:
        folder = _write_files(private_directory(root / dataset.digest), shares)
    except OSError as error:
        raise IndexUnavailable(FOLDER, f"{root}: {error.strerror}") from error
    bases = {name: folder / name for name in shares}
    hub = eval_hub(bases, root / dataset.digest / "index", len(dataset.documents), setup, now)
    started, told = time.monotonic(), setup.progress
    progress = (lambda _, done, todo: told(f"indexing {dataset.name}", done, todo)) if told else None
    chunks, notes = sync_corpus(hub, tuple(shares), full=setup.fresh, progress=progress)
    if setup.transformer:
        embed_ahead(hub, hub.discovery().bases, lambda: True, progress)
    documents = {(name, document.path): document.id for name, share in shares.items() for document in share}
    return Corpus(dataset, hub, tuple(shares), documents, chunks, time.monotonic() - started, notes)


def eval_folder(setup: Setup) -> Path:
    """Return the folder of all corpora, creating it if necessary."""
    folder = own_folder("cache", setup.env, setup.cache) / FOLDER
    try:
        return private_directory(folder)
    except OSError as error:
        raise IndexUnavailable(FOLDER, f"{folder}: {error.strerror}") from error


def eval_hub(bases: Mapping[str, Path], cache: Path, documents: int, setup: Setup, now: float = NOW) -> Hub:
    """Open a hub with only these bases (id → folder) and at most so many documents, isolated from the user's own."""
    home = private_directory(eval_folder(setup) / "home")
    env = {name: value for name, value in setup.env.items() if name not in _PLACES}
    ours = {"KBHUB_SEARCH__SECOND_LOOK": str(setup.transformer).lower(), "KBHUB_DATA_DIR": str(home)}
    env = {"KBHUB_LIMITS__FILES": str(documents + 1), **env, **ours}
    options = HubOptions(config=setup.config, bases=bases, cache=cache, env=env, cwd=home, home=home, clock=lambda: now)
    return Hub(options)


def sample(queries: Sequence[EvalQuery], limit: int | None) -> list[EvalQuery]:
    """Return at most `limit` queries in their order, sampled at random but the same in every run."""
    if limit is None or len(queries) <= limit:
        return list(queries)
    chosen = random.Random(SEED).sample(range(len(queries)), limit)  # noqa: S311 - a choice, no secret
    return [queries[number] for number in sorted(chosen)]


def _write_files(folder: Path, shares: Mapping[str, Sequence[EvalDocument]]) -> Path:
    """Write the files of all bases atomically, so that an interrupted run leaves no partial corpus."""
    target = folder / f"bases{len(shares)}"
    if target.is_dir():
        return target
    making = Path(tempfile.mkdtemp(prefix="making-", dir=folder))
    for name, share in shares.items():
        for document in share:
            write_document(making / name, document)
    try:
        making.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        shutil.rmtree(making, ignore_errors=True)  # another process was first
    return target


def write_document(folder: Path, document: EvalDocument) -> None:
    """Write a document to its file."""
    file = folder / document.path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(document.data)
    os.utime(file, (WRITTEN, WRITTEN))


def sync_corpus(
    hub: Hub, bases: Sequence[str], *, full: bool = False, progress: Progress | None = None
) -> tuple[int, tuple[str, ...]]:
    """Sync bases, waiting for other processes; return the number of chunks, and notes on files that failed."""
    chunks, notes, end = 0, [], time.monotonic() + BUSY_SECONDS
    for base in bases:
        while (report := sync(hub, (base,), full=full, progress=progress)[0]).busy:
            if time.monotonic() > end:
                raise IndexUnavailable(base, "another process has been indexing it for too long")
            time.sleep(BUSY_STEP_SECONDS)
        chunks += report.chunks
        notes += [f"{problem.subject}: {problem.message}" for problem in report.failed]
        notes += report.notes
    return chunks, tuple(notes)


def logged_dataset(hub: Hub) -> Dataset:
    """Build a data set from logged queries of which a hit was read, without memories, which originate from queries."""
    log = log_of(hub)
    documents, notes, bases = [], [], hub.discovery().bases
    for number, base in enumerate(bases):
        try:
            files, skipped = files_of(base) if base.kind == "document" else ({}, [])
        except BaseUnavailable as error:
            files, skipped = {}, [str(error)]
        notes += skipped
        # The number of the base, because its id may not be a valid folder name.
        documents += [EvalDocument(ref_of(base, path, bases), f"{number}/{path}", data) for path, data in files.items()]
    document_ids = {document.id for document in documents}
    gold: dict[str, dict[str, int]] = {}
    texts: dict[str, str] = {}
    for query in log.judged():
        key = query.key or query.text
        gold.setdefault(key, {}).update({ref: 1 for ref in query.opened if ref in document_ids})
        texts[key] = query.text  # the latest
    answered = [(texts[key], answers) for key, answers in gold.items() if answers]
    queries = [EvalQuery(f"q{number}", text, answers) for number, (text, answers) in enumerate(answered, 1)]
    if not queries:
        raise DatasetError(log.path, "has no query whose document was read afterwards and still exists")
    if missing := len(gold) - len(queries):
        notes.append(f"Skipped queries whose documents are gone or are memories: {missing}.")
    return Dataset("log", tuple(documents), tuple(queries), notes=tuple(notes))


EvalMode = Literal["naive", "keyword", "semantic", "hybrid"]
"""`naive` is plain full-text search."""

MOST_PAGES = 5
"""Maximum of result pages fetched for enough distinct sections, since several chunks of one section count once."""


@struct
class EvalPlan:
    """A search configuration to measure."""

    mode: EvalMode
    without: tuple[str, ...] = ()
    parts: int = 1
    wordings: bool = False
    passage: bool = False

    @property
    def name(self) -> str:
        """A readable name that stays unique in a file name."""
        without = f" without {'+'.join(self.without)}" if self.without else ""
        wordings = " with wordings" * self.wordings + " and passage" * self.passage
        return f"{self.mode}{without}{wordings}{f', {self.parts} bases' if self.parts > 1 else ''}"


@struct
class QueryResult:
    """The result of a query."""

    query: EvalQuery
    ranked: Mapping[str, float]
    """Distinct documents or sections of the data set, best first → score."""
    milliseconds: float
    """Time of the search for the first page."""
    verdict: str | None = None
    fell_back: bool = False


def ask(
    corpus: Corpus, queries: Sequence[EvalQuery], plan: EvalPlan, *, depth: int, progress: Progress | None = None
) -> list[QueryResult]:
    """Run queries, maybe of another data set than the corpus, after an unmeasured one that opens its indexes."""
    if plan.mode == "naive":
        return ask_naively(corpus.dataset, queries, depth)
    answers = []
    for number, query in enumerate([*queries[:1], *queries]):
        answers.append(ask_one(corpus, query, plan, depth))
        if progress and number:
            progress(f"asking {corpus.dataset.name}, {plan.name}", number, len(queries))
    return answers[1:]


def ask_naively(dataset: Dataset, queries: Sequence[EvalQuery], depth: int) -> list[QueryResult]:
    """Run queries on the full-text baseline, over documents or, if answers are sections, over kbhub's chunks."""
    places: list[tuple[str, tuple[int, int]]] = []
    texts: list[str] = []
    for document in dataset.documents:
        if dataset.sections is None:
            places.append((document.id, (0, 0)))
            texts.append(decode(document.data)[0])
            continue
        parsed = parse_document(document.path, document.data)
        for chunk in chunk_document(parsed):
            places.append((document.id, (chunk.start_line, chunk.end_line)))
            texts.append("\n".join((parsed.title, *chunk.headings, chunk.text)))
    index = NaiveIndex(texts)
    answers = []
    for query in queries:
        started = time.perf_counter()
        rows = index.rank(query.text, depth)
        elapsed = (time.perf_counter() - started) * 1000
        if dataset.sections is not None:
            rows = index.rank(query.text, depth * MOST_PAGES)
        ranked: dict[str, float] = {}
        for number, score in rows:
            ranked.setdefault(_item(dataset, *places[number], query), score)
        answers.append(QueryResult(query, dict(islice(ranked.items(), depth)), elapsed))
    return answers


def ask_one(corpus: Corpus, query: EvalQuery, plan: EvalPlan, depth: int) -> QueryResult:
    """Run one query; see `ask`."""
    mode: Mode = "hybrid" if plan.mode == "naive" else plan.mode
    request = Query(
        text=query.text,
        queries=query.wordings if plan.wordings else (),
        passage=query.passage if plan.passage else "",
        bases=corpus.bases,
        mode=mode,
        limit=min(depth, MOST_HITS),
        granularity="document" if corpus.dataset.sections is None else "chunk",
        without=plan.without,
    )
    started = time.perf_counter()
    result = search(corpus.hub, request)
    elapsed = (time.perf_counter() - started) * 1000
    for skipped in result.skipped:  # figures for a part of the corpus are meaningless
        raise IndexUnavailable(skipped.base, skipped.reason)
    ranked: dict[str, float] = {}
    page, offset = result, 0
    while True:
        for hit in page.hits:
            document = corpus.documents[hit.base, hit.path]
            ranked.setdefault(_item(corpus.dataset, document, (hit.start_line, hit.end_line), query), hit.score)
        offset += request.limit
        if len(ranked) >= depth or offset >= min(page.total, MOST_PAGES * request.limit):
            break
        page = search(corpus.hub, request.model_copy(update={"offset": offset}))
    fell_back = result.mode != mode and not plan.without
    return QueryResult(query, dict(islice(ranked.items(), depth)), elapsed, result.verdict, fell_back)


def _item(dataset: Dataset, name: str, lines: tuple[int, int], query: EvalQuery) -> str:
    if dataset.sections is None:
        return name
    return best_answer(name, dataset.sections[name], lines, query.gold)
