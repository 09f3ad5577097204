"""Names in a query: identifiers of programs, and documents by their file names."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePosixPath

from kbhub.index.query.parser import cased_parts, normalise
from kbhub.search.plan import Candidate, OpenBases, Plan, RankingSignal, SignalPart

_IDENTIFIER = re.compile(
    r"\w(?:::|->|[_\-./:@#$])\w|^[-_/.@$#]+\w|[a-z][A-Z]|\(\)$|^[A-Z][A-Z0-9_]{2,}$|\d[A-Za-z]|[A-Za-z]\d"
)
"""`max_retries`, `--locked`, `camelCase`, `main()`, `PATH`, `/api/v1`, `utf8`; also `third-party`, for which a verbatim
search does no harm."""

_JOINED_WORDS = re.compile(r"[A-Za-z][a-z]*(?:[-/.'’][a-z]+)+")
"""Ordinary words joined by a mark: `third-party`, `client/server`, `e.g`."""

_PUNCTUATION = ".,;:!?\"'()"


NAME = "name"

AMOUNT = 2.0
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


def _add(plan: Plan, bases: OpenBases, hits: list[Candidate]) -> None:
    """Lift the best chunk of each document that a query, without filters, names by its file name.

    `EIP-1559 base fee` means `eip-1559.md`.
    """
    name = _name(plan.question)
    if not name:
        return
    rare_parts = {name[0], *filter(str.isdigit, name)}  # cheap test before a path is split
    named = set()
    paths = bases.paths([hit.document_key for hit in hits])
    for hit in hits:
        path = paths.get(hit.document_key, "")
        if hit.document_key not in named and any(map(path.lower().count, rare_parts)) and _names(name, path):
            named.add(hit.document_key)
            hit.add([SignalPart(NAME, 1.0, AMOUNT)])


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
    return tuple(map(str.lower, _words(normalise(text))))


def _words(text: str) -> list[str]:
    return [part for word in _PART.findall(text) for part in (cased_parts(word) or (word,))]


SIGNAL = RankingSignal((NAME,), lambda plan: plan.asks_for(NAME), _add)
