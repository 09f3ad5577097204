"""Lists from an index: documents, their titles and aliases, memories, tags, terms, and stored texts.

All functions need an index within a snapshot.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from kbhub.documents.shown_text import atx_text, code_blocks
from kbhub.index.engine import Index, numbers, texts_of
from kbhub.types import Document, Heading
from kbhub.values import shared_start
from kbhub.workspace.formats import has_markdown

MOST_PLACED = 500
"""Most chunks with a term that are sorted: some milliseconds. A commoner stem occurs in every form early on."""

LAST_CHARACTER = "\U0010ffff"

_HEADING = re.compile(r"\n#{1,6}([ \t].*)")


def paths_with(index: Index, parts: Collection[str]) -> list[str]:
    """Return the paths that contain one of some texts."""
    statement = "SELECT DISTINCT path FROM @texts AS part CROSS JOIN document WHERE @position(path, part.value) > 0"
    return [path for (path,) in index.rows(statement, sorted(parts))]


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
    counts = "SELECT value, count(DISTINCT document_id) FROM property WHERE key IN @texts GROUP BY value"
    return dict(index.rows(counts, ["tag"]))


def tags_of(index: Index, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the tags of some documents, by path; unknown paths are left out."""
    rows = index.rows("SELECT path, tags FROM document WHERE path IN @texts ORDER BY path", list(paths))
    with index.sound():
        return {path: texts_of(tags) for path, tags in rows}


def values_of(index: Index, paths: Sequence[str], key: str) -> list[tuple[str, str | float]]:
    """Return (path, value) of the folded texts and the numbers under a key of front matter in some documents."""
    found = dict(index.rows("SELECT id, path FROM document WHERE path IN @texts", list(paths)))
    sql = "SELECT document_id, value FROM property WHERE document_id IN @ids AND @each key = ?"
    return [(found[number], value) for number, value in index.rows(sql, numbers([*found]), key)]


def document_names(index: Index) -> Iterator[tuple[str, str]]:
    """Yield (path, name) for the title and every alias of every document."""
    with index.sound():
        for path, title, aliases in index.rows("SELECT path, title, aliases FROM document ORDER BY path"):
            yield path, title
            for alias in texts_of(aliases):
                yield path, alias


def document_slugs(index: Index) -> list[tuple[str, str]]:
    """Return (path, value) of the keys in the front matter of documents that name them on their site."""
    return index.rows(
        "SELECT path, value FROM (SELECT document_id, value FROM property WHERE key IN @texts) AS property "
        "JOIN document ON document.id = document_id WHERE kind IN ('document', 'memory') ORDER BY path",
        ["slug", "id", "permalink", "url"],
    )


MOST_NESTED = 100
"""Depth of front matter; that of a document has at most 50 (`frontmatter.MAX_DEPTH`)."""


def _mapping_of(written: str) -> dict[str, Any]:
    """Parse stored front matter; raises like `texts_of`."""
    mapping: dict[str, Any] = json.loads(written)
    if type(mapping) is not dict:
        raise TypeError("front matter in it is none")
    level: list[Any] = [mapping]
    for _ in range(MOST_NESTED):
        nested = [value for value in level if isinstance(value, dict | list)]
        level = [inner for value in nested for inner in (value.values() if isinstance(value, dict) else value)]
        if not level:
            return mapping
    raise ValueError("front matter in it is nested too deeply")


def memory_rows(
    index: Index, prefix: str = "", ids: Sequence[int] | None = None
) -> list[tuple[str, str, tuple[str, ...], dict[str, Any], int, int]]:
    """Return (path, title, tags, front matter, mtime in ns, id) of documents with a prefix, or of some by their ids."""
    where = "" if ids is None else "WHERE id IN @ids"
    rows = index.rows(
        f"SELECT path, title, tags, front_matter, mtime_ns, id FROM document {where} ORDER BY path",
        *([] if ids is None else [numbers(ids)]),
    )
    with index.sound():
        return [
            (path, title, texts_of(tags), _mapping_of(front), abs(mtime), document)
            for path, title, tags, front, mtime, document in rows
            if path.startswith(prefix)
        ]


def successors(index: Index) -> Mapping[str, Sequence[tuple[int, bool]]]:
    """Return superseded id → the documents that supersede it, and for each whether that is certain; cached."""

    def read() -> Mapping[str, Sequence[tuple[int, bool]]]:
        found = defaultdict[str, list[tuple[int, bool]]](list)
        for older, key, document in index.rows(
            "SELECT value, key, document_id FROM property WHERE key IN @texts ORDER BY document_id",
            ["supersedes", "may_supersede"],
        ):
            found[str(older)].append((document, key == "supersedes"))
        return found

    return index.remembered("successors", read)


def first_chunks(index: Index, documents: Sequence[int], most: int = 1) -> list[int]:
    """Return the first chunks of each document, at most so many."""
    ranked = "SELECT id, row_number() OVER (PARTITION BY document_id ORDER BY id) AS place FROM chunk"
    statement = f"SELECT id FROM ({ranked} WHERE document_id IN @ids) AS ranked WHERE place <= ?"
    return [chunk for (chunk,) in index.rows(statement, numbers(documents), most)]


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

    It has lines, and headings if its parts have a level.
    """
    rows_found = index.rows(
        "SELECT id, size, mtime_ns, hash, title, front_matter, problem FROM document WHERE path IN @texts", [path]
    )
    if not rows_found or (rows_found[0][1], abs(rows_found[0][2])) != (size, abs(mtime_ns)):
        return None
    number, _, _, digest, title, front_matter, problem = rows_found[0]
    headings: list[Heading] = []
    above: tuple[str, ...] = ()
    rows = index.rows(
        "SELECT headings, start_line, end_line, prose, text FROM chunk WHERE document_id IN @ids ORDER BY id",
        numbers([number]),
    )
    with index.sound():
        for names, start, _, prose, text in rows:
            path_of_headings = texts_of(names)
            if prose and part_level is not None:  # the header of a part precedes its prose
                line = start + text[:prose].rstrip("\n").count("\n")
                changed = len(shared_start(above, path_of_headings))
                *outer, own = path_of_headings
                headings += [Heading(at + 1, name, line) for at, name in enumerate(outer) if at >= changed]
                headings.append(Heading(part_level, own, line))
                above = path_of_headings
        document = Document(
            path=path,
            title=title,
            lines=tuple(_lines([row[1:] for row in rows])),
            front_matter=_mapping_of(front_matter),
            headings=tuple(headings),
            problems=(problem,) if problem else (),
        )
    return document, bytes(digest)


def terms_with_prefix(index: Index, prefix: str) -> dict[str, int]:
    """Return term → number of chunks, of the terms with a prefix that is folded like them."""
    between = "SELECT term, doc FROM vocabulary WHERE term >= ? AND term < ?"
    return dict(index.rows(between, prefix, prefix + LAST_CHARACTER))


def terms_among(index: Index, terms: Collection[str]) -> dict[str, int]:
    """Return term → number of chunks, of the given terms that occur in an index."""
    return dict(index.rows("SELECT term, doc FROM vocabulary WHERE term IN @texts", list(terms)))


def texts_with_term(index: Index, term: str, limit: int) -> list[str]:
    """Return the texts of the first chunks, by path and line, with a stem, each with headings, title, path and tags."""
    places = index.places(index.chunks_with(term, MOST_PLACED))
    chosen = sorted(places, key=lambda chunk: (places[chunk][0], chunk))[:limit]
    chunks = {chunk.id: chunk for chunk in index.chunks(chosen)}
    documents = {row.id: row for row in index.documents([chunk.document_id for chunk in chunks.values()])}
    found = [(chunk, documents[chunk.document_id]) for chunk in map(chunks.__getitem__, chosen)]
    return ["\n".join([chunk.text, *chunk.headings, one.title, one.path, *one.tags]) for chunk, one in found]


BATCH = 200
"""Documents whose text is in memory at once."""


def damage_of(index: Index) -> dict[str, str]:
    """Return path → what could not be read properly of documents with a problem, sorted by path."""
    return dict(index.rows("SELECT path, problem FROM document WHERE problem <> '' ORDER BY path"))


def titled(index: Index) -> set[str]:
    """Return the paths of documents with a title in their front matter."""
    named = "SELECT document_id FROM property WHERE key = 'title' AND trim(value) <> ''"
    return {path for (path,) in index.rows(f"SELECT path FROM document WHERE id IN ({named})")}


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
        yield path, "\n".join(_lines(chunks))


def _lines(chunks: Sequence[tuple[int, int, int, str]]) -> list[str]:
    """Return the lines of the chunks of a document, (first line, last line, prose, text), each at its number."""
    lines: list[str] = []
    for start, end, _, text in chunks:
        parts = text.split("\n")
        if start == len(lines) == end:  # continues a line that was too long for one chunk
            lines[-1] += parts[0]
        else:
            lines += [""] * (start - 1 - len(lines))
            lines += parts[: max(end - len(lines), 0)]
    return lines


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


def named_places(index: Index) -> list[tuple[str, str, str, str, int]]:
    """Return (path, kind, title, heading, line) of all documents, whose heading is empty, and of their sections."""

    def read() -> list[tuple[str, str, str, str, int]]:
        rows = index.rows(
            "SELECT path, kind, title, coalesce(headings, '[]'), coalesce(start_line, 1), coalesce(text, '') "
            "FROM document LEFT JOIN chunk ON document.id = document_id ORDER BY path, chunk.id"
        )
        found = dict[tuple[str, str, str, str], int]()
        with index.sound():
            for path, kind, title, headings, line, text in rows:
                found.setdefault((path, kind, title, ""), 1)
                written = _HEADING.finditer(f"\n{text}") if has_markdown(path) else ()
                named = [(atx_text(one[1]), text.count("\n", 0, one.start())) for one in written]
                code = [*code_blocks(text.split("\n"))] if named and ("```" in text or "~~~" in text) else []
                for name, number in [*named, *((name, 0) for name in texts_of(headings)[-1:])]:
                    if name not in ("", title) and not any(first <= number < end for first, end in code):
                        found.setdefault((path, kind, title, name), line + number)
        return [(*place, line) for place, line in found.items()]

    return index.remembered("places", read)


def link_rows(index: Index) -> list[tuple[str, str, str, str, int, str]]:
    """Return (document path, target, fragment, text, line, kind) of every link, in document order."""
    joined = "link JOIN document ON document.id = document_id ORDER BY path, link.rowid"
    return index.rows(f"SELECT path, target, fragment, text, line, link.kind FROM {joined}")


def front_matter_of(index: Index, key: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Return (path, front matter, its text) of every document with a text or number under a case-folded key."""
    having = "id IN (SELECT document_id FROM property WHERE key IN @texts)"
    documents = index.rows(f"SELECT id, path, front_matter FROM document WHERE {having} ORDER BY path", [key])
    written = defaultdict(list)
    for document, text in index.rows(
        "SELECT document_id, substr(text, 1, prose) FROM chunk WHERE document_id IN @ids AND prose > 0 ORDER BY id",
        numbers([number for number, *_ in documents]),
    ):
        written[document].append(text)
    with index.sound():
        for number, path, front in documents:
            yield path, _mapping_of(front), "\n".join(written[number])


def chunk_vectors(index: Index) -> list[tuple[str, bytes]]:
    """Return (document path, int8 vector) of every chunk with a vector, by document."""
    columns = index.columns()
    rows = index.rows("SELECT chunk_id, embedding FROM vector WHERE embedding IS NOT NULL ORDER BY chunk_id")
    documents = columns.documents[columns.positions([chunk for chunk, _ in rows])].tolist() if rows else []
    path_of = dict(index.rows("SELECT id, path FROM document"))
    owned = sorted(zip(documents, (embedding for _, embedding in rows), strict=True), key=itemgetter(0))
    return [(path_of[document], embedding) for document, embedding in owned]
