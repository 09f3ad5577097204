"""Small Office documents and books, sound and hostile ones."""

import io
import zipfile
from html import escape

import openpyxl
import pptx
from pptx.util import Inches

CORE = """<?xml version="1.0"?><cp:coreProperties
 xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"
 xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">
<dc:title>{title}</dc:title><dc:creator>Ada</dc:creator><dcterms:modified>2025-11-02T10:00:00Z</dcterms:modified>
</cp:coreProperties>"""
RELATIONS = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}'
)
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPES = '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{}</Types>'
WORD = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
STYLES = "".join(
    f'<w:style w:type="paragraph" w:styleId="{name.replace(" ", "")}"><w:name w:val="{name}"/></w:style>'
    for name in ("Title", "heading 1", "heading 2", "Quote", "Source Code")
)
ODT = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{long}:1.0"'
    for name, long in (
        ("office", "office"), ("text", "text"), ("table", "table"), ("style", "style"), ("draw", "drawing"),
        ("fo", "xsl-fo-compatible"), ("meta", "meta"), ("svg", "svg-compatible"),
    )
) + ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xlink="http://www.w3.org/1999/xlink"'  # fmt: skip


def a_zip(members: dict[str, str | bytes], first: str | None = None) -> bytes:
    """A zip file; `first` is stored, not compressed, before the others."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
        if first is not None:
            package.writestr("mimetype", first, zipfile.ZIP_STORED)
        for name, content in members.items():
            package.writestr(name, content)
    return file.getvalue()


def described(data: bytes, title: str) -> bytes:
    """A file with our title, author and date, in place of what a library writes."""
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        members = {name: package.read(name) for name in package.namelist()}
        return a_zip({**members, "docProps/core.xml": CORE.format(title=title)})


def paragraph(text: str, style: str = "") -> str:
    chosen = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f'<w:p>{chosen}<w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'


def a_docx(*blocks: str, title: str = "Pump manual", doctype: str = "", more: dict[str, str | bytes] | None = None):
    """A Word document of blocks of XML, such as `paragraph` returns."""
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    more = more or {}
    parts = "".join(
        f'<Relationship Id="r{number}" Type="{OFFICE}/{name}" Target="{name}.xml"/>'
        for number, name in enumerate(("styles", "comments", "footnotes"))
        if name == "styles" or f"word/{name}.xml" in more
    )
    return a_zip(
        {
            "[Content_Types].xml": TYPES.format(
                '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
                f'<Default Extension="xml" ContentType="application/xml"/>'
                f'<Override PartName="/word/document.xml" ContentType="{main}"/>'
            ),
            "_rels/.rels": RELATIONS.format(
                f'<Relationship Id="r" Type="{OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>'
            ),
            "docProps/core.xml": CORE.format(title=title),
            "word/_rels/document.xml.rels": RELATIONS.format(f"{parts}</Relationships>"),
            "word/styles.xml": f"<w:styles {WORD}>{STYLES}</w:styles>",
            "word/document.xml": f'<?xml version="1.0"?>{doctype}<w:document {WORD}><w:body>{"".join(blocks)}</w:body>'
            "</w:document>",
            **more,
        }
    )


def an_odt(body: str, *, title: str = "Pump manual", styles: str = "", doctype: str = "", manifest: str = "") -> bytes:
    return a_zip(
        {
            "META-INF/manifest.xml": f'<manifest xmlns="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">{manifest}'
            "</manifest>",
            "meta.xml": f"<office:document-meta {ODT}><office:meta><dc:title>{title}</dc:title><dc:creator>Ada"
            "</dc:creator><dc:date>2025-11-02T10:00:00</dc:date></office:meta></office:document-meta>",
            "content.xml": f'<?xml version="1.0"?>{doctype}<office:document-content {ODT}><office:automatic-styles>'
            f"{styles}</office:automatic-styles><office:body><office:text>{body}</office:text></office:body>"
            "</office:document-content>",
        },
        first="application/vnd.oasis.opendocument.text",
    )


def an_epub(*chapters: str, title: str = "Pump manual", toc: dict[int, str] | None = None, doctype: str = "") -> bytes:
    """A book; `toc` names chapters, by their number from 0."""
    numbers = range(len(chapters))
    items = "".join(
        f'<item id="c{number}" href="text/c%20{number}.xhtml" media-type="application/xhtml+xml"/>'
        for number in numbers
    )
    spine = "".join(f'<itemref idref="c{number}"/>' for number in numbers)
    points = "".join(
        f'<navPoint><navLabel><text>{name}</text></navLabel><content src="text/c%20{number}.xhtml"/></navPoint>'
        for number, name in (toc or {}).items()
    )
    return a_zip(
        {
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
            "OEBPS/book.opf": f'<?xml version="1.0"?>{doctype}<package xmlns="http://www.idpf.org/2007/opf"><metadata '
            f'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title><dc:creator>Ada</dc:creator>'
            f'<dc:date>2025-11-02</dc:date></metadata><manifest><item id="toc" href="toc.ncx" '
            f'media-type="application/x-dtbncx+xml"/>{items}</manifest><spine>{spine}</spine></package>',
            "OEBPS/toc.ncx": '<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://127.0.0.1:9/ncx.dtd"><ncx '
            f'xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap>{points}</navMap></ncx>',
            **{
                f"OEBPS/text/c {number}.xhtml": f"<!DOCTYPE html><html><head><title>x</title></head><body>{chapter}"
                "</body></html>"
                for number, chapter in enumerate(chapters)
            },
        },
        first="application/epub+zip",
    )


def an_xlsx(*sheets: tuple[str, list[list[object]]], title: str = "Pump manual") -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    file = io.BytesIO()
    book.save(file)
    return described(file.getvalue(), title)


def a_pptx(*slides: tuple[str, list[str], str], title: str = "Pump manual", table: list[list[str]] | None = None):
    """A presentation of slides with a title, paragraphs (two spaces before each level) and notes."""
    deck = pptx.Presentation()
    for name, lines, notes in slides:
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = name
        frame = slide.placeholders[1].text_frame
        frame.text = lines[0].strip() if lines else ""
        for line in lines[1:]:
            added = frame.add_paragraph()
            added.text, added.level = line.strip(), (len(line) - len(line.lstrip())) // 2
        if notes:
            slide.notes_slide.notes_text_frame.text = notes
    if table:
        slide = deck.slides.add_slide(deck.slide_layouts[6])
        shape = slide.shapes.add_table(len(table), len(table[0]), Inches(1), Inches(1), Inches(4), Inches(2))
        for row, cells in zip(shape.table.rows, table, strict=True):
            for cell, text in zip(row.cells, cells, strict=True):
                cell.text = text
    file = io.BytesIO()
    deck.save(file)
    return described(file.getvalue(), title)
