"""Views of results in MCP clients: a self-contained page, and the part of it that each result fills in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from markupsafe import Markup

from kbhub.memory.catalog import all_known
from kbhub.render.html.plots import strength_curve
from kbhub.render.html.templates import STATIC, rendered
from kbhub.render.html.traces import traced
from kbhub.search.notes import LEADING_NOTES

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.memory.results import MemoryList
    from kbhub.types import SearchResult

View = Literal["search", "memories"]

MOST_SHOWN = 20
"""Hits or memories of one view; the text for the model has all."""


def page(view: View, version: str) -> str:
    """Return the page of a view, with its style and script inline, and kbhub's version for the host."""
    style, script = ((STATIC / name).read_text("utf-8") for name in ("kbhub.css", "view.js"))
    values = {"view": view, "version": version}
    return rendered("view.html", **values, style=Markup(style), script=Markup(script))  # noqa: S704 - our own files


def hits(result: SearchResult) -> str:
    """Return the hits of a search, with their traces."""
    return rendered(
        "view_hits.html",
        result=result,
        shown=[(hit, traced(hit)) for hit in result.hits[:MOST_SHOWN]],
        notes=[note for note in result.notes if note not in LEADING_NOTES],
    )


def memories(hub: Hub, found: MemoryList, *, writable: bool) -> str:
    """Return a page for reviewing memories, which may be changed if `writable`."""
    now, known = hub.options.clock(), {memory.facts.id: memory for memory in all_known(hub)}
    shown = [
        (memory, strength_curve(known[memory.id], now)) for memory in found.memories[:MOST_SHOWN] if memory.id in known
    ]
    return rendered("view_memories.html", shown=shown, total=found.total, now=now, writable=writable)
