"""Filters as words of a query: what they look like, and what their values mean. Pure; `index.selection` applies them.

A filter is `key:value`, a list `key:a,b` means either, two filters must both hold, and `-` before one turns it round.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from kbhub.ignore import parse_rules
from kbhub.query.tokens import fold
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

ALWAYS = frozenset({"tag", "path", "base", "kind", "age"})
"""Keys that make a filter of a word whatever the documents say; others only if a document has the key."""

SYNONYMS = {"tags": "tag"}
"""Other spellings of keys."""

SINGLE = frozenset({"base", "kind"})
"""Keys of which a document has exactly one value: two such filters can only mean either, for both holds never."""

ANY = "*"
"""The value that every document with the key has."""

DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
"""Days in the units of an age; a year as long as the age from which a document is called stale."""

MOST_VALUES = 64
"""Values that a filter lists; a word with more is text that happens to have its form."""

MOST_DIGITS = 300
"""Digits of a number; longer ones are no floats and so are text."""

Operator = Literal["=", ">", ">=", "<", "<=", ".."]

COMPARISONS: tuple[Operator, ...] = (">", ">=", "<", "<=")

_KEY = r"[^\W\d_][\w.-]*+"
_QUOTED_OR_BARE = r'(?:"[^"]*"|[^\s",]+)'
_VALUE = rf"(?:[<>]=?)?{_QUOTED_OR_BARE}"
FILTER = rf"(?P<key>{_KEY}):(?!//|:|\\)(?P<values>{_VALUE}(?:,{_VALUE})*+,?)(?!\S)"
"""What has the form of a filter; `http://…`, `std::…` and `C:\\…` have not."""

_PART = re.compile(rf"([<>]=?)?({_QUOTED_OR_BARE})")
_PLAIN = re.compile(r"[\w/#*?@+-][\w./#*?\[\]@+-]*")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?")
_DATE = re.compile(r"\d{4}(?:-\d\d(?:-\d\d(?:[t ]\d\d(?::\d\d(?::\d\d)?)?)?)?)?")
_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([dwmy])?")
_WILD = re.compile(r"[*?\[]")


@struct
class Value:
    """One value of a filter."""

    text: str
    """As it was written, without quotes and operator; of a range, its lower end (may be empty)."""
    operator: Operator = "="
    upper: str = ""
    """Upper end of a range (may be empty)."""

    def __str__(self) -> str:
        """Give it as it is written in a query."""
        if self.operator == "..":
            return f"{self.text}..{self.upper}"
        bare = self.text if _PLAIN.fullmatch(self.text) and ".." not in self.text else f'"{self.text}"'
        return bare if self.operator == "=" else self.operator + bare


@struct
class Filter:
    """A condition on documents."""

    key: str
    """Folded; `tag`, `path`, `base`, `kind`, `age`, or a key of the front matter (`a.b` of a nested one)."""
    values: tuple[Value, ...]
    """Any of them must be true of the document."""
    excluded: bool = False
    """Whether documents that fulfil it are left out, and not the others."""

    def __str__(self) -> str:
        """Give it as it is written in a query."""
        return f"{'-' if self.excluded else ''}{self.key}:{','.join(map(str, self.values))}"


def read_filter(key: str, values: str, *, excluded: bool = False) -> Filter | None:
    """Make a filter of the two sides of a word's colon.

    Args:
        key: what stands before it.
        values: what stands after it, in the form of `FILTER`.
        excluded: whether a dash stands before it.

    Returns:
        The filter; none if the value says nothing (`tag:""`) or is no age (`age:old`), and so the word is text.
    """
    name = fold(key)
    name = SYNONYMS.get(name, name)
    found = dict.fromkeys(_value(name, part[1] or "", part[2]) for part in _PART.finditer(values))
    meaning = [value for value in found if value.upper or value.text.strip(" /#")]
    # Some letters are no longer letters when they are folded.
    if not meaning or len(found) > MOST_VALUES or not re.fullmatch(_KEY, name):
        return None
    if name == "age" and not all(map(_is_age, found)):
        return None
    return Filter(name, tuple(meaning), excluded)


def joined(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    """Give filters without repetitions, those on a key with a single value as one."""
    kept: dict[Filter, None] = {}
    for one in filters:
        same = next((other for other in kept if other.key == one.key and not (other.excluded or one.excluded)), None)
        if same and one.key in SINGLE:
            kept = {
                (Filter(one.key, tuple(dict.fromkeys(same.values + one.values))) if other == same else other): None
                for other in kept
            }
        else:
            kept[one] = None
    return tuple(kept)


def number_of(text: str) -> float | None:
    """Give the number that a value is, none if it is none."""
    return float(text) if len(text) <= MOST_DIGITS and _NUMBER.fullmatch(text.casefold()) else None


def date_of(text: str) -> str | None:
    """Give the date that a value is, as the beginning of an ISO date (`2024`, `2024-05`); none if it is none."""
    folded = fold(text)
    return folded.replace(" ", "t") if _DATE.fullmatch(folded) else None


def days_of(text: str) -> float | None:
    """Give the days of an age such as `30d`, `2w`, `6m` (months of 30 days), `1y`; none if it is none."""
    found = _AGE.fullmatch(fold(text))
    return float(found[1]) * DAYS[found[2] or "d"] if found else None


def path_test(value: str) -> Callable[[str], bool]:
    """Give what says whether a path fulfils `path:value`, upper and lower case being the same.

    Args:
        value: what paths begin with; with `*`, `?` or `[` a pattern as in `.gitignore`, which takes all below a
            folder that it names.
    """
    wanted = path_prefix(value)
    if _WILD.search(wanted):
        # A mark at the start would make it a comment or turn it round.
        rules = parse_rules([f"\\{wanted}" if wanted[0] in "#!" else wanted.removesuffix("/")], "path")
        if rules:
            search = rules[0].regex.search
            return lambda path: search(fold(path)) is not None
    return lambda path: fold(path).startswith(wanted)


def path_prefix(value: str) -> str:
    """Give the folded value of a path filter, from the base's folder on."""
    return fold(value).removeprefix("./").lstrip("/")


def is_pattern(value: str) -> bool:
    """Whether the value of a path filter is a pattern and not the beginning of a path."""
    return _WILD.search(value) is not None


def selected_bases(filters: Iterable[Filter], names: Collection[str]) -> bool:
    """Say whether a base is among those that the filters name.

    Args:
        filters: of a query; those of other keys say nothing here.
        names: id and other names of the base.
    """
    folded = {fold(name) for name in names}
    return all(
        any(value.text == ANY or fold(value.text) in folded for value in one.values) != one.excluded
        for one in filters
        if one.key == "base"
    )


def _value(key: str, operator: str, written: str) -> Value:
    quoted = written.startswith('"')
    text = written.strip('"') if quoted else written
    comparable = _is_age if key == "age" else _is_comparable
    if key in ALWAYS and key != "age":
        return Value(operator + text)
    if not quoted and not operator and ".." in text:
        lower, _, upper = text.partition("..")
        value = Value(lower, "..", upper)
        if comparable(value):
            return value
    for known in COMPARISONS:
        if operator == known and comparable(Value(text)):
            return Value(text, known)
    return Value(operator + text)


def _ends(value: Value) -> list[str]:
    return [end for end in (value.text, value.upper) if end] if value.operator == ".." else [value.text]


def _is_comparable(value: Value) -> bool:
    ends = _ends(value)
    return bool(ends) and all(number_of(end) is not None or date_of(end) is not None for end in ends)


def _is_age(value: Value) -> bool:
    ends = _ends(value)
    return bool(ends) and all(days_of(end) is not None for end in ends)
