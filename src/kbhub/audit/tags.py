"""Tags that mean the same and are written differently."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from kbhub.audit.material import front_lines, line_of
from kbhub.audit.models import Fix
from kbhub.editing.checks import tag_form
from kbhub.index.links import front_matter_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kbhub.audit.material import Material
    from kbhub.audit.models import AuditFinding


def usual_tags(bases: Mapping[str, Material]) -> dict[str, str]:
    """Give the tags that are not written as most documents write them: tag → how they do.

    Args:
        bases: those whose documents count.
    """
    counts: Counter[str] = Counter(
        tag for material in bases.values() for row in material.documents.values() for tag in set(row.tags)
    )
    by_form: dict[str, list[str]] = defaultdict(list)
    for tag in counts:
        by_form[tag_form(tag)].append(tag)
    usual: dict[str, str] = {}
    for same in by_form.values():
        best = min(same, key=lambda tag: (-counts[tag], tag != tag.lower(), len(tag), tag))
        usual.update({tag: best for tag in same if tag != best})
    return usual


def tag_findings(material: Material, usual: Mapping[str, str]) -> Iterator[AuditFinding]:
    """Find the tags of a base's documents that others write differently.

    Args:
        material: the base.
        usual: as `usual_tags` gives it.
    """
    wanted = {path: row for path, row in material.written().items() if any(tag in usual for tag in row.tags)}
    if not wanted:
        return
    index = material.hub.index(material.base)
    with index.snapshot():
        lines = {path: front_lines(text) for path, _, text in front_matter_of(index, "tag") if path in wanted}
    for path, row in wanted.items():
        for tag in row.tags:
            if tag in usual:
                yield material.finding(
                    "tags",
                    "warning",
                    path,
                    f"The tag {tag!r} is mostly written {usual[tag]!r}.",
                    f"Write {usual[tag]!r}.",
                    line=line_of(lines.get(path, []), tag),
                    fix=Fix(what="tag", before=tag, after=usual[tag]),
                )
