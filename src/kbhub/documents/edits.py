"""Byte-exact edits of documents: of lines, and of front matter."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from typing import Any, Literal

import yaml

from kbhub.documents.frontmatter import LOADER, FrontMatter, read_front_matter
from kbhub.documents.markdown import decode, encoding_of
from kbhub.errors import WriteRefused
from kbhub.values import struct

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


@struct
class Text:
    """A document's lines, and its encoding and line endings to write them back."""

    lines: tuple[str, ...] = ()
    """Each with its line ending, which the last one may lack; numbered as by `parse_document`."""
    mark: bytes = b""
    encoding: str = "utf-8"

    @property
    def bare(self) -> list[str]:
        """The lines without their endings."""
        return [line.rstrip("\r\n") for line in self.lines]

    @property
    def front(self) -> FrontMatter:
        """The front matter."""
        return read_front_matter(self.bare)

    @property
    def newline(self) -> str:
        """The most common line ending, for new lines; the first one on a tie."""
        endings = Counter(line[len(line.rstrip("\r\n")) :] for line in self.lines)
        del endings[""]
        # After a line that ends in CR, an empty line with LF would be read as the second half of its ending.
        if endings["\r"] and len(+endings) > 1:
            return "\r\n"
        return endings.most_common(1)[0][0] if +endings else "\n"

    @property
    def ends_with_newline(self) -> bool:
        """Whether the last line has a line ending; true for an empty text."""
        return not self.lines or self.lines[-1].endswith(("\r", "\n"))

    def replaced(self, start: int, end: int, new: Sequence[str]) -> Text:
        """Return the text with lines `start` up to `end` (exclusive, from 0) replaced by others with their endings."""
        return replace(self, lines=(*self.lines[:start], *new, *self.lines[end:]))

    def encoded(self) -> bytes:
        """Return the bytes of the file."""
        return self.mark + "".join(self.lines).encode(self.encoding)


def lines_of(text: str) -> tuple[str, ...]:
    """Split a text into lines with their endings."""
    return tuple(_LINE.findall(text))


def text_of(ref: str, data: bytes) -> Text:
    """Decode a document's bytes so that they can be written back unchanged, or raise `WriteRefused`."""
    if problem := decode(data)[1]:
        raise WriteRefused(ref, f"an edit would lose bytes, because it cannot be read as text ({problem.rstrip('.')})")
    mark, encoding, _ = encoding_of(data)
    return Text(lines_of(data[len(mark) :].decode(encoding)), mark, encoding)


def check_writable_text(ref: str, text: str) -> None:
    """Raise `WriteRefused` if a text contains NUL or lone surrogates."""
    if "\0" in text:
        raise WriteRefused(ref, "the new text contains NUL characters; remove them")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WriteRefused(ref, "the new text contains half characters (lone surrogates); remove them") from None


MAX_DEPTH = 20
"""Nesting levels of a new value; real ones have two."""

_ONE_LINE = 1 << 30
"""Line width for dumped YAML, so that nothing is folded."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_BREAKS_OF_YAML = re.compile("[\x85\u2028\u2029]")
"""Line breaks in YAML only, which make its line numbers differ from ours."""

_Point = tuple[int, int]
"""Line and column, from 0."""


@struct
class _Value:
    """The position of a value."""

    start: _Point
    end: _Point
    kind: Literal["scalar", "alias", "flow", "block"]
    """A collection is in flow style (brackets), or a block on lines of its own."""
    items: tuple[_Value, ...] = ()
    """Of a list, or the values of a mapping."""
    text: str = ""


@struct
class _Entry:
    """One key with its value."""

    key: str
    start: _Point
    key_end: _Point
    value: _Value


def with_values(ref: str, text: Text, values: Mapping[str, Any]) -> Text:
    """Set keys of a document's front matter, or remove those whose value is None; it is added if there is none.

    A key that already has the value is left alone. `WriteRefused` if the front matter cannot be parsed, or not changed
    without touching other keys.
    """
    for key, value in values.items():
        check_key(ref, key)
        check_value(ref, key, value)
    front = text.front
    if front.problem:
        raise WriteRefused(ref, f"{front.problem[0].lower()}{front.problem[1:].rstrip('.')}")
    if not front.closing:
        added = {key: value for key, value in values.items() if value is not None}
        lines = written_lines(added, text.newline) if added else ()
        blank = (text.newline,) if lines and text.lines and text.lines[0].strip() else ()
        return text.replaced(0, 0, (*lines, *blank))
    expected = dict(front.values)
    for key, value in values.items():
        text, expected = _with_value(ref, text, key, value, expected)
    after = text.front
    if after.problem or not _same(after.values, expected):
        raise WriteRefused(ref, "its front matter cannot be changed without touching other keys; edit it by hand")
    return text


def with_texts(ref: str, text: Text, key: str, changes: Mapping[str, str]) -> Text:
    """Replace strings (old → new) wherever they stand under a key, however deep, and keep their comments.

    The front matter must be valid. `WriteRefused` if it cannot be changed without touching other keys.
    """

    def replaced(value: Any) -> Any:
        if isinstance(value, list):
            return [replaced(one) for one in value]
        if isinstance(value, Mapping):
            return {name: replaced(one) for name, one in value.items()}
        return changes.get(value, value) if isinstance(value, str) else value

    values = text.front.values
    value = replaced(values[key])
    place = next(entry.value for entry in reversed(_entries(ref, text)) if entry.key == key)
    changed = text
    for item in reversed(list(_scalars(place))):
        new = changes.get(item.text, item.text)
        if new != item.text and item.start[0] == item.end[0]:
            line = changed.lines[item.start[0]]
            before, written, after = line[: item.start[1]], line[item.start[1] : item.end[1]], line[item.end[1] :]
            mark = written[:1]  # the new text is in the quotes of the old one
            plain = mark in ("'", '"') and written.endswith(mark) and new.isprintable() and not set(new) & set("'\"\\")
            within = f"{before}{mark}{new}{mark}{after}" if plain else f"{before}{_yaml(new)}{after}"
            changed = changed.replaced(item.start[0], item.start[0] + 1, (within,))
    if _same(changed.front.values, {**values, key: value}):
        return changed
    return with_values(ref, text, {key: value})


def _scalars(place: _Value) -> Iterator[_Value]:
    if place.kind == "scalar":
        yield place
    for item in place.items:
        yield from _scalars(item)


def written_lines(values: Mapping[str, Any], newline: str) -> tuple[str, ...]:
    """Return the lines of a front matter block, including its two lines of dashes."""
    inside = [f"{_yaml(key)}: {_yaml(value)}" for key, value in values.items()]
    return tuple(line + newline for line in ("---", *inside, "---"))


def check_key(ref: str, key: str) -> None:
    """Raise `WriteRefused` if a string cannot be a front matter key."""
    if not key.strip() or key != key.strip() or not key.isprintable():
        raise WriteRefused(ref, f"{key!r} is not a valid key of front matter; use a word or two on one line")


def check_value(ref: str, key: str, value: object, depth: int = 0) -> None:
    """Raise `WriteRefused` if a value is not valid JSON, or nested too deeply."""
    if depth > MAX_DEPTH:
        raise WriteRefused(ref, f"the new value of {key!r} is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        check_writable_text(ref, value)
    elif isinstance(value, list | tuple):
        for item in value:
            check_value(ref, key, item, depth + 1)
    elif isinstance(value, dict):
        for name, item in value.items():
            check_value(ref, key, name, depth + 1)
            check_value(ref, key, item, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise WriteRefused(ref, f"the new value of {key!r} is not a number that a document can contain")
    elif not (value is None or isinstance(value, bool | int | float)):
        raise WriteRefused(ref, f"the new value of {key!r} is not text, a number, a list or an object")


def _with_value(ref: str, text: Text, name: str, value: Any, values: dict[str, Any]) -> tuple[Text, dict[str, Any]]:
    """Set or remove one key; return the text and the values it should now parse to."""
    entries = _entries(ref, text)
    matches = [entry for entry in entries if entry.key == name] or [
        entry for entry in entries if entry.key.strip().casefold() == name.casefold()
    ]
    if value is None:
        for entry in reversed(matches):
            text = text.replaced(entry.start[0], _last_line(text, entry) + 1, ())
        removed = {entry.key for entry in matches}
        return text, {key: old for key, old in values.items() if key not in removed}
    value = json.loads(json.dumps(value))
    if not matches:
        closing = text.front.closing
        indent = " " * entries[0].start[1] if entries else ""
        added = (f"{indent}{_yaml(name)}: {_yaml(value)}{text.newline}",)
        return text.replaced(closing, closing, added), {**values, name: value}
    entry = matches[-1]
    if entry.key in values and _same(values[entry.key], value):
        return text, values
    return _with_replaced(text, entry, values.get(entry.key), value), {**values, entry.key: value}


def _with_replaced(text: Text, entry: _Entry, old: Any, value: Any) -> Text:
    place = entry.value
    if isinstance(value, list) and isinstance(old, list) and value and len(place.items) == len(old):
        if place.kind == "block" and (lines := _block_list(text, place, old, value)) is not None:
            return text.replaced(place.start[0], _last_line(text, entry) + 1, lines)
        scalars = all(item.kind == "scalar" for item in place.items)
        if place.kind == "flow" and place.start[0] == place.end[0] and scalars:
            return _on_line(text, place, _flow_list(text, place, old, value))
    if place.kind == "block":  # the old value begins on a line of its own: the new one goes after the colon
        line, column = entry.key_end
        colon = text.lines[line].index(":", column) + 1
        changed = f"{text.lines[line][:colon]} {_yaml(value)}{text.lines[line][colon:]}"
        between = text.lines[line + 1 : place.start[0]]
        return text.replaced(line, _last_line(text, entry) + 1, (changed, *between))
    return _on_line(text, place, _yaml(value), last=_last_line(text, entry))


def _on_line(text: Text, place: _Value, written: str, last: int | None = None) -> Text:
    """Replace a value, keeping the text before and after it."""
    line, column = place.start
    before = text.lines[line][:column]
    last = place.end[0] if last is None else last
    # A block scalar ends at the start of the next line; everything else ends within a line.
    after = text.lines[last][place.end[1] if last == place.end[0] else len(text.bare[last]) :]
    space = " " if before.endswith((":", "?")) else ""
    return text.replaced(line, last + 1, (f"{before}{space}{written}{after}",))


def _block_list(text: Text, place: _Value, old: Sequence[Any], new: Sequence[Any]) -> list[str] | None:
    """Return the lines of a list with one scalar per line, unchanged for kept items; None if it is not written so."""
    chunks: dict[str, list[tuple[str, ...]]] = {}
    after = place.start[0]
    for item, value in zip(place.items, old, strict=True):
        line = item.start[0]
        if item.kind != "scalar" or item.start[0] != item.end[0] or line < after:
            return None
        # Comments belong to the item below them.
        chunks.setdefault(_canonical(value), []).append(text.lines[after : line + 1])
        after = line + 1
    opening = text.lines[place.items[0].start[0]][: place.items[0].start[1]]
    if opening.strip() != "-":
        return None
    lines: list[str] = []
    for value in new:
        kept = chunks.get(_canonical(value))
        lines += kept.pop(0) if kept else [f"{opening}{_yaml(value)}{text.newline}"]
    return lines


def _flow_list(text: Text, place: _Value, old: Sequence[Any], new: Sequence[Any]) -> str:
    """Write a list in brackets, with kept items as they were written."""
    line = text.lines[place.start[0]]
    written: dict[str, str] = {}
    for item, value in zip(place.items, old, strict=True):
        written[_canonical(value)] = line[item.start[1] : item.end[1]]
    head, tail = "[", "]"
    if place.items:
        head = line[place.start[1] : place.items[0].start[1]]
        tail = line[place.items[-1].end[1] : place.end[1]]
    for value in new:
        if not written.get(_canonical(value)):
            special = isinstance(value, str) and set(_yaml(value)) & set("[]{},")
            written[_canonical(value)] = _yaml([value])[1:-1] if special else _yaml(value)
    return head + ", ".join(written[_canonical(value)] for value in new) + tail


def _entries(ref: str, text: Text) -> list[_Entry]:
    """Locate the keys of front matter that is a mapping, or empty."""
    inside = "\n".join(text.bare[1 : text.front.closing])
    if _BREAKS_OF_YAML.search(inside):
        raise WriteRefused(ref, "its front matter contains unusual line breaks (U+0085, U+2028); edit it by hand")
    events = (event for event in yaml.parse(inside, Loader=LOADER) if isinstance(event, _NODES))
    first = next(events, None)
    if first is None:
        return []
    if not isinstance(first, yaml.MappingStartEvent) or first.flow_style:
        raise WriteRefused(ref, "its front matter is written in braces; write one `key: value` per line")
    entries: list[_Entry] = []
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        if not isinstance(key, yaml.ScalarEvent):
            raise WriteRefused(ref, "its front matter has keys that are not plain words; edit it by hand")
        value = _value(next(events), events)
        entries.append(_Entry(key.value, _point(key.start_mark), _point(key.end_mark), value))
    return entries


_NODES = (yaml.AliasEvent, yaml.ScalarEvent, yaml.CollectionStartEvent, yaml.CollectionEndEvent)


def _value(first: Any, events: Iterator[Any]) -> _Value:
    """Consume one value from the parser's events; `read_front_matter` has bounded its depth."""
    start, end = _point(first.start_mark), _point(first.end_mark)
    if isinstance(first, yaml.ScalarEvent):
        return _Value(start, end, "scalar", text=first.value)
    if isinstance(first, yaml.AliasEvent):
        return _Value(start, end, "alias")
    items: list[_Value] = []
    while not isinstance(event := next(events), yaml.CollectionEndEvent):
        items.append(_value(event, events))
    if first.flow_style:
        end = _point(event.end_mark)
    elif items:
        end = items[-1].end
    inner = items if isinstance(first, yaml.SequenceStartEvent) else items[1::2]
    return _Value(start, end, "flow" if first.flow_style else "block", tuple(inner))


def _point(mark: Any) -> _Point:
    """Return the position of a mark in the document, whose front matter begins on the second line."""
    return mark.line + 1, mark.column


def _last_line(text: Text, entry: _Entry) -> int:
    """Return the index of the last line of an entry, less the blank lines that end a block scalar."""
    line, column = entry.value.end
    if column == 0 and line > entry.start[0]:
        line -= 1
    while line > entry.start[0] and not text.lines[line].strip():
        line -= 1
    return line


def _yaml(value: Any) -> str:
    """Dump a value on one line, as plainly as it can be parsed back."""
    with suppress(ValueError):
        if isinstance(value, str) and _DATE.fullmatch(value) and date.fromisoformat(value):
            return value
    style = '"' if isinstance(value, str) and len(lines_of(value)) > 1 else None
    plain = not _BREAKS_OF_YAML.search(json.dumps(value, ensure_ascii=False))  # others must be escaped
    written = yaml.safe_dump(
        value, default_flow_style=True, default_style=style, allow_unicode=plain, width=_ONE_LINE, sort_keys=False
    )
    written = written.removesuffix("\n").removesuffix("\n...")
    # YAML would write some strings on several lines.
    return json.dumps(value, ensure_ascii=False) if "\n" in written else written


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _same(left: Any, right: Any) -> bool:
    """Return whether two values are equal and of the same types."""
    return _canonical(left) == _canonical(right)
