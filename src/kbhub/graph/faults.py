"""What the links lead to that lead to no document: another file, a place outside, or nothing; and every link of a base.

Nothing is opened: whether a file is there is looked at only within the base, within another active base, and within
the project's own repository.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kbhub.document_names import SKIPPED_FOLDERS
from kbhub.errors import IndexUnavailable
from kbhub.graph.building import graph_of, in_project, inside_of, places_on_disk
from kbhub.graph.naming import found_document
from kbhub.graph.resolving import PATH_KINDS, folded
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.graph.building import Edge, Graph, Node
    from kbhub.graph.resolving import LinkKind
    from kbhub.hub import Hub
    from kbhub.types import Base

MOST_FILES = 50_000
"""Files of a base whose names are looked at for attachments that are linked by name alone, as in Obsidian; that takes
50 ms, and what lies beyond counts as not there."""

MOST_SAME = 1000
"""Of them, how many of one name are looked at."""

Status = Literal["document", "file", "outside", "broken"]
"""What a link leads to: a document; another file or folder; a place outside every base; nothing."""


@struct
class ResolvedLink:
    """A link of a document with what it leads to, or why it leads nowhere."""

    base: str
    """Id of the base of the document that holds it."""
    path: str
    """Of that document."""
    line: int | None
    """From 1; none for an entry of `related` that could not be found again."""
    kind: LinkKind
    target: str
    """As written, decoded, without fragment; empty for a heading of its own document."""
    fragment: str
    """Heading, anchor or `^block`; whether it is there is not looked at."""
    text: str
    status: Status
    goal: Node | None = None
    """(id of the base, path) of the document that it leads to."""
    others: tuple[Node, ...] = ()
    """Further documents that it could mean as well."""
    by: str = ""
    """What led there: `itself`, `path`, `name` or `title`."""
    why: str = ""
    """Why it is broken or outside, in words; of a file, its path in its base."""


def resolved_links(hub: Hub, base: Base) -> tuple[ResolvedLink, ...]:
    """Give every link of a base and every entry of `related`, each with its resolution or its fault.

    Args:
        hub: the hub; its indexes are taken as they are.
        base: one of its active bases.

    Returns:
        The links by document, as they stand in it.

    Raises:
        IndexUnavailable: the base's index cannot be read.
    """
    graph = graph_of(hub)
    if base.id not in graph.bases:
        raise next(
            (IndexUnavailable(base.id, one.reason) for one in graph.skipped if one.base == base.id),
            IndexUnavailable(base.id, "the base is not active"),
        )
    faults = Faults(graph)
    return tuple(
        faults.judged(edge)
        for path in graph.bases[base.id].documents
        for edge in graph.leaving.get((base.id, path), ())
    )


def backlinks(hub: Hub, ref: str) -> tuple[ResolvedLink, ...]:
    """Give the links and entries of `related`, of all active bases, that lead to a document from others.

    Args:
        hub: the hub; its indexes are taken as they are.
        ref: the document, in any form that `read` takes.

    Raises:
        DocumentNotFound: there is no such document in an index.
    """
    graph = graph_of(hub)
    faults = Faults(graph)
    return tuple(faults.judged(edge) for edge in graph.coming.get(found_document(hub, graph, ref), ()))


class Faults:
    """Says what links lead to; what it sees on disk is remembered as long as it lives.

    Args:
        graph: the link graph.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._attachments: dict[str, dict[str, list[str]]] = {}
        """Base → folded file name → folded paths."""

    def judged(self, edge: Edge) -> ResolvedLink:
        """Give a link with what it leads to."""
        status, why = self.verdict(edge)
        link = edge.link
        return ResolvedLink(
            base=edge.source[0],
            path=link.path,
            line=link.line,
            kind=link.kind,
            target=link.target,
            fragment=link.fragment,
            text=link.text,
            status=status,
            goal=edge.goal,
            others=edge.others,
            by=edge.by,
            why=why,
        )

    def verdict(self, edge: Edge) -> tuple[Status, str]:
        """Say what a link leads to, and why, or where, if that is no document."""
        if edge.goal is not None:
            return "document", ""
        home, target = self._graph.bases[edge.source[0]].base, edge.link.target
        name, mark, path = target.partition("@")
        for one in self._graph.bases.values():
            if mark and folded(name) in map(folded, (one.base.id, *one.base.names)):
                if (place := _existing(one.base, path)) is not None:
                    return "file", place
                return "broken", f"base {one.base.id} has no document {path!r}"
        if any(mark and folded(name) == folded(one.base) for one in self._graph.skipped):
            return "outside", f"base {name} has no index that can be read"
        return self._path_verdict(home, edge)

    def _path_verdict(self, home: Base, edge: Edge) -> tuple[Status, str]:
        git_root, led_out = self._graph.git_root, False
        others = [one.base for one in self._graph.bases.values() if one.base is not home]
        for place in places_on_disk(home, edge.link, git_root):
            for base in (home, *others):
                inside = inside_of(base, place)
                if inside is not None and (there := _existing(base, inside)) is not None:
                    return "file", there
            if in_project(home, git_root) and git_root and _exists_below(git_root, place):
                return "file", os.path.relpath(place, home.path).replace(os.sep, "/")
            led_out = led_out or (inside_of(home, place) is None and not _within(git_root, place, home))
        if led_out and edge.link.target.startswith(("../", "./")):
            return "outside", "it leads outside every base"
        if edge.link.kind not in PATH_KINDS and (attached := self._attachment(home, edge.link.target)):
            return "file", attached
        return "broken", "no document or file is there"

    def _attachment(self, base: Base, target: str) -> str | None:
        """Find a file by the end of its path."""
        if base.id not in self._attachments:
            self._attachments[base.id] = {}
            for path in _files(base):
                name = folded(path.rpartition("/")[2])
                self._attachments[base.id].setdefault(name, []).append(path)
        end = folded(target)
        found = self._attachments[base.id].get(end.rpartition("/")[2], ())[:MOST_SAME]
        return next((path for path in found if f"/{folded(path)}".endswith(f"/{end}")), None)


def _existing(base: Base, path: str) -> str | None:
    """Give a path in a base back if a file or folder is there, inside of the base when links are followed."""
    if "\0" in path or not path.strip("/"):
        return None
    return path if _exists_below(base.path, f"{base.path.as_posix()}/{path}") else None


def _exists_below(root: Path, place: str) -> bool:
    try:
        real = Path(place).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):  # not there, no name that a file can have, or links in a circle
        return False
    return real.is_relative_to(os.path.realpath(root))


def _within(git_root: Path | None, place: str, base: Base) -> bool:
    return in_project(base, git_root) and git_root is not None and Path(place).is_relative_to(git_root)


def _files(base: Base) -> Iterator[str]:
    """Give the paths of a base's files, links not followed, up to `MOST_FILES`; hidden folders are left out."""
    count = 0
    for folder, folders, files in os.walk(base.path):
        folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in SKIPPED_FOLDERS)
        inside = inside_of(base, folder.replace(os.sep, "/")) or ""
        for name in sorted(files):
            yield f"{inside}/{name}" if inside else name
        count += len(files)
        if count > MOST_FILES:
            return
