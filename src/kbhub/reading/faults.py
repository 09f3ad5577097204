"""Explain links that lead to no document: to another file, outside, or nowhere. Also lists all links of a base.

Nothing is opened; files are only looked for in active bases and the project's own repository.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from kbhub.documents.walk import inside_of
from kbhub.errors import IndexUnavailable
from kbhub.hub import Hub
from kbhub.reading.graph import Edge, Graph, Node, WrittenLink, graph_of, places_on_disk, repository_of
from kbhub.reading.links import PAGE, PATH_KINDS, SiteSettings, files_below, folded, places, site_settings
from kbhub.types import Base
from kbhub.values import struct
from kbhub.workspace.formats import is_markdown

ASSETS = "static"
"""Folder of a site's files other than pages, whose addresses are without it."""

_LABEL = re.compile(r"/[\w.-]+\.rst")
MOST_SAME = 1000
"""Most files with the same name that are considered."""

Status = Literal["document", "file", "outside", "broken"]
"""What a link leads to: a document; another file or folder; a place outside all bases; nothing."""


@struct
class ResolvedLink(WrittenLink):
    """A link with its target, or why it leads nowhere."""

    base: str
    """Base id of the document with the link."""
    status: Status
    goal: Node | None = None
    """(base id, path) of the target document."""
    others: tuple[Node, ...] = ()
    """Other documents it could mean."""
    by: str = ""
    """How it was resolved: `itself`, `path`, `name`, `title` or `site`."""
    why: str = ""
    """Why it is broken or outside, in words; for a file, its path in its base."""


def resolved_links(hub: Hub, base: Base) -> tuple[ResolvedLink, ...]:
    """Return all links of a base and entries of `related`, resolved or with a reason, by document in order.

    The indexes are not synced.
    """
    graph = graph_of(hub)
    if base.id not in graph.bases:
        raise next(
            (IndexUnavailable(base.id, skipped.reason) for skipped in graph.skipped if skipped.base == base.id),
            IndexUnavailable(base.id, "the base is not active"),
        )
    faults = Faults(graph)
    return tuple(
        faults.judged(edge)
        for path in graph.bases[base.id].documents
        for edge in graph.leaving.get((base.id, path), ())
    )


class Faults:
    """Explains what links lead to; caches what it sees on disk."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._sites: dict[str, SiteSettings | None] = {}
        self._attachments: dict[str, dict[str, list[str]]] = {}
        """Base → folded file name → folded paths."""

    def judged(self, edge: Edge) -> ResolvedLink:
        """Return a link with its target."""
        link, (status, why) = edge.link, self.verdict(edge)
        written = (link.path, link.target, link.fragment, link.text, link.line, link.kind)
        return ResolvedLink(*written, edge.source[0], status, edge.goal, edge.others, edge.by, why)

    def verdict(self, edge: Edge) -> tuple[Status, str]:
        """Return the kind of a link's target, and why or where if it is no document."""
        if edge.goal is not None:
            return "document", ""
        home, target = self._graph.bases[edge.source[0]].base, edge.link.target
        name, mark, path = target.partition("@")
        for base_links in self._graph.bases.values():
            if mark and folded(name) in map(folded, (base_links.base.id, *base_links.base.names)):
                if (place := _existing(base_links.base, path)) is not None:
                    return "file", place
                return "broken", f"base {base_links.base.id} has no document {path!r}"
        if any(mark and folded(name) == folded(skipped.base) for skipped in self._graph.skipped):
            return "outside", f"base {name} has no readable index"
        return self._path_verdict(home, edge)

    def _path_verdict(self, home: Base, edge: Edge) -> tuple[Status, str]:
        repository, led_out = repository_of(home, self._graph.git_root), False
        others = [links.base for links in self._graph.bases.values() if links.base is not home]
        for place in places_on_disk(home, edge.link, self._graph.git_root):
            for base in (home, *others):
                inside = inside_of(base.path.as_posix(), place, "/")
                if inside is not None and (file := _existing(base, inside)) is not None:
                    return "file", file
            if repository and exists_below(repository, place):
                return "file", os.path.relpath(place, home.path).replace(os.sep, "/")
            in_repository = repository is not None and Path(place).is_relative_to(repository)
            led_out = led_out or not (in_repository or inside_of(home.path.as_posix(), place, "/") is not None)
        if led_out and edge.link.target.startswith(("../", "./")):
            return "outside", "it leads out of all bases"
        if edge.link.target.startswith("/") and (file := _existing(home, f"{ASSETS}{edge.link.target}")):
            return "file", file
        if home.id not in self._sites:
            self._sites[home.id] = site_settings(home)
        if (site := self._sites[home.id]) and (found := _of_site(site, home, edge.link)):
            return found
        if edge.link.path.endswith(".rst") and edge.link.fragment and _LABEL.fullmatch(edge.link.target):
            return "outside", "it may be a label of another project"
        if edge.link.kind not in PATH_KINDS and (attached := self._attachment(home, edge.link.target)):
            return "file", attached
        return "broken", "no such document or file"

    def _attachment(self, base: Base, target: str) -> str | None:
        """Find a file by the end of its path."""
        if base.id not in self._attachments:
            self._attachments[base.id] = {}
            for path in files_below(base.path):
                name = folded(path.rpartition("/")[2])
                self._attachments[base.id].setdefault(name, []).append(path)
        end = folded(target)
        same_name = self._attachments[base.id].get(end.rpartition("/")[2], ())[:MOST_SAME]
        return next((path for path in same_name if f"/{folded(path)}".endswith(f"/{end}")), None)


def _existing(base: Base, path: str) -> str | None:
    """Return a path in a base if a file or folder exists there within the base, symlinks resolved."""
    if "\0" in path or not path.strip("/"):
        return None
    if base.engine:  # it holds documents only, so that nobody can tell whether another file is there
        return None if is_markdown(path) else path
    return path if exists_below(base.path, f"{base.path.as_posix()}/{path}") else None


def _of_site(site: SiteSettings, home: Base, link: WrittenLink) -> tuple[Status, str] | None:
    """Return the verdict on a file beside the pages of a site, and on a page that only its build writes."""
    if link.target.startswith("/") and exists_below(site.folder, f"{site.folder}/{ASSETS}{link.target}"):
        return "file", f"{os.path.relpath(site.folder, home.path)}/{ASSETS}{link.target}".replace(os.sep, "/")
    if link.target.endswith(PAGE) and not any(places(link.path, link.target, link.kind)):
        return "outside", "it leads out of the pages of the site"
    starts = ("", *(f"{root}/" for root in ("docs", *site.roots)))
    for place in places(link.path, link.target, link.kind):
        if any(place.removeprefix(start) in site.pages for start in starts):
            return "outside", "the build of the site writes it"
    return None


def exists_below(root: Path, place: str) -> bool:
    """Return whether there is a file or folder, links resolved, in a folder."""
    try:
        real = Path(place).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):  # missing, not a possible file name, or a symlink loop
        return False
    return real.is_relative_to(os.path.realpath(root))
