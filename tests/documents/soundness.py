"""What holds of a document of any format, whatever its file was."""

from kbhub.documents.chunking import chunk_document


def check_soundness(document):
    """It can be stored, its structure lies in order inside it, and chunks hold all of its words."""
    count = len(document.lines)
    assert all("\n" not in line and "\0" not in line for line in document.lines)
    "\n".join(document.lines).encode()
    assert all(1 <= item.line <= count for item in (*document.headings, *document.links))
    assert [heading.line for heading in document.headings] == sorted({heading.line for heading in document.headings})
    for spans in (document.fences, document.tables):
        ends = [line for span in spans for line in span]
        assert ends == sorted(ends)
        assert all(1 <= line <= count for line in ends)
    for first, last in document.fences:
        assert not any(first <= item.line <= last for item in (*document.headings, *document.links))
    kept = " ".join(chunk.text for chunk in chunk_document(document)).split()
    assert kept == " ".join(document.lines).split()
