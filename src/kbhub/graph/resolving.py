"""Where a link leads within a base: paths as GitHub has them, names as Obsidian has them. Pure: it opens no file."""

from __future__ import annotations

import posixpath
import unicodedata
from collections import defaultdict
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Literal

from kbhub.document_names import MARKDOWN_SUFFIXES
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LinkKind = Literal["markdown", "reference", "wikilink", "embed", "related"]
"""How a link is written; `related` is an entry of that front matter key."""

PATH_KINDS = frozenset({"markdown", "reference"})
"""Links whose target is a path from the folder of their document, before it is anything else."""

FOLDER_PAGES = ("readme", "index")
"""Documents that stand for their folder, case-folded and without ending, the first first."""


MOST_NAMED = 100
"""Documents of one name that are compared by nearness, those with the shortest paths: a base may have thousands called
`index.md`, and thousands of links to that name."""

MOST_OTHERS = 9
"""Of them, how many are named beside the one that is taken."""


@struct
class Resolution:
    """The document that a link leads to."""

    path: str
    by: Literal["itself", "path", "name", "title"]
    """What led there; `itself` is a link to a heading of its own document."""
    others: tuple[str, ...] = ()
    """Further documents that are called so, the nearest first, if only nearness decided."""


class PathTable:
    """The documents of a base, by all that a link may call them.

    Args:
        paths: paths of the documents, with `/`.
        names: (path, name) of their titles and aliases.
    """

    def __init__(self, paths: Iterable[str], names: Iterable[tuple[str, str]] = ()) -> None:
        self.paths = frozenset(paths)
        self._names = tuple(names)

    @cached_property
    def _folded(self) -> dict[str, str]:
        """Folded path → path, the first of those that differ by case alone."""
        return {folded(path): path for path in sorted(self.paths, reverse=True)}

    @cached_property
    def _by_end(self) -> dict[str, list[str]]:
        """Last part of a path without its ending, or its last two parts → paths, the shortest first."""
        found = defaultdict(list)
        for path in sorted(self.paths, key=_length):
            whole = folded(stem(path))
            for end in {_end(whole, 1), _end(whole, 2)}:
                found[end].append(path)
        return found

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        """Folded title or alias → paths, the shortest first."""
        found = defaultdict(list)
        for path, name in sorted(self._names, key=lambda item: _length(item[0])):
            found[folded(name)].append(path)
        return found

    def resolve(self, source: str, target: str, kind: LinkKind) -> Resolution | None:
        """Find the document that a link leads to.

        Args:
            source: path of the document that holds the link.
            target: path or name, decoded, without fragment. Any string.
            kind: how the link is written.

        Returns:
            The document; none if it is none of this base.
        """
        if not target:
            return Resolution(source, "itself")
        for place in places(source, target, kind):
            if (found := self.at(place, folders=kind in PATH_KINDS or target.endswith("/"))) is not None:
                return Resolution(found, "path", self._same_named(source, target, found, kind))
        if not target.startswith(("/", "./", "../")):
            if found_by_file := self._nearest(source, self._ending_in(target)):
                return Resolution(found_by_file[0], "name", found_by_file[1:])
            titled = () if kind in PATH_KINDS else self._nearest(source, self._by_name.get(folded(target), ()))
            if titled:
                return Resolution(titled[0], "title", titled[1:])
        for place in places(source, target, kind):
            if (found := self.at(place, folders=True)) is not None:
                return Resolution(found, "path")
        return None

    def at(self, place: str, *, folders: bool = True) -> str | None:
        """Give the document at a path, with or without its ending and its letters' case.

        Args:
            place: from the base's own folder, with `/`; one with `/` at its end is a folder, as the empty one is.
            folders: whether a folder leads to the document that stands for it.
        """
        folder = place.endswith("/") or not place
        place = place.rstrip("/")
        forms = () if folder else (place, *(place + suffix for suffix in MARKDOWN_SUFFIXES))
        for form in forms:
            if form in self.paths:
                return form
        for form in forms:
            if found := self._folded.get(folded(form)):
                return found
        prefix = f"{folded(place)}/" if place else ""
        pages = (f"{prefix}{page}{suffix}" for page in FOLDER_PAGES for suffix in MARKDOWN_SUFFIXES)
        return next((self._folded[page] for page in pages if page in self._folded), None) if folders else None

    def _ending_in(self, target: str) -> list[str]:
        """Give documents whose path, without its ending, ends in a target, the shortest first."""
        end = folded(stem(target.strip("/")))
        found = self._by_end.get(_end(end, 2), ())[:MOST_NAMED]
        return [path for path in found if f"/{folded(stem(path))}".endswith(f"/{end}")]

    def _same_named(self, source: str, target: str, found: str, kind: LinkKind) -> tuple[str, ...]:
        """Give the other documents that a bare name could mean too, which its being in the same folder decided."""
        if kind in PATH_KINDS or "/" in target or "/" not in found:  # at the root, the name is the whole path
            return ()
        return tuple(path for path in self._nearest(source, self._ending_in(target)) if path != found)[:MOST_OTHERS]

    def _nearest(self, source: str, found: Iterable[str]) -> tuple[str, ...]:
        """Give documents sorted: those in the same folder, those below it, then those with the shortest path."""
        folder = posixpath.dirname(source)
        below = f"{folder}/" if folder else ""

        def distance(path: str) -> tuple[bool, bool, tuple[int, int, str]]:
            return posixpath.dirname(path) != folder, not path.startswith(below), _length(path)

        return tuple(sorted(dict.fromkeys(islice(found, MOST_NAMED)), key=distance)[: MOST_OTHERS + 1])


def places(source: str, target: str, kind: LinkKind) -> Iterator[str]:
    """Give the paths from the base's own folder that a target can mean, likeliest first; none that leads out.

    Args:
        source: path of the document that holds the link.
        target: as `PathTable.resolve` takes it.
        kind: how the link is written.
    """
    folder = posixpath.dirname(source)
    starts: Sequence[str] = (folder, "") if kind in PATH_KINDS else ("", folder)
    if target.startswith("/"):
        starts = ("",)
    elif target.startswith(("./", "../")):
        starts = (folder,)
    for start in dict.fromkeys(starts):
        place = posixpath.normpath(posixpath.join(start, target.lstrip("/")))
        if place != ".." and not place.startswith("../"):
            inside = "" if place == "." else place
            yield f"{inside}/" if inside and target.endswith("/") else inside


def folded(text: str) -> str:
    """Give a path or name as it is compared: case, form of accents and blanks around it do not matter."""
    text = text.strip()
    return text.lower() if text.isascii() else unicodedata.normalize("NFC", text).casefold()


def stem(path: str) -> str:
    """Give a path without the ending that marks it as Markdown."""
    return path.rpartition(".")[0] if path.lower().endswith(MARKDOWN_SUFFIXES) else path


def _end(path: str, parts: int) -> str:
    return "/".join(path.rsplit("/", parts)[-parts:])


def _length(path: str) -> tuple[int, int, str]:
    return path.count("/"), len(path), path
