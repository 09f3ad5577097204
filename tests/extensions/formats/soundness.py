"""What holds of a document of any format, whatever its file was."""

from kbhub.documents.chunking import chunk_document


def check_soundness(document):
    """It can be stored, its structure lies inside it, and chunks hold all of its words."""
    count = len(document.lines)
    assert all("\n" not in line and "\0" not in line for line in document.lines)
    "\n".join(document.lines).encode()
    assert all(1 <= heading.line <= count for heading in document.headings)
    assert all(1 <= first <= last <= count for first, last in (*document.fences, *document.tables))
    kept = " ".join(chunk.text for chunk in chunk_document(document)).split()
    assert kept == " ".join(document.lines).split()
