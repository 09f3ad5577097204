"""Which documents a query's filters and exclusions leave, found before anything is ranked."""

from __future__ import annotations

import json
from array import array
from typing import TYPE_CHECKING, Any

import apsw

from kbhub.query.filtering import ANY, date_of, days_of, is_pattern, number_of, path_prefix, path_test, selected_bases
from kbhub.query.tokens import fold
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from kbhub.index.reader import Index
    from kbhub.query.filtering import Filter, Value
    from kbhub.query.parsing import Term

DAY_SECONDS = 86_400

DATED = "coalesce(dated, committed, abs(mtime_ns) / 1000000000)"
"""Day of a document, seconds since the epoch: what it says, else its last commit, else its last change."""

_NUMERIC = "CASE WHEN typeof(value) <> 'text' OR value = CAST(CAST(value AS NUMERIC) AS TEXT) THEN 0 + value END"
"""The number that a property is, or that it is the text of."""

_ISO_DATE = "value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]*'"

_SPELLINGS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
"""Words that YAML reads as true or false."""

Condition = tuple[str, list[Any]]
"""SQL over the table `document`, and its values."""


@struct
class Selection:
    """What a query may find in one index, as of one snapshot."""

    chunks: array[int]
    """Ids of the chunks, ascending."""
    documents: int
    """Documents that they are of."""
    filtered: bool = True
    """Whether a filter or an exclusion chose them."""


def select(
    index: Index,
    names: Collection[str],
    filters: Sequence[Filter],
    excluded: Sequence[Term],
    now: float,
    elsewhere: Sequence[str] = (),
) -> Selection | None:
    """Find what filters and exclusions leave of a base.

    Args:
        index: its index, within a snapshot.
        names: its id and other names, for `base:`.
        filters: all of which a document must fulfil.
        excluded: terms of which a document must have none, in any of its chunks, its title, path or tags.
        now: seconds since the epoch, for `age:`.
        elsewhere: paths of documents that are found in another base.

    Returns:
        What is left; none if that is everything.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    if not selected_bases(filters, names):
        return Selection(array("q"), 0)
    conditions = [_condition(index, one, now) for one in filters if one.key != "base"]
    if excluded:
        lacking = "SELECT document_id FROM chunk WHERE id IN (SELECT rowid FROM fts WHERE fts MATCH ?)"
        conditions.append((f"id NOT IN ({lacking})", [" OR ".join(term.match for term in excluded)]))
    filtered = bool(conditions)
    if elsewhere:
        conditions.append(("path NOT IN (SELECT value FROM json_each(?))", [json.dumps(list(elsewhere))]))
    if not conditions:
        return None
    documents = "SELECT id FROM document WHERE " + " AND ".join(f"({sql})" for sql, _ in conditions)
    rows = index._rows(
        f"SELECT id, document_id FROM chunk WHERE document_id IN ({documents}) ORDER BY id",
        *(value for _, values in conditions for value in values),
    )
    return Selection(array("q", [row[0] for row in rows]), len({row[1] for row in rows}), filtered)


def paths_of(index: Index, selection: Selection | None) -> list[str]:
    """Give the paths of the documents of a selection, or of all.

    Args:
        index: it, within a snapshot.
        selection: of its documents; none for all.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    where, values = within("chunk.id", selection)
    rows = index._rows(
        f"SELECT path FROM document WHERE id IN (SELECT document_id FROM chunk WHERE 1 {where})", *values
    )
    return [path for (path,) in rows]


def known_keys(index: Index, keys: Iterable[str]) -> frozenset[str]:
    """Say which keys occur in the front matter of an index's documents.

    Args:
        index: it, within a snapshot.
        keys: folded.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    rows = index._rows(
        "SELECT value FROM json_each(?) AS wanted WHERE EXISTS (SELECT 1 FROM property WHERE key = wanted.value)",
        json.dumps(sorted(keys)),
    )
    return frozenset(key for (key,) in rows)


def newest(index: Index, selection: Selection | None, limit: int) -> list[tuple[int, int]]:
    """List documents for a query that has filters and no terms: (id of the first chunk, seconds since the epoch).

    Args:
        index: an index, within a snapshot.
        selection: of its documents; none for all.
        limit: documents at most.

    Returns:
        Newest first, those of one time by path.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    where, values = within("chunk.id", selection)
    return index._rows(
        f"SELECT min(chunk.id), {DATED} FROM chunk JOIN document ON document.id = document_id WHERE 1 {where} "
        "GROUP BY document_id ORDER BY 2 DESC, path LIMIT ?",
        *values,
        limit,
    )


def within(column: str, selection: Selection | None) -> Condition:
    """Give the end of a WHERE clause that restricts chunks to a selection, empty for none.

    Args:
        column: the chunk's id. For a row of FTS5 it is `+rowid`: without the plus SQLite asks FTS5 for one id after
            the other (120 s at 50,000 of 100,000 chunks, against 40 ms).
        selection: what may be found.
    """
    if selection is None:
        return "", []
    if not selection.chunks:
        return "AND 0", []
    # Ids as an array: a temporary table would save some 6 ms a statement at 50,000 ids, and stay on the connection.
    return f"AND {column} IN (SELECT value FROM carray(?))", [apsw.carray(selection.chunks)]


def _condition(index: Index, one: Filter, now: float) -> Condition:
    if one.key == "path":
        sql, values = _either([_path(index, value.text) for value in one.values])
    elif one.key == "kind":
        kinds = [fold(value.text) for value in one.values]
        sql, values = ("1", []) if ANY in kinds else ("kind IN (SELECT value FROM json_each(?))", [json.dumps(kinds)])
    elif one.key == "age":
        sql, values = _either([_age(value, now) for value in one.values])
    else:
        # The key in each alternative, or SQLite would go through all values of the key.
        rows = [condition for value in one.values for condition in _properties(one.key, value)]
        true, values = _either([(f"key = ? AND ({sql})", [one.key, *values]) for sql, values in rows])
        sql = f"id IN (SELECT document_id FROM property WHERE {true})"
    return (f"NOT ({sql})" if one.excluded else sql), values


def _either(conditions: Sequence[Condition]) -> Condition:
    return " OR ".join(f"({sql})" for sql, _ in conditions), [value for _, values in conditions for value in values]


def _path(index: Index, value: str) -> Condition:
    prefix = path_prefix(value)
    if prefix.isascii() and not is_pattern(prefix):
        return "substr(lower(path), 1, ?) = ?", [len(prefix), prefix]
    test = path_test(value)
    found = [number for number, path in index._rows("SELECT id, path FROM document") if test(path)]
    return "id IN (SELECT value FROM json_each(?))", [json.dumps(found)]


def _age(value: Value, now: float) -> Condition:
    age = f"max(0, (? - {DATED}) / {DAY_SECONDS})"
    return _compared(value, age, [int(now)], days_of)


def _properties(key: str, value: Value) -> list[Condition]:
    """Give conditions on a row of the table `property` whose key is right, of which one must be true."""
    if value.operator != "=":
        return [_compared(value, _NUMERIC, [], number_of), _dated(value)]
    text = fold(value.text)
    if text == ANY:
        return [("1", [])]
    if key == "tag":
        name = " ".join(text.lstrip("#").rstrip("/").split())
        return [("value = ?", [name]), ("value > ? AND value < ?", [f"{name}/", f"{name}0"])]
    if key == "namespace":
        name = text.strip("/")
        return [("value = ?", [name]), ("value > ? AND value < ?", [f"{name}/", f"{name}0"])]
    same: list[Condition] = [("value IN (?, ?)", [text, _SPELLINGS.get(text, text)])]
    if (number := number_of(text)) is not None:
        same.append((f"{_NUMERIC} = ?", [number]))
    if (date := date_of(text)) is not None:
        same.append((f"{_ISO_DATE} AND substr(value, 1, {len(date)}) = ?", [date]))
    return same


def _compared(value: Value, what: str, before: list[Any], read: Callable[[str], float | None]) -> Condition:
    """Compare a number; nothing is true of an end that is none."""
    return _all([(f"{what} {sign} ?", [*before, read(end)]) for sign, end in _ends(value)])


def _dated(value: Value) -> Condition:
    """Compare a date as far as the value is exact: `>2024` is after that year, `<=2024-05` at most in that May."""
    ends = [(sign, date_of(end)) for sign, end in _ends(value)]
    compared = [(f"substr(value, 1, {len(date or '')}) {sign} ?", [date]) for sign, date in ends]
    return _all([(_ISO_DATE, []), *compared])


def _ends(value: Value) -> list[tuple[str, str]]:
    """Give (comparison, end) for each end of a value that is said; of none, one that nothing fulfils."""
    if value.operator != "..":
        return [(value.operator, value.text)]
    return [(sign, end) for sign, end in ((">=", value.text), ("<=", value.upper)) if end] or [("=", "")]


def _all(conditions: Sequence[Condition]) -> Condition:
    return " AND ".join(f"({sql})" for sql, _ in conditions), [value for _, values in conditions for value in values]
