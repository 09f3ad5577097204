"""Passages for an answer, chosen within a budget."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, islice
from typing import Any

from kbhub.answers.answer import AskOptions, Passage, Prepared, Tier, estimated_tokens
from kbhub.answers.extractive import best_line
from kbhub.documents.markdown import section, sections_of, trimmed
from kbhub.documents.shown_text import readable
from kbhub.documents.source import parse_text
from kbhub.errors import DocumentNotFound, IndexUnavailable
from kbhub.hub import Hub
from kbhub.index.query.excerpts import DECISION
from kbhub.models.embedding import Embedder
from kbhub.reading.neighbours import related
from kbhub.reading.read import ReadOptions, read
from kbhub.reading.reports import EdgeKind, Neighbour
from kbhub.search.evidence import QueryTerms, same_text
from kbhub.search.plan import Evidence, declared_in
from kbhub.types import Document, Hit, SearchResult
from kbhub.values import struct
from kbhub.workspace.formats import SITE_SUFFIXES, in_markdown

PASSAGE_TOKENS = 700
"""Limit of a passage in estimated tokens: nearly every chunk (300 words) is shorter, tables and code may be longer."""

TABLE_HEADER_LINES = 2
"""The column names, and the rule below them."""


@struct
class PassageSpan:
    """Consecutive lines of a document, both 1-based and inclusive."""

    start_line: int
    end_line: int
    text: str
    in_code: bool = False
    table_header: str = ""


Part = PassageSpan | Passage


class Texts:
    """A cache of documents by docid, as they are on disk now, in Markdown."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._documents: dict[str, Document | None] = {}

    def document(self, docid: str, path: str) -> Document | None:
        """Return a document by its short docid, in the format of the path, or None if it is gone."""
        if docid not in self._documents:
            readings = read(self._hub, [docid], ReadOptions(answer_bytes=sys.maxsize)).readings
            text = readings[0].text if readings else None
            document = None if text is None else parse_text(path, text.encode("utf-8", "replace"))
            if document:
                lines = in_markdown("\n".join(document.lines), path).split("\n")
                document = replace(document, lines=tuple(lines))
            self._documents[docid] = document
        return self._documents[docid]

    def part(self, hit: Hit) -> Part:
        """Return the lines of a hit, or its excerpt if the document is gone or is one overlong line."""
        document = self.document(hit.docid, hit.path)
        part = lines_of(document, hit.start_line, hit.end_line) if document else None
        if part is None or (part.start_line == part.end_line and estimated_tokens(part.text) > PASSAGE_TOKENS):
            return PassageSpan(hit.excerpt_line, hit.excerpt_line + hit.excerpt.count("\n"), hit.excerpt)
        return shortened(part, hit.excerpt_line, document)


def lines_of(document: Document, start: int, end: int) -> PassageSpan | None:
    """Return a range of lines (1-based, inclusive) without front matter and blank ends, or None if nothing is left."""
    before, end = trimmed(document.lines, max(start - 1, document.body), min(end, len(document.lines)))
    if before == end:
        return None
    text = "\n".join(document.lines[before:end])
    if document.path.lower().endswith(SITE_SUFFIXES):
        text = readable(text)
    return _span(document, before + 1, end, text)


def _span(document: Document, start: int, end: int, text: str) -> PassageSpan:
    """Return lines of a document, with what they begin within: a code block, or a table."""
    in_code = any(first < start <= last for first, last in document.fences)
    tables = [first for first, last in document.tables if first + TABLE_HEADER_LINES <= start <= last]
    header = [line for first in tables for line in document.lines[first - 1 :][:TABLE_HEADER_LINES]]
    return PassageSpan(start, end, text, in_code, "\n".join(header))


def shortened(part: Part, line: int, document: Document | None, room: int = PASSAGE_TOKENS) -> Part:
    """Cut a part to whole lines that fit in estimated tokens, starting at a given line if it does not fit whole."""
    if estimated_tokens(part.text) <= room:
        return part
    lines = part.text.split("\n")
    first = min(max(0, line - part.start_line), len(lines) - 1)
    sizes = accumulate(estimated_tokens(text) + 1 for text in lines[first:])
    taken = lines[first:][: max(1, sum(size <= room for size in sizes))]
    start, text = part.start_line + first, "\n".join(taken)
    end = start + len(taken) - 1
    if not first:
        return PassageSpan(start, end, text, part.in_code, part.table_header)
    return _span(document, start, end, text) if document else PassageSpan(start, end, text)


class ChosenSpans:
    """The parts chosen so far, to avoid duplicates."""

    def __init__(self) -> None:
        self._spans: dict[str, list[tuple[int, int]]] = {}
        self._texts: list[tuple[Evidence, str]] = []

    def takes(self, passage: Passage) -> bool:
        """Record a passage and return True, unless its lines or its text are recorded already."""
        spans = self._spans.setdefault(passage.docid, [])
        if any(start <= passage.end_line and passage.start_line <= end for start, end in spans):
            return False
        seen = QueryTerms().examine(passage.text, passage.headings, passage.title)
        folded = " ".join(passage.text.casefold().split())
        if any(same_text(seen, other) or folded == text for other, text in self._texts):
            return False
        spans.append((passage.start_line, passage.end_line))
        self._texts.append((seen, folded))
        return True


_OF_HIT = {"ref", "docid", "title", "headings", "score", "outdated", "rejected", "trust", "duplicates"}


def passage_of(hit: Hit | Neighbour, part: Part, tier: Tier, reason: str, number: int = 0, **more: Any) -> Passage:
    """Build a passage from a part of the document of a hit or a neighbour, of which `more` is known."""
    return Passage(
        **(hit.model_dump(include=_OF_HIT) | more),
        number=number,
        start_line=part.start_line,
        end_line=part.end_line,
        tier=tier,
        reason=reason,
        in_code=part.in_code,
        table_header=part.table_header,
        text=part.text,
    )


def numbered(passages: Iterable[Passage]) -> tuple[Passage, ...]:
    """Number passages in order, from 1."""
    return tuple(passage.model_copy(update={"number": number}) for number, passage in enumerate(passages, 1))


HITS = 12
"""Limit of passages of direct and weaker hits. Of the queries of five collections that have an answer, 88 to 98 of 100
have it among so many.
"""

SEARCHED_HITS = 50
"""Hits that are searched for, so that the best passage of a neighbour is known."""

EXPANDED, NEIGHBOURS = 3, 3
"""Number of direct hits whose neighbours are considered, and of neighbours that are used."""

NEIGHBOURS_LOOKED_AT = 10
"""Limit of neighbours of each kind that are considered per hit."""

NEAREST_TOKENS = 160
"""Estimated tokens shown of the first hit if nothing covers the question: a paragraph or a small table."""

FRAME_TOKENS = 60
"""Estimated tokens that an answer adds around all passages, besides the question; and to each, besides its names."""

LEAST_PART = 40
"""Minimum estimated tokens of the beginning of a passage that does not fit whole."""

SECTION_SHARE = 0.5
"""Largest share of the room for a whole section; if it is longer, only the chunk of the hit is used."""


def tiered(hub: Hub, result: SearchResult, options: AskOptions) -> tuple[Passage, ...]:
    """Choose the passages for an answer from the `SEARCHED_HITS` best: direct hits, their neighbours, weaker hits."""
    texts, kept = Texts(hub), ChosenSpans()
    strong, weak = by_strength(result, options)

    def choose(hits: Iterable[Hit], room: int, tier: Tier, bound: str) -> list[Passage]:
        passages = (passage_of(hit, texts.part(hit), tier, f"score {hit.score:.2f}{bound}") for hit in hits)
        return list(islice(filter(kept.takes, passages), room))

    direct = choose(strong, HITS, "direct", f" ≥ {options.direct_threshold:g}")
    linked = list(neighbours(hub, direct, result, texts, kept))
    rest = choose(weak, HITS - len(direct), "summarized", f", from {options.threshold:g}")
    return numbered([*direct, *linked, *rest])


def with_decisions(hits: Iterable[Hit]) -> tuple[Hit, ...]:
    """Put what a record decides before the first hit of its document, with that one's score."""
    ordered, first = list[Hit](), dict[str, Hit]()
    for hit in hits:
        best = first.setdefault(hit.docid, hit)
        if best is not hit and DECISION.match(hit.excerpt):
            ordered.insert(ordered.index(best), hit.model_copy(update={"score": best.score}))
        else:
            ordered.append(hit)
    return tuple(ordered)


def by_strength(result: SearchResult, options: AskOptions) -> tuple[list[Hit], list[Hit]]:
    """Split the hits into direct ones and weaker ones, leaving out those below the threshold."""
    used = [hit for hit in result.hits if hit.score >= options.threshold]
    strong = [hit for hit in used if hit.score >= options.direct_threshold]
    return strong, used[len(strong) :]


def nearest(hub: Hub, result: SearchResult, prepared: Prepared, embedder: Embedder | None) -> tuple[Passage, ...]:
    """Return the nearest passages to a question that nothing covers, the first cut to what is nearest in it."""
    texts, passages = Texts(hub), list[Passage]()
    for hit in result.hits[:HITS]:
        part = texts.part(hit)
        if not passages:
            whole = passage_of(hit, part, "nearest", "")
            line = best_line(prepared.model_copy(update={"passages": (whole,)}), embedder) or hit.excerpt_line
            part = shortened(part, line, texts.document(hit.docid, hit.path), NEAREST_TOKENS)
        passages.append(passage_of(hit, part, "nearest", "nearest available"))
    return numbered(passages)


def neighbours(
    hub: Hub, direct: Sequence[Passage], result: SearchResult, texts: Texts, kept: ChosenSpans
) -> Iterator[Passage]:
    """Yield a passage of each neighbour: its best hit, else the section that is linked, else its beginning."""
    seen = {passage.docid for passage in direct}
    best = {hit.docid: hit for hit in reversed(result.hits)}
    candidates: list[tuple[Passage, Neighbour, Hit | None]] = []
    kinds: tuple[EdgeKind, ...] = ("link", "backlink", "related")
    for passage in direct[:EXPANDED]:
        with suppress(DocumentNotFound):  # deleted since the search
            for neighbour in related(hub, passage.docid, hops=1, kinds=kinds, limit=NEIGHBOURS_LOOKED_AT).neighbours:
                if neighbour.docid not in seen and neighbour.base in result.searched:
                    seen.add(neighbour.docid)
                    candidates.append((passage, neighbour, best.get(neighbour.docid)))
    candidates.sort(key=lambda entry: -entry[2].score if entry[2] else 0.0)
    linked = (_neighbour(hub, texts, *candidate) for candidate in candidates)
    yield from islice((one for one in linked if one and kept.takes(one)), NEIGHBOURS)


def _neighbour(hub: Hub, texts: Texts, direct: Passage, neighbour: Neighbour, hit: Hit | None) -> Passage | None:
    how = {"link": "linked from", "backlink": "links to", "related": "related to"}[neighbour.kind]
    reason = f"{how} {direct.ref}"
    if hit:
        return passage_of(hit, texts.part(hit), "related", reason)
    path = neighbour.ref.partition("@")[2] or neighbour.ref
    document = texts.document(neighbour.docid, path)
    if document is None:
        return None
    lines = section(document, neighbour.heading) if neighbour.heading else None
    start, end = lines or (document.body + 1, len(document.lines))
    if (whole := lines_of(document, start, end)) is None:
        return None
    base, more = hub.select([neighbour.base])[0], dict[str, Any]()
    with suppress(IndexUnavailable), hub.index(base).snapshot() as index:
        if row := index.document(path):
            said = declared_in(hub, base, index, [row], hub.options.clock())
            more = {"outdated": said.outdated.get(row.id), "trust": said.trust.get(row.id)}
            more["rejected"] = row.id in said.rejected
    return passage_of(neighbour, shortened(whole, start, document), "related", reason, score=None, **more)


def frame_tokens(one: Passage | Hit) -> int:
    """Estimate the tokens needed to introduce a passage."""
    names = (one.ref, one.title, *one.headings, *one.duplicates, one.outdated or "")
    return FRAME_TOKENS + sum(map(estimated_tokens, names))


def fitting(passages: Sequence[Passage], room: int) -> tuple[int, ...]:
    """Return the numbers of the passages, best first, that fit in estimated tokens; the first always counts."""
    chosen: list[int] = []
    for passage in passages:
        size = estimated_tokens(passage.readable) + frame_tokens(passage)
        if size <= room or not chosen:
            chosen.append(passage.number)
            room -= size
    return tuple(chosen)


def packed(hub: Hub, result: SearchResult, options: AskOptions, budget: int) -> tuple[Passage, ...]:
    """Choose passages for a budget in estimated tokens of the whole answer: whole sections if they fit, best first.

    Neighbours of direct hits come before weaker hits. Passages that do not fit are cut to the lines that do.
    """
    texts, kept, chosen = Texts(hub), ChosenSpans(), list[Passage]()
    room = budget - FRAME_TOKENS - estimated_tokens(result.query)
    strong, weak = by_strength(result, options)

    def add(hit: Hit, tier: Tier) -> None:
        """Add the section of a hit, its chunk, or the lines that fit."""
        nonlocal room
        free, document = room - frame_tokens(hit), texts.document(hit.docid, hit.path)
        part = (_whole(document, hit, free) if document else None) or texts.part(hit)
        if (size := _size(part)) > free:
            part = shortened(part, hit.excerpt_line, document, free)
            if (size := _size(part)) > free or size < LEAST_PART:
                return
        passage = passage_of(hit, part, tier, f"score {hit.score:.2f}")
        if kept.takes(passage):
            chosen.append(passage)
            room = free - size

    for hit in strong:
        add(hit, "direct")
    for neighbour in neighbours(hub, chosen, result, texts, ChosenSpans()):
        free = room - frame_tokens(neighbour) - _size(neighbour)
        if free >= 0 and kept.takes(neighbour):
            chosen.append(neighbour)
            room = free
    for hit in weak:
        add(hit, "summarized")
    return numbered(chosen)


def _size(part: Part) -> int:
    return estimated_tokens(part.text) + estimated_tokens(part.table_header)


def _whole(document: Document, hit: Hit, free: int) -> PassageSpan | None:
    """Return the section around a hit, with its subsections, if it takes no more than its share."""
    sections = sections_of(document.headings, len(document.lines))
    around = [(heading.line, end) for heading, _, end in sections if heading.line <= hit.start_line]
    part = lines_of(document, around[-1][0], max(around[-1][1], hit.end_line)) if around else None
    return part if part and estimated_tokens(part.text) <= free * SECTION_SHARE else None
