"""The ways in which models cite: `[1]`, `[1, 3]`, `[2]-[4]`, `[Source 1]`, `【1†source】`, `(see [1])`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WIDEST_RANGE = 10
"""Limit of passages named by a range such as [2-5]."""

MOST_IN_A_ROW = 20
"""Limit of citations read as one mark; no sentence needs more."""

# Repetitions that could start anywhere are bounded: a hostile model may write 100 kB of brackets.
_BETWEEN = r"\s{0,3}(?:,|;|、|，|–|-|and|to|&)\s{0,3}"
_NUMBERS = rf"\d{{1,4}}(?:{_BETWEEN}\d{{1,4}}){{0,{MOST_IN_A_ROW}}}"
_LABEL = r"(?:\^|#|(?:passage|source|reference|ref|document)s?[ :#]{1,3})?"
_TARGET = r"(?:\([^()\s]{0,300}\))?"
_SQUARE = rf"\\?\[{{1,2}}{_LABEL}(?:{_NUMBERS})\\?\]{{1,2}}{_TARGET}"
_WIDE = rf"［{_LABEL}(?:{_NUMBERS})］|【{_LABEL}(?:{_NUMBERS})[^】\n]{{0,100}}】"
_ONE = rf"(?:{_SQUARE}|{_WIDE})"
_ROW = rf"{_ONE}(?:[ \t]{{0,3}}(?:,|;|、|，|–|-|and|to|&)?[ \t]{{0,3}}{_ONE}){{0,{MOST_IN_A_ROW}}}"
_ALONE = rf"\((?:[^\W\d_]{{1,20}}:?[ \t]{{1,3}})?{_ROW}\)|\*\*{_ROW}\*\*|\*{_ROW}\*|_{_ROW}_|{_ROW}"
_MARK = rf"[ \t]{{0,8}}(?:{_ALONE})"

MARK = re.compile(_MARK, re.IGNORECASE)
"""Citations, with preceding white space, and parentheses or emphasis that enclose nothing else."""

_LABELLED = re.compile(rf"[\[［【]{_LABEL}(?P<numbers>{_NUMBERS})", re.IGNORECASE)
_SPAN = re.compile(r"[\s\\\])］】]*(?:–|-|to)[\s\\\[(［【]*", re.IGNORECASE)
_BEGINS = re.compile(rf"[ \t]{{0,8}}(?:(?:[-*+]|\d{{1,3}}[.)])[ \t]+)?{_MARK}:?[ \t]*[^\W_]", re.IGNORECASE)
_AFTER_END = re.compile(rf"(?P<end>[.!?。！？][.!?。！？\"'”’)*_]{{0,8}})(?P<marks>{_MARK})", re.IGNORECASE)


def numbers(mark: str) -> list[int]:
    """Return the numbers that a mark cites, including those within a range.

    Args:
        mark: a match of `MARK`.
    """
    cited: list[int] = []
    end = 0
    for group in _LABELLED.finditer(mark):
        inner = _listed(group["numbers"])
        if cited and _SPAN.fullmatch(mark, end, group.start()):
            inner = _range(cited.pop(), inner[0]) + inner[1:]
        cited += inner
        end = group.end()
    return cited


def settled(text: str, is_code: Callable[[int], bool]) -> str:
    """Move citations that follow the end of a sentence before it, so that they stay with the sentence.

    If a line or paragraph begins with a citation, citations belong to the text after them and stay.

    Args:
        text: Markdown.
        is_code: returns whether an offset is within code.
    """

    def moved(match: re.Match[str]) -> str:
        at = match.start()
        starts = {text.rfind(end, 0, at) + len(end) if end in text[:at] else 0 for end in ("\n\n", "\n")}
        if is_code(match.start("marks")) or any(_BEGINS.match(text, start) for start in starts):
            return match.group()
        return f" {match['marks'].strip()}{match['end']}"

    return _AFTER_END.sub(moved, text)


def _listed(written: str) -> list[int]:
    cited: list[int] = []
    for group in re.split(r"\s*(?:,|;|、|，|and|&)\s*", written, flags=re.IGNORECASE):
        first, *rest = [int(number) for number in re.findall(r"\d+", group)]
        for last in rest:
            cited += _range(first, last)[:-1]
            first = last
        cited.append(first)
    return cited


def _range(first: int, last: int) -> list[int]:
    return list(range(first, last + 1)) if 0 < last - first < WIDEST_RANGE else [first, last]
