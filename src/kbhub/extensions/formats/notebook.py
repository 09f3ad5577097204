"""Read Jupyter notebooks, of format 4 and 3, as documents.

The format is JSON with few fields, so the standard library reads it; `nbformat` would bring a JSON Schema validator and
refuse notebooks that are only slightly wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import PurePosixPath
from typing import Any

from kbhub.documents.converted import document_of_markdown, storable
from kbhub.documents.frontmatter import FrontMatter, read_front_matter
from kbhub.documents.markdown import MAX_LEVEL, plain_document, scan_blocks
from kbhub.extensions.formats.html import markdown_of
from kbhub.extensions.formats.markdown_writer import closed, fenced
from kbhub.types import Document
from kbhub.values import counted, struct
from kbhub.workspace.formats import file_title

OUTPUT_CHARACTERS = 2000
"""Characters of one output that are kept: a table or an error; logs of training runs are longer."""

CELL_OUTPUTS = 20

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}")


def read_notebook(path: str, data: bytes) -> Document:
    """Read a notebook: Markdown cells, code and raw cells as code blocks, the start of their textual outputs."""
    record, fault = _json(data, "notebook")
    notebook = _mapping(record)
    cells = notebook.get("cells")
    if not isinstance(cells, list):
        fault = fault or "It has no cells of a notebook, so it is indexed as plain text."
        return plain_document(path, data, fault)
    metadata = _mapping(notebook.get("metadata"))
    places = (("language_info", "name"), ("kernelspec", "language"), ("kernelspec", "name"))
    names = (_string(_mapping(metadata.get(key)).get(name)) for key, name in places)
    language = next(filter(_LANGUAGE.fullmatch, names), "")
    blocks, front, strange = list[str](), FrontMatter(), 0
    for cell in map(_mapping, cells):
        kind, source, outputs = cell.get("cell_type"), cell.get("source"), cell.get("outputs")
        if not isinstance(kind, str):
            strange += 1
            continue
        text = storable(_string(source)).strip("\n")
        if kind in ("markdown", "raw") and not blocks and text.startswith("---\n"):
            # Quarto and Jupytext write front matter into the first cell.
            lines = text.split("\n")
            front = read_front_matter(lines)
            text = "\n".join(lines[front.body :]).strip("\n")
        if kind == "markdown" and text.strip():
            blocks.append(closed(text))
        elif text.strip():
            blocks.append("\n".join(fenced(text, language if kind == "code" else "")))
        if isinstance(outputs, list):
            blocks += ("\n".join(fenced(text, "output")) for text in _outputs(outputs))
    problems = [front.problem] if front.problem else []
    if strange:
        are = "is" if strange == 1 else "are"
        problems.append(f"{counted(strange, 'cell')} {are} not in the format of a notebook and left out.")
    return document_of_markdown(
        path,
        "\n\n".join(blocks),
        title=front.title or _string(metadata.get("title")),
        front_matter={**({"language": language} if language else {}), **front.values},
        tags=front.tags,
        problems=problems,
    )


def _json(data: bytes, what: str) -> tuple[Any, str]:
    """Return what a file says; of one that is no JSON None, and what becomes of it."""
    try:
        return json.loads(data), ""
    except (ValueError, RecursionError) as error:
        return None, f"It is no JSON ({str(error)[:200]}), so the {what} is indexed as plain text."


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _outputs(outputs: list[Any]) -> Iterator[str]:
    """Yield the texts of a cell's outputs, cut where they are long."""
    shown = 0
    for output in outputs:
        text = _ANSI.sub("", storable(_output(_mapping(output)))).strip("\n")
        if not text.strip():
            continue
        shown += 1
        if shown > CELL_OUTPUTS:
            yield "… more outputs are left out"
            return
        left = len(text) - OUTPUT_CHARACTERS
        yield text if left <= 0 else f"{text[:OUTPUT_CHARACTERS]}\n… {left} more characters are left out"


def _output(output: dict[str, Any]) -> str:
    """Return the text of one output; empty for pictures and the like."""
    if "ename" in output or "evalue" in output:
        return f"{_string(output.get('ename'))}: {_string(output.get('evalue'))}"
    values = _mapping(output.get("data"))
    texts = (output.get("text"), *map(values.get, ("text/plain", "text/markdown", "text/latex")))
    if text := next(filter(None, map(_string, texts)), ""):
        return text
    html = _string(values.get("text/html"))
    return markdown_of(html[: 10 * OUTPUT_CHARACTERS]) if html else ""


def _string(value: object) -> str:
    """Return a text, which may be a list of its lines; "" for anything else."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


MAX_GROUPS = 100
"""Groups whose cards are put below them; further ones are headings alone."""

NAME_CHARACTERS = 80
"""Characters of a card's text that name it in the list of connections."""


@struct(frozen=False)
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
    cards: list[_Node] = field(default_factory=list)
    groups: list[_Node] = field(default_factory=list)

    def holds(self, other: _Node) -> bool:
        """Return whether the middle of another node lies within it."""
        across, down = other.left + other.width / 2, other.top + other.height / 2
        return self.left <= across <= self.left + self.width and self.top <= down <= self.top + self.height

    def area(self) -> float:
        """Return its size."""
        return self.width * self.height


def read_canvas(path: str, data: bytes) -> Document:
    """Read a canvas: cards from top to bottom, groups as headings, files as wiki links, the connections as a list."""
    record, fault = _json(data, "canvas")
    records = record.get("nodes", []) if isinstance(record, dict) else None
    if not isinstance(records, list):
        fault = fault or "It has no nodes of a canvas, so it is indexed as plain text."
        return plain_document(path, data, fault)
    nodes: dict[str, _Node] = {}
    strange = 0
    for number, entry in enumerate(records):
        if isinstance(entry, dict) and (node := _node(entry)):
            nodes[_string(entry.get("id")) or f" {number}"] = node
        else:
            strange += 1
    edges = record.get("edges")
    blocks = [*_cards(list(nodes.values())), *_connections(edges if isinstance(edges, list) else [], nodes)]
    are = "is" if strange == 1 else "are"
    problems = [f"{counted(strange, 'node')} without text or a known type {are} left out."] if strange else []
    text = "\n\n".join(filter(None, blocks))
    return document_of_markdown(path, text, title=file_title(PurePosixPath(path)), problems=problems)


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
    ordered = sorted(nodes, key=lambda node: (node.top, node.left))
    groups = [node for node in ordered if node.kind == "group"]
    holders = sorted(groups[:MAX_GROUPS], key=_Node.area)
    root = _Node("canvas", "", "", 0, 0, 0, 0)
    for node in ordered:
        grouped = node.kind == "group"
        around = (group for group in holders if group is not node and group.holds(node))
        parent = next((group for group in around if not grouped or group.area() > node.area()), root)
        (parent.groups if grouped else parent.cards).append(node)
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


def _number(value: object) -> float:
    # Larger numbers than a canvas has, and those that are none, would upset sorting.
    return float(value) if isinstance(value, int | float) and abs(value) < 1e9 else 0.0
