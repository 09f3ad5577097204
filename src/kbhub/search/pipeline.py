"""A search from top to bottom: open, plan, rank by words and by meaning, fuse, add signals, judge, describe.

Imports numpy, so it is called through `search.search`.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from kbhub.errors import BaseUnavailable, EmbedderError, IndexUnavailable, KbhubError
from kbhub.hub import Hub
from kbhub.index.engine import Selection
from kbhub.index.matches import NO_CHUNKS, Ranking, known_keys, newest, paths_of, select
from kbhub.index.query.parser import Term, parse_query
from kbhub.index.query.spelling import PUNCTUATION, Respelling, corrected, corrections
from kbhub.index.sqlite.index import NOT_THERE
from kbhub.models.embedding import Embedder
from kbhub.search import conversations, dates, evidence, judge, memory_boost, names, retrieval
from kbhub.search.hits import Remaining, described, grouped
from kbhub.search.plan import Candidate, OpenBase, OpenBases, Plan, RankingSignal, TermWeights, WeightedTerm
from kbhub.sync.base_suggestions import outside
from kbhub.sync.freshness import Freshness, is_in_progress
from kbhub.types import Base, Correction, Mode, Query, SearchResult, Skipped
from kbhub.workspace.extensions import extensions, imported

if TYPE_CHECKING:
    from numpy.typing import NDArray

log = logging.getLogger(__name__)

LEAST_DIGITS = 3
"""Digits of a number that says of itself what is looked for, as a name does: 404, but not 30."""

RANKING_SIGNALS: tuple[RankingSignal, ...] = (
    retrieval.SECOND_LOOK_SIGNAL,
    names.SIGNAL,
    dates.SIGNAL,
    memory_boost.SIGNAL,
    evidence.SIGNAL,
    conversations.SPOKEN,
    conversations.UPDATES,
    *imported((name for extension in extensions() for name in extension.signals), RankingSignal),
)
"""What changes the fused ranking, in this order."""


def search(hub: Hub, query: Query | str, weights: TermWeights | None = None) -> SearchResult:
    """Search all selected bases as last indexed; see `search.search`. `weights` gets those of its terms."""
    if isinstance(query, str):
        defaults = hub.config().settings.search
        query = Query(text=query, mode=defaults.mode, limit=defaults.limit)
    selected, notes, embedder = hub.select(query.bases), list[str](), None
    if query.mode != "keyword":
        reason: object = "`embedder.model` is `none`."
        try:
            embedder = hub.embedder()
            if embedder and not embedder.fingerprint:
                embedder = None
        except EmbedderError as error:  # a model server may not answer
            embedder, reason = None, error
        notes += [] if embedder else [f"Keyword search only: {reason}"]
    with hub.readers, ExitStack() as stack:
        bases = _opened(hub, selected, query, embedder, notes, stack)
        result = _ranked(query, bases)
        if weights:
            terms = parse_query(weights.text).terms
            try:
                weights.terms = retrieval.looked_up(bases.indexes, terms)[1]
            except IndexUnavailable:  # damaged since it was searched
                weights.terms = retrieval.looked_up([], terms)[1]
    state = hub.state(Freshness)
    # Copies, because syncs on other threads change them.
    late = judge.unfinished(bases, dict(state.progress), dict(state.behind), dict(state.failed), result.hits)
    if not query.bases and result.verdict != "strong":
        late += [f"{problem.subject}: {problem.message}" for problem in hub.missing()]
        late += outside(hub) if result.verdict == "none" else ()
    searched = (*[base.base.id for base in bases.open], *bases.scans)
    return result.model_copy(
        update={
            "searched": tuple(dict.fromkeys(searched)),
            "skipped": tuple(bases.skipped),
            "notes": tuple(dict.fromkeys((*result.notes, *late))),
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
                bases.skipped.append(Skipped(base=base.id, reason=_why_skipped(hub, base, error)))
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


def _why_skipped(hub: Hub, base: Base, error: BaseUnavailable | IndexUnavailable) -> str:
    state = hub.state(Freshness)
    if isinstance(error, BaseUnavailable) or error.reason != NOT_THERE:
        return str(error)
    if failure := state.failed.get(base.id):
        return failure
    if progress := dict(state.progress):
        return f"It is not indexed yet; it is queued after {' and '.join(map(repr, progress))}."
    return str(error)


def _ranked(query: Query, bases: OpenBases) -> SearchResult:
    """Search the open bases; one that turns out to be damaged is skipped, and the others are searched again."""
    while True:
        try:
            return rank(query, bases)
        except IndexUnavailable as error:
            failed = [error]
        except (KbhubError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - raised again unless it is that of a base
            failed = _failures(query, bases, error)
        for failure in failed:
            bases.hub.state(Freshness).forget(bases.skip(failure).index.path)


def _failures(query: Query, bases: OpenBases, unforeseen: Exception) -> list[IndexUnavailable]:
    """Return the errors of the bases that cannot be searched alone; raise the unforeseen one if that tells nothing."""
    failed = []
    rank(query, OpenBases(bases.hub, bases.now, bases.embedder, bases.notes))
    for base in bases.open:
        try:
            rank(query, OpenBases(bases.hub, bases.now, bases.embedder, bases.notes, [base]))
        except IndexUnavailable as error:
            failed.append(error)
        except Exception as error:  # noqa: BLE001 - it may be anything
            failed.append(base.index.failed(error))
    if not failed:
        raise unforeseen
    return failed


def rank(query: Query, bases: OpenBases) -> SearchResult:
    """Rank the chunks of the open bases for a query, and describe a page of the best; reads only."""
    plan = plan_of(query, bases)
    if not plan.parsed.terms and (plan.parsed.filters or plan.parsed.excluded):
        return _listing(plan, bases)

    words, fixes = retrieval.KeywordRanking(Ranking.joined(()), ()), tuple[Respelling, ...]()
    if query.mode != "semantic":
        words, fixes = _by_words(plan, bases)
    plan.question = corrected(plan.parsed.text, fixes) if fixes else plan.parsed.text
    plan.text = " ".join(
        [text for text in (plan.question, *[other.text for other in (*plan.others, plan.passage)]) if text]
    )
    vector = _vector(plan, bases) if query.mode != "keyword" and plan.text.strip() else None
    if vector is None and query.mode == "semantic":
        words, fixes = _by_words(plan, bases)
    rankings, near = {"keyword": words.ranking}, retrieval.SemanticRanking(Ranking.joined(()), NO_CHUNKS, np.zeros(0))
    if vector is not None:
        if query.mode == "semantic":
            del rankings["keyword"]
        if not rankings or "semantic" not in query.without:
            comparable = [base.index if base.comparable else None for base in bases.open]
            others = words.ranking.chunks if rankings else NO_CHUNKS
            each = retrieval.EACH if plan.by_document else None
            near = retrieval.semantic_ranking(comparable, vector, plan.selections, others, each)
            rankings["semantic"] = near.ranking
            if "keyword" in query.without:
                rankings.pop("keyword", None)

    sought = retrieval.distinct((*plan.terms, *[term for other in plan.others for term in other.terms]))
    plan.weighted = words.terms or tuple([WeightedTerm(term.text, term.tokens, 1.0) for term in sought])
    plan.coverage, plan.both = words.coverage, len(rankings) == len(retrieval.SIGNALS)
    places = retrieval.places_in(bases.indexes)
    hits = retrieval.fuse(rankings, near.compared, near.similarities, places, query.fusion, words.coverage)
    for signal in RANKING_SIGNALS:
        if signal.applies(plan):
            signal.add(plan, bases, hits)
            hits.sort(key=attrgetter("score"), reverse=True)

    replaced, complete = {fix.typed for fix in fixes}, bases.complete
    texts = dict.fromkeys([term.text for term in plan.weighted])
    model = (bases.hub.config().settings.embedder.model or judge.PACKAGED) if vector is not None else None
    # Each searched term is one of the query's own, not a substitute.
    literal = judge.WEAK if texts.keys() <= {term.text for term in sought} else 0.0
    if literal and all(names.is_name(word) or (word.isdecimal() and len(word) >= LEAST_DIGITS) for word in texts):
        literal = judge.STRONG
    unmatched = [word for word in words.unmatched if word not in replaced] if complete else []
    # Other wordings are there to say with other words what the question's own do not find.
    absent = 0.0 if plan.others else evidence.share(unmatched, [term.text for term in plan.terms])
    trust = judge.judge(hits, bases, len(texts), evidence.cohesion(texts), model, absent, literal)
    if any(names.is_name(word) or word.isdecimal() for word in unmatched):
        trust = min(trust, judge.ABSENT_NAME)

    kept = hits
    if query.min_signals > 1:
        kept = [hit for hit in hits if len([part for part in hit.parts if part.rank]) >= query.min_signals]
    scale = trust / kept[0].score if kept and kept[0].score else 0.0
    if query.min_score:
        kept = [hit for hit in kept if hit.score * scale >= query.min_score]
    matches = words.matches if "keyword" in rankings and query.min_signals == 1 else ()
    rest = Remaining(matches, hits, by_document=plan.by_document)
    page, total = rest.page(plan, bases, grouped(kept, bases, by_document=plan.by_document), scale)

    mode: Mode = "hybrid" if plan.both else "keyword" if "keyword" in rankings else "semantic"
    log.debug("%s: ranked %d, hits %d, confidence %.2f", mode, len(hits), total, trust)
    ends = _ends(plan, words, near, mode)
    result = SearchResult(
        query=query.text.encode("utf-8", "replace").decode("utf-8"),
        mode=mode,
        hits=described(page, plan, bases, (*sought, *[fix.term for fix in fixes]), scale),
        total=total,
        total_exact=not ends,
        unmatched=tuple(unmatched),
        corrections=tuple([Correction(typed=fix.typed, used=fix.used) for fix in fixes]),
        filters=plan.filters,
        verdict=judge.verdict(trust if kept else 0.0) if complete else None,
        terms=(*[term.text for term in sought], *[fix.used for fix in fixes]),
    )
    near_only = complete and bool(words.terms) and not any(term.found for term in words.terms)
    nothing = complete and all(selection and not selection.documents for selection in plan.selections)
    notes = judge.notes_on(result, plan, bases, near_only=near_only, filtered_out=nothing, ends=ends)
    return result.model_copy(update={"notes": tuple(notes)})


def plan_of(query: Query, bases: OpenBases) -> Plan:
    """Parse a query; `key:value` is a filter only if some document has that key in its front matter."""
    understood = parse_query(query.text)
    if understood.keys:
        known = [known_keys(index, understood.keys) for index in bases.indexes]
        understood = parse_query(query.text, frozenset[str]().union(*known))
    asked, terms = dates.asked_time(query.text, bases.now), understood.terms
    if asked and asked.counted and dates.DATE not in query.without:
        # A text of that time has no reason to have the words `last week`, and one of another time may.
        words = {term.tokens for term in parse_query(asked.span).terms}
        terms = tuple([term for term in terms if term.quoted or term.tokens not in words]) or terms
    selections: dict[int, Selection | None] = {}
    # Deepest first, so that inner bases are selected before the bases around them.
    for number in sorted(range(len(bases.open)), key=lambda number: -len(bases.open[number].base.path.parts)):
        base, index = bases.open[number].base, bases.open[number].index
        elsewhere = [
            (inner.base.path.relative_to(base.path) / path).as_posix()
            for other, selection in selections.items()
            if base.path in (inner := bases.open[other]).base.path.parents
            for path in paths_of(inner.index, selection)
        ]
        ids = {base.id, *base.names}
        selections[number] = select(index, ids, understood.filters, understood.excluded, bases.now, elsewhere)
    others, passage = [parse_query(wording) for wording in query.queries], parse_query(query.passage)
    filters = (*[f'-"{term.text}"' for term in understood.excluded], *map(str, understood.filters))
    chosen = [selections[number] for number in range(len(bases.open))]
    by_document = query.granularity == "document"
    return Plan(query, understood, others, passage, asked, terms, filters, chosen, by_document)


def _by_words(plan: Plan, bases: OpenBases) -> tuple[retrieval.KeywordRanking, tuple[Respelling, ...]]:
    """Rank by words, replacing misspelt ones that occur nowhere."""
    others, each = [other.terms for other in plan.others], retrieval.EACH if plan.by_document else None

    def ranked(terms: Sequence[Term]) -> retrieval.KeywordRanking:
        return retrieval.keyword_ranking(bases.indexes, terms, plan.selections, each, others, plan.passage.terms)

    ranking = ranked(plan.terms)
    if not ranking.missing or not (fixes := corrections(bases.indexes, ranking.missing)):
        return ranking, ()
    right = {fix.typed: fix.term for fix in fixes}
    used = [right.get(one.text.strip(PUNCTUATION), one) if one in ranking.missing else one for one in plan.terms]
    return ranked(used), fixes


def _vector(plan: Plan, bases: OpenBases) -> NDArray[np.float32] | None:
    """Embed a query; None to leave out the semantic signal, for a reason in the notes."""
    if bases.embedder is None:
        return None
    try:
        vector = bases.embedder.embed_query(plan.text)
    except EmbedderError as error:
        bases.notes.append(f"Keyword search only: {error}")
        return None
    if vector.any():
        return vector
    if parse_query(plan.text).terms:  # a query without words has a note of its own
        bases.notes.append("Keyword search only: the embedding model knows too few of the words of this query.")
    return None


def _ends(plan: Plan, words: retrieval.KeywordRanking, near: retrieval.SemanticRanking, mode: Mode) -> str:
    """Return a note on where an incomplete list ends; empty if it is complete."""
    if plan.query.min_signals > 1 and plan.both:
        every = near.complete and sum([len(match.positions) for match in words.matches]) == len(words.ranking)
        return "" if every else judge.ENDS_WITH_BOTH
    return judge.ENDS_WITH_NEAREST if mode == "semantic" and not near.complete else ""


def _listing(plan: Plan, bases: OpenBases) -> SearchResult:
    """List the filtered documents, newest first, for a query without words to rank by."""
    query, selected = plan.query, list(zip(bases.open, plan.selections, strict=True))
    end = min(query.offset + query.limit, sys.maxsize)  # SQLite counts no further
    rows = [
        (-day, number, chunk)
        for number, (base, selection) in enumerate(selected)
        for chunk, day in newest(base.index, selection, end)
    ]
    places = retrieval.places_in(bases.indexes)([row[1:] for row in rows])
    ordered = sorted(rows, key=lambda row: (row[0], places[row[1:]][0], row[1]))[query.offset : end]
    read = bases.chunks([row[1:] for row in ordered])
    hits = [Candidate((number, chunk), read[number, chunk].document_id) for _, number, chunk in ordered]
    counts = [base.index.counts()[0] if found is None else found.documents for base, found in selected]
    result = SearchResult(
        query=query.text.encode("utf-8", "replace").decode("utf-8"),
        mode=query.mode,
        hits=described(grouped(hits, bases, by_document=True), plan, bases),
        total=sum(counts),
        filters=plan.filters,
    )
    nothing = bases.complete and not result.total
    notes = judge.notes_on(result, plan, bases, near_only=False, filtered_out=nothing, ends="")
    return result.model_copy(update={"notes": tuple(notes)})
