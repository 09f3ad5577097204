"""The command line: `app` names the commands, `commands` has them with their help, `console` prints.

Here a command line is brought into one order, before the libraries that parse it are loaded.
"""

from __future__ import annotations

from collections.abc import Sequence

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 plus the number of SIGINT, as shells have it."""

UNWRITTEN = "Cannot write the results: {}."
"""Message about standard output, with the reason that the system gives."""

VALUES = frozenset(("--root", "--config", "--cache-dir", "--base"))
FLAGS = frozenset(("--verbose", "--json", "--csv", "--md", "--xml", "--files", "--no-pager"))
"""Common options, which may precede the command: with a value, and without."""

GROUPS = {
    "bases": ("add", "list", "remove", "rename", "show"),
    "context": ("add", "list", "remove", "rm"),
    "dev": ("completion", "log", "schema"),
    "dev log": ("clear", "show"),
    "memories": ("export", "import", "inbox", "move", "restore", "sync"),
}
"""Command of the core → its subcommands."""

ALONE = {"bases": "list", "context": "list", "dev log": "show"}
"""Command → its default subcommand; `memories` also works without one."""

MOVED = ("completion", "embed", "log", "rerank", "schema")
"""Commands whose names of before, without `dev`, work until the next release."""

_HELP = ("--help", "-h")
_NO_COMMAND = (*_HELP, "--version")
_WORDS = {"help": "--help", "version": "--version", "-V": "--version"}
"""Common attempts → the option that does it."""


def arranged(given: Sequence[str]) -> list[str]:
    """Move the command to the front, before common options, and add the default subcommand if none is named.

    `help COMMAND` becomes `COMMAND --help`.
    """
    common, rest = _leading(given)
    if rest and (option := _WORDS.get(rest[0])):
        return [*rest[1:], option]
    if not rest or rest[0].startswith("-"):
        return rest if rest[:1] and rest[0] in _NO_COMMAND else list(given)
    command, rest = (["dev"] if rest[0] in MOVED else rest[:1]), rest[rest[0] not in MOVED :]
    while known := subcommands(" ".join(command)):
        more, after = _leading(rest)
        if after and after[0] in known:
            common, command, rest = common + more, [*command, after[0]], after[1:]
            continue
        if (meant := ALONE.get(" ".join(command))) and (not after or _is_option(after[0])):
            command = [*command, meant]
        break
    return [*command, *common, *rest]


def subcommands(command: str) -> list[str]:
    """Return the subcommands of a command, those of extensions among them."""
    if command == "serve":  # every window of an editor starts it, and needs no extension so early
        return []
    from kbhub.workspace.extensions import extensions  # noqa: PLC0415 - as above

    known = [name.rpartition(" ") for extension in extensions() for name in extension.commands]
    return [*GROUPS.get(command, ()), *(name for group, _, name in known if group == command)]


def _leading(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the common options that a command line begins with, and what follows them."""
    at = 0
    while at < len(given):
        name, mark, _ = given[at].partition("=")
        if given[at] in FLAGS or (name in VALUES and mark):
            at += 1
        elif name in VALUES and at + 1 < len(given) and not given[at + 1].startswith("-"):
            at += 2
        else:
            break
    return list(given[:at]), list(given[at:])


def _is_option(word: str) -> bool:
    return word.startswith("-") and word not in _HELP
