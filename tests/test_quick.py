"""A search that is read at a glance is the one that cyclopts reads."""

from __future__ import annotations

import itertools
import json
import shlex
import subprocess
import sys

import pytest

from kbhub.cli import pages
from kbhub.cli.run import app
from kbhub.cli.search_line import FLAGS, VALUES, asked
from test_cli import ROOT

TRIED = {
    "bases": ["notes", "a b"],
    "mode": ["keyword", "semantic", "hybrid", "both"],
    "limit": ["1", "100", "0", "101"],
    "page": ["1", "7", "0", "x"],
    "granularity": ["document", "chunk", "file"],
    "expand_model": ["qwen3:4b"],
    "min_score": ["0", "1", "0.5", ".25", "1.0", "2", "1e-1"],
    "recency": ["0", "0.75", "-1", "nan"],
    "min_signals": ["1", "2", "3"],
    "around": ["0", "3", "1000", "1001", "03", "1_0", "٣"],
    "root": ["/tmp", "..", "~/x", "a=b"],
    "config": ["c.json", "~/c.json"],
    "cache_dir": ["/x/../y"],
    "base": ["notes=~/notes", "a=b=c"],
}
"""Field → values to try, some of which are wrong."""

LINES = """\
search
search rust closures
search 'a b' c
search ''
search -
search x --
search -- -x --help
search a -- b
search a --limit 3 b
search a --limit=3
search --limit 3 a --explain b -
search a -n 3 -C 2
search a=b
search tag:ops -- -draft
search --in a --in b x
search x --base a=1 --base=b=2
search 'tag:ops' "'"
search x --explain --all --expand --rerank --full --line-numbers
search $HOME '*' é 日本 -n 5
search x --root /tmp --config a.json --cache-dir c --json
search x --verbose --no-pager --md
""".splitlines()

OTHER = """\
search --nope
search -x
search a --limit
search a --limit -3
search a --limit= b
search a --limit 3 --limit 4
search a -n3
search --help
search a -h
search --version
search a --mode=
search -- a -- b
search a --explain --explain
search a --explain=yes
search a --no-explain
--json search a
serch a
read a
""".splitlines()


def by_cyclopts(line):
    """What cyclopts makes of a line, in the words of `commands.searching.search`."""
    _, bound, _ = app.parse_args(line, exit_on_error=False, print_error=False)
    bound.apply_defaults()
    given = bound.arguments
    return {"words": given.pop("query"), "options": given.pop("hits"), **given}


@pytest.mark.parametrize("line", LINES)
def test_a_plain_search_is_what_cyclopts_reads(line):
    """Words, options and their defaults, in any order."""
    arguments = shlex.split(line)

    assert asked(arguments) == by_cyclopts(arguments)


@pytest.mark.parametrize("line", OTHER)
def test_what_is_not_plain_is_left_to_cyclopts(line):
    """What is wrong, or means something else than to search."""
    assert asked(shlex.split(line)) is None


def test_every_option_with_every_value_means_what_it_means_to_cyclopts():
    """Or is left to it; most that are right are not."""
    lines = [["search", "x", flag] for flag in FLAGS]
    for name, option in VALUES.items():
        lines += [["search", name, value, "x"] for value in TRIED[option.field]]
        lines += [["search", "x", f"{name}={value}"] for value in TRIED[option.field] if name.startswith("--")]
    read = [(line, asked(line)) for line in lines]

    assert [line for line, found in read if found is not None and found != by_cyclopts(line)] == []
    assert len([found for _, found in read if found is not None]) > len(read) / 2


def test_no_option_of_search_is_forgotten():
    """A new one is to be read here, too, or a search with it is slow."""
    panels = json.loads(pages.FILE.read_bytes())["search"]["panels"]
    entries = [name.split(" ")[0] for _, entries in panels for names, _ in entries for name in names.split(", ")]

    assert {name for name in entries if name.startswith("-")} == {*FLAGS, *VALUES}


def test_pairs_of_options_mean_what_they_mean_to_cyclopts():
    """One option does not change how another is read."""
    first = {option.field: [name, TRIED[option.field][0]] for name, option in VALUES.items()}
    parts = [*first.values(), *([flag] for flag in FLAGS)]
    lines = [["search", "x", *one, *other] for one, other in itertools.combinations(parts, 2)]

    assert [line for line in lines if asked(line) != by_cyclopts(line)] == []


def test_a_plain_search_does_not_load_the_command_line(environment):
    """Neither cyclopts nor rich nor pydantic, and what it says of a mistake is what it always says."""
    environment.write("knowledge/crates.md", "# Crates\n\nA crate holds bottles.\n")
    environment.write(f"{environment.home}/.kbhub.json", '{"search": {"limit": 4}, "docsFallback": false}')
    environment.hub().sync()
    script = (
        "import sys; from kbhub.__main__ import main\n"
        "assert main(['search', 'crate', '--limit', '3']) == 0\n"
        "assert main(['search']) == 2\n"
        "print({'cyclopts', 'rich', 'mcp', 'pydantic', 'yaml'} & set(sys.modules))\n"
    )
    env = {**environment.env, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, cwd=environment.project, capture_output=True, text=True, timeout=60
    )

    assert done.stdout.splitlines()[-1] == "set()", done.stderr
    assert "crates.md" in done.stdout
    assert "kbhub: Nothing to search for." in done.stderr
