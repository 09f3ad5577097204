"""The words of a document's path, and whether a query names the document by them."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kbhub.fusion import Part, best_first
from kbhub.query.tokens import cased_parts, normalise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kbhub.fusion import Fused
    from kbhub.ranking import Key

SIGNAL = "name"
"""Its name in traces and in `Query.without`."""

NAME_AMOUNT = 2.0
"""What a document that the query names gains: more than all other parts of a score together. No figure of the six sets
and the handbook changes."""

PATHS = 4096
"""Paths whose words are remembered."""

_PART = re.compile(r"[^\W\d_]+|\d+")


@lru_cache(maxsize=PATHS)
def words_of(path: str) -> str:
    """Give a path without its ending, followed by its words cut at separators, case and digits.

    Args:
        path: relative, with `/`; `runbooks/kafkaRestart.md` → `runbooks/kafkaRestart runbooks kafka Restart`.
    """
    name = str(PurePosixPath(path).with_suffix(""))
    return " ".join([name, *_words(name)])


def named_first(fused: list[Fused], text: str, paths: Callable[[Iterable[Key]], Mapping[Key, str]]) -> list[Fused]:
    """Lift the documents that a query names by their file names: `EIP-1559 base fee` means `eip-1559.md`.

    Args:
        fused: best first.
        text: of the query, without filters.
        paths: gives the paths of documents.
    """
    asked = _name(text)
    if not asked:
        return fused
    there = paths(dict.fromkeys(one.document_key for one in fused))
    telling = {asked[0], *filter(str.isdigit, asked)}  # without one of these, a path need not be taken apart
    named = {key for key, path in there.items() if any(map(path.lower().count, telling)) and _names(asked, path)}
    if not named:
        return fused
    lifted = []
    for one in fused:
        if one.document_key in named:
            named.discard(one.document_key)  # of each document its best chunk
            lifted.append(one.and_parts([Part(SIGNAL, 1.0, NAME_AMOUNT)]))
        else:
            lifted.append(one)
    return best_first(lifted)


def _names(asked: tuple[str, ...], path: str) -> bool:
    """Say whether a query is a document's file name, or has one in it that nothing but a name looks like.

    A name of words alone (`cargo-add`) in a longer question may be what it is about or not; lifting those costs the
    sections .004.
    """
    name = _name(path.rpartition("/")[2].rpartition(".")[0])
    if asked in (name, name[1:] if name and name[0].isdigit() else name):
        return True
    if len(name) < 2 or not any(part.isdigit() for part in name):
        return False
    return any(asked[at : at + len(name)] == name for at in range(len(asked) - len(name) + 1))


@lru_cache(maxsize=PATHS)
def _name(text: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _words(normalise(text)))


def _words(text: str) -> list[str]:
    return [part for found in _PART.findall(text) for part in (cased_parts(found) or (found,))]
