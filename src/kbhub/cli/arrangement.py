"""A command line as people write it → one that begins with its command, as the rest of the command line reads it.

Imports nothing: every command passes here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

VALUES = frozenset(("--root", "--config", "--cache-dir", "--base"))
FLAGS = frozenset(("--verbose", "--json", "--csv", "--md", "--xml", "--files", "--no-pager"))
"""The common options: those with a value, and those without; they may stand before the command."""

GROUPS = {
    "bases": ("add", "list", "remove", "rename", "show"),
    "context": ("add", "list", "remove", "rm"),
    "log": ("clear", "show"),
    "memories": ("export", "import", "move"),
}
"""Command → its subcommands."""

ALONE = {"bases": "list", "context": "list", "log": "show"}
"""Command → the subcommand that is meant where none is named; `memories` needs none."""

_HELP = ("--help", "-h")
_NO_COMMAND = (*_HELP, "--version")
_WORDS = {"help": "--help", "version": "--version", "-V": "--version"}
"""What people try → what does it."""


def arranged(given: Sequence[str]) -> list[str]:
    """Put the command first, options that stood before it behind it, and name the subcommand that is meant.

    `help COMMAND` is `COMMAND --help`.

    Args:
        given: what follows the program's name.
    """
    common, rest = _leading(given)
    if rest and (option := _WORDS.get(rest[0])):
        return [*rest[1:], option]
    if not rest or rest[0].startswith("-"):
        return rest if rest[:1] and rest[0] in _NO_COMMAND else list(given)
    command, rest = rest[:1], rest[1:]
    if subcommands := GROUPS.get(command[0]):
        more, after = _leading(rest)
        if after and after[0] in subcommands:
            common, command, rest = common + more, [*command, after[0]], after[1:]
        elif (meant := ALONE.get(command[0])) and (not after or _is_option(after[0])):
            command = [*command, meant]
    return [*command, *common, *rest]


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
