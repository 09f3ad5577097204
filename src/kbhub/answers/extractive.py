"""An answer without a model: the sentences that best cover the question, in the order of their documents, cited."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kbhub.answers.models import Support
from kbhub.answers.sentences import Unit, units
from kbhub.answers.tables import answering, is_table
from kbhub.answers.telling import Choice, filled, heading_of, label_tokens, told, without_promises
from kbhub.answers.tokens import estimated_tokens
from kbhub.blocks import is_item
from kbhub.errors import EmbedderError
from kbhub.query import searchable, stems
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.answers.models import Prepared, Weight
    from kbhub.embedding import Embedder

COVERAGE, NEARNESS, RANK = 1.0, 1.0, 2.0
"""What the share of the question's weight that a sentence covers, its cosine to the question, and the score of its
passage are worth. Half or twice of one moved the share of answers that cite the right passage (.83 then, with the two
shares below at .3 and .5) by up to .02 either way, over 48 queries of each of five collections: chosen on these, and
between citing the right passage more often and citing wrong ones less."""

HEADING_SHARE = 0.5
"""What a word of the question counts that stands in a heading above a sentence and not in it."""

AGAIN_SHARE = 0.6
"""What a word counts in a sentence after one that has it: the next is to bring something else."""

LEAST_SHARE = 0.7
"""Worth, as a share of the best sentence's, below which a sentence is not quoted. Over the same queries, .5 / .7 / .8
cite the right passage in .845 / .837 / .812 of the answers, and .61 / .64 / .65 of all citations are right."""

MOST_SENTENCES = 8
"""Sentences, items or blocks of an answer."""

CITATION_TOKENS = 8
"""Estimated tokens of a citation, `[12]`, with the blank lines around it."""

MOST_LOOKED_AT = 400
"""Parts of passages that are weighed; twelve passages have some hundred."""

_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<!--.*?-->", re.DOTALL)
"""HTML between the words of a sentence."""

_IMAGE = re.compile(r"!\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\])|\[\s*\]\([^()]*\)")
"""A picture, or a link of which nothing but a picture can be seen; taken out from the inside."""

_LINK = re.compile(r"\[[^\[\]]*\]\([^()]*(?:\([^()]*\))?[^()]*\)")

_POINTER = re.compile(
    r"(?:for [^.\[]{1,60} )?(?:please )?see (?:also )?(?:the )?\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\])?"
    r"(?: (?:for|on|about)\b[^.]{0,60})?\.?",
    re.IGNORECASE,
)
"""A sentence that says nothing but where to look."""


@struct
class Draft:
    """A written answer."""

    text: str
    support: tuple[Support, ...]


def extract(prepared: Prepared, embedder: Embedder | None) -> Draft | None:
    """Write an answer out of sentences of the passages.

    Args:
        prepared: the question and its passages.
        embedder: says how near a sentence is to the question in meaning; none to go by words alone.

    Returns:
        The answer, of at most the tokens asked for; none if no passage has a sentence.
    """
    choices = _choices(prepared, embedder)
    _see_nearness(prepared.question, choices, embedder)
    chosen, room = _chosen(choices, prepared.weights, prepared.options.max_tokens)
    if not chosen:
        return None
    chosen = without_promises(filled(chosen, choices, room))
    support = tuple(
        Support(number=one.passage.number, claim=one.unit.text, quote=one.unit.text, line=one.unit.line, overlap=1.0)
        for one in chosen
    )
    return Draft(told(chosen), support)


def best_line(prepared: Prepared, embedder: Embedder | None) -> int | None:
    """Give the line where the part of the first passage begins that comes nearest to the question, if it has parts.

    Args:
        prepared: the question and its passages.
        embedder: as for `extract`.
    """
    choices = _choices(prepared.model_copy(update={"passages": prepared.passages[:1]}), embedder)
    _see_nearness(prepared.question, choices, embedder)
    chosen, _ = _chosen(choices, prepared.weights, prepared.options.max_tokens)
    return chosen[0].unit.line if chosen else None


def _choices(prepared: Prepared, embedder: Embedder | None) -> list[Choice]:
    found = []
    room = prepared.options.max_tokens
    near = partial(_nearness, prepared.question, embedder=embedder)
    for passage in prepared.passages:
        parts = units(passage.text, passage.start_line, in_code=passage.in_code, table_header=passage.table_header)
        for at, unit in enumerate(filter(None, map(_plain, parts))):
            names = (passage.title, *passage.headings, unit.heading)
            above = frozenset(stems(searchable(" ".join(names))))
            if unit.kind == "block" and is_table(unit.text):
                fitted = replace(unit, text=answering(unit.text, prepared.weights, above, room, near))
            else:
                fitted = unit if estimated_tokens(unit.text) < room else _fitted(unit, room)
            size = estimated_tokens(fitted.text) + CITATION_TOKENS
            if size <= room:
                found.append(Choice(fitted, passage, at, size, frozenset(stems(searchable(fitted.text))), above))
    return found[:MOST_LOOKED_AT]


def _plain(unit: Unit) -> Unit | None:
    """Give a part without HTML tags and pictures, none if nothing is left of it."""
    text = unit.text if unit.kind == "block" and not is_item(unit.text.split("\n", 1)[0]) else _untagged(unit.text)
    if unit.kind == "sentence" and (_POINTER.fullmatch(text) or not any(map(str.isalnum, _LINK.sub("", text)))):
        return None
    if not any(map(str.isalnum, text)):
        return None
    return replace(unit, text=text)


def _untagged(text: str) -> str:
    """Take out tags and pictures, but not what stands in code (`<name>` is a placeholder there)."""
    if "<" not in text and "](" not in text and "![" not in text:
        return text
    parts = re.split(r"(`+[^`]*`+)", text)
    bare = (part if at % 2 else _TAG.sub("", _IMAGE.sub("", _IMAGE.sub("", part))) for at, part in enumerate(parts))
    return "".join(bare).strip("\n").rstrip()


def _fitted(unit: Unit, room: int) -> Unit:
    """Cut a list that is too long to its first lines; code and prose are not cut."""
    if unit.kind != "block" or unit.text.startswith(("```", "~~~")):
        return unit
    taken: list[str] = []
    for line in unit.text.split("\n"):
        room -= estimated_tokens(line) + 1
        if room <= 0:
            break
        taken.append(line)
    return replace(unit, text="\n".join(taken)) if taken else unit


def _see_nearness(question: str, choices: Sequence[Choice], embedder: Embedder | None) -> None:
    """Note how near each is to the question in meaning."""
    texts = [" ".join((heading_of(one.unit, one.passage), one.unit.text)) for one in choices]
    for one, cosine in zip(choices, _nearness(question, texts, embedder=embedder), strict=False):
        one.near = max(0.0, cosine)


def _nearness(question: str, texts: Sequence[str], *, embedder: Embedder | None) -> list[float]:
    """Give the cosine of each text to the question; nothing if words alone have to do."""
    if embedder is None or not texts:
        return []
    try:
        vectors = embedder.embed([question, *texts])
    except EmbedderError:
        return []
    cosines: list[float] = (vectors[1:] @ vectors[0]).tolist()
    return cosines


def _chosen(choices: Sequence[Choice], weights: Sequence[Weight], room: int) -> tuple[list[Choice], int]:
    """Take the best again and again, each judged by what it adds to those before it; give the room left, too."""
    left, chosen = list(choices), list[Choice]()
    covered: set[str] = set()
    first = 0.0
    while left and len(chosen) < MOST_SENTENCES:
        worth, at = max((_worth(one, weights, covered), -number) for number, one in enumerate(left))
        best = left.pop(-at)
        if worth <= 0 or worth < LEAST_SHARE * first:
            break
        size = best.size + label_tokens(best, chosen)
        if size > room:
            continue
        first = first or worth
        room -= size
        covered |= best.own
        chosen.append(best)
        left = [one for one in left if not _says_the_same(one, best)]
    return chosen, room


def _worth(one: Choice, weights: Sequence[Weight], covered: set[str]) -> float:
    total = sum(weight.weight for weight in weights) or 1.0
    coverage = sum(weight.weight * _share(weight, one, covered) for weight in weights) / total
    return COVERAGE * coverage + NEARNESS * one.near + RANK * (one.passage.score or 0.0)


def _share(weight: Weight, one: Choice, covered: set[str]) -> float:
    """Give the share of a word of the question that a sentence has, less if it was said before."""
    found = sum(
        (AGAIN_SHARE if stem in covered else 1.0) if stem in one.own else HEADING_SHARE * (stem in one.above)
        for stem in weight.stems
    )
    return found / len(weight.stems) if weight.stems else 0.0


def _says_the_same(one: Choice, other: Choice) -> bool:
    common = len(one.own & other.own)
    return bool(common) and common >= SAME_SHARE * len(one.own | other.own)


SAME_SHARE = 0.9
"""Share of their distinct words that two sentences have in common from which the second is not quoted."""
