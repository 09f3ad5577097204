"""The application: its name, help, defaults and the layout of its help. `run` adds the commands and starts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyclopts import App, Group, Parameter

from kbhub import __version__
from kbhub.cli.pages import description_text, panel_text, usage_text

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions


UNBROKEN = 10_000
"""Line width that keeps rich from wrapping, longer than any description."""


class HelpColumns:
    """Help formatter for cyclopts."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:  # noqa: ARG002
        """Print a group of commands, arguments or options."""
        if panel.entries:
            entries = [(_names(entry), _description(console, entry)) for entry in panel.entries]
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


app = App(
    name="kbhub",
    help="Search the Markdown knowledge of a project and your own, from the shell and from coding agents.\n\nRun "
    "`kbhub COMMAND --help` for a command's options and an example. Common options, such as `--root DIR` and "
    "`--json`, may come before or after the command.",
    group_parameters=Group("Options", sort_key=1),
    version=__version__,
    help_format="plaintext",
    help_formatter=HelpColumns(),
    # No `--no-json` and the like: leaving the option out does the same.
    default_parameter=Parameter(negative=(), show_default=False),
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)
