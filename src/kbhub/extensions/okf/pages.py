"""What a page that is written in a bundle gets: who wrote it, hashes of its sources, and lines in index and log."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from kbhub import __version__
from kbhub.documents.edits import Text, front_matter_of
from kbhub.documents.links import EXTERNAL
from kbhub.documents.markdown import parse_document, scan_blocks
from kbhub.editing.documents import append, front_end
from kbhub.editing.paths import Location, PageRules, change_document, find_document
from kbhub.editing.renames import as_destination
from kbhub.errors import KbhubError, WriteRefused
from kbhub.extensions.okf.bundles import INDEX, LOG, SOURCES, declared, hash_of, id_of, is_reserved, path_in, sources_of
from kbhub.extensions.okf.conformance import uncited
from kbhub.hub import Hub
from kbhub.index.references import short_hash
from kbhub.reading.links import PathTable

GENERIC = "Reference"
"""The type of a page that was given none."""

_VERBS = {"created": ("Creation", "Added"), "deleted": ("Deletion", "Removed")}
_BULLET = re.compile(r"[ \t]*([-*+])[ \t]+\[", re.MULTILINE)
_MARKUP = re.compile(r"([\\`*_\[\]<>])")


def _is_page(place: Location) -> bool:
    return place.name.endswith(".md") and not is_reserved(place.path) and declared(place.base)


def _values(
    hub: Hub, place: Location, old: Text | None, new: Text, given: Mapping[str, Any], client: str | None, body: bool
) -> Mapping[str, Any] | None:
    front = front_matter_of(new)
    listed = sources_of({**front.values, **given}) if place.name.endswith(".md") else []
    made = any({"id", "hash"} <= one.keys() or path_in(place.base, one).startswith(SOURCES) for one in listed)
    if front.problem or not (made or _is_page(place)):
        return None
    values: dict[str, Any] = {}
    if not {**front.values, **given}.get("type"):
        values["type"] = GENERIC
    before = front_matter_of(old).values.get("generated") if old else None
    if body and "generated" not in given and front.values.get("generated") == before:
        at = datetime.fromtimestamp(hub.options.clock(), UTC)
        by = f"{re.sub('[:/ ]+', '-', client)}/kbhub-{__version__}" if client else f"kbhub/{__version__}"
        values["generated"] = {"by": by, "at": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
    sources = given.get("sources") or (made and front.values["sources"])
    if sources:
        values["sources"] = [_source(hub, place, one) for one in (sources if isinstance(sources, list) else [sources])]
    return values


def _source(hub: Hub, place: Location, source: Any) -> Any:
    """Return a source as an entry, with the hash of the document that it names, if it does."""
    entry = {"resource": source} if isinstance(source, str) else source
    if not isinstance(entry, dict) or not isinstance(name := entry.get("resource"), str) or EXTERNAL.match(name):
        return entry
    path = path_in(place.base, entry)
    kept = path.startswith(SOURCES)
    ref = f"{place.base.id}@{path}" if name.startswith("/") else name
    with suppress(KbhubError, OSError, ValueError):
        # The base need not search what it keeps.
        found = replace(place, path=path) if kept else find_document(hub, ref)
        if not (digest := hash_of(found.base, found.path)):
            return entry
        entry = {"id": id_of(path), **entry} if kept else entry
        resource = f"/{found.path}" if found.base.id == place.base.id else found.ref
        return {**entry, "resource": resource, "hash": entry.get("hash", short_hash(digest))}
    return entry


def entry(title: str, path: str, about: str = "") -> str:
    """Return the line of an index on a page."""
    name = _MARKUP.sub(r"\\\1", " ".join(title.split()))
    return f"* [{name}]({as_destination(path)}){f' - {about}' if about else ''}"


def _follow(hub: Hub, place: Location, action: str, text: Text | None) -> Iterator[str]:
    if text and place.name.endswith(".md"):
        for fault in uncited("\n".join(text.bare)):
            yield f"Line {fault.line}: {fault.message} {fault.remedy}"
    if not _is_page(place):
        return
    document = parse_document(place.path, text.encoded() if text else b"")
    day = datetime.fromtimestamp(hub.options.clock(), UTC).date().isoformat()
    word, verb = _VERBS.get(action, ("Update", "Changed"))
    what = f"`{place.path}`" if action == "deleted" else entry(document.title, f"/{place.path}")[2:]
    about = " ".join(str(document.front_matter.get("description") or "").split())

    def listed(home: str, index: Text) -> Text:
        table, links = PathTable([place.path]), parse_document(home, index.encoded()).links
        found = ((link.line, table.resolve(home, link.target, link.kind)) for link in links)
        at = [line - 1 for line, one in found if one is not None and one.by == "path"]
        if action == "deleted":
            for number in reversed([number for number in at if _BULLET.match(index.lines[number])]):
                index = index.replaced(number, number + 1, ())
        if at or action == "deleted":
            return index
        bullets = _BULLET.findall("".join(index.lines))
        line = entry(document.title, posixpath.relpath(place.path, posixpath.dirname(home) or "."), about)
        line = (bullets[-1] if bullets else "*") + line[1:]
        with suppress(WriteRefused):
            return append(home, index, line, str(document.front_matter.get("type")).strip()).text
        return append(home, index, line, None).text

    def recorded(_: str, log: Text) -> Text:
        if action == "deleted":  # what it says of the page stays, without the link
            former = re.compile(rf"\[((?:\\.|[^\[\]\\])*)\]\({re.escape(as_destination(f'/{place.path}'))}\)")
            log = replace(log, lines=tuple(former.sub(r"\1", line) for line in log.lines))
        return logged(log, day, f"* **{word}**: {verb} {what}.")

    for name, change in ((LOG, recorded), *([(INDEX, listed)] if action in _VERBS else [])):
        if home := _nearest(hub, place, name):
            try:
                change_document(hub, home, partial(_applied, change, home.path))
            except KbhubError as error:
                yield f"{home.path} was not updated: {error}"


def _applied(change: Callable[[str, Text], Text], home: str, old: Text) -> tuple[Text, None]:
    return change(home, old), None


def _nearest(hub: Hub, place: Location, name: str) -> Location | None:
    """Return the file of a name in the folder of a page, or in one above it."""
    folder = place.path
    while folder:
        folder = posixpath.dirname(folder)
        with suppress(KbhubError):
            found = find_document(hub, f"{place.base.id}@{posixpath.join(folder, name)}")
            if found.path == posixpath.join(folder, name):
                return found
    return None


def logged(text: Text, day: str, entry: str) -> Text:
    """Add an entry to a log, below the heading of its day; the newest day and entry come first."""
    newline, bare = text.newline, text.bare
    headings = scan_blocks(bare, front_end(text), 0).headings
    below = next((one for one in headings if re.fullmatch(r"\d{4}-\d\d-\d\d", one.text) and one.text <= day), None)
    if below is None:
        lead = [newline] * (1 + (not text.ends_with_newline)) if text.lines else []
        return text.replaced(len(text.lines), len(text.lines), (*lead, f"## {day}{newline}", entry + newline))
    if below.text < day:
        lines = (f"{'#' * below.level} {day}{newline}", entry + newline, newline)
        return text.replaced(below.line - 1, below.line - 1, lines)
    end = next((one.line - 1 for one in headings if one.line > below.line), len(bare))
    if entry in bare[below.line : end]:
        return text
    at = below.line + (not bare[below.line].strip() if below.line < end else 0)
    return text.replaced(at, at, (entry + newline,))


RULES = PageRules(_values, _follow)
