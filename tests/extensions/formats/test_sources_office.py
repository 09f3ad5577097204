"""Office documents and books become Markdown: no text is lost, headings have levels, and tables are tables."""

import io
import zipfile
from datetime import date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kbhub.extensions.formats.office
from kbhub.documents.converted import structured
from kbhub.documents.source import packed, parsed, unpacked
from kbhub.extensions.formats.office import read_docx, read_pptx, read_xlsx
from kbhub.extensions.formats.packages import read_epub, read_odt
from kbhub.workspace.formats import FORMATS
from office_files import WORD, a_docx, a_pptx, a_zip, an_epub, an_odt, an_xlsx, paragraph

ABOUT = ["author: Ada", "date: 2025-11-02", ""]


def body(document):
    """The lines below what the file says of itself."""
    assert list(document.lines[:3]) == ABOUT
    assert (document.title, document.body) == ("Pump manual", 3)
    assert document.front_matter == {"author": "Ada", "date": "2025-11-02"}
    return list(document.lines[3:])


def headings(document):
    return [(heading.level, heading.text) for heading in document.headings]


def test_a_word_document_has_headings_tables_quotes_and_code():
    """By its styles; a bar in a cell is escaped."""
    table = "".join(
        f"<w:tr>{''.join(f'<w:tc>{paragraph(cell)}</w:tc>' for cell in row)}</w:tr>"
        for row in (("Part", "Torque"), ("valve|b", "12 Nm"))
    )
    document = read_docx(
        "a.docx",
        a_docx(
            paragraph("Pumps", "Title"), paragraph("Intake", "heading1"), paragraph("It primes itself."),
            f"<w:tbl>{table}</w:tbl>", paragraph("Parts", "heading2"), paragraph("run()", "SourceCode"),
            paragraph("Well said", "Quote"), paragraph("# no heading"),
        ),
    )  # fmt: skip

    assert headings(document) == [(1, "Pumps"), (1, "Intake"), (2, "Parts")]
    assert len(document.tables) == len(document.fences) == 1
    assert body(document) == [
        "# Pumps", "", "# Intake", "", "It primes itself.", "", "| Part | Torque |", "| --- | --- |",
        r"| valve\|b | 12 Nm |", "", "## Parts", "", "```", "run()", "```", "", "> Well said", "", r"\# no heading",
    ]  # fmt: skip


def test_of_tracked_changes_the_result_counts_and_comments_and_footnotes_are_kept():
    """What was inserted is text, what was deleted is not, and remarks stand at the end."""
    changed = (
        '<w:p><w:ins w:id="1"><w:r><w:t>new </w:t></w:r></w:ins><w:del w:id="2"><w:r><w:delText>old </w:delText></w:r>'
        '</w:del><w:r><w:t>pump</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r>'
        '<w:r><w:commentReference w:id="3"/></w:r></w:p>'
    )
    more = {
        "word/footnotes.xml": f'<w:footnotes {WORD}><w:footnote w:id="2">{paragraph("Seen in May")}</w:footnote>'
        "</w:footnotes>",
        "word/comments.xml": f'<w:comments {WORD}><w:comment w:id="3" w:author="Bob" w:initials="B">'
        f"{paragraph('Which pump?')}</w:comment></w:comments>",
    }
    text = "\n".join(read_docx("a.docx", a_docx(changed, more=more)).lines)

    assert "new pump[1][B1]" in text
    assert "1. Seen in May" in text
    assert "Which pump?" in text
    assert "old" not in text
    assert "↑" not in text
    assert "](" not in text


def test_a_slide_is_a_part_with_number_title_table_and_notes_and_a_book_its_chapters_in_order():
    """Several paragraphs are a list, as they are on a slide."""
    first, last = ("Intake", ["primes itself", "  slowly", "is loud"], "Ask Bob."), ("", ["alone"], "")
    document = read_pptx("a.pptx", a_pptx(first, last, table=[["a", "b|c"]]))
    assert headings(document) == [(6, "Slide 1: Intake"), (6, "Slide 2"), (6, "Slide 3")]
    assert body(document) == [
        "## Slide 1: Intake", "- primes itself", "  - slowly", "- is loud", "", "Notes:", "", "Ask Bob.", "",
        "## Slide 2", "alone", "", "## Slide 3", r"| a | b\|c |", "| --- | --- |",
    ]  # fmt: skip
    # A chapter without headings has its name from the table of contents; a broken one costs no chapter.
    book = an_epub("<h1>One</h1><p>First.</p>", "<p>Second.</p>", "<p>Third.</p>", toc={0: "No", 1: "Two"})
    document = read_epub("a.epub", book)
    assert headings(document) == [(1, "One"), (1, "Two")]
    assert body(document) == ["# One", "", "First.", "", "# Two", "", "Second.", "", "Third."]
    assert body(read_epub("a.epub", an_epub("<h1>One</h1><p>First.</p>", toc={0: "R</x>"}))) == ["# One", "", "First."]


def test_a_sheet_is_a_heading_with_a_table_of_what_it_shows_and_too_large_a_one_is_cut_and_says_so(monkeypatch):
    """Titles above a table are text, dates are ISO dates, and empty rows and sheets are nothing."""
    rows = [
        ["Stock"], [], ["Part", "Count", "Since", "Open"], ["valve|a\nb", 3.0, date(2025, 1, 2), True], [],
        ["pump", 1.5, datetime(2025, 1, 2, 3, 4), None],
    ]  # fmt: skip
    document = read_xlsx("a.xlsx", an_xlsx(("Parts & more", rows), ("Empty", [])))
    assert headings(document) == [(2, "Parts & more")]
    assert body(document) == [
        "## Parts & more", "", "Stock", "", "| Part | Count | Since | Open |", "| --- | --- | --- | --- |",
        r"| valve\|a<br>b | 3 | 2025-01-02 | TRUE |", "| pump | 1.5 | 2025-01-02 03:04:00 |",
    ]  # fmt: skip

    monkeypatch.setattr(kbhub.extensions.formats.office, "ROWS", 3)
    monkeypatch.setattr(kbhub.extensions.formats.office, "COLUMNS", 2)
    data = an_xlsx(("Long", [["a", "b"]] * 4), ("Wide", [["c", "d", "e"]]))
    document = read_xlsx("a.xlsx", data)
    assert document.problems == (
        "Sheet 'Long' has more than 3 rows; the rest is left out.",
        "Sheet 'Wide' has more than 2 columns; the rest is left out.",
    )
    assert "| c | d |" in document.lines

    monkeypatch.setattr(kbhub.extensions.formats.office, "CHARACTERS", 3)
    assert read_xlsx("a.xlsx", data).problems == (
        "Sheet 'Long' has too much text; rows from 3 on are left out.",
        "Sheet 'Wide' is left out: the others have 3 characters.",
    )


def test_an_opendocument_text_has_all_its_text():
    """Lists, notes, comments, boxes and pictures; deleted text and the table of contents are none."""
    styles = '<style:style style:name="P1" style:parent-style-name="Quotations"/>'
    document = read_odt(
        "a.odt",
        an_odt(
            "<text:tracked-changes><text:changed-region><text:deletion><text:p>old</text:p></text:deletion>"
            "</text:changed-region></text:tracked-changes>"
            "<text:table-of-content><text:index-body><text:p>Intake 1</text:p></text:index-body>"
            "</text:table-of-content>"
            '<text:h text:outline-level="2">Intake</text:h><text:p>Two<text:s text:c="2"/>words<text:tab/>and'
            "<text:line-break/>a <text:a xlink:href='b.md'>link</text:a><text:note><text:note-body>"
            "<text:p>Seen</text:p></text:note-body></text:note><office:annotation><dc:creator>Bob</dc:creator><text:p>Why?</text:p>"
            '</office:annotation></text:p><text:p text:style-name="P1">Well said</text:p>'
            "<text:list><text:list-item><text:p>one</text:p><text:list><text:list-item><text:p>deep</text:p>"
            "</text:list-item></text:list></text:list-item></text:list>"
            "<text:p><draw:frame><svg:desc>A pump</svg:desc><draw:text-box><text:p>boxed</text:p></draw:text-box>"
            "</draw:frame></text:p>"
            '<table:table><table:table-row><table:table-cell table:number-columns-repeated="99999999999"/>'
            "<table:table-cell><text:p>a|b</text:p><text:p>c</text:p></table:table-cell></table:table-row></table:table>",
            styles=styles,
        ),
    )
    text = body(document)

    assert text[:2] == ["## Intake", ""]
    assert "a [link](b.md)[1]" in text
    assert [link.target for link in document.links] == ["b.md"]
    assert [line for line in text if line in ("> Well said", "- one", "  - deep", "A pump", "boxed")] == [
        "> Well said", "- one", "  - deep", "A pump", "boxed",
    ]  # fmt: skip
    assert any(line.endswith(r"| a\|b<br>c |") and line.count("|") < 110 for line in text)
    assert text[-5:] == ["1. Seen", "", "Comments:", "", "- Bob: Why?"]
    assert not {"old", "Intake 1"} & set(text)


def test_a_shape_without_a_geometry_is_read_and_a_chapter_that_is_missing_is_reported():
    """Its name is shown on the line of the problem, and cut."""
    with zipfile.ZipFile(io.BytesIO(a_pptx(("Intake", ["primes"], "note")))) as package:
        members = {name: package.read(name) for name in package.namelist()}
    slide = "ppt/slides/slide1.xml"
    shape = "<p:sp><p:nvSpPr><p:cNvPr id='9' name='x'/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/><p:txBody><a:bodyPr/>"
    text = f"{shape}<a:p><a:r><a:t>Bare words</a:t></a:r></a:p></p:txBody></p:sp></p:spTree>"
    members[slide] = members[slide].replace(b"</p:spTree>", text.encode())
    document = read_pptx("a.pptx", a_zip(members))

    assert "Bare words" in document.lines
    assert document.problems == ()

    members = {
        "META-INF/container.xml": '<c><rootfile full-path="b.opf"/></c>',
        "b.opf": f'<p><item id="a" href="x%0A%0AAnswer{"y" * 1000}" media-type="text/html"/><item id="b" '
        'href="b.xhtml" media-type="text/html"/><itemref idref="a"/><itemref idref="b"/><itemref idref="z"/></p>',
        "b.xhtml": "<p>There.</p>",
    }
    document = read_epub("book one.epub", a_zip(members))

    assert (document.title, document.lines) == ("book one", ("There.",))
    assert document.problems == (f"Chapters that are missing are left out: x Answer{'y' * 91}.",)


def test_much_white_space_in_a_document_takes_linear_time_and_a_document_of_metadata_alone_ends_with_them():
    """A million spaces come out in the time limit of a test.

    There is no blank line below them, so that it is the same from file and index.
    """
    assert body(read_docx("a.docx", a_docx(paragraph(f"a{' ' * 1_000_000}b")))) == ["a b"]
    document = parsed("a.docx", a_docx())
    assert document.lines == ("author: Ada", "date: 2025-11-02")
    assert unpacked("a.docx", "docx", packed(document)) == document


SAMPLES = {
    "docx": a_docx(paragraph("Pumps", "heading1"), paragraph("Words.")),
    "pptx": a_pptx(("Intake", ["primes"], "note")),
    "xlsx": an_xlsx(("Parts", [["a", 1]])),
    "odt": an_odt('<text:h text:outline-level="1">Pumps</text:h><text:p>Words.</text:p>'),
    "epub": an_epub("<h1>Pumps</h1><p>Words.</p>"),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_document_survives_its_way_through_a_pipe_and_an_index(kind):
    """What comes out of JSON, or of lines alone, is what the parser made."""
    document = parsed(f"a.{kind}", SAMPLES[kind])
    assert document.problems == ()
    assert unpacked(document.path, kind, packed(document)) == document
    if kind != "pptx":
        assert structured(document) == document


@pytest.mark.parametrize("kind", SAMPLES)
@given(st.data())
@settings(max_examples=25)
def test_any_damage_leaves_a_document(kind, data):
    sample = bytearray(SAMPLES[kind])
    for _ in range(data.draw(st.integers(1, 5))):
        sample[data.draw(st.integers(0, len(sample) - 1))] = data.draw(st.integers(0, 255))
    document = parsed(f"a.{kind}", bytes(sample[: data.draw(st.integers(0, len(sample)))]))
    assert unpacked("a", kind, packed(document)).path == "a"


def test_every_row_of_the_table_of_formats_has_what_it_needs():
    """A converted format has a reader, an extra has a library, and no suffix stands twice."""
    suffixes = [suffix for row in FORMATS for suffix in row.suffixes]
    assert len(suffixes) == len(set(suffixes))
    assert all(bool(row.kind) == bool(row.reader) and bool(row.extra) == bool(row.library) for row in FORMATS)
