"""Images that lead to no file. They join no documents, so the link graph has none of them: they are looked for here."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kbhub.document_names import MARKDOWN_SUFFIXES
from kbhub.graph.building import Edge, WrittenLink, graph_of
from kbhub.graph.faults import Faults
from kbhub.index.auditing import texts
from kbhub.markdown import images_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.audit.material import Material
    from kbhub.audit.models import AuditFinding

_REMEDY = "Mend the path, put the file there, or take the image out."


def image_findings(material: Material) -> Iterator[AuditFinding]:
    """Find the images of a base whose file is not there.

    Args:
        material: the base.
    """
    name, graph = material.base.id, graph_of(material.hub)
    paths = [
        path
        for path, row in material.documents.items()
        if row.kind in ("document", "memory") and PurePosixPath(path).suffix.lower() in MARKDOWN_SUFFIXES
    ]
    if name not in graph.bases:
        return
    faults, index = Faults(graph), material.hub.index(material.base)
    with index.snapshot():
        for path, text in texts(index, paths):
            for one in images_of(text):
                # As an embed, it may be named without its folder, as Obsidian writes it.
                link = WrittenLink(path, one.target, one.fragment, one.text, one.line, "embed")
                status, why = faults.verdict(Edge((name, path), link, None))
                if one.target and status == "broken":
                    message = f"The image {one.target!r} is broken: {why}."
                    yield material.finding("links", "error", path, message, _REMEDY, line=one.line)
