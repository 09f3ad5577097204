"""Templates of the page and of MCP Apps, with the plots that they draw."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from kbhub.index.query.excerpts import spans
from kbhub.index.query.parser import terms_of
from kbhub.memory.catalog import all_known
from kbhub.memory.files import MemoryFile
from kbhub.memory.results import MemoryList
from kbhub.render.layout import ago_text, neutralised, passed_over_text, size_text
from kbhub.render.report import contribution_of, heading_path
from kbhub.search.judge import LEADING_NOTES, is_unfinished
from kbhub.search.memory_boost import FADING_DAYS, strength
from kbhub.types import SearchResult
from kbhub.values import DAY_SECONDS, counted, struct

if TYPE_CHECKING:
    from kbhub.hub import Hub

HERE = Path(__file__).parent
STATIC = HERE / "static"

_CODE = re.compile(r"`([^`]+)`")


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the environment, created on first use."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters.update(
        coded=_coded, marked=_marked, ago=_ago, bytes=size_text, counted=counted, url=url, percent=_percent
    )
    made.filters.update(passed_over=passed_over_text, is_unfinished=is_unfinished, contribution=contribution_of)
    made.globals.update(heading_path=heading_path)
    return made


def rendered(name: str, **values: Any) -> str:
    """Render a file below `templates/` with variables."""
    return environment().get_template(name).render(values)


def _marked(text: str, terms: Sequence[str]) -> Markup:
    """Return a text with the words of a query (`SearchResult.terms`) marked."""
    text = neutralised(text)
    parts, at = [], 0
    for start, end in spans(text, terms_of(tuple(terms))):
        parts += [escape(text[at:start]), Markup("<mark>"), escape(text[start:end]), Markup("</mark>")]
        at = end
    return Markup("").join([*parts, escape(text[at:])])


def _coded(text: str) -> Markup:
    """Return one of kbhub's sentences with text in backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(neutralised(text)))))  # noqa: S704 - it is escaped


def url(text: str) -> str:
    """Return a text encoded as a value of a query string."""
    return quote(text, safe="/@:")


def _percent(value: float) -> str:
    """Return a share as a percentage."""
    return f"{100 * value:.0f} %"


def _ago(moment: str | float | None, now: float) -> str:
    """Return how long ago a moment (ISO 8601, seconds since the epoch, or None for never) was, in the largest unit."""
    if moment is None:
        return "never"
    return ago_text(now - (moment if isinstance(moment, float | int) else _seconds(moment)))


def _seconds(moment: str) -> float:
    when = datetime.fromisoformat(moment)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


WIDTH, HEIGHT = 300.0, 60.0
"""Units of a plot's view box."""

DAYS_AHEAD = 200
"""Days of a memory's curve after its last use: until it fades no further, and a little more."""


@struct
class Curve:
    """A line of a plot, and where now is in it."""

    points: str
    """Of an SVG polyline."""
    now: float
    """Horizontal place of now; None if it is beyond the plot."""
    value: float
    """Vertical place of now."""


@struct
class Column:
    """A day of a plot: the heights of its parts, from the bottom."""

    label: str
    x: float
    width: float
    parts: tuple[tuple[str, float, float], ...]
    """(name, top, height)."""
    total: int


def strength_curve(memory: MemoryFile, now: float) -> Curve:
    """Return how the strength of a memory falls after its last use, if it is not used again."""
    last, uses = memory.last_use(), memory.use.uses if memory.use else 0

    def place(day: float) -> tuple[float, float]:
        value = strength(memory.facts.source, uses, last, last + day * DAY_SECONDS)
        return round(day / DAYS_AHEAD * WIDTH, 1), round((1 - value) * HEIGHT, 1)

    elapsed = min(max(0.0, (now - last) / DAY_SECONDS), DAYS_AHEAD)
    corners = [place(day) for day in (0, FADING_DAYS, DAYS_AHEAD)]
    x, y = place(elapsed)
    return Curve(" ".join(f"{left},{top}" for left, top in corners), x, y)


def columns(days: Sequence[str], counts: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> list[Column]:
    """Return a column per day, scaled to the largest.

    `days` are labels, the earliest first; `counts` maps a day to name → number; `names` are the parts of a column, from
    the bottom.
    """
    most = max((sum(counts.get(day, {}).values()) for day in days), default=0) or 1
    step = WIDTH / max(len(days), 1)
    made = []
    for number, day in enumerate(days):
        bottom, parts = HEIGHT, []
        for name in names:
            height = counts.get(day, {}).get(name, 0) / most * HEIGHT
            bottom -= height
            parts.append((name, round(bottom, 2), round(height, 2)))
        total = sum(counts.get(day, {}).values())
        made.append(Column(day, round(number * step, 2), round(step * 0.8, 2), tuple(parts), total))
    return made


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
        shown=result.hits[:MOST_SHOWN],
        notes=[note for note in result.notes if note not in LEADING_NOTES],
    )


def memories(hub: Hub, found: MemoryList, *, writable: bool) -> str:
    """Return a page for reviewing memories, which may be changed if `writable`."""
    now, known = hub.options.clock(), {memory.facts.id: memory for memory in all_known(hub)}
    shown = [
        (memory, strength_curve(known[memory.id], now)) for memory in found.memories[:MOST_SHOWN] if memory.id in known
    ]
    return rendered("view_memories.html", shown=shown, total=found.total, now=now, writable=writable)
