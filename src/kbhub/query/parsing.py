"""User text → what it asks for: terms, exclusions, filters. Total on any string.

- `word`: a term; what FTS5 sees in one word (`NO_COLOR`, `/api/v1`, `--no-track`, `don't`) is a phrase.
- `"some words"`: a phrase, searched for as it stands.
- `-word`, `-"some words"`: documents that have it are left out.
- `key:value`: a filter, see `filtering`; `-key:value` turns it round.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from kbhub.query.filtering import ALWAYS, FILTER, Filter, joined, read_filter
from kbhub.query.stopwords import STOP_WORDS
from kbhub.query.tokens import RUN, cased_parts, normalise, paired, pairs, stems, tokens
from kbhub.values import record, struct

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_TERMS = 64
"""Distinct terms of a query that are looked up; a pasted page would otherwise cost a look-up per word. As many
exclusions and filters count."""

MAX_CHARACTERS = 20_000
"""Characters of a query that are read: ten pages. Each takes up to a kilobyte while it is parsed (apsw's tokens)."""

FLAG_LETTERS = 2
"""Letters after a dash that are flags of a command (`-m`, `-rf`) and exclude nothing: hiding what was asked for is
worse than showing what was not."""

_PIECE = re.compile(
    rf'(?<!\S)(?P<filter>(?P<dash>-?){FILTER})|(?<!\S)-"(?P<no_phrase>[^"]*)"|"(?P<phrase>[^"]*)"|(?P<word>\S+)'
)
_EXCLUSION = re.compile(r"-([^\W\d_].*)", re.DOTALL)
_PUNCTUATION = ".,;:!?()'\""


@struct
class Term:
    """A searchable word or phrase of a query."""

    text: str
    """As the user wrote it."""
    match: str
    """The FTS5 expression that finds it: one phrase or prefix, so that one term is one FTS5 phrase."""
    tokens: tuple[str, ...]
    """Its stems; two terms with the same are one."""
    quoted: bool = False
    """Whether it stood in quotes, and so is meant as it stands."""
    apart: Term | None = None
    """Of an identifier in mixed case (`maxRetries`), the phrase of its words, which finds `max_retries` too."""

    @property
    def plain(self) -> bool:
        """Whether it is one token, as it is in the index, and not the beginning of one."""
        return len(self.tokens) == 1 and not self.match.endswith(" *")

    def words(self) -> tuple[Term, ...]:
        """Give the single words of a phrase, for when the phrase itself occurs nowhere; at most `MAX_TERMS`."""
        found: dict[str, Term] = {}
        for word, token in self._split():
            found.setdefault(token, Term(word, _quoted(word), (token,), self.quoted, _apart(word)))
        return tuple(found.values())[:MAX_TERMS]

    def spread(self) -> str:
        """Give its words so that they are read as one term and as nothing else, whatever stands around them."""
        return "".join(f"/{word}" for word, _ in self._split())

    def _split(self) -> list[tuple[str, str]]:
        raw = self.match.removesuffix(" *")[1:-1].replace('""', '"').encode("utf-8", "replace")
        return [(raw[start:end].decode("utf-8", "replace"), token) for start, end, token in tokens(raw)]


@struct
class ParsedQuery:
    """What a query asks for."""

    terms: tuple[Term, ...]
    left_out: int = 0
    """Distinct terms beyond `MAX_TERMS` that are not looked up."""
    unread: int = 0
    """Characters after the first `MAX_CHARACTERS`, which are not read."""
    excluded: tuple[Term, ...] = ()
    """What a document must not have."""
    filters: tuple[Filter, ...] = ()
    """What a document must fulfil, all of it."""
    keys: frozenset[str] = frozenset()
    """Keys of words that would be filters if a document had such a key (`status:draft`) and are text here: ask the
    indexes which of them there are, and parse again with those."""
    text: str = ""
    """The query without filters, exclusions and quotes, with its stop words: what has a meaning to compare."""

    def __str__(self) -> str:
        """Give a query that asks for the same: what was understood, in the words of the language."""
        words = [_written(term, self.keys) for term in self.terms]
        return " ".join([*words, *(f'-"{term.text}"' for term in self.excluded), *map(str, self.filters)])


@record
class _Found:
    """What was read so far."""

    known: frozenset[str]
    terms: dict[tuple[str, ...], Term] = field(default_factory=dict)
    fallback: dict[tuple[str, ...], Term] = field(default_factory=dict)
    excluded: dict[tuple[str, ...], Term] = field(default_factory=dict)
    filters: dict[Filter, None] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    text: list[str] = field(default_factory=list)

    def read(self, piece: re.Match[str]) -> None:
        """Take in one piece of a query."""
        if piece["filter"] and self._filter(piece["key"], piece["values"], excluded=bool(piece["dash"])):
            return
        if piece["no_phrase"] is not None:
            self.exclude(piece["no_phrase"], quoted=True)
        elif piece["phrase"] is not None:
            self.text.append(piece["phrase"])
            self.add(_terms(piece["phrase"], phrase=True))
        elif (piece.start() == 0 or piece.string[piece.start() - 1].isspace()) and (word := _excluded(piece.group())):
            self.exclude(word, quoted=False)
        else:
            self.word(piece.group())

    def word(self, text: str) -> None:
        """Add the terms of a word."""
        self.text.append(text)
        for term in _terms(text, phrase=False):
            self.add([term], stop=term.text.strip(_PUNCTUATION).lower() in STOP_WORDS)

    def add(self, terms: Iterable[Term], *, stop: bool = False) -> None:
        """Add terms; one that is there already may become a quoted one."""
        into = self.fallback if stop else self.terms
        for term in terms:
            kept = into.setdefault(term.tokens, term)
            if term.quoted and not kept.quoted:
                into[term.tokens] = replace(kept, quoted=True)

    def exclude(self, text: str, *, quoted: bool) -> None:
        """Add an exclusion, as a phrase."""
        for term in _terms(text.replace('"', " "), phrase=True):
            self.excluded.setdefault(term.tokens, replace(term, quoted=quoted))

    def include_excluded(self) -> None:
        """Look for what was to be left out, for there is nothing else to look for."""
        for term in self.excluded.values():
            if term.quoted:
                self.text.append(term.text)
                self.add([term])
            else:
                self.word(term.text)
        self.excluded = {}

    def _filter(self, key: str, values: str, *, excluded: bool) -> bool:
        """Take a word as a filter if it is one."""
        made = read_filter(key, values, excluded=excluded) if len(self.filters) < MAX_TERMS else None
        if made is None:
            return False
        if made.key not in ALWAYS and made.key not in self.known:
            self.keys.add(made.key)
            return False
        self.filters[made] = None
        return True


def parse_query(text: str, known: frozenset[str] = frozenset()) -> ParsedQuery:
    """Understand any string as a query.

    Runs of Han and Kana become pairs of characters. Stop words are dropped unless nothing else is left or they stand
    in quotes. A query that is nothing but exclusions is searched for as it stands.

    Args:
        text: any string; operators of FTS5 in it are plain text. Of a long one the beginning is read.
        known: keys of the front matter that make a filter of `key:value`, of those that the same query without
            them names as `keys`; folded.

    Returns:
        Distinct terms, exclusions and filters in the order of the text.
    """
    read = beginning(text)
    return _understood(read, len(text) - len(read), known)


def parsed(text: str, known: frozenset[str] = frozenset()) -> ParsedQuery:
    """Give `parse_query(text, known)`, remembered: a query is parsed to search, to excerpt and to highlight."""
    read = beginning(text)
    return _remembered(read, len(text) - len(read), known)


def beginning(text: str) -> str:
    """Give the part of a query that is read: at most `MAX_CHARACTERS`, and no half word if it has a whole one."""
    if len(text) <= MAX_CHARACTERS:
        return text
    cut = text[:MAX_CHARACTERS]
    words = cut if text[MAX_CHARACTERS].isspace() else cut.rpartition(cut.split()[-1])[0] if cut.strip() else ""
    return words if words.strip() else cut


def _understood(text: str, unread: int, known: frozenset[str]) -> ParsedQuery:
    found = _Found(known)
    for piece in _PIECE.finditer(normalise(text)):
        found.read(piece)
    if found.excluded and not (found.terms or found.fallback or found.filters):
        found.include_excluded()
    terms = tuple((found.terms or found.fallback).values())
    return ParsedQuery(
        terms[:MAX_TERMS],
        max(0, len(terms) - MAX_TERMS),
        unread,
        tuple(found.excluded.values())[:MAX_TERMS],
        joined(found.filters),
        frozenset(found.keys),
        " ".join(found.text),
    )


_remembered = lru_cache(maxsize=64)(_understood)


def terms_of(words: Iterable[str]) -> tuple[Term, ...]:
    """Give the terms of words that were looked for, to highlight them.

    Args:
        words: the texts of terms; what would be a filter or an exclusion in a query is a word here.
    """
    return tuple(term for word in words for term in _terms(word.replace('"', " "), phrase=True))


def _excluded(word: str) -> str | None:
    """Give what a word that stands by itself excludes, none if it is text."""
    found = _EXCLUSION.fullmatch(word)
    if found is None or "=" in word or (len(found[1]) <= FLAG_LETTERS and word.isascii()):
        return None
    return found[1]


def _terms(text: str, *, phrase: bool) -> list[Term]:
    """Make the terms of one piece of a query: one per Latin part, one per pair of Han or Kana."""
    if phrase:
        words, rest = _open_end(text)
        found = stems(words)
        return [Term(text, _quoted(words) + rest, found, quoted=True)] if found else []
    made: list[Term] = []
    at = 0
    for run in [*RUN.finditer(text), None]:
        plain = text[at : run.start() if run else len(text)]
        if found := stems(plain):
            apart = _apart(plain) if len(found) == 1 else None
            made.append(Term(plain.strip(), _quoted(plain), found, apart=apart))
        if run is None:
            break
        at = run.end()
        characters = run.group()
        if len(characters) == 1:
            made.append(Term(characters, f"{_quoted(characters)} *", (characters,)))
        made += [Term(pair, _quoted(pair), (pair,)) for pair in pairs(characters)]
    return made


def _apart(text: str) -> Term | None:
    """Give the phrase of the words of an identifier in mixed case, none if it is not one."""
    word = text.strip("".join({character for character in text if not character.isalnum()}))
    parts = " ".join(cased_parts(word))
    return Term(text.strip(), _quoted(parts), stems(parts)) if parts else None


def _open_end(text: str) -> tuple[str, str]:
    """Give the form of a phrase in the index and what makes it a prefix: a run at its end may go on in the text."""
    words, end = paired(text).rstrip(), text.rstrip()[-2:]
    if not RUN.fullmatch(end[-1:]):
        return words, ""
    return (words[:-1].rstrip(), "") if RUN.fullmatch(end) and len(end) == 2 else (words, " *")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _written(term: Term, keys: frozenset[str]) -> str:
    """Give a term so that it is read as the same one, whatever stands around it."""
    if term.quoted:
        return f'"{term.text}"'
    again = parse_query(term.text)
    same = [(one.tokens, one.quoted) for one in again.terms] == [(term.tokens, False)]
    text = not again.filters and again.keys <= keys and _excluded(term.text) is None
    return term.text if same and text and not re.search(r'["\s]', term.text) else term.spread()
