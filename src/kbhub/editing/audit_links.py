"""Checks of links and `related` entries: broken ones, missing headings, ambiguous or fragile targets."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Literal

from kbhub.documents.markdown import images_of, parse_document
from kbhub.documents.shown_text import GENERATING
from kbhub.editing.checks import plain_entry
from kbhub.editing.findings import AuditRun, Fix, Found, Material, Severity, check
from kbhub.editing.renames import spelling
from kbhub.index.catalogue import texts
from kbhub.index.references import ref_of
from kbhub.reading.graph import Edge, Faults, Node, ResolvedLink, WrittenLink, graph_of
from kbhub.reading.links import PAGE, PATH_KINDS, Nearest, PathTable, folded, site_settings, squashed, stem
from kbhub.workspace.formats import is_markdown

NEAR_ENOUGH = 0.7
"""Minimum similarity (0 to 1, difflib's ratio) of a heading that is suggested in place of a missing one."""

_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])")
_WIKILINK = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]]*)\]\]")
_ELEMENT = re.compile(r"<[^<>]*>")
_ID = re.compile(r"""\b(?:id|name)\s*=\s*(?:"([^"]+)"|'([^']+)'|([^\s"'<>]+))""", re.IGNORECASE)
_BRACES = re.compile(r"\{[^{}\n]*#([^\s{}]+)[^{}\n]*\}")
_MDX_ID = re.compile(r"\{/\*\s*([^\s{}*]+)\s*\*/\}[ \t]*$", re.MULTILINE)
_HTML_HEADING = re.compile(r"<h[1-6]\b[^<>]*>(.{1,500}?)</h[1-6]>", re.IGNORECASE | re.DOTALL)
_QUOTED_HEADING = re.compile(r"^(?:> ?)++#{1,6} ++(.{1,500})$", re.MULTILINE)
_BLOCK = re.compile(r"(?:^|\s)\^([A-Za-z0-9-]+)\s*$")
_NUMBERED = re.compile(r"(.+?)[-_](\d+)")
_LEADING_NUMBER = re.compile(r"^[\d.\s)]+")
_OTHER_MEANING = re.compile(r"L\d+(?:-L?\d+)?|:~:text=.*|page=\d+.*|fn(?:ref)?:.*|top", re.DOTALL)
"""Fragments other than headings: lines of a file, a text to highlight, a page, a footnote, the top."""

COPY = re.compile(r"sources/.*\.markdown$")
"""The copy of a page from elsewhere, made by `kbhub doc ingest`, whose links lead to what was around it there."""

NEAR_NAME = 0.75
"""Minimum similarity (0 to 1, difflib's ratio) of a file name that is suggested for a broken link."""

SHOWN = 5
_REMEDY = "Fix the link, write the document, or remove the link."

_BARE = "its suffix is missing, so it is broken on GitHub and in editors"
_PAGE = "it is that of a page of a site, so it is broken on GitHub and in editors"
_ELSEWHERE = "it resolves only by name or from the base's folder, so it is broken on GitHub and in editors"


class Anchors:
    """The anchors of a document, given its path and full text.

    Programs derive anchors from headings differently (case, spaces, punctuation), so only letters and digits count.
    """

    def __init__(self, path: str, text: str) -> None:
        self._document = parse_document(path, text.encode("utf-8", "replace"))
        self._headings: Counter[str] = Counter()
        others = (*_HTML_HEADING.findall(text), *_QUOTED_HEADING.findall(text))
        for heading in (*(heading.text for heading in self._document.headings), *others):
            shown = _ELEMENT.sub("", _LINK.sub(r"\1", _WIKILINK.sub(r"\1", heading)))
            forms = {squashed(heading), squashed(shown), squashed(_LEADING_NUMBER.sub("", shown))}
            self._headings.update(filter(None, forms))
        ids = (next(group for group in match.groups() if group) for match in _ID.finditer(text))
        self._named = {*ids, *_BRACES.findall(text), *_MDX_ID.findall(text)}
        self._generates = GENERATING.search(text) is not None
        self._blocks = {match[1] for line in self._document.lines if (match := _BLOCK.search(line))}

    def has(self, fragment: str) -> bool:
        """Return whether a fragment, decoded and without `#`, names an anchor; `Heading#Part` names a subsection."""
        if fragment.startswith("^"):
            return fragment[1:] in self._blocks
        name = fragment.rpartition("#")[2].strip()
        key = squashed(name)
        if not key or _OTHER_MEANING.fullmatch(name) or key in self._headings or name in self._named:
            return True
        if key in map(squashed, self._named) or self._generates:
            return True
        repeated = _NUMBERED.fullmatch(name)
        return repeated is not None and self._headings[squashed(repeated[1])] > int(repeated[2][:3])

    def near(self, fragment: str) -> str:
        """Return the heading that was probably meant, or ""."""
        key = squashed(fragment.rpartition("#")[2])
        headings = {squashed(heading.text): heading.text for heading in reversed(self._document.headings)}
        matches = difflib.get_close_matches(key, list(filter(None, headings)), n=1, cutoff=NEAR_ENOUGH)
        return headings[matches[0]] if matches else ""


@check("links", "related", "headings", "ambiguous", "spelling", severity="info")
def links(run: AuditRun, material: Material) -> Iterator[Found]:
    """Find links and images that are broken, or may be."""
    targets = _Targets(material)
    missing = _missing_headings(material, run.bases)
    for link in material.links:
        if material.documents[link.path].kind not in ("document", "memory") or COPY.match(link.path):
            continue
        if link.status == "broken":
            yield _broken(material, link, targets)
        elif link.status == "document" and link.goal is not None:
            if id(link) in missing:
                yield _without_heading(material, link, missing[id(link)])
            if link.others:
                yield _ambiguous(material, link)
            elif link.by not in ("itself", "site") and link.goal[0] == material.base.id and "@" not in link.target:
                yield from _misspelt(material, link, link.goal[1], targets)
    if count := sum(link.status == "outside" for link in material.links):
        what = "1 link leads" if count == 1 else f"{count} links lead"
        run.notes.append(f"{material.base.id}: {what} out of every base and the project; not checked.")
    if "links" in run.selected:
        yield from _broken_images(material)


def _broken_images(material: Material) -> Iterator[Found]:
    name, graph = material.base.id, graph_of(material.hub)
    paths = [
        path
        for path, row in material.documents.items()
        if row.kind in ("document", "memory") and is_markdown(path) and not COPY.match(path)
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
                    remedy = "Fix the path, add the file, or remove the image."
                    yield Found(material, path, message, remedy, image.line, severity="error", check="links")


class _Targets:
    """The documents of a base that its links may be meant to lead to."""

    def __init__(self, material: Material) -> None:
        paths = material.documents
        named = Counter(
            is_markdown(link.target)
            for link in material.links
            if link.kind in PATH_KINDS and link.target and link.goal and is_markdown(link.goal[1])
        )
        self.on_site = site_settings(material.base) is not None or named[False] > named[True]
        """Whether the addresses of pages have no suffix, or `.html`."""
        self.table = PathTable(paths)
        self._nearest = Nearest(folded(stem(path)).rpartition("/")[2] for path in paths)

    def is_alone(self, path: str) -> bool:
        """Return whether no other document has the same path apart from case and suffix."""
        return sum(folded(stem(other)) == folded(stem(path)) for other in self.table.ending_in(path)) == 1

    def near(self, target: str) -> str:
        """Return the path that was probably meant, or ""."""
        query = folded(stem(target.strip("/").rpartition("@")[2]))
        name = self._nearest.closest(query.rpartition("/")[2], NEAR_NAME)
        parts = set(query.split("/"))
        paths = self.table.ending_in(name) if name else ()
        return max(paths, key=lambda path: (len(parts & set(folded(path).split("/"))), -len(path)), default="")


def _broken(material: Material, link: ResolvedLink, targets: _Targets) -> Found:
    near = targets.near(link.target)
    others = (material.ref(near),) if near else ()
    if link.kind == "related":
        name, message = "related", f"`related` names {link.target!r}: {link.why}."
        remedy = "Name an existing document, or remove the entry."
    else:
        name, message, remedy = "links", f"The link to {link.target!r} is broken: {link.why}.", _REMEDY
    if others:
        remedy = f"Did you mean {others[0]!r}? {remedy}"
    return Found(material, link.path, message, remedy, link.line, others, severity="error", check=name)


def _ambiguous(material: Material, link: ResolvedLink) -> Found:
    assert link.goal is not None
    taken, *others = (_ref(material, goal) for goal in (link.goal, *link.others))
    shown = ", ".join(map(repr, others[:SHOWN])) + (", …" if len(others) > SHOWN else "")
    message = f"{link.target!r} resolves to {taken!r}, but could also mean {shown}."
    remedy = "Write the path of the document you mean."
    return Found(material, link.path, message, remedy, link.line, tuple(others[:SHOWN]), check="ambiguous")


def _misspelt(material: Material, link: ResolvedLink, goal: str, targets: _Targets) -> Iterator[Found]:
    """Yield a finding for a link that works here, but may not in other programs."""
    if link.kind in PATH_KINDS:
        severity, fault = _path_fault(link, goal)
    elif link.kind == "related":
        # Its path is seen from the base or from its source.
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(link.path), link.target))
        exact = {link.target.removeprefix("./").strip("/"), beside} & {goal, stem(goal)}
        severity, fault = "info", "" if exact or link.by != "path" else "its case differs"
    else:
        return  # wikilinks ignore case, folder and suffix
    if not fault or (targets.on_site and fault in (_BARE, _PAGE)):
        return
    certain = link.by == "path" and fault not in (_PAGE, _ELSEWHERE) and targets.is_alone(goal)
    fix = _fix(link, goal) if certain else None
    better = fix.after if fix else spelling(_with_ending(link, goal), link.kind, link.path, goal)[-1]
    leads = "works here" if link.target.lstrip("./") == goal else f"resolves to {goal!r}"
    message = f"The link to {link.target!r} {leads}, but {fault}."
    others = (material.ref(goal),)
    yield Found(material, link.path, message, f"Change it to {better!r}.", link.line, others, fix, severity, "spelling")


def _path_fault(link: ResolvedLink, goal: str) -> tuple[Severity, str]:
    """Return how a path differs from its document's, and how severe that is."""
    start = "" if link.target.startswith("/") else posixpath.dirname(link.path)
    place = posixpath.normpath(posixpath.join(start, link.target.lstrip("/")))
    folder = posixpath.dirname(goal) or "."
    if place in (goal, folder):
        return "info", ""
    if folded(place) in (folded(goal), folded(folder)):
        return "warning", "its case differs, which matters on most servers"
    if place.removesuffix(PAGE) == stem(goal):
        return "info", _BARE if place == stem(goal) else _PAGE
    if folded(place) == folded(stem(goal)):
        return "warning", "its case differs, and its suffix is missing"
    return "info", _ELSEWHERE


def _fix(link: ResolvedLink, goal: str) -> Fix | None:
    """Return the fix that makes a link of Markdown exact, or None if there is no plain spelling."""
    if not is_markdown(link.path):
        return None
    for after in spelling(_with_ending(link, goal), link.kind, link.path, goal):
        readable = link.kind != "related" or plain_entry(after) == after
        if after != link.target and readable:
            what: Literal["related", "link"] = "related" if link.kind == "related" else "link"
            return Fix(what=what, kind=link.kind, before=link.target, after=after)
    return None


def _with_ending(link: ResolvedLink, goal: str) -> str:
    """Return the target as a model for the new spelling: paths with suffix, names as they are."""
    if link.kind not in PATH_KINDS or is_markdown(link.target):
        return link.target
    return f"{link.target}{goal[len(stem(goal)) :]}"


def _missing_headings(material: Material, bases: Mapping[str, Material]) -> dict[int, str]:
    """Map the identity of each link whose heading is missing to the heading that was probably meant."""
    by_base: dict[str, dict[str, list[ResolvedLink]]] = defaultdict(lambda: defaultdict(list))
    for link in material.links:
        if link.fragment and link.status == "document" and link.goal and is_markdown(link.goal[1]):
            by_base[link.goal[0]][link.goal[1]].append(link)
    missing: dict[int, str] = {}
    for name, by_path in by_base.items():
        if name not in bases:
            continue
        with material.hub.index(bases[name].base).snapshot() as index:
            for path, text in texts(index, list(by_path)):
                anchors = Anchors(path, text)
                links = (link for link in by_path[path] if not anchors.has(link.fragment))
                missing.update({id(link): anchors.near(link.fragment) for link in links})
    return missing


def _without_heading(material: Material, link: ResolvedLink, near: str) -> Found:
    assert link.goal is not None
    goal = _ref(material, link.goal)
    where = "This document" if link.goal == (material.base.id, link.path) else repr(goal)
    what = "block" if link.fragment.startswith("^") else "heading"
    message = f"{where} has no {what} {link.fragment!r}, which the link {link.text or link.target!r} names."
    remedy = f"Did you mean {near!r}?" if near else "Name an existing heading, or only the document."
    return Found(material, link.path, message, remedy, link.line, (goal,), severity="warning", check="headings")


def _ref(material: Material, goal: Node) -> str:
    bases = material.hub.discovery().bases
    return ref_of(next(base for base in bases if base.id == goal[0]), goal[1], bases)
