"""Checks of single documents (front matter, encoding, title), and of files that could not be indexed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kbhub.documents.markdown import parse_document
from kbhub.index.auditing import bodies, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.editing.audit.material import Material
    from kbhub.editing.audit.models import AuditFinding

_LINE = re.compile(r"\(line (\d+):")
_FRONT_MATTER = re.compile(r"Front matter .*", re.DOTALL)
_REPLACED = "\ufffd"


def problem_findings(material: Material) -> Iterator[AuditFinding]:
    """Yield findings about documents that could not be read properly."""
    damaged = []
    for path, row in material.contents.items():
        front = _FRONT_MATTER.search(row.problem)
        if front:
            line = _LINE.search(front[0])
            yield material.finding(
                "front-matter",
                "error",
                path,
                front[0].partition(", so it is")[0] + ".",
                "Mend it: until then its fields do not count, and it is indexed as text.",
                line=int(line[1]) if line else 1,
            )
        if rest := (row.problem[: front.start()] if front else row.problem).strip():
            damaged.append((path, rest))
    index = material.hub.index(material.base)
    with index.snapshot():
        first = {path: _line_with(text) for path, text in texts(index, [path for path, _ in damaged])}
    for path, problem in damaged:
        yield material.finding("encoding", "error", path, problem, "Save the file as UTF-8.", line=first.get(path))


def file_findings(material: Material) -> Iterator[AuditFinding]:
    """Yield findings about files that should be indexed, but are not."""
    for path, message in material.unindexed:
        yield material.finding(
            "files",
            "warning",
            path,
            f"It is not indexed: {message.removeprefix(f'{path}: ')}",
            "Mend it, or leave it out with `.kbhubignore` or `exclude`.",
        )


def title_findings(material: Material) -> Iterator[AuditFinding]:
    """Yield findings about documents that have no title, so that their file name is used, or no text."""
    untitled = [
        path
        for path, row in material.written().items()
        if not material.contents[path].titled and row.title == parse_document(path, b"").title
    ]
    index = material.hub.index(material.base)
    with index.snapshot():
        empty = {path for path, text in bodies(index, untitled) if not text.strip()}
        headed = {path for path, text in texts(index, untitled) if _has_heading(path, text)}
    for path in untitled:
        if path in empty:
            yield material.finding("titles", "warning", path, "It has no text.", "Write it, or delete it.")
        elif path not in headed:
            yield material.finding(
                "titles",
                "warning",
                path,
                "It has no title: no heading, and no `title` in front matter.",
                "Begin it with a heading `# …`.",
            )


def _has_heading(path: str, text: str) -> bool:
    return any(heading.text for heading in parse_document(path, text.encode("utf-8", "replace")).headings)


def _line_with(text: str) -> int | None:
    before, mark, _ = text.partition(_REPLACED)
    return before.count("\n") + 1 if mark else None
