"""The words of a prompt that name what it is about, and whether a passage has them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, TypeAlias

from kbhub.errors import IndexUnavailable
from kbhub.hub import Hub
from kbhub.index.catalogue import terms_among, texts
from kbhub.index.query.parser import paired, stems
from kbhub.search.evidence import is_name, rarity, verbatim, words_of
from kbhub.types import Base, Hit

Names: TypeAlias = Sequence[str]
"""The rarest first."""

RARE, RARER = 0.75, 0.9
"""Rarity from which an ordinary word may name something: `docker` does, `file` does not. Of those in between, such as
`autofill` and `switch`, one alone is taken, and only if there is no better word."""

MOST_COMMON, FEW = 0.25, 3
"""The largest share of all chunks that may have a word that names one of them, unless only so few do."""

MOST_NAMES = 2
"""Words that a passage must have; more are seldom in one."""

LEAST_WEIGHT = 0.5
"""Minimum weight of the second word, as a share of the first one's."""

MOST_CHARACTERS = 100_000
"""Characters of a document that are looked through for the second word: somebody waits."""

_WORD = re.compile(r"[^\s\"'`()\[\]{}<>,;:!?=*“”]+")


def names_in(hub: Hub, text: str, bases: Sequence[Base]) -> Names:
    """Return what names the subject of a prompt: identifiers first, then words that language and bases seldom use."""
    parts = {word: stems(paired(word)) for word in _WORD.findall(text)}
    known: Counter[str] = Counter()
    chunks = 0
    for base in bases:
        index = hub.index(base)
        with suppress(IndexUnavailable), index.snapshot():
            chunks += index.size()[0]
            known.update(terms_among(index, {stem for each in parts.values() for stem in each}))
    weights: dict[str, float] = {}
    for word, each in parts.items():
        count = min((known[stem] for stem in each), default=0)
        if 0 < count <= max(FEW, MOST_COMMON * chunks):
            weights[word] = rarity(word.casefold()) * math.log1p(chunks / count)
    ranked = sorted(weights, key=lambda word: (not _is_identifier(word), -weights[word]))
    best = [word for word in ranked if _is_identifier(word) or rarity(word.casefold()) >= RARER][:MOST_NAMES]
    best = best or [word for word in ranked if rarity(word.casefold()) >= RARE][:1]
    return [word for word in best if weights[word] >= LEAST_WEIGHT * weights[best[0]]]


def found_in(hub: Hub, hit: Hit, names: Names) -> Literal["title", "text", "nowhere"]:
    """Return where a passage has the rarest name; `nowhere` if it lacks that, or its document the other one."""
    index = hub.index(next(base for base in hub.discovery().bases if base.id == hit.base))
    try:
        with index.snapshot():
            body = dict(texts(index, [hit.path])).get(hit.path, "")
    except IndexUnavailable:
        return "nowhere"
    titles = "\n".join([hit.title, *hit.headings, hit.path, words_of(hit.path)])
    passage = "\n".join([titles, *body.split("\n")[hit.start_line - 1 : hit.end_line]])
    for number, name in enumerate(names):
        wide = number > 0 and not _is_identifier(name)
        if not (_has(passage, name) or (wide and _has(body[:MOST_CHARACTERS], name))):
            return "nowhere"
    return "nowhere" if not names else "title" if _has(titles, names[0]) else "text"


def _is_identifier(word: str) -> bool:
    return is_name(word) or (len(word) > 1 and word.isupper())


def _has(text: str, name: str) -> bool:
    """Return whether a text has an identifier as it is written, or a word in any form."""
    if _is_identifier(name) and (pattern := verbatim(name)):
        return bool(pattern.search(text))
    return set(stems(paired(name))) <= set(stems(paired(text)))
