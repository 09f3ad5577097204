"""Listings are valid in every format, whatever documents say."""

from __future__ import annotations

import csv
import io
import json
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbhub.cli.options import Formats
from kbhub.errors import UsageError
from kbhub.render.formats import formatted
from kbhub.render.report import Listing

FIELDS = ("ref", "title", "tags", "score")
cells = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.lists(st.text(), max_size=3))
records = st.lists(st.fixed_dictionaries(dict.fromkeys(FIELDS, cells)), max_size=4)


def listing(*rows, body=None):
    return Listing("hit", FIELDS, rows, body)


@given(records)
def test_any_records_are_valid_in_every_format(rows):
    one = listing(*rows)

    assert json.loads(formatted(one, "json")) == [dict(row) for row in rows]
    assert len(list(csv.reader(io.StringIO(formatted(one, "csv"), newline="")))) == len(rows) + 1
    assert len(fromstring(formatted(one, "xml"))) == len(rows)
    assert len(formatted(one, "md").splitlines()) == len(rows) + 2
    assert len(list(csv.reader(io.StringIO(formatted(one, "files"), newline="")))) == len(rows)


def test_csv_quotes_what_a_spreadsheet_would_run_and_changes_nothing():
    text = formatted(listing({"ref": "=1+2", "title": 'a "b"\nc', "tags": ["x", "y"], "score": 0.5}), "csv")

    assert text.splitlines()[1:] == ['"=1+2","a ""b""', 'c","x;y",0.5']


def test_a_markdown_cell_ends_where_it_should_and_runs_nothing():
    """No pipe, element, link or image gets out of a document's title."""
    text = formatted(
        listing({"ref": "a|b.md", "title": "<img src=x> ![p](http://e) `c|`\nd", "tags": [], "score": 1}), "md"
    )

    assert text.splitlines()[2] == r"| a\|b.md | &lt;img src=x> !\[p](http://e) \`c\|\`<br>d |  | 1 |"


def test_long_text_is_a_section_whose_fence_it_cannot_close():
    text = formatted(listing({"ref": "a.md", "title": "```\ncode\n```\n# x"}, body="title"), "md")

    assert text == "## a.md\n\n\n````markdown\n```\ncode\n```\n# x\n````\n"


def test_xml_has_no_character_that_xml_forbids():
    assert fromstring(formatted(listing({"ref": "a\x00\x1b<b>&\ud800"}), "xml"))[0][0].text == "a��<b>&�"


def test_files_gives_the_ref_as_the_path():
    """What stands in the line can be handed to `kbhub read`."""
    one = Listing(
        "hit", ("docid", "ref"), [{"docid": "#a1", "score": 0.5, "ref": "ops@a,b.md", "path": "a,b.md", "context": "x"}]
    )

    assert formatted(one, "files") == '#a1,0.5,"ops@a,b.md",x\n'
    with pytest.raises(UsageError, match="--csv"):
        formatted(Listing("tag", ("tag",), []), "files")


def test_two_formats_are_refused():
    assert Formats().format() == "text"
    assert Formats(json=True).format() == "json"
    with pytest.raises(UsageError, match="--csv and --xml cannot be used together"):
        Formats(csv=True, xml=True).format()
