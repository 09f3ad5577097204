"""Options that commands share may stand before the command, and a group of commands alone lists."""

from __future__ import annotations

import shlex
from dataclasses import fields

import pytest

from kbhub.cli import ALONE, FLAGS, GROUPS, VALUES, arranged, subcommands
from kbhub.cli.app import app
from kbhub.cli.options import Formats

COMMON = {one.name for one in fields(Formats)}

LINES = {
    "--root /x search a b": "search --root /x a b",
    "--root=/x --json search a": "search --root=/x --json a",
    "--verbose --base a=1 --base b=2 search -- -a": "search --verbose --base a=1 --base b=2 -- -a",
    "--json bases list": "bases list --json",
    "bases --root /x list": "bases list --root /x",
    "--json bases --root /x show a": "bases show --json --root /x a",
    "--root /x serve --connect": "serve --root /x --connect",
    "memories --json export": "memories export --json",
    "memories --json deploy": "memories --json deploy",
    "bases": "bases list",
    "bases --csv": "bases list --csv",
    "--csv bases": "bases list --csv",
    "context": "context list",
    "log -n 3": "dev log show -n 3",
    "dev log": "dev log show",
    "--json schema config": "dev schema --json config",
    "--root /x --help": "--help",
    "--json --version": "--version",
    "help": "--help",
    "help bases add": "bases add --help",
    "version": "--version",
    "-V": "--version",
}

AS_THEY_ARE = [
    "", "search --root /x a", "search a", "serve", "--help", "bases --help", "bases lst", "bases list --json",
    "memories", "--root", "--root --json search a", "--root /x", "--nope search a", "-h",
]  # fmt: skip


def test_the_command_comes_first():
    for line in (*LINES, *AS_THEY_ARE):
        assert shlex.join(arranged(shlex.split(line))) == LINES.get(line, line)


def test_the_common_options_are_those_of_the_commands():
    arguments = [one for one in app["search"].assemble_argument_collection() if one.field_info.name in COMMON]
    assert {one.name for one in arguments if one.hint is not bool} == VALUES
    assert {one.name for one in arguments if one.hint is bool} == FLAGS


def test_the_groups_are_those_of_the_application():
    found = {}
    for words in (*GROUPS, "team"):
        group = app
        for word in words.split():
            group = group[word]
        found[words] = {one for one in group if not one.startswith("-")}
        alone = group.default_command is None and words not in ("dev", "team")
        assert (words in ALONE) == alone

    assert {name: set(subcommands(name)) for name in found} == found
    assert all(meant in GROUPS[name] for name, meant in ALONE.items())


@pytest.mark.parametrize("name", ["log", "schema"])
def test_a_command_that_moved_says_where_to(kbhub, name):
    old, new = kbhub(name, code=0), kbhub("dev", name, code=0)
    assert old.out == new.out
    assert f"kbhub: `kbhub {name}` is deprecated; use `kbhub dev {name}`." in old.err


def test_a_common_option_before_the_command_means_the_same(environment, kbhub):
    environment.write("../other/knowledge/crates.md", "# Crates\n\nA crate holds bottles.\n")
    environment.write("../other/.git/HEAD", "")
    for command in ("search crate", "ls", "bases list"):
        words, other = command.split(), str(environment.project.parent / "other")
        before = kbhub("--root", other, "--json", *words, code=0).json
        assert before == kbhub(*words, "--root", other, "--json", code=0).json
        assert "crates.md" in str(before) or "other" in str(before)


def test_a_command_that_is_missing_is_said_so(kbhub):
    for line in ("--root x", "--json", "--base=a=b --verbose"):
        done = kbhub(*line.split(), code=2)
        assert done.err == f"kbhub: No command after {line.split()[0]}. See `kbhub --help`.\n"


@pytest.mark.parametrize("group", ALONE)
def test_a_group_alone_lists_and_says_what_else_there_is(environment, kbhub, group):
    environment.write("knowledge/crates.md", "# Crates\n")
    environment.write(".kbhub.json", '{"contexts": {"": "All about crates"}}')
    kbhub("search", "crate")
    alone, listed = kbhub(*group.split(), code=0), kbhub(*group.split(), ALONE[group], code=0)
    assert alone.out == listed.out != ""
    assert alone.err == f"{listed.err}kbhub: See `kbhub {group} --help` for more.\n"
    assert kbhub(*group.split(), "--csv", code=0).err == listed.err


def test_wrong_usage_is_told_in_words_of_the_help(kbhub):
    for line, said in (
        ("bases lst", 'Unknown command "lst". Did you mean "list"?'),
        ("related", "`kbhub related` requires REF."),
        ("bases show", "`kbhub bases show` requires ID."),
        ("dev rerank", "`kbhub dev rerank` requires QUERY."),
        ("search x --root", "--root requires a value."),
        ("search x --limit many", 'Invalid value "many" for --limit. Expected a whole number.'),
        ("search x --recency new", 'Invalid value "new" for --recency. Expected a number.'),
        ("search -x", "Unknown option: -x. Put words that start with a dash after `--`."),
        ("--nosuch", "--nosuch cannot precede a command."),
    ):
        assert kbhub(*line.split(), code=2).err.startswith(f"kbhub: {said} ")


def test_a_base_that_was_never_indexed_has_no_number_of_documents(environment, kbhub):
    environment.write("knowledge/crates.md", "# Crates\n")
    before = kbhub("bases").out
    kbhub("index")
    assert " document" not in before
    assert "1 document" in kbhub("bases").out
