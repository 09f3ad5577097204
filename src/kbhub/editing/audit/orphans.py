"""Documents without links in or out, and without tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.reading.graph.resolving import folded, stem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kbhub.editing.audit.material import Material
    from kbhub.editing.audit.models import AuditFinding

ENTRANCES = frozenset(
    ("_index", "changelog", "code_of_conduct", "contributing", "home", "index", "license", "overview", "readme")
)
"""Names, case-folded and without suffix, of documents that people find by name."""


def orphan_findings(material: Material, bases: Mapping[str, Material]) -> Iterator[AuditFinding]:
    """Yield findings about documents without links (including `related`) in or out, and without tags.

    Args:
        material: the base.
        bases: all active bases, by id.
    """
    base_id = material.base.id
    linked = {link.path for link in material.links if link.by != "itself"}
    linked |= {
        link.goal[1]
        for other in bases.values()
        for link in other.links
        if link.goal and link.goal[0] == base_id and (other.base.id, link.path) != link.goal
    }
    for path, row in material.written().items():
        name = folded(stem(path)).rpartition("/")[2]
        if path not in linked and not row.tags and name not in ENTRANCES:
            yield material.finding(
                "orphans",
                "info",
                path,
                "No link leads to this document or from it, and it has no tags.",
                "Link it from where it belongs, or give it tags.",
            )
