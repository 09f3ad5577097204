"""Split Markdown into units that can be quoted: sentences, list items, rows of tables, whole blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from kbhub.answers.answer import estimated_tokens
from kbhub.documents.markdown import LINK_DEFINITION, Outline, heading_end, is_item, is_rule, scan_blocks, trimmed
from kbhub.index.query.parser import STOP_WORDS, searchable, stems
from kbhub.search.plan import WeightedTerm
from kbhub.values import struct

LIST_TOKENS = 150
"""Limit in estimated tokens of a list that is quoted as a whole; longer ones are split into items."""

CODE_FENCE = "```"
FENCES = (CODE_FENCE, "~~~")

_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|al|approx|dr|mr|mrs|ms|prof|st|no|nos|fig|figs|sec|eq|vol|pp|ed|inc|ca|bzw|usw)"
    r"|z\.\s?B|d\.\s?h|\b[A-Za-z])\.$",
    re.IGNORECASE,
)
"""Ends with a full stop but not a sentence: abbreviations, initials."""

_END = re.compile(
    r"""(?:(?<=\s)[.!?]|[.!?]+["'”’)\]*_]*)(?=\s+["'“‘(\[`*_]*[^\s"'“‘(\[`*_]|\s*$)|[。！？]+[」』”’)]*"""
)
# A tag or a comment of HTML; `<USER_NAME>` is for readers to fill in.
TAG = re.compile(
    r"(?!<(?!(?:BR|DIV|H\d|HR|LI|OL|PRE|TABLE|T[DHR]|UL)>)[A-Z][A-Z\d_-]+>)</?[A-Za-z][\w.-]*(?:[\s/][^<>]*)?>|<!--.*?-->",
    re.DOTALL,
)
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
CLOSING_FENCE = re.compile(r"[ \t>]*(?:`{3,}|~{3,})[ \t]*$")
_QUOTE = re.compile(r"(?: {0,3}>(?:\s|$))+")
"""Marker of a line of a block quote; sentences continue across it."""

_SENTENCE_START = re.compile(r"\s+[\"'“‘(\[`*_]*[^\Wa-z_]")

Kind = Literal["sentence", "item", "block"]

FEW_ROWS = 6
"""Rows up to which a table is quoted whole if no word of the question distinguishes its rows; longer tables are cut by
meaning.
"""

NEAREST_ROWS = 3
"""Rows of a longer table that are quoted for their meaning alone."""

ROW_SHARE = 0.5
"""Minimum worth of a quoted row, as a share of the best one's: a question may ask for two things."""

LEFT_OUT = "…"


@struct
class Unit:
    """A part of a text that can be quoted on its own."""

    text: str
    """A sentence on one line, an item with its bullet, or a block with its line ends."""
    line: int
    kind: Kind
    paragraph: int
    heading: str = ""
    """The heading above it in the text; empty before the first."""


def units(
    text: str, first_line: int = 1, *, in_code: bool = False, table_header: str = "", whole_lists: bool = True
) -> list[Unit]:
    """Split Markdown into units, in order. Headings, rules and link definitions are left out.

    A code block, a table or, with `whole_lists`, a short list is one unit together with the sentence that announces it.
    The text may start inside a code block, which gets a fence of its own, or in a table, whose header is given.
    """
    lines = text.split("\n")
    parts: list[Unit] = []
    if in_code:
        end = next((at for at, line in enumerate(lines) if CLOSING_FENCE.match(line)), len(lines))
        code = "\n".join(lines[:end])
        parts = [Unit(f"{CODE_FENCE}\n{code}\n{CODE_FENCE}", first_line, "block", -1)] if code.strip() else []
        lines[: end + 1] = [""] * len(lines[: end + 1])
    header = table_header.split("\n") if table_header else []
    lines = [*header, *lines]
    blocks = scan_blocks(lines, 0, 0)
    for number, (start, end, kind) in enumerate(_regions(lines, blocks)):
        region = lines[start:end]
        line = first_line + max(0, start - len(header))
        if kind == "block":
            parts = _announced(parts, Unit("\n".join(region), line, "block", number))
        elif kind == "list":
            whole = Unit("\n".join(region).rstrip(), line, "block", number)
            if whole_lists and estimated_tokens(whole.text) <= LIST_TOKENS:
                parts = _announced(parts, whole)
            else:
                parts += _items(region, line, number)
        elif all(map(_QUOTE.match, region)):
            said = units("\n".join([_QUOTE.sub("", quoted) for quoted in region]), line, whole_lists=whole_lists)
            parts += [replace(unit, paragraph=number) for unit in said]
        else:
            parts += _sentences(region, line, number)
    above = [(heading.line - len(header) - 1 + first_line, heading.text) for heading in reversed(blocks.headings)]
    return [
        replace(unit, heading=unit.heading or next((text for at, text in above if at < unit.line), ""))
        for unit in parts
    ]


def _announced(parts: list[Unit], block: Unit) -> list[Unit]:
    """Append a block, joined with the sentence before it if that ends with a colon."""
    if parts and parts[-1].kind == "sentence" and parts[-1].text.endswith((":", "：")):
        sentence = parts.pop()
        block = replace(block, text=f"{sentence.text}\n\n{block.text}", line=sentence.line)
    return [*parts, block]


def _regions(lines: Sequence[str], blocks: Outline) -> Iterator[tuple[int, int, Literal["block", "list", "text"]]]:
    """Yield the start, end and kind of each region, as indices of lines."""
    opaque = {start - 1: end for start, end in [*blocks.fences, *blocks.tables]}
    hidden = {start - 1: end for start, end in blocks.raw}
    headings = {heading.line - 1 for heading in blocks.headings}
    starts = {*opaque, *hidden, *headings}
    at = 0
    while at < len(lines):
        if at in opaque:
            yield at, opaque[at], "block"
            at = opaque[at]
        elif at in hidden or at in headings:
            at = hidden.get(at) or heading_end(lines, at)
        elif not lines[at].strip() or is_rule(lines[at]) or LINK_DEFINITION.match(lines[at]):
            at += 1
        elif is_item(lines[at]):
            end = _list_end(lines, at, {**opaque, **hidden}, headings)
            yield at, end, "list"
            at = end
        else:
            end = at + 1
            while end < len(lines) and lines[end].strip() and end not in starts and not is_item(lines[end]):
                end += 1
            yield at, end, "text"
            at = end


def _list_end(lines: Sequence[str], at: int, opaque: dict[int, int], headings: set[int]) -> int:
    """Return the line after a list, including indented lines and lazy continuations."""
    end = at + 1
    while end < len(lines) and end not in headings:
        indented = lines[end].startswith((" ", "\t"))
        if end in opaque and indented:
            end = opaque[end]
            continue
        if end in opaque:
            break
        if lines[end].strip() and not (is_item(lines[end]) or indented or lines[end - 1].strip()):
            break
        end += 1
    return trimmed(lines, at, end)[1]


def _items(region: Sequence[str], line: int, number: int) -> list[Unit]:
    indents = [len(text) - len(text.lstrip()) for text in region]
    starts = [at for at, text in enumerate(region) if is_item(text) and indents[at] <= indents[0] + 1] or [0]
    ends = [*starts[1:], len(region)]
    return [
        Unit("\n".join(region[start:end]).strip("\n").rstrip(), line + start, "item", number)
        for start, end in zip(starts, ends, strict=True)
    ]


def _sentences(region: Sequence[str], line: int, number: int) -> Iterator[Unit]:
    text = "\n".join(region)
    code = [match.span() for match in _CODE.finditer(text)]
    start = 0
    for match in (*_END.finditer(text), None):
        end = match.end() if match else len(text)
        if match and (any(low < end <= high - 1 for low, high in code) or not _ends(text, start, match)):
            continue
        if part := text[start:end].lstrip():
            above = text.count("\n", 0, end - len(part))
            yield Unit(" ".join(part.split()), line + above, "sentence", number)
        start = end


def _ends(text: str, start: int, match: re.Match[str]) -> bool:
    """Return whether a punctuation mark ends a sentence."""
    mark, at = match.group()[0], match.start()
    if mark != "." or match.end() >= len(text.rstrip()) or text[at - 1 : at].isspace():
        return True
    if _ABBREVIATION.search(text[start : match.start() + 1]):
        return False
    return _SENTENCE_START.match(text, match.end()) is not None


def is_table(text: str) -> bool:
    """Return whether a block is, or ends with, a pipe table."""
    return "|" in text.rsplit("\n", 1)[-1] and not text.rstrip().endswith(FENCES)


def answering(
    text: str,
    weights: Sequence[WeightedTerm],
    above: Collection[str],
    room: int,
    near: Callable[[Sequence[str]], Sequence[float]],
) -> str:
    """Cut a table, after what announces it, to its header and the rows that answer a question, in estimated tokens.

    Prefers rows with a word of the question that is not in the headings above (`above` holds their stems); then, in a
    long table, rows with any of its words; then the rows nearest in meaning, by `near`, which may know no cosines.
    """
    lines = text.split("\n")
    rule = next((at for at, line in enumerate(lines) if "-" in line and not line.strip("|-: \t>")), None)
    if rule is None:
        return text
    head, rows = lines[: rule + 1], [line for line in lines[rule + 1 :] if line.strip()]
    kept = _kept(rows, weights, above, near)
    room -= sum(estimated_tokens(line) + 1 for line in head)
    quoted: list[str] = []
    before = -1
    for at in sorted(kept):
        gap = [f"| {LEFT_OUT} |"] if at > before + 1 and before >= 0 else []
        room -= sum(estimated_tokens(line) + 1 for line in (*gap, rows[at]))
        if room <= 0:
            break
        quoted += [*gap, rows[at]]
        before = at
    return "\n".join([*head, *quoted]) if quoted else text


def _kept(
    rows: Sequence[str],
    weights: Sequence[WeightedTerm],
    above: Collection[str],
    near: Callable[[Sequence[str]], Sequence[float]],
) -> list[int]:
    """Return the indices of the rows that answer."""
    words = [frozenset(stems(searchable(row))) for row in rows]
    content = [weight for weight in weights if not STOP_WORDS.issuperset(weight.stems)] or [
        weight for weight in weights if weight.stems
    ]
    own = [weight for weight in content if not set(above).issuperset(weight.stems)]
    for wanted in (own, content) if len(rows) > FEW_ROWS else (own,):
        worths = [
            sum(one.weight * len(row.intersection(one.stems)) / len(one.stems) for one in wanted) for row in words
        ]
        if (most := max(worths, default=0.0)) > 0:
            return [at for at, worth in enumerate(worths) if worth >= ROW_SHARE * most]
    cosines = near(rows) if len(rows) > FEW_ROWS else ()
    every = range(len(rows))
    return sorted(every, key=lambda at: -cosines[at])[:NEAREST_ROWS] if cosines else list(every)
