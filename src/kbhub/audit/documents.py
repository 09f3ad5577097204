"""What is wrong with documents by themselves: front matter, bytes, titles; and files that no index has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kbhub.index.auditing import bodies, texts
from kbhub.markdown import parse_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.audit.material import Material
    from kbhub.audit.models import AuditFinding

_LINE = re.compile(r"\(line (\d+):")
_FRONT_MATTER = re.compile(r"Front matter .*", re.DOTALL)
_REPLACED = "\ufffd"


def problem_findings(material: Material) -> Iterator[AuditFinding]:
    """Find documents of which something could not be read as it should be."""
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
    """Find files that are not in the index although their names ask for it."""
    for path, message in material.unindexed:
        yield material.finding(
            "files",
            "warning",
            path,
            f"It is not indexed: {message.removeprefix(f'{path}: ')}",
            "Mend it, or leave it out with `.kbhubignore` or `exclude`.",
        )


def title_findings(material: Material) -> Iterator[AuditFinding]:
    """Find documents whose title is that of their file, for they have none, and those without any text."""
    wanted = [
        path
        for path, row in material.written().items()
        if not material.contents[path].titled and row.title == parse_document(path, b"").title
    ]
    index = material.hub.index(material.base)
    with index.snapshot():
        empty = {path for path, text in bodies(index, wanted) if not text.strip()}
        headed = {path for path, text in texts(index, wanted) if _has_heading(path, text)}
    for path in wanted:
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
