"""The order of a command line, found before the libraries that parse it are loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
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

TABLE = """\
search | search:search | [OPTIONS] QUERY… | Search all active bases.
ask | basics:ask | [OPTIONS] QUESTION… | Answer a question from the documents, with citations.
read | lists:read | [OPTIONS] REF… | Print documents, or parts of them, as they are on disk.
related | lists:related | [OPTIONS] REF | Show documents related to one, by links, tags or meaning.
ls | lists:ls | [OPTIONS] [BASE[/PATH]] | List documents, or tags and the documents that have them.
remember | memories:remember | [OPTIONS] TEXT… | - | Remember something, or change or confirm a memory.
recall | memories:recall | [OPTIONS] QUERY… | Print the best matching memories in full.
forget | memories:forget | [OPTIONS] [ID…] | Forget memories, by id or by filter.
setup | setup:setup | [OPTIONS] | Register kbhub with the coding agents on this machine.
init | basics:init | [OPTIONS] | Choose what kbhub searches here, or create knowledge/.
base list | bases:list_ | [OPTIONS] | List all your bases, and any others that are active here.
base add | bases:add | [OPTIONS] DIR|ID=DIR | Add a folder of Markdown files as a base.
base remove | bases:remove | [OPTIONS] ID | Remove a base from ~/.kbhub.json. Your documents are not touched.
base rename | bases:rename | [OPTIONS] OLD NEW | Change the id of a base. Its folder and index stay the same.
base show | bases:show | [OPTIONS] ID | Show the details of a base.
base context list | bases:list_contexts | [OPTIONS] [BASE[/PATH]] | List the descriptions of bases and paths.
base context add | bases:add_context | [OPTIONS] [BASE[/PATH]] TEXT | Describe a base, or a path in a base.
base context rm | bases:remove_context | [OPTIONS] [BASE[/PATH]] | Remove the description of a base or path.
base trust | basics:trust | [OPTIONS] [POINTER]
    Allow a project's pointer to reach a folder outside the project, or hooks to deliver its documents.
status | basics:status | [OPTIONS] | Show the workspace, its bases and indexes, and problems.
doctor | upkeep:doctor | [OPTIONS] | Check the installation, and say how to fix what fails.
audit | upkeep:audit | [OPTIONS] [BASE…] | Find problems in documents, such as broken links.
gaps | upkeep:gaps | [OPTIONS] | List questions asked repeatedly that no document answers.
memories list | memories:memories | [OPTIONS] [QUERY…]
    List the memories active here, strongest first, or search them.
memories export | memories:export | [OPTIONS]
    Print all memories as one JSON document. Text that looks like a credential is left out.
memories import | memories:import_ | [OPTIONS] PATH | -
    Import memories from an export, a basic-memory folder, or the file of an MCP memory server.
memories move | memories:move | [OPTIONS] OLD | Move the memories of another folder or project to this project.
memories restore | memories:restore | [OPTIONS] [ID] | Restore a forgotten memory, or list those that can be restored.
memories inbox | exchange:inbox | [OPTIONS] [ID…]
    List the memories proposed at the end of sessions, and accept or dismiss them.
memories sync | exchange:sync | [OPTIONS]
    Sync this project's memories with your other machines, through a ref of a git remote.
doc write | documents:write | [OPTIONS] REF
    Create or change a document, leaving the rest of it byte for byte the same.
doc rename | documents:rename | [OPTIONS] REF NEW
    Move a document to another path in its base, and list the links this breaks.
doc delete | documents:delete | [OPTIONS] REF | Move a document to kbhub's trash, and list the links this breaks.
doc restore | documents:restore | [OPTIONS] [NAME]
    Restore a deleted document, or list those that can be restored. Never overwrites a file.
doc distil | documents:distil | [OPTIONS] MODEL [TEXT]
    Save a chat answer as a document, with links to documents similar in meaning.
admin index | upkeep:index | [OPTIONS] [BASE…] | Sync the indexes of bases with their files.
admin cleanup | bases:cleanup | [OPTIONS]
    Delete what nothing needs: indexes without a base, damaged indexes, corpora of `kbhub dev eval`, cached answers.
admin stop | daemon:stop | [OPTIONS] | Stop the shared daemon.
admin hooks | exchange:hooks | [OPTIONS]
    Show which clients run hooks, whether this project allows them, and what they delivered.
serve | daemon:serve | [OPTIONS] | Run the MCP server on standard input and output.
hook | exchange:hook | EVENT --client NAME | Answer a hook of a coding agent.
dev schema | setup:schema | [OPTIONS] [NAME]
    Print the JSON Schema of the global config, a pointer, a memory, or the input or output of a tool.
dev completion | setup:completion | [OPTIONS] SHELL | Print the shell completion script for bash, zsh or fish.
dev log show | upkeep:show | [OPTIONS] | Show the queries of this project, yours and those of agents, newest first.
dev log clear | upkeep:clear | [OPTIONS] | Delete the query log of this project, and its gaps.
"""
"""Name, function in `commands`, usage after the name, and the first sentence of the help: for lists of commands, as a
function is imported only when it runs."""

ALONE = {"base": "list", "base context": "list", "dev log": "show", "memories": "list"}
"""Command → its default subcommand; any other word after `memories` starts a query."""

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
        named = after and not after[0].startswith("-") and command != ["memories"]
        helped = after and after[0] in HELP
        if (meant := ALONE.get(" ".join(command))) and not (named or helped):
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
    """Return the subcommands of a command; of the empty one, all commands."""
    if command == "serve":  # every window of an editor starts it, and needs no extension so early
        return []
    start = f"{command} " if command else ""
    return [name.removeprefix(start).partition(" ")[0] for name in command_table() if name.startswith(start)]


@cache
def command_table() -> dict[str, tuple[str, str, str]]:
    """Return command → function, usage, summary; no extension takes one of the core over."""
    from kbhub.workspace.extensions import commands_in, extensions  # noqa: PLC0415 - as above

    core = commands_in("kbhub.cli.commands.", TABLE)
    added = {name: command for one in extensions() for name, command in one.commands.items()}
    return core | {name: command for name, command in added.items() if name not in core}


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
