"""Pages of a bundle: whether they follow the specification, and what one that is written gets.

What the specification requires is an error, what it advises a warning; pages made of sources should cite them. A
written page gets who wrote it, hashes of its sources, and lines in index and log.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from kbhub import __version__
from kbhub.documents.edits import Text
from kbhub.documents.frontmatter import FrontMatter, read_front_matter
from kbhub.documents.links import EXTERNAL
from kbhub.documents.markdown import LINK_DEFINITION, heading_end, parse_document, scan_blocks
from kbhub.editing.documents import append
from kbhub.editing.findings import AuditRun, Found, Material, Severity, check, front_matter_fault, key_line
from kbhub.editing.paths import Location, PageRules, change_document, find_document
from kbhub.editing.renames import as_destination
from kbhub.errors import KbhubError, WriteRefused
from kbhub.extensions.okf import bundles
from kbhub.extensions.okf.bundles import INDEX, LOG, SOURCES, SOURCES_KEY, VERSION_KEY
from kbhub.hub import Hub
from kbhub.index.catalogue import front_matter_of, texts
from kbhub.index.references import short_hash
from kbhub.reading.links import PathTable
from kbhub.values import struct

STATES = ("draft", "stable", "deprecated")

COMPUTATION = "Attested Computation"
"""The only type with keys of its own."""

_ACTOR = re.compile(r"(?:human|process):\S|[^\s:/][^:/]*/\S")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_ENTRY = re.compile(r"\s*[-*+][ \t]+\[[^\]]+\]\(")
_LINK = re.compile(r"!?\[[^\[\]]*\]\([^()]*\)")
_MARK = re.compile(r"\[\^[^\]]+\]")


@struct
class Fault:
    """What does not follow the specification."""

    message: str
    remedy: str
    line: int = 1
    severity: Severity = "error"


def faults(path: str, text: str, *, lists: bool) -> Iterator[Fault]:
    """Yield the faults of a Markdown file; `lists` says whether there are pages that it could list."""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    front, name = read_front_matter(lines), path.rpartition("/")[2]
    if name == INDEX:
        yield from _of_index(path, lines, front, lists=lists)
    elif name == LOG:
        yield from _of_log(lines, front)
    elif front.problem:
        message, line = front_matter_fault(front.problem)
        yield Fault(message, "Fix it: a page begins with valid front matter.", line)
    elif not front.closing:
        yield Fault("The page has no front matter.", "Begin it with front matter that has a `type`.")
    else:
        kind = front.values.get("type")
        if not isinstance(kind, str) or not kind.strip():
            line = key_line(lines[: front.closing], "type") or 1
            yield Fault("The page has no `type`.", "Name its kind in a word or two: `type: Reference`.", line)
        yield from _of_page(lines, front)


def _of_page(lines: Sequence[str], front: FrontMatter) -> Iterator[Fault]:
    values, head = front.values, lines[: front.closing]
    headings = {heading.text for heading in scan_blocks(lines, front.body, front.closing).headings}

    def fault(key: str, message: str, remedy: str, severity: Severity = "warning") -> Fault:
        return Fault(message, remedy, key_line(head, key) or 1, severity)

    given, remedy = values.get("sources", []), "Name the source: `- resource:` a URL, a path or a scope."
    if not isinstance(given, list):
        yield fault("sources", "`sources` is no list.", remedy)
    for number, source in enumerate(given if isinstance(given, list) else (), 1):
        if not isinstance(source, Mapping) or not isinstance(source.get("resource"), str) or not source["resource"]:
            yield fault("sources", f"Entry {number} of `sources` has no `resource`.", remedy)
        elif (day := source.get("last_modified")) is not None and not _is_day(day):
            message = f"Entry {number} of `sources` has {day!r} as `last_modified`, not a plain date."
            yield fault("sources", message, remedy)
    for key, moment in (("generated", False), ("verified", True)):
        events = values.get(key, [])
        for event in events if isinstance(events, list) and key == "verified" else [events] if events else []:
            if message := _of_event(event, moment=moment):
                remedy = f"Write `{key}: {{ by: human:NAME, at: 2026-06-25T09:00:00Z }}`, or `AGENT/VERSION` as `by`."
                yield fault(key, f"`{key}` {message}.", remedy)
    if (status := values.get("status")) is not None and status not in STATES:
        yield fault("status", f"`status` is {status!r}.", f"Use one of {', '.join(STATES)}.")
    if (day := values.get("stale_after")) is not None and not _is_day(day):
        yield fault("stale_after", f"`stale_after` is {day!r}, not a plain date.", "Write it as `2026-09-23`.")
    if values.get("type") == COMPUTATION:
        if not values.get("runtime"):
            yield fault("type", "A computation has no `runtime`.", "Say what runs it: `runtime: bigquery`.")
        if not values.get("computation") and "Computation" not in headings:
            remedy = "Put it below `# Computation`, or name its file: `computation: PATH`."
            yield fault("type", "The computation is missing.", remedy)
    if "timestamp" in values and "generated" not in values:
        remedy = "Write `generated: { by: …, at: … }` instead."
        yield fault("timestamp", "`timestamp` is of version 0.1.", remedy, "info")
    if "Citations" in headings and "sources" not in values:
        yield fault("", "`# Citations` is of version 0.1.", "Name the sources under `sources` instead.", "info")


def _of_event(event: Any, *, moment: bool) -> str:
    """Return what is wrong with who did something and when; `moment` says whether the time is required."""
    if not isinstance(event, Mapping) or not event.get("by"):
        return "does not say `by` whom"
    if not isinstance(event["by"], str) or not _ACTOR.match(event["by"]):
        return f"names {event['by']!r}, which is neither `AGENT/VERSION`, `human:NAME` nor `process:NAME`"
    at = event.get("at")
    if at is None:
        return "does not say when (`at`)" if moment else ""
    with suppress(ValueError, TypeError):
        if datetime.fromisoformat(at) and not _DAY.fullmatch(at):
            return ""
    return f"has {at!r} as `at`, which is no date with a time"


def _is_day(value: Any) -> bool:
    with suppress(ValueError):
        return isinstance(value, str) and bool(_DAY.fullmatch(value) and date.fromisoformat(value))
    return False


def _of_index(path: str, lines: Sequence[str], front: FrontMatter, *, lists: bool) -> Iterator[Fault]:
    if front.problem or (front.closing and path != INDEX):
        remedy = f"Remove it: only the uppermost {INDEX} may have some, with `{VERSION_KEY}`."
        yield Fault(f"{INDEX} has front matter.", remedy)
    elif more := sorted(front.values.keys() - {VERSION_KEY}):
        remedy = f"Keep only `{VERSION_KEY}`; if it is a page, rename it."
        yield Fault(f"{INDEX} has `{more[0]}` in its front matter.", remedy, key_line(lines, more[0].casefold()) or 1)
    headings = scan_blocks(lines, front.end, front.closing).headings
    if not headings:
        yield Fault(f"{INDEX} has no sections.", "Group its entries below headings.", front.end + 1)
    first = headings[0].line if headings else front.end
    if lists and not any(map(_ENTRY.match, lines[first:])):
        yield Fault(f"{INDEX} lists no page.", "Add an entry per page: `* [Title](page.md) - what it is about`.", first)


def _of_log(lines: Sequence[str], front: FrontMatter) -> Iterator[Fault]:
    headings = scan_blocks(lines, front.end, front.closing).headings
    if headings and not _is_day(headings[0].text):
        del headings[0]  # the title
    if not headings:
        yield Fault(f"{LOG} has no dates.", "Group its entries below headings such as `## 2026-05-22`.")
    last = ""
    for heading in headings:
        if not _is_day(heading.text):
            yield Fault(f"The heading {heading.text!r} is no date.", "Write it as `## 2026-05-22`.", heading.line)
        elif last and heading.text > last:
            yield Fault(f"{heading.text} is below {last}.", "Put the newest entries first.", heading.line)
        else:
            last = heading.text


def uncited(text: str) -> Iterator[Fault]:
    """Yield paragraphs, lists and tables of a page that cite none of its sources, which have an id and a hash.

    Footnotes cite them by id. Code and links claim nothing.
    """
    lines = [line.rstrip("\r") for line in text.split("\n")]
    front = read_front_matter(lines)
    named = [one for one in bundles.sources_of(front.values) if one.get("id")]
    marks = [f"[^{one['id']}]" for one in named]
    blocks = scan_blocks(lines, front.body, front.closing)
    headings = ((one.line, heading_end(lines, one.line - 1)) for one in blocks.headings)
    hidden = {at for first, last in (*blocks.fences, *blocks.raw, *headings) for at in range(first, last + 1)}
    start, said = 0, ""
    checked = (*lines[front.body :], "") if any("hash" in one for one in named) else ()
    for at, line in enumerate(checked, front.body + 1):
        if line.strip() and at not in hidden and not LINK_DEFINITION.match(line):
            start, said = start or at, said + line
        elif said and not _MARK.sub("", said).rstrip().endswith(":"):  # what announces a list is one with it
            if not any(mark in said for mark in marks) and any(map(str.isalnum, _LINK.sub("", said))):
                yield Fault("No source is cited for this.", f"End it with {' or '.join(marks)}, or remove it.", start)
            start, said = 0, ""


@check("sources", severity="warning")
def SOURCES_CHECK(_: AuditRun, material: Material) -> Iterator[Found]:  # noqa: N802 - it becomes a `Check`
    """Find what pages made of sources claim without one."""
    with material.hub.index(material.base).snapshot() as index:
        paths = [path for path, *_ in front_matter_of(index, SOURCES_KEY) if path in material.documents]
        for path, text in texts(index, paths):
            for fault in uncited(text):
                yield Found(material, path, fault.message, fault.remedy, fault.line)


@check("okf", severity="error")
def CHECK(run: AuditRun, material: Material) -> Iterator[Found]:  # noqa: N802 - it becomes a `Check`
    """Find pages that do not follow the format: in bundles, and in every base that is asked for it by name."""
    index, only = material.hub.index(material.base), run.selected == {"okf"}
    with index.snapshot():
        if not (bundles.is_bundle(index) or (only and run.named)):
            if only:
                why = f"its {INDEX} does not declare `{VERSION_KEY}`; name the base to check it nevertheless."
                run.notes.append(f"{material.base.id}: not checked, because {why}")
            return
        paths = [path for path in material.documents if path.endswith(".md")]
        folders = {folder for path in paths if not bundles.is_reserved(path) for folder in PurePosixPath(path).parents}
        for path, text in texts(index, paths):
            for fault in faults(path, text, lists=PurePosixPath(path).parent in folders):
                yield Found(material, path, fault.message, fault.remedy, fault.line, severity=fault.severity)


GENERIC = "Reference"

_VERBS = {"created": ("Creation", "Added"), "deleted": ("Deletion", "Removed")}
_BULLET = re.compile(r"[ \t]*([-*+])[ \t]+\[", re.MULTILINE)
_MARKUP = re.compile(r"([\\`*_\[\]<>])")


def _is_page(place: Location) -> bool:
    return place.name.endswith(".md") and not bundles.is_reserved(place.path) and bundles.declared(place.base)


def _values(
    hub: Hub, place: Location, old: Text | None, new: Text, given: Mapping[str, Any], client: str | None, body: bool
) -> Mapping[str, Any] | None:
    front = new.front
    listed = bundles.sources_of({**front.values, **given}) if place.name.endswith(".md") else []
    made = any({"id", "hash"} <= one.keys() or bundles.path_in(place.base, one).startswith(SOURCES) for one in listed)
    if front.problem or not (made or _is_page(place)):
        return None
    values: dict[str, Any] = {}
    if not {**front.values, **given}.get("type"):
        values["type"] = GENERIC
    before = old.front.values.get("generated") if old else None
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
    path = bundles.path_in(place.base, entry)
    kept = path.startswith(SOURCES)
    ref = f"{place.base.id}@{path}" if name.startswith("/") else name
    with suppress(KbhubError, OSError, ValueError):
        # The base need not search what it keeps.
        found = replace(place, path=path) if kept else find_document(hub, ref)
        if not (digest := bundles.hash_of(found.base, found.path)):
            return entry
        entry = {"id": bundles.id_of(path), **entry} if kept else entry
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

    def listed(home: str, index: Text) -> tuple[Text, None]:
        table, links = PathTable([place.path]), parse_document(home, index.encoded()).links
        found = ((link.line, table.resolve(home, link.target, link.kind)) for link in links)
        at = [line - 1 for line, one in found if one is not None and one.by == "path"]
        if action == "deleted":
            for number in reversed([number for number in at if _BULLET.match(index.lines[number])]):
                index = index.replaced(number, number + 1, ())
        if at or action == "deleted":
            return index, None
        bullets = _BULLET.findall("".join(index.lines))
        line = entry(document.title, posixpath.relpath(place.path, posixpath.dirname(home) or "."), about)
        line = (bullets[-1] if bullets else "*") + line[1:]
        with suppress(WriteRefused):
            return append(home, index, line, str(document.front_matter.get("type")).strip()).text, None
        return append(home, index, line, None).text, None

    def recorded(_: str, log: Text) -> tuple[Text, None]:
        if action == "deleted":  # what it says of the page stays, without the link
            former = re.compile(rf"\[((?:\\.|[^\[\]\\])*)\]\({re.escape(as_destination(f'/{place.path}'))}\)")
            log = replace(log, lines=tuple(former.sub(r"\1", line) for line in log.lines))
        return logged(log, day, f"* **{word}**: {verb} {what}."), None

    for name, change in ((LOG, recorded), *([(INDEX, listed)] if action in _VERBS else [])):
        if home := _nearest(hub, place, name):
            try:
                change_document(hub, home, partial(change, home.path))
            except KbhubError as error:
                yield f"{home.path} was not updated: {error}"


def _nearest(hub: Hub, place: Location, name: str) -> Location | None:
    """Return the file of a name in the folder of a page, or in one above it."""
    for folder in PurePosixPath(place.path).parents:
        with suppress(KbhubError):
            found = find_document(hub, f"{place.base.id}@{folder / name}")
            if found.path == str(folder / name):
                return found
    return None


def logged(text: Text, day: str, entry: str) -> Text:
    """Add an entry to a log, below the heading of its day; the newest day and entry come first."""
    newline, bare = text.newline, text.bare
    headings = scan_blocks(bare, text.front.end, 0).headings
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
