"""Checks of documents by themselves: front matter, encoding, age, tags, refs, images, and links in or out."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.documents.markdown import images_of, inline_tags_of
from kbhub.documents.secrets import find_secrets
from kbhub.documents.sources.text_formats import parse_text
from kbhub.editing.audit.material import (
    AuditFinding,
    Fix,
    ListEntry,
    Material,
    Severity,
    front_lines,
    front_matter_entries,
    line_of,
)
from kbhub.editing.checks import tag_form
from kbhub.index.catalogue import bodies, front_matter_of, texts
from kbhub.index.engine import Index
from kbhub.index.references import (
    ENDED,
    STALE_DAYS,
    SUPERSEDED_KEYS,
    UNTIL_KEYS,
    age_days,
    outdated,
    settled,
    written_statuses,
)
from kbhub.memory.catalog import subjects_changed
from kbhub.reading.code_references import RefState, Sources
from kbhub.reading.faults import Faults
from kbhub.reading.graph import Edge, WrittenLink, graph_of
from kbhub.reading.links import folded, stem
from kbhub.workspace.formats import is_converted, is_markdown
from kbhub.workspace.project import PROJECT_ID

if TYPE_CHECKING:
    from kbhub.hub import Hub


_LINE = re.compile(r"\(line (\d+):")
_FRONT_MATTER = re.compile(r"Front matter .*", re.DOTALL)
_REPLACED = "\ufffd"


_WHAT = {"changed": "changed since", "vanished": "is gone"}

ENTRANCES = frozenset(
    ("_index", "changelog", "code_of_conduct", "contributing", "home", "index", "license", "overview", "readme")
)
"""Names, case-folded and without suffix, of documents that people find by name."""

MOST_REFS = 20_000
"""Limit of entries looked up in one audit; each may open a file."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

_SEVERITY: dict[RefState, Severity] = {
    "outside": "error",
    "missing": "error",
    "undefined": "error",
    "named": "warning",
    "unchecked": "info",
}

_REF_REMEDY: dict[RefState, str] = {
    "outside": "Name a file of the project by its path from the git root.",
    "missing": "Update the path, or remove the entry if the document is no longer about the file.",
    "undefined": "Update the symbol, and check whether the document still holds.",
    "named": "Update the file, and check whether the document still holds.",
    "unchecked": "Check whether it exists.",
}

_REPLACE = "Save it again in the program that wrote it, or exclude it with `.kbhubignore` or `exclude`."

_IMAGE_REMEDY = "Fix the path, add the file, or remove the image."


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
                "Fix it. Until then, its fields are ignored and it is indexed as text.",
                line=int(line[1]) if line else 1,
            )
        if rest := (row.problem[: front.start()] if front else row.problem).strip():
            damaged.append((path, rest))
    index = material.hub.index(material.base)
    with index.snapshot():
        first = {path: _line_with(text) for path, text in texts(index, [path for path, _ in damaged])}
    for path, problem in damaged:
        remedy = _REPLACE if is_converted(material.documents[path].kind) else "Save the file as UTF-8."
        yield material.finding("encoding", "error", path, problem, remedy, line=first.get(path))


def file_findings(material: Material) -> Iterator[AuditFinding]:
    """Yield findings about files that should be indexed, but are not."""
    for path, message in material.unindexed:
        yield material.finding(
            "files",
            "warning",
            path,
            f"It is not indexed: {message.removeprefix(f'{path}: ')}",
            "Fix it, or exclude it with `.kbhubignore` or `exclude`.",
        )


def title_findings(material: Material) -> Iterator[AuditFinding]:
    """Yield findings about documents that have no title, so that their file name is used, or no text."""
    untitled = [
        path
        for path, row in material.written().items()
        if not material.contents[path].titled and row.title == parse_text(path, b"").title
    ]
    index = material.hub.index(material.base)
    with index.snapshot():
        empty = {path for path, text in bodies(index, untitled) if not text.strip()}
        headed = {path for path, text in texts(index, untitled) if _has_heading(path, text)}
    for path in untitled:
        if path in empty:
            yield material.finding("titles", "warning", path, "The document is empty.", "Write it, or delete it.")
        elif path not in headed:
            yield material.finding(
                "titles",
                "warning",
                path,
                "No title: neither a heading nor `title` in front matter.",
                "Start it with a heading `# …`." if is_markdown(path) else "Start it with a heading.",
            )


def _has_heading(path: str, text: str) -> bool:
    return any(heading.text for heading in parse_text(path, text.encode("utf-8", "replace")).headings)


def _line_with(text: str) -> int | None:
    before, mark, _ = text.partition(_REPLACED)
    return before.count("\n") + 1 if mark else None


def secret_findings(material: Material, searched: Callable[[], object]) -> Iterator[AuditFinding]:
    """Yield a finding for each credential; none shows more than its first characters.

    `searched` is called after each document, since no check takes longer.
    """
    index = material.hub.index(material.base)
    with index.snapshot():
        for path, text in texts(index, tuple(material.written())):
            for secret in find_secrets(text):
                yield material.finding(
                    "secrets",
                    "error",
                    path,
                    f"It looks like it contains a credential: {secret.kind}, {secret.shown(text)}",
                    "Revoke the credential, because whoever could read the file may have it. Then remove it, "
                    "from git's history too.",
                    line=secret.line(text),
                )
            searched()


def stale_findings(material: Material) -> Iterator[AuditFinding]:
    """Yield a finding for each stale document, for its most severe reason."""
    now = material.hub.options.clock()
    written = material.written()
    index = material.hub.index(material.base)
    with index.snapshot():
        statuses = written_statuses(index, documents := tuple(written.values()))
        reasons = outdated(index, documents, now, statuses)
        decided = settled(index, documents, statuses)
        stale = [path for path, row in written.items() if row.id in reasons]
        fronts = {path: front_lines(text) for path, text in texts(index, stale)}
    for path, row in written.items():
        why, age = reasons.get(row.id), age_days(row, now)
        if why is not None and why.casefold().startswith(ENDED):
            line = _line(fronts.get(path, []), (*SUPERSEDED_KEYS, "status"))
            remedy = "Link to the replacement, or delete the document if nobody needs its history."
            yield material.finding("stale", "info", path, f"It says: {why}.", remedy, line=line)
        elif why is not None:
            remedy = "Check whether it still holds, then fix it and update the date."
            yield material.finding(
                "stale",
                "warning",
                path,
                f"Its date has passed: {why}.",
                remedy,
                line=_line(fronts.get(path, []), UNTIL_KEYS),
            )
        elif age > STALE_DAYS and row.id not in decided:
            remedy = "Check whether it still holds, and set `updated` in front matter to the date of the check."
            yield material.finding("stale", "info", path, f"Not changed for {age} days.", remedy)


def _line(lines: list[str], keys: tuple[str, ...]) -> int | None:
    """Return the line of front matter with the first of some keys."""
    return next(
        (
            number
            for number, line in enumerate(lines, 1)
            if line.partition(":")[0].strip().strip("\"'").casefold() in keys
        ),
        None,
    )


def memory_findings(hub: Hub, bases: Mapping[str, Material]) -> Iterator[AuditFinding]:
    """Yield findings about memories whose document or code changed or vanished since."""
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
            f"Check whether it still holds: confirm it with `remember` and the id {change.id}, or `forget` it.",
        )


def orphan_findings(material: Material, bases: Mapping[str, Material]) -> Iterator[AuditFinding]:
    """Yield findings about documents without links (including `related`) in or out, and without tags.

    `bases` holds all active bases.
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
                "No links to or from this document, and no tags.",
                "Link it from where it belongs, or add tags.",
            )


def usual_tags(bases: Mapping[str, Material]) -> dict[str, str]:
    """Map each tag that is not in its most common spelling to that spelling."""
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
    """Yield findings about tags of a base that are mostly spelt differently, according to `usual_tags`."""
    rows = {path: row for path, row in material.written().items() if any(tag in usual for tag in row.tags)}
    if not rows:
        return
    index = material.hub.index(material.base)
    with index.snapshot():
        lines = {path: front_lines(text) for path, _, text in front_matter_of(index, "tag") if path in rows}
        inline = _inline_lines(index, list(rows)) if material.base.inline_tags else {}
    for path, row in rows.items():
        for tag in row.tags:
            if tag in usual:
                yield material.finding(
                    "tags",
                    "warning",
                    path,
                    f"The tag {tag!r} is mostly written {usual[tag]!r}.",
                    f"Write {usual[tag]!r}.",
                    line=line_of(lines.get(path, []), tag) or inline.get((path, tag)),
                    fix=Fix(what="tag", before=tag, after=usual[tag]),
                )


def _inline_lines(index: Index, paths: Sequence[str]) -> dict[tuple[str, str], int]:
    """Return the first line of each tag in the text of documents, by path and tag."""
    lines: dict[tuple[str, str], int] = {}
    for path, text in texts(index, paths):
        for one in inline_tags_of(text):
            lines.setdefault((path, one.tag), one.line)
    return lines


def project_root(material: Material) -> Path | None:
    """Return the git root that the refs of a base are relative to, or None if it belongs to no project."""
    root = material.hub.discovery().workspace.git_root
    base = material.base
    return root if root and (base.id == PROJECT_ID or base.path.is_relative_to(root)) else None


def ref_findings(materials: Sequence[Material]) -> tuple[list[AuditFinding], list[str]]:
    """Look up the refs of bases; return the findings, and notes on what was not looked up."""
    findings: list[AuditFinding] = []
    notes: list[str] = []
    left = MOST_REFS
    for material in materials:
        entries = [entry for entry in front_matter_entries(material, "refs") if not _URL.match(entry.text)]
        root = project_root(material)
        if root is None and entries:
            what = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
            notes.append(f"{material.base.id}: {what} of `refs` not checked, because the base belongs to no project.")
        elif root is not None:
            # Sorted by file, so that each file is read once.
            entries.sort(key=lambda entry: (entry.text, entry.path))
            if len(entries) > left:
                notes.append(
                    f"{material.base.id}: {len(entries) - left} entries of `refs` not checked, because there are "
                    "too many."
                )
            findings += _broken(material, Sources(root), entries[:left])
            left = max(0, left - len(entries))
    return findings, notes


def _broken(material: Material, sources: Sources, entries: Sequence[ListEntry]) -> Iterator[AuditFinding]:
    for entry in entries:
        fault = sources.fault(entry.text)
        if fault is not None:
            near = f"Did you mean {fault.near!r}? " if fault.near else ""
            yield material.finding(
                "refs",
                _SEVERITY[fault.state],
                entry.path,
                f"`refs` names {entry.text!r}, but {fault.reason}.",
                near + _REF_REMEDY[fault.state],
                line=entry.line,
            )


def image_findings(material: Material) -> Iterator[AuditFinding]:
    """Yield findings about images of a base whose file does not exist."""
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
                    yield material.finding("links", "error", path, message, _IMAGE_REMEDY, line=image.line)
