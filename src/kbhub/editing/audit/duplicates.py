"""Documents with the same content or nearly the same text, within and across bases."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kbhub.index.catalogue import bodies

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kbhub.editing.audit.material import AuditFinding, Material

NEARLY = 0.9
"""Share of common word shingles from which two documents count as nearly the same."""

_REMEDY = "Keep one of them: merge the differences, and update the links to the other."


def duplicate_findings(materials: Sequence[Material]) -> tuple[list[AuditFinding], list[str]]:
    """Return a finding for each document that resembles an earlier one, and notes on what was not compared.

    The order of the bases matters: of two equal documents, the first is the one to keep.
    """
    findings: list[AuditFinding] = []
    first: dict[bytes, tuple[Material, str]] = {}
    distinct: list[tuple[Material, str]] = []
    seen: set[str] = set()
    for material in materials:
        for path in material.written():
            real = os.path.join(material.base.path, path)  # noqa: PTH118 - thousands of them
            row = material.contents[path]
            if real in seen:  # one base is inside the other
                continue
            seen.add(real)
            if row.hash not in first:
                first[row.hash] = material, path
                distinct.append((material, path))
            elif material.documents[path].size:
                findings.append(_finding(material, path, *first[row.hash], likeness=None))
    # numpy takes 0.1 s to load, and no other check needs it.
    from kbhub.editing.audit.near_duplicates import alike  # noqa: PLC0415

    pairs, complete = alike(_texts(distinct), NEARLY)
    findings += [_finding(*distinct[pair.other], *distinct[pair.one], likeness=pair.likeness) for pair in pairs]
    notes = [] if complete else ["Too many documents are similar to each other; not all of them were compared."]
    return findings, notes


def _texts(documents: Sequence[tuple[Material, str]]) -> Iterator[str]:
    """Yield the text of documents, base by base, without front matter."""
    start = 0
    while start < len(documents):
        material = documents[start][0]
        end = next((at for at in range(start, len(documents)) if documents[at][0] is not material), len(documents))
        index = material.hub.index(material.base)
        with index.snapshot():
            yield from (text for _, text in bodies(index, [path for _, path in documents[start:end]]))
        start = end


def _finding(
    material: Material, path: str, other: Material, other_path: str, *, likeness: float | None
) -> AuditFinding:
    ref = other.ref(other_path)
    how = "The content is the same as in" if likeness is None else f"The text is {likeness:.0%} the same as in"
    return material.finding("duplicates", "warning", path, f"{how} {ref!r}.", _REMEDY, others=(ref,))
