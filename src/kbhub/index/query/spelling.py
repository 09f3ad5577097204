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
    while left and right and left[0] == right[0]:
        left, right = left[1:], right[1:]
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
    "абвгдеёжзийклмнопрстуфхцчшщъыьэюяіїєґў": "a b v g d e e j z i i k l m n o p r s t u f x c c s s  i  e iu ia i i "
    "e g u",
    "αβγδεζηθικλμνξοπρσςτυφχψω": "a v g d e z i t i k l m n ks o p r s s t i f x ps o",
    "ابتثجحخدذرزسشصضطظعغفقكلمنهويىةءپچژگڤک": "a b t t j x x d z r z s s s d t z a g v k k l m n h w i a   p c j g v k",
    "אבגדהוזחטיכךלמםנןסעפףצץקרשת": "a v g d h w z x t i k k l m m n n s a p p c c k r s t",
    "अआइईउऊऋएऐओऔऑऍािीुूृेैोौॉॅकखगघचछजझटठडढणतथदधनपफबभमयरलवशषसहंँ": "a a i i u u ri e e o o o e a i i u u ri e e o o o e "
    "k k g g c c j j t t d d n t t d d n p f b b m i r l v s s s h n n",
}
"""Letters of Cyrillic, Greek, Arabic, Hebrew and Devanagari → as in a Latin name, after `_CLUSTERS`."""

_LETTERS = {
    letter: latin for script, names in _LATIN.items() for letter, latin in zip(script, names.split(" "), strict=True)
}

_PAIRS = {"μπ": "b", "ντ": "d", "γκ": "g", "ου": "u", "τζ": "j", "дж": "j", "ंब": "mb", "ंह": "ng"}

_CLUSTERS = {
    "ph": "f", "x": "ks", "kh": "x", "zh": "j", "y": "i", "t?s?ch|tz": "c", "sh": "s", "ck|q|c(?![eisz])": "k",
    "(?<=[bdglnrt])h": "",
}  # fmt: skip
"""Spellings of a Latin name → a letter for each sound."""

_CONSONANTS = {"^i+(?=[aeouw])": "j", "^[aeiou]+": "a", "(?<!^)[aeiou]": "", "t[sz]": "c", r"(.)\1+": r"\1"}

_ALIKE = {
    "a": "aj", "b": "bp", "c": "csztkx", "f": "fpv", "g": "gj", "h": "hxkc", "j": "jgza", "k": "kcg", "p": "pf",
    "s": "scz", "t": "tc", "v": "vbfw", "w": "wv", "x": "xhkc", "z": "zsj",
}  # fmt: skip
"""Consonant → what another script may have for it; inside a word, `h` and `w` may also be left out."""

SAME_MEANING = 0.85
"""Least length of the mean of two unit vectors that mean the same: a cosine of .45."""

TELLING = 0.5
"""Least length of the vector of a word that may be a name, relative to the median: `most` has .27."""

MOST_NAMES = 16
"""Missing words that are looked for in another script."""


@lru_cache(maxsize=1 << 16)
def latin(word: str) -> str:
    """Return a name in Latin letters, one for each sound."""
    plain = _bare(fold(word))
    if plain.isascii():
        for spelling, letter in _CLUSTERS.items():
            plain = re.sub(spelling, letter, plain)
    for pair, name in _PAIRS.items():
        plain = plain.replace(pair, name)
    return re.sub(r"(.)\1+", r"\1", "".join([_LETTERS.get(letter, letter) for letter in plain]))


@lru_cache(maxsize=1 << 16)
def sound(word: str) -> str:
    """Return the consonants of a name, and whether it begins with a vowel."""
    name = latin(word)
    for pattern, replacement in _CONSONANTS.items():
        name = re.sub(pattern, replacement, name)
    return name


def _same_name(indexes: Sequence[Index], typed: str, terms: Callable[[Index, str], dict[str, int]]) -> str | None:
    """Return the word of the bases that is the same name in another script, or None; `terms` caches terms by letter."""
    bare = _bare(fold(typed.strip(MARKS)))
    wanted, without_vowels = sound(bare), bool(re.match("[\u0590-\u06ff]", bare))
    own = bare.isascii() and bare.isalpha() and not known_stems().issuperset(stems(bare))
    if not SHORTEST - without_vowels <= len(bare) <= LONGEST or not (own or _LETTERS.keys() >= set(bare)):
        return None
    most = 1 if without_vowels else len(wanted.lstrip("a")) - 1
    spelt = (lambda word: re.sub("[hwx]", "", sound(word))) if without_vowels else latin
    alike = [f"[{_ALIKE.get(one, one)}]{'?+' if at and one in 'hw' else ''}" for at, one in enumerate(wanted)]
    parts = [f"{'[hw]?+' if at and wanted[at] not in 'hx' else ''}{one}" for at, one in enumerate(alike)]
    whole, beginning = "".join(parts) + "[hw]?+", "(?:".join(parts) + ")?+" * (len(parts) - 1) + "[hw]?+"
    near = [
        (not named, slips, -chunks, written)
        for index in indexes
        for letter in (_LETTERS if own else string.ascii_lowercase)
        if re.fullmatch(beginning, sound(letter))
        for term, chunks in terms(index, letter).items()
        if abs(len(latin(term)) - len(latin(bare))) <= LONGEST_ENDING and re.fullmatch(beginning, sound(term))
        for text in texts_with_term(index, term, TEXTS)
        for written in _written(text, term)
        if len(written) >= SHORTEST and re.fullmatch(whole, sound(written))
        if (slips := distance(spelt(bare), spelt(written), most)) <= most
        for named in [written.capitalize() in text and not typed.islower()]
        if _is_name(bare, written, named=named, only=written not in text, exact=not slips)
    ]
    return min(near)[-1] if near else None


def _is_name(bare: str, written: str, *, named: bool, only: bool, exact: bool) -> bool:
    """Return whether a word that sounds like a typed one is the same name; `named` if both are written as names."""
    model = packaged_embedder().queries()
    known = not bare.isascii() and model.longest(bare) > 0
    if known and model.cohesion((bare, written)) >= SAME_MEANING:
        return True
    everyday = known_stems().issuperset(stems(written))
    return (named and only and model.longest(written) >= TELLING) if everyday else named or (exact and not known)


def _nearest(indexes: Sequence[Index], word: str, enough: int) -> str | None:
    """Return the nearest word of the bases whose stem occurs in `enough` chunks, or None."""
    (stem,) = stems(word)[:1] or (word,)
    most = 2 if len(word) >= TWO_SLIPS else 1
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
    most = 2 if len(word) >= TWO_SLIPS else 1
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
