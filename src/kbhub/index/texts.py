"""Queries for the audit and the link graph: whole texts, content hashes, links, and differences from the files.

All functions need an index within a snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kbhub.index.engine import numbers
from kbhub.index.rows import mapping_of, texts_of
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kbhub.index.engine import Index
    from kbhub.types import Kind


BATCH = 200
"""Documents whose text is in memory at once."""

AT_ONCE = 500
"""Documents read at once; reading all would take memory that the process never returns."""


@struct
class ContentRow:
    """A document with the hash of its content."""

    path: str
    hash: bytes
    """Hash of the file's bytes."""
    problem: str
    """What could not be read properly; empty if nothing."""
    titled: bool
    """Whether its front matter has a title."""
    tagged: bool


def contents(index: Index) -> list[ContentRow]:
    """Return all documents with their content hashes, sorted by path."""
    rows = index.rows(
        "SELECT path, hash, coalesce(problem, ''), id IN (SELECT document_id FROM property WHERE key = 'title' AND "
        "trim(value) <> ''), tags <> '[]' FROM document ORDER BY path"
    )
    return [
        ContentRow(path, bytes(digest), problem, bool(titled), bool(tagged))
        for path, digest, problem, titled, tagged in rows
    ]


def unindexed(index: Index) -> list[tuple[str, str]]:
    """Return (path, reason) of files that should be indexed but are not."""
    return index.rows("SELECT path, message FROM problem ORDER BY path")


def bodies(index: Index, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (path, text after the front matter) of documents, in the given order; blank lines may be missing."""
    for path, chunks in _chunks(index, paths):
        yield path, "\n".join(text[prose:] for _, _, prose, text in chunks)


def texts(index: Index, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (path, text) of documents, in the given order, with each line at its original number."""
    for path, chunks in _chunks(index, paths):
        lines: list[str] = []
        for start, end, _, text in chunks:
            parts = text.split("\n")
            if start == len(lines) == end:  # continues a line that was too long for one chunk
                lines[-1] += parts[0]
                continue
            lines += [""] * (start - 1 - len(lines))
            lines += parts
        yield path, "\n".join(lines)


def _chunks(index: Index, paths: Sequence[str]) -> Iterator[tuple[str, list[tuple[int, int, int, str]]]]:
    for first in range(0, len(paths), BATCH):
        chunks_by_path: dict[str, list[tuple[int, int, int, str]]] = {path: [] for path in paths[first : first + BATCH]}
        path_of = dict(index.rows("SELECT id, path FROM document WHERE path IN @texts", list(chunks_by_path)))
        rows = index.rows(
            "SELECT document_id, start_line, end_line, prose, text FROM chunk WHERE document_id IN @ids ORDER BY id",
            numbers(list(path_of)),
        )
        for document, start, end, prose, text in rows:
            chunks_by_path[path_of[document]].append((start, end, prose, text))
        yield from chunks_by_path.items()


@struct
class LinkedDocument:
    """The parts of a document that link it to others."""

    path: str
    docid: str
    """Full docid."""
    title: str
    kind: Kind
    tags: tuple[str, ...]
    aliases: tuple[str, ...]


def linked_documents(index: Index) -> dict[str, LinkedDocument]:
    """Return path → document for every document, sorted by path."""
    rows = index.rows("SELECT path, docid, title, kind, tags, aliases FROM document ORDER BY path")
    with index.sound():
        return {
            path: LinkedDocument(path, docid, title, kind, texts_of(tags), texts_of(aliases))
            for path, docid, title, kind, tags, aliases in rows
        }


def link_rows(index: Index) -> list[tuple[str, str, str, str, int, str]]:
    """Return (document path, target, fragment, text, line, kind) of every link, in document order."""
    return index.rows(
        "SELECT path, target, fragment, text, line, link.kind FROM link JOIN document ON document.id = document_id "
        "ORDER BY path, link.rowid"
    )


def front_matter_of(index: Index, key: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Return (path, front matter, its text) of every document with a text or number under a case-folded key."""
    documents = index.rows(
        "SELECT id, path, front_matter FROM document "
        "WHERE id IN (SELECT document_id FROM property WHERE key IN @texts) ORDER BY path",
        [key],
    )
    written = defaultdict(list)
    for document, text in index.rows(
        "SELECT document_id, substr(text, 1, prose) FROM chunk WHERE document_id IN @ids AND prose > 0 ORDER BY id",
        numbers([number for number, *_ in documents]),
    ):
        written[document].append(text)
    with index.sound():
        for number, path, front in documents:
            yield path, mapping_of(front), "\n".join(written[number])


def chunk_vectors(index: Index) -> list[tuple[str, bytes]]:
    """Return (document path, int8 vector) of every chunk with a vector, by document."""
    columns = index.columns()
    rows = index.rows("SELECT chunk_id, embedding FROM vector WHERE embedding IS NOT NULL ORDER BY chunk_id")
    documents = columns.documents[columns.positions([chunk for chunk, _ in rows])].tolist() if rows else []
    path_of = dict(index.rows("SELECT id, path FROM document"))
    owned = sorted(zip(documents, (embedding for _, embedding in rows), strict=True), key=itemgetter(0))
    return [(path_of[document], embedding) for document, embedding in owned]


def differing(index: Index, files: Mapping[str, tuple[int, int]]) -> tuple[list[str], list[str], list[str]]:
    """Compare the documents of an index with all files: path → (size in bytes, mtime in ns).

    Returns:
        Paths that are new or have another size or time; paths of files indexed so soon after a write that they may have
        changed within the same tick; paths of documents without a file. All unsorted.
    """
    different, young, gone = list[str](), list[str](), list[str]()
    matched = 0
    for rows in _documents(index):
        for _, path, size, mtime in rows:
            if (file := files.get(path)) is None:
                gone.append(path)
                continue
            matched += 1
            if file != (size, mtime):
                (young if file == (size, -mtime) else different).append(path)
    if matched < len(files):
        different += files.keys() - {row[1] for rows in _documents(index) for row in rows}
    return different, young, gone


def _documents(index: Index) -> Iterator[list[tuple[int, str, int, int]]]:
    """Yield (id, path, size, time) of all documents, in batches."""
    last = 0
    query = "SELECT id, path, size, mtime_ns FROM document WHERE id > ? ORDER BY id LIMIT ?"
    while rows := index.rows(query, last, AT_ONCE):
        if rows[-1][0] <= last:  # prevents an endless loop
            raise index.damaged("its documents are out of order")
        last = rows[-1][0]
        yield rows
