"""Tokens of the index: normalisation, the tokenizer, case folding, and function words."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any

import apsw

_ENGLISH = """
    a about an and any are as at be been but by can could did do does for from had has have how i if in into is it its
    me my no not of on or our should so some such than that the their them then there these they this those to was we
    were what when where which who why will with would you your
"""

STOP_WORDS = frozenset(_ENGLISH.split())
"""English function words, dropped from a query unless nothing else is in it. German, French and Spanish share few of
these spellings, and there they are function words as well (`so`, `on`, `me`)."""

TOKENIZER = ("porter", "unicode61", "remove_diacritics", "2")
"""FTS5 tokenizer of the index and of queries: Unicode words, accents folded, English stems."""

HAN_KANA = r"\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
"""Scripts without spaces, better searched by pairs of characters than by whole runs (.64 against .22 hit@1 on Japanese
sentences, .69 against .43 on Chinese ones). Hangul and Thai are better searched by words."""

RUN = re.compile(f"[{HAN_KANA}]+")

MAX_CASED = 64
"""Most letters of a mixed-case word that is split; identifiers are shorter, encoded data is longer."""

MAX_PARTS = 8
"""Most parts of such a word; more are encoded data."""

_CASED = re.compile(r"[A-Z]*+[a-z0-9]++[A-Z][A-Za-z0-9]*+|[A-Z]{2,}+[a-z][A-Za-z0-9]*+")
"""Words with an upper-case letter after a lower-case one, or a lower-case letter after two upper-case ones."""

_LETTERS = {**dict.fromkeys(ascii_uppercase, "A"), **dict.fromkeys(ascii_lowercase, "a"), **dict.fromkeys(digits, "0")}
_KINDS = "".join(_LETTERS.get(chr(code), " ") for code in range(256)).encode()
"""Character class of each byte for `_CASED`. Searching a text of these for `_TURNS` takes a quarter of the time."""

_TURNS = (b"aA", b"0A", b"AAa")
"""Class sequences that only such words contain."""

_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![A-Za-z]))[a-z])")
"""Boundary between parts of such a word; a plural acronym (`APIs`) is one part."""


class _Tokenizer(threading.local):
    """FTS5's tokenizer, which belongs to a connection, and that to one thread."""

    def __init__(self) -> None:
        self._connection = apsw.Connection(":memory:")
        self.run: Callable[..., Any] = self._connection.fts5_tokenizer(TOKENIZER[0], list(TOKENIZER[1:]))


_tokenizer = _Tokenizer()


def searchable(text: str) -> str:
    """Return the form of a text that is indexed.

    Runs of Han and Kana become overlapping pairs; the last character of a run is also a token of its own, so that a
    prefix query of one character finds it anywhere in a run. The parts of words such as `maxRetries` are appended, once
    per word, where they break no phrase and add little to the length.
    """
    plain = paired(text)
    if not plain or plain.islower():
        return plain
    words = {word.casefold(): word for _, word in cased_words(plain)}
    parts = [" ".join(split) for word in words.values() if (split := cased_parts(word))]
    return " ".join([plain, *parts]) if parts else plain


def paired(text: str) -> str:
    """Return a text with its runs of Han and Kana as in the index, and nothing appended."""
    plain = normalise(text)
    if plain.isascii():
        return plain
    return RUN.sub(lambda run: f" {' '.join([*pairs(run.group()), run.group()[-1]])} ", plain)


def pairs(run: str) -> list[str]:
    """Return the overlapping character pairs of a run."""
    return [run[at : at + 2] for at in range(len(run) - 1)]


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
    """Split a mixed-case identifier into words; empty if it is one word.

    `maxRetries` → `max`, `Retries`; `HTTPServer` → `HTTP`, `Server`. A single letter belongs to the next part
    (`iPhone`, `OAuth`) or, at the end, to the previous one.
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
