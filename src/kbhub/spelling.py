"""A word that occurs nowhere → the word of the bases that was probably meant.

The index holds stems, and a slip near the end of a word changes what its stem is (`deploymnt` has none, `deployment`
has `deploy`). So likely stems are looked up in the sorted vocabulary, where a look-up costs some microseconds and
nothing need be kept in memory, and what decides is the words of the text that have these stems.
"""

from __future__ import annotations

import json
import re
import string
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from kbhub.embedding import PACKAGED_MODEL
from kbhub.index.vocabulary import terms_among, terms_with_prefix, texts_with_term
from kbhub.query import RUN, fold, parse_query, searchable, stems
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kbhub.index import Index
    from kbhub.query import Term

SHORTEST = 4
"""Letters of a word that is corrected; shorter ones have too many neighbours."""

CAREFUL = 5
"""Letters up to which only a letter too many, one too few or two in the wrong order is a slip, and the first letter is
right: with another letter, real words become others (`helm` and `help`, `vite` and `site`)."""

TWO_SLIPS = 8
"""Letters from which on a word may have two slips; from here on most words have no neighbour at all."""

LONGEST = 32
"""Letters of a word that is looked at; longer ones are no words."""

INTACT = 4
"""Letters at the beginning that are right unless there is a single slip in all of the word. With 3 a twentieth
more of the words with two slips is put right, and it takes twice as long where there are 90,000 terms."""

LONGEST_ENDING = 7
"""Letters that stemming takes off a word (`-ization`)."""

ENDING_LETTER = 0.25
"""Slips that a letter counts which stemming must have taken off: `deploy` is nearer to `deploymnt` than `depend`."""

CANDIDATES = 16
"""Stems whose words are looked at."""

TEXTS = 6
"""Chunks in which the words of a stem are looked for, per base."""

MANY_CHUNKS = 1_000
"""Chunks of all bases from which on a word must occur in `REPEATED` of them, for it may be a slip itself."""

REPEATED = 2

MOST = 8
"""Words of a query that are corrected; a page in another language is not."""

PUNCTUATION = ".,;:!?()[]'\""
"""What may stand around a word of a sentence."""

_WORD = re.compile(r"[^\W\d_]+")


@struct
class Correction:
    """A word that was searched for in place of another."""

    typed: str
    """As the user wrote it; occurs in no base."""
    used: str
    """As it stands in a text, in small letters."""
    term: Term
    """What finds it."""


def corrections(indexes: Sequence[Index], missing: Sequence[Term]) -> tuple[Correction, ...]:
    """Find what was probably meant by terms that occur nowhere.

    Words of letters alone are corrected, at most `MOST`: no identifiers, nothing with a digit, in capitals, in quotes
    or in Han or Kana, and no word that the vocabulary of the packaged model has, for it is a right one.

    Args:
        indexes: of all bases searched, each within a snapshot.
        missing: terms that none of them has.

    Returns:
        In the order of the terms; those with nothing near are left out.

    Raises:
        IndexUnavailable: an index cannot be read.
    """
    enough = REPEATED if sum(index.size()[0] for index in indexes) >= MANY_CHUNKS else 1
    words = [(term, word) for term in missing if (word := correctable(term))]
    unknown = [(term, word) for term, word in words if not known_stems().issuperset(stems(word))]
    return tuple(
        Correction(term.text.strip(PUNCTUATION), near, made)
        for term, word in unknown[:MOST]
        if (near := _nearest(indexes, word, enough))
        for made in parse_query(f'"{near}"').terms
    )


@lru_cache(maxsize=1)
def known_stems() -> frozenset[str]:
    """Give the stems of the words in the vocabulary of the packaged model (some 13,000, English and names)."""
    vocabulary = json.loads((PACKAGED_MODEL / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    return frozenset(stems(" ".join(word for word in vocabulary if len(word) >= SHORTEST and word.isalpha())))


def corrected(text: str, made: Sequence[Correction]) -> str:
    """Give a query with the words that were used in place of those that were typed, to be embedded."""
    for one in made:
        parts = re.split(rf"(?<!\w){re.escape(one.typed)}(?!\w)", text)
        text = one.used.join(parts)
    return text


def correctable(term: Term) -> str:
    """Give the word of a term as it is compared, empty if it is never corrected."""
    words = _WORD.findall(term.text)
    if term.quoted or term.apart or len(term.tokens) != 1 or len(words) != 1 or RUN.search(term.text):
        return ""
    word = words[0]
    bare = term.text.strip(PUNCTUATION)
    if bare != word or not SHORTEST <= len(word) <= LONGEST or not (word.islower() or word.istitle()):
        return ""
    return _bare(fold(word))


def distance(left: str, right: str, most: int) -> int:
    """Count the slips between two words: a letter more, less or another, or two neighbours in the wrong order.

    Args:
        left: a word.
        right: a word.
        most: distances above it are given as `most + 1`.

    Returns:
        The optimal string alignment distance.
    """
    if abs(len(left) - len(right)) > most:
        return most + 1
    # What the two begin and end with costs nothing, and there is little else in words that are near.
    start = next((at for at, (one, other) in enumerate(zip(left, right, strict=False)) if one != other), None)
    if start is None:
        return abs(len(left) - len(right))
    left, right = left[start:], right[start:]
    while left and right and left[-1] == right[-1]:
        left, right = left[:-1], right[:-1]
    before: list[int] = []
    row = list(range(len(right) + 1))
    for at, letter in enumerate(left):
        two_up, above, row = before, row, [at + 1]
        for column, other in enumerate(right):
            cost = min(above[column] + (letter != other), above[column + 1] + 1, row[column] + 1)
            if at and column and letter == right[column - 1] and other == left[at - 1]:
                cost = min(cost, two_up[column - 1] + 1)
            row.append(cost)
        before = above
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)


def _nearest(indexes: Sequence[Index], word: str, enough: int) -> str | None:
    """Give the nearest word of the bases, none if there is none near enough.

    Args:
        indexes: each within a snapshot.
        word: folded.
        enough: chunks in which its stem must be.
    """
    (stem,) = stems(word)[:1] or (word,)
    most = _most_slips(word)
    mended = set(stems(" ".join(_single_slips(word))))
    counted: dict[str, int] = {}
    for index in indexes:
        first = terms_with_prefix(index, stem[:INTACT]) | terms_among(index, mended)
        for term, chunks in first.items():
            counted[term] = counted.get(term, 0) + chunks
    likely = sorted(
        (slips, term[0] != stem[0], -chunks, term)
        for term, chunks in counted.items()
        if chunks >= enough and (slips := _likely_slips(word, stem, term, most)) is not None
    )
    near = [
        (slips, sorted(_bare(written)) != sorted(word), other_beginning, less, written)
        for _, other_beginning, less, term in likely[:CANDIDATES]
        for index in indexes
        for text in texts_with_term(index, term, TEXTS)
        for written in _written(text, term)
        if (slips := _slips(word, _bare(written), stem, term)) <= most
    ]
    return min(near)[-1] if near else None


def _slips(word: str, written: str, stem: str, term: str) -> int:
    """Count the slips between a word and one of a text, or their stems if their endings are not far apart either.

    More than there may be for a short word that is not likely meant: see `CAREFUL`.
    """
    most = _most_slips(word)
    found = distance(word, written, most + 1)
    if found == most + 1 and distance(stem, term, 1) == 1 and not _careless(stem, term):
        found = most  # the very form that was meant may stand in another chunk
    return most + 1 if _careless(word, written) else found


def _careless(word: str, written: str) -> bool:
    """Whether a short word would become another by what is no likely slip: see `CAREFUL`."""
    if len(word) > CAREFUL:
        return False
    same_letters = sorted(word) == sorted(written)
    return word[0] != written[0] or (len(word) == len(written) and not same_letters) or len(written) < SHORTEST


def _most_slips(word: str) -> int:
    return 2 if len(word) >= TWO_SLIPS else 1


def _single_slips(word: str) -> Iterator[str]:
    """Give what a word may be with one slip put right in its first `INTACT` letters."""
    letters = string.ascii_lowercase if word.isascii() else "".join(sorted(set(word)))
    for at in range(INTACT):
        before, after = word[:at], word[at:]
        yield before + after[1:]
        yield before + after[1:2] + after[:1] + after[2:]
        for letter in letters:
            yield before + letter + after
            yield before + letter + after[1:]


def _likely_slips(word: str, stem: str, term: str, most: int) -> float | None:
    """Estimate with how many slips a stem of the bases may be that of a word, to look at the likeliest first.

    Args:
        word: what was typed.
        stem: its stem.
        term: a stem of the bases.
        most: slips that there may be.

    Returns:
        The estimate, none if it cannot be.
    """
    if len(set(term) - set(word)) > most + 1:  # most are ruled out here; stemming may change one letter (`policy`)
        return None
    found: list[float] = [slips for one in (stem, word) if (slips := distance(one, term, most)) <= most]
    if len(term) >= SHORTEST and len(word) - len(term) <= LONGEST_ENDING:
        for end in range(max(len(term) - 1, SHORTEST), min(len(term) + 1, len(word)) + 1):
            slips = distance(word[:end], term, 1)
            found += [slips + ENDING_LETTER * (len(word) - end)] if slips <= 1 else []
    return min(found, default=None)


def _written(text: str, term: str) -> Iterator[str]:
    """Give the words of a text that have a stem, in small letters."""
    first = {term[0], term[0].upper()}
    words = {fold(word) for word in _WORD.findall(searchable(text)) if word[0] in first or not word.isascii()}
    likely = [word for word in words if _bare(word).startswith(term[: min(INTACT, len(term) - 1)])]
    yield from (word for word in likely if stems(word) == (term,))


def _bare(word: str) -> str:
    """Give a word without accents, as the index has it."""
    if word.isascii():
        return word
    return "".join(letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))
