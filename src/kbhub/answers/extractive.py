"""An answer without a model: the sentences that best cover the question, in the order of their documents, cited."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kbhub.answers.citations import composed
from kbhub.answers.models import Support
from kbhub.answers.sentences import Unit, is_table, units
from kbhub.answers.tokens import estimated_tokens
from kbhub.errors import EmbedderError
from kbhub.query import searchable, stems
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.answers.models import Passage, Prepared, Weight
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

_BRACKETED = re.compile(r"(?<!\\)\[(?=\^?\d{1,4}\](?!\())")
"""A number in brackets in the text of a document, which would look like a citation of ours."""


@struct
class Draft:
    """A written answer."""

    text: str
    support: tuple[Support, ...]


@dataclass(slots=True)
class _Choice:
    """A part of a passage that may be quoted."""

    unit: Unit
    passage: Passage
    size: int
    own: frozenset[str]
    above: frozenset[str]
    near: float = 0.0


def extract(prepared: Prepared, embedder: Embedder | None) -> Draft | None:
    """Write an answer out of sentences of the passages.

    Args:
        prepared: the question and its passages.
        embedder: says how near a sentence is to the question in meaning; none to go by words alone.

    Returns:
        The answer, of at most the tokens asked for; none if no passage has a sentence.
    """
    choices = _choices(prepared)
    _see_nearness(prepared.question, choices, embedder)
    chosen = _chosen(choices, prepared.weights, prepared.options.max_tokens)
    if not chosen:
        return None
    chosen.sort(key=lambda one: (one.passage.number, one.unit.line, one.unit.paragraph))
    kept = [(_apart(one), _marked(one.unit), (one.passage.number,)) for one in chosen]
    support = tuple(
        Support(number=one.passage.number, claim=one.unit.text, quote=one.unit.text, line=one.unit.line, overlap=1.0)
        for one in chosen
    )
    return Draft(composed(kept), support)


def _choices(prepared: Prepared) -> list[_Choice]:
    found = []
    room = prepared.options.max_tokens
    wanted = frozenset(stem for weight in prepared.weights for stem in weight.stems)
    for passage in prepared.passages:
        above = frozenset(stems(searchable(" ".join((passage.title, *passage.headings)))))
        for unit in filter(None, map(_plain, units(passage.text, passage.start_line, in_code=passage.in_code))):
            fitted = unit if estimated_tokens(unit.text) < room else _fitted(unit, room, wanted)
            size = estimated_tokens(fitted.text) + CITATION_TOKENS
            if size <= room:
                found.append(_Choice(fitted, passage, size, frozenset(stems(searchable(fitted.text))), above))
    return found[:MOST_LOOKED_AT]


def _plain(unit: Unit) -> Unit | None:
    """Give a part without HTML tags, none if nothing is left of it."""
    text = unit.text if unit.kind == "block" or "<" not in unit.text else _untagged(unit.text)
    return replace(unit, text=text) if any(map(str.isalnum, text)) else None


def _untagged(text: str) -> str:
    """Take out the tags, but not what stands in code (`<name>` is a placeholder there)."""
    parts = re.split(r"(`+[^`]*`+)", text)
    return "".join(part if at % 2 else _TAG.sub("", part) for at, part in enumerate(parts)).strip("\n").rstrip()


def _fitted(unit: Unit, room: int, wanted: frozenset[str]) -> Unit:
    """Cut a block that is too long: of a table the rows with a word of the question, of others the first lines."""
    lines = unit.text.split("\n")
    if unit.kind == "block" and is_table(unit.text):
        rule = next((at for at, line in enumerate(lines) if line.strip() and not line.strip("|-: \t")), 1)
        rows = [line for line in lines[rule + 1 :] if wanted.intersection(stems(searchable(line)))]
        lines = [*lines[: rule + 1], *rows]
    elif unit.text.startswith(("```", "~~~")) or unit.kind != "block":
        return unit
    taken: list[str] = []
    for line in lines:
        room -= estimated_tokens(line) + 1
        if room <= 0:
            break
        taken.append(line)
    return Unit("\n".join(taken), unit.line, unit.kind, unit.paragraph) if taken else unit


def _see_nearness(question: str, choices: Sequence[_Choice], embedder: Embedder | None) -> None:
    """Note how near each is to the question in meaning."""
    if embedder is None or not choices:
        return
    texts = [" ".join((*one.passage.headings[-1:], one.unit.text)) for one in choices]
    try:
        vectors = embedder.embed([question, *texts])
    except EmbedderError:  # words alone will do
        return
    for one, cosine in zip(choices, (vectors[1:] @ vectors[0]).tolist(), strict=True):
        one.near = max(0.0, cosine)


def _chosen(choices: Sequence[_Choice], weights: Sequence[Weight], room: int) -> list[_Choice]:
    """Take the best again and again, each judged by what it adds to those before it."""
    left, chosen = list(choices), list[_Choice]()
    covered: set[str] = set()
    first = 0.0
    while left and len(chosen) < MOST_SENTENCES:
        worth, at = max((_worth(one, weights, covered), -number) for number, one in enumerate(left))
        best = left.pop(-at)
        if worth <= 0 or worth < LEAST_SHARE * first:
            break
        if best.size > room:
            continue
        first = first or worth
        room -= best.size
        covered |= best.own
        chosen.append(best)
        left = [one for one in left if not _says_the_same(one, best)]
    return chosen


def _worth(one: _Choice, weights: Sequence[Weight], covered: set[str]) -> float:
    total = sum(weight.weight for weight in weights) or 1.0
    coverage = sum(weight.weight * _share(weight, one, covered) for weight in weights) / total
    return COVERAGE * coverage + NEARNESS * one.near + RANK * (one.passage.score or 0.0)


def _share(weight: Weight, one: _Choice, covered: set[str]) -> float:
    """Give the share of a word of the question that a sentence has, less if it was said before."""
    found = sum(
        (AGAIN_SHARE if stem in covered else 1.0) if stem in one.own else HEADING_SHARE * (stem in one.above)
        for stem in weight.stems
    )
    return found / len(weight.stems) if weight.stems else 0.0


def _says_the_same(one: _Choice, other: _Choice) -> bool:
    common = len(one.own & other.own)
    return bool(common) and common >= SAME_SHARE * len(one.own | other.own)


SAME_SHARE = 0.9
"""Share of their distinct words that two sentences have in common from which the second is not quoted."""


def _apart(one: _Choice) -> Unit:
    """Give a part so that paragraphs of different passages are told apart."""
    unit = one.unit
    return Unit(unit.text, unit.line, unit.kind, one.passage.number * _PARAGRAPHS + unit.paragraph)


_PARAGRAPHS = 1_000_000
"""More than a passage has."""


def _marked(unit: Unit) -> str:
    """Give a part as it is quoted: a number in brackets of its own is written so that it is no citation of ours."""
    return unit.text if unit.kind == "block" else _BRACKETED.sub(r"\\[", unit.text)
