"""The application: its name, help and defaults. `registry` adds the commands, `run` starts them."""

from __future__ import annotations

from cyclopts import App, Group, Parameter

from kbhub import __version__
from kbhub.cli.columns import Columns

app = App(
    name="kbhub",
    help="Search the Markdown knowledge of a project and your own, from the shell and from coding agents.\n\n"
    "`kbhub COMMAND --help` shows a command's options and an example. Common options, such as `--root DIR` and "
    "`--json`, may come before or after the command.",
    group_parameters=Group("Options", sort_key=1),
    version=__version__,
    help_format="plaintext",
    help_formatter=Columns(),
    # No `--no-json` and the like: leaving the option out does the same.
    default_parameter=Parameter(negative=(), show_default=False),
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)
