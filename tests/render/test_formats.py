"""Listings are valid in every format, whatever documents say."""

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


def test_no_cell_gets_out_of_its_place():
    """CSV quotes what a spreadsheet would run; no pipe, element, link or image of a title is Markdown's."""
    odd = listing({"ref": "=1+2", "title": 'a "b"\nc', "tags": ["x", "y"], "score": 0.5})
    cell = listing({"ref": "a|b.md", "title": "<img src=x> ![p](http://e) `c|`\nd", "tags": [], "score": 1})
    long = listing({"ref": "a.md", "title": "```\ncode\n```\n# x"}, body="title")

    assert formatted(odd, "csv").splitlines()[1:] == ['"=1+2","a ""b""', 'c","x;y",0.5']
    told = formatted(cell, "md").splitlines()[2]
    assert told == r"| a\|b.md | &lt;img src=x> !\[p](http://e) \`c\|\`<br>d |  | 1 |"
    assert formatted(long, "md") == "## a.md\n\n\n````markdown\n```\ncode\n```\n# x\n````\n"
    assert fromstring(formatted(listing({"ref": "a\x00\x1b<b>&\ud800"}), "xml"))[0][0].text == "a��<b>&�"


def test_files_gives_the_ref_as_the_path_and_two_formats_are_refused():
    """What stands in the line can be handed to `kbhub read`."""
    row = {"docid": "#a1", "score": 0.5, "ref": "ops@a,b.md", "path": "a,b.md", "context": "x"}

    assert formatted(Listing("hit", ("docid", "ref"), [row]), "files") == '#a1,0.5,"ops@a,b.md",x\n'
    with pytest.raises(UsageError, match="--csv"):
        formatted(Listing("tag", ("tag",), []), "files")

    assert Formats().format() == "text"
    assert Formats(json=True).format() == "json"
    with pytest.raises(UsageError, match="--csv and --xml cannot be used together"):
        Formats(csv=True, xml=True).format()
