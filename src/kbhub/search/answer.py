"""Search several bases and merge the answers; imports numpy, so call it through `search.search`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from kbhub.errors import BaseUnavailable, EmbedderError, IndexUnavailable, KbhubError
from kbhub.index.query.parser import parsed
from kbhub.index.sqlite.reader import NOT_THERE
from kbhub.models.embedding import Embedder
from kbhub.models.onnx import minilm
from kbhub.search.find import Dependencies, find
from kbhub.search.hits import OpenBase
from kbhub.search.memory_boost import standings, uses_of
from kbhub.search.notes import leading_notes, notes_on, unfinished
from kbhub.search.rerank_transformer import TransformerRanking
from kbhub.search.retrieval import WeightedTerm, keyword_ranking
from kbhub.search.scores import PACKAGED, RankedPage
from kbhub.sync.background import is_used
from kbhub.sync.base_suggestions import outside
from kbhub.sync.deleted_texts import DeletedTexts
from kbhub.sync.freshness import Freshness, is_in_progress
from kbhub.types import Base, Query, SearchResult, Skipped, Verdict
from kbhub.workspace.files import is_directory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kbhub.hub import Hub
    from kbhub.sync.unindexed import UnindexedScan


def answer(hub: Hub, query: Query | str) -> SearchResult:
    """Search all selected bases as last indexed (see `sync` to index them first).

    A base that fails is listed in `skipped`; the others still answer. A string is searched with the mode and limit of
    the settings. Raises `BaseNotFound` if the query names a base that is not active.
    """
    if isinstance(query, str):
        defaults = hub.config().settings.search
        query = Query(text=query, mode=defaults.mode, limit=defaults.limit)
    bases = hub.select(query.bases)
    limitations: list[str] = []
    embedder = _embedder(hub, limitations) if query.mode != "keyword" else None
    with hub.readers, ExitStack() as stack:
        searched, skipped, lacking = _opened(hub, bases, stack, embedder, limitations)
        scans = _scanned(hub, query, searched, lacking, stack, embedder) if lacking else {}
        dependent = dependencies(hub, embedder, limitations)
        found = _find(hub, query, searched, skipped, dependent, everything=not scans)
    parsed_query, state = found.understood, hub.state(Freshness)
    filters = (*(f'-"{term.text}"' for term in parsed_query.excluded), *map(str, parsed_query.filters))
    notes = [
        *leading_notes(found),
        *limitations,
        *notes_on(found, filters, query, hub.discovery()),
        # Copies, because syncs on other threads change them.
        *unfinished(searched, scans, dict(state.progress), dict(state.behind), dict(state.failed), found.hits),
    ]
    if not query.bases and found.verdict != "strong":
        notes += _elsewhere(hub, found.verdict)
    return SearchResult(
        query=query.text.encode("utf-8", "replace").decode("utf-8"),
        mode=found.mode,
        hits=found.hits,
        total=found.total,
        total_exact=not found.ends,
        searched=tuple(dict.fromkeys((*(base.base.id for base in searched), *scans))),
        skipped=tuple(skipped),
        unmatched=found.unmatched,
        corrections=found.corrections,
        filters=filters,
        verdict=found.verdict,
        notes=tuple(dict.fromkeys(notes)),
        terms=found.terms,
    )


def weighted_terms(hub: Hub, names: Iterable[str], text: str) -> Sequence[WeightedTerm]:
    """Return the query's terms weighted over the given bases; with equal weights if an index is damaged."""
    with ExitStack() as stack:
        indexes = []
        for base in hub.select(names):
            index = hub.index(base)
            with suppress(IndexUnavailable):
                stack.enter_context(index.snapshot())
                indexes.append(index)
        terms = parsed(text).terms
        try:
            return keyword_ranking(indexes, terms).terms
        except IndexUnavailable:  # damaged since it was searched
            return keyword_ranking([], terms).terms


def dependencies(hub: Hub, embedder: Embedder | None, limitations: list[str]) -> Dependencies:
    """Build what `find` needs besides open indexes; without an embedder, for keyword search only.

    `limitations` is filled during the search with reasons why the answer is limited.
    """

    def embed(text: str) -> NDArray[np.float32] | None:
        if embedder is None:
            return None
        try:
            vector = embedder.embed_query(text)
        except EmbedderError as error:
            limitations.append(f"Keyword search only: {error}")
            return None
        if not vector.any():
            if parsed(text).terms:  # a query without words has a note of its own
                limitations.append("Keyword search only: the embedding model knows none of the words of this query.")
            return None
        return vector

    def boosts(base: OpenBase, paths: Sequence[str]) -> dict[str, float]:
        read = standings(base.index, base.base, uses_of(hub), paths, now)
        return {path: boost.factor for path, boost in read.items()}

    def gone_since(base: Base, path: str) -> float | None:
        return DeletedTexts(hub.limits().kept, base).gone_since(path)

    settings, now = hub.config().settings, hub.options.clock()
    return Dependencies(
        now,
        embed,
        hub.discovery().bases,
        settings.embedder.model or PACKAGED,
        settings.contexts,
        boosts,
        gone_since,
        TransformerRanking(minilm(), limitations.append) if is_used(hub) else None,
    )


def _embedder(hub: Hub, limitations: list[str]) -> Embedder | None:
    try:
        embedder = hub.embedder()
        if embedder and embedder.fingerprint:  # a model server may not answer
            return embedder
        limitations.append("Keyword search only: `embedder.model` is `none`.")
    except EmbedderError as error:
        limitations.append(f"Keyword search only: {error}")
    return None


def _opened(
    hub: Hub, bases: Sequence[Base], stack: ExitStack, embedder: Embedder | None, limitations: list[str]
) -> tuple[list[OpenBase], list[Skipped], list[tuple[Base, list[str]]]]:
    """Open the indexes; return the bases to search, those to skip, and those without a first index, with its paths."""
    searched, skipped, lacking = [], [], []
    fingerprint = embedder.fingerprint if embedder else None
    for base in bases:
        index = hub.index(base)
        try:
            if not is_directory(base.path):
                raise BaseUnavailable(base.id, f"its folder {base.path} is gone")
            stack.enter_context(index.snapshot())
            comparable = index.meta("embedder") == fingerprint
            complete = index.meta("synced") is not None
            if not complete and not base.engine:
                lacking.append((base, index.paths()))
        except (BaseUnavailable, IndexUnavailable) as error:
            if isinstance(error, IndexUnavailable) and not base.engine and is_in_progress(hub, base):
                lacking.append((base, []))
            else:
                skipped.append(Skipped(base=base.id, reason=_why_skipped(hub, base, error)))
            continue
        if fingerprint and not comparable:
            limitations.append(
                f"{base.id}: keyword search only, until its vectors are recomputed with the current embedder."
            )
        searched.append(OpenBase(base, index, comparable, complete))
    return searched, skipped, lacking


def _scanned(
    hub: Hub,
    query: Query,
    searched: list[OpenBase],
    lacking: Sequence[tuple[Base, list[str]]],
    stack: ExitStack,
    embedder: Embedder | None,
) -> dict[str, UnindexedScan]:
    """Scan the files that first indexes lack, and add what was found to `searched`; return base → its scan."""
    # The parsers take 50 ms to load, and a first index is made once.
    from kbhub.sync.unindexed import scan  # noqa: PLC0415

    terms = [term for text in (query.text, *query.queries, query.passage) for term in parsed(text).terms]
    scans = {}
    for base, indexed in lacking:
        with suppress(BaseUnavailable):  # gone since it was opened
            scans[base.id], index = scan(base, indexed, terms, hub.limits(), embedder, stack)
            searched += [OpenBase(base, index, embedder is not None, complete=False)] if index else []
    return scans


def _find(
    hub: Hub,
    query: Query,
    searched: list[OpenBase],
    skipped: list[Skipped],
    dependencies: Dependencies,
    *,
    everything: bool,
) -> RankedPage:
    """Run `find`; a base that turns out to be damaged moves from `searched` to `skipped`."""
    while True:
        try:
            return find(query, searched, dependencies, everything=everything and not skipped)
        except IndexUnavailable as error:
            failed = [error]
        except (KbhubError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - raised again unless it is that of a base
            failed = _failing(query, searched, dependencies, error)
        for failure in failed:
            skipped.append(Skipped(base=failure.base, reason=str(failure)))
            broken = next(base for base in searched if base.base.id == failure.base)
            searched.remove(broken)
            hub.state(Freshness).forget(broken.index.path)


def _failing(
    query: Query, searched: Sequence[OpenBase], dependencies: Dependencies, unforeseen: Exception
) -> list[IndexUnavailable]:
    """Return the errors of the bases that cannot be searched alone; raise the unforeseen one if that tells nothing."""
    failed = []
    find(query, (), dependencies)
    for base in searched:
        try:
            find(query, [base], dependencies)
        except IndexUnavailable as error:
            failed.append(error)
        except Exception as error:  # noqa: BLE001 - it may be anything
            failed.append(base.index.failed(error))
    if not failed:
        raise unforeseen
    return failed


def _why_skipped(hub: Hub, base: Base, error: BaseUnavailable | IndexUnavailable) -> str:
    state = hub.state(Freshness)
    if isinstance(error, BaseUnavailable) or error.reason != NOT_THERE:
        return str(error)
    if failure := state.failed.get(base.id):
        return failure
    if progress := dict(state.progress):
        return f"It is not indexed yet; it is queued after {' and '.join(map(repr, progress))}."
    return str(error)


def _elsewhere(hub: Hub, verdict: Verdict | None) -> list[str]:
    """Name unusable bases and, without an answer, Markdown files outside all bases."""
    broken = [f"{problem.subject}: {problem.message}" for problem in hub.missing()]
    return [*broken, *(outside(hub) if verdict == "none" else ())]
