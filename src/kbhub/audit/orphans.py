"""Documents that nothing leads to or from, and that no tag groups with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.graph.resolving import folded, stem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kbhub.audit.material import Material
    from kbhub.audit.models import AuditFinding

ENTRANCES = frozenset(
    ("_index", "changelog", "code_of_conduct", "contributing", "home", "index", "license", "overview", "readme")
)
"""Names, case-folded and without ending, of documents that people find by their name."""


def orphan_findings(material: Material, bases: Mapping[str, Material]) -> Iterator[AuditFinding]:
    """Find documents without links in or out, entries of `related` among them, and without tags.

    Args:
        material: the base.
        bases: all active bases, by id.
    """
    mine = material.base.id
    joined = {link.path for link in material.links if link.by != "itself"}
    joined |= {
        link.goal[1]
        for one in bases.values()
        for link in one.links
        if link.goal and link.goal[0] == mine and (one.base.id, link.path) != link.goal
    }
    for path, row in material.written().items():
        name = folded(stem(path)).rpartition("/")[2]
        if path not in joined and not row.tags and name not in ENTRANCES:
            yield material.finding(
                "orphans",
                "info",
                path,
                "No link leads to this document or from it, and it has no tags.",
                "Link it from where it belongs, or give it tags.",
            )
