"""Lists from an index: documents, their titles and aliases, memories, tags, terms, and stored texts.

All functions need an index within a snapshot.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kbhub.index.engine import numbers
from kbhub.index.rows import mapping_of, texts_of
from kbhub.types import Document, Heading
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kbhub.index.engine import Index
    from kbhub.types import Kind


MOST_PLACED = 500
"""Most chunks with a term that are sorted: some milliseconds. A commoner stem occurs in every form early on."""

LAST_CHARACTER = "\U0010ffff"


@struct
class CatalogueEntry:
    """A document in a list."""

    path: str
    title: str
    kind: Kind
    size: int
    """Size of its file in bytes."""
    mtime_ns: int
    """Nanoseconds since the epoch."""


def documents_after(index: Index, path: str, limit: int) -> list[CatalogueEntry]:
    """Return a page of documents by path, after the last path of the previous page (empty for the first page)."""
    rows = index.rows(
        "SELECT path, title, kind, size, abs(mtime_ns) FROM document WHERE path > ? ORDER BY path LIMIT ?", path, limit
    )
    return [CatalogueEntry(*row) for row in rows]


def paths_beginning(index: Index, start: str, limit: int) -> list[str]:
    """Return the paths that start with a text; if there are none, those that contain it, case-insensitively."""
    rows = index.rows(
        "SELECT path FROM document WHERE substr(path, 1, ?) = ? ORDER BY path LIMIT ?", len(start), start, limit
    )
    if not rows:
        rows = index.rows(
            "SELECT path FROM document WHERE @position(lower(path), lower(?)) > 0 ORDER BY path LIMIT ?", start, limit
        )
    return [path for (path,) in rows]


def content_hashes(index: Index) -> dict[str, bytes]:
    """Return path → file hash of every document."""
    return dict(index.rows("SELECT path, hash FROM document"))


def tag_counts(index: Index) -> dict[str, int]:
    """Return tag → number of documents with it."""
    return dict(
        index.rows(
            "SELECT value, count(DISTINCT document_id) FROM property WHERE key IN @texts GROUP BY value", ["tag"]
        )
    )


def tags_of(index: Index, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the tags of some documents, by path; unknown paths are left out."""
    rows = index.rows("SELECT path, tags FROM document WHERE path IN @texts ORDER BY path", list(paths))
    with index.sound():
        return {path: texts_of(tags) for path, tags in rows}


def document_names(index: Index) -> Iterator[tuple[str, str]]:
    """Yield (path, name) for the title and every alias of every document."""
    with index.sound():
        for path, title, aliases in index.rows("SELECT path, title, aliases FROM document ORDER BY path"):
            yield path, title
            for alias in texts_of(aliases):
                yield path, alias


@struct
class MemoryRow:
    """A document with its front matter."""

    path: str
    title: str
    tags: tuple[str, ...]
    front_matter: dict[str, Any]
    mtime_ns: int


def memory_rows(index: Index, prefix: str = "", paths: Sequence[str] | None = None) -> list[MemoryRow]:
    """Return documents with their front matter, sorted by path: those with a prefix and, unless None, at some paths."""
    where = "" if paths is None else "WHERE path IN @texts"
    rows = index.rows(
        f"SELECT path, title, tags, front_matter, mtime_ns FROM document {where} ORDER BY path",
        *([] if paths is None else [list(paths)]),
    )
    with index.sound():
        return [
            MemoryRow(path, title, texts_of(tags), mapping_of(front), abs(mtime))
            for path, title, tags, front, mtime in rows
            if path.startswith(prefix)
        ]


def tag_counts_without(index: Index, *, without: str) -> Counter[str]:
    """Count the documents per tag as written, ignoring the document at one path."""
    counts: Counter[str] = Counter()
    rows = index.rows("SELECT tags FROM document WHERE tags != '[]' AND path != ?", without)
    with index.sound():
        for (tags,) in rows:
            counts.update(set(texts_of(tags)))
    return counts


def indexed_document(
    index: Index, path: str, size: int, mtime_ns: int, part_level: int | None
) -> tuple[Document, bytes] | None:
    """Return a document and its file's hash from the index; None if the file's size or mtime (in ns) has changed.

    The document has lines and headings; without a `part_level`, the heading level of its parts, it has no headings.
    """
    rows_found = index.rows(
        "SELECT id, size, mtime_ns, hash, title, front_matter, problem FROM document WHERE path IN @texts", [path]
    )
    if not rows_found or (rows_found[0][1], abs(rows_found[0][2])) != (size, abs(mtime_ns)):
        return None
    number, _, _, digest, title, front_matter, problem = rows_found[0]
    lines: list[str] = []
    headings: list[Heading] = []
    above: tuple[str, ...] = ()
    rows = index.rows(
        "SELECT headings, start_line, end_line, prose, text FROM chunk WHERE document_id IN @ids ORDER BY id",
        numbers([number]),
    )
    with index.sound():
        for names, start, end, prose, text in rows:
            parts = text.split("\n")
            if start == len(lines) == end:  # continues a line that was too long for one chunk
                lines[-1] += parts[0]
                continue
            lines += [""] * (start - 1 - len(lines))
            path_of_headings = texts_of(names)
            if prose and part_level is not None:  # the header of a part precedes its prose
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
            front_matter=mapping_of(front_matter),
            tags=(),
            aliases=(),
            headings=tuple(headings),
            fences=(),
            links=(),
            problems=(problem,) if problem else (),
        )
    return document, bytes(digest)


def terms_with_prefix(index: Index, prefix: str) -> dict[str, int]:
    """Return term → number of chunks, of the terms with a prefix that is folded like them."""
    return dict(
        index.rows("SELECT term, doc FROM vocabulary WHERE term >= ? AND term < ?", prefix, prefix + LAST_CHARACTER)
    )


def terms_among(index: Index, terms: Collection[str]) -> dict[str, int]:
    """Return term → number of chunks, of the given terms that occur in an index."""
    return dict(index.rows("SELECT term, doc FROM vocabulary WHERE term IN @texts", list(terms)))


def texts_with_term(index: Index, term: str, limit: int) -> list[str]:
    """Return the texts of the first chunks, by path and line, with a stem, each with headings, title, path and tags."""
    places = index.places(index.chunks_with(term, MOST_PLACED))
    chosen = sorted(places, key=lambda chunk: (places[chunk][0], chunk))[:limit]
    chunks = index.chunks(chosen)
    documents = index.documents([chunk.document_id for chunk in chunks.values()])
    found = [(chunks[number], documents[chunks[number].document_id]) for number in chosen]
    return [
        "\n".join([chunk.text, *chunk.headings, document.title, document.path, *document.tags])
        for chunk, document in found
    ]
