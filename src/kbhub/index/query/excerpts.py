"""Query terms in a text, and the excerpt that shows most of them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Container, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from operator import mul, or_
from types import MappingProxyType

from kbhub.documents.shown_text import FENCE, code_blocks
from kbhub.index.query.parser import UNSPACED, Term, cased_parts, searchable, stems, tokens, words_apart

DENSE = 400
"""Characters of the part that an excerpt is made around: some sentences or rows."""

CODE = "```\n"
"""Stands before code whose first line is not in the text."""

CODE_REST = 0.125
"""Share of an excerpt's limit by which it may be longer, to end with the end of its code."""

DECIDING = 0.1
"""What words of a rule or a decision, a row or commands add to a part's worth, where all terms together have 1. Three
more of a hundred excerpts lack the line that answers without it (`benchmarks/excerpts.py`)."""

_DECIDES = re.compile(
    r"\b(?:chose|chosen|decided|must|should|not|cannot|never|always|only|except|unless|instead|because)\b|n't\b"
    r"|^[ \t]*(?:\||\$ |```(?:console|shell|(?:ba|z)?sh)\b)",
    re.IGNORECASE | re.MULTILINE,
)
ASKS_DECISION = re.compile(
    r"(?i)\b(?:cho(?:o?sen?|ice)|deci(?:ded?|sion)|pick(?:ed)?|agreed?|wh(?:at|ich).{1,60}\bwe use)\b|\badr(?=[-_ ]?\d)"
)
DECISION = re.compile(
    r"^(?:#{1,6}[ \t]*(?:\d+\.?[ \t]*)?(?:decision|decision outcome|outcome|resolution)[ \t:]*$"
    r"|[>*_ \t-]{0,9}(?:chosen (?:options?|alternative|solution)|decision(?: outcome)?)[*_]{0,3}:)",
    re.IGNORECASE | re.MULTILINE,
)
"""A heading or a line that the forms of decision records (MADR, Nygard's) put before what was decided."""

_SENTENCE_END = re.compile(r"[.!?][\"')\]*_`]*\s+|[。！？]")

_ONWARD = re.compile(r"[\w,;`*]\n[ \t]*(?:>[ \t]*)*[`*(\[]*[^\W\d_A-Z]")

_HEADING_OR_EMPTY = re.compile(r"#{1,6}\s|[-*_\s]*$|\*\*[^*\n]+(?::\*\*|\*\*:)\s*$|[ \t>]*(?:`{3}|~{3})")
"""Or a rule, or a bold line with a colon, which is a heading in all but form."""

_LINK = re.compile(r"!?\[(?:\[[^\[\]\n]{1,300}+\]\]|[^\[\]\n]{0,300}+\]\([^()\s]*\))")

_ADDRESS = re.compile(r"\]\([^()\s]*|https?://[^\s()<>]*")

IDENTIFIERS = 4_096
"""Mixed-case words whose parts are cached."""


def spans(text: str, terms: tuple[Term, ...]) -> list[tuple[int, int]]:
    """Return (start, end) of the words of a query's terms in a text: sorted offsets that do not overlap."""
    stems_wanted = {token for term in terms for token in term.tokens}
    if not stems_wanted:
        return []
    matches: list[tuple[int, int]] = []
    # The tokenizer sees terms of Han, Kana and Thai only as part of a run. `normalise` takes a vowel of Thai apart.
    for part in () if text.isascii() else filter(UNSPACED.fullmatch, stems_wanted):
        pattern = part.replace("\u0e4d\u0e32", "(?:\u0e4d\u0e32|\u0e33)")
        matches += [match.span() for match in re.finditer(pattern, text)]
    apart = {term.apart.tokens for term in terms if term.apart}
    raw = text.encode("utf-8", "replace")
    all_tokens = tokens(raw)
    if not text.isascii():
        all_tokens = [(start, end, words_apart(token)) for start, end, token in all_tokens]
    first, counted = 0, 0
    for at, (start, end, token) in enumerate(all_tokens):
        ends = [end] if token in stems_wanted else []
        if not ends and not raw[start + 1 : end].islower():  # a mixed-case word with a wanted part
            parts = part_stems(raw[start:end].decode("utf-8", "replace"))
            ends = [] if stems_wanted.isdisjoint(parts) else [end]
        for sequence in () if ends else apart:  # an identifier written apart
            if token == sequence[0] and tuple(stem for _, _, stem in all_tokens[at : at + len(sequence)]) == sequence:
                ends.append(all_tokens[at + len(sequence) - 1][1])
        for last in ends:
            first, counted = first + len(raw[counted:start].decode("utf-8", "replace")), start
            matches.append((first, first + len(raw[start:last].decode("utf-8", "replace"))))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(matches):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def excerpt(
    text: str, terms: tuple[Term, ...], limit: int, weights: Mapping[str, float] = MappingProxyType({})
) -> tuple[str, int]:
    """Cut a text to some `limit` characters around its densest part, at line ends or between sentences.

    Returns the part (with `…` where a sentence was cut, below the first line of code that was cut), and the offset of
    its first line. Terms weigh 1 by default.
    """
    room = min(DENSE, limit - 2)
    bounds = _bounds(text, room // 4)
    pieces = [text[start:end] for start, end in pairwise(bounds)]
    code = {at: first for first, end in code_blocks(pieces) for at in range(first + 1, end)}
    filled = [bool(piece.strip("> \t\n")) for piece in pieces]
    before = filled.index(True) if any(filled) else 0
    if 0 in code and FENCE.match(pieces[before]):  # of code that ends before
        part, offset = excerpt(text[bounds[before + 1] :], terms, limit, weights)
        return part, offset + text.count("\n", 0, bounds[before + 1])
    dense, dense_end = 0, _without_headings(pieces, code, 0)
    if bounds[dense_end] > limit:
        _, dense, dense_end = _densest(text, bounds, terms, weights, room)
    first, opening = code.get(dense, dense), ""
    if first >= 0 and bounds[dense_end] - bounds[first] < limit:
        dense = first
    elif dense in code:  # whose first line is too far away, and stands before the rest
        opening = CODE if first < 0 else pieces[first]
    lead = dense
    for full in (False, True) if dense in code.values() else ():
        while lead and filled[lead - 1] is full and lead - 1 not in code:
            lead -= 1
    if bounds[dense_end] - bounds[lead] < limit - len(opening):  # what introduces code says what it is for
        dense = lead
    start, end, limit = dense, dense_end, limit - len(opening) - 1
    # First the whole paragraph, then what follows it, then what stands before.
    grown = -1
    while grown != end - start:
        grown = end - start
        for first, last, added in ((start, end + 1, end), (start - 1, end, start - 1)):
            if first >= 0 and last < len(bounds) and bounds[last] - bounds[first] <= limit and filled[added]:
                start, end = first, last
    end = max(end, bisect_right(bounds, bounds[start] + limit) - 1)
    start = min(start, bisect_left(bounds, bounds[end] - limit))
    while start < dense and (not filled[start] or start in code or _within(text, bounds[start])):
        start += 1
    start = max(start, before)
    end = max(end, bisect_right(bounds, bounds[start] + limit) - 1)  # in the room that is free now
    end = _without_headings(pieces[:end], code, dense_end)
    if end in code:
        closed = next((at for at in range(end, len(pieces)) if code.get(at) != code[end]), len(pieces))
        end = closed if bounds[closed] - bounds[end] <= CODE_REST * limit else end
    cut = ["…" if at not in code and _within(text, bounds[at]) else "" for at in (start, end)]
    part = text[bounds[start] : bounds[end]].rstrip()
    return f"{opening}{cut[0]}{part}{cut[1]}", text.count("\n", 0, bounds[start]) - bool(opening)


def _without_headings(pieces: Sequence[str], code: Container[int], least: int) -> int:
    """Return the number of pieces up to the last that is no heading; all if there is no other."""
    end = len(pieces)
    while end > least and end - 1 not in code and _HEADING_OR_EMPTY.match(pieces[end - 1]):
        end -= 1
    return end or len(pieces)


def _within(text: str, place: int) -> bool:
    """Return whether a place is within a line, or within a sentence."""
    return 0 < place < len(text) and (text[place - 1] != "\n" or bool(_ONWARD.match(text, place - 2)))


def density(text: str, terms: tuple[Term, ...], weights: Mapping[str, float]) -> float:
    """Return the worth of the densest part of a text: the share of the terms, by weight, that stand together."""
    return _densest(text, _bounds(text, DENSE // 4), terms, weights, DENSE)[0]


def _bounds(text: str, limit: int) -> list[int]:
    """Return where a text may be cut, with its start and end: between lines, and within long ones after sentences."""
    bounds, start = [0], 0
    for line in text.split("\n"):
        end = start + len(line)
        links = [match.span() for match in _LINK.finditer(text, start, end)] if len(line) > limit else []
        while end - start > limit:
            before = start
            ends = [match.end() for match in _SENTENCE_END.finditer(text, start, start + limit)]
            if ends:
                start = ends[-1]
            elif (space := text.rfind(" ", start, start + limit)) >= 0:
                start = space + 1
            else:  # an address, mostly, or a script without spaces
                word = text[start : min(end, start + 4 * limit)].partition(" ")[0]
                start += len(word) + 1 if word.isascii() and len(word) < 4 * limit else limit
            first, last = links[at - 1] if (at := bisect_left(links, (start,))) else (0, 0)
            if first < start < last and last - first < 4 * limit:  # before or behind a link
                start = first if first > before else last
            if start < end:
                bounds.append(start)
        start = end + 1
        bounds.append(start)
    bounds[-1] = len(text)
    return bounds


def _densest(
    text: str, bounds: list[int], terms: tuple[Term, ...], weights: Mapping[str, float], limit: int
) -> tuple[float, int, int]:
    """Return the worth of the densest part of a text, without headings and addresses, and the indices of its bounds."""
    text = _ADDRESS.sub(lambda match: "." * len(match[0]), text)
    pieces = [text[start:end] for start, end in pairwise(bounds)]
    worth = _worth(pieces, terms)
    deciding = cache(lambda at: _DECIDES.search(text, bounds[at], bounds[at + 1]) is not None)
    heavy = [weights.get(term.text, 1.0) / len(term.tokens) for term in terms]
    total = sum([weights.get(term.text, 1.0) for term in terms]) or 1.0
    best = 0.0, 0, 1
    for last in sorted(worth):
        rows, end = [0] * len(terms), last + 1
        for start in range(last, -1, -1):
            if pieces[start].startswith("#") or (bounds[end] - bounds[start] > limit + 1 and start + 1 < end):
                break
            if start in worth:
                rows = [*map(or_, rows, worth[start])]
                value = sum(map(mul, heavy, map(int.bit_count, rows))) / total
                if value + DECIDING > best[0] and any(map(deciding, range(start, end))):
                    value += DECIDING
                if value > best[0]:
                    best = value, start, end
    return best


def _worth(pieces: Sequence[str], terms: tuple[Term, ...]) -> dict[int, list[int]]:
    """Return which words of each term occur in each piece of a text with any match, a bit for each word."""
    worth = {}
    for at, piece in enumerate(pieces):
        found, row = set(stems(searchable(piece))), list[int]()
        for term in terms:
            own = sum([1 << number for number, token in enumerate(term.tokens) if token in found])
            row.append(own or int(term.apart is not None and found.issuperset(term.apart.tokens)))
        if any(row):
            worth[at] = row
    return worth


@lru_cache(maxsize=IDENTIFIERS)
def part_stems(word: str) -> tuple[str, ...]:
    """Return the stems of the parts of a mixed-case word; empty if it is one word."""
    return tuple(["".join(stems(part)) for part in cased_parts(word)])
