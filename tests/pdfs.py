"""Makes small PDF files, sound and broken, for tests."""

import io


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
    objects: dict[int, bytes] = {}
    first = 10
    kids = " ".join(f"{first + 2 * number} 0 R" for number in range(len(pages)))
    more = "/Outlines 5 0 R" if outline else ""
    objects[1] = f"<< /Type /Catalog /Pages 2 0 R {more} >>".encode()
    objects[2] = f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode()
    objects[3] = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
    objects[4] = f"<< /Title ({title}) /Author (Ada) /CreationDate (D:20251102101500Z) >>".encode()
    for number, text in enumerate(pages):
        page, stream = first + 2 * number, content if content is not None else _stream(text)
        objects[page] = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {page + 1} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        ).encode()
        objects[page + 1] = b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream)
    if outline:
        base = first + 2 * len(pages)
        objects[5] = f"<< /Type /Outlines /First {base} 0 R /Last {base + len(outline) - 1} 0 R >>".encode()
        for number, (name, page) in enumerate(outline):
            following = f"/Next {base + number + 1} 0 R" if number + 1 < len(outline) else ""
            target = first + 2 * (page - 1)
            objects[base + number] = (
                f"<< /Title ({name}) /Parent 5 0 R {following} /Dest [{target} 0 R /Fit] >>".encode()
            )
    return _file(objects)


def encrypted(data: bytes, password: str) -> bytes:
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def _stream(text: str) -> bytes:
    lines = " ".join(f"({line}) Tj T*" for line in text.split("\n")) if text else ""
    return f"BT /F1 12 Tf 14 TL 72 720 Td {lines} ET".encode("cp1252") if lines else b""


def _file(objects: dict[int, bytes]) -> bytes:
    out = bytearray(b"%PDF-1.7\n")
    offsets = {}
    for number, body in sorted(objects.items()):
        offsets[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    size = max(objects) + 1
    out += b"xref\n0 %d\n" % size
    for number in range(size):
        out += b"%010d 00000 n \n" % offsets[number] if number in offsets else b"0000000000 65535 f \n"
    out += b"trailer\n<< /Size %d /Root 1 0 R /Info 4 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, start)
    return bytes(out)
