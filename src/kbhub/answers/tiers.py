"""Which passages answer: strong hits, weaker ones, and what strong hits are linked with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.answers.models import Passage
from kbhub.answers.passages import Kept, Part, Texts, numbered, passage_of, shortened
from kbhub.errors import DocumentNotFound, IndexUnavailable
from kbhub.graph import related
from kbhub.index.staleness import outdated
from kbhub.keeping import Keeping, deleted_words, is_gone
from kbhub.sections import section

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kbhub.answers.models import AskOptions
    from kbhub.graph import Neighbour
    from kbhub.hub import Hub
    from kbhub.types import Hit, SearchResult

HITS = 12
"""Passages of direct and weaker hits at most. Of the queries of five collections that have an answer, 88 to 98 of 100
have it among so many."""

SEARCHED_HITS = 50
"""Hits looked through, so that the passage of a neighbour that fits the question is known."""

EXPANDED, NEIGHBOURS = 3, 3
"""Direct hits whose neighbours are looked at; neighbours that are taken."""

NEIGHBOURS_LOOKED_AT = 10
"""Neighbours of each kind that are looked at of one hit."""

NEAREST, NEAREST_TOKENS = 3, 160
"""Hits that are named where nothing covers the question, and estimated tokens that are shown of the first: a paragraph
or a small table."""


def tiered(hub: Hub, result: SearchResult, options: AskOptions) -> tuple[Passage, ...]:
    """Choose the passages for an answer.

    Args:
        hub: what searched.
        result: its `SEARCHED_HITS` best chunks.
        options: with the thresholds.

    Returns:
        Direct hits first, then neighbours of them, then weaker hits.
    """
    texts, kept = Texts(hub), Kept()
    strong, weak = by_strength(result, options)

    def taken(hits: Iterable[Hit], room: int) -> list[Passage]:
        found: list[Passage] = []
        for hit in hits:
            if len(found) == room:
                break
            part = texts.part(hit)
            if kept.takes(hit.docid, part, hit.headings, hit.title):
                found.append(_judged(hit, part, options))
        return found

    direct = taken(strong, HITS)
    linked = list(neighbours(hub, direct, result, texts, kept))
    return numbered([*direct, *linked, *taken(weak, HITS - len(direct))])


def by_strength(result: SearchResult, options: AskOptions) -> tuple[list[Hit], list[Hit]]:
    """Give the hits that are quoted directly, and the weaker ones that may be used.

    Args:
        result: of a search.
        options: with the thresholds.
    """
    used = [hit for hit in result.hits if hit.score >= options.threshold]
    strong = [hit for hit in used if hit.score >= options.direct_threshold]
    return strong, used[len(strong) :]


def nearest(hub: Hub, result: SearchResult) -> tuple[Passage, ...]:
    """Name what comes nearest to a question that nothing covers."""
    texts = Texts(hub)
    return numbered(
        passage_of(hit, texts.part(hit), "nearest", "the nearest there is") for hit in result.hits[:NEAREST]
    )


def in_short(hub: Hub, result: SearchResult, found: Sequence[Passage], line: int | None) -> tuple[Passage, ...]:
    """Cut the first of the nearest passages to what is shown of it.

    Args:
        hub: what searched.
        result: of the search.
        found: the nearest passages.
        line: where the part begins that comes nearest; none to go by the excerpt of the hit.
    """
    texts = Texts(hub)
    short = []
    for one, hit in zip(found[:1], result.hits, strict=False):
        document = texts.document(hit.docid, hit.path)
        whole = Part(one.start_line, one.end_line, one.text, one.in_code, one.table_header)
        part = shortened(whole, line or hit.excerpt_line, document, NEAREST_TOKENS)
        short.append(passage_of(hit, part, one.tier, one.reason, one.number))
    return (*short, *found[1:])


def _judged(hit: Hit, part: Part, options: AskOptions) -> Passage:
    if hit.score >= options.direct_threshold:
        return passage_of(hit, part, "direct", f"score {hit.score:.2f} ≥ {options.direct_threshold:g}")
    return passage_of(hit, part, "summarized", f"score {hit.score:.2f}, from {options.threshold:g}")


def neighbours(
    hub: Hub, direct: Sequence[Passage], result: SearchResult, texts: Texts, kept: Kept
) -> Iterator[Passage]:
    """Give a passage of each neighbour: what the search found in it, else what the link names, else its beginning.

    Args:
        hub: what searched.
        direct: what is quoted directly.
        result: of the search.
        texts: reads documents.
        kept: what has been chosen so far.
    """
    taken = {one.docid for one in direct}
    best = {hit.docid: hit for hit in reversed(result.hits)}
    left: list[tuple[float, int, Passage, Neighbour]] = []
    for one in direct[:EXPANDED]:
        for neighbour in _linked(hub, one):
            if neighbour.docid in taken or neighbour.base not in result.searched:
                continue
            taken.add(neighbour.docid)
            score = best[neighbour.docid].score if neighbour.docid in best else 0.0
            left.append((-score, len(left), one, neighbour))
    count = 0
    for _, _, one, neighbour in sorted(left, key=lambda entry: entry[:2]):
        if count == NEIGHBOURS:
            return
        made = _neighbour(hub, texts, one, neighbour, best.get(neighbour.docid))
        if made and kept.takes(made.docid, Part(made.start_line, made.end_line, made.text), made.headings, made.title):
            count += 1
            yield made


def _linked(hub: Hub, one: Passage) -> list[Neighbour]:
    try:
        found = related(hub, one.docid, hops=1, kinds=("link", "backlink", "related"), limit=NEIGHBOURS_LOOKED_AT)
    except DocumentNotFound:  # gone since it was found
        return []
    return list(found.neighbours)


def _neighbour(hub: Hub, texts: Texts, one: Passage, neighbour: Neighbour, hit: Hit | None) -> Passage | None:
    how = {"link": "linked from", "backlink": "links to", "related": "related to"}[neighbour.kind]
    reason = f"{how} {one.ref}"
    if hit:
        return passage_of(hit, texts.part(hit), "related", reason)
    path = neighbour.ref.partition("@")[2] or neighbour.ref
    document = texts.document(neighbour.docid, path)
    lines = section(document, neighbour.heading) if document and neighbour.heading else None
    part = texts.opening(neighbour.docid, path, lines)
    if part is None:
        return None
    return Passage(
        number=0,
        ref=neighbour.ref,
        docid=neighbour.docid,
        title=neighbour.title,
        start_line=part.start_line,
        end_line=part.end_line,
        score=None,
        tier="related",
        reason=reason,
        outdated=_outdated(hub, neighbour.base, path),
        in_code=part.in_code,
        table_header=part.table_header,
        text=part.text,
    )


def _outdated(hub: Hub, base: str, path: str) -> str | None:
    """Say why a document may no longer hold; nothing if it does, or its index cannot be read."""
    one = hub.select([base])[0]
    index = hub.index(one)
    try:
        with index.snapshot():
            row = index.document(path)
            said = outdated(index, [row], hub.options.clock()).get(row.id) if row else None
            if row is None or not is_gone(row.size):
                return said
            gone = deleted_words(Keeping(hub.limits()["kept"], one).gone_since(path))
            return f"{said}; {gone}" if said else gone
    except IndexUnavailable:
        return None
