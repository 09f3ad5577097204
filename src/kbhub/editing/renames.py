"""Rename and move documents, and rewrite the targets of links in Markdown without touching anything else."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from urllib.parse import unquote

from pydantic import Field

from kbhub.documents.edits import Text, text_of, with_texts
from kbhub.documents.links import EXTERNAL, EXTERNAL_NAME
from kbhub.documents.markdown import scan_blocks
from kbhub.documents.source import parse_text
from kbhub.editing import paths
from kbhub.editing.checks import leads_to, plain_entry, related_of
from kbhub.editing.paths import Location
from kbhub.errors import IndexUnavailable, KbhubError, UsageError, WriteRefused
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.index.catalogue import document_names
from kbhub.index.references import ref_of, short_hash
from kbhub.reading.graph import RELATED, WrittenLink, written_links
from kbhub.reading.links import PAGE, PATH_KINDS, LinkKind, PathTable, folded, page_of, places, stem
from kbhub.sync.freshness import freshen
from kbhub.types import Base, Problem
from kbhub.values import struct
from kbhub.workspace.files import Content, open_folder
from kbhub.workspace.formats import is_converted, is_markdown, kind_of, name_of

Rewrite = Callable[[str, "LinkKind"], str | None]
"""Maps (target, kind) to the new target, None to leave it, or "" if it must change but no spelling works. Targets are
decoded and without fragment.
"""

MOST_PLACES = 10
"""Limit of links named in a message about those that could not be rewritten."""

_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)")
_INLINE = re.compile(r"\]\(\s*(<[^<>]*>|[^\s()<>\\]*(?:\([^\s()]*\)[^\s()<>\\]*)*)")
_DEFINITION = re.compile(r"^[ \t>]*\[(?!\^)[^\]]+\]:[ \t]*(<[^<>]+>|[^\s<]\S*)")
_WIKILINK = re.compile(r"(!?)\[\[([^\[\]|#\\]+)(?=[^\[\]]*\]\])")
_ENCODED = {code: f"%{code:02X}" for code in (*range(0x21), 0x7F, *map(ord, "()<>[]\\%#?:`"))}
"""Characters that must be encoded in a destination without angle brackets."""
_MEANT = frozenset("<>[]\\%#?:`\n")
"""Characters that have a meaning even between angle brackets."""
_ENCODED_NAME = {ord(character): f"%{ord(character):02X}" for character in "[]|#\\%`"}
"""Characters that have a meaning between double brackets."""

_Links = list[tuple["LinkKind", str, str, "int | None"]]
"""(kind, fragment, target, line) of links; the line of entries of `related` is None."""


class LinkChange(Model):
    """A link that the new path breaks, and how it is to be written."""

    ref: str = Field(description="Document that holds it.")
    line: int | None = Field(None, description="Its line, from 1; null for an entry of `related`.")
    before: str = Field(description="Its destination as it is written.")
    after: str = Field(description="The destination that leads to the same document.")


def relink(ref: str, text: Text, rewrite: Rewrite) -> tuple[Text, tuple[list[LinkChange], list[int | None]]]:
    """Rewrite the links of a document, whose suffix tells its format, by a function that returns a link's new target.

    Returns the text, the links that were replaced, and the lines of those that should have been (None for an entry of
    `related`). `WriteRefused` if `related` has to change, but the front matter cannot be edited.
    """
    before = _links_in(ref, text)
    targets = [rewrite(target, kind) for kind, _, target, _ in before]
    replaced: list[LinkChange] = []
    new = text
    if is_markdown(ref):
        bare, lines, start = text.bare, list(text.lines), text.front.end
        blocks = scan_blocks(bare, start, 0)
        hidden = {line for first, last in (*blocks.fences, *blocks.raw) for line in range(first - 1, last)}
        for index in range(start, len(lines)):
            if index not in hidden and ("](" in lines[index] or "[[" in lines[index] or "]:" in lines[index]):
                changed = _relinked_line(ref, bare[index], index + 1, rewrite, replaced)
                lines[index] = changed + lines[index][len(bare[index]) :]
        new = _relinked_related(ref, text.replaced(0, len(lines), lines), rewrite, replaced)
    after = _links_in(ref, new) if replaced else before
    # The same links must be left, each with its old or its new target.
    if len(before) != len(after) or not all(
        made[:2] == old[:2] and made[2] in (old[2], target)
        for old, made, target in zip(before, after, targets, strict=True)
    ):
        new, replaced, after = text, [], before
    pairs = zip(targets, after, strict=True)
    return new, (replaced, [line for wanted, (_, _, actual, line) in pairs if wanted not in (None, actual)])


def not_updated(lines: Iterable[int | None]) -> str:
    """Return a message about links that could not be rewritten, given their lines from `relink`."""
    places = [f"line {line}" if line else "`related`" for line in dict.fromkeys(lines)]
    more = f", {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
    where = ", ".join(places[:MOST_PLACES]) + more
    return f"Not every link could be updated to lead to its document ({where}); fix those by hand."


def _links_in(ref: str, text: Text) -> _Links:
    document = parse_text(ref, text.encoded())
    related: _Links = [(RELATED, "", target, None) for target in related_of(document.front_matter)]
    return [*((link.kind, link.fragment, link.target, link.line) for link in document.links), *related]


def spelling(target: str, kind: LinkKind, source: str, path: str) -> list[str]:
    """Return the ways to write a link from a source to a path, the most similar to its present target first."""
    bare = path
    if not is_markdown(target) and is_markdown(path):
        bare = f"{path.rpartition('.')[0]}{PAGE if target.endswith(PAGE) else ''}"
    relative = posixpath.relpath(bare, posixpath.dirname(source) or ".")
    if target.startswith("./") and not relative.startswith("../"):
        relative = f"./{relative}"
    if target.startswith("/"):
        return [f"/{bare}"]
    if kind in PATH_KINDS:
        return [relative]
    short = [bare.rsplit("/", 1)[-1]] if "/" not in target and kind != RELATED else []
    return [*short, bare, relative]


def as_destination(path: str) -> str:
    """Return a path as the destination of a link."""
    return path.translate(_ENCODED)


def _relinked_line(ref: str, line: str, number: int, rewrite: Rewrite, replaced: list[LinkChange]) -> str:
    masked = _CODE.sub(lambda match: "x" * len(match[0]), line)
    edits: list[tuple[int, int, str]] = []
    forms: tuple[tuple[re.Pattern[str], LinkKind], ...] = ((_INLINE, "markdown"), (_DEFINITION, "reference"))
    for pattern, kind in forms:
        for match in pattern.finditer(masked):
            written = line[match.start(1) : match.end(1)]
            if (new := _new_destination(written, kind, rewrite)) is not None:
                edits.append((match.start(1), match.end(1), new))
    for match in _WIKILINK.finditer(masked):
        name = match[2].strip()
        new_name = None if EXTERNAL_NAME.match(name) else rewrite(unquote(name), "embed" if match[1] else "wikilink")
        if new_name:
            plain = unquote(new_name) == new_name and not set("[]|#\\`") & set(new_name)
            at = match.start(2) + match[2].index(name)
            edits.append((at, at + len(name), new_name if plain else new_name.translate(_ENCODED_NAME)))
    for first, last, new in sorted(edits, reverse=True):
        replaced.append(LinkChange(ref=ref, line=number, before=line[first:last], after=new))
        line = line[:first] + new + line[last:]
    return line


def _new_destination(destination: str, kind: LinkKind, rewrite: Rewrite) -> str | None:
    angled = destination.startswith("<")
    inside = destination[1:-1] if angled else destination
    path, mark, rest = inside.partition("#")
    path, query, more = path.partition("?")
    if not path or EXTERNAL.match(inside):
        return None
    new = rewrite(unquote(path), kind)
    if not new:
        return None
    plain = angled and not _MEANT & set(new)
    new = (new if plain else as_destination(new)) + query + more + mark + rest
    return f"<{new}>" if angled else new


def _relinked_related(ref: str, text: Text, rewrite: Rewrite, replaced: list[LinkChange]) -> Text:
    front = text.front
    key = next((key for key in front.values if key.strip().casefold() == RELATED), None)
    if key is None:
        return text
    value = front.values[key]
    entries = value if isinstance(value, list) else [value]
    new = []
    for entry in entries:
        plain = plain_entry(entry) if isinstance(entry, str) else ""
        target = rewrite(plain, RELATED) if plain else None
        after = entry.replace(plain, target, 1) if target else entry
        # Nothing can be encoded here: skip what would be read as a heading or a label.
        new.append(after if after == entry or plain_entry(after) == target else entry)
        if new[-1] != entry:
            replaced.append(LinkChange(ref=ref, before=entry, after=new[-1]))
    if new == entries:
        return text
    changes = {old: after for old, after in zip(entries, new, strict=True) if isinstance(old, str)}
    return with_texts(ref, text, key, changes)


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
            for form in self._forms(target, kind, source, wanted, led):
                if leads_to(self.after, self.base, home, source, form, kind) == wanted:
                    return form
            return ""

        return rewrite

    def _forms(self, target: str, kind: LinkKind, source: str, wanted: str, led: str) -> Iterator[str]:
        """Yield the ways to write a link to a document that was at `led`, the most similar to the old one first."""
        ending = wanted[len(stem(wanted)) :]
        name, mark, rest = target.partition("@")
        if mark and folded(name) in map(folded, (self.base.id, *self.base.names)):
            for old in (rest, f"{rest}{ending}"):
                yield from (f"{name}@{form}" for form in spelling(old, RELATED, "", wanted))
            return
        root = page_of(led).removesuffix(page_of(target.rstrip("/")))  # of the site, from which `/…` starts
        if target.startswith("/") and 0 < len(root) < len(page_of(led)) and wanted.startswith(f"{root}/"):
            page = wanted if is_markdown(target) else page_of(wanted)
            yield f"{page.removeprefix(root)}{'/' if target.endswith('/') else ''}"
        for old in (target, f"{target}{ending}", f"./{target}{ending}"):
            yield from spelling(old, kind, source, wanted)

    def _file_target(self, home: Base, path: str, source: str, target: str, kind: LinkKind) -> str | None:
        """Rewrite a link from the moved document to a file such as an image."""
        moved = home.id == self.base.id and path != source
        if not moved or not target or target.startswith("/") or kind not in PATH_KINDS:
            return None
        place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if place.startswith("../") or not os.path.exists(self.base.path / place):  # noqa: PTH110
            return None
        form = posixpath.relpath(place, posixpath.dirname(source) or ".")
        return None if form == posixpath.normpath(target) else form


def rename(hub: Hub, ref: str, new: str, *, update_links: bool = False) -> Renamed:
    """Move a document to another path in its base, or to another folder if `new` ends with a slash."""
    place = paths.find_document(hub, ref)
    paths.check_writable(hub, place.base, place.ref)
    if place.linked:
        raise WriteRefused(place.ref, f"it is a link to {'/'.join(place.real)!r}; rename that, or the link by hand")
    new = paths.qualified(hub, new, place.base)
    target = paths.new_place(hub, f"{new}{place.name}" if new.endswith("/") else new)
    if target.base.id != place.base.id:
        reason = "a document can only be renamed within its base; write it in the other base, then delete it here"
        raise WriteRefused(place.ref, reason)
    if target.path == place.path:
        raise UsageError(f"{place.ref!r} has that path already.")
    freshen(hub, max_age=0.0)
    with paths.refusing(place.ref):
        move, affected = _planned(hub, place, target.path)
    with paths.changing(hub, place.base, place.ref):
        content = _moved(place, target)
    changes: list[LinkChange] = []
    problems: list[Problem] = []
    if move is None:
        message = "Its base has no index, so links to it are unknown; find broken ones with `kbhub audit`."
        problems.append(Problem(subject=target.ref, message=message))
    else:
        for base, path in (*affected, (place.base, place.path)):
            _update_links(hub, move, base, path, changes, problems, write=update_links)
    with suppress(KbhubError):  # a file that is no text stands in no list
        paths.followed(hub, target, "renamed", text_of(target.ref, content.data))
    indexed = paths.sync_changed(hub, place.base, target.path)
    if update_links:
        for base in {base.id: base for base, _ in affected if base.id != place.base.id}.values():
            paths.sync_changed(hub, base, "")
        # Fails if another program has moved it again; the hash before that is returned then.
        with suppress(OSError), open_folder(target.base, target.folders) as folder:
            content = folder.read(target.name)
    return Renamed(
        ref=target.ref,
        docid=paths.docid_of(hub, target.base, target.path),
        before=place.ref,
        base=target.base.id,
        path=target.path,
        hash=short_hash(paths.hash_of(content.data)),
        links=tuple(changes),
        updated=update_links,
        not_updated=tuple(problems),
        indexed=indexed,
    )


def _planned(hub: Hub, place: Location, new: str) -> tuple[_Move | None, list[tuple[Base, str]]]:
    """Find the other documents with links that the renaming breaks."""
    try:
        with hub.index(place.base).snapshot() as index:
            every, names = index.paths(), list(document_names(index))
    except IndexUnavailable:
        return None, []
    kept = [(path, name) for path, name in names if path != place.path]
    with open_folder(place.base, place.folders) as folder:
        document = parse_text(new, folder.read(place.name).data, inline=place.base.inline_tags)
    named = [*kept, *((new, name) for name in (document.title, *document.aliases))]
    after = PathTable([new if path == place.path else path for path in every], named)
    move = _Move(place.base, place.path, new, PathTable(every, names), after)
    affected: list[tuple[Base, str]] = []
    for base in hub.discovery().bases:
        links: list[WrittenLink] = []
        with suppress(IndexUnavailable), hub.index(base).snapshot() as index:
            links = written_links(index)
        broken = dict.fromkeys(
            link.path
            for link in links
            if link.target
            and (base.id, link.path) != (place.base.id, place.path)
            and (led := leads_to(move.before, move.base, base, link.path, link.target, link.kind)) is not None
            and move.breaks(base, link.path, link.target, link.kind, led)
        )
        affected += [(base, path) for path in broken]
    return move, affected


def _moved(place: Location, target: Location) -> Content:
    """Move the file and return its content."""
    with (
        open_folder(place.base, place.folders) as source,
        open_folder(target.base, target.folders, make=True) as folder,
    ):
        content = paths.read_for_change(source, place, None)
        others = [name for name in folder.names() if source.path != folder.path or name != place.name]
        if target.name in others:
            raise WriteRefused(place.ref, f"a document already exists at {target.path!r}")
        if other := paths.twin(others, target.name):
            raise WriteRefused(place.ref, f"{other!r} exists, which is the same name on some systems")
        source.move(place.name, folder, target.name)
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
        place = paths.find_document(hub, f"{base.id}@{move.new if own else path}")
        if write and (reason := paths.why_not_writable(hub, base)):
            raise WriteRefused(ref, reason)
        rewrite = move.rewrite_for(base, path)
        _, (replaced, missed) = paths.change_document(hub, place, lambda text: relink(ref, text, rewrite), write=write)
    except KbhubError as error:
        problems.append(Problem(subject=ref, message=str(error)))
        return
    changes += replaced
    if missed:
        problems.append(Problem(subject=ref, message=not_updated(missed)))


def _by_path(table: PathTable, source: str, target: str, kind: LinkKind) -> str | None:
    """Return the document at a target's path relative to its source, which is how GitHub resolves links."""
    place = next(places(source, target, kind), None)
    return None if place is None else table.at(place)
