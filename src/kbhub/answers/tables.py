"""Quoting pipe tables: the header, and the rows that answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.answers.tokens import estimated_tokens
from kbhub.index.query import STOP_WORDS, searchable, stems

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from kbhub.answers.models import Weight

FEW_ROWS = 6
"""Rows up to which a table is quoted whole if no word of the question distinguishes its rows; longer tables are cut by
meaning.
"""

NEAREST_ROWS = 3
"""Rows of a longer table that are quoted for their meaning alone."""

ROW_SHARE = 0.5
"""Minimum worth of a quoted row, as a share of the best one's: a question may ask for two things."""

LEFT_OUT = "…"
"""First cell of the row that marks omitted rows."""


def is_table(text: str) -> bool:
    """Return whether a block is, or ends with, a pipe table.

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

    Prefers rows with a word of the question that is not in the headings above; then, in a long table, rows with any of
    its words; then the rows nearest in meaning.

    Args:
        text: the table, with what announces it.
        weights: words of the question.
        above: stems of the headings above the table.
        room: estimated tokens that it may take.
        near: returns the nearness of texts to the question; None to use words alone.
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
    weights: Sequence[Weight],
    above: Collection[str],
    near: Callable[[Sequence[str]], Sequence[float]] | None,
) -> list[int]:
    """Return the indices of the rows that answer."""
    every = list(range(len(rows)))
    words = [frozenset(stems(searchable(row))) for row in rows]
    content = [weight for weight in weights if not STOP_WORDS.issuperset(weight.stems)] or list(weights)
    own = [weight for weight in content if not set(above).issuperset(weight.stems)]
    if best := _best([_worth(row, own) for row in words]):
        return best
    if len(rows) <= FEW_ROWS:
        return every
    if best := _best([_worth(row, content) for row in words]):
        return best
    if near is None:
        return every
    cosines = near(rows)
    return sorted(every, key=lambda at: -cosines[at])[:NEAREST_ROWS] if cosines else every


def _worth(row: frozenset[str], weights: Sequence[Weight]) -> float:
    return sum(
        weight.weight * len(row.intersection(weight.stems)) / len(weight.stems) for weight in weights if weight.stems
    )


def _best(worths: Sequence[float]) -> list[int]:
    most = max(worths, default=0.0)
    return [at for at, worth in enumerate(worths) if worth >= ROW_SHARE * most] if most > 0 else []
