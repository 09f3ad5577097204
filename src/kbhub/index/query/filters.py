"""Filters in queries: their syntax and the meaning of their values. Pure; applied by `index.selection`.

A filter is `key:value`; a list `key:a,b` matches either, several filters must all match, and a leading `-` negates.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from kbhub.documents.filters import parse_rules
from kbhub.index.query.tokens import fold
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

ALWAYS = frozenset({"tag", "path", "base", "kind", "age"})
"""Keys that always make a filter; others only if a document has the key."""

SYNONYMS = {"tags": "tag"}
"""Aliases of keys."""

SINGLE = frozenset({"base", "kind"})
"""Keys with exactly one value per document: two such filters are joined as alternatives, since both can never match."""

ANY = "*"
"""The value that matches every document with the key."""

DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
"""Days per unit of an age; a year is the age from which a document counts as stale."""

MOST_VALUES = 64
"""Most values of a filter; a word with more is treated as text."""

MOST_DIGITS = 300
"""Most digits of a number; longer ones do not fit a float and are text."""

Operator = Literal["=", ">", ">=", "<", "<=", ".."]

COMPARISONS: tuple[Operator, ...] = (">", ">=", "<", "<=")

_KEY = r"[^\W\d_][\w.-]*+"
_QUOTED_OR_BARE = r'(?:"[^"]*"|[^\s",]+)'
_VALUE = rf"(?:[<>]=?)?{_QUOTED_OR_BARE}"
FILTER = rf"(?P<key>{_KEY}):(?!//|:|\\)(?P<values>{_VALUE}(?:,{_VALUE})*+,?)(?!\S)"
"""Syntax of a filter; excludes `http://…`, `std::…` and `C:\\…`."""

_PART = re.compile(rf"([<>]=?)?({_QUOTED_OR_BARE})")
_PLAIN = re.compile(r"[\w/#*?@+-][\w./#*?\[\]@+-]*")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?")
_DATE = re.compile(r"\d{4}(?:-\d\d(?:-\d\d(?:[t ]\d\d(?::\d\d(?::\d\d)?)?)?)?)?")
_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([dwmy])?")
_WILD = re.compile(r"[*?\[]")


@struct
class FilterValue:
    """One value of a filter."""

    text: str
    """As written, without quotes and operator; for a range, its lower end (may be empty)."""
    operator: Operator = "="
    upper: str = ""
    """Upper end of a range (may be empty)."""

    def __str__(self) -> str:
        """Return the value in query syntax."""
        if self.operator == "..":
            return f"{self.text}..{self.upper}"
        bare = self.text if _PLAIN.fullmatch(self.text) and ".." not in self.text else f'"{self.text}"'
        return bare if self.operator == "=" else self.operator + bare


@struct
class Filter:
    """A condition on documents."""

    key: str
    """Folded; `tag`, `path`, `base`, `kind`, `age`, or a key of the front matter (`a.b` of a nested one)."""
    values: tuple[FilterValue, ...]
    """Alternatives, any of which must match."""
    excluded: bool = False
    """Whether matching documents are excluded instead."""

    def __str__(self) -> str:
        """Return the filter in query syntax."""
        return f"{'-' if self.excluded else ''}{self.key}:{','.join(map(str, self.values))}"


def read_filter(key: str, values: str, *, excluded: bool = False) -> Filter | None:
    """Parse a filter from the texts on both sides of the colon, the right one in the syntax of `FILTER`.

    None if the value is empty (`tag:""`) or an invalid age (`age:old`), so that the word is text.
    """
    name = fold(key)
    name = SYNONYMS.get(name, name)
    options = dict.fromkeys(_value(name, part[1] or "", part[2]) for part in _PART.finditer(values))
    non_empty = [value for value in options if value.upper or value.text.strip(" /#")]
    # Case folding may turn letters into other characters.
    if not non_empty or len(options) > MOST_VALUES or not re.fullmatch(_KEY, name):
        return None
    if name == "age" and not all(map(_is_age, options)):
        return None
    return Filter(name, tuple(non_empty), excluded)


def joined(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    """Drop duplicates, and merge filters on single-value keys."""
    kept: dict[Filter, None] = {}
    for candidate in filters:
        same = next(
            (other for other in kept if other.key == candidate.key and not (other.excluded or candidate.excluded)), None
        )
        if same and candidate.key in SINGLE:
            kept = {
                (
                    Filter(candidate.key, tuple(dict.fromkeys(same.values + candidate.values)))
                    if other == same
                    else other
                ): None
                for other in kept
            }
        else:
            kept[candidate] = None
    return tuple(kept)


def number_of(text: str) -> float | None:
    """Return a value as a number, or None if it is not one."""
    return float(text) if len(text) <= MOST_DIGITS and _NUMBER.fullmatch(text.casefold()) else None


def date_of(text: str) -> str | None:
    """Return a value as the beginning of an ISO date (`2024`, `2024-05`), or None if it is not one."""
    folded = fold(text)
    return folded.replace(" ", "t") if _DATE.fullmatch(folded) else None


def days_of(text: str) -> float | None:
    """Return the days of an age such as `30d`, `2w`, `6m` (months of 30 days), `1y`, or None if it is not one."""
    match = _AGE.fullmatch(fold(text))
    return float(match[1]) * DAYS[match[2] or "d"] if match else None


def path_test(value: str) -> Callable[[str], bool]:
    """Return a function that tests whether a path matches `path:value`, case-insensitively.

    The value is a path prefix, or with `*`, `?` or `[` a pattern as in `.gitignore`, which includes everything below a
    matching folder.
    """
    prefix = path_prefix(value)
    if _WILD.search(prefix):
        # An unescaped mark would make it a comment or a negation.
        rules = parse_rules([f"\\{prefix}" if prefix[0] in "#!" else prefix.removesuffix("/")], "path")
        if rules:
            search = rules[0].regex.search
            return lambda path: search(fold(path)) is not None
    return lambda path: fold(path).startswith(prefix)


def path_prefix(value: str) -> str:
    """Return the folded value of a path filter, relative to the base's folder."""
    return fold(value).removeprefix("./").lstrip("/")


def is_pattern(value: str) -> bool:
    """Return whether the value of a path filter is a pattern rather than a prefix."""
    return _WILD.search(value) is not None


def selected_bases(filters: Iterable[Filter], names: Collection[str]) -> bool:
    """Return whether a base with this id and these other names is selected by the filters; other keys are ignored."""
    folded = {fold(name) for name in names}
    return all(
        any(value.text == ANY or fold(value.text) in folded for value in base_filter.values) != base_filter.excluded
        for base_filter in filters
        if base_filter.key == "base"
    )


def _value(key: str, operator: str, written: str) -> FilterValue:
    quoted = written.startswith('"')
    text = written.strip('"') if quoted else written
    comparable = _is_age if key == "age" else _is_comparable
    if key in ALWAYS and key != "age":
        return FilterValue(operator + text)
    if not quoted and not operator and ".." in text:
        lower, _, upper = text.partition("..")
        value = FilterValue(lower, "..", upper)
        if comparable(value):
            return value
    for comparison in COMPARISONS:
        if operator == comparison and comparable(FilterValue(text)):
            return FilterValue(text, comparison)
    return FilterValue(operator + text)


def _ends(value: FilterValue) -> list[str]:
    return [end for end in (value.text, value.upper) if end] if value.operator == ".." else [value.text]


def _is_comparable(value: FilterValue) -> bool:
    ends = _ends(value)
    return bool(ends) and all(number_of(end) is not None or date_of(end) is not None for end in ends)


def _is_age(value: FilterValue) -> bool:
    ends = _ends(value)
    return bool(ends) and all(days_of(end) is not None for end in ends)
