"""The data of a base that an audit needs, read from its index once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbhub.documents.frontmatter import read_front_matter
from kbhub.editing.audit.models import AuditFinding, Fix, Severity
from kbhub.index.auditing import contents, unindexed
from kbhub.index.links import front_matter_of
from kbhub.index.references import ref_of
from kbhub.reading.graph import resolved_links
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kbhub.hub import Hub
    from kbhub.index import DocumentRow
    from kbhub.index.auditing import ContentRow
    from kbhub.reading.graph import ResolvedLink
    from kbhub.types import Base


@struct
class Material:
    """A base, as of one read of its index."""

    hub: Hub
    base: Base
    documents: Mapping[str, DocumentRow]
    """By path, in order."""
    contents: Mapping[str, ContentRow]
    unindexed: Sequence[tuple[str, str]]
    links: Sequence[ResolvedLink]
    short: dict[str, str]
    """Full docid → short docid; filled when all bases are loaded."""

    def written(self) -> dict[str, DocumentRow]:
        """Return the documents that people write, by path: other rules hold for memories, sessions and PDF."""
        return {path: row for path, row in self.documents.items() if row.kind == "document"}

    def ref(self, path: str) -> str:
        """Return the ref of a document."""
        return ref_of(self.base, path, self.hub.discovery().bases)

    def finding(
        self,
        check: str,
        severity: Severity,
        path: str,
        message: str,
        remedy: str,
        *,
        line: int | None = None,
        others: tuple[str, ...] = (),
        fix: Fix | None = None,
    ) -> AuditFinding:
        """Build a finding about a document or file of the base."""
        row = self.documents.get(path)
        return AuditFinding(
            check=check,
            severity=severity,
            ref=self.ref(path),
            docid=self.short.get(row.docid, "") if row else "",
            base=self.base.id,
            path=path,
            line=line,
            message=message,
            remedy=remedy,
            others=others,
            fix=fix,
        )


def material_of(hub: Hub, base: Base) -> Material:
    """Load the data of a base.

    Raises:
        IndexUnavailable: its index cannot be read.
    """
    index = hub.index(base)
    with index.snapshot():
        rows = sorted(index.documents_by_docid(""), key=lambda row: row.path)
        content = {row.path: row for row in contents(index)}
        failed = unindexed(index)
    documents = {row.path: row for row in rows}
    # The links come from the graph of all bases, which may be newer than these rows.
    links = [link for link in resolved_links(hub, base) if link.path in documents]
    return Material(hub, base, documents, content, failed, links, {})


@struct
class Entry:
    """A text in a front matter list."""

    path: str
    text: str
    line: int | None
    """From 1; None if it does not appear literally on one line."""


def front_matter_entries(material: Material, *keys: str) -> Iterator[Entry]:
    """Yield the texts under keys of the documents' front matter, lists item by item.

    Args:
        material: the base.
        keys: case-folded keys.
    """
    index = material.hub.index(material.base)
    with index.snapshot():
        rows = [row for key in keys for row in front_matter_of(index, key)]
    for path, front, text in rows:
        lines = front_lines(text)
        for key, value in front.items():
            if key.strip().casefold() in keys:
                for entry in dict.fromkeys(_texts(value)):
                    yield Entry(path, entry, line_of(lines, entry))


def front_lines(text: str) -> list[str]:
    """Return the lines of a document's front matter, including the opening one.

    Args:
        text: the document, or its beginning.
    """
    lines = text.split("\n")
    closing = read_front_matter(lines).closing
    return lines[: closing or len(lines)]


def line_of(lines: Sequence[str], entry: str) -> int | None:
    """Return the first line of front matter that contains a text, from 1, or None."""
    return next((number for number, line in enumerate(lines, 1) if number > 1 and entry in line), None)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str) and value.strip():
        yield value.strip()
