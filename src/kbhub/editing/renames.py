"""Renaming a document, and updating the links that would break."""

from __future__ import annotations

import os
import posixpath
from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import Field

from kbhub.documents.edits import text_of
from kbhub.documents.sources.text_formats import parse_text
from kbhub.editing.checks import RELATED, leads_to, links_of
from kbhub.editing.folder import (
    bring_in_step,
    changed_meanwhile,
    docid_of,
    open_folder,
    read_for_change,
    refusing,
    short_hash,
)
from kbhub.editing.link_rewrites import not_updated, relink, spelling
from kbhub.editing.paths import Location, check_writable, find_document, new_place, qualified, twin, why_not_writable
from kbhub.errors import IndexUnavailable, KbhubError, UsageError, WriteRefused
from kbhub.frozen import Model
from kbhub.index.catalogue import document_names
from kbhub.index.references import ref_of
from kbhub.reading.graph.targets import PATH_KINDS, PathTable, folded, places, stem
from kbhub.sync.comparison import writing
from kbhub.sync.freshness import freshen
from kbhub.types import Problem
from kbhub.values import struct
from kbhub.workspace.formats import is_converted, kind_of, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.editing.folder import Content
    from kbhub.editing.link_rewrites import Rewrite, Rewritten
    from kbhub.hub import Hub
    from kbhub.reading.graph.targets import LinkKind
    from kbhub.types import Base


class LinkChange(Model):
    """A link that the new path breaks, and how it is to be written."""

    ref: str = Field(description="Document that holds it.")
    line: int | None = Field(None, description="Its line, from 1; null for an entry of `related`.")
    before: str = Field(description="Its destination as it is written.")
    after: str = Field(description="The destination that leads to the same document.")


class Renamed(Model):
    """What `rename` did."""

    ref: str = Field(description="The new ref.")
    docid: str = Field(description="The new short id.")
    before: str = Field(description="Its former ref.")
    base: str = Field(description="Id of its base.")
    path: str = Field(description="Its new path.")
    hash: str = Field(description="Content hash now.")
    links: tuple[LinkChange, ...] = Field((), description="Links that the new path breaks.")
    updated: bool = Field(description="Whether those links were updated.")
    not_updated: tuple[Problem, ...] = Field((), description="Documents whose links could not be updated, and why.")
    indexed: bool = Field(description="Whether searches know the new path; if not, they do after the next sync.")


@struct
class _Move:
    """A renaming, and how links resolve before and after it."""

    base: Base
    old: str
    new: str
    before: PathTable
    after: PathTable

    def renamed(self, path: str) -> str:
        """Return the path of a document after the renaming."""
        return self.new if path == self.old else path

    def breaks(self, home: Base, path: str, target: str, kind: LinkKind, led: str) -> bool:
        """Return whether a link to the document at `led` breaks, or would resolve by name only instead of by path."""
        source = self.renamed(path) if home.id == self.base.id else path
        wanted = self.renamed(led)
        if leads_to(self.after, self.base, home, source, target, kind) != wanted:
            return True
        exact = kind in PATH_KINDS and home.id == self.base.id and _by_path(self.before, path, target, kind) == led
        return exact and _by_path(self.after, source, target, kind) != wanted

    def rewrite_for(self, home: Base, path: str) -> Rewrite:
        """Return a function that rewrites the broken links of a document."""
        source = self.renamed(path) if home.id == self.base.id else path

        def rewrite(target: str, kind: LinkKind) -> str | None:
            led = leads_to(self.before, self.base, home, path, target, kind)
            if led is None:
                return self._file_target(home, path, source, target, kind)
            wanted = self.renamed(led)
            if not target or not self.breaks(home, path, target, kind, led):
                return None
            for form in self._forms(target, kind, source, wanted):
                if leads_to(self.after, self.base, home, source, form, kind) == wanted:
                    return form
            return ""

        return rewrite

    def _forms(self, target: str, kind: LinkKind, source: str, wanted: str) -> Iterator[str]:
        """Yield the ways to write a link to a document, the most similar to the old one first.

        A spelling without suffix may resolve to a twin, and one without `./` to a document of another base.
        """
        ending = wanted[len(stem(wanted)) :]
        name, mark, rest = target.partition("@")
        if mark and folded(name) in map(folded, (self.base.id, *self.base.names)):
            for old in (rest, f"{rest}{ending}"):
                yield from (f"{name}@{form}" for form in spelling(old, RELATED, "", wanted))
            return
        for old in (target, f"{target}{ending}", f"./{target}{ending}"):
            yield from spelling(old, kind, source, wanted)

    def _file_target(self, home: Base, path: str, source: str, target: str, kind: LinkKind) -> str | None:
        """Rewrite a link from the moved document to a file such as an image."""
        if home.id != self.base.id or path == source or not target or target.startswith("/"):
            return None
        if kind not in PATH_KINDS:
            return None
        place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if place.startswith("../") or not os.path.exists(self.base.path / place):  # noqa: PTH110
            return None
        form = posixpath.relpath(place, posixpath.dirname(source) or ".")
        return None if form == posixpath.normpath(target) else form


def rename(hub: Hub, ref: str, new: str, *, update_links: bool = False) -> Renamed:
    """Move a document to another path in its base, or to another folder if `new` ends with a slash.

    The links that would break are reported or, with `update_links`, rewritten in all writable documents.

    Raises:
        DocumentNotFound, PathNotContained: the document does not exist, or the new path leads out of the base.
        BaseNotFound: the new path begins with the id of a base that is not active.
        WriteRefused: it cannot be renamed, or not in this way.
    """
    place = find_document(hub, ref)
    check_writable(hub, place.base, place.ref)
    if place.linked:
        raise WriteRefused(place.ref, f"it is a link to {'/'.join(place.real)!r}; rename that, or the link by hand")
    target = _target(hub, place, new)
    freshen(hub, max_age=0.0)
    with refusing(place.ref):
        move, affected = _planned(hub, place, target.path)
    with writing(hub, place.base, place.ref), refusing(place.ref):
        content = _moved(place, target)
    changes: list[LinkChange] = []
    problems: list[Problem] = []
    if move is None:
        message = "Its base has no index, so links to it are unknown; find broken ones with `kbhub audit`."
        problems.append(Problem(subject=target.ref, message=message))
    else:
        for base, path in (*affected, (place.base, place.path)):
            _update_links(hub, move, base, path, changes, problems, write=update_links)
    indexed = bring_in_step(hub, place.base, target.path)
    if update_links:
        for base in {base.id: base for base, _ in affected if base.id != place.base.id}.values():
            bring_in_step(hub, base, "")
        # Fails if another program has moved it again; the hash before that is returned then.
        with suppress(OSError), open_folder(target.base, target.folders) as folder:
            content = folder.read(target.name)
    return Renamed(
        ref=target.ref,
        docid=docid_of(hub, target.base, target.path),
        before=place.ref,
        base=target.base.id,
        path=target.path,
        hash=short_hash(content.hash),
        links=tuple(changes),
        updated=update_links,
        not_updated=tuple(problems),
        indexed=indexed,
    )


def _target(hub: Hub, place: Location, new: str) -> Location:
    new = qualified(hub, new, place.base)
    target = new_place(hub, f"{new}{place.name}" if new.endswith("/") else new)
    if target.base.id != place.base.id:
        raise WriteRefused(
            place.ref, "a document can only be renamed within its base; write it in the other base, then delete it here"
        )
    if target.path == place.path:
        raise UsageError(f"{place.ref!r} has that path already.")
    return target


def _planned(hub: Hub, place: Location, new: str) -> tuple[_Move | None, list[tuple[Base, str]]]:
    """Find the other documents with links that the renaming breaks."""
    index = hub.index(place.base)
    try:
        with index.snapshot():
            paths, names = index.paths(), list(document_names(index))
    except IndexUnavailable:
        return None, []
    kept = [(path, name) for path, name in names if path != place.path]
    with open_folder(place.base, place.folders) as folder:
        document = parse_text(new, folder.read(place.name).data, inline=place.base.inline_tags)
    after = PathTable(
        [new if path == place.path else path for path in paths],
        [*kept, *((new, name) for name in (document.title, *document.aliases))],
    )
    move = _Move(place.base, place.path, new, PathTable(paths, names), after)
    affected: list[tuple[Base, str]] = []
    for base in hub.discovery().bases:
        try:
            affected += [(base, path) for path in dict.fromkeys(_documents_with_broken_links(hub, move, base))]
        except IndexUnavailable:
            continue
    return move, affected


def _documents_with_broken_links(hub: Hub, move: _Move, home: Base) -> Iterator[str]:
    index = hub.index(home)
    with index.snapshot():
        links = links_of(index)
    for path, target, kind, _ in links:
        if home.id == move.base.id and path == move.old:
            continue
        led = leads_to(move.before, move.base, home, path, target, kind)
        if led is not None and move.breaks(home, path, target, kind, led):
            yield path


def _moved(place: Location, target: Location) -> Content:
    """Move the file and return its content."""
    with (
        open_folder(place.base, place.folders) as source,
        open_folder(target.base, target.folders, make=True) as folder,
    ):
        try:
            content = read_for_change(source, place, None)
            others = [name for name in folder.names() if source.path != folder.path or name != place.name]
            if target.name in others:
                raise WriteRefused(place.ref, f"a document already exists at {target.path!r}")
            if other := twin(others, target.name):
                raise WriteRefused(place.ref, f"{other!r} exists, which is the same name on some systems")
            source.move(place.name, folder, target.name)
        except BaseException:
            folder.unmake()
            raise
    return content


def _update_links(
    hub: Hub, move: _Move, base: Base, path: str, changes: list[LinkChange], problems: list[Problem], *, write: bool
) -> None:
    """Rewrite the broken links of one document, or only list them; collect problems."""
    own = base.id == move.base.id and path == move.old
    ref = ref_of(base, move.new if own else path, hub.discovery().bases)
    if is_converted(kind := kind_of(base, path)):
        if not own:
            message = f"Links in {name_of(kind)} are not rewritten; update them in the program that wrote the file."
            problems.append(Problem(subject=ref, message=message))
        return
    try:
        place = find_document(hub, f"{base.id}@{move.new if own else path}")
        if write and (reason := why_not_writable(hub, base)):
            raise WriteRefused(ref, reason)
        with writing(hub, base, ref), refusing(ref):
            replaced, missed = _relinked(place, move.rewrite_for(base, path), write=write)
    except KbhubError as error:
        problems.append(Problem(subject=ref, message=str(error)))
        return
    changes += [LinkChange(ref=ref, line=link.line, before=link.before, after=link.after) for link in replaced]
    if missed:
        problems.append(Problem(subject=ref, message=not_updated(missed)))


def _relinked(place: Location, rewrite: Rewrite, *, write: bool) -> tuple[list[Rewritten], list[int | None]]:
    with open_folder(place.base, place.folders) as folder:
        content = read_for_change(folder, place, None)
        text, replaced, missed = relink(place.ref, text_of(place.ref, content.data), rewrite)
        if write and replaced and not folder.replace(place.name, text.encoded(), content):
            raise changed_meanwhile(place, content.hash)
    return replaced, missed


def _by_path(table: PathTable, source: str, target: str, kind: LinkKind) -> str | None:
    """Return the document at a target's path relative to its source, which is how GitHub resolves links."""
    place = next(places(source, target, kind), None)
    return None if place is None else table.at(place)
