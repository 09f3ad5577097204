"""Query terms in a text, found without tokenizing all of it, and the excerpt that shows most of them."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Container, Iterator
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from kbhub.index.query.parser import MAX_CASED, RUN, cased_parts, cased_words, normalise, searchable, stems, tokens

if TYPE_CHECKING:
    from kbhub.index.query.parser import Term

WORDS = 16_384
"""Words whose stems are cached, some 2 MB."""

CHANGED_ENDINGS = "eil"
"""Last letters of a stem that its word may lack: stemming adds an `e` (`filing`, `file`), turns `y` into `i` (`policy`)
and `-bility` into `-bl`. The word starts with everything before them (Porter: "An algorithm for suffix stripping",
Program 14, 1980)."""

_FOREIGN = re.compile(r"[^\x00-\x7f]")
_WORD = re.compile("[a-z0-9]+")

IDENTIFIERS = 4_096
"""Mixed-case words whose parts are cached."""


def plain(text: str) -> str | None:
    """Return a text in lower case, of the same length, with `?` for non-ASCII separators.

    None if it has letters, digits or marks beyond ASCII, which need the tokenizer.
    """
    if text.isascii():
        return text.lower()
    for character in set(_FOREIGN.findall(text)):
        if any(one.isalnum() or unicodedata.category(one)[0] in "MC" for one in normalise(character)):
            return None
    return text.encode("ascii", "replace").decode("ascii").lower()


def occurrences(
    text: str, wanted: frozenset[str], cased: str = "", pairs: Container[tuple[str, str]] = ()
) -> list[tuple[int, int, str]]:
    """Return (start, end, stem) of the words with wanted stems, in order.

    Args:
        text: a result of `plain`.
        wanted: the stems.
        cased: the text before `plain`, which shows the parts of mixed-case words such as `maxRetries`.
        pairs: pairs of wanted stems. Neighbouring parts that are one count as words, unless the whole word is wanted.
    """
    matches: dict[int, tuple[int, int, str]] = {}
    for beginning in {stem[: -1 if len(stem) > 1 and stem[-1] in CHANGED_ENDINGS else None] for stem in wanted}:
        at = text.find(beginning)
        while at >= 0:
            end = at + len(beginning)
            if at not in matches:
                if not at or not text[at - 1].isalnum():
                    word = _WORD.match(text, at)
                    end = word.end() if word else end
                    if (stem := stem_of(text[at:end])) in wanted:
                        matches[at] = (at, end, stem)
                elif cased and cased[at].isupper():
                    matches |= _paired_parts(text, cased, at, wanted, pairs)
            at = text.find(beginning, end)
    return sorted(matches.values())


def _paired_parts(
    text: str, cased: str, at: int, wanted: frozenset[str], pairs: Container[tuple[str, str]]
) -> dict[int, tuple[int, int, str]]:
    """Return start → (start, end, stem) of the parts that are pairs, of the mixed-case word around a capital."""
    start = at
    while start and at - start <= MAX_CASED and text[start - 1].isalnum():
        start -= 1
    found = _WORD.match(text, start, at + MAX_CASED)
    word = cased[start : found.end()] if found else ""
    if len(word) > MAX_CASED or stem_of(word) in wanted:
        return {}
    ends, part_of, matches = list(accumulate(map(len, cased_parts(word)), initial=start)), part_stems(word), {}
    for first, pair in enumerate(pairwise(part_of)):
        for part in (first, first + 1) if pair in pairs else ():
            matches[ends[part]] = ends[part], ends[part + 1], part_of[part]
    return matches


@lru_cache(maxsize=WORDS)
def stem_of(word: str) -> str:
    """Return the stem of one word, cached."""
    return "".join(stems(word))


def spans(text: str, terms: tuple[Term, ...]) -> list[tuple[int, int]]:
    """Return (start, end) of a query's terms in a text: sorted character offsets that do not overlap.

    A phrase matches at any of its words.
    """
    stems_wanted = {token for term in terms for token in term.tokens}
    if not stems_wanted:
        return []
    matches: list[tuple[int, int]] = []
    # The tokenizer sees Han and Kana terms only as part of a run.
    for pair in () if text.isascii() else filter(RUN.fullmatch, stems_wanted):
        matches += [match.span() for match in re.finditer(re.escape(pair), text)]
    apart = {term.apart.tokens for term in terms if term.apart}
    raw = text.encode("utf-8", "replace")
    all_tokens = tokens(raw)
    first, counted = 0, 0
    for start, end in _wanted(raw, all_tokens, stems_wanted, apart):
        first, counted = first + len(raw[counted:start].decode("utf-8", "replace")), start
        matches.append((first, first + len(raw[start:end].decode("utf-8", "replace"))))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(matches):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def excerpt(text: str, terms: tuple[Term, ...], limit: int) -> tuple[str, int]:
    """Cut the part of a text with the most terms, at line ends where possible, to at most `limit` characters.

    Returns the part, verbatim (with `…` where a line was cut), and the offset of its first line in `text`.
    """
    if len(text) <= limit:
        return text, 0
    lines = text.split("\n")
    ends = list(accumulate(len(line) + 1 for line in lines))
    worth = _worth(lines, ends, terms)
    best, best_value = (0, 0), 0
    for end in sorted(worth):  # only another match improves a window
        start = min(end, bisect_left(ends, ends[end] - limit - 1) + 1) if ends[end] - 1 > limit else 0
        rows = [worth[at] for at in range(start, end + 1) if at in worth]
        value = sum(map(max, zip(*rows, strict=True)))
        if value > best_value:
            best, best_value = (start, end), value
    first, last = _settle(lines, worth, best, limit)
    if first == last and len(lines[first]) > limit:
        return _cut(lines[first], terms, limit), first
    part, end = "\n".join(lines[first : last + 1]), ends[last] - 1
    if len(part) < limit // 2 and (more := text[end : end + limit]).strip():
        part += _cut(more, (), limit - len(part))  # the next line is long: add its beginning
    return part, first


def _wanted(
    raw: bytes, every: list[tuple[int, int, str]], wanted: set[str], apart: set[tuple[str, ...]]
) -> Iterator[tuple[int, int]]:
    """Yield the spans of wanted tokens, of mixed-case words with a wanted part, and of identifiers written apart."""
    for at, (start, end, token) in enumerate(every):
        if token in wanted or not (
            raw[start + 1 : end].islower() or wanted.isdisjoint(part_stems(raw[start:end].decode("utf-8", "replace")))
        ):
            yield start, end
            continue
        for sequence in apart:
            if token == sequence[0] and tuple(stem for _, _, stem in every[at : at + len(sequence)]) == sequence:
                yield start, every[at + len(sequence) - 1][1]


def _worth(lines: list[str], ends: list[int], terms: tuple[Term, ...]) -> dict[int, list[int]]:
    """Return how many words of each term occur in each line with any match."""
    text, found = "\n".join(lines), defaultdict[int, set[str]](set)
    letters = plain(text)
    if letters is None:
        for at, line in enumerate(lines):
            found[at].update(stems(searchable(line)))
    else:
        wanted = frozenset([token for term in terms for form in (term, term.apart) if form for token in form.tokens])
        for start, _, stem in occurrences(letters, wanted):
            found[bisect_right(ends, start)].add(stem)
        for start, word in cased_words(text):
            found[bisect_right(ends, start)].update(part_stems(word))
    worth = {}
    for at, line_stems in found.items():
        row = []
        for term in terms:
            own = sum(map(line_stems.__contains__, term.tokens))
            row.append(own or int(term.apart is not None and line_stems.issuperset(term.apart.tokens)))
        if any(row):
            worth[at] = row
    return worth


@lru_cache(maxsize=IDENTIFIERS)
def part_stems(word: str) -> tuple[str, ...]:
    """Return the stems of the parts of a mixed-case word; empty if it is one word."""
    return tuple(map(stem_of, cased_parts(word)))


def _settle(lines: list[str], worth: Container[int], window: tuple[int, int], limit: int) -> tuple[int, int]:
    """Start a window one line before its first match and extend it while it fits."""
    first, last = window
    while first < last and first not in worth and first + 1 not in worth:
        first += 1
    while first < last and not lines[first].strip():
        first += 1
    size = len("\n".join(lines[first : last + 1]))
    while last + 1 < len(lines) and size + len(lines[last + 1]) + 1 <= limit:
        last += 1
        size += len(lines[last]) + 1
    while first < last and not lines[last].strip():
        last -= 1
    return first, last


def _cut(line: str, terms: tuple[Term, ...], limit: int) -> str:
    """Cut a long line around its first term, at spaces."""
    if len(line) <= limit:
        return line
    matches = spans(line[: 50 * limit], terms)
    start = max(0, (matches[0][0] if matches else 0) - limit // 4)
    part = line[start : start + limit - 2]
    if start and (space := part.find(" ", 0, limit // 8)) >= 0:
        part = part[space + 1 :]
    if start + limit - 2 < len(line) and (space := part.rfind(" ", len(part) - limit // 8)) > 0:
        part = part[:space]
    return f"{'…' if start else ''}{part}{'…' if start + limit - 2 < len(line) else ''}"
