"""Help pages in two aligned columns, without frames, readable at any width, in a pipe and aloud.

Their content is generated from the commands and kept in `pages.json`, so that help does not wait for the libraries of
the command line (0.2 s). tests/cli/test_help_pages.py writes and checks that file.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbhub import __version__
from kbhub.cli.console import line_width, show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FILE = Path(__file__).with_name("pages.json")
"""Command → its page: `usage`, `paragraphs`, and `panels` of a title and entries, each names and a description."""

HELP_FLAGS = ("--help", "-h")

WIDEST_NAMES = 26
"""Maximum width of the column of names; the description of a longer name starts on the next line."""

WIDEST_LINE = 100
"""Maximum width of a line, for readability."""

_INDENT = 2
_SPACE_BESIDE = 20
"""Minimum width of the descriptions."""


def answered(given: Sequence[str], env: Mapping[str, str]) -> int | None:
    """Print the help or the version if the command line asks for nothing else.

    Returns the exit code, or None if something else was asked for or the page does not exist. `env` may set the line
    width.
    """
    if list(given) == ["--version"]:
        show(__version__)
        return 0
    words = given[:-1] if given and given[-1] in HELP_FLAGS else given
    if (words and words == given) or any(" " in word for word in words):
        return None
    page = json.loads(FILE.read_bytes()).get(" ".join(words))
    if page is None:
        return None
    show(page_text(page, line_width(env)))
    return 0


def page_text(page: Mapping[str, Any], width: int) -> str:
    """Lay out a help page from `FILE`."""
    panels = [panel_text(title, entries, width) for title, entries in page["panels"]]
    sections = [usage_text(page["usage"]), description_text(page["paragraphs"], width), *panels]
    return "".join(f"{section}\n" for section in sections)


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
