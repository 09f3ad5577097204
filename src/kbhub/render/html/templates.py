"""The template environment and its filters. Everything is escaped unless it is `Markup`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from kbhub.index.query.excerpts import spans
from kbhub.index.query.parser import terms_of
from kbhub.render.words import heading_path, neutralised, passed_over_text
from kbhub.search.notes import is_unfinished
from kbhub.values import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parent
STATIC = HERE / "static"

BAR_WIDTH = 100.0
"""Units of a bar's view box."""

_CODE = re.compile(r"`([^`]+)`")

MINUTE, HOUR, DAY = 60, 3600, 86_400


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
    made.filters.update(coded=coded, marked=marked, ago=ago, bytes=size, counted=counted, url=url, percent=percent)
    made.filters.update(passed_over=passed_over_text, is_unfinished=is_unfinished)
    made.globals.update(heading_path=heading_path)
    return made


def rendered(name: str, **values: Any) -> str:
    """Render a file below `templates/` with variables."""
    return environment().get_template(name).render(values)


def marked(text: str, terms: Sequence[str]) -> Markup:
    """Return a text with the words of a query (`SearchResult.terms`) marked."""
    text = neutralised(text)
    parts, at = [], 0
    for start, end in spans(text, terms_of(tuple(terms))):
        parts += [escape(text[at:start]), Markup("<mark>"), escape(text[start:end]), Markup("</mark>")]
        at = end
    return Markup("").join([*parts, escape(text[at:])])


def coded(text: str) -> Markup:
    """Return one of kbhub's sentences with text in backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(neutralised(text)))))  # noqa: S704 - it is escaped


def url(text: str) -> str:
    """Return a text encoded as a value of a query string."""
    return quote(text, safe="/@:")


def percent(value: float) -> str:
    """Return a share as a percentage."""
    return f"{100 * value:.0f} %"


def size(number: int) -> str:
    """Return a number of bytes in the largest unit that leaves a digit before the point."""
    value, units = float(number), ["B", "kB", "MB", "GB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.0f} {units[0]}" if value >= 10 or units[0] == "B" else f"{value:.1f} {units[0]}"


def ago(moment: str | float | None, now: float) -> str:
    """Return how long ago a moment (ISO 8601, seconds since the epoch, or None for never) was, in the largest unit."""
    if moment is None:
        return "never"
    seconds = now - (moment if isinstance(moment, float | int) else _seconds(moment))
    for unit, length in (("day", DAY), ("hour", HOUR), ("minute", MINUTE)):
        if seconds >= length:
            return f"{counted(int(seconds // length), unit)} ago"
    return "just now"


def _seconds(moment: str) -> float:
    when = datetime.fromisoformat(moment)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
