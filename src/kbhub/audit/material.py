"""What is known of a base when it is audited, read from its index once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbhub.audit.models import AuditFinding, Fix, Severity
from kbhub.frontmatter import read_front_matter
from kbhub.graph import resolved_links
from kbhub.index.auditing import contents, unindexed
from kbhub.index.links import front_matter_of
from kbhub.references import ref_of
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kbhub.graph import ResolvedLink
    from kbhub.hub import Hub
    from kbhub.index import DocumentRow
    from kbhub.index.auditing import ContentRow
    from kbhub.types import Base


@struct
class Material:
    """One base, as of one look at its index."""

    hub: Hub
    base: Base
    documents: Mapping[str, DocumentRow]
    """By path, in its order."""
    contents: Mapping[str, ContentRow]
    unindexed: Sequence[tuple[str, str]]
    links: Sequence[ResolvedLink]
    short: dict[str, str]
    """Full docid → the short one; filled when all bases are known."""

    def written(self) -> dict[str, DocumentRow]:
        """Give the documents that people write, by path: memories, sessions and PDF have rules of their own."""
        return {path: row for path, row in self.documents.items() if row.kind == "document"}

    def ref(self, path: str) -> str:
        """Give the ref of a document."""
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
        """Make a finding about a document or file of the base."""
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
    """Read what an audit needs of a base.

    Raises:
        IndexUnavailable: its index cannot be read.
    """
    index = hub.index(base)
    with index.snapshot():
        rows = sorted(index.documents_by_docid(""), key=lambda row: row.path)
        content = {row.path: row for row in contents(index)}
        failed = unindexed(index)
    documents = {row.path: row for row in rows}
    # Links are those of the graph over all bases, which may be of a later state.
    links = [link for link in resolved_links(hub, base) if link.path in documents]
    return Material(hub, base, documents, content, failed, links, {})


@struct
class Entry:
    """One text of a list in front matter."""

    path: str
    text: str
    line: int | None
    """From 1; none if it is not written so in one line."""


def front_matter_entries(material: Material, *keys: str) -> Iterator[Entry]:
    """Give the texts under keys of the front matter of documents, those of lists one by one.

    Args:
        material: the base.
        keys: case-folded.
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
    """Give the lines of a document's front matter, the one that opens it first.

    Args:
        text: the document, or its beginning.
    """
    lines = text.split("\n")
    closing = read_front_matter(lines).closing
    return lines[: closing or len(lines)]


def line_of(lines: Sequence[str], entry: str) -> int | None:
    """Give the first line of front matter that holds a text, from 1; none if none does."""
    return next((number for number, line in enumerate(lines, 1) if number > 1 and entry in line), None)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, str) and value.strip():
        yield value.strip()
