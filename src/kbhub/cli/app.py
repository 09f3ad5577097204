"""The application with its commands and help, and what prints: results to stdout, the rest to stderr."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TextIO

from cyclopts import App, CycloptsError, Group, Parameter, UnknownCommandError, exceptions

from kbhub import __version__
from kbhub.cli import (
    FLAGS,
    HELP,
    HELP_ALL,
    HELP_OPTIONS,
    SHORT,
    TOP,
    UNWRITTEN,
    VALUES,
    command_table,
    discard_results,
    leading,
    nearest,
    subcommands,
)
from kbhub.errors import KbhubError, UsageError
from kbhub.render.terminal import fitted, visible_line, wrapped
from kbhub.workspace.extensions import extensions

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions
    from rich.progress import Progress, TaskID

WIDEST_NAMES = 26
"""Maximum width of the column of names; the description of a longer name starts on the next line."""

WIDEST_LINE = 100

_INDENT = 2
_SPACE_BESIDE = 20


_HEADING, _COMMAND = 10, 8
"""Width of the first two columns of the list of commands."""

COMMON, MORE = "Common options", "More options"
_FOLDED = {COMMON: "Common options: `kbhub help options`", MORE: f"More options: `{HELP_ALL}`", [*TOP][-1]: ""}
"""Title of what a short help leaves out → what it says instead."""


class HelpColumns:
    """Help formatter for cyclopts, of a group of commands whose modules need not be loaded."""

    asked: list[str] = []  # noqa: RUF012

    def __init__(self, group: str = "") -> None:
        self._group = group

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:  # noqa: ARG002
        """Print a group of commands, arguments or options."""
        title = str(panel.title)
        if not panel.entries:
            return
        if title in _FOLDED and not {HELP_ALL, HELP_OPTIONS[-1]} & {*self.asked}:
            if _FOLDED[title]:
                _print(console, _FOLDED[title])
            return
        entries = []
        for entry in panel.entries:
            value = "" if entry.choices or entry.positional_label else (entry.metavar or "").rstrip(".")
            names = ", ".join(entry.display_labels) + (f" {value}" if value else "")
            choices = f"({', '.join(entry.choices)})" if entry.choices else ""
            about = " ".join(filter(None, (_plain(entry.description), choices)))
            paths = (f"{self._group} {name}".strip() for name in names.split(", "))
            known = command_table()
            entries.append((names, about or next((known[path][2] for path in paths if path in known), "")))
        if title in TOP:
            entries = sorted(entries, key=lambda entry: TOP[title].index(entry[0]))
            entries = [
                (f"{'' if number else title:{_HEADING}}{name:{_COMMAND}}", about)
                for number, (name, about) in enumerate(entries)
            ]
        column = min(max(len(names) for names, _ in entries), WIDEST_NAMES) + 2 * _INDENT
        widest = max(min(console.width, WIDEST_LINE), column + _SPACE_BESIDE)
        lines = [] if title in TOP else [f"{title}:"]
        for names, about in entries:
            opening = f"{' ' * _INDENT}{names}"
            if len(opening) > column - _INDENT:
                lines.append(opening)
                opening = ""
            lines.append(_filled(about, widest, opening.ljust(column), " " * column) or opening)
        _print(console, "\n".join(lines) + "\n" * (title not in TOP))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:  # noqa: ARG002
        """Print the usage line."""
        _print(console, f"Usage: {_plain(usage).removeprefix('Usage: ')}\n")

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:  # noqa: ARG002
        """Print the description of a command, each paragraph wrapped to the width."""
        paragraphs = [" ".join(paragraph.split()) for paragraph in _plain(description).split("\n\n")]
        filled = [_filled(text, min(console.width, WIDEST_LINE)) for text in paragraphs if text]
        _print(console, "\n\n".join(filled) + "\n")


def _filled(text: str, width: int, first: str = "", rest: str = "") -> str:
    return textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _plain(text: Any) -> str:
    """Return a text from cyclopts, which may be one of rich, without styles."""
    parts = (getattr(text, "primary_renderable", text), *getattr(text, "texts", ()))
    return "".join(str(part or "") for part in parts).strip()


def _print(console: Console, text: str) -> None:
    if HelpColumns.asked != HELP_OPTIONS or text.startswith(COMMON):
        console.print(text, markup=False, highlight=False, soft_wrap=True)


app = App(
    name="kbhub",
    help="Search the Markdown knowledge of a project and your own, from the shell and from coding agents.\n\n"
    "`kbhub QUERY…` is the same as `kbhub search QUERY…`. `kbhub COMMAND --help` has a command's options and an "
    "example, `kbhub help options` what every command takes, such as --root DIR and --json.",
    usage="kbhub COMMAND | QUERY…",
    help_flags=HELP,
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
_GROUPS = {
    **{name: about for extension in extensions() for name, about in extension.groups.items()},
    "admin": ("COMMAND", "Sync indexes, free space, stop the daemon."),
    "base": ("[COMMAND]", "Add, describe or trust bases, in ~/.kbhub.json.\n\nWithout a command, `list`."),
    "base context": ("[COMMAND]", "Describe what is where, for people and agents.\n\nWithout a command, `list`."),
    "dev": ("COMMAND", "For scripts and the curious: vectors, schemas, the log."),
    "doc": ("COMMAND", "Write, ingest, rename, delete or restore documents."),
    "memories": (
        "[COMMAND] | [QUERY…]",
        "List or search memories; export, import or move them.\n\nWithout a command, `list`.",
    ),
    "dev log": (
        "[COMMAND]",
        "Show or clear the query log of this project. It never leaves this machine.\n\nWithout a command, `show`.",
    ),
}
"""Group of commands → its usage after the name, and its help."""


_HEADINGS = {
    name: group
    for group, names in ((Group(title, sort_key=at), TOP[title]) for at, title in enumerate(TOP))
    for name in names
}


def _register() -> None:
    groups = {"": app}

    def group(words: str) -> App:
        if words not in groups:
            parent, _, name = words.rpartition(" ")
            usage, about = _GROUPS.get(words, ("COMMAND", "Commands of an extension."))
            made = App(
                name=name,
                help=about,
                usage=f"kbhub {words} {usage}",
                help_formatter=HelpColumns(words),
                group=_HEADINGS.get(words),
                help_flags=HELP,
            )
            group(parent).command(groups.setdefault(words, made))
        return groups[words]

    for words, (function, usage, _) in command_table().items():
        parent, _, name = words.rpartition(" ")
        names = ("rm", "remove") if words == "base context rm" else name
        group(parent).command(function, name=names, usage=f"kbhub {words} {usage}", group=_HEADINGS.get(words))
    app["--help"].show = app["--version"].show = False


_register()

_DASHES = {"kbhub search": "words", "kbhub read": "refs"}
"""Commands whose arguments may well begin like options, and what those arguments are."""

MOST_NAMED = 8

_NUMBERS: dict[object, str] = {int: "a whole number", float: "a number"}


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code; expected errors are printed as one line on standard error."""
    HelpColumns.asked = arguments
    try:
        code: int | None = app(["search", "--help"] if arguments == HELP_OPTIONS else arguments)
    except CycloptsError as error:
        complain(_usage_text(error))
        return UsageError.exit_code
    except KbhubError as error:
        complain(str(error))
        return error.exit_code
    except PermissionError as error:  # mostly of kbhub's own folders, at any depth
        complain(f"{error.filename}: {error.strerror}. Make it accessible; `kbhub doctor` checks kbhub's own folders.")
        return KbhubError.exit_code
    return code or 0


def _usage_text(error: CycloptsError) -> str:
    error.verbose = False  # the verbose text is about our functions
    command = " ".join(("kbhub", *(error.command_chain or ())))
    if isinstance(error, UnknownCommandError):  # for its own message, cyclopts would import the modules of all
        word = error.unused_tokens[0] if error.unused_tokens else ""
        names = [name for name in error.app or () if not name.startswith("-")]
        similar = "".join(f' Did you mean "{name}"?' for name in get_close_matches(word, names, n=1))
        shown = ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else ".")
        text = f'Unknown command "{word}".{similar} Available commands: {shown}'
        if not error.command_chain and nearest(word):
            text = f'Unknown command "{word}". Did you mean "{nearest(word)}"? To search for it: `kbhub search {word}`.'
        if word.startswith("-"):
            common = word.partition("=")[0] in FLAGS | VALUES
            text = f"No command after {word}." if common else f"{word} cannot precede a command."
    else:
        text = " ".join(str(error).split())
    if isinstance(error, exceptions.MissingArgumentError) and (argument := error.argument):
        named = argument.name if argument.field_info.is_keyword_only else argument.name.strip("-_").upper()
        text = f"{error.keyword} requires a value." if error.keyword else f"`{command}` requires {named}."
    if isinstance(error, exceptions.CoercionError) and error.token and (wanted := _NUMBERS.get(error.target_type)):
        text = f'Invalid value "{error.token.value}" for {error.token.keyword}. Expected {wanted}.'
    if isinstance(error, exceptions.UnusedCliTokensError):
        text = f"Unexpected arguments: {shlex.join(error.unused_tokens or [])}. Usage: {error.app and error.app.usage}."
    if isinstance(error, exceptions.UnknownOptionError) and command in _DASHES:
        text = text.removesuffix(" Did you mean -?")  # `-` is standard input, and like any short option
        text += f" Put {_DASHES[command]} that start with a dash after `--`."
    return f"{text} See `{command} --help`."


CLOSE = 0.75
"""Similarity (`difflib`) of a word and a command that it may misspell: that of `srch`, not that of most words."""


def misspelt(query: Sequence[str], command: str = "") -> list[str]:
    """Return the command, or subcommand, that a query probably misspells, as a question; none if one was named."""
    typed = leading(sys.argv[1:])[1]
    for _ in command.split():
        typed = leading(typed[1:])[1]
    if not query or typed[:1] != [query[0]]:
        return []
    close = get_close_matches(query[0], [name for name in subcommands(command) if len(name) > SHORT], 1, CLOSE)
    start = f"kbhub {command}".strip()
    return [f"Searched for {' '.join(query)!r}. Did you mean the command `{start} {name}`?" for name in close]


MESSAGE_CHARACTERS = 2_000
"""Maximum length of a message, a screenful; it may quote paths of up to 4,096 characters and arguments of 131,072."""

USUAL_WIDTH = 80

PATIENCE_SECONDS = 0.2
"""Delay before a progress bar appears, so that it does not flicker."""


def wants_colour(stream: TextIO) -> bool:
    """Return whether to use colours: by `NO_COLOR`, then `FORCE_COLOR`, unless empty, then whether it is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def line_width() -> int:
    """Return the columns of the terminal, as `COLUMNS` or standard output have them."""
    columns = shutil.get_terminal_size((USUAL_WIDTH, 0)).columns
    return columns - (os.name == "nt")  # an old console there ends a full line by itself


def terminal_width() -> int | None:
    """Return the columns of the terminal that shows the results; None if there is none or it is dumb."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return None
    return line_width()


def show(text: str, *, exact: bool = False) -> None:
    """Print a result at once, adding a newline if it is missing, unless it is `exact`."""
    try:
        sys.stdout.write(text if exact or not text or text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_results()
        raise KbhubError(UNWRITTEN.format(error.strerror)) from error


def complain(*messages: str) -> None:
    """Print each message on one line of standard error; on a terminal, wrapped at words."""
    half = MESSAGE_CHARACTERS // 2
    for message in messages:  # without its middle if it is too long: it may quote a file, and its end says what to do
        short = message if len(message) <= MESSAGE_CHARACTERS else f"{message[:half]} … {message[-half:]}"
        line = f"kbhub: {visible_line(short)}"
        if sys.stderr.isatty():
            line = "\n  ".join(wrapped(line, line_width() - len("  ")))
        sys.stderr.write(f"{line}\n")


def confirmed(question: str) -> bool:
    """Ask on standard error; `False` unless the answer is yes, or if there is no terminal to ask on."""
    if not sys.stdin.isatty():
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@contextmanager
def progress_bars(verb: str = "indexing ", what: str = "") -> Iterator[Callable[[str, int, int], None] | None]:
    """Yield what shows progress (id of a base, unless it is of `what`; done, to do), or None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    began: float | None = None  # with the first report: what comes before it says nothing of how long the rest takes
    bars: Progress | None = None
    tasks: dict[str, TaskID] = {}
    with ExitStack() as stack:

        def show_progress(base: str, done: int, todo: int) -> None:
            nonlocal began, bars
            now = time.monotonic()
            began = now if began is None else began
            if bars is None:
                if now - began < PATIENCE_SECONDS:
                    return
                # Importing rich.progress takes 60 ms, and most searches need no progress bar.
                from rich import console, progress  # noqa: PLC0415

                columns = (
                    progress.TextColumn("{task.description}", markup=False),
                    progress.BarColumn(),
                    progress.MofNCompleteColumn(),
                    progress.TimeRemainingColumn(),
                )
                shown = progress.Progress(*columns, console=console.Console(file=sys.stderr), transient=True)
                bars = stack.enter_context(shown)
            name = what or base
            if name not in tasks:
                tasks[name] = bars.add_task(f"{verb}{visible_line(name)}", total=todo)
            bars.update(tasks[name], completed=done, total=todo)

        yield show_progress


LESS_OPTIONS = "FRX"
"""Default options of `less`: quit if the text fits on a screen, show colours, keep the screen."""

SHELL_SIGNS = frozenset("|&;<>()$`")
"""Characters for which PAGER needs a shell; some editors set it to `head -n 10000 | cat` for agents."""


def page(text: str, *, pager: bool = True) -> None:
    """Print neutralised text; on a terminal, wrapped and, if longer than the screen, in the user's pager."""
    width = terminal_width()
    if width is not None:
        text = fitted(text, width)
    size, command = shutil.get_terminal_size(), None
    # Standard input must be a terminal, too: a pager would block a script that pipes into kbhub.
    if pager and sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        rows = sum(1 + max(0, len(line) - 1) // max(1, size.columns) for line in text.splitlines())
        command = _pager() if rows >= size.lines else None
    if command is None:
        show(text)
        return
    environment = {"LESS": LESS_OPTIONS, **os.environ}
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as process:  # noqa: S603 - the user's own
            with suppress(KeyboardInterrupt):
                process.communicate(f"{text}\n".encode("utf-8", "backslashreplace"))
            while process.poll() is None:  # it handles Ctrl-C itself
                with suppress(KeyboardInterrupt):
                    process.wait()
    except OSError:
        show(text)


def _pager() -> list[str] | None:
    """Return the command of the user's pager; None if there is none or it only prints."""
    named = os.environ.get("PAGER", "less")
    try:
        words = shlex.split(named)
    except ValueError:
        return None
    program = shutil.which(words[0]) if words else None
    # A program of the working directory came with a clone.
    if program is None or not os.path.isabs(program) or words == ["cat"]:  # noqa: PTH117
        return None
    if SHELL_SIGNS.isdisjoint(named):
        return [program, *words[1:]]
    return ["/bin/sh", "-c", named] if os.name == "posix" else None
