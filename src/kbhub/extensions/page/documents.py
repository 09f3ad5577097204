"""Documents: their list, one rendered with everything around it, and its images."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from heapq import nsmallest
from html import unescape
from urllib.parse import quote, urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from kbhub.documents.walk import open_contained
from kbhub.errors import DocumentNotFound, KbhubError, UsageError
from kbhub.extensions.page.site import PAGES, Site, number_of, site_of
from kbhub.hub import Hub
from kbhub.index.catalogue import named_places, values_of
from kbhub.index.engine import DocumentRow, Index
from kbhub.index.references import STALE_DAYS, age_days, ref_of
from kbhub.memory.catalog import all_known, described
from kbhub.memory.results import Memory
from kbhub.reading.graph import Faults, graph_of
from kbhub.reading.lists import date_of
from kbhub.reading.neighbours import related
from kbhub.reading.read import Whole, commits, open_whole
from kbhub.reading.reports import EdgeKind
from kbhub.render.html import STATIC, Addresses, document_html, part_with, rendered
from kbhub.types import Base
from kbhub.usage.log import note_read
from kbhub.values import struct
from kbhub.workspace.discovery import covers
from kbhub.workspace.settings import Editor

EDITORS: Mapping[Editor, str] = {
    "idea": "idea://open?file={path}&line={line}",
    "sublime": "subl://open?url=file://{path}&line={line}",
    "obsidian": "obsidian://open?path={path}",
}
"""Editors with addresses of their own; those of the others are as VS Code has them, with their names."""


def editor_address(hub: Hub, whole: Whole, line: int) -> str | None:
    """Return the address that opens a document in the user's editor at a 1-based line; None if it is no local file."""
    if whole.base.engine or whole.deleted:
        return None
    path = (whole.base.path / whole.path).as_posix()
    editor = hub.config().settings.ui.editor
    template = EDITORS.get(editor, f"{editor}://file{{path}}:{{line}}")
    return template.format(path=quote(path if path.startswith("/") else f"/{path}"), line=line)


IMAGES = {f".{kind}": f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "avif")}
IMAGES |= {".jpg": "image/jpeg", ".svg": "image/svg+xml"}
"""Suffix of a file that is served as an image → its type."""

IMAGE_BYTES = 20_000_000

IMAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""Of an image that is opened by itself: an SVG is a document, and could have scripts."""

DIAGRAM_SCRIPTS = ("vendor/mermaid.tiny.js", "diagram.js")

DIAGRAM_POLICY = (
    "default-src 'none'; script-src {}; style-src 'unsafe-inline'; frame-ancestors 'self'; sandbox allow-scripts"
)
"""Of the frame that draws a diagram: it has no origin and asks for nothing, so its scripts are in it, by their hash."""

NEIGHBOURS = 12

KINDS: tuple[EdgeKind, ...] = ("link", "backlink", "related", "near")
"""Kinds of neighbours; those by tag are to be had by the tag."""

PROPERTIES = (
    *("status", "type", "confidence", "author", "authors", "by", "owner", "owners", "version"),
    *("date", "created", "updated", "modified", "reviewed", "last_reviewed", "review_by", "valid_until", "stale_after"),
)
"""Keys of front matter that say something to a reader."""

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[T ]\d\d:[\d:.]+ ?(?:Z|[+-][\d:]+)?")

PLACES = 20

LISTED = 200


@struct
class Entry:
    """A folder or a document of a list."""

    name: str
    path: str
    count: int = 0
    row: DocumentRow | None = None
    date: str | None = None
    note: str = ""
    badges: tuple[str, ...] = ()
    """The type and the status of a document."""


def documents_page(request: Request) -> Response:
    """List the content of a folder of a base, beside the bases and their folders; at first of the first base."""
    site = site_of(request)
    site.look()
    counted = counted_bases(site)
    name, folder = request.query_params.get("base"), request.query_params.get("folder", "").strip("/")
    name = name or next((base for base, count in counted if count), None)
    if name is None:
        return site.page(request, "documents.html", title="Documents", base=None, bases=counted)
    (base,) = site.hub.select([name])
    first = max(1, number_of(request.query_params.get("from", ""), 1))
    content = site.each(lambda base, index: _content(site, base, index, folder, first), {base.id})
    folder, tree, total, entries = next(content, (folder, [], 0, []))
    if folder and not entries:
        raise DocumentNotFound(f"{base.id}@{folder}", "it has no documents")
    return site.page(
        request,
        "documents.html",
        title=posixpath.basename(folder) or "Documents",
        base=base,
        bases=counted,
        folder=folder,
        said=_said_of(base, folder),
        tree=tree,
        entries=entries,
        first=first,
        step=LISTED,
        total=total,
    )


def document_page(request: Request) -> Response:
    """Show a document with its neighbours, the requested lines marked."""
    site, ref = site_of(request), request.query_params.get("ref", "")
    if not ref.strip():
        raise UsageError("No document given.")
    whole = open_whole(site.hub, ref)
    looked = "x-part" in request.headers  # beside the hits
    if not looked:
        note_read(site.hub, whole.ref)
    first, last = whole.lines or (1, 0)
    found = range(first, last + 1) if (first, last) != (1, len(whole.document.lines)) else range(0)
    line = number_of(request.query_params.get("from", ""), first)
    part = part_with(whole.document, line)
    around = None
    with suppress(KbhubError):  # in no index
        around = None if looked else related(site.hub, whole.ref, kinds=KINDS, limit=NEIGHBOURS)
    age = None if whole.row is None else age_days(whole.row, site.hub.options.clock())
    return site.page(
        request,
        "document.html",
        title=whole.document.title,
        whole=whole,
        body=document_html(whole.document, part, _addresses(site, whole), found, request.query_params.getlist("term")),
        part=part,
        description=_said(whole.document.front_matter.get("description") or ""),
        properties=_properties(whole),
        neighbours=around.neighbours if around else (),
        broken=[link for link in around.left if link.status == "broken"] if around else (),
        memories=() if looked else _memories_about(site, whole),
        commits=() if looked else commits(whole),
        age=age,
        stale=age is not None and age > STALE_DAYS,
        editor=editor_address(site.hub, whole, line),
    )


def image(request: Request) -> Response:
    """Return an image of a base; no other file is ever sent."""
    site, path = site_of(request), request.query_params.get("path", "")
    (base,) = site.hub.select([request.query_params.get("base", "")])
    kind = IMAGES.get(posixpath.splitext(path)[1].lower())
    if kind is None or base.engine:
        raise DocumentNotFound(f"{base.id}@{path}", "it is not an image")
    try:
        with open_contained(base, path) as file:
            data = file.read(IMAGE_BYTES + 1)
    except OSError as error:
        raise DocumentNotFound(f"{base.id}@{path}", error.strerror or "it cannot be read") from error
    if len(data) > IMAGE_BYTES:
        raise DocumentNotFound(f"{base.id}@{path}", f"it is larger than {IMAGE_BYTES} bytes")
    headers = {"Content-Security-Policy": IMAGE_POLICY, "Cache-Control": "no-cache"}
    return Response(data, media_type=kind, headers=headers)


def diagram(_request: Request) -> Response:
    """Return the frame that draws the diagram it is sent."""
    scripts = [(STATIC / name).read_text("utf-8") for name in DIAGRAM_SCRIPTS]
    hashes = (b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    policy = DIAGRAM_POLICY.format(" ".join(f"'sha256-{one}'" for one in hashes))
    html = rendered("diagram.html", scripts=[Markup(script) for script in scripts])  # noqa: S704 - our own
    return HTMLResponse(html, headers={"Content-Security-Policy": policy, "Cache-Control": "max-age=3600"})


def read_address(ref: str) -> str:
    """Return the address of a document in the page."""
    return f"/read?{urlencode({'ref': ref})}"


def counted_bases(site: Site) -> list[tuple[str, int]]:
    """Return the active bases with how many documents they have."""
    counts = dict(site.each(lambda base, index: (base.id, index.counts()[0])))
    return [(base.id, counts.get(base.id, 0)) for base in site.bases()]


def places(request: Request) -> Response:
    """List the pages, documents, memories and headings whose names have the words that are typed, to go to one."""
    site, text = site_of(request), request.query_params.get("q", "").strip()
    words = text.lower().split()

    def fits(name: str) -> bool:
        return all(word in name.lower() for word in words)

    def order(place: tuple[Base, str, str, str, str, int]) -> tuple[bool, bool, bool, int]:
        """Return the key of a place: the words in its name, at its beginning, a document, a short name."""
        _, _, _, title, heading, _ = place
        name = heading or title
        return not fits(name), not name.lower().startswith(text.lower()), bool(heading), len(name)

    fitting = (
        (base, *row)
        for base, rows in (site.each(lambda base, index: (base, named_places(index))) if words else ())
        for row in rows
        if fits(row[3] or f"{row[2]} {row[0]}")
    )
    bases, best = site.bases(), nsmallest(PLACES, fitting, key=order)
    return site.page(
        request,
        "places.html",
        q=text,
        fitting=[one for one in PAGES if fits(one[1])],
        places=[(ref_of(base, path, bases), *names) for base, path, *names in best],
    )


def _content(
    site: Site, base: Base, index: Index, folder: str, first: int
) -> tuple[str, list[tuple[int, Entry]], int, list[Entry]]:
    """Return a folder, or the only one of a base, its tree, the number of its entries, and those from `first` on."""
    bases, paths, entries = site.bases(), index.paths(), dict[str, Entry]()
    split = [path.split("/") for path in paths]
    counts = Counter("/".join(parts[:depth]) for parts in split for depth in range(1, len(parts)))
    having = {posixpath.dirname(path) for path in paths}
    inside: dict[str, list[str]] = {}
    for name in sorted(counts):
        inside.setdefault(posixpath.dirname(name), []).append(name)

    def whole(name: str) -> str:
        """Return a folder, or the one below it, if it has nothing else."""
        while name not in having and len(inside[name]) == 1:
            (name,) = inside[name]
        return name

    def of(above: str, name: str) -> Entry:
        return Entry(name.removeprefix(f"{above}/"), name, counts[name], note=_said_of(base, name))

    folder = folder or (whole("") if counts else "")

    def tree(above: str, depth: int) -> Iterator[tuple[int, Entry]]:
        """Yield only what is in the folder, and beside those above it; of many beside each other, the first."""
        names = list(map(whole, inside.get(above, ())))
        for name in (*names[:LISTED], *(name for name in names[LISTED:] if covers(name, folder))):
            yield depth, of(above, name)
            if covers(name, folder):
                yield from tree(name, depth + 1)
        if len(names) > LISTED:
            yield depth, Entry(f"{len(names) - LISTED} more", above)

    documents = [path for path in paths if posixpath.dirname(path) == folder]
    folders = list(map(whole, inside.get(folder, ())))
    shown = [*folders, *documents][first - 1 : first - 1 + LISTED]
    said = [values for key in ("type", "status") for values in values_of(index, shown, key)]
    for row in index.documents_at(shown):
        badges = tuple(value for path, value in said if path == row.path and isinstance(value, str))
        name, ref = posixpath.basename(row.path), ref_of(base, row.path, bases)
        entries[row.path] = Entry(name, ref, row=row, date=date_of(row), badges=badges)
    listed = [entries.get(path) or of(folder, path) for path in shown]
    return folder, list(tree("", 1)), len(folders) + len(documents), listed


def _said_of(base: Base, folder: str) -> str:
    return (base.contexts.get(f"{folder}/") or base.contexts.get(folder) or "") if folder else base.description or ""


def _addresses(site: Site, whole: Whole) -> Addresses:
    """Resolve the links of a document as the link graph does."""
    graph = graph_of(site.hub)
    faults = Faults(graph)
    edges = {edge.link.target: edge for edge in graph.leaving.get((whole.base.id, whole.path), ())}

    def link(target: str, fragment: str) -> str | None:
        edge = edges.get(target)
        if target and (edge is None or edge.goal is None):
            return None
        ref = graph.ref(edge.goal) if target and edge and edge.goal else whole.ref
        return read_address(f"{ref}#{fragment}" if fragment else ref)

    def picture(path: str) -> str | None:
        edge = edges.get(path)
        if edge is not None and edge.goal is None and (attached := faults.verdict(edge)) and attached[0] == "file":
            place = attached[1]
        elif path.startswith("/"):
            place = path.lstrip("/")
        else:
            place = posixpath.normpath(posixpath.join(posixpath.dirname(whole.path), path))
        if place.startswith("..") or ":" in path or posixpath.splitext(place)[1].lower() not in IMAGES:
            return None
        return f"/image?{urlencode({'base': whole.base.id, 'path': place})}"

    return Addresses(link, picture)


def _memories_about(site: Site, whole: Whole) -> list[Memory]:
    """Return the memories whose subject is a document or a part of it."""
    names = {whole.ref, whole.path, f"{whole.base.id}@{whole.path}"}
    return [
        described(site.hub, memory)
        for memory in all_known(site.hub)
        if any(about.partition("#")[0].partition("::")[0] in names for about in memory.facts.about)
    ]


def _properties(whole: Whole) -> list[tuple[str, str]]:
    """Return what front matter says to a reader, except for what is shown elsewhere, in the order of `PROPERTIES`."""
    values = {key.lower(): value for key, value in whole.document.front_matter.items()}
    listed = ((key, value if isinstance(value, list) else [value]) for key in PROPERTIES if (value := values.get(key)))
    shown = ((key, ", ".join(_said(one) for one in many if not isinstance(one, dict | list))) for key, many in listed)
    return [(key, text) for key, text in shown if text]


def _said(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False).strip('"')
    moment = _MOMENT.fullmatch(text)
    return moment[1] if moment else unescape(text)
