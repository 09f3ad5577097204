"""Resolve refs: find the document, or explain why there is none and suggest others."""

from __future__ import annotations

import difflib
import heapq
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Self

from kbhub.documents.filters import parse_rules
from kbhub.documents.walk import excluded_by, open_contained
from kbhub.errors import AmbiguousReference, DocumentNotFound, IndexUnavailable, PathNotContained
from kbhub.hub import Hub
from kbhub.index import references
from kbhub.index.engine import Index
from kbhub.reading.links import PathTable, folded, parts_of, stem, table_of
from kbhub.reading.lists import typed_into
from kbhub.sync.document_access import Opened, has_document, open_document
from kbhub.types import Base
from kbhub.values import struct
from kbhub.workspace.discovery import matching
from kbhub.workspace.files import is_directory
from kbhub.workspace.formats import is_markdown, markdown_paths

NEAR = 3
"""Number of suggested refs."""

NEAR_ENOUGH = 0.6
"""Minimum similarity (0 to 1, difflib's ratio) of a suggested ref."""

NEAR_AMONG = 200
"""Refs compared letter by letter, at 0.1 ms each: those that share the most parts with the target."""

PARTS_FROM = 200
"""Letters of the target that are considered."""

_SITE = re.compile(r"https?://[^/?#]+")

_DOCID = re.compile(r"#?[0-9a-fA-F]{4,16}")


def closest(target: str, refs: Iterable[str], names: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the refs that were most probably meant, likeliest first.

    A document with exactly the same file name comes before similar ones, whatever its folder. `names` maps case-folded
    titles and aliases to refs.
    """
    target = target[:PARTS_FROM]
    based = "@" in target
    by_name, by_spelling = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for ref in refs:
        by_name[_name(ref)].append(ref)
        by_spelling[_spelling(ref, based=based)].append(ref)

    def similar(name: str, known: Mapping[str, Sequence[str]]) -> list[str]:
        near = difflib.get_close_matches(name, _likely(name, known), n=NEAR, cutoff=NEAR_ENOUGH)
        return [ref for one in near for ref in _by_likeness(target, known[one])]

    alike = similar(_spelling(target, based=based), by_spelling)
    same = _by_likeness(target, by_name.get(_name(target), ()))
    found = (*same, *alike, *similar(_name(target), by_name), *similar(target.casefold(), names))
    return list(dict.fromkeys(found))[:NEAR]


def _name(ref: str) -> str:
    """Return the file name of a ref, without folder, base, extension and case."""
    return stem(ref.rpartition("/")[2].rpartition("@")[2].casefold())


def _spelling(ref: str, *, based: bool) -> str:
    """Return the part of a ref that is compared: without extension, and without a base unless the target has one."""
    return stem(ref if based else ref.rpartition("@")[2])


def _by_likeness(target: str, refs: Iterable[str]) -> list[str]:
    compare = difflib.SequenceMatcher(b=target, autojunk=False)

    def likeness(ref: str) -> tuple[float, int, str]:
        compare.set_seq1(ref[:PARTS_FROM])
        return -compare.ratio(), len(ref), ref

    return sorted(_likely(target, refs), key=likeness)


def _likely(target: str, names: Iterable[str]) -> list[str]:
    parts = parts_of(target)
    return heapq.nlargest(NEAR_AMONG, names, key=lambda name: (sum(part in name for part in parts), -len(name)))


@struct
class ResolvedDocument:
    """A document that a ref leads to."""

    base: Base
    path: str
    asked: str = ""
    """What was taken for this path: the end of it, an address or a number."""


class Resolver:
    """The documents of a hub's active bases, findable by name."""

    def __init__(self, hub: Hub) -> None:
        self.bases = hub.select()
        self._hub = hub
        self._tables: dict[str, PathTable] = {}
        self._opened: dict[str, Index] = {}
        """Base → its index."""
        self._unreadable: dict[str, str] = {}
        """Base → why its index could not be read."""

    @contextmanager
    def opened(self) -> Iterator[Self]:
        """Hold a snapshot of each readable index; all other methods are called inside."""
        with ExitStack() as stack:
            for base in self.bases:
                try:
                    self._opened[base.id] = stack.enter_context(self._hub.index(base).snapshot())
                except IndexUnavailable as error:
                    self._unreadable[base.id] = str(error)
            yield self

    def find(self, ref: str) -> tuple[references.ParsedRef, ResolvedDocument] | None:
        """Find the one document that a ref leads to, with the parsed ref; None if no base has it.

        It is tried as a path or docid, as a title, as a path of the shell, as BASE/PATH, as the end of a path, as an
        address of a site, then as a number (`ADR-0027`).
        """
        references.check_length(ref)
        meanings = references.parse_reference(ref)
        for look in (self._by_path, self._by_name, self._as_typed, self._below_base):
            for meaning in meanings:
                if place := look(meaning.target):
                    return meaning, place
        for guess, what in ((self._below, "a path or address that ends like this"), (self._numbered, "this number")):
            for meaning in meanings:
                if place := self._first(meaning.target, guess, what):
                    return meaning, replace(place, asked=meaning.target)
        return None

    def matching(self, ref: str) -> tuple[references.ParsedRef, list[ResolvedDocument]] | None:
        """Find the documents whose paths match a ref's pattern, in order; None if there are none.

        Patterns are those of `.gitignore`: without a slash they match the file name in any folder.
        """
        for meaning in references.parse_reference(ref):
            if references.is_pattern(meaning.target):
                # Outside any base, it may be relative to the shell's directory, or BASE/PATH.
                below = references.below_base(meaning.target, self.bases)
                typed = typed_into(self._hub.options.typed_in, meaning.target, self.bases)
                outside = [*typed, *([below] if below else [])]
                groups = [*self._groups(meaning.target), *(([base], path) for base, path in outside)]
                for bases, pattern in groups:
                    if places := [place for base in bases for place in self._match(base, pattern)]:
                        return meaning, places
        return None

    def notes(self, places: Iterable[ResolvedDocument]) -> tuple[str, ...]:
        """Return sentences on what was taken for the paths of documents."""
        return tuple(f"`{place.asked}` is read as `{self.ref(place)}`." for place in places if place.asked)

    def ref(self, place: ResolvedDocument) -> str:
        """Return the ref of a document for answers."""
        return references.ref_of(place.base, place.path, self.bases)

    def contexts(self, place: ResolvedDocument) -> tuple[str, ...]:
        """Return the descriptions of the path of a document."""
        return matching(place.base.contexts, self._hub.config().settings.contexts, place.path)

    def docid(self, place: ResolvedDocument) -> str:
        """Return the short docid of a document."""
        docid = references.document_id(place.base, place.path)
        try:
            return references.short_docid(docid, [*self._opened.values()])
        except IndexUnavailable:  # damaged, so it cannot name other documents either
            return references.short_docid(docid, ())

    def one(self, ref: str) -> tuple[references.ParsedRef, ResolvedDocument]:
        """Do as `find`, and raise `DocumentNotFound` if no base has it."""
        if match := self.find(ref):
            return match
        raise self.not_found(ref)

    def open(self, place: ResolvedDocument, ref: str) -> Opened:
        """Open a document, as it is now; raise `PathNotContained` or, with its ref, `DocumentNotFound` if it cannot."""
        try:
            return open_document(self._hub, place.base, place.path, self._opened.get(place.base.id))
        except OSError as error:
            raise DocumentNotFound(ref, f"its file cannot be read ({error.strerror})") from error

    def not_found(self, ref: str, *, suggest: bool = True) -> DocumentNotFound:
        """Explain why a ref leads nowhere (a rule, a path outside, an unknown base, a folder) and suggest others.

        Looking for suggestions takes some ten milliseconds.
        """
        meanings = references.parse_reference(ref)
        reason = self._why_not(meanings)
        places = ((base, path) for base in self.bases for path in self._paths(base))
        refs = {references.ref_of(*place, self.bases): place for place in places}
        target = meanings[-1].target
        below = f"{target.removeprefix('./').rstrip('/')}/"
        if not reason and below != "/" and any(near.startswith(below) for near in refs):
            return DocumentNotFound(ref, f"it is a folder; to read its documents, use `{below}**`")
        if not suggest:
            return DocumentNotFound(ref, reason)
        if references.is_pattern(target):
            return DocumentNotFound(ref, reason or "no indexed document matches the pattern")
        names: dict[str, list[str]] = {}
        for base in self.bases:
            for name, named in self._table(base).by_name.items():
                names.setdefault(name, []).extend(references.ref_of(base, path, self.bases) for path in named)
        # Do not suggest documents that are gone or may no longer be opened.
        near = [
            near
            for near in closest(target, refs, names)
            if near in refs and near not in (ref, target) and has_document(self._hub, *refs[near])
        ]
        if _DOCID.fullmatch(target) and not target.startswith("#") and self.by_docid(target.lower()):
            near.insert(0, f"#{target.lower()}")
        return DocumentNotFound(ref, reason, near)

    def _by_path(self, target: str) -> ResolvedDocument | None:
        if target.startswith("#") and _DOCID.fullmatch(target):
            return self._one(target, self.by_docid(target[1:].lower()), "a docid that starts like this")
        return self._first(target, self._in_base, "this path")

    def _by_name(self, target: str) -> ResolvedDocument | None:
        return self._first(target, self._called, "this title or alias") if target.strip() else None

    def _as_typed(self, target: str) -> ResolvedDocument | None:
        """Find the document for a path relative to the shell's working directory."""
        typed = typed_into(self._hub.options.typed_in, target, self.bases)
        return next((place for base, path in typed for place in self._in_base(base, path)), None)

    def _below_base(self, target: str) -> ResolvedDocument | None:
        """Find the document that BASE/PATH or BASE/TITLE names."""
        if not (below := references.below_base(target, self.bases)):
            return None
        in_it = f"{below[0].id}@{below[1]}"
        return self._by_path(in_it) or self._by_name(in_it)

    def _called(self, base: Base, name: str) -> list[ResolvedDocument]:
        return [ResolvedDocument(base, path) for path in dict.fromkeys(self._table(base).by_name.get(folded(name), ()))]

    def _below(self, base: Base, path: str) -> list[ResolvedDocument]:
        """Find the documents whose paths end in a path, or else the pages at an address of a site, or at its end.

        `/guides/deploy/` is `docs/guides/deploy.md`, its `index.md` or `docs/guides/02-deploy.md`.
        """
        table, address = self._table(base), _SITE.sub("", path).partition("?")[0].strip("/")
        found = [] if path.startswith("/") else [*table.ending_in(next(_forms(base, path)))]
        # A rooted path of a file is one of the system.
        if address and not found and not is_markdown(address) and ".." not in address.split("/"):
            found = table.pages("", f"/{address}") or table.below(address)
        return [place for name in found for place in self._in_base(base, name)]

    def _numbered(self, base: Base, name: str) -> list[ResolvedDocument]:
        """Find the documents that are called by their number."""
        asked = references.numbers_in(name)
        if asked.keys() != {name.casefold()}:
            return []
        numbered = [path for path in self._paths(base) if references.called(asked, base, path)]
        return [place for path in numbered for place in self._in_base(base, path)]

    def _first(
        self, target: str, look: Callable[[Base, str], list[ResolvedDocument]], what: str
    ) -> ResolvedDocument | None:
        for bases, name in self._groups(target):
            if places := [place for base in bases for place in look(base, name)]:
                return self._one(target, places, what)
        return None

    def _one(self, target: str, places: list[ResolvedDocument], what: str) -> ResolvedDocument | None:
        if len(places) > 1:
            raise AmbiguousReference(target, what, list(map(self.ref, places)))
        return places[0] if places else None

    def _groups(self, target: str) -> Iterator[tuple[list[Base], str]]:
        """Yield the bases to look in, by priority, and what to look for there."""
        if named := references.named_base(target, self.bases):
            yield [named], target.partition("@")[2]
        yield [base for base in self.bases if base.id == "project"], target
        yield [base for base in self.bases if base.id != "project"], target

    def _in_base(self, base: Base, path: str) -> list[ResolvedDocument]:
        """Find a document in a base by its path, with or without extension, indexed or not yet."""
        for name in _forms(base, path):
            with suppress(PathNotContained):
                if has_document(self._hub, base, name):
                    return [ResolvedDocument(base, name)]
        return []

    def by_docid(self, digits: str) -> list[ResolvedDocument]:
        """Return the documents whose docid starts with some digits."""
        places = []
        for base in self.bases:
            with suppress(IndexUnavailable):
                rows = index.documents_by_docid(digits) if (index := self._opened.get(base.id)) else ()
                places += [ResolvedDocument(base, row.path) for row in rows]
        return places

    def _match(self, base: Base, pattern: str) -> list[ResolvedDocument]:
        escaped = f"\\{pattern}" if pattern.startswith(("!", "#")) else pattern
        rules = parse_rules([unicodedata.normalize("NFC", escaped.removeprefix("./"))], "ref")
        return [
            ResolvedDocument(base, path)
            for path in self._paths(base)
            if any(rule.matches(unicodedata.normalize("NFC", path), directory=False) for rule in rules)
        ]

    def _paths(self, base: Base) -> list[str]:
        with suppress(IndexUnavailable):
            return index.paths() if (index := self._opened.get(base.id)) else []
        return []

    def _table(self, base: Base) -> PathTable:
        if base.id not in self._tables:
            self._tables[base.id] = PathTable(())
            with suppress(IndexUnavailable):
                if index := self._opened.get(base.id):
                    self._tables[base.id] = table_of(base, index)
        return self._tables[base.id]

    def _why_not(self, meanings: Sequence[references.ParsedRef]) -> str:
        """Return why a path is no document: a rule excludes it, it leaves all bases, or its base is unknown."""
        for target in dict.fromkeys(meaning.target for meaning in meanings):
            tried = [(base, path) for bases, path in self._groups(target) for base in bases]
            for base, _ in tried:
                if base.engine and base.id in self._unreadable:
                    return self._unreadable[base.id].rstrip(".")
            for base, path in tried:
                if reason := self._rule(base, path):
                    return reason
            if any(_leads_out(base, path) for base, path in tried):
                return "it is outside all bases"
            for base, path in tried:
                if not set(_forms(base, path)).isdisjoint(self._paths(base)):
                    return "its file is gone" if is_directory(base.path) else f"the folder {base.path} is gone"
        return references.why_no_base(meanings[0].target, self._hub.discovery())

    def _rule(self, base: Base, path: str) -> str | None:
        for name in _forms(base, path):
            try:
                open_contained(base, name).close()
            except PermissionError:
                if not _is_there(base, name):
                    continue
            except (OSError, PathNotContained, ValueError):
                continue
            if rule := excluded_by(base, name, self._hub.limits()):
                return rule
        return None


def _forms(base: Base, path: str) -> Iterator[str]:
    """Yield the paths in a base that a path can mean; an absolute one must lie in the base."""
    if os.path.isabs(path) and path.startswith(f"{base.path}{os.sep}"):  # noqa: PTH117 - any string comes here
        path = path[len(str(base.path)) + 1 :].replace(os.sep, "/")
    elif not path.startswith("/"):
        path = "/".join(part for part in path.split("/") if part not in ("", "."))
    yield from path_forms(path)


def path_forms(path: str) -> list[str]:
    """Return the spellings of a path: Unicode forms, with and without suffix."""
    path = path.removeprefix("./")
    forms = dict.fromkeys((path, unicodedata.normalize("NFC", path), unicodedata.normalize("NFD", path)))
    return [path for form in forms for path in markdown_paths(form)]


def _is_there(base: Base, path: str) -> bool:
    """Whether an unreadable path is a file, or anything in an unreadable folder of a base."""
    # On Windows, opening a folder also fails with a permission error.
    folder = path.rpartition("/")[0]
    exists = os.path.lexists(base.path / path) or (folder != "" and os.path.lexists(base.path / folder))
    return exists and not os.path.isdir(base.path / path)  # noqa: PTH112 - never raises


def _leads_out(base: Base, path: str) -> bool:
    """Return whether a path leads out of a base, directly or by a symlink in it."""
    path = next(_forms(base, path))
    with suppress(OSError, ValueError):
        try:
            open_contained(base, path).close()
        except PathNotContained:
            outside = os.path.isabs(path) or ".." in path.split("/")  # noqa: PTH117 - any string comes here
            return outside or ("\0" not in path and path != "" and os.path.lexists(base.path / path))
    return False
