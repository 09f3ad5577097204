"""Run files in TREC format: `query Q0 document rank score tag`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kbhub.errors import DatasetError
from kbhub.workspace.places import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from kbhub.evaluation.asking import Answer

SCORE_STEP = 1e-6
"""Minimum difference between the scores of a query, because tools sort by score and must keep our order."""

_UNSAFE = re.compile(r"[\s%]")
_ESCAPED = re.compile(r"(?:%[0-9A-F]{2})+")


def write_run(file: Path, answers: Iterable[Answer], tag: str) -> None:
    """Write a run file.

    Args:
        file: the file, which is written atomically and replaces an existing one.
        answers: the rankings.
        tag: name of the run; whitespace becomes `-`.

    Raises:
        DatasetError: it cannot be written.
    """
    name = re.sub(r"\s+", "-", tag)
    lines = []
    for answer in answers:
        score = float("inf")
        for rank, (item, value) in enumerate(zip(answer.ranked, answer.scores, strict=True), 1):
            score = min(value, score - SCORE_STEP)
            lines.append(f"{_escaped(answer.query.id)} Q0 {_escaped(item)} {rank} {score:.6f} {name}\n")
    try:
        write_atomically(file, "".join(lines))
    except OSError as error:
        raise DatasetError(file, f"cannot be written: {error.strerror}") from error


def read_run(file: Path) -> Mapping[str, tuple[str, ...]]:
    """Read a run file.

    Returns:
        Query → documents, by descending score, then by rank.

    Raises:
        DatasetError: the file cannot be read, or a line is invalid.
    """
    runs: dict[str, list[tuple[float, int, str]]] = {}
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise DatasetError(file, f"cannot be read: {reason}") from error
    for number, line in enumerate(text.split("\n"), 1):
        fields = line.split()
        if not fields:
            continue
        try:
            query, _, item, rank, score, _ = fields
            runs.setdefault(_plain(query), []).append((-float(score), int(rank), _plain(item)))
        except ValueError:
            expected = "expected six fields: query Q0 document rank score tag"
            raise DatasetError(file, expected, number) from None
    return {query: tuple(dict.fromkeys(item for _, _, item in sorted(rows))) for query, rows in runs.items()}


def run_file(file: Path, dataset: str, plan: str, *, alone: bool) -> Path:
    """Return the file of a run, with data set and plan in its name if there are several runs.

    Args:
        file: the file given by the user.
        dataset: name of the data set.
        plan: name of the plan.
        alone: whether this is the only run.
    """
    if alone:
        return file
    middle = ".".join(re.sub(r"[^\w.+-]+", "-", name).strip("-") for name in (dataset, plan))
    return file.with_name(f"{file.stem}.{middle}{file.suffix}")


def _escaped(name: str) -> str:
    """Percent-encode whitespace and `%`, since spaces separate fields."""
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match.group().encode()), name)


def _plain(name: str) -> str:
    return _ESCAPED.sub(lambda match: bytes.fromhex(match.group().replace("%", "")).decode("utf-8", "replace"), name)
