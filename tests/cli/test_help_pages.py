"""The pages of help that are kept are those of the declared commands, and are shown as cyclopts would show them."""

from __future__ import annotations

import io
import json
import sys

import pytest
from rich.console import Console

import reference_pages as made
from kbhub import __version__
from kbhub.__main__ import main
from kbhub.cli import pages
from kbhub.cli.app import HelpColumns, _description, _names, _paragraphs, _plain
from kbhub.cli.console import USUAL_WIDTH
from kbhub.cli.run import app, load

load(app)


class Kept(HelpColumns):
    """Takes a page as cyclopts hands it over, as `pages.json` has it."""

    def __init__(self):
        self.page = {"usage": "", "paragraphs": [], "panels": []}

    def __call__(self, console, _options, panel):
        if panel.entries:
            entries = [[_names(entry), _description(console, entry)] for entry in panel.entries]
            self.page["panels"].append([str(panel.title), entries])

    def render_usage(self, console, _options, usage):
        self.page["usage"] = _plain(console, usage).removeprefix("Usage: ")

    def render_description(self, console, _options, description):
        self.page["paragraphs"] = _paragraphs(console, description)


def console(width):
    return Console(file=io.StringIO(), width=width)


def kept_page(words):
    taken, before = Kept(), app.help_formatter
    app.help_formatter = taken
    try:
        app.help_print(list(words), console=console(USUAL_WIDTH))
    finally:
        app.help_formatter = before
    return taken.page


def printed_by_cyclopts(words, width):
    """What cyclopts prints."""
    there = console(width)
    app.help_print(words.split(), console=there)
    return there.file.getvalue()


def written():
    return json.loads(pages.FILE.read_bytes())


def test_the_pages_are_those_of_the_commands():
    """A run that changes one fails, so that the change is seen."""
    commands = [(), *sorted(page.words for page in made.pages())]
    text = json.dumps({" ".join(words): kept_page(words) for words in commands}, ensure_ascii=False, indent=1) + "\n"
    before = pages.FILE.read_text("utf-8") if pages.FILE.exists() else ""
    if text != before:
        pages.FILE.write_text(text, "utf-8")

    assert text == before, f"{pages.FILE.name} was out of date and has been written anew; look at the difference"


@pytest.mark.parametrize("width", [20, 60, 80, 250])
def test_a_page_is_laid_out_as_cyclopts_prints_it(width):
    """At any width, for every command."""
    other = [
        words for words, page in written().items() if pages.page_text(page, width) != printed_by_cyclopts(words, width)
    ]

    assert other == []


@pytest.mark.parametrize("line", ["", "-h", "--help", "search --help", "search -h", "bases add --help", "--version"])
def test_help_does_not_wait_for_cyclopts(line, capsys, monkeypatch):
    """It says what cyclopts would, on a terminal of the width that `COLUMNS` names."""
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setitem(sys.modules, "kbhub.cli.run", None)
    assert main(line.split()) == 0

    words = line.replace("--help", "").replace("-h", "").strip()
    expected = f"{__version__}\n" if line == "--version" else printed_by_cyclopts(words, 70)
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    "line", [["serch", "--help"], ["search", "x", "-h"], ["-h", "search"], ["bases add", "-h"], ["memories"]]
)
def test_what_is_no_plain_question_is_left_to_cyclopts(line):
    """It knows what was meant, or does it."""
    assert pages.answered(line, {}) is None
