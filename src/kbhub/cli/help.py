"""Help pages in two aligned columns, without frames, readable at any width, in a pipe and aloud."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

WIDEST_NAMES = 26
"""Maximum width of the column of names; the description of a longer name starts on the next line."""

WIDEST_LINE = 100
"""Maximum width of a line, for readability."""

_INDENT = 2
_SPACE_BESIDE = 20
"""Minimum width of the descriptions."""

UNBROKEN = 10_000
"""Line width that keeps rich from wrapping, longer than any description."""


class HelpColumns:
    """Help formatter for cyclopts; `summary` returns that of a command whose module is not loaded."""

    def __init__(self, summary: Callable[[str], str]) -> None:
        self._summary = summary

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:  # noqa: ARG002
        """Print a group of commands, arguments or options."""
        if panel.entries:
            entries = [(_names(entry), _description(console, entry)) for entry in panel.entries]
            entries = [(names, about or self._summary(names)) for names, about in entries]
            _print(console, panel_text(str(panel.title), entries, console.width))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:  # noqa: ARG002
        """Print the usage line."""
        _print(console, usage_text(_plain(console, usage).removeprefix("Usage: ")))

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:  # noqa: ARG002
        """Print the description of a command, each paragraph wrapped to the width."""
        _print(console, description_text(_paragraphs(console, description), console.width))


def _paragraphs(console: Console, description: Any) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in _plain(console, description).split("\n\n")]


def _names(entry: HelpEntry) -> str:
    names = ", ".join(entry.display_labels)
    value = "" if entry.choices or not entry.metavar or entry.positional_label else f" {entry.metavar.rstrip('.')}"
    return names + value


def _description(console: Console, entry: HelpEntry) -> str:
    parts = [_plain(console, entry.description)]
    if entry.choices:
        parts.append(f"({', '.join(entry.choices)})")
    return " ".join(part for part in parts if part)


def _plain(console: Console, text: Any) -> str:
    """Return a text or rich renderable from cyclopts without styles and wrapping."""
    if text is None or isinstance(text, str):
        return (text or "").strip()
    options = console.options.update(width=UNBROKEN)
    return "".join(segment.text for segment in console.render(text, options)).strip()


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def usage_text(usage: str) -> str:
    """Return the usage line and an empty one."""
    return f"Usage: {usage}\n"


def description_text(paragraphs: Sequence[str], width: int) -> str:
    """Fill each paragraph to the width."""
    width = min(width, WIDEST_LINE)
    filled = [textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False) for text in paragraphs]
    return "\n\n".join(text for text in filled if text) + "\n"


def panel_text(title: str, entries: Sequence[Sequence[str]], width: int) -> str:
    """Lay out one group of commands, arguments or options: names and description of each."""
    column = min(max(len(names) for names, _ in entries), WIDEST_NAMES) + 2 * _INDENT
    lines = [f"{title}:"]
    for names, description in entries:
        opening = f"{' ' * _INDENT}{names}"
        if len(opening) > column - _INDENT:
            lines.append(opening)
            opening = ""
        text = textwrap.fill(
            description,
            max(min(width, WIDEST_LINE), column + _SPACE_BESIDE),
            initial_indent=opening.ljust(column),
            subsequent_indent=" " * column,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines.append(text or opening)
    return "\n".join(lines) + "\n"
