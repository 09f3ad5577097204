"""Help in two aligned columns, without frames: readable at any width, in a pipe and aloud."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

WIDEST_NAMES = 26
"""Columns that the names may take; a longer one has its description on the next line."""

WIDEST_LINE = 100
"""Columns of a line at most; longer ones are hard to read."""

UNBROKEN = 10_000
"""Columns of a line before we break it ourselves; no description is so long."""

_INDENT = 2


class Columns:
    """Formats help for cyclopts."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:  # noqa: ARG002
        """Print one group of commands, arguments or options."""
        if not panel.entries:
            return
        names = [_names(entry) for entry in panel.entries]
        column = min(max(map(len, names)), WIDEST_NAMES) + 2 * _INDENT
        lines = [f"{panel.title}:"]
        for name, entry in zip(names, panel.entries, strict=True):
            opening = f"{' ' * _INDENT}{name}"
            if len(opening) > column - _INDENT:
                lines.append(opening)
                opening = ""
            width = max(min(console.width, WIDEST_LINE), column + 20)
            text = textwrap.fill(
                _description(console, entry),
                width,
                initial_indent=opening.ljust(column),
                subsequent_indent=" " * column,
                break_long_words=False,
                break_on_hyphens=False,
            )
            lines.append(text or opening)
        _print(console, "\n".join(lines) + "\n")

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:  # noqa: ARG002
        """Print the usage line."""
        _print(console, f"Usage: {_plain(console, usage).removeprefix('Usage: ')}\n")

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:  # noqa: ARG002
        """Print what a command does, each paragraph filled to the width."""
        paragraphs = [" ".join(paragraph.split()) for paragraph in _plain(console, description).split("\n\n")]
        width = min(console.width, WIDEST_LINE)
        filled = [textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False) for text in paragraphs]
        _print(console, "\n\n".join(text for text in filled if text) + "\n")


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
    """Give what cyclopts hands over, text or something for rich to draw, without styles and line breaks of width."""
    if text is None or isinstance(text, str):
        return (text or "").strip()
    options = console.options.update(width=UNBROKEN)
    return "".join(segment.text for segment in console.render(text, options)).strip()


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
