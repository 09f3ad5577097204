"""Tags with the same meaning and different spellings."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from kbhub.editing.audit.material import front_lines, line_of
from kbhub.editing.audit.models import Fix
from kbhub.editing.checks import tag_form
from kbhub.index.links import front_matter_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kbhub.editing.audit.material import Material
    from kbhub.editing.audit.models import AuditFinding


def usual_tags(bases: Mapping[str, Material]) -> dict[str, str]:
    """Map each tag that is not in its most common spelling to that spelling.

    Args:
        bases: bases whose documents count.
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
    """Yield findings about tags of a base that are mostly spelt differently.

    Args:
        material: the base.
        usual: result of `usual_tags`.
    """
    rows = {path: row for path, row in material.written().items() if any(tag in usual for tag in row.tags)}
    if not rows:
        return
    index = material.hub.index(material.base)
    with index.snapshot():
        lines = {path: front_lines(text) for path, _, text in front_matter_of(index, "tag") if path in rows}
    for path, row in rows.items():
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
