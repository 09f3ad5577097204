"""Return document texts from the index if the files are slow to parse again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kbhub.types import Document, Heading

if TYPE_CHECKING:
    from kbhub.index.reader import Index


def indexed_document(
    index: Index, path: str, size: int, mtime_ns: int, part_level: int
) -> tuple[Document, bytes] | None:
    """Return a document with parts from the index, if its file is unchanged by size and time.

    Args:
        index: an index, in a snapshot.
        path: path of the document.
        size: current size of its file in bytes.
        mtime_ns: current mtime of its file in ns.
        part_level: heading level of its parts.

    Returns:
        The document with lines and headings, and the hash of its file; None if the file has changed.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    rows_found = index._rows(
        "SELECT id, size, mtime_ns, hash, title, front_matter, problem FROM document WHERE path = ?", path
    )
    if not rows_found or (rows_found[0][1], abs(rows_found[0][2])) != (size, abs(mtime_ns)):
        return None
    number, _, _, digest, title, front_matter, problem = rows_found[0]
    lines: list[str] = []
    headings: list[Heading] = []
    above: tuple[str, ...] = ()
    rows = index._rows(
        "SELECT headings, start_line, end_line, prose, text FROM chunk WHERE document_id = ? ORDER BY id", number
    )
    for names, start, end, prose, text in rows:
        parts = text.split("\n")
        if start == len(lines) == end:  # continues a line that was too long for one chunk
            lines[-1] += parts[0]
            continue
        lines += [""] * (start - 1 - len(lines))
        path_of_headings = tuple(json.loads(names))
        if prose:  # the header of a part precedes its prose
            line = start + text[:prose].rstrip("\n").count("\n")
            changed = next(
                (at for at, name in enumerate(above) if path_of_headings[at : at + 1] != (name,)), len(above)
            )
            *outer, own = path_of_headings
            headings += [Heading(at + 1, name, line) for at, name in enumerate(outer) if at >= changed]
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
