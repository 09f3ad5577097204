"""Documents as input of an index, whatever engine holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbhub.index.query import fold, searchable
from kbhub.index.rows import title_above
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kbhub.types import Link


@struct
class NewChunk:
    """A chunk to write."""

    headings: tuple[str, ...]
    start_line: int
    end_line: int
    prose: int
    """Offset in `text` of the first character after the front matter."""
    text: str
    key: int
    """Signed 64-bit hash of its embedded text."""


@struct
class NewDocument:
    """A document to write."""

    path: str
    docid: str
    size: int
    mtime_ns: int
    hash: bytes
    title: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    front_matter: Mapping[str, Any]
    dated: int | None
    problem: str | None
    chunks: tuple[NewChunk, ...]
    kind: str = "document"
    links: tuple[Link, ...] = ()


def properties(front_matter: Mapping[str, Any], tags: Sequence[str]) -> Iterator[tuple[str, str | int | float]]:
    """Yield (key, value) for filters; keys and texts case-folded, one per element of a list.

    Keys of nested mappings are joined by `.`; tags have the key `tag`.
    """
    yield from (("tag", fold(tag)) for tag in tags)
    for key, value in front_matter.items():
        yield from _flattened(fold(key), value)


def _flattened(key: str, value: Any) -> Iterator[tuple[str, str | int | float]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flattened(f"{key}.{fold(str(name))}", inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _flattened(key, inner)
    elif isinstance(value, bool):
        yield key, fold(str(value))
    elif isinstance(value, str):
        yield key, fold(value)
    elif value is not None:
        yield key, value


def searched_texts(document: NewDocument) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the searched texts of each chunk, by column (`ranking.FTS_COLUMNS`)."""
    path = searchable(document.path.rpartition(".")[0] or document.path)
    tags = searchable(" ".join(document.tags))
    short: dict[str, str] = {}  # a title is mostly a heading, too, and one heading is above several chunks
    for chunk in document.chunks:
        above = title_above(document.title, document.kind, chunk.start_line)
        title, headings = " ".join([above, *document.aliases]), " ".join(chunk.headings)
        for text in (title, headings):
            if text not in short:
                short[text] = searchable(text)
        yield short[title], short[headings], path, tags, searchable(chunk.text)
