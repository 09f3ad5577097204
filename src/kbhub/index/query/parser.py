"""Text as the index has it, and the parser of a query into terms, exclusions and filters, which accepts any string.

- `word`: a term; if FTS5 splits it (`NO_COLOR`, `/api/v1`, `--no-track`, `don't`), a phrase.
- `"some words"`: a phrase, searched for verbatim.
- `-word`, `-"some words"`: exclude documents with it.
- `key:value`: a filter, see `filters`; `-key:value` negates it.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import field, replace
from functools import cache, lru_cache
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any, Literal, cast

import apsw

from kbhub.models.embedding import PACKAGED_MODEL
from kbhub.values import struct

_ENGLISH = """
    a about an and any are as at be been but by can could did do does for from had has have how i if in into is it its
    me my no not of on or our should so some such than that the their them then there these they this those to was we
    were what when where which who why will with would you your
"""

STOP_WORDS = frozenset(_ENGLISH.split())
"""English function words, dropped from a query unless nothing else is in it. German, French and Spanish share few of
these spellings, and there they are function words as well (`so`, `on`, `me`)."""

_HAN_KANA = r"\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
"""Scripts without spaces, better searched by pairs of characters than by whole runs (.64 against .22 hit@1 on Japanese
sentences, .69 against .43 on Chinese ones). Hangul is better searched by words."""

_THAI = r"\u0e01-\u0e3a\u0e40-\u0e4e"

THAI_MARKS = "".join(map(chr, (0x0E31, *range(0x0E34, 0x0E3B), *range(0x0E47, 0x0E4F))))
"""Vowels and tones above and below letters, at which the tokenizer would end a word."""

RUN = re.compile(f"[{_HAN_KANA}]+")

UNSPACED = re.compile(f"[{_HAN_KANA}]+|[{_THAI}]+")

RUNS = 4_096
"""Runs of Thai whose words are cached."""

LONGEST_WORD = 8
"""Letters of the longest word in the list of Thai words; most longer ones are compounds."""

_FOREIGN = re.compile(rf"(?P<thai>[{_THAI}]+)|[\u0591-\u05f4\u0600-\u06ff]+")

_ARABIC = str.maketrans("ىة", "يه", "ـ")

_AFFIXES = re.compile(r"\b(?:[وف]?(?:[بك]?ال|لل)|و)(?=\w{3})|(?<=\w{3})(?:ها|ان|ات|ون|ين|يه|[هي])\b")
"""Articles with conjunctions and prepositions, and ends of plurals and pronouns (Larkey, Ballesteros, Connell: "Light
Stemming for Arabic Information Retrieval", 2007)."""

TOKENIZER = ("porter", "unicode61", "remove_diacritics", "2", "tokenchars", THAI_MARKS)
"""FTS5 tokenizer of the index and of queries: Unicode words, accents folded, English stems, words of Thai whole."""

MAX_CASED = 64
"""Most letters of a mixed-case word that is split; identifiers are shorter, encoded data is longer."""

MAX_PARTS = 8

_CASED = re.compile(r"[A-Z]*+[a-z0-9]++[A-Z][A-Za-z0-9]*+|[A-Z]{2,}+[a-z][A-Za-z0-9]*+")
"""Words with an upper-case letter after a lower-case one, or a lower-case letter after two upper-case ones."""

_LETTERS = {**dict.fromkeys(ascii_uppercase, "A"), **dict.fromkeys(ascii_lowercase, "a"), **dict.fromkeys(digits, "0")}
_KINDS = "".join(_LETTERS.get(chr(code), " ") for code in range(256)).encode()
"""Character class of each byte for `_CASED`. Searching a text of these for `_TURNS` takes a quarter of the time."""

_TURNS = (b"aA", b"0A", b"AAa")

_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![A-Za-z]))[a-z])")
"""Boundary between parts of such a word; a plural acronym (`APIs`) is one part."""


class _Tokenizer(threading.local):
    """FTS5's tokenizer, which belongs to a connection, and that to one thread."""

    def __init__(self) -> None:
        self._connection = apsw.Connection(":memory:")
        self.run: Callable[..., Any] = self._connection.fts5_tokenizer(TOKENIZER[0], list(TOKENIZER[1:]))


_tokenizer = _Tokenizer()


def pairs(run: str) -> list[str]:
    """Return the overlapping character pairs of a run."""
    return [run[at : at + 2] for at in range(len(run) - 1)]


def words_apart(text: str) -> str:
    """Return a text with spaces between words of Thai, and Arabic and Hebrew without vowel signs and affixes."""
    return text if text.isascii() else _FOREIGN.sub(_folded, text)


@lru_cache(maxsize=RUNS)
def thai_words(run: str) -> tuple[str, ...]:
    """Return the longest known words of a run of Thai, from left to right, and what is between them."""
    known, found = _known(), list[str]()
    at = begin = 0
    while at < len(run):
        ends = range(min(len(run), at + LONGEST_WORD), at + 1, -1)
        if end := next((end for end in ends if run[at:end] in known), 0):
            found += [run[begin:at], run[at:end]]
            begin = end
        at = end or at + 1
    return tuple(filter(None, [*found, run[begin:]]))


@cache
def _known() -> frozenset[str]:
    return frozenset((PACKAGED_MODEL / "thai.txt").read_text("utf-8").split())


def _folded(run: re.Match[str]) -> str:
    if run["thai"]:
        return f" {' '.join(thai_words(run[0]))} "
    letters = unicodedata.normalize("NFKD", run[0]).translate(_ARABIC)
    before, plain = "", "".join(letter for letter in letters if not unicodedata.combining(letter))
    while plain != before:
        before, plain = plain, _AFFIXES.sub("", plain)
    return plain


def searchable(text: str) -> str:
    """Return the form of a text that is indexed: `paired`, and the parts of words such as `maxRetries` appended, once.

    There they break no phrase and add little to the length.
    """
    plain = paired(text)
    if not plain or plain.islower():
        return plain
    parts = dict[str, str]()
    for _, word in cased_words(plain):
        parts[word.casefold()] = " ".join(cased_parts(word))
    return " ".join([plain, *filter(None, parts.values())])


def paired(text: str) -> str:
    """Return a text with its words as in the index: runs of Han and Kana become overlapping pairs.

    The last character of a run is also a token, so that a prefix query of one character finds it anywhere in a run.
    """
    plain = normalise(text)
    if plain.isascii():
        return plain
    return RUN.sub(lambda run: f" {' '.join([*pairs(run.group()), run.group()[-1]])} ", words_apart(plain))


def cased_words(text: str) -> list[tuple[int, str]]:
    """Return (start, word) of words that may be mixed-case identifiers, in order."""
    kinds = text.encode("ascii", "replace").translate(_KINDS)
    words: dict[int, str] = {}
    for turn in _TURNS:
        at = kinds.find(turn)
        while at >= 0:
            start, end = kinds.rfind(b" ", 0, at) + 1, kinds.find(b" ", at)
            end = len(kinds) if end < 0 else end
            words[start] = text[start:end]
            at = kinds.find(turn, end)
    return sorted(words.items())


def cased_parts(word: str) -> tuple[str, ...]:
    """Split a mixed-case identifier into words (`maxRetries` → `max`, `Retries`); empty if it is one word.

    A single letter belongs to the next part (`iPhone`, `OAuth`) or, at the end, to the previous one.
    """
    if len(word) > MAX_CASED or not _CASED.fullmatch(word):
        return ()
    parts: list[str] = []
    for part in _BOUNDARY.split(word):
        if parts and len(parts[-1]) == 1:
            parts[-1] += part
        else:
            parts.append(part)
    if len(parts[-1]) == 1:
        parts[-2:] = ["".join(parts[-2:])]
    return tuple(parts) if 1 < len(parts) <= MAX_PARTS else ()


def normalise(text: str) -> str:
    """Fold compatibility forms (full-width letters, half-width Kana, ligatures) and drop NUL, at which SQLite stops."""
    if text.isascii():
        return text.replace("\0", " ")
    return unicodedata.normalize("NFKC", text).replace("\0", " ").encode("utf-8", "replace").decode("utf-8")


def fold(text: str) -> str:
    """Return a normal form for comparing values: compatibility forms and case folded, trimmed."""
    return normalise(normalise(text).casefold()).strip()


def stems(text: str) -> tuple[str, ...]:
    """Return the FTS5 tokens of a text, in order."""
    raw = text.encode("utf-8", "replace")
    options = {"include_offsets": False, "include_colocated": False}
    return tuple(_tokenizer.run(raw, apsw.FTS5_TOKENIZE_DOCUMENT, None, **options))


def tokens(raw: bytes) -> list[tuple[int, int, str]]:
    """Return (start, end, stem) of each token, offsets in bytes."""
    return list(_tokenizer.run(raw, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False))


ALWAYS = frozenset({"tag", "path", "base", "kind", "age"})
"""Keys that always make a filter; others only if a document has the key."""

SYNONYMS = {"tags": "tag"}

SINGLE = frozenset({"base", "kind"})
"""Keys with exactly one value per document: two such filters are joined as alternatives, since both can never match."""

ANY = "*"
"""The value that matches every document with the key."""

DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
"""Days per unit of an age; a year is the age from which a document counts as stale."""

MOST_VALUES = 64
"""Most values of a filter; a word with more is treated as text."""

MOST_DIGITS = 300
"""Most digits of a number; longer ones do not fit a float and are text."""

Operator = Literal["=", ">", ">=", "<", "<=", ".."]

_KEY = r"[^\W\d_][\w.-]*+"
_QUOTED_OR_BARE = r'(?:"[^"]*"|[^\s",]+)'
_VALUE = rf"(?:[<>]=?)?{_QUOTED_OR_BARE}"
FILTER = rf"(?P<key>{_KEY}):(?!//|:|\\)(?P<values>{_VALUE}(?:,{_VALUE})*+,?)(?!\S)"
"""Syntax of a filter; excludes `http://…`, `std::…` and `C:\\…`."""

_PART = re.compile(rf"([<>]=?)?({_QUOTED_OR_BARE})")
_PLAIN = re.compile(r"[\w/#*?@+-][\w./#*?\[\]@+-]*")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?")
_DATE = re.compile(r"\d{4}(?:-\d\d(?:-\d\d(?:[t ]\d\d(?::\d\d(?::\d\d)?)?)?)?)?")
_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([dwmy])?")


@struct
class FilterValue:
    """One value of a filter."""

    text: str
    """As written, without quotes and operator; for a range, its lower end (may be empty)."""
    operator: Operator = "="
    upper: str = ""

    def __str__(self) -> str:
        """Return the value in query syntax."""
        if self.operator == "..":
            return f"{self.text}..{self.upper}"
        bare = self.text if _PLAIN.fullmatch(self.text) and ".." not in self.text else f'"{self.text}"'
        return bare if self.operator == "=" else self.operator + bare


@struct
class Filter:
    """A condition on documents."""

    key: str
    """Folded; `tag`, `path`, `base`, `kind`, `age`, or a key of the front matter (`a.b` of a nested one)."""
    values: tuple[FilterValue, ...]
    """Alternatives, any of which must match."""
    excluded: bool = False

    def __str__(self) -> str:
        """Return the filter in query syntax."""
        return f"{'-' if self.excluded else ''}{self.key}:{','.join(map(str, self.values))}"


def read_filter(key: str, values: str, *, excluded: bool = False) -> Filter | None:
    """Parse a filter from the texts on both sides of the colon; None if the value is empty or an invalid age."""
    name = fold(key)
    name = SYNONYMS.get(name, name)
    options = dict.fromkeys(_value(name, part[1] or "", part[2]) for part in _PART.finditer(values))
    non_empty = [value for value in options if value.upper or value.text.strip(" /#")]
    # Case folding may turn letters into other characters.
    if not non_empty or len(options) > MOST_VALUES or not re.fullmatch(_KEY, name):
        return None
    if name == "age" and not all(_is_comparable(name, option) for option in options):
        return None
    return Filter(name, tuple(non_empty), excluded)


def number_of(text: str) -> float | None:
    """Return a value as a number, or None if it is not one."""
    return float(text) if len(text) <= MOST_DIGITS and _NUMBER.fullmatch(text.casefold()) else None


def date_of(text: str) -> str | None:
    """Return a value as the beginning of an ISO date (`2024`, `2024-05`), or None if it is not one."""
    folded = fold(text)
    return folded.replace(" ", "t") if _DATE.fullmatch(folded) else None


def days_of(text: str) -> float | None:
    """Return the days of an age such as `30d`, `2w`, `6m` (months of 30 days), `1y`, or None if it is not one."""
    match = _AGE.fullmatch(fold(text))
    return float(match[1]) * DAYS[match[2] or "d"] if match else None


def _value(key: str, operator: str, written: str) -> FilterValue:
    quoted = written.startswith('"')
    text = written.strip('"') if quoted else written
    if key in ALWAYS and key != "age":
        return FilterValue(operator + text)
    if not quoted and not operator and ".." in text:
        lower, _, upper = text.partition("..")
        value = FilterValue(lower, "..", upper)
        if _is_comparable(key, value):
            return value
    if operator and _is_comparable(key, FilterValue(text)):
        return FilterValue(text, cast("Operator", operator))
    return FilterValue(operator + text)


def _is_comparable(key: str, value: FilterValue) -> bool:
    """Return whether a value, or each end of a range, is an age or, for other keys than `age`, a number or a date."""
    ends = [end for end in (value.text, value.upper) if end] if value.operator == ".." else [value.text]
    readers: tuple[Callable[[str], object], ...] = (days_of,) if key == "age" else (number_of, date_of)
    return bool(ends) and all(any(read(end) is not None for read in readers) for end in ends)


MAX_TERMS = 64
"""Most distinct terms that are looked up, so that a pasted page does not cost a lookup per word; the same limit applies
to exclusions and to filters."""

MAX_CHARACTERS = 20_000
"""Most characters of a query that are read: ten pages. Each takes up to a kilobyte while parsing (apsw's tokens)."""

FLAG_LETTERS = 2
"""Letters after a dash that are command flags (`-m`, `-rf`) rather than an exclusion: hiding what was asked for is
worse than showing too much."""

_PIECE = re.compile(
    rf'(?<!\S)(?P<filter>(?P<dash>-?){FILTER})|(?<!\S)-"(?P<no_phrase>[^"]*)"|"(?P<phrase>[^"]*)"|(?P<word>\S+)'
)
_EXCLUSION = re.compile(r"-([^\W\d_].*)", re.DOTALL)
_DASH = re.compile(r"(?<!\S)-")
_OUTER_MARKS = re.compile(r"^[\W_]+|[\W_]+$")
MARKS = ".,;:!?()[]'\"¿¡«»“”„‘’…"
"""Marks around a word in a sentence."""


@struct
class Term:
    """A searchable word or phrase of a query."""

    text: str
    """As typed."""
    match: str
    """The FTS5 expression: one phrase or prefix, so that one term is one FTS5 phrase."""
    tokens: tuple[str, ...]
    """Stems; two terms with the same stems are one."""
    quoted: bool = False
    """Whether it was quoted, and so is meant verbatim."""
    apart: Term | None = None
    """For a mixed-case identifier (`maxRetries`), the phrase of its words, which also finds `max_retries`."""

    @property
    def plain(self) -> bool:
        """Whether it is exactly one index token, not a prefix."""
        return len(self.tokens) == 1 and not self.match.endswith(" *")

    def words(self) -> tuple[Term, ...]:
        """Return the single words of a phrase, as a fallback if the phrase occurs nowhere; at most `MAX_TERMS`."""
        raw = self.match.removesuffix(" *")[1:-1].replace('""', '"').encode("utf-8", "replace")
        terms: dict[str, Term] = {}
        for start, end, token in tokens(raw):
            word = raw[start:end].decode("utf-8", "replace")
            terms.setdefault(token, Term(word, _quoted(word), (token,), self.quoted, _apart(word)))
        return tuple(terms.values())[:MAX_TERMS]


@struct
class ParsedQuery:
    """A parsed query."""

    terms: tuple[Term, ...]
    left_out: int = 0
    """Number of distinct terms beyond `MAX_TERMS`, which are not looked up."""
    unread: int = 0
    """Number of characters beyond `MAX_CHARACTERS`, which are not read."""
    excluded: tuple[Term, ...] = ()
    filters: tuple[Filter, ...] = ()
    keys: frozenset[str] = frozenset()
    """Keys of words that would be filters if a document had such a key (`status:draft`) and are text here: look them up
    in the indexes and parse again with those found."""
    text: str = ""
    """The query without filters, exclusions and quotes, but with stop words: the text to embed."""


@struct(frozen=False)
class _Found:
    """The parts parsed so far."""

    known: frozenset[str]
    terms: dict[tuple[str, ...], Term] = field(default_factory=dict)
    fallback: dict[tuple[str, ...], Term] = field(default_factory=dict)
    excluded: dict[tuple[str, ...], Term] = field(default_factory=dict)
    filters: dict[Filter, None] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    text: list[str] = field(default_factory=list)

    def read(self, piece: re.Match[str]) -> None:
        """Process one piece of a query."""
        if piece["filter"] and len(self.filters) < MAX_TERMS:
            found = read_filter(piece["key"], piece["values"], excluded=bool(piece["dash"]))
            if found and (found.key in ALWAYS or found.key in self.known):
                self.filters[found] = None
                return
            self.keys |= {found.key} if found else set()
        word = piece.group()
        if piece["no_phrase"] is not None:
            self.exclude(piece["no_phrase"], quoted=True)
        elif piece["phrase"] is not None:
            self.text.append(piece["phrase"])
            self.add(_terms(piece["phrase"], phrase=True))
        elif (
            (piece.start() == 0 or piece.string[piece.start() - 1].isspace())
            and (match := _EXCLUSION.fullmatch(word))
            and "=" not in word
            and not (len(match[1]) <= FLAG_LETTERS and word.isascii())
        ):
            self.exclude(match[1], quoted=False)
        else:
            self.text.append(word)
            for term in _terms(word, phrase=False):
                self.add([term], stop=term.text.strip(MARKS).lower() in STOP_WORDS)

    def add(self, terms: Iterable[Term], *, stop: bool = False) -> None:
        """Add terms; an existing one may become quoted."""
        into = self.fallback if stop else self.terms
        for term in terms:
            kept = into.setdefault(term.tokens, term)
            if term.quoted and not kept.quoted:
                into[term.tokens] = replace(kept, quoted=True)

    def exclude(self, text: str, *, quoted: bool) -> None:
        """Add an exclusion, as a phrase."""
        for term in _terms(text.replace('"', " "), phrase=True):
            self.excluded.setdefault(term.tokens, replace(term, quoted=quoted))


def plain_words(text: str) -> str:
    """Strip quotes, leading dashes and colons, so that a text is not parsed as phrases, exclusions or filters."""
    words = (word.lstrip("-") for word in normalise(text).replace('"', " ").replace(":", " ").split())
    return " ".join(word for word in words if word)


def parse_query(text: str, known: frozenset[str] = frozenset()) -> ParsedQuery:
    """Parse any string as a query: distinct terms, exclusions and filters in the order of the text. Cached.

    Stop words are dropped unless quoted or alone. A query of nothing but exclusions is searched for as plain text.
    FTS5 operators are plain text. `known` are the folded front-matter keys that make `key:value` a filter, from the
    `keys` of the same query parsed without them.
    """
    read = beginning(text)
    return _understood(read, len(text) - len(read), known)


def beginning(text: str) -> str:
    """Return the part of a query that is read: at most `MAX_CHARACTERS`, cut between words if possible."""
    if len(text) <= MAX_CHARACTERS:
        return text
    cut = text[:MAX_CHARACTERS]
    words = cut if text[MAX_CHARACTERS].isspace() else cut.rpartition(cut.split()[-1])[0] if cut.strip() else ""
    return words if words.strip() else cut


@lru_cache(maxsize=64)
def _understood(text: str, unread: int, known: frozenset[str]) -> ParsedQuery:
    found = _Found(known)
    for piece in _PIECE.finditer(normalise(text)):
        found.read(piece)
    if found.excluded and not (found.terms or found.fallback or found.filters):
        return _understood(_DASH.sub("", normalise(text)), unread, known)  # searched for, as there is nothing else
    terms = tuple((found.terms or found.fallback).values())
    filters: dict[object, Filter] = {}
    for one in found.filters:
        key = one.key if one.key in SINGLE and not one.excluded else one
        values = filters.get(key, one).values + one.values
        filters[key] = replace(one, values=tuple(dict.fromkeys(values)))
    return ParsedQuery(
        terms[:MAX_TERMS],
        max(0, len(terms) - MAX_TERMS),
        unread,
        tuple(found.excluded.values())[:MAX_TERMS],
        tuple(filters.values()),
        frozenset(found.keys),
        " ".join(found.text),
    )


def terms_of(words: Iterable[str]) -> tuple[Term, ...]:
    """Return terms of words to highlight; filters and exclusions are treated as plain words."""
    return tuple(term for word in words for term in _terms(word.replace('"', " "), phrase=True))


def _terms(text: str, *, phrase: bool) -> list[Term]:
    """Make the terms of one piece of a query: one per Latin part, word of Thai, and pair of Han or Kana."""
    if phrase:
        # A run at the end of a phrase may continue in the text.
        words, end, rest = paired(text).rstrip(), text.rstrip()[-2:], ""
        if RUN.fullmatch(end) and len(end) == 2:
            words = words[:-1].rstrip()
        elif RUN.fullmatch(end[-1:]):
            rest = " *"
        word_stems = stems(words)
        return [Term(text, _quoted(words) + rest, word_stems, quoted=True)] if word_stems else []
    terms: list[Term] = []
    at = 0
    for run in [*UNSPACED.finditer(text), None]:
        plain = text[at : run.start() if run else len(text)]
        if found := stems(words := words_apart(plain)):
            apart = _apart(plain) if len(found) == 1 else None
            terms.append(Term(plain.strip(), _quoted(words), found, apart=apart))
        if run is None:
            break
        at = run.end()
        characters = run.group()
        if not RUN.match(characters):
            terms += [Term(word, _quoted(word), (word,)) for word in thai_words(characters)]
            continue
        if len(characters) == 1:
            terms.append(Term(characters, f"{_quoted(characters)} *", (characters,)))
        terms += [Term(pair, _quoted(pair), (pair,)) for pair in pairs(characters)]
    return terms


def _apart(text: str) -> Term | None:
    """Return the phrase of the words of a mixed-case identifier, or None if it is not one."""
    parts = " ".join(cased_parts(_OUTER_MARKS.sub("", text)))
    return Term(text.strip(), _quoted(parts), stems(parts)) if parts else None


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
