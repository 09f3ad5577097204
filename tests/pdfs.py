"""Makes small PDF files, sound and broken, for tests."""

import io

from pypdf import PdfReader, PdfWriter
from pypdf.generic import DictionaryObject, NameObject, StreamObject

FONT = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica", "/Encoding": "/WinAnsiEncoding"}


def a_pdf(
    *pages: str, title: str = "", outline: tuple[tuple[str, int], ...] = (), content: bytes | None = None
) -> bytes:
    r"""Make a PDF.

    Args:
        pages: text of each page, `\n` between lines.
        title: title in its metadata.
        outline: (title, page from 1) of the table of contents.
        content: content stream of every page instead of text.
    """
    writer = PdfWriter()
    font = writer._add_object(named({name: NameObject(value) for name, value in FONT.items()}))
    for text in pages:
        stream = StreamObject()
        stream.set_data(_drawn(text) if content is None else content)
        page = writer.add_blank_page(width=612, height=792)
        page[NameObject("/Resources")] = named({"/Font": named({"/F1": font})})
        page[NameObject("/Contents")] = writer._add_object(stream)
    for name, number in outline:
        writer.add_outline_item(title=name, page_number=number - 1)
    writer.add_metadata({"/Title": title, "/Author": "Ada", "/CreationDate": "D:20251102101500Z"})
    return _written(writer)


def named(entries) -> DictionaryObject:
    return DictionaryObject({NameObject(name): value for name, value in entries.items()})


def encrypted(data: bytes, password: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="AES-256")
    return _written(writer)


def _written(writer: PdfWriter) -> bytes:
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def _drawn(text: str) -> bytes:
    lines = " ".join(f"({line}) Tj T*" for line in text.split("\n"))
    return f"BT /F1 12 Tf 14 TL 72 720 Td {lines} ET".encode("cp1252") if text else b""
