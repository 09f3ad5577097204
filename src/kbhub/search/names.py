"""Names in a query: identifiers of programs, and documents by their file names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kbhub.index.query.tokens import cased_parts, normalise
from kbhub.search.scores import Fused, SignalPart, best_first

if TYPE_CHECKING:
    from kbhub.index.rows import Key

_IDENTIFIER = re.compile(
    r"\w(?:::|->|[_\-./:@#$])\w|^[-_/.@$#]+\w|[a-z][A-Z]|\(\)$|^[A-Z][A-Z0-9_]{2,}$|\d[A-Za-z]|[A-Za-z]\d"
)
"""`max_retries`, `--locked`, `camelCase`, `main()`, `PATH`, `/api/v1`, `utf8`; also `third-party`, for which a verbatim
search does no harm."""

_JOINED_WORDS = re.compile(r"[A-Za-z][a-z]*(?:[-/.'’][a-z]+)+")
"""Ordinary words joined by a mark: `third-party`, `client/server`, `e.g`."""

_PUNCTUATION = ".,;:!?\"'()"


SIGNAL = "name"
"""Name of the signal in traces and in `Query.without`."""

NAME_AMOUNT = 2.0
"""Bonus of a document named by the query: more than all other parts of a score together. Leaves the results on the six
test sets and the handbook unchanged."""

PATHS = 4096
"""Paths whose words are cached."""

_PART = re.compile(r"[^\W\d_]+|\d+")


def is_identifier(text: str) -> bool:
    """Return whether a word looks like a name in a program."""
    return _IDENTIFIER.search(text) is not None


def is_name(text: str) -> bool:
    """Return whether a word can only be a name: an identifier that is not made of ordinary words."""
    bare = text.strip(_PUNCTUATION)
    return is_identifier(text) and not any(map(str.isspace, bare)) and _JOINED_WORDS.fullmatch(bare) is None


@lru_cache(maxsize=PATHS)
def words_of(path: str) -> str:
    """Return a relative path without its extension, followed by its words split at separators, case and digits.

    `runbooks/kafkaRestart.md` → `runbooks/kafkaRestart runbooks kafka Restart`.
    """
    name = str(PurePosixPath(path).with_suffix(""))
    return " ".join([name, *_words(name)])


def named_first(fused: list[Fused], text: str, paths: Callable[[Iterable[Key]], Mapping[Key, str]]) -> list[Fused]:
    """Lift the documents that a query, without filters, names by their file names.

    `EIP-1559 base fee` means `eip-1559.md`. `fused` comes best first.
    """
    name = _name(text)
    if not name:
        return fused
    paths_by_key = paths(dict.fromkeys(hit.document_key for hit in fused))
    rare_parts = {name[0], *filter(str.isdigit, name)}  # cheap test before a path is split
    named = {
        key for key, path in paths_by_key.items() if any(map(path.lower().count, rare_parts)) and _names(name, path)
    }
    if not named:
        return fused
    lifted = []
    for hit in fused:
        if hit.document_key in named:
            named.discard(hit.document_key)  # only the best chunk of each document
            lifted.append(hit.and_parts([SignalPart(SIGNAL, 1.0, NAME_AMOUNT)]))
        else:
            lifted.append(hit)
    return best_first(lifted)


def _names(query: tuple[str, ...], path: str) -> bool:
    """Return whether a query is a document's file name, or contains one with a number.

    A name of plain words (`cargo-add`) within a longer question may not be what it is about; lifting those costs .004
    nDCG on the section questions.
    """
    name = _name(path.rpartition("/")[2].rpartition(".")[0])
    if query in (name, name[1:] if name and name[0].isdigit() else name):
        return True
    if len(name) < 2 or not any(part.isdigit() for part in name):
        return False
    return any(query[at : at + len(name)] == name for at in range(len(query) - len(name) + 1))


@lru_cache(maxsize=PATHS)
def _name(text: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _words(normalise(text)))


def _words(text: str) -> list[str]:
    return [part for word in _PART.findall(text) for part in (cased_parts(word) or (word,))]
