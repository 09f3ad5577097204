"""Read canvases of Obsidian (JSON Canvas 1.0) as documents."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from kbhub.documents.markdown import scan_blocks
from kbhub.documents.sources.converted import document_of_markdown, plain_document, storable
from kbhub.documents.sources.markdown_writer import closed
from kbhub.types import Document
from kbhub.workspace.formats import file_title

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_GROUPS = 100
"""Groups whose cards are put below them; further ones are headings alone."""

MAX_LEVEL = 6
"""Deepest level of a heading."""

NAME_CHARACTERS = 80
"""Characters of a card's text that name it in the list of connections."""


@dataclass(slots=True)
class _Node:
    """A card or a group."""

    kind: str
    name: str
    """Text by which connections name it."""
    text: str
    left: float
    top: float
    width: float
    height: float
    parent: _Node | None = None
    cards: list[_Node] = field(default_factory=list)
    groups: list[_Node] = field(default_factory=list)

    def place(self) -> tuple[float, float]:
        """Return where it comes in reading order: by its top, then by its left side."""
        return self.top, self.left

    def holds(self, other: _Node) -> bool:
        """Return whether the middle of another node lies within it."""
        across, down = other.left + other.width / 2, other.top + other.height / 2
        return self.left <= across <= self.left + self.width and self.top <= down <= self.top + self.height

    def area(self) -> float:
        """Return its size."""
        return self.width * self.height


def read_canvas(path: str, data: bytes) -> Document:
    """Read a canvas: cards from top to bottom, groups as headings, files as wiki links, the connections as a list.

    A file that is no canvas is kept as plain text, with a problem.
    """
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        return plain_document(
            path, data, f"It is no JSON ({str(error)[:200]}), so the canvas is indexed as plain text."
        )
    records = record.get("nodes", []) if isinstance(record, dict) else None
    if not isinstance(records, list):
        return plain_document(path, data, "It has no nodes of a canvas, so it is indexed as plain text.")
    nodes: dict[str, _Node] = {}
    strange = 0
    for number, entry in enumerate(records):
        if isinstance(entry, dict) and (node := _node(entry)):
            nodes[_string(entry.get("id")) or f" {number}"] = node
        else:
            strange += 1
    edges = record.get("edges")
    blocks = [*_cards(list(nodes.values())), *_connections(edges if isinstance(edges, list) else [], nodes)]
    what = ("1 node", "is") if strange == 1 else (f"{strange} nodes", "are")
    return document_of_markdown(
        path,
        "\n\n".join(block for block in blocks if block),
        title=file_title(PurePosixPath(path)),
        problems=[f"{what[0]} without text or a known type {what[1]} left out."] if strange else [],
    )


def _node(entry: dict[str, Any]) -> _Node | None:
    """Return a card or a group; None if it has nothing to read."""
    kind = _string(entry.get("type"))
    text, file, url, label = (storable(_string(entry.get(key))).strip("\n") for key in ("text", "file", "url", "label"))
    name = next((line.strip(" #*_") for line in text.split("\n") if line.strip(" #*_")), "")
    if kind == "group":
        text, name = " ".join(label.split()), label
    elif file:
        target = " ".join(f"{file}{_string(entry.get('subpath'))}".split())
        text = target if set(target) & set("[]|") else f"[[{target}]]"
        name = file_title(PurePosixPath(file))
    elif url:
        text = name = " ".join(url.split())
    elif not text and kind != "text":
        return None
    left, top, width, height = (_number(entry.get(key)) for key in ("x", "y", "width", "height"))
    return _Node(kind, " ".join(name.split())[:NAME_CHARACTERS] or kind, text, left, top, width, height)


def _cards(nodes: Sequence[_Node]) -> Iterator[str]:
    """Yield the texts of all cards in reading order, below the headings of their groups."""
    ordered = sorted(nodes, key=_Node.place)
    groups = [node for node in ordered if node.kind == "group"]
    holders = sorted(groups[:MAX_GROUPS], key=_Node.area)
    root = _Node("canvas", "", "", 0, 0, 0, 0)
    for node in ordered:
        grouped = node.kind == "group"
        around = (group for group in holders if group is not node and group.holds(node))
        node.parent = next((group for group in around if not grouped or group.area() > node.area()), root)
        (node.parent.groups if grouped else node.parent.cards).append(node)
    pending = [(root, 0)]
    while pending:
        node, depth = pending.pop()
        if depth and node.text:
            yield f"{'#' * min(depth, MAX_LEVEL)} {node.text}"
        for card in node.cards:
            yield _below(closed(card.text), depth)
        pending += ((group, depth + 1) for group in reversed(node.groups))


def _below(text: str, depth: int) -> str:
    """Return the text of a card, its headings below those of its groups."""
    lines = text.split("\n")
    for heading in scan_blocks(lines, 0, 0).headings if depth and "#" in text else ():
        if lines[heading.line - 1].lstrip().startswith("#"):
            more = min(depth, MAX_LEVEL - heading.level)
            lines[heading.line - 1] = "#" * more + lines[heading.line - 1].lstrip()
    return "\n".join(lines)


def _connections(edges: Sequence[Any], nodes: dict[str, _Node]) -> Iterator[str]:
    """Yield the list of connections between nodes."""
    entries = []
    for edge in edges:
        if not isinstance(edge, dict):
            continue
        ends = (nodes.get(_string(edge.get(key))) for key in ("fromNode", "toNode"))
        names = [node.name if node else "?" for node in ends]
        label = " ".join(storable(_string(edge.get("label"))).split())
        if label or "?" not in names:
            entries.append(f"- {names[0]} → {names[1]}" + (f": {label}" if label else ""))
    if entries:
        yield "\n".join(entries)


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float:
    # Larger numbers than a canvas has, and those that are none, would upset sorting.
    return float(value) if isinstance(value, int | float) and abs(value) < 1e9 else 0.0
