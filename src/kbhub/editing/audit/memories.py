"""Memories whose subject changed or vanished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.memory.subjects import subjects_changed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kbhub.editing.audit.material import Material
    from kbhub.editing.audit.models import AuditFinding
    from kbhub.hub import Hub


def memory_findings(hub: Hub, bases: Mapping[str, Material]) -> Iterator[AuditFinding]:
    """Yield findings about memories whose document or code changed or vanished since.

    Args:
        hub: the hub.
        bases: the audited bases, by id.
    """
    by_ref = {material.ref(path): (material, path) for material in bases.values() for path in material.documents}
    for change in subjects_changed(hub):
        if change.ref not in by_ref:
            continue
        material, path = by_ref[change.ref]
        yield material.finding(
            "memories",
            "warning",
            path,
            f"What the memory {change.title!r} is about, {change.subject!r}, {_WHAT[change.state]}.",
            f"See whether it still holds: confirm it with `remember` and the id {change.id}, or `forget` it.",
        )


_WHAT = {"changed": "changed since", "vanished": "is gone"}
