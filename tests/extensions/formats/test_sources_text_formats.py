"""reStructuredText, Org, AsciiDoc and plain text: the structure is found, and lines are those of the file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents.soundness import check_soundness
from kbhub.documents.chunking import chunk_document
from kbhub.documents.markdown import MAX_VALUES, decode, section
from kbhub.documents.shown_text import MAX_HEADING_CHARS
from kbhub.documents.source import parse_text
from kbhub.extensions.formats.markup import scan_org
from kbhub.workspace.formats import in_markdown


def sample(name: str) -> str:
    """A file of one format that has all that the format can say of its structure."""
    return (Path(__file__).parent / "samples" / name).read_text("utf-8")


def read(name: str, text: str):
    return parse_text(name, text.encode())


def headings(document) -> list[tuple[int, str, int]]:
    return [(heading.level, heading.text, heading.line) for heading in document.headings]


def links(document) -> list[tuple[str, str, str, int]]:
    return [(link.target, link.fragment, link.text, link.line) for link in document.links]


def test_restructuredtext_has_its_structure_and_may_begin_with_the_fields_of_a_pep():
    text = sample("structure.rst")
    document = read("doc/a.rst", text)

    assert headings(read("doc/a.rest", text)) == headings(document)
    assert document.lines == tuple(text.splitlines())
    assert document.title == "The manual"
    assert document.front_matter == {"tags": "ops, disk full", "author": "Ann", "date": "2024-05-01"}
    assert document.tags == ("ops", "disk full")
    assert headings(document) == [(1, "The manual", 4), (2, "First part", 13), (3, "Sub flag", 28), (2, "Second", 64)]
    assert document.fences == ((18, 22), (24, 26), (61, 62))
    assert document.tables == ((32, 36), (38, 44), (46, 49))
    assert links(document) == [
        ("setup.rst", "", "setup", 11), ("/guide/start.rst", "", "the guide", 11), ("notes/a.rst", "", "notes", 16),
        ("intro.rst", "", "intro", 57), ("api/index.rst", "", "The API", 58),
    ]  # fmt: skip
    assert section(document, "Sub flag") == (28, 63)

    text = "PEP: 9\nTitle: One way\n  to write\nSuperseded-By: 10\n\nAbstract\n========\n\nNote: one\nTwo: more\n"
    document = read("pep-0009.rst", text)
    assert (document.title, document.body, headings(document)) == ("One way to write", 4, [(1, "Abstract", 6)])
    assert document.front_matter == {"pep": "9", "superseded-by": "10"}
    assert read("a.rst", "Note: a draft.\n\nMore: text\n").front_matter == {}


@pytest.mark.parametrize(
    "text",
    [
        "word\n---",  # shorter than the title, and under four
        "- item\n------",
        "text\nmore\n====\n",  # the second line of a paragraph
        "  indented\n  ========",
        "====\n\n====",
        ".. note\n=======",
        "::\n\n  Title\n  =====",
    ],
)
def test_what_is_no_title_of_restructuredtext_stays_text(text):
    assert headings(read("a.rst", text)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (":ref:`doc/setup:First steps`", [("/doc/setup.rst", "First steps", "doc/setup:First steps", 1)]),
        (":ref:`label` :ref:`x <label>` :doc:`pip <pip:index>`", []),
        (".. _the name: other.rst#part\n\nsee `the name`_", [("other.rst", "part", "the name", 1)]),
        (".. include:: parts/a.rst", [("parts/a.rst", "", "parts/a.rst", 1)]),
        (":download:`it <a.zip>` :doc:`a.md`", [("a.zip", "", "it", 1), ("a.md", "", "a.md", 1)]),
    ],
)
def test_links_of_restructuredtext_lead_to_files(text, found):
    assert links(read("a.rst", text)) == found


def test_org_and_asciidoc_have_their_structure():
    text = sample("structure.org")
    document = read("a.org", text)

    assert document.lines == tuple(text.splitlines())
    assert (document.title, document.body) == ("The manual", 7)
    assert document.front_matter == {"author": "Ann"}
    assert document.tags == ("ops", "disk", "work")
    assert document.aliases == ("other name", "short")
    assert headings(document) == [(1, "First part", 11), (2, "Sub flag", 15), (1, "Second", 28)]
    assert document.fences == ((16, 19), (21, 22), (29, 31))
    assert document.tables == ((24, 26),)
    assert links(document) == [
        ("notes/a b.org", "Part one", "see it", 9),
        ("x.org", "", "part", 11),
        ("./other.org", "", "other", 33),
    ]

    text = sample("structure.adoc")
    document = read("a.adoc", text)

    assert document.lines == tuple(text.splitlines())
    assert document.title == "The manual"
    assert document.tags == ("ops", "disk")
    assert document.front_matter == {"author": "Ann Author", "tags": "ops, disk", "description": "what it is about"}
    assert headings(document) == [
        (1, "The manual", 2), (2, "First part", 10), (3, "Sub", 18), (3, "Old style", 26), (2, "Last", 39),
    ]  # fmt: skip
    assert document.fences == ((12, 16), (29, 31), (40, 42))
    assert document.tables == ((20, 24),)
    assert links(document) == [
        ("setup.adoc", "first", "the setup", 8), ("guide.adoc", "", "guide.adoc", 8), ("notes/a.txt", "", "notes", 8),
        ("other.adoc", "part", "there", 8), ("parts/x.adoc", "", "parts/x.adoc", 33),
    ]  # fmt: skip


def test_a_comment_above_the_title_of_asciidoc_hides_nothing_else_and_yaml_front_matter_is_read_in_every_format():
    """A license often stands there, as a block.

    Site generators put it into AsciiDoc and the others too; broken one is a problem and stays text.
    """
    document = read("a.adoc", "////\n= No title\n////\n:tags: x\n= Title\n:author: Ada\n\n== Section\n\ntext\n")
    assert [(heading.text, heading.line) for heading in document.headings] == [("Title", 5), ("Section", 8)]
    assert (document.title, document.tags, document.front_matter["author"]) == ("Title", ("x",), "Ada")
    for name in ("a.rst", "a.org", "a.adoc", "a.txt"):
        document = read(name, "---\ntitle: T\ntags: [x]\n---\ntext")
        assert (document.title, document.tags, document.body) == ("T", ("x",), 4)
        assert read(name, "---\na: b: c\n---\ntext").problems
    assert read("my-file.txt", "text").title == "my file"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Title\n=====\n\nText.\n\nPart\n----\ntext", [(1, "Title", 1), (2, "Part", 6)]),
        ("*****\nTitle\n*****\n\nPart\n====", [(1, "Title", 1), (2, "Part", 5)]),
        ("名前\n====", [(1, "名前", 1)]),
        ('Deep\n\'\'\'\'\n\nDeeper\n""""""', [(1, "Deep", 1), (2, "Deeper", 4)]),
        ("1. Scope\n\nText.\n\n2. Terms\n\nMore text.", [(1, "1. Scope", 1), (1, "2. Terms", 5)]),
        ("1. Scope\n\n   Text.\n\n1.1 Range\n\n   Text.", [(1, "1. Scope", 1), (2, "1.1 Range", 5)]),
        ("1. Buy milk\n\n2. Call Ann\n\n3. Go home", []),
        ("1. Buy milk\n\n   two\n\n2. Call Ann\n\n   soon", []),
        ("5. Scope\n\nText.\n\n9. Terms\n\nText.", []),
        ("Yours,\nAnn\n---", []),
        ("a\n----------------", []),
        ("- one\n-----\n", [(1, "- one", 1)]),
        ("# a comment\nx = 1", []),
        ("a | b\n------\n1 | 2\n======", []),
    ],
)
def test_headings_of_plain_text_are_the_certain_ones(text, found):
    assert headings(read("a.txt", text)) == found


def test_a_title_stays_with_its_text_in_chunks():
    words = "word " * 290
    for name, title in (
        ("a.rst", "~~~~~\nTitle\n~~~~~"), ("a.rst", "Title\n~~~~~"), ("a.org", "* Title"), ("a.adoc", "== Title"),
        ("a.txt", "Title\n*****"),
    ):  # fmt: skip
        document = read(name, f"{words}\n\n{title}\n\n{words}\n")
        chunks = chunk_document(document)
        assert [chunk.text.split("\n")[0] for chunk in chunks if "Title" in chunk.text] == [title.split("\n")[0]]
        assert all("word" in chunk.text for chunk in chunks)


PIECES = (
    *("=====", "-----", "~~~~", "Title", "a b", "", "", "  indented", "::", "text::", "..", ".. code:: x", ".. note::"),
    *(".. toctree::", "   a", ".. _a: b", ":a: b", ">>> x", "+--+", "|a |", "== ==", "* H :t:", "** TODO x"),
    "#+title: t",
    *("#+begin_src", "#+end_src", "#+begin_example", ": x", "| a |", "[[file:a][b]]", ":PROPERTIES:", ":END:", "# c"),
    *("= T", "== T ==", "----", "....", "|===", "////", "[a,b]", ":tags: x \\", "xref:a.adoc[b]", "<<a#b>>", "1. A"),
    *("1.1 B", "- x", "\t", "---", "title: x", ":doc:`a <b>`", "`a <b>`_", "\\", "漢字", "\x0c", "\u2028"),
)
texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=40).map("\n".join),
    st.text("=-~*#:.|+[]<>`_ \n\ta1", max_size=200),
    st.text(max_size=200),
)


@given(
    st.sampled_from(("a.rst", "a.org", "a.adoc", "a.txt")),
    st.one_of(texts.map(str.encode), st.binary(max_size=200), texts.map(lambda text: text.encode("utf-16"))),
)
def test_any_bytes_parse_and_keep_all_their_text(name, data):
    document = parse_text(name, data)
    lines = decode(data)[0].replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert document.lines == tuple(lines if lines[-1] else lines[:-1])
    check_soundness(document)


WORST = (
    "a::\n\n", "..\n", "== ==\n", "+--+\n", "a\n----\n", "a\n----\n\n", "----\n", ":a:\n", "`a <", ".. toctree::\n",
    "#+begin_src\n", "#+begin_src\n#+begin_example\n", "[[a", "#+begin_src\n* a\n", ":a: b \\\n", "----\n....\n", "<<a",
    "xref:a[", "1. A\n\n", "* :a", "*a* ", "\n", " ", "\t\n", "a:: \n \n", ".. _a:\n", "::\n\n  a\n\n", "ifdef::a[",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "line"),
    [("a.org", "#+filetags: t{}\n"), ("a.rst", ".. tags:: t{}\n\n"), ("a.rst", ":tags: t{}\n"),
     ("a.adoc", ":tags: t{}\n")],
)  # fmt: skip
def test_tags_and_titles_of_many_lines_are_bounded(name, line):
    """Each line adds to them until there are as many as count, so that a file of them takes linear time."""
    document = read(name, "".join(map(line.format, range(2 * MAX_VALUES))))
    assert document.tags == tuple(f"t{number}" for number in range(MAX_VALUES))
    assert scan_org(["#+title: some words"] * 1000, 0).title == ("some words " * 1000)[:MAX_HEADING_CHARS]


@pytest.mark.parametrize("characters", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("piece", WORST)
def test_anything_repeated_takes_time_as_it_is_long(piece, characters):
    repeated = piece * (characters // len(piece))
    data = (repeated + "x\n== a" + repeated.replace("\n", " ") + "b").encode()
    for name in ("a.rst", "a.org", "a.adoc", "a.txt"):
        assert len(parse_text(name, data).lines) == in_markdown(data.decode(), name).count("\n") + 1
