"""Links and entries of `related` that lead to nothing, to a heading that is not there, or somewhere only by luck."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from typing import TYPE_CHECKING
from urllib.parse import unquote

from kbhub.audit.headings import Anchors, takes_fragments
from kbhub.audit.models import AuditFinding, Fix
from kbhub.document_names import MARKDOWN_SUFFIXES
from kbhub.editing.incoming import plain_entry
from kbhub.editing.relinking import spelling
from kbhub.graph import PathTable
from kbhub.graph.resolving import PATH_KINDS, folded, stem
from kbhub.index.auditing import texts
from kbhub.nearest import Nearest
from kbhub.references import ref_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kbhub.audit.material import Material
    from kbhub.audit.models import Severity
    from kbhub.graph import ResolvedLink

NEAR_NAME = 0.75
"""Similarity (0 to 1, difflib's ratio) of file names from which a document is suggested for a broken link."""

SHOWN = 5
"""Documents that a finding about an ambiguous link names."""

_REMEDY = "Mend the link, write the document, or take the link out."


def link_findings(material: Material, bases: Mapping[str, Material]) -> Iterator[AuditFinding]:
    """Find what is wrong with the links of a base.

    Args:
        material: the base.
        bases: all active bases, by id.
    """
    targets = _Targets(material)
    missing = _missing_headings(material, bases)
    for link in material.links:
        if material.documents[link.path].kind not in ("document", "memory"):
            continue
        if link.status == "broken":
            yield _broken(material, link, targets)
        elif link.status == "document" and link.goal is not None:
            if id(link) in missing:
                yield _without_heading(material, link, missing[id(link)])
            if link.others:
                yield _ambiguous(material, link)
            elif link.by != "itself" and link.goal[0] == material.base.id and "@" not in link.target:
                yield from _misspelt(material, link, link.goal[1], targets)


def unchecked_links(material: Material) -> str:
    """Say how many links lead to where nobody looks; empty if none do."""
    count = sum(link.status == "outside" for link in material.links)
    what = "1 link leads" if count == 1 else f"{count} links lead"
    return f"{material.base.id}: {what} out of every base and the project; not checked." if count else ""


class _Targets:
    """What the links of a base can be meant to lead to."""

    def __init__(self, material: Material) -> None:
        paths = material.documents
        self.table = PathTable(paths)
        self._folded: dict[str, int] = defaultdict(int)
        self._by_stem: dict[str, list[str]] = defaultdict(list)
        for path in paths:
            self._folded[folded(stem(path))] += 1
            self._by_stem[folded(stem(path)).rpartition("/")[2]].append(path)
        self._nearest = Nearest(self._by_stem)

    def is_alone(self, path: str) -> bool:
        """Say whether no other document differs from one by case or ending alone."""
        return self._folded[folded(stem(path))] == 1

    def near(self, target: str) -> str:
        """Give the path that was probably meant; empty if none is near enough."""
        wanted = folded(stem(target.strip("/").rpartition("@")[2]))
        name = self._nearest.closest(wanted.rpartition("/")[2], NEAR_NAME)
        parts = set(wanted.split("/"))
        return max(
            self._by_stem.get(name, ()),
            key=lambda path: (len(parts & set(folded(path).split("/"))), -len(path)),
            default="",
        )

    def corrected(self, link: ResolvedLink) -> str:
        """Give the document that a broken link leads to if it is decoded again, or one ending is taken off."""
        found = set()
        for form in _forms(link.target):
            resolution = self.table.resolve(link.path, form, link.kind)
            if resolution is not None and resolution.by == "path" and not resolution.others:
                found.add(resolution.path)
        only = found.pop() if len(found) == 1 else ""
        return only if only and self.is_alone(only) else ""


def _forms(target: str) -> Iterator[str]:
    if "%" in target and (decoded := unquote(target)) != target:
        yield decoded
    low = target.lower()
    for suffix in MARKDOWN_SUFFIXES:
        bare = target[: -len(suffix)]
        if low.endswith(suffix) and bare.lower().endswith(tuple(MARKDOWN_SUFFIXES)):
            yield bare


def _broken(material: Material, link: ResolvedLink, targets: _Targets) -> AuditFinding:
    related = link.kind == "related"
    meant = targets.corrected(link)
    fix = _fix(link, meant) if meant else None
    near = meant or targets.near(link.target)
    if related:
        message = f"`related` names {link.target!r}: {link.why}."
        remedy = "Name a document, or take the entry out."
    else:
        message = f"The link to {link.target!r} is broken: {link.why}."
        remedy = _REMEDY
    if near:
        remedy = f"Did you mean {material.ref(near)!r}? {remedy}"
    return material.finding(
        "related" if related else "links",
        "error",
        link.path,
        message,
        f"Write {fix.after!r}." if fix else remedy,
        line=link.line,
        others=(material.ref(near),) if near else (),
        fix=fix,
    )


def _ambiguous(material: Material, link: ResolvedLink) -> AuditFinding:
    bases = material.hub.discovery().bases
    by_id = {base.id: base for base in bases}
    assert link.goal is not None
    taken, *others = (ref_of(by_id[name], path, bases) for name, path in (link.goal, *link.others))
    shown = ", ".join(repr(one) for one in others[:SHOWN]) + (", …" if len(others) > SHOWN else "")
    return material.finding(
        "ambiguous",
        "info",
        link.path,
        f"{link.target!r} is taken for {taken!r}, and could mean {shown}.",
        "Write the path of the one that is meant.",
        line=link.line,
        others=tuple(others[:SHOWN]),
    )


def _misspelt(material: Material, link: ResolvedLink, goal: str, targets: _Targets) -> Iterator[AuditFinding]:
    """Find links that lead to their document here, and in other programs may not."""
    if link.kind in PATH_KINDS:
        severity, fault = _path_fault(link, goal)
    elif link.kind == "related":
        severity, fault = "info", _entry_fault(link, goal)
    else:
        return  # names in double brackets are found in any case, without folder and ending
    if not fault:
        return
    fix = _fix(link, goal) if link.by == "path" and fault is not _ELSEWHERE and targets.is_alone(goal) else None
    better = fix.after if fix else spelling(_with_ending(link, goal), link.kind, link.path, goal)[-1]
    yield material.finding(
        "spelling",
        severity,
        link.path,
        f"The link to {link.target!r} is found as {goal!r}, but {fault}.",
        f"Write {better!r}.",
        line=link.line,
        others=(material.ref(goal),),
        fix=fix,
    )


_ELSEWHERE = "it leads there by name or from the base's folder alone, so GitHub and editors find nothing"


def _entry_fault(link: ResolvedLink, goal: str) -> str:
    """Say how an entry of `related` is not the path of its document, from the base or from the entry's document."""
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(link.path), link.target))
    exact = {link.target.removeprefix("./").strip("/"), beside} & {goal, stem(goal)}
    return "" if exact or link.by != "path" else "its letters are of other case"


def _path_fault(link: ResolvedLink, goal: str) -> tuple[Severity, str]:
    """Say how a path is not the one of its document, and how grave that is."""
    start = "" if link.target.startswith("/") else posixpath.dirname(link.path)
    place = posixpath.normpath(posixpath.join(start, link.target.lstrip("/")))
    folder = posixpath.dirname(goal) or "."
    if place in (goal, folder):
        return "info", ""
    if folded(place) in (folded(goal), folded(folder)):
        return "warning", "its letters are of other case, which matters on most servers"
    if place == stem(goal):
        return "info", "its ending is missing, so GitHub and editors find nothing"
    if folded(place) == folded(stem(goal)):
        return "warning", "its letters are of other case, and its ending is missing"
    return "info", _ELSEWHERE


def _fix(link: ResolvedLink, goal: str) -> Fix | None:
    """Give the change of a link's target that leads exactly to a document; none if there is no plain one."""
    for after in spelling(_with_ending(link, goal), link.kind, link.path, goal):
        readable = link.kind != "related" or plain_entry(after) == after
        if after != link.target and readable:
            return Fix(
                what="related" if link.kind == "related" else "link", kind=link.kind, before=link.target, after=after
            )
    return None


def _with_ending(link: ResolvedLink, goal: str) -> str:
    """Give a target after whose form the new one is written: paths get their ending, names keep what they have."""
    target = link.target
    return target if _has_ending(target) or link.kind not in PATH_KINDS else f"{target}{goal[len(stem(goal)) :]}"


def _has_ending(target: str) -> bool:
    return target.lower().endswith(tuple(MARKDOWN_SUFFIXES))


def _missing_headings(material: Material, bases: Mapping[str, Material]) -> dict[int, str]:
    """Give identity of a link whose heading is not in its document → the heading that was probably meant."""
    wanted: dict[str, dict[str, list[ResolvedLink]]] = defaultdict(lambda: defaultdict(list))
    for link in material.links:
        if link.fragment and link.status == "document" and link.goal and takes_fragments(link.goal[1]):
            wanted[link.goal[0]][link.goal[1]].append(link)
    found: dict[int, str] = {}
    for name, by_path in wanted.items():
        if name in bases:
            found.update(_headings_not_in(bases[name], by_path))
    return found


def _headings_not_in(material: Material, by_path: Mapping[str, Sequence[ResolvedLink]]) -> dict[int, str]:
    index = material.hub.index(material.base)
    found: dict[int, str] = {}
    with index.snapshot():
        for path, text in texts(index, list(by_path)):
            anchors = Anchors(path, text)
            found.update(
                {id(link): anchors.near(link.fragment) for link in by_path[path] if not anchors.has(link.fragment)}
            )
    return found


def _without_heading(material: Material, link: ResolvedLink, near: str) -> AuditFinding:
    assert link.goal is not None
    bases = material.hub.discovery().bases
    goal = ref_of(next(base for base in bases if base.id == link.goal[0]), link.goal[1], bases)
    where = "This document" if link.goal == (material.base.id, link.path) else repr(goal)
    what = "block" if link.fragment.startswith("^") else "heading"
    return material.finding(
        "headings",
        "warning",
        link.path,
        f"{where} has no {what} {link.fragment!r}, which the link {link.text or link.target!r} names.",
        f"Did you mean {near!r}? Name that, or another."
        if near
        else "Name a heading that is there, or only the document.",
        line=link.line,
        others=(goal,),
    )
