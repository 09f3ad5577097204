"""The order of a command line, found before the libraries that parse it are loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import chain

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 plus the number of SIGINT, as shells have it."""

UNWRITTEN = "Cannot write the results: {}."
"""Message about standard output, with the reason that the system gives."""

VALUES = frozenset(("--root", "--config", "--cache-dir", "--base"))
FLAGS = frozenset(("--verbose", "--json", "--csv", "--md", "--xml", "--files", "--no-pager"))
"""Common options, which may precede the command: with a value, and without."""

TOP = {
    "Find": ("search", "ask", "read", "related", "ls"),
    "Remember": ("remember", "recall", "forget", "memories"),
    "Set up": ("setup", "init", "base"),
    "Look": ("ui", "status", "doctor", "audit", "gaps"),
    "Write": ("doc",),
    "Team": ("team",),
    "Admin": ("admin",),
    "Other": ("serve", "hook", "dev"),
}
"""Heading of `kbhub --help` → its commands, the last for `--help-all`. Any other first word is searched for."""

GROUPS = {
    "admin": ("cleanup", "hooks", "index", "stop"),
    "base": ("add", "context", "list", "remove", "rename", "show", "trust"),
    "base context": ("add", "list", "remove", "rm"),
    "dev": ("completion", "log", "schema"),
    "dev log": ("clear", "show"),
    "doc": ("delete", "distil", "rename", "restore", "write"),
    "memories": ("export", "import", "inbox", "list", "move", "restore", "sync"),
}
"""Command of the core → its subcommands."""

ALONE = {"base": "list", "base context": "list", "dev log": "show"}
"""Command → its default subcommand; `memories` also works without one."""

OLD = {
    "bases": "base",
    "tags": "ls --tags",
    **{name: f"base {name}" for name in ("context", "trust")},
    **{name: f"doc {name}" for name in ("delete", "distil", "ingest", "rename", "restore", "write")},
    **{name: f"team {name}" for name in ("publish", "pull")},
    **{name: f"admin {name}" for name in ("cleanup", "hooks", "index", "stop")},
    **{name: f"dev {name}" for name in ("completion", "embed", "eval", "log", "rerank", "schema")},
}
"""Name of before → the present one; it works until the next release."""

HELP_ALL, HELP_OPTIONS = "--help-all", ["help", "options"]
HELP = ("--help", "-h", HELP_ALL)
_NO_COMMAND = (*HELP, "--version")
_WORDS = {"help": "--help", "version": "--version", "-V": "--version"}
"""Common attempts → the option that does it."""

SHORT = 3
"""Letters of a command that too many other words resemble."""


def discard_results() -> None:
    """Discard what standard output did not take: the interpreter flushes again at exit, which must not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def arranged(given: Sequence[str]) -> list[str]:
    """Move the command to the front, present name and default subcommand included; other words become a search."""
    common, rest = leading(given)
    if rest == HELP_OPTIONS:
        return rest
    if rest and (option := _WORDS.get(rest[0])) and (option in HELP or not rest[1:]):
        words = leading(rest[1:])[1]
        if option in HELP and words and words[0] not in {*chain(*TOP.values()), *OLD, "help", *subcommands("")}:
            return [*words, option]  # no search: it has no help of such a command
        return arranged([*rest[1:], option])
    if not rest or rest[0].startswith("-"):
        return rest if rest[:1] and rest[0] in _NO_COMMAND else list(given)
    if rest[0] in OLD:
        rest[:1] = OLD[rest[0]].split()
    elif rest[0] not in chain(*TOP.values()):
        misspelt = nearest(rest[0]) and all(word.startswith("-") for word in rest[1:])
        if not misspelt and rest[0] not in subcommands(""):
            rest.insert(0, "search")
    command, rest = rest[:1], rest[1:]
    while known := subcommands(" ".join(command)):
        more, after = leading(rest)
        if after and after[0] in known:
            common, command, rest = common + more, [*command, after[0]], after[1:]
            continue
        named = after and not (after[0].startswith("-") and after[0] not in HELP)
        if (meant := ALONE.get(" ".join(command))) and not named:
            command = [*command, meant]
        break
    return [*command, *common, *rest]


def nearest(word: str) -> str | None:
    """Return the command that a word misspells by one letter: added, left out, wrong or swapped with the next."""
    return next((name for name in chain(*TOP.values()) if len(name) > SHORT and _is_near(word, name)), None)


def _is_near(word: str, name: str) -> bool:
    while word and word[:1] == name[:1]:
        word, name = word[1:], name[1:]
    while word and word[-1:] == name[-1:]:
        word, name = word[:-1], name[:-1]
    return max(len(word), len(name)) < len("ab") or (len(word) == len("ab") and word == name[::-1])


def subcommands(command: str) -> list[str]:
    """Return the subcommands of a command, those of extensions among them; of the empty one, only the latter."""
    if command == "serve":  # every window of an editor starts it, and needs no extension so early
        return []
    from kbhub.workspace.extensions import extensions  # noqa: PLC0415 - as above

    start = f"{command} " if command else ""
    added = [name for one in extensions() for name in one.commands if name.startswith(start)]
    return [*GROUPS.get(command, ()), *[name.removeprefix(start).partition(" ")[0] for name in added]]


def leading(given: Sequence[str]) -> tuple[list[str], list[str]]:
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
