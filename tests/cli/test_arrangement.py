"""Options that commands share may stand before the command, and a group of commands alone lists."""

import re
import shlex
import sys
from dataclasses import fields

import pytest

from kbhub.cli import ALONE, FLAGS, OLD, TOP, VALUES, arranged, subcommands
from kbhub.cli.app import app
from kbhub.cli.options import Formats

COMMON = {one.name for one in fields(Formats)}

LINES = {
    "--root /x search a b": "search --root /x a b",
    "--root=/x --json search a": "search --root=/x --json a",
    "--verbose --base a=1 --base b=2 search -- -a": "search --verbose --base a=1 --base b=2 -- -a",
    "--json base list": "base list --json",
    "base --root /x list": "base list --root /x",
    "--json base --root /x show a": "base show --json --root /x a",
    "--root /x serve --connect": "serve --root /x --connect",
    "memories --json export": "memories export --json",
    "memories": "memories list",
    "memories --json deploy": "memories list --json deploy",
    "base": "base list",
    "base --csv": "base list --csv",
    "--csv base": "base list --csv",
    "base context": "base context list",
    "dev log": "dev log show",
    "--json schema config": "dev schema --json config",
    "--root /x tags ops": "ls --root /x --tags ops",
    "context rm a": "base context rm a",
    "--json roll back": "search --json roll back",
    "'how do we serch?' -n 3": "search 'how do we serch?' -n 3",
    "serch crates": "search serch crates",
    "task": "search task",
    "version control": "search version control",
    "--root /x --help": "--help",
    "--json --version": "--version",
    "help": "--help",
    "help base add": "base add --help",
    "help bases": "base --help",
    "help --json nosuch": "nosuch --help",
    "version": "--version",
    "-V": "--version",
}

AS_THEY_ARE = [
    "", "search --root /x a", "search a", "serve", "--help", "base --help", "base lst", "base list --json",
    "memories --help", "help options", "serch", "statsu --json", "--root", "--root --json search a", "--root /x",
    "--nope search a", "-h",
]  # fmt: skip


def test_the_command_comes_first_common_options_are_those_of_commands_and_groups_those_of_the_application():
    for line in (*LINES, *AS_THEY_ARE):
        assert shlex.join(arranged(shlex.split(line))) == LINES.get(line, line)
    arguments = [one for one in app["search"].assemble_argument_collection() if one.field_info.name in COMMON]
    assert {one.name for one in arguments if one.hint is not bool} == VALUES
    assert {one.name for one in arguments if one.hint is bool} == FLAGS

    assert all(meant in subcommands(name) for name, meant in ALONE.items())
    assert {one for names in TOP.values() for one in names} == {one for one in app if not one.startswith("-")}
    assert sum(map(len, TOP.values())) <= 26


@pytest.mark.parametrize("old", OLD)
def test_an_old_name_does_the_same_and_says_the_new_one(kbhub, old):
    new = OLD[old].split()
    before, after = kbhub(old, "--no-such-option", code=2), kbhub(*new, "--no-such-option", code=2)
    assert before.err == f"{after.err}kbhub: `kbhub {old}` is deprecated; use `kbhub {OLD[old]}`.\n"


def test_words_that_name_no_command_are_searched_for_and_a_misspelt_one_is_named(environment, kbhub, monkeypatch):
    environment.write("knowledge/crates.md", "# Crates\n\nA crate holds bottles.\n")
    assert kbhub("bottles", "in", "a", "crate").out == kbhub("search", "bottles in a crate").out != ""
    for line, meant in (("serch", "search"), ("statsu --json", "status"), ("memory", None), ("memorie", "memories")):
        done = kbhub(*line.split())
        said = f'Unknown command "{line.split()[0]}". Did you mean "{meant}"? To search for it: `kbhub search '
        assert (done.code, said in done.err) == ((2, True) if meant else (0, False))
    assert 'Unknown command "memory". Did you mean "memories"?' in kbhub("help", "memory", code=2).err
    hinted = {"srch lorries": ["search"], "memories --json exprot": ["memories export"]}
    for line in (*hinted, "srch crate holds bottles", "search srch lorries", "memories list exprot"):
        monkeypatch.setattr(sys, "argv", ["kbhub", *line.split()])
        asked = re.findall("Did you mean the command `kbhub (.*)`", kbhub(*line.split()).err)
        assert asked == hinted.get(line, []), line


def test_a_search_shows_nine_options_and_all_when_asked(kbhub):
    def options(*line):
        return re.findall(r"^  (-\S*)", kbhub(*line, code=0).out, re.MULTILINE)

    common, every = options("help", "options"), options("search", "--help-all")
    assert len(options("search", "--help")) == 9
    assert len(set(every)) == len(every) == 9 + 8 + len(common)
    assert {f"--{one.name.replace('_', '-')}" for one in fields(Formats)} == set(common)


@pytest.mark.parametrize("group", ALONE)
def test_a_group_alone_lists_and_says_what_else_there_is(environment, kbhub, group):
    environment.write("knowledge/crates.md", "# Crates\n")
    environment.write(".kbhub.json", '{"contexts": {"": "All about crates"}}')
    kbhub("search", "crate")
    kbhub("remember", "crates hold bottles")
    alone, listed = kbhub(*group.split(), code=0), kbhub(*group.split(), ALONE[group], code=0)
    assert alone.out == listed.out != ""
    assert alone.err == f"{listed.err}kbhub: See `kbhub {group} --help` for more.\n"
    assert kbhub(*group.split(), "--csv", code=0).err == listed.err
