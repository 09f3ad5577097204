"""Pipe tables that are quoted: the header, and the rows that answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.answers.tokens import estimated_tokens
from kbhub.query import STOP_WORDS, searchable, stems

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from kbhub.answers.models import Weight

FEW_ROWS = 6
"""Rows of a table that is quoted whole where no word of the question tells its rows apart, and rows by meaning else."""

NEAREST_ROWS = 3
"""Rows of a longer table that are quoted for their meaning alone."""

ROW_SHARE = 0.5
"""Worth, as a share of the best row's, from which a row is quoted: a question may ask for two things."""

LEFT_OUT = "…"
"""First cell of the row that stands for rows left out."""


def is_table(text: str) -> bool:
    """Say whether a block is, or ends with, a pipe table.

    Args:
        text: a block of Markdown.
    """
    return "|" in text.rsplit("\n", 1)[-1] and not text.rstrip().endswith(("```", "~~~"))


def answering(
    text: str,
    weights: Sequence[Weight],
    above: Collection[str],
    room: int,
    near: Callable[[Sequence[str]], Sequence[float]] | None = None,
) -> str:
    """Cut a table to its header and the rows that answer a question.

    Rows that have a word of the question which the headings above do not have answer; else those with any of its
    words, if the table is long; else, of a long table, those that are nearest in meaning.

    Args:
        text: the table, with what announces it.
        weights: words of the question.
        above: stems of the headings above the table.
        room: estimated tokens that it may take.
        near: gives how near each of some texts is to the question; none to go by words alone.
    """
    lines = text.split("\n")
    rule = next((at for at, line in enumerate(lines) if "-" in line and not line.strip("|-: \t>")), None)
    if rule is None:
        return text
    head, rows = lines[: rule + 1], [line for line in lines[rule + 1 :] if line.strip()]
    kept = _kept(rows, weights, above, near)
    room -= sum(estimated_tokens(line) + 1 for line in head)
    told: list[str] = []
    before = -1
    for at in sorted(kept):
        gap = [f"| {LEFT_OUT} |"] if at > before + 1 and before >= 0 else []
        room -= sum(estimated_tokens(line) + 1 for line in (*gap, rows[at]))
        if room <= 0:
            break
        told += [*gap, rows[at]]
        before = at
    return "\n".join([*head, *told]) if told else text


def _kept(
    rows: Sequence[str],
    weights: Sequence[Weight],
    above: Collection[str],
    near: Callable[[Sequence[str]], Sequence[float]] | None,
) -> list[int]:
    """Give the places of the rows that answer."""
    every = list(range(len(rows)))
    words = [frozenset(stems(searchable(row))) for row in rows]
    telling = [one for one in weights if not STOP_WORDS.issuperset(one.stems)] or list(weights)
    own = [one for one in telling if not set(above).issuperset(one.stems)]
    if found := _best([_worth(row, own) for row in words]):
        return found
    if len(rows) <= FEW_ROWS:
        return every
    if found := _best([_worth(row, telling) for row in words]):
        return found
    if near is None:
        return every
    cosines = near(rows)
    return sorted(every, key=lambda at: -cosines[at])[:NEAREST_ROWS] if cosines else every


def _worth(row: frozenset[str], weights: Sequence[Weight]) -> float:
    return sum(one.weight * len(row.intersection(one.stems)) / len(one.stems) for one in weights if one.stems)


def _best(worths: Sequence[float]) -> list[int]:
    most = max(worths, default=0.0)
    return [at for at, worth in enumerate(worths) if worth >= ROW_SHARE * most] if most > 0 else []
