"""Entry points of search, which open the bases; the ranking code and numpy are imported on the first query."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial

from kbhub.errors import BaseUnavailable, EmbedderError, IndexUnavailable, UsageError
from kbhub.hub import Hub
from kbhub.index.query.parser import parse_query
from kbhub.index.sqlite.index import NOT_THERE
from kbhub.models.embedding import Embedder
from kbhub.search.judge import unfinished
from kbhub.search.plan import OpenBase, OpenBases, TermWeights
from kbhub.sync.base_suggestions import outside
from kbhub.sync.freshness import Freshness, is_in_progress, why_unread
from kbhub.types import MOST_HITS, Base, Query, SearchResult, Skipped
from kbhub.values import struct
from kbhub.workspace.extensions import extensions, load

MOST_QUERIES, MOST_CHARACTERS = 5, 2000
"""Limits on other wordings, and on the characters of each and of the passage."""

CUT = "Only the first {:,} characters of each other wording are used."

NO_LLM_INSTALLED = "No language model was asked: no extension for that is installed."
"""Note on an answer, and the reason why no model writes one."""


@struct
class LlmOptions:
    """Which help of a language model to use; None leaves it to the settings."""

    expand: bool | None = None
    rerank: bool | None = None
    expand_model: str | None = None


NO_LLM = LlmOptions()


def search(
    hub: Hub, query: Query | str, weights: TermWeights | None = None, *, typing: bool = False, notes: Sequence[str] = ()
) -> SearchResult:
    """Search all selected bases as last indexed; one that fails is listed in `skipped`.

    A string is searched with the mode and limit of the settings; `weights` gets those of its terms. The last word of a
    query that somebody is typing may be the beginning of one. `notes` are the last of the result.
    """
    # numpy costs 15 MB and 60 ms, and many servers never get a query.
    from kbhub.search import pipeline  # noqa: PLC0415

    if isinstance(query, str):
        defaults = hub.config().settings.search
        query = Query(text=query, mode=defaults.mode, limit=defaults.limit)
    selected, own, embedder = hub.select(query.bases), list[str](), None
    if query.mode != "keyword":
        reason: object = "`embedder.model` is `none`."
        try:
            embedder = hub.embedder()
            if embedder and not embedder.fingerprint:
                embedder = None
        except EmbedderError as error:  # a model server may not answer
            embedder, reason = None, error
        own += [] if embedder else [f"Keyword search only: {reason}"]
    with hub.readers, ExitStack() as stack:
        bases = _opened(hub, selected, query, embedder, own, stack)
        if typing:
            completed = load("kbhub.index.query.spelling:completed")(bases.indexes, query.text)
            query = query.model_copy(update={"text": completed})
        result = pipeline.ranked(query, bases, weights)
    late = unfinished(bases, result.hits)
    if not query.bases and result.verdict != "strong":
        late += [problem.text for problem in hub.missing()]
        late += outside(hub) if result.verdict == "none" else ()
    searched = (*[base.base.id for base in bases.open], *bases.scans)
    return result.model_copy(
        update={
            "searched": tuple(dict.fromkeys(searched)),
            "skipped": tuple(bases.skipped),
            "notes": (*dict.fromkeys((*result.notes, *late)), *notes),
        }
    )


def _opened(
    hub: Hub, selected: Sequence[Base], query: Query, embedder: Embedder | None, notes: list[str], stack: ExitStack
) -> OpenBases:
    """Open the indexes of bases; one that cannot be opened is skipped, and one without a first index scanned."""
    bases = OpenBases(hub, hub.options.clock(), embedder, notes)
    fingerprint = embedder.fingerprint if embedder else None
    lacking: list[tuple[Base, list[str]]] = []
    for base in selected:
        index = hub.index(base)
        try:
            if not os.path.isdir(base.path):  # noqa: PTH112 - Path.is_dir raises where it may not look
                raise BaseUnavailable(base.id, f"{base.path} is gone")
            stack.enter_context(index.snapshot())
            comparable = index.meta("embedder") == fingerprint
            synced = index.meta("synced") is not None
            complete = synced and not hub.state(Freshness).behind.get(base.id)
            if not synced and not base.engine:
                lacking.append((base, index.paths()))
        except (BaseUnavailable, IndexUnavailable) as error:
            if isinstance(error, IndexUnavailable) and not base.engine and is_in_progress(hub, base):
                lacking.append((base, []))
                continue
            reason, progress = why_unread(hub, error), dict(hub.state(Freshness).progress)
            if error.reason == NOT_THERE and reason == error.alone and progress:
                reason = f"It is not indexed yet; it is queued after {' and '.join(map(repr, progress))}."
            bases.skipped.append(Skipped(base=base.id, reason=reason))
            continue
        if fingerprint and not comparable:
            notes.append(f"{base.id}: keyword search only, until its vectors are recomputed with the current embedder.")
        bases.open.append(OpenBase(base, index, comparable, complete))
    if lacking:
        # The parsers take 50 ms to load, and a first index is made once.
        from kbhub.sync.unindexed import scan  # noqa: PLC0415

        terms = [term for text in (query.text, *query.queries, query.passage) for term in parse_query(text).terms]
        for base, indexed in lacking:
            with suppress(BaseUnavailable):  # gone since it was opened
                bases.scans[base.id], found = scan(base, indexed, terms, hub.limits(), embedder, stack)
                bases.open += [OpenBase(base, found, embedder is not None, complete=False)] if found else []
    return bases


def every_hit(hub: Hub, query: Query, most: int = sys.maxsize) -> SearchResult:
    """Search page by page until there are no more hits, or at least `most`."""
    query = query.model_copy(update={"limit": MOST_HITS, "offset": 0})
    result = page = search(hub, query)
    hits = list(result.hits)
    while page.hits and len(hits) < min(page.total, most):
        page = search(hub, query.model_copy(update={"offset": len(hits)}))
        hits += page.hits
    notes = tuple(dict.fromkeys((*result.notes, *page.notes)))
    return result.model_copy(update={"hits": tuple(hits), "total": len(hits), "notes": notes})


def search_assisted(
    hub: Hub, query: Query, wanted: LlmOptions = NO_LLM, weights: TermWeights | None = None
) -> SearchResult:
    """Search with the requested help of a language model, or what the settings enable."""
    settings = hub.config().settings
    expands = settings.expansion.enabled if wanted.expand is None else wanted.expand
    reranks = settings.rerank.enabled if wanted.rerank is None else wanted.rerank
    if len(query.queries) > MOST_QUERIES:
        raise UsageError(f"{len(query.queries)} other wordings are too many; the maximum is {MOST_QUERIES}.")
    notes: tuple[str, ...] = ()
    if max(map(len, (*query.queries, query.passage))) > MOST_CHARACTERS:
        cut, notes = tuple([text[:MOST_CHARACTERS] for text in query.queries]), (CUT.format(MOST_CHARACTERS),)
        query = query.model_copy(update={"queries": cut, "passage": query.passage[:MOST_CHARACTERS]})
    if query.queries or query.passage:
        expands = False
    wants = expands or reranks
    searches = [name for extension in extensions() for name in extension.searches] if wants else []
    notes = notes if searches or not wants else (*notes, NO_LLM_INSTALLED)
    run = partial(search, hub, weights=weights, notes=notes)
    expansion = replace(settings.expansion, enabled=expands, model=wanted.expand_model or settings.expansion.model)
    rerank = replace(settings.rerank, enabled=reranks)
    for name in searches:
        run = partial(load(name), run, hub, expansion, rerank)
    return run(query)
