"""Images without a file. The link graph only contains links between documents, so images are checked here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.documents.markdown import images_of
from kbhub.index.auditing import texts
from kbhub.reading.graph.building import Edge, WrittenLink, graph_of
from kbhub.reading.graph.faults import Faults
from kbhub.workspace.formats import is_markdown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.editing.audit.material import Material
    from kbhub.editing.audit.models import AuditFinding

_REMEDY = "Mend the path, put the file there, or take the image out."


def image_findings(material: Material) -> Iterator[AuditFinding]:
    """Yield findings about images of a base whose file does not exist.

    Args:
        material: the base.
    """
    name, graph = material.base.id, graph_of(material.hub)
    paths = [
        path for path, row in material.documents.items() if row.kind in ("document", "memory") and is_markdown(path)
    ]
    if name not in graph.bases:
        return
    faults, index = Faults(graph), material.hub.index(material.base)
    with index.snapshot():
        for path, text in texts(index, paths):
            for image in images_of(text):
                # As an embed, since Obsidian leaves out the folder of an image.
                link = WrittenLink(path, image.target, image.fragment, image.text, image.line, "embed")
                status, why = faults.verdict(Edge((name, path), link, None))
                if image.target and status == "broken":
                    message = f"The image {image.target!r} is broken: {why}."
                    yield material.finding("links", "error", path, message, _REMEDY, line=image.line)
