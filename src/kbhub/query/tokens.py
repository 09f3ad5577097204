"""Text → the tokens of the index: the form that is indexed, the tokenizer, and what both sides fold."""

from __future__ import annotations

import re
import threading
import unicodedata
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any

import apsw

TOKENIZER = ("porter", "unicode61", "remove_diacritics", "2")
"""FTS5 tokenizer of the index and of queries: Unicode words, accents folded, English stems."""

HAN_KANA = r"\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
"""Scripts written without spaces that pairs of characters search better than whole runs do (.64 against .22
hit@1 on Japanese sentences, .69 against .43 on Chinese ones). Hangul and Thai are better off as words."""

RUN = re.compile(f"[{HAN_KANA}]+")

MAX_CASED = 64
"""Letters of a word in mixed case that is taken apart; identifiers are shorter, encoded data is longer."""

MAX_PARTS = 8
"""Parts of such a word; more are encoded data."""

_CASED = re.compile(r"[A-Z]*+[a-z0-9]++[A-Z][A-Za-z0-9]*+|[A-Z]{2,}+[a-z][A-Za-z0-9]*+")
"""Words with a capital after a small letter, or a small letter after two capitals."""

_LETTERS = {**dict.fromkeys(ascii_uppercase, "A"), **dict.fromkeys(ascii_lowercase, "a"), **dict.fromkeys(digits, "0")}
_KINDS = "".join(_LETTERS.get(chr(code), " ") for code in range(256)).encode()
"""Of each byte, what `_CASED` tells apart. In a text of these, looking for `_TURNS` takes a quarter of the time."""

_TURNS = (b"aA", b"0A", b"AAa")
"""What such words have, and others have not."""

_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![A-Za-z]))[a-z])")
"""Where a part of such a word begins; the plural of an acronym (`APIs`) is one part."""


def searchable(text: str) -> str:
    """Give the form of a text that goes into the index.

    Runs of Han and Kana stand as overlapping pairs; the last character of a run is a token of its own as well, so
    that a query of one character, as a prefix, finds it anywhere in a run. The parts of words such as `maxRetries`
    follow at the end, each word's once: there they break no phrase and add little to the length.
    """
    plain = paired(text)
    found = {word.casefold(): word for _, word in cased_words(plain)}
    parts = [" ".join(split) for word in found.values() if (split := cased_parts(word))]
    return " ".join([plain, *parts]) if parts else plain


def paired(text: str) -> str:
    """Give a text with its runs of Han and Kana as in the index, and nothing added."""
    plain = normalise(text)
    if plain.isascii():
        return plain
    return RUN.sub(lambda run: f" {' '.join([*pairs(run.group()), run.group()[-1]])} ", plain)


def pairs(run: str) -> list[str]:
    """Give the overlapping pairs of characters of a run."""
    return [run[at : at + 2] for at in range(len(run) - 1)]


def cased_words(text: str) -> list[tuple[int, str]]:
    """Find the words of a text that may be identifiers in mixed case: (start, word), in order."""
    kinds = text.encode("ascii", "replace").translate(_KINDS)
    found: dict[int, str] = {}
    for turn in _TURNS:
        at = kinds.find(turn)
        while at >= 0:
            start, end = kinds.rfind(b" ", 0, at) + 1, kinds.find(b" ", at)
            end = len(kinds) if end < 0 else end
            found[start] = text[start:end]
            at = kinds.find(turn, end)
    return sorted(found.items())


def cased_parts(word: str) -> tuple[str, ...]:
    """Give the words that an identifier is made of, as its capitals show them; none if it is one word.

    Args:
        word: letters and digits; `maxRetries` → `max`, `Retries`; `HTTPServer` → `HTTP`, `Server`. A single letter
            belongs to what follows it (`iPhone`, `OAuth`) or, at the end, to what is before.
    """
    if len(word) > MAX_CASED or not _CASED.fullmatch(word):
        return ()
    parts = [""]
    for part in _BOUNDARY.split(word):
        if len(parts[-1]) == 1:
            parts[-1] += part
        else:
            parts.append(part)
    if len(parts[-1]) == 1:
        parts[-2:] = ["".join(parts[-2:])]
    parts = [part for part in parts if part]
    return tuple(parts) if 1 < len(parts) <= MAX_PARTS else ()


def normalise(text: str) -> str:
    """Fold compatibility forms (full-width letters, half-width Kana, ligatures) and drop what SQLite ends at."""
    if text.isascii():
        return text.replace("\0", " ")
    return unicodedata.normalize("NFKC", text).replace("\0", " ").encode("utf-8", "replace").decode("utf-8")


def fold(text: str) -> str:
    """Give the form in which two texts are the same value: compatibility forms and case folded, ends trimmed."""
    return normalise(normalise(text).casefold()).strip()


def stems(text: str) -> tuple[str, ...]:
    """Give the tokens that FTS5 makes of a text, in order."""
    return tuple(token for _, _, token in tokens(text.encode("utf-8", "replace")))


def tokens(raw: bytes) -> list[tuple[int, int, str]]:
    """Give (start, end, stem) of each token, offsets in bytes."""
    found: Any = _tokenizer()(raw, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)
    return list(found)


_local = threading.local()


def _tokenizer() -> apsw.FTS5Tokenizer:
    # A tokenizer belongs to a connection and a connection to one thread at a time.
    if not hasattr(_local, "tokenizer"):
        _local.connection = apsw.Connection(":memory:")
        _local.tokenizer = _local.connection.fts5_tokenizer(TOKENIZER[0], list(TOKENIZER[1:]))
    tokenizer: apsw.FTS5Tokenizer = _local.tokenizer
    return tokenizer
