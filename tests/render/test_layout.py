"""What a terminal shows is laid out to its width, and no document can act on it."""

from __future__ import annotations

import re
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbhub.index.query.parser import parsed
from kbhub.render.pages import drawn
from kbhub.render.terminal import cell_width, fitted, neutralised, table, wrapped

STYLES = re.compile(r"\x1b\[[0-9;]*m")
PIECES = st.sampled_from(
    [
        *("# ", "## a", "- ", "1. ", "> ", "```", "```sh\n", "~~~", "| a | b |\n|---|---|\n| c | d |", "---", "***"),
        *("[a](b)", "![a](b)", "<b>", "&#27;", "&#x202e;", "&#12;", "\x1b[31m", "\u202e", "\x9b", "`", "**", "_"),
        *("\n", "\n\n", "    ", "\t", " ", "word", "日本語", "e\u0301", "👩‍💻", "\\", "[x]: y", "a" * 90, "/p" * 40),
    ]
)
MARKDOWN = st.lists(PIECES | st.text(max_size=9), max_size=40).map("".join)
WORDS = st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Zs"]) | st.sampled_from("   /"))


def acts(text: str) -> list[str]:
    """Characters of a text that a terminal does more with than show them, our styles aside."""
    bidirectional = {"RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI"}
    return [
        one
        for one in STYLES.sub("", text)
        if (unicodedata.category(one) == "Cc" and one != "\n") or unicodedata.bidirectional(one) in bidirectional
    ]


def widest(text: str) -> int:
    return max(cell_width(line) for line in STYLES.sub("", text).split("\n"))


# Lines


@given(WORDS, st.integers(4, 40))
def test_any_line_is_broken_to_fit_with_nothing_lost(text, width):
    """Only white space may go."""
    lines = wrapped(text, width)

    assert max(map(cell_width, lines)) <= width
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_lines_are_broken_at_words_and_paths_behind_a_slash():
    """A word is only cut if it is longer than a line."""
    assert wrapped("one two three", 8) == ["one two", "three"]
    assert wrapped("in /home/you/notes/a.md now", 12) == ["in", "/home/you/", "notes/a.md", "now"]
    assert wrapped("x" * 10, 4) == ["xxxx", "xxxx", "xx"]
    assert wrapped("日本語です", 4) == ["日本", "語で", "す"]


def test_what_follows_is_indented_and_colours_end_with_their_line():
    """An entry is seen as one; a pager that shows the second line alone has its colour, and the next line has not."""
    assert fitted("  one two three four", 12) == "  one two\n  three four"
    assert fitted("[1] one two three", 12) == "[1] one two\n    three"
    assert fitted("a \x1b[1mbold one\x1b[0m end", 9) == "a \x1b[1mbold\x1b[0m\n  \x1b[1mone\x1b[0m end"
    assert fitted("short", 80) == "short"


def test_a_table_fits_by_breaking_cells_then_by_giving_up_its_columns():
    """No column cuts a word."""
    rows = [("#a1", "a long title of a note", "12"), ("#b2", "notes/of/the/team", "3")]

    assert table(rows, right=frozenset({2}), width=24) == [
        "#a1  a long title of  12",
        "     a note",
        "#b2  notes/of/the/     3",
        "     team",
    ]
    assert table(rows, width=10) == ["#a1  a long title of a note  12", "#b2  notes/of/the/team  3"]


# Markdown


@pytest.mark.parametrize("colour", [True, False])
@given(text=MARKDOWN, width=st.integers(30, 120))
def test_no_document_acts_on_a_terminal_or_is_wider(text, width, colour):
    """Not by an escape sequence, nor by the name of a character, nor by a link."""
    shown = drawn(text, width, colour=colour, terms=parsed("word a").terms)

    assert acts(shown) == []
    assert widest(shown) <= width
    assert colour or "\x1b" not in shown


def test_markdown_is_laid_out(snapshot):
    """Headings, lists, tables, code and links as a reader wants them."""
    text = (
        "---\ntags: [a, b]\n---\n# Deploying\n\nTake the *tag* and run `ship it`, as the [guide](guide.md) says, or\n"
        "<name> of it.\n\n## Steps\n\n1. Look at the board, which is behind the door on the left.\n2. Ship.\n"
        "   - Watch.\n\n> Never on a Friday.\n\n| Status | When it is said to the one who asks |\n|---|---|\n"
        "| 429 | too many requests in too short a time |\n\n```sh\nship --to production --tag v1 --wait 10 --all\n```\n"
    )

    assert drawn(text, 48, colour=False) == snapshot


def test_a_table_that_cannot_fit_is_told_row_by_row():
    """Columns of three letters are of no use to anybody."""
    text = "| Requirement | Responsibility |\n|---|---|\n| availability | infrastructure |\n| speed | |\n"

    assert drawn(text, 40, colour=False).split("\n")[2:] == ["availability   infrastructure", "speed"]
    assert drawn(text, 24, colour=False) == (
        "Requirement:\navailability\nResponsibility:\ninfrastructure\n\nRequirement: speed"
    )


def test_terms_are_highlighted_in_what_is_laid_out():
    """Stems count, in code and tables too."""
    shown = drawn("We *release* often.\n\n```\nreleasing\n```\n", 40, colour=True, terms=parsed("release").terms)

    assert shown.count("\x1b[1;3;33mrelease\x1b[0m") == 1
    assert re.search(r"\x1b\[[0-9;]*1;33[0-9;]*mreleasing\x1b\[0m", shown)


@pytest.mark.parametrize(
    "text",
    ["code that began above\n```\nText.\n\n```sh\nrm -rf x", "| row | of a table |\n| whose | header is above |"],
)
def test_what_is_cut_out_of_a_block_keeps_its_lines(text):
    """Half a code block is no prose, nor are rows without their header."""
    assert [line.strip() for line in drawn(text, 60, colour=False).split("\n")] == text.split("\n")


@pytest.mark.parametrize("piece", ["[", "> ", "`", "* ", "![a](", "|a", "&#x202e;", "<a ", "\\", "_a*", "- a\n  "])
def test_a_document_made_to_take_long_is_shown_in_time(piece):
    """It is somebody else's; seconds are a hundred times what is measured."""
    began = time.monotonic()
    shown = drawn(piece * (20_000 // len(piece)), 80, colour=True)

    assert time.monotonic() - began < 20
    assert acts(shown) == []


def test_a_very_long_text_is_only_broken_into_lines():
    """It is there at once, whatever it is."""
    text = "# Title\n\n" + "some words of it " * 20_000

    assert drawn(text, 60, colour=True).startswith("# Title\n\nsome words")
    assert widest(drawn(text, 60, colour=True)) <= 60
    assert neutralised("\x1b") in drawn("\x1b[31m" + text, 60, colour=True)
