"""Correct words that occur nowhere to words of the bases.

The index holds stems, and a typo near the end of a word changes its stem (`deploymnt` has none, `deployment` has
`deploy`). So likely stems are looked up in the sorted vocabulary, where a lookup takes microseconds and no memory, and
the decision is made on the words of the text that have these stems.
"""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache

from kbhub.errors import IndexUnavailable
from kbhub.index.catalogue import terms_among, terms_with_prefix, texts_with_term
from kbhub.index.engine import Index
from kbhub.index.query.parser import MARKS, UNSPACED, Term, fold, normalise, paired, parse_query, searchable, stems
from kbhub.models.embedding import PACKAGED_MODEL, packaged_embedder
from kbhub.values import struct

SHORTEST = 4
"""Fewest letters of a corrected word; shorter ones have too many neighbours."""

CAREFUL = 5
"""Up to this many letters, only an extra, missing or swapped letter after the first counts as a typo: with another
letter, real words become others (`helm` and `help`, `vite` and `site`)."""

TWO_SLIPS = 8
"""Letters from which a word may have two typos; most words this long have no neighbour at all."""

LONGEST = 32

INTACT = 4
"""Initial letters that are assumed right unless the whole word has a single typo. With 3, a twentieth more of the words
with two typos is corrected, and it takes twice as long with 90,000 terms."""

LONGEST_ENDING = 7
"""Most letters that stemming removes (`-ization`)."""

ENDING_LETTER = 0.25
"""Cost, in typos, of a letter removed by stemming: `deploy` is nearer to `deploymnt` than `depend`."""

CANDIDATES = 16
"""Stems whose words are compared."""

TEXTS = 6
"""Chunks read per base to find the words of a stem."""

MANY_CHUNKS = 1_000
"""With this many chunks, a word must occur in `REPEATED` of them, since it may be a typo itself."""

REPEATED = 2

MOST = 8
"""Most words corrected per query; a page in another language is not corrected."""

_WORD = re.compile(r"[^\W\d_]+")


@struct
class Respelling:
    """A replacement for a misspelt word."""

    typed: str
    used: str
    """As in a text, in lower case."""
    term: Term


def corrections(indexes: Sequence[Index], missing: Sequence[Term]) -> tuple[Respelling, ...]:
    """Return corrections of terms that occur in no base, in their order; terms without one are left out.

    No identifiers, digits, capitals, quotes, Han or Kana are corrected, and no word in the vocabulary of the packaged
    model, which is assumed right. A name may be written in another script.
    """
    enough = REPEATED if sum(index.columns().chunks for index in indexes) >= MANY_CHUNKS else 1
    words = [(term, word) for term in missing if (word := correctable(term))]
    unknown = [(term, word) for term, word in words if not known_stems().issuperset(stems(word))][:MOST]
    nearest = {term: near for term, word in unknown if (near := _nearest(indexes, word, enough))}
    terms = cache(terms_with_prefix)
    for term in missing[:MOST_NAMES]:
        if term not in nearest and not term.quoted and (name := _same_name(indexes, term.text, terms)):
            nearest[term] = name
    found = [(term, near, parse_query(f'"{near}"').terms) for term in missing if (near := nearest.get(term))]
    return tuple(Respelling(term.text.strip(MARKS), near, one) for term, near, terms in found for one in terms)


@lru_cache(maxsize=1)
def known_stems() -> frozenset[str]:
    """Return the stems of the words in the vocabulary of the packaged model (some 13,000, English and names)."""
    vocabulary = json.loads((PACKAGED_MODEL / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    return frozenset(stems(" ".join(word for word in vocabulary if len(word) >= SHORTEST and word.isalpha())))


def corrected(text: str, made: Sequence[Respelling]) -> str:
    """Return a query with corrections applied, to be embedded."""
    for fix in made:
        parts = re.split(rf"(?<!\w){re.escape(fix.typed)}(?!\w)", text)
        text = fix.used.join(parts)
    return text


def correctable(term: Term) -> str:
    """Return the normalised word of a term, or an empty string if it is never corrected."""
    words = _WORD.findall(term.text)
    if term.quoted or term.apart or len(term.tokens) != 1 or len(words) != 1 or UNSPACED.search(term.text):
        return ""
    word = words[0]
    bare = term.text.strip(MARKS)
    if bare != word or not SHORTEST <= len(word) <= LONGEST or not (word.islower() or word.istitle()):
        return ""
    return _bare(fold(word))


def distance(left: str, right: str, most: int) -> int:
    """Count the typos (an extra, missing or wrong letter, or two swapped) between words, at most `most + 1`."""
    if abs(len(left) - len(right)) > most:
        return most + 1
    # A common start and end cost nothing, and similar words have little else.
    start = next((at for at, (letter, other) in enumerate(zip(left, right, strict=False)) if letter != other), None)
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


_LATIN = {
    "абвгдеёжзийклмнопрстуфхцчшщъыьэюяіїєґў": "a b v g d e e j z i i k l m n o p r s t u f h c ch sh sh  i  e u a i i "
    "e g u",
    "αβγδεζηθικλμνξοπρσςτυφχψω": "a v g d e z i t i k l m n x o p r s s t i f h ps o",
    "ابتثجحخدذرزسشصضطظعغفقكلمنهويىةءپچژگڤک": "a b t t j h k d z r z s sh s d t z  g f k k l m n h u i a   p ch j g v k",
    "אבגדהוזחטיכךלמםנןסעפףצץקרשת": "a b g d h u z h t i k k l m m n n s  p f c c k r sh t",
    "अआइईउऊऋएऐओऔऑऍािीुूृेैोौॉॅकखगघचछजझटठडढणतथदधनपफबभमयरलवशषसहंँ": "a a i i u u ri e e o o o e a i i u u ri e e o o o e "
    "k k g g ch ch j j t t d d n t t d d n p f b b m i r l v sh sh s h n n",
}
"""Letters of Cyrillic, Greek, Arabic, Hebrew and Devanagari → as in a Latin name."""

_LETTERS = {
    letter: latin for script, names in _LATIN.items() for letter, latin in zip(script, names.split(" "), strict=True)
}

_GREEK_PAIRS = (("μπ", "b"), ("ντ", "d"), ("γκ", "g"), ("ου", "u"), ("τζ", "j"), ("дж", "j"), ("кс", "x"))

_SOUNDS = (
    *(("ph", "f"), ("th", "t"), ("(?:t|s)?ch|s?sh|tz?s|c(?=[eiy])", "s"), ("c?k|c|q", "k"), ("x", "ks")),
    *(("v|w(?=[aeiouy])", "f"), ("b", "p"), ("z", "s"), ("dg|j", "g"), (r"(.)\1+", r"\1")),
    *(("(?<!^)[aeiouyhw]", ""), ("^[aeiouy]+", "a")),
)
"""Spellings of a Latin name → the sound that other scripts keep."""

SAME_MEANING = 0.85
"""Least length of the mean of two unit vectors that mean the same: a cosine of .45."""

MOST_NAMES = 16
"""Missing words that are looked for in another script."""


def latin(word: str) -> str:
    """Return a word in Latin letters, as a name in English would have them."""
    plain = _bare(fold(word))
    for pair, name in _GREEK_PAIRS:
        plain = plain.replace(pair, name)
    return "".join([_LETTERS.get(letter, letter) for letter in plain])


def _plain_name(word: str) -> str:
    """Return a name in Latin letters without what other scripts leave out."""
    return latin(word).replace("ck", "k").replace("h", "").replace("y", "i")


@lru_cache(maxsize=1 << 16)
def sound(word: str) -> str:
    """Return the consonants of a name, alike in all scripts."""
    name = latin(word)
    for pattern, replacement in _SOUNDS:
        name = re.sub(pattern, replacement, name)
    return name


def _same_name(indexes: Sequence[Index], typed: str, terms: Callable[[Index, str], dict[str, int]]) -> str | None:
    """Return the word of the bases that is the same name in another script, or None; `terms` caches terms by letter.

    A word that the packaged model knows must be spelled alike and mean the same.
    """
    bare = _bare(fold(typed.strip(MARKS)))
    own, name, wanted = bare.isascii(), latin(bare), sound(bare)
    if len(bare) < SHORTEST or not (bare.isalpha() if own else _LETTERS.keys() >= set(bare)):
        return None
    if own and known_stems().issuperset(stems(bare)):
        return None
    if not own and packaged_embedder().queries().longest(bare):
        same = packaged_embedder().queries().cohesion((bare, name)) >= SAME_MEANING and any(
            name in _written(text, term)
            for index in indexes
            for term in terms_among(index, stems(name))
            for text in texts_with_term(index, term, TEXTS)
        )
        return name if same else None
    most = len(wanted.lstrip("a")) - 1
    letters = [one for one in (_LETTERS if own else string.ascii_lowercase) if sound(one)[:1] == wanted[:1]]
    near = [
        (slips, -chunks, written)
        for index in indexes
        for letter in letters
        for term, chunks in terms(index, letter).items()
        if abs(len(latin(term)) - len(name)) <= LONGEST_ENDING and wanted.startswith(sound(term))
        for text in texts_with_term(index, term, TEXTS)
        for written in _written(text, term)
        if sound(written) == wanted
        and len(written) >= SHORTEST
        and (slips := distance(_plain_name(bare), _plain_name(written), most)) <= most
        # An everyday word is a name only with a capital letter.
        if not known_stems().issuperset(stems(written)) or (slips < most and written.capitalize() in text)
    ]
    return min(near)[-1] if near else None


def _nearest(indexes: Sequence[Index], word: str, enough: int) -> str | None:
    """Return the nearest word of the bases whose stem occurs in `enough` chunks, or None."""
    (stem,) = stems(word)[:1] or (word,)
    most = _most_slips(word)
    fixed = set(stems(" ".join(_single_slips(word))))
    counted = Counter[str]()
    for index in indexes:
        counted.update(terms_with_prefix(index, stem[:INTACT]) | terms_among(index, fixed))
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


def completed(indexes: Sequence[Index], text: str) -> str:
    """Return a query that is being typed with its last word, if no text has it, completed to the most frequent one.

    It stays as it is if an index cannot be read, which the search itself reports.
    """
    start, space, last = text.rpartition(" ")
    beginning, counted = _bare(fold(last.lower())), Counter[str]()
    if len(beginning) < INTACT - 1 or not beginning.isalpha():
        return text
    with suppress(IndexUnavailable):
        if any(terms_among(one, stems(last.lower())) for one in indexes):
            return text
        for index in indexes:
            counted.update(terms_with_prefix(index, beginning[:INTACT]))
        # A stem may be shorter.
        likely = sorted(counted, key=lambda term: (not term.startswith(beginning), -counted[term]))
        words = (
            word
            for term in likely[:CANDIDATES]
            for index in indexes
            for passage in texts_with_term(index, term, TEXTS)
            for word in sorted(_written(passage, term))
            if _bare(word).startswith(beginning)
        )
        return start + space + next(words, last)
    return text


def _slips(word: str, written: str, stem: str, term: str) -> int:
    """Count the typos between two words, or their stems; too many for a short word that is hardly meant (`CAREFUL`)."""
    most = _most_slips(word)
    slips = distance(word, written, most + 1)
    if slips == most + 1 and distance(stem, term, 1) == 1 and not _careless(stem, term):
        slips = most  # the form that was meant may occur in another chunk
    return most + 1 if _careless(word, written) else slips


def _careless(word: str, written: str) -> bool:
    """Whether a short word differs by an unlikely typo: see `CAREFUL`."""
    if len(word) > CAREFUL:
        return False
    same_letters = sorted(word) == sorted(written)
    return word[0] != written[0] or (len(word) == len(written) and not same_letters) or len(written) < SHORTEST


def _most_slips(word: str) -> int:
    return 2 if len(word) >= TWO_SLIPS else 1


def _single_slips(word: str) -> Iterator[str]:
    """Yield a word with one typo corrected in its first `INTACT` letters."""
    letters = string.ascii_lowercase if word.isascii() else "".join(sorted(set(word)))
    for at in range(INTACT):
        before, after = word[:at], word[at:]
        yield before + after[1:]
        yield before + after[1:2] + after[:1] + after[2:]
        for letter in letters:
            yield before + letter + after
            yield before + letter + after[1:]


def _likely_slips(word: str, stem: str, term: str, most: int) -> float | None:
    """Estimate the typos between a word and a stem of the bases, to rank candidates, or None if there are too many."""
    if len(set(term) - set(word)) > most + 1:  # rules out most; stemming may change one letter (`policy`)
        return None
    estimates: list[float] = [slips for form in (stem, word) if (slips := distance(form, term, most)) <= most]
    if len(term) >= SHORTEST and len(word) - len(term) <= LONGEST_ENDING:
        for end in range(max(len(term) - 1, SHORTEST), min(len(term) + 1, len(word)) + 1):
            slips = distance(word[:end], term, 1)
            estimates += [slips + ENDING_LETTER * (len(word) - end)] if slips <= 1 else []
    return min(estimates, default=None)


def _written(text: str, term: str) -> Iterator[str]:
    """Yield the words of a text with a given stem, in lower case."""
    beginning = term[: min(INTACT, len(term) - 1)]
    text = searchable(text) if text.isascii() else f"{normalise(text)} {searchable(text)}"
    # A search for the beginning takes a tenth of the time of folding every word.
    plain = text.isascii()
    found = re.findall(rf"(?<![a-z]){re.escape(beginning)}[a-z]*", text.lower()) if plain else _WORD.findall(text)
    for word in set(found) if plain else set(map(fold, set(found))):
        if _bare(word).startswith(beginning) and stems(paired(word)) == (term,):
            yield word


def _bare(word: str) -> str:
    """Strip accents, as the index does."""
    if word.isascii():
        return word
    return "".join(letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))
