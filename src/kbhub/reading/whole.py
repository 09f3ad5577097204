"""A document as a person reads it: parsed and whole, with the lines that were asked for and what is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.documents.blocks import section
from kbhub.errors import DocumentNotFound, IndexUnavailable
from kbhub.index.staleness import outdated
from kbhub.reading.read import HASH_DIGITS, lines_of
from kbhub.reading.resolver import folded, resolver_of
from kbhub.values import struct
from kbhub.workspace.discovery import matching
from kbhub.workspace.git import Commit, history

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.index.references import ParsedRef
    from kbhub.index.rows import DocumentRow
    from kbhub.types import Base, Document

COMMITS = 10
"""Commits of a document's history."""


@struct
class Whole:
    """A document and facts about it."""

    ref: str
    docid: str
    base: Base
    path: str
    document: Document
    lines: tuple[int, int] | None
    """First and last line that were asked for; None for all."""
    hash: str
    """As of `Reading`."""
    deleted: str | None
    contexts: tuple[str, ...]
    row: DocumentRow | None
    """As it is in the index, if it is."""
    outdated: str
    """Why it may no longer hold, by its own word; empty if it says nothing."""


def open_whole(hub: Hub, ref: str) -> Whole:
    """Open a document by a ref as for `read`.

    A heading may be given as the anchor that GitHub makes of it; one that does not exist stands for the whole document.

    Raises:
        DocumentNotFound, PathNotContained: it does not exist, or cannot be read.
        AmbiguousReference: several documents match.
        UsageError: the ref is too long.
    """
    with hub.readers:
        resolver = resolver_of(hub)
        with resolver.opened():
            match = resolver.find(ref)
            if match is None:
                raise resolver.not_found(ref)
            reference, place = match
            try:
                opened = resolver.open(place)
            except OSError as error:
                raise DocumentNotFound(ref, f"its file cannot be read ({error.strerror})") from error
            row, reason = _indexed(hub, place.base, place.path)
            return Whole(
                ref=resolver.ref(place),
                docid=resolver.docid(place),
                base=place.base,
                path=place.path,
                document=opened.document,
                lines=_asked(opened.document, reference, ref),
                hash=opened.digest.hex()[:HASH_DIGITS],
                deleted=opened.deleted,
                contexts=matching(place.base.contexts, hub.config().settings.contexts, place.path),
                row=row,
                outdated=reason,
            )


def commits(whole: Whole) -> list[Commit]:
    """Return the last commits that changed a document."""
    return [] if whole.base.engine else history(whole.base, whole.path, COMMITS)


def _indexed(hub: Hub, base: Base, path: str) -> tuple[DocumentRow | None, str]:
    """Return a document as the index has it, and why it may no longer hold."""
    index = hub.index(base)
    try:
        with index.snapshot():
            row = index.document(path)
            reasons = outdated(index, [row], hub.options.clock()) if row else {}
    except IndexUnavailable:
        return None, ""
    return row, reasons.get(row.id, "") if row else ""


def _asked(document: Document, reference: ParsedRef, ref: str) -> tuple[int, int] | None:
    if reference.heading is None:
        return lines_of(document, reference, ref) if reference.start else None
    try:
        return lines_of(document, reference, ref)
    except DocumentNotFound:
        wanted = _squashed(reference.heading)
        heading = next((one for one in document.headings if _squashed(one.text) == wanted), None)
        return section(document, heading.text) if heading else None


def _squashed(text: str) -> str:
    """Return what anchors and headings have in common: their letters and digits."""
    return "".join(filter(str.isalnum, folded(text)))
