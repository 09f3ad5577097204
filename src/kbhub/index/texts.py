"""The text of documents as the index has it, for those whose file takes long to read again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kbhub.types import Document, Heading

if TYPE_CHECKING:
    from kbhub.index.reader import Index


def indexed_document(
    index: Index, path: str, size: int, mtime_ns: int, part_level: int
) -> tuple[Document, bytes] | None:
    """Give a document of parts as it was indexed, if its file is still the same by size and time.

    Args:
        index: an index, in a snapshot.
        path: the document.
        size: bytes of its file now.
        mtime_ns: time of its file now, in ns.
        part_level: level of the headings that begin its parts.

    Returns:
        The document with its lines and headings, and the hash of its file; none if the index has another state of it.

    Raises:
        IndexUnavailable: it cannot be read.
    """
    found = index._rows(
        "SELECT id, size, mtime_ns, hash, title, front_matter, problem FROM document WHERE path = ?", path
    )
    if not found or (found[0][1], abs(found[0][2])) != (size, abs(mtime_ns)):
        return None
    number, _, _, digest, title, front_matter, problem = found[0]
    lines: list[str] = []
    headings: list[Heading] = []
    above: tuple[str, ...] = ()
    rows = index._rows(
        "SELECT headings, start_line, end_line, prose, text FROM chunk WHERE document_id = ? ORDER BY id", number
    )
    for names, start, end, prose, text in rows:
        parts = text.split("\n")
        if start == len(lines) == end:  # a further part of a line that was too long for one chunk
            lines[-1] += parts[0]
            continue
        lines += [""] * (start - 1 - len(lines))
        path_of_headings = tuple(json.loads(names))
        if prose:  # the header of a part stands before its prose
            line = start + text[:prose].rstrip("\n").count("\n")
            changed = next((at for at, one in enumerate(above) if path_of_headings[at : at + 1] != (one,)), len(above))
            *outer, own = path_of_headings
            headings += [Heading(at + 1, one, line) for at, one in enumerate(outer) if at >= changed]
            headings.append(Heading(part_level, own, line))
            above = path_of_headings
        lines += parts[: end - len(lines)] if end > len(lines) else []
    document = Document(
        path=path,
        title=title,
        lines=tuple(lines),
        body=0,
        front_matter=json.loads(front_matter),
        tags=(),
        aliases=(),
        headings=tuple(headings),
        fences=(),
        links=(),
        problems=(problem,) if problem else (),
    )
    return document, bytes(digest)
