"""The steps of a search: plan, rank by words and by meaning, fuse, add signals, judge, and describe a page of hits.

Reads only. Imports numpy, so it is called through `search.search`.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from kbhub.documents.shown_text import readable, renderable, states
from kbhub.errors import EmbedderError, IndexUnavailable, KbhubError
from kbhub.index.engine import ChunkRow, Key, Selection
from kbhub.index.matches import CHUNK_BITS, Ranking, first_of_each, keys_of, known_keys, newest, paths_of, select
from kbhub.index.query.excerpts import ASKS_DECISION, CODE, DECISION, density, excerpt, spans
from kbhub.index.query.parser import MARKS, Term, parse_query
from kbhub.index.query.spelling import Respelling, corrected, corrections
from kbhub.index.references import STALE_DAYS, Declarations, age_days, page_of, ref_of, short_docids, without_version
from kbhub.search import conversations, document_signals, evidence, judge, retrieval
from kbhub.search.plan import (
    Candidate,
    OpenBases,
    Plan,
    RankingSignal,
    SignalPart,
    TermWeights,
    WeightedTerm,
    by_base,
    declared_in,
)
from kbhub.sync.freshness import Freshness
from kbhub.types import Correction, Hit, Mode, Query, SearchResult, Signal, Span, Trace
from kbhub.workspace.discovery import matching
from kbhub.workspace.extensions import extensions, imported
from kbhub.workspace.formats import SITE_SUFFIXES, in_markdown

if TYPE_CHECKING:
    from numpy.typing import NDArray

log = logging.getLogger(__name__)

EXCERPT_CHARACTERS = 760
"""Length of a hit's excerpt, as with 800 no more lines that answer are shown; the first of several has all of it."""

SECOND_CHARACTERS = 300
"""Of these, what a second passage of the first hit's document takes, if it may answer as well."""

NEAR, LESS_NEAR = 0.85, 0.7
"""Score of a second passage, as a share of the hit's: of two so near, either may have the answer. The lower one is
where the hit's own text leaves enough room."""

ALSO = 3

FILE_ENDS = 2
"""Bytes of the final line ending, which chunks lack."""

SCORE_DIGITS = 4

_OTHER_SCRIPT = re.compile(r"[^\W\d_\0-\u024f]")  # a letter of another script than Latin

RANKING_SIGNALS: tuple[RankingSignal, ...] = (
    retrieval.SECOND_LOOK_SIGNAL,
    evidence.NAMED,
    document_signals.DATED,
    document_signals.WEIGHED,
    document_signals.VERSIONED,
    evidence.SIGNAL,
    document_signals.IN_LANGUAGE,
    conversations.SPOKEN,
    conversations.UPDATES,
    *imported((name for extension in extensions() for name in extension.signals), RankingSignal),
)


def ranked(query: Query, bases: OpenBases, weights: TermWeights | None = None) -> SearchResult:
    """Search the open bases; one that turns out to be damaged is skipped, and the others are searched again."""
    while True:
        try:
            result = rank(query, bases)
            if weights:
                weights.terms = retrieval.looked_up(bases.indexes, parse_query(weights.text).terms)[1]
            return result
        except IndexUnavailable as error:
            failed = [error]
        except (KbhubError, OSError):
            raise
        except Exception:  # not BLE001: raised again unless it is that of a base
            failed = []
            rank(query, OpenBases(bases.hub, bases.now, bases.embedder, bases.notes))
            for base in bases.open:  # which of them cannot be searched alone
                try:
                    rank(query, OpenBases(bases.hub, bases.now, bases.embedder, bases.notes, [base]))
                except IndexUnavailable as known:
                    failed.append(known)
                except Exception as unforeseen:  # noqa: BLE001 - it may be anything
                    failed.append(base.index.failed(unforeseen))
            if not failed:
                raise
        for failure in failed:
            bases.hub.state(Freshness).forget(bases.skip(failure).index.path)


def rank(query: Query, bases: OpenBases) -> SearchResult:
    """Rank the chunks of the open bases for a query, and describe a page of the best; reads only."""
    plan = plan_of(query, bases)
    if not plan.parsed.terms and (plan.parsed.filters or plan.parsed.excluded):
        return _listing(plan, bases)

    words, fixes = retrieval.KeywordRanking(Ranking.joined(()), ()), tuple[Respelling, ...]()
    if query.mode != "semantic":
        words, fixes = _by_words(plan, bases)
    plan.question = corrected(plan.parsed.text, fixes) if fixes else plan.parsed.text
    plan.text = " ".join(filter(None, (plan.question, *[one.text for one in (*plan.others, plan.passage)])))
    vector = _vector(plan, bases) if query.mode != "keyword" and plan.text.strip() else None
    if vector is None and query.mode == "semantic":
        words, fixes = _by_words(plan, bases)
    rankings, near = {"keyword": words.ranking}, retrieval.NOTHING_NEAR
    if vector is not None:
        if query.mode == "semantic":
            del rankings["keyword"]
        if not rankings or "semantic" not in query.without:
            comparable = [base.index if base.comparable else None for base in bases.open]
            each = retrieval.EACH if plan.by_document else None
            near = retrieval.semantic_ranking(comparable, vector, plan.selections, words.ranking.chunks, each)
            rankings["semantic"] = near.ranking
            if "keyword" in query.without:
                rankings.pop("keyword", None)

    plan.weighted = words.terms or [WeightedTerm(term.text, term.tokens, 1.0) for term in plan.sought]
    plan.coverage, plan.both = words.coverage, len(rankings) == len(retrieval.SIGNALS)
    places = partial(retrieval.places_of, bases.indexes)
    hits = retrieval.fuse(rankings, near.compared, near.similarities, places, words.coverage)
    for signal in RANKING_SIGNALS:
        signal.add(plan, bases, hits)
        hits.sort(key=attrgetter("score"), reverse=True)

    complete, known = bases.complete, [*[fix.typed.casefold() for fix in fixes], *" ".join(plan.named).split()]
    unmatched = [word for word in words.unmatched if word.casefold() not in known]
    asking = evidence.asking([term.text for term in plan.sought])
    trust, named = judge.judge(hits, plan, bases, unmatched, embedded=vector is not None)

    if named and plan.both:  # by its meaning, a name is near everything
        meant = {"keyword", evidence.NAME, conversations.NEWER}
        hits = [hit for hit in hits if any(part.signal in meant for part in hit.parts)]
    if not (hits or query.min_score or query.mode == "keyword") and complete and _OTHER_SCRIPT.search(query.text):
        return _listing(plan, bases, trust)
    scale = trust / hits[0].score if hits and hits[0].score else 0.0
    kept = [hit for hit in hits if not query.min_score or hit.score * scale >= query.min_score]
    matches = words.matches if "keyword" in rankings else ()
    rest = Remaining(matches, hits, by_document=plan.by_document)
    page, total = rest.page(plan, bases, grouped(kept, bases, by_document=plan.by_document), scale)

    mode: Mode = "hybrid" if plan.both else "keyword" if "keyword" in rankings else "semantic"
    log.debug("%s: ranked %d, hits %d, confidence %.2f", mode, len(hits), total, trust)
    result = SearchResult(
        query=query.text.encode("utf-8", "replace").decode("utf-8"), mode=mode, filters=plan.filters,
        hits=described(page, plan, bases, (*plan.sought, *[fix.term for fix in fixes]), scale),
        total=total, total_exact=near.complete or mode != "semantic",
        unmatched=tuple(dict.fromkeys([word for word in unmatched if complete and word not in asking])),
        corrections=tuple([Correction(typed=fix.typed, used=fix.used) for fix in fixes]),
        terms=(*[term.text for term in plan.sought], *[fix.used for fix in fixes]),
    )  # fmt: skip
    nothing = complete and not any(one is None or one.documents for one in plan.selections)
    sure = (trust if kept else 0.0) if complete else None
    return judge.annotated(result, plan, bases, sure, filtered_out=nothing)


def plan_of(query: Query, bases: OpenBases) -> Plan:
    """Parse a query; `key:value` is a filter only if some document has that key in its front matter."""
    understood = parse_query(query.text)
    if understood.keys:
        known = [known_keys(index, understood.keys) for index in bases.indexes]
        understood = parse_query(query.text, frozenset[str]().union(*known))
    asked, terms = document_signals.asked_time(query.text, bases.now), understood.terms
    if asked and asked.counted and document_signals.DATE not in query.without:
        # A text of that time has no reason to have the words `last week`, and one of another time may.
        words = {term.tokens for term in parse_query(asked.span).terms}
        terms = tuple([term for term in terms if term.quoted or term.tokens not in words]) or terms
    selections: list[Selection | None] = [None] * len(bases.open)
    depths = [len(base.base.path.parts) for base in bases.open]
    # Deepest first, so that inner bases are selected before the bases around them.
    for number in sorted(range(len(depths)), key=depths.__getitem__, reverse=True):
        base, index = bases.open[number].base, bases.open[number].index
        elsewhere = [
            (inner.base.path.relative_to(base.path) / path).as_posix()
            for inner, selection in zip(bases.open, selections, strict=True)
            if base.path in inner.base.path.parents
            for path in paths_of(inner.index, selection)
        ]
        ids = {base.id, *base.names}
        selections[number] = select(index, ids, understood.filters, understood.excluded, bases.now, elsewhere)
    others, passage = [parse_query(wording) for wording in query.queries], parse_query(query.passage)
    sought = dict[tuple[str, ...], Term]()
    for term in (*terms, *[term for other in others for term in other.terms]):
        sought.setdefault(term.tokens, term)
    filters = (*[f'-"{term.text}"' for term in understood.excluded], *map(str, understood.filters))
    weights, kinds = [base.base.weight for base in bases.open], [base.base.kind for base in bases.open]
    uneven = query.recency > 0 or len(set(weights)) > 1 or "memory" in kinds
    by_document, every = query.granularity == "document", tuple(sought.values())
    return Plan(query, understood, others, passage, asked, terms, every, filters, selections, by_document, uneven)


def _by_words(plan: Plan, bases: OpenBases) -> tuple[retrieval.KeywordRanking, tuple[Respelling, ...]]:
    """Rank by words, replacing misspelt ones that occur nowhere."""
    ranked = partial(
        retrieval.keyword_ranking,
        bases.indexes,
        selections=plan.selections,
        each=retrieval.EACH if plan.by_document else None,
        others=[other.terms for other in plan.others],
        passage=plan.passage.terms,
    )
    ranking = ranked(plan.terms)
    if not ranking.missing or not (fixes := corrections(bases.indexes, ranking.missing)):
        return ranking, ()
    right = {fix.typed: fix.term for fix in fixes}
    used = [right.get(one.text.strip(MARKS), one) if one in ranking.missing else one for one in plan.terms]
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


def _listing(plan: Plan, bases: OpenBases, trust: float | None = None) -> SearchResult:
    """List the filtered documents, newest first, for a query without words to rank by, or in an unknown script."""
    query, selected = plan.query, list(zip(bases.open, plan.selections, strict=True))
    end = min(query.offset + query.limit, sys.maxsize)  # SQLite counts no further
    rows = [
        (-day, number, chunk)
        for number, (base, selection) in enumerate(selected)
        for chunk, day in newest(base.index, selection, end)
    ]
    places = retrieval.places_of(bases.indexes, [row[1:] for row in rows])
    ordered = sorted(rows, key=lambda row: (row[0], places[row[1:]][0], row[1]))[query.offset : end]
    read = bases.chunks([row[1:] for row in ordered])
    hits = [Candidate((number, chunk), (number, read[number, chunk].document_id)) for _, number, chunk in ordered]
    counts = [base.index.counts()[0] if found is None else found.documents for base, found in selected]
    result = SearchResult(
        query=query.text.encode("utf-8", "replace").decode("utf-8"),
        mode=query.mode,
        hits=described(hits, plan, bases),
        total=sum(counts),
        filters=plan.filters,
    )
    return judge.annotated(result, plan, bases, trust, filtered_out=bases.complete and not result.total)


def grouped(candidates: Sequence[Candidate], bases: OpenBases, *, by_document: bool) -> list[Candidate]:
    """Group candidates, best first, by document under the best one; copies, translations and versions are one, too."""
    groups: dict[Key, Candidate] = {}
    documents = bases.documents(map(attrgetter("document_key"), candidates)) if by_document else {}
    first_of: dict[tuple[object, ...], Candidate] = {}
    editions: dict[tuple[object, ...], Key] = {}
    # By title and heading: only chunks that share both can be duplicates.
    leaders: dict[tuple[bool, tuple[str, ...]], list[Candidate]] = {}
    for hit in candidates:
        key = hit.document_key if by_document else hit.key
        if key in groups:
            groups[key].more.append(hit)
            continue
        names: tuple[tuple[object, ...], ...] = ()
        if by_document:
            title, base = documents[key].title, key[0]
            path, language = page_of(bases.open[base].index, documents[key].path)
            page, version = without_version(path, title)
            names = ((title, documents[key].hash),)
            # A second one in the same language and version is no edition of it: `button.md` beside `button.mdx`.
            if editions.setdefault((base, page, language, version), key) == key:
                names += ((base, page),)
        if first := next(filter(None, map(first_of.get, names)), None):
            first.same += [hit] if all(one.document_key != key for one in first.same) else []
            continue
        if hit.evidence is not None:
            rejected = hit.document_key in bases.facts and bases.facts[hit.document_key].rejected
            leading = leaders.setdefault((rejected, hit.evidence.name), [])
            twins = (one for one in leading if one.evidence and evidence.same_text(hit.evidence, one.evidence))
            twin = next(twins, None)
            if twin and twin.document_key != hit.document_key:
                twin.same.append(hit)
                continue
            leading.append(hit)
        groups[key] = hit
        first_of |= dict.fromkeys(names, hit)
    return list(groups.values())


class Remaining:
    """The hits that follow the ranked ones, best first.

    They are ordered by keyword score only, scaled so that none exceeds the last ranked hit.
    """

    def __init__(self, matches: Sequence[retrieval.Matches], ranked: Sequence[Candidate], *, by_document: bool) -> None:
        self._by_document = by_document
        self._last = ranked[-1].score if ranked else 0.0
        self._most = max([float(base.values.max(initial=0.0)) for base in matches], default=0.0)
        self._left: list[tuple[retrieval.Matches, NDArray[np.bool_]]] = []
        """Matches, and which are outside all ranked hits."""
        self._count = 0
        for base in matches:
            known = [hit.document_key[1] if by_document else hit.key[1] for hit in ranked if hit.key[0] == base.base]
            if by_document:
                documents = np.zeros(1 + int(base.documents.max(initial=0)), np.bool_)
                documents[base.documents] = True
                documents[[document for document in known if document < len(documents)]] = False
                outside, hits = documents[base.documents], documents
            else:
                outside = hits = np.isin(base.positions, base.columns.positions(known), invert=True)
            self._left.append((base, outside))
            self._count += int(np.count_nonzero(hits))

    def page(
        self, plan: Plan, bases: OpenBases, ranked: Sequence[Candidate], scale: float
    ) -> tuple[list[Candidate], int]:
        """Return the hits of a page, ranked and remaining, and the number of all; `scale` is a factor for scores."""
        query = plan.query
        start, stop, count = query.offset - len(ranked), query.offset + query.limit - len(ranked), self._count
        ordered, smaller = list[Candidate](), 1.0
        if query.min_score and count:
            if self._last * scale >= query.min_score:
                ordered, smaller = self._ordered(plan, bases, count)
            count = len([hit for hit in ordered if hit.score * smaller * scale >= query.min_score])
        stop = min(stop, count)
        page = list(ranked[query.offset : query.offset + query.limit])
        if stop > max(start, 0):
            if not ordered:
                ordered, smaller = self._ordered(plan, bases, stop)
            page += [self._described(hit, smaller) for hit in ordered[max(start, 0) : stop]]
        return page, len(ranked) + count

    def _ordered(self, plan: Plan, bases: OpenBases, wanted: int) -> tuple[list[Candidate], float]:
        """Return at least the first `wanted` hits, and the factor for their scores."""
        found = []
        for base, outside in self._left:
            positions, documents, values = base.positions[outside], base.documents[outside], base.values[outside]
            if self._by_document:
                best = first_of_each(documents, values, 1)
                positions, documents, values = positions[best], documents[best], values[best]
            found.append(Ranking(base.columns.ids[positions] + np.int64(base.base << CHUNK_BITS), documents, values))
        hits = Ranking.joined(found)
        if plan.uneven:
            wanted = sys.maxsize
        hits = hits.best(wanted, partial(retrieval.places_of, bases.indexes))
        rows = zip(keys_of(hits.chunks), hits.documents.tolist(), (hits.values / self._most).tolist(), strict=True)
        ordered = [Candidate(key, (key[0], document), (), (), share) for key, document, share in rows]
        document_signals.weigh(plan, bases, ordered)
        ordered.sort(key=attrgetter("score"), reverse=True)
        return ordered, min(1.0, self._last / ordered[0].score) if ordered[0].score else 0.0

    def _described(self, hit: Candidate, scale: float) -> Candidate:
        """Return a hit with its part, if by document with the document's other matches."""
        base = next(base for base, _ in self._left if base.base == hit.key[0])
        rows = np.flatnonzero(base.documents == hit.document_key[1])
        ids, values = base.columns.ids[base.positions[rows]], base.values[rows]
        at = int(np.flatnonzero(ids == hit.key[1])[0])
        best = Candidate(hit.key, hit.document_key, (), hit.factors)
        best.add(SignalPart("keyword", float(values[at]), float(values[at]) / self._most * scale), zero=True)
        if self._by_document:
            order = [place for place in np.argsort(-values, kind="stable") if place != at]
            best.more = [Candidate((base.base, int(ids[place])), hit.document_key) for place in order]
        return best


def described(
    page: Sequence[Candidate], plan: Plan, bases: OpenBases, terms: Sequence[Term] = (), scale: float = 0.0
) -> tuple[Hit, ...]:
    """Describe the hits of a page; excerpts show `terms`, and scores are multiplied by `scale`."""
    also = ALSO if plan.by_document else 0
    documents = bases.documents([hit.document_key for best in page for hit in (best, *best.same)])
    chunks = bases.chunks([hit.key for best in page for hit in (best, *best.more[:also])])  # all in one go
    active, settings = bases.hub.discovery().bases, bases.hub.config().settings
    said: dict[int, Declarations] = {}
    for number, ids in by_base(documents).items():
        rows, opened = [documents[number, row] for row in ids], bases.open[number]
        said[number] = declared_in(bases.hub, opened.base, opened.index, rows, bases.now)
    docids = short_docids([documents[best.document_key].docid for best in page], bases.indexes)

    def place(key: Key) -> str:
        chunk = bases.chunks([key])[key]
        owner = key[0], chunk.document_id
        return f"{ref_of(bases.open[key[0]].base, bases.documents([owner])[owner].path, active)}:{chunk.start_line}"

    hits, words, weights = [], tuple(terms), {term.text: term.weight for term in plan.weighted}
    decided = bool(ASKS_DECISION.search(plan.question))
    for best in page:
        home, chunk, document = bases.open[best.key[0]].base, chunks[best.key], documents[best.document_key]
        size = len(chunk.text.encode("utf-8", "surrogatepass"))
        near = _near(best, bases, also, decided=decided) if best is page[0] else []
        if document.path.lower().endswith(SITE_SUFFIXES):  # without what only a documentation site understands
            plain = [in_markdown(one.text[one.prose :], document.path) for one in (chunk, *near)]
            # Of a note that is only a picture or a diagram, that is what there is to show.
            plain = [text if (text := readable(one)).strip() else renderable(one) for one in plain]
            chunk, *near = [
                replace(one, text=one.text[: one.prose] + text) for one, text in zip((chunk, *near), plain, strict=True)
            ]
        second = max(near, key=lambda other: density(other.text[other.prose :], words, weights), default=None)
        room = EXCERPT_CHARACTERS - (SECOND_CHARACTERS if second else 0)
        sought = best.sought or document.kind == "memory"  # of which only the text is anybody's words
        shown = partial(_excerpt, terms=words, weights=weights, decided=decided, sought=sought)
        text, offset = shown(chunk, room)
        more = {second.id: shown(second, SECOND_CHARACTERS)[0]} if second else {}
        own, age = said[best.key[0]], age_days(document, bases.now)
        outdated_by = own.outdated.get(document.id)
        alone = chunk.start_line == 1 and size + FILE_ENDS >= document.size >= 0
        beside = {one.id: one for one in (*filter(None, [second]), *[chunks[other.key] for other in best.more[:also]])}
        others = sorted([one for one in beside.values() if states(one.text[one.prose :])], key=attrgetter("start_line"))
        passages = [Span(start_line=at.start_line, end_line=at.end_line, excerpt=more.get(at.id, "")) for at in others]
        twins = [(bases.open[other.key[0]].base, other.document_key) for other in best.same]
        signals = []
        for one in best.parts if plan.query.explain else ():
            why, amount = one.reason or None, one.amount * scale
            signals.append(Signal(name=one.signal, rank=one.rank, value=one.value, contribution=amount, reason=why))
        if not outdated_by and best.replaced_by:
            seems = "a newer memory may replace this:" if home.kind == "memory" else "apparently replaced by"
            outdated_by = f"{seems} {place(best.replaced_by)}"
        hits.append(Hit(
            ref=ref_of(home, document.path, active), docid=docids[document.docid], base=home.id,
            path=document.path, title=document.title, kind=document.kind,
            headings=chunk.headings, start_line=chunk.start_line, end_line=chunk.end_line,
            excerpt=text, excerpt_line=chunk.start_line + offset,
            score=round(min(1.0, best.score * scale), SCORE_DIGITS), age_days=age,
            stale=document.id in own.outdated or (age > STALE_DAYS and document.id not in own.decided),
            outdated=outdated_by, replaces=tuple([place(key) for key in best.replaces]),
            kept=document.size < 0, rejected=document.id in own.rejected, trust=own.trust.get(document.id),
            whole=alone and text.strip() == chunk.text[chunk.prose :].strip(),
            contexts=matching(home.contexts, settings.contexts, document.path), also=tuple(passages),
            duplicates=tuple([ref_of(base, documents[key].path, active) for base, key in twins]),
            trace=Trace(signals=tuple(signals), factors=dict(best.factors)) if plan.query.explain else None,
        ))  # fmt: skip
    return tuple(hits)


def _near(best: Candidate, bases: OpenBases, also: int, *, decided: bool) -> list[ChunkRow]:
    """Return other chunks of a document that may answer as well as the best, or, if asked for, the decision."""
    chunks = bases.chunks([best.key, *[other.key for other in best.more[: None if decided else also]]])
    own = chunks[best.key]
    if also and decided and not DECISION.search(own.text):
        for other in best.more:
            if DECISION.search(chunks[other.key].text):
                return [chunks[other.key]]
    least = NEAR if len(own.text) - own.prose > EXCERPT_CHARACTERS - SECOND_CHARACTERS else LESS_NEAR
    near = [chunks[other.key] for other in best.more[:also] if other.score >= least * best.score]
    return [chunk for chunk in near if states(chunk.text[chunk.prose :])]


def _excerpt(
    chunk: ChunkRow, limit: int, *, terms: tuple[Term, ...], weights: Mapping[str, float], decided: bool, sought: bool
) -> tuple[str, int]:
    """Cut an excerpt: from the decision on if that is asked, and from the front matter only if nothing else matches and
    the document was not asked for by its name or number, which may be there.
    """
    decision = DECISION.search(chunk.text, chunk.prose) if decided else None
    at = decision.start() if decision else chunk.prose
    front, prose = chunk.text[:at], chunk.text[at:]
    if front and not decision and not (prose.strip() and (sought or spans(prose, terms) or not spans(front, terms))):
        front, prose = "", chunk.text
    part, offset = excerpt(prose, () if decision else terms, limit, weights)
    if chunk.start_line + offset < 1:  # there is no line above for code to begin in
        part, offset = part.removeprefix(CODE), 0
    return part, offset + front.count("\n")
