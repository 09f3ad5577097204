"""A query and open indexes → hits. Reads only; the clock and the embedder come from outside."""

from __future__ import annotations

import logging
import math
import sys
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kbhub.confidence import PACKAGED, verdict
from kbhub.document_words import SIGNAL as NAME
from kbhub.document_words import named_first
from kbhub.errors import BaseNotFound
from kbhub.evidence import AMOUNTS
from kbhub.fusion import SIGNALS, Fused, best_first, fuse
from kbhub.hits import Documents, Manner, Searched, age_days, described, grouped
from kbhub.identifiers import is_name
from kbhub.index.selection import known_keys, newest
from kbhub.indexing import embedded_text
from kbhub.nested import selections_of
from kbhub.query import MAX_CHARACTERS, parsed
from kbhub.query.filtering import ANY
from kbhub.query.tokens import fold
from kbhub.rankings import NO_CHUNKS, Ranking
from kbhub.remaining import Remaining
from kbhub.reranking import LOOKED_AT, answer_confidence, rerank
from kbhub.retrieval import (
    EACH,
    RANKED,
    KeywordRanking,
    SemanticRanking,
    WeightedTerm,
    keyword_ranking,
    places_in,
    semantic_ranking,
)
from kbhub.second_look import SIGNAL as SECOND_LOOK
from kbhub.second_look import mix
from kbhub.spelling import PUNCTUATION, corrected, corrections
from kbhub.types import Correction, Hit, Mode, Verdict
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from kbhub.hits import Group
    from kbhub.index import Index
    from kbhub.index.selection import Selection
    from kbhub.query import ParsedQuery, Term
    from kbhub.ranking import Key
    from kbhub.reranking import Ranked
    from kbhub.spelling import Correction as Spelt
    from kbhub.types import Base, Discovery, Query

log = logging.getLogger(__name__)

NEAR_ONLY = "None of the query's words occurs in a document; the hits are near in meaning only."
"""Note of an answer with hits that only the semantic signal found."""

NOT_COVERED = "Nothing in these bases covers this; what follows is the nearest there is."
"""Note of an answer whose hits most likely answer something else."""

ENDS_WITH_NEAREST = f"The list ends with the {RANKED} nearest passages; by meaning alone, there is always a next one."
"""Note of the last page of an answer by meaning alone."""

ENDS_WITH_BOTH = f"The list ends with what is among the {RANKED} best passages by words and by meaning alike."
"""Note of the last page of an answer that both signals must have found."""

LEADING_NOTES = (NEAR_ONLY, NOT_COVERED)
"""Notes to be read before the hits."""

HALF_LIFE_DAYS = 180.0
"""Age at which a document counts half if recency is wanted wholly; as long as a memory fades."""


@struct
class Surroundings:
    """What a search needs to know besides the indexes."""

    now: float
    """Seconds since the epoch, for ages."""
    embed: Callable[[str], NDArray[np.float32] | None]
    """Gives the vector of a text, length 1; none if there is none, which leaves the semantic signal out."""
    bases: Sequence[Base]
    """All that a ref may name, searched or not."""
    model: str | None = PACKAGED
    """Whose vectors they are, as `confidence.MODELS` names them."""
    contexts: Mapping[str, str] = field(default_factory=dict)
    """Those of the global config, about every base."""
    standing: Callable[[Searched, Sequence[str]], Mapping[str, float]] = lambda *_: {}
    """Gives the factors of memories by path, for bases that hold memories."""
    gone_since: Callable[[Base, str], float | None] = lambda *_: None
    """Gives when the file of a kept text was first missed, by base and path, seconds since the epoch."""
    look: Callable[[str, Mapping[Key, str]], Mapping[Key, float]] | None = None
    """Gives the cosines of texts, best first, to a query by a better model; none for no second look."""


@struct
class Found:
    """What a query found."""

    hits: tuple[Hit, ...]
    total: int
    mode: Mode
    understood: ParsedQuery
    unmatched: tuple[str, ...] = ()
    corrections: tuple[Correction, ...] = ()
    verdict: Verdict | None = None
    filtered_out: bool = False
    """Whether filters and exclusions leave no document at all."""
    near_only: bool = False
    """Whether no term of the query occurs, so that the hits are near in meaning and no more."""
    last: bool = True
    """Whether no hits follow those of this page."""
    ends: str = ""
    """Where the list ends, in a sentence, although further documents may match; empty if it has all of them."""


def leading_notes(found: Found) -> list[str]:
    """Say what is to be known before one looks at what was found: one of `LEADING_NOTES` at most."""
    if found.hits and found.near_only:
        return [NEAR_ONLY]
    return [NOT_COVERED] if found.hits and found.verdict == "none" else []


def notes_on(found: Found, chosen: Sequence[str], query: Query, active: Discovery) -> list[str]:
    """Say how a query was understood, where that is not as it was asked.

    Args:
        found: what it found.
        chosen: its filters and exclusions, as they were understood.
        query: it.
        active: the bases that there are.
    """
    asked, notes = found.understood, list[str]()
    if asked.unread:
        notes.append(f"The query is long: its first {MAX_CHARACTERS:,} characters were read, {asked.unread:,} not.")
    if asked.left_out:
        notes.append(f"The query is long: {len(asked.terms)} of its terms were looked up, {asked.left_out} not.")
    if not asked.terms and not found.hits and found.mode != "semantic":
        notes.append("The query has no word to look up.")
    notes += [f"Searched for {one.used!r} in place of {one.typed!r}." for one in found.corrections]
    if found.filtered_out and chosen:
        notes.append(f"No document fulfils {' '.join(chosen)}.")
    ids = [base.id for base in active.bases]
    known = {fold(name) for base in active.bases for name in (base.id, *base.names)} | {ANY}
    for value in (value for one in asked.filters if one.key == "base" for value in one.values):
        if fold(value.text) not in known:
            notes.append(str(BaseNotFound(value.text, ids, active.problem_of(value.text))))
    if query.min_signals > 1 and found.mode != "hybrid" and asked.terms and not found.hits:
        notes.append(f"Hits of {query.min_signals} signals were asked for, and only the {found.mode} signal ran.")
    if found.ends and found.last:
        notes.append(found.ends)
    return notes


def unfinished(
    searched: Sequence[Searched],
    progress: Mapping[str, tuple[int, int]],
    behind: Mapping[str, int],
    failed: Mapping[str, str],
) -> list[str]:
    """Say which bases are searched although their indexes are not in step with their files.

    Args:
        searched: the bases.
        progress: base → (files done, files to do), of those that are being indexed.
        behind: base → files that were found changed and left for later.
        failed: base → why it could not be indexed.
    """
    notes = []
    for name, complete in ((one.base.id, one.complete) for one in searched):
        if name in progress or not complete:
            told = " ({} of {} files)".format(*progress[name]) if name in progress else ""
            notes.append(f"{name} is still being indexed{told}.")
        elif count := behind.get(name):
            notes.append(f"{name} has changed files that are still to be indexed ({count}); this answer may lack them.")
        if name in failed:
            notes.append(f"{name} is searched as it was last indexed: {failed[name]}")
    return notes


def find(query: Query, searched: Sequence[Searched], around: Surroundings, *, everything: bool = True) -> Found:
    """Rank the chunks of open indexes for a query and describe the best.

    Args:
        query: what is asked.
        searched: the bases, each index within a snapshot.
        around: clock, embedder and the like.
        everything: whether these are all that were to be searched; of others nobody can say what is not in them.
    """
    complete = everything and bool(searched) and all(one.complete for one in searched)
    indexes = [one.index for one in searched]
    asked = understand(query.text, indexes)
    selections = selections_of(searched, asked, around.now)
    if not asked.terms and (asked.filters or asked.excluded):
        return _listing(query, asked, searched, selections, around, complete=complete)
    keyword = KeywordRanking(Ranking.joined(()), ())
    made: tuple[Spelt, ...] = ()
    if query.mode != "semantic":
        keyword, made = _by_words(query, indexes, asked.terms, selections)
    text = corrected(asked.text, made)
    vector = around.embed(text) if query.mode != "keyword" and text.strip() else None
    if vector is None and query.mode == "semantic":
        keyword, made = _by_words(query, indexes, asked.terms, selections)
    rankings, near = _rankings(query, searched, keyword, vector, selections)
    documents = Documents(searched)
    fused = fuse(rankings, near.compared, near.similarities, places_in(indexes), query.fusion)
    fused = _weighed(query, _named(query, fused, text, documents), documents, around)
    looked_for = keyword.terms or tuple(WeightedTerm(term.text, term.tokens, 1.0) for term in asked.terms)
    ranked = _looked_again(query, text, _second_look(query, fused, looked_for, documents), documents, around.look)
    fixed = {one.typed for one in made}
    sure = answer_confidence(
        ranked,
        [term.text for term in looked_for],
        [index.size()[0] for index in indexes],
        around.model if vector is not None else None,
        as_asked=[term.text for term in looked_for] == list(dict.fromkeys(term.text for term in asked.terms)),
        absent=complete and any(map(is_name, set(keyword.unmatched) - fixed)),
    )
    kept = [one for one in ranked.fused if query.min_signals < 2 or _signals_of(one) >= query.min_signals]
    scale = sure / kept[0].score if kept and kept[0].score else 0.0
    if query.min_score:
        kept = [one for one in kept if one.score * scale >= query.min_score]
    page, total = _page(query, kept, ranked, keyword if "keyword" in rankings else None, scale, documents, around)
    terms = tuple(term for term in (*asked.terms, *(one.term for one in made)))
    manner = Manner(query, terms, scale, around.now, around.contexts, around.bases, around.gone_since)
    mode: Mode = "hybrid" if len(rankings) == len(SIGNALS) else "keyword" if "keyword" in rankings else "semantic"
    log.debug("%s: terms %d, ranked %d, hits %d, confidence %.2f", mode, len(terms), len(fused), total, sure)
    return Found(
        described(page, documents, manner),
        total,
        mode,
        asked,
        tuple(word for word in keyword.unmatched if word not in fixed) if complete else (),
        tuple(Correction(typed=one.typed, used=one.used) for one in made),
        verdict(sure if kept else 0.0) if complete else None,
        complete and all(one is not None and not one.documents for one in selections),
        complete and keyword.finds_nothing,
        total <= query.offset + query.limit,
        _ends(query, rankings, keyword, near),
    )


def understand(text: str, indexes: Sequence[Index]) -> ParsedQuery:
    """Parse a query; `key:value` is a filter where a document of the bases has such a key in its front matter.

    Args:
        text: any string.
        indexes: of all bases searched, each within a snapshot.
    """
    asked = parsed(text)
    if not asked.keys:
        return asked
    return parsed(text, frozenset().union(*(known_keys(index, asked.keys) for index in indexes)))


def _listing(
    query: Query,
    asked: ParsedQuery,
    searched: Sequence[Searched],
    selections: Sequence[Selection | None],
    around: Surroundings,
    *,
    complete: bool,
) -> Found:
    """List the documents that filters leave, newest first, where there is nothing to rank them by."""
    wanted = min(query.offset + query.limit, sys.maxsize)  # SQLite counts no further
    rows = [
        (-day, number, chunk)
        for number, (one, selection) in enumerate(zip(searched, selections, strict=True))
        for chunk, day in newest(one.index, selection, wanted)
    ]
    places = places_in([one.index for one in searched])([row[1:] for row in rows])
    ordered = sorted(rows, key=lambda row: (row[0], places[row[1:]][0], row[1]))[query.offset : wanted]
    documents = Documents(searched)
    read = documents.chunks(row[1:] for row in ordered)
    fused = [Fused((number, chunk), read[number, chunk].document_id, ()) for _, number, chunk in ordered]
    groups = grouped(fused, {}, by_document=True)
    manner = Manner(query, (), 0.0, around.now, around.contexts, around.bases, around.gone_since)
    total = sum(
        one.index.counts()[0] if selection is None else selection.documents
        for one, selection in zip(searched, selections, strict=True)
    )
    return Found(described(groups, documents, manner), total, query.mode, asked, filtered_out=complete and not total)


def _page(
    query: Query,
    kept: Sequence[Fused],
    ranked: Ranked,
    keyword: KeywordRanking | None,
    scale: float,
    documents: Documents,
    around: Surroundings,
) -> tuple[list[Group], int]:
    """Give the hits of a page, and the number of all: those of the ranking, then all others that have a word."""
    by_document = query.granularity == "document"
    groups = grouped(kept, ranked.evidence, by_document=by_document)
    matches = keyword.matches if keyword and query.min_signals == 1 else ()
    rest = Remaining(matches, ranked.fused, by_document=by_document)
    weigh = partial(_weighed, query, documents=documents, around=around) if _uneven(query, documents) else None
    return rest.page(query, groups, scale, places_in([one.index for one in documents.searched]), weigh)


def _ends(query: Query, rankings: Mapping[str, Ranking], keyword: KeywordRanking, near: SemanticRanking) -> str:
    """Say where a list ends that may not have every match; empty if it has."""
    if query.min_signals > 1 and len(rankings) == len(SIGNALS):
        every = near.complete and sum(len(one.positions) for one in keyword.matches) == len(keyword.ranking)
        return "" if every else ENDS_WITH_BOTH
    return ENDS_WITH_NEAREST if "keyword" not in rankings and not near.complete else ""


def _by_words(
    query: Query, indexes: Sequence[Index], terms: tuple[Term, ...], selections: Sequence[Selection | None]
) -> tuple[KeywordRanking, tuple[Spelt, ...]]:
    """Rank by words; those that occur nowhere give way to what was probably meant."""
    ranking = keyword_ranking(indexes, terms, selections, _each(query))
    made = corrections(indexes, ranking.missing) if ranking.missing else ()
    if not made:
        return ranking, ()
    instead = {one.typed: one.term for one in made}
    mended = tuple(
        instead.get(term.text.strip(PUNCTUATION), term) if term in ranking.missing else term for term in terms
    )
    return keyword_ranking(indexes, mended, selections, _each(query)), made


def _each(query: Query) -> int | None:
    return EACH if query.granularity == "document" else None


def _rankings(
    query: Query,
    searched: Sequence[Searched],
    keyword: KeywordRanking,
    vector: NDArray[np.float32] | None,
    selections: Sequence[Selection | None],
) -> tuple[dict[str, Ranking], SemanticRanking]:
    """Give the ranking of each signal that runs, and what was compared for the semantic one."""
    rankings: dict[str, Ranking] = {}
    near = SemanticRanking(Ranking.joined(()), NO_CHUNKS, np.zeros(0))
    if query.mode != "semantic" or vector is None:
        rankings["keyword"] = keyword.ranking
    if vector is not None and not ("semantic" in query.without and rankings):
        comparable = [one.index if one.comparable else None for one in searched]
        others = rankings["keyword"].chunks if "keyword" in rankings else NO_CHUNKS
        near = semantic_ranking(comparable, vector, selections, others, _each(query))
        rankings["semantic"] = near.ranking
    if "keyword" in query.without and "semantic" in rankings:
        rankings.pop("keyword", None)
    return rankings, near


def _named(query: Query, fused: list[Fused], text: str, documents: Documents) -> list[Fused]:
    """Lift the documents that the query names, where names are not left out."""
    left_out = query.mode == "semantic" or NAME in query.without
    return fused if left_out else named_first(fused, text, documents.paths)


def _weighed(query: Query, fused: list[Fused], documents: Documents, around: Surroundings) -> list[Fused]:
    """Apply what is said of bases and documents as a whole: weight, strength of memories, recency."""
    if not _uneven(query, documents):
        return fused
    bases = [one.base for one in documents.searched]
    weights = {base.weight for base in bases}
    memories = [number for number, base in enumerate(bases) if base.kind == "memory"]
    weighed = [one.times("weight", bases[one.key[0]].weight / max(weights)) for one in fused]
    for number in memories:
        paths = documents.paths(one.document_key for one in weighed if one.key[0] == number)
        factors = around.standing(documents.searched[number], list(paths.values())) if paths else {}
        weighed = [one.times("strength", factors.get(paths.get(one.document_key, ""), 1.0)) for one in weighed]
    if query.recency:
        rows = documents.documents({one.document_key for one in weighed})
        ages = {key: age_days(row, around.now) for key, row in rows.items()}
        weighed = [one.times("recency", recency(ages[one.document_key], query.recency)) for one in weighed]
    return best_first(weighed)


def _uneven(query: Query, documents: Documents) -> bool:
    """Whether anything is said of bases and documents as a whole."""
    bases = [one.base for one in documents.searched]
    return query.recency > 0 or len({base.weight for base in bases}) > 1 or any(b.kind == "memory" for b in bases)


def recency(age: float, weight: float) -> float:
    """Give the factor of an age.

    Args:
        age: days.
        weight: from 0, where age does not matter, to 1, where it halves the score every `HALF_LIFE_DAYS`.
    """
    return 1 - weight * (1 - math.exp2(-age / HALF_LIFE_DAYS))


def _second_look(query: Query, fused: Sequence[Fused], terms: Sequence[WeightedTerm], documents: Documents) -> Ranked:
    looked = fused[:LOOKED_AT]
    chunks = documents.chunks(one.key for one in looked)
    titles = documents.documents({one.document_key for one in looked})
    texts = {one.key: (chunks[one.key], titles[one.document_key]) for one in looked}
    return rerank(fused, terms, texts, tuple(AMOUNTS) if query.mode == "semantic" else query.without)


def _looked_again(
    query: Query,
    text: str,
    ranked: Ranked,
    documents: Documents,
    look: Callable[[str, Mapping[Key, str]], Mapping[Key, float]] | None,
) -> Ranked:
    """Mix in what a better model says of the best chunks, where that is wanted."""
    if look is None or query.mode != "hybrid" or SECOND_LOOK in query.without or not text.strip():
        return ranked
    if any(one.identifier for one in ranked.evidence.values()):
        return ranked  # such a model knows no names: docs/how-to/better-ranking.md has what it costs
    best = ranked.fused[:LOOKED_AT]
    chunks = documents.chunks(one.key for one in best)
    titles = documents.documents({one.document_key for one in best})
    texts = {
        one.key: embedded_text(titles[one.document_key].title, row.headings, row.text[row.prose :])
        for one in best
        for row in [chunks[one.key]]
    }
    return replace(ranked, fused=tuple(mix(ranked.fused, look(text, texts))))


def _signals_of(one: Fused) -> int:
    return len([part for part in one.parts if part.signal in SIGNALS and part.rank])
