"""Selection of the documents that match a query's filters and exclusions, before ranking.

All functions need an index within a snapshot; a selection of None is everything.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbhub.index.engine import Index, numbers
from kbhub.index.query.parser import (
    ANY,
    Filter,
    FilterValue,
    Term,
    date_of,
    days_of,
    is_pattern,
    number_of,
    path_prefix,
    path_test,
)
from kbhub.index.query.tokens import fold
from kbhub.index.rows import Selection
from kbhub.values import DAY_SECONDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

DATED = "coalesce(dated, committed, abs(mtime_ns) / 1000000000)"
"""Date of a document in seconds since the epoch: its own, else its last commit, else its mtime."""

_SPELLINGS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
"""YAML's other spellings of true and false."""

Condition = tuple[str, list[Any]]
"""SQL on the table `document`, and its values."""


def select(
    index: Index,
    names: Collection[str],
    filters: Sequence[Filter],
    excluded: Sequence[Term],
    now: float,
    elsewhere: Sequence[str] = (),
) -> Selection | None:
    """Apply filters and exclusions to a base; return None if everything matches.

    Args:
        index: its index, in a snapshot.
        names: its id and other names, for `base:`.
        filters: filters that a document must all match.
        excluded: terms a document must not have in any chunk, its title, path or tags.
        now: seconds since the epoch, for `age:`.
        elsewhere: paths of documents that belong to another base.
    """
    if not (filters or excluded or elsewhere):
        return None
    folded = {fold(name) for name in names}
    for part in filters:
        if part.key == "base":
            named = any(value.text == ANY or fold(value.text) in folded for value in part.values)
            if named == part.excluded:
                return Selection(array("q"), 0)
    conditions = [_condition(index, part, now) for part in filters if part.key != "base"]
    if excluded:
        conditions.append(("id NOT IN @ids", [_documents_with(index, excluded)]))
    filtered = bool(conditions)
    if elsewhere:
        conditions.append(("path NOT IN @texts", [list(elsewhere)]))
    if not conditions:
        return None
    rows = index.rows(
        "SELECT id FROM document WHERE " + " AND ".join(f"({sql})" for sql, _ in conditions),
        *(value for _, values in conditions for value in values),
    )
    columns = index.columns()
    mask = np.isin(columns.documents, np.array([number for (number,) in rows], np.int32)) & columns.alive
    return Selection(array("q", columns.ids[mask].tolist()), len(np.unique(columns.documents[mask])), filtered)


def paths_of(index: Index, selection: Selection | None) -> list[str]:
    """Return the paths of the selected documents."""
    return list(index.paths_of(np.unique(_selected(index, selection)[1]).tolist()).values())


def known_keys(index: Index, keys: Iterable[str]) -> frozenset[str]:
    """Return those folded keys that occur in the front matter of an index's documents."""
    rows = index.rows(
        "SELECT DISTINCT key FROM property WHERE key IN @texts",
        sorted(keys),
    )
    return frozenset(key for (key,) in rows)


def newest(index: Index, selection: Selection | None, limit: int) -> list[tuple[int, int]]:
    """Return (id of the first chunk, seconds since the epoch) of the newest documents, ties by path.

    This answers a query with filters but no terms.
    """
    chunks, documents = _selected(index, selection)
    numbered, first = np.unique(documents, return_index=True)
    rows = index.rows(f"SELECT id, {DATED}, path FROM document WHERE id IN @ids", numbers(numbered))
    first_of = dict(zip(numbered.tolist(), chunks[first].tolist(), strict=True))
    rows.sort(key=lambda row: (-row[1], row[2]))
    return [(first_of[number], dated) for number, dated, _ in rows[:limit]]


def _selected(index: Index, selection: Selection | None) -> tuple[NDArray[np.signedinteger], NDArray[np.int32]]:
    """Return the ids of the chunks that may be found, ascending, and of their documents."""
    columns = index.columns()
    mask = columns.alive if selection is None else columns.selected(selection.chunks)
    return columns.ids[mask], columns.documents[mask]


def _condition(index: Index, condition_filter: Filter, now: float) -> Condition:
    if condition_filter.key == "path":
        sql, values = _either([_path(index, value.text) for value in condition_filter.values])
    elif condition_filter.key == "kind":
        kinds = [fold(value.text) for value in condition_filter.values]
        sql, values = ("true", []) if ANY in kinds else ("kind IN @texts", [kinds])
    elif condition_filter.key == "age":
        sql, values = _either([_age(value, now) for value in condition_filter.values])
    else:
        # The key in each alternative, or SQLite would go through all values of the key.
        rows = [
            condition for value in condition_filter.values for condition in _properties(condition_filter.key, value)
        ]
        true, values = _either([(f"key = ? AND ({sql})", [condition_filter.key, *values]) for sql, values in rows])
        sql = f"id IN (SELECT document_id FROM property WHERE @each key IN @texts AND ({true}))"
        values = [[condition_filter.key], *values]
    return (f"NOT ({sql})" if condition_filter.excluded else sql), values


def _documents_with(index: Index, terms: Sequence[Term]) -> NDArray[np.int32]:
    documents = index.columns().documents
    return np.unique(np.concatenate([documents[index.postings(term).positions] for term in terms]))


def _either(conditions: Sequence[Condition]) -> Condition:
    return " OR ".join(f"({sql})" for sql, _ in conditions), [value for _, values in conditions for value in values]


def _path(index: Index, value: str) -> Condition:
    prefix = path_prefix(value)
    if prefix.isascii() and not is_pattern(prefix):
        return "substr(lower(path), 1, ?) = ?", [len(prefix), prefix]
    test = path_test(value)
    matching = [number for number, path in index.rows("SELECT id, path FROM document") if test(path)]
    return "id IN @ids", [numbers(matching)]


def _age(value: FilterValue, now: float) -> Condition:
    age = f"@greatest(0, (? - {DATED}) / {DAY_SECONDS})"
    return _compared(value, age, [int(now)], days_of)


def _properties(key: str, value: FilterValue) -> list[Condition]:
    """Return alternative conditions on a row of the table `property` with the right key."""
    if value.operator != "=":
        return [_compared(value, "@number", [], number_of), _dated(value)]
    text = fold(value.text)
    if text == ANY:
        return [("true", [])]
    if key == "tag":
        name = " ".join(text.lstrip("#").rstrip("/").split())
        return [("value = ?", [name]), ("value > ? AND value < ?", [f"{name}/", f"{name}0"])]
    if key == "namespace":
        name = text.strip("/")
        return [("value = ?", [name]), ("value > ? AND value < ?", [f"{name}/", f"{name}0"])]
    same: list[Condition] = [("value IN (?, ?)", [text, _SPELLINGS.get(text, text)])]
    if (number := number_of(text)) is not None:
        same.append(("@number = ?", [number]))
    if (date := date_of(text)) is not None:
        same.append((f"@iso_date AND substr(value, 1, {len(date)}) = ?", [date]))
    return same


def _compared(value: FilterValue, what: str, before: list[Any], read: Callable[[str], float | None]) -> Condition:
    """Compare a number; false if an end is not a number."""
    return _all([(f"{what} {sign} ?", [*before, read(end)]) for sign, end in _ends(value)])


def _dated(value: FilterValue) -> Condition:
    """Compare a date at the precision of the value: `>2024` is after that year, `<=2024-05` includes that May."""
    ends = [(sign, date_of(end)) for sign, end in _ends(value)]
    compared = [(f"substr(value, 1, {len(date or '')}) {sign} ?", [date]) for sign, date in ends]
    return _all([("@iso_date", []), *compared])


def _ends(value: FilterValue) -> list[tuple[str, str]]:
    """Return (comparison, end) for each end of a value; for an empty range, an end that nothing matches."""
    if value.operator != "..":
        return [(value.operator, value.text)]
    return [(sign, end) for sign, end in ((">=", value.text), ("<=", value.upper)) if end] or [("=", "")]


def _all(conditions: Sequence[Condition]) -> Condition:
    return " AND ".join(f"({sql})" for sql, _ in conditions), [value for _, values in conditions for value in values]
