"""Pages of documents, the text of one, and what completes names of them."""

from __future__ import annotations

import base64
import binascii
import json
import unicodedata
from collections import Counter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kbhub.document_names import MARKDOWN_SUFFIXES
from kbhub.errors import BaseNotFound, DocumentNotFound, IndexUnavailable, UsageError
from kbhub.later import catalogue, known, limits, markdown, mentions, walk
from kbhub.references import ref_of
from kbhub.resources.addresses import from_template_value, parse_uri, template_value
from kbhub.sources.kinds import kind_of
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbhub.hub import Hub
    from kbhub.index.catalogue import CatalogueEntry
    from kbhub.opening import Opener
    from kbhub.types import Base

PAGE = 100
"""Documents of one page of the list: some 20 kB, which every client takes."""

COMPLETIONS = 100
"""Values of one completion: the most that the protocol allows."""

MARKDOWN, PLAIN = "text/markdown", "text/plain"


@struct
class Page:
    """A page of the documents of all active bases."""

    documents: list[tuple[Base, CatalogueEntry, str]]
    """Each with its base and its ref; the project base first, then by id, within a base by path."""
    cursor: str | None
    """Brings the next page; none on the last."""


def page_of_documents(hub: Hub, cursor: str | None = None) -> Page:
    """List documents as the indexes have them; a base without a usable index has none.

    Args:
        hub: the hub.
        cursor: of the page, as the last one gave it. It names the last document that was listed, so documents that
            come or go in between make no other be listed twice or left out.

    Raises:
        UsageError: it is no cursor, or its base is not active any more.
    """
    bases = hub.select()
    start, path = _decoded(cursor, bases) if cursor else (0, "")
    found: list[tuple[Base, CatalogueEntry, str]] = []
    for base in bases[start:]:
        index = hub.index(base)
        try:
            with index.snapshot():
                rows = catalogue.documents_after(index, path, PAGE + 1 - len(found))
        except IndexUnavailable:
            rows = []
        found += [(base, row, ref_of(base, row.path, bases)) for row in rows]
        path = ""
        if len(found) > PAGE:
            base, last, _ = found[PAGE - 1]
            return Page(found[:PAGE], _encoded(base.id, last.path))
    return Page(found, None)


def read_document(hub: Hub, uri: str) -> tuple[str, str]:
    """Give the text of a document as it is on disk now, and its media type; a use of it if it is a memory.

    What was made text of another kind of file (a session log, a PDF) is given as Markdown.

    Args:
        hub: the hub.
        uri: its address; any string is safe.

    Raises:
        DocumentNotFound, BaseNotFound, PathNotContained: there is no such document.
    """
    address = parse_uri(uri)
    if address is None:
        raise DocumentNotFound(uri, "documents have addresses such as kbhub://project/path.md")
    base = next(iter(hub.select((address[0],))))
    opener = limits.opener_of(hub.limits())
    # File systems differ in how they spell accents.
    forms = (address[1], unicodedata.normalize("NFC", address[1]), unicodedata.normalize("NFD", address[1]))
    for path in dict.fromkeys(forms):
        if opener.has(base, path):
            text = _text(hub, opener, base, path, uri)
            known.count_refs(hub, (ref_of(base, path, hub.select()),))
            return text, media_type(base, path)
    raise DocumentNotFound(uri, f"the base {base.id!r} has none at that path")


def media_type(base: Base, path: str) -> str:
    """Give the media type of a document's text."""
    plain = (
        kind_of(base, path) in ("document", "memory") and PurePosixPath(path).suffix.lower() not in MARKDOWN_SUFFIXES
    )
    return PLAIN if plain else MARKDOWN


def complete_base(hub: Hub, start: str) -> list[str]:
    """Give the ids of active bases that begin with a text, in any case."""
    names = (name for base in hub.select() for name in (base.id, *base.names))
    return [name for name in names if name.casefold().startswith(start.casefold())]


def complete_path(hub: Hub, start: str, base: str | None = None) -> list[str]:
    """Give paths that begin with a text, or else hold it, as values of `{+path}`; one more than fits if there are more.

    Args:
        hub: the hub.
        start: what was typed.
        base: id of the base; none for all, the project base first. One that is not active has no documents.
    """
    wanted = from_template_value(start)
    found: dict[str, None] = {}
    for one in _bases(hub, base):
        index = hub.index(one)
        try:
            with index.snapshot():
                found |= dict.fromkeys(map(template_value, catalogue.paths_beginning(index, wanted, COMPLETIONS + 1)))
        except IndexUnavailable:
            continue
    return list(found)


def complete_tag(hub: Hub, start: str) -> list[str]:
    """Give the tags that begin with a text, in any case, the most frequent first."""
    counts: Counter[str] = Counter()
    for base in hub.select():
        index = hub.index(base)
        try:
            with index.snapshot():
                counts += mentions.tag_counts(index, without="")
        except IndexUnavailable:
            continue
    wanted = start.removeprefix("#").casefold()
    return [tag for tag, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0])) if _begins(tag, wanted)]


def _begins(tag: str, wanted: str) -> bool:
    return tag.casefold().startswith(wanted)


def _bases(hub: Hub, name: str | None) -> Iterable[Base]:
    try:
        return hub.select((name,) if name else ())
    except BaseNotFound:
        return ()


def _text(hub: Hub, opener: Opener, base: Base, path: str, uri: str) -> str:
    try:
        if kind_of(base, path) in ("document", "memory"):
            try:
                with walk.open_contained(base, path) as file:
                    return markdown.decode(file.read(opener.max_bytes + 1))[0]
            except FileNotFoundError:
                pass  # it was kept when it was deleted
        index = hub.index(base)
        try:
            with index.snapshot():
                lines = opener.open(base, path, index).document.lines
        except IndexUnavailable:
            lines = opener.open(base, path).document.lines
        return "".join(f"{line}\n" for line in lines)
    except OSError as error:
        raise DocumentNotFound(uri, f"its file cannot be read ({error.strerror})") from error


def _encoded(base: str, path: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([base, path]).encode("ascii")).decode().rstrip("=")


def _decoded(cursor: str, bases: tuple[Base, ...]) -> tuple[int, str]:
    """Give the number of the base in which a page begins, and the path after which."""
    try:
        base, path = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError, TypeError):
        base, path = None, None
    number = next((number for number, one in enumerate(bases) if one.id == base), None)
    if number is None or not isinstance(path, str):
        raise UsageError("`cursor` is none that kbhub gave, or its base is gone; list without it from the first page.")
    return number, path
