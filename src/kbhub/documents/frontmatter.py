"""YAML front matter, parsed safely as data.

Only plain YAML between `---` and `---` (or `...`) counts; `---js` and the like are text. Values are JSON-safe, tags and
aliases are kept as written (`1.10` stays `1.10`, `no` stays `no`), and front matter that cannot be parsed is reported
as a problem and stays part of the text.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from datetime import date
from itertools import islice
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from kbhub.values import struct

MAX_FRONT_MATTER_CHARS = 65_536
"""Characters of the longest front matter that is parsed; real ones have a few hundred."""
MAX_DEPTH = 50
"""Nesting levels of values; the YAML library overflows its stack at some ten thousand."""
MAX_NODES = 20_000
"""Values after aliases are expanded; keeps a few lines from growing to gigabytes."""
MAX_INTEGER_BITS = 64
"""Larger integers become text: SQLite and some JSON readers cannot hold them."""
MAX_DECIMAL_BITS = 4096
"""Larger integers become hexadecimal text: Python refuses to print them in decimal."""

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CLOSINGS = ("---", "...")
_KEY = re.compile(r"[A-Za-z_][\w .-]*:(?:\s|$)")
_NULL = "tag:yaml.org,2002:null"
# Raised by SafeConstructor on scalars of unknown types, or that do not fit their (explicit or guessed) one.
_BAD_SCALAR = (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, OverflowError)


@struct
class FrontMatter:
    """The front matter of a document; empty if it has none."""

    body: int = 0
    """Index of the first line after it; 0 if there is none or it cannot be parsed."""
    closing: int = 0
    """Index of its closing line, even if it cannot be parsed; 0 if there is none."""
    values: dict[str, Any] = field(default_factory=dict)
    title: str = ""
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def end(self) -> int:
        """Index of the first line after it, even if it cannot be parsed."""
        return self.body or (self.closing + 1 if self.closing else 0)


def read_front_matter(lines: Sequence[str]) -> FrontMatter:
    """Return the front matter of a document: empty if it has none, with `problem` set if it cannot be parsed."""
    if not lines or lines[0].rstrip() != "---":
        return FrontMatter()
    closing = size = 0
    for index, line in enumerate(islice(lines, 1, None), 1):
        if line[:3] in _CLOSINGS and line.rstrip() in _CLOSINGS:
            closing = index
        size += len(line) + 1
        if closing or size > MAX_FRONT_MATTER_CHARS:
            break
    if closing == 0:
        opened = len(lines) > 1 and _KEY.match(lines[1]) is not None
        return FrontMatter(problem=_problem("is not closed by a `---` line") if opened else None)
    try:
        return _from_node(_compose("\n".join(lines[1:closing])), closing)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f" (line {error.problem_mark.line + 2}: {error.problem})"
        return FrontMatter(closing=closing, problem=_problem(f"is not valid YAML{line}"))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        return FrontMatter(closing=closing, problem=_problem(f"cannot be read ({reason})"))


def _problem(what: str) -> str:
    return f"Front matter {what}, so it is indexed as text. Fix it to use its fields."


def _compose(text: str) -> Node | None:
    """Parse YAML to a node graph that is safe to walk recursively; raises `ValueError` if it is too deep or large."""
    # Nesting other than by indentation needs one of these characters per level, so few texts need a second pass. It
    # spares the composer's stack: the event parser does not recurse.
    depth = 0
    for event in yaml.parse(text, Loader=LOADER) if sum(map(text.count, "[{-?")) > MAX_DEPTH else ():
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    loader = LOADER(text)
    try:
        node: Node | None = loader.get_single_node()
    finally:
        loader.dispose()
    # A graph may have too many values or levels when its aliases are expanded.
    count, pending = 0, [] if node is None else [(node, 1)]
    while pending:
        current, depth = pending.pop()
        count += 1
        if count > MAX_NODES or depth > MAX_DEPTH:
            raise ValueError(f"more than {MAX_NODES} values or {MAX_DEPTH} levels with its aliases written out")
        pending += [(child, depth + 1) for child in _children(current)]
    return node


def _children(node: Node) -> Iterator[Node]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, SequenceNode):
        yield from node.value


def _from_node(node: Node | None, closing: int) -> FrontMatter:
    if node is None:
        return FrontMatter(body=closing + 1, closing=closing)
    if not isinstance(node, MappingNode):
        return FrontMatter(closing=closing, problem=_problem("is not a list of `key: value` lines"))
    constructor = yaml.constructor.SafeConstructor()
    values = _value(node, constructor)
    title, tags, aliases = "", list[str](), list[str]()
    for key, value in node.value:
        name = key.value.strip().lower() if isinstance(key, ScalarNode) else ""
        if name == "title" and isinstance(value, ScalarNode) and value.tag != _NULL:
            title = " ".join(_printable(value.value).split())
        elif name in ("tags", "tag"):
            for text in _scalars(value):
                # `a, b`, `#a #b` and `#a b` are two, `machine learning` is one.
                parts = text.split(",") if "," in text else text.split() if "#" in text else [text]
                tags.extend(" ".join(part.strip().strip("'\"").lstrip("#").split()) for part in parts)
        elif name in ("aliases", "alias"):
            texts = list(_scalars(value))
            parts = texts[0].split(",") if isinstance(value, ScalarNode) and texts else texts
            aliases.extend(" ".join(alias.split()) for alias in parts)
    return FrontMatter(
        body=closing + 1,
        closing=closing,
        values=values,
        title=title,
        tags=tuple(dict.fromkeys(filter(None, tags))),
        aliases=tuple(dict.fromkeys(filter(None, aliases))),
    )


def _scalars(node: Node) -> Iterator[str]:
    """Yield every scalar below a node as written, including keys but not nulls."""
    if isinstance(node, ScalarNode):
        if node.tag != _NULL:
            yield _printable(node.value)
    else:
        for child in _children(node):
            yield from _scalars(child)


def _value(node: Node, constructor: Any) -> Any:
    """Return a JSON-safe value; depth is bounded by `MAX_DEPTH`."""
    if isinstance(node, MappingNode):
        constructor.flatten_mapping(node)  # expands `<<` merges; `_compose` has bounded their size
        values = {}
        for key, value in node.value:
            name = _printable(key.value) if isinstance(key, ScalarNode) else ", ".join(_scalars(key))
            values[name] = _value(value, constructor)
        return values
    if isinstance(node, SequenceNode):
        return [_value(child, constructor) for child in node.value]
    try:
        value = constructor.construct_object(node)
    except _BAD_SCALAR:
        return _printable(node.value)
    if isinstance(value, str):
        return _printable(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value.bit_length() < MAX_INTEGER_BITS:
            return value
        return str(value) if value.bit_length() <= MAX_DECIMAL_BITS else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, date):  # includes datetime
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return str(value)


def _printable(text: str) -> str:
    """Replace lone surrogates and NUL, which encoders and SQLite reject."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
