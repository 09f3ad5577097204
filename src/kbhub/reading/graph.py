"""The link graph of all active bases, each read once per index generation, and why links lead to no document.

Nothing that a link names is opened; files are only looked for in active bases and the project's own repository.
"""

from __future__ import annotations

import math
import os
import posixpath
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from fnmatch import fnmatchcase
from functools import cache, cached_property, lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from kbhub.documents.walk import inside_of
from kbhub.errors import DocumentNotFound, IndexUnavailable, KbhubError
from kbhub.index.catalogue import front_matter_of, link_rows
from kbhub.index.engine import DocumentRow, Index
from kbhub.index.query.parser import fold
from kbhub.index.references import ref_of
from kbhub.reading.links import (
    PAGE,
    PATH_KINDS,
    LinkKind,
    PathTable,
    Resolution,
    SiteSettings,
    files_by_name,
    folded,
    from_root,
    places,
    site_folders,
    site_settings,
    stem,
    table_of,
)
from kbhub.reading.lists import WILD, short_docids
from kbhub.reading.resolver import Resolver
from kbhub.sync.freshness import first_indexes, why_unread
from kbhub.types import Base, Skipped
from kbhub.values import Value, struct
from kbhub.workspace.formats import is_markdown
from kbhub.workspace.project import PROJECT_ID

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.reading.nearness import Means

REMEMBERED = 10_000
"""Tags whose ancestors are cached; vaults have some hundred."""


class TagTable:
    """The tags of a set of documents, given as written."""

    def __init__(self, tagged: Iterable[tuple[Node, Sequence[str]]]) -> None:
        self.having: dict[str, list[Node]] = defaultdict(list)
        """Key of a tag → documents with it or a tag below it."""
        self.own: Counter[str] = Counter()
        """Key of a tag → number of documents with the tag itself."""
        self.size = 0
        """Number of documents with any tag."""
        self._forms: dict[str, Counter[str]] = defaultdict(Counter)
        for who, tags in tagged:
            levels_of = [levels for tag in tags if (levels := _levels(tag))]
            self.own.update({levels[-1][0] for levels in levels_of})
            self.size += bool(levels_of)
            for key, form in chain.from_iterable(levels_of):
                self._forms[key][form] += 1
            for key in {key for key, _ in chain.from_iterable(levels_of)}:
                self.having[key].append(who)

    def form(self, key: str) -> str:
        """Return the most frequent spelling of a tag; of equally frequent ones, the lower-case one."""
        return min(self._forms[key].items(), key=lambda item: (-item[1], item[0].swapcase()))[0]

    def tree(self) -> list[str]:
        """Return the keys of all tags in tree order, the most frequent first."""
        return sorted(self.having, key=lambda key: [(-len(self.having[above]), above) for above in keys_of((key,))])

    def matching(self, name: str) -> list[str]:
        """Return the keys that a name (any case, with or without `#`) stands for; with `*` or `?`, all that match."""
        key = key_of(name)
        if WILD.isdisjoint(key):
            return [key] if key in self.having else []
        return [tag for tag in self.having if fnmatchcase(tag, key)]

    def alike(self, tags: Sequence[str]) -> dict[Node, tuple[float, list[str]]]:
        """Return document → share of the weight of the tags (0 to 1), and the keys of shared tags, rarest first.

        A tag weighs the logarithm of its rarity. The document whose tags are given is itself among the results.
        """
        own_keys = [key for key in keys_of(tags) if key in self.having]
        weights = {key: math.log((self.size + 1) / len(self.having[key])) for key in own_keys}
        whole = sum(weights.values())
        shared: dict[Node, list[str]] = defaultdict(list)
        for key in sorted(own_keys, key=lambda key: (-weights[key], key)):
            for who in self.having[key]:
                shared[who].append(key)
        return {
            who: (sum(weights[key] for key in keys) / whole if whole else 0.0, keys) for who, keys in shared.items()
        }


def keys_of(tags: Iterable[str]) -> list[str]:
    """Return the distinct keys of tags and their ancestors."""
    return list(dict.fromkeys(key for tag in tags for key, _ in _levels(tag)))


def key_of(tag: str) -> str:
    """Return the key of a tag: case, spaces, `#` and outer slashes do not matter."""
    levels = _levels(tag)
    return levels[-1][0] if levels else ""


@lru_cache(maxsize=REMEMBERED)
def _levels(tag: str) -> tuple[tuple[str, str], ...]:
    """Return (key, spelling) of a tag's ancestors, outermost first, and of itself."""
    parts = [" ".join(part.split()) for part in tag.strip().lstrip("#").split("/")]
    parts = [part for part in parts if part]
    return tuple((fold("/".join(parts[:end])), "/".join(parts[:end])) for end in range(1, len(parts) + 1))


RELATED: Final = "related"
"""Case-folded front-matter key whose entries are links."""

MOST_ENTRIES = 1000
"""Most entries of `related` per document; real documents have some ten."""

_EXTERNAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|mailto:")
"""Prefix of an entry of `related` that is a URL."""

Node = tuple[str, str]
"""A document: (id of its base, path)."""


@struct
class WrittenLink:
    """A link as written in a document."""

    path: str
    target: str
    """Decoded path or name, without the fragment."""
    fragment: str
    text: str
    line: int | None
    """From 1; None for a front-matter entry that was not found in the text."""
    kind: LinkKind


@struct(frozen=False)
class BaseLinks:
    """The documents and links of one base, for one generation of its index."""

    base: Base
    generation: int
    table: PathTable
    documents: Mapping[str, DocumentRow]
    """By path, sorted."""
    links: Sequence[tuple[WrittenLink, Resolution | None]]
    """Each link with the document of this base it leads to, if any."""
    means: Means | None = None
    """Mean vectors of its documents; read lazily."""


@struct
class Edge:
    """A link and its target."""

    source: Node
    link: WrittenLink
    goal: Node | None
    """None if the target is no document of an active base; see `Faults` for what it is then."""
    by: str = ""
    others: tuple[Node, ...] = ()
    """This and `by` are those of `Resolution`."""


class Graph(Value):
    """All links between the documents of the active bases, for one state of their indexes."""

    bases: Mapping[str, BaseLinks]
    """By base id, the project base first."""
    active: Sequence[Base]
    """All bases a ref may name, including those with unreadable indexes."""
    git_root: Path | None
    skipped: tuple[Skipped, ...] = ()
    """Bases with unreadable indexes."""
    leaving: Mapping[Node, Sequence[Edge]] = field(default_factory=dict)
    """Outgoing links of a document, in order; entries of `related` last."""
    coming: Mapping[Node, Sequence[Edge]] = field(default_factory=dict)
    """Links to a document from others."""

    def document(self, node: Node) -> DocumentRow:
        """Return the indexed data of a document."""
        return self.bases[node[0]].documents[node[1]]

    def ref(self, node: Node) -> str:
        """Return the ref of a document."""
        return ref_of(self.bases[node[0]].base, node[1], self.active)

    def docid(self, node: Node) -> str:
        """Return the short docid of a document."""
        return self._docids[self.document(node).docid]

    @cached_property
    def tags(self) -> TagTable:
        """The tags of all documents."""
        return self.tags_in(self.bases)

    def tags_in(self, bases: Iterable[str]) -> TagTable:
        """Return the tags of the documents of some bases, by id."""
        return TagTable(
            ((name, path), row.tags) for name in bases for path, row in self.bases[name].documents.items() if row.tags
        )

    @cached_property
    def _docids(self) -> dict[str, str]:
        return short_docids(row.docid for base in self.bases.values() for row in base.documents.values())


@struct(frozen=False)
class _Held:
    """The cached graph of a hub."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    links: dict[tuple[str, Path], BaseLinks] = field(default_factory=dict)
    state: tuple[Any, ...] = ()
    graph: Graph | None = None


def unread(hub: Hub, graph: Graph) -> tuple[Skipped, ...]:
    """Return the bases that a graph lacks, or of which it may lack documents."""
    unfinished = {
        base: Skipped(base=base, reason=f"It is still being indexed ({done} of {todo} files).")
        for base, (done, todo) in first_indexes(hub).items()
    }
    return (*(skipped for skipped in graph.skipped if skipped.base not in unfinished), *unfinished.values())


def graph_of(hub: Hub) -> Graph:
    """Return the link graph of a hub's active bases, rebuilt only for changed indexes or bases; none is synced."""
    held = hub.state(_Held)
    with held.lock:
        discovery = hub.discovery()
        links_by_base: dict[str, BaseLinks] = {}
        skipped: list[Skipped] = []
        for base in discovery.bases:
            index = hub.index(base)
            try:
                links_by_base[base.id] = _links_of(base, index, held.links.get((base.id, index.path)))
            except IndexUnavailable as error:
                skipped.append(Skipped(base=base.id, reason=why_unread(hub, error)))
        git_root = discovery.workspace.git_root
        state = (git_root, tuple(skipped), discovery.bases, *(one.generation for one in links_by_base.values()))
        if held.graph is None or held.state != state:
            held.links = {(one.base.id, hub.index(one.base).path): one for one in links_by_base.values()}
            held.graph, held.state = joined(links_by_base, discovery.bases, git_root, tuple(skipped)), state
        return held.graph


def _links_of(base: Base, index: Index, cached: BaseLinks | None) -> BaseLinks:
    with index.snapshot():
        generation = index.generation()
        if cached is not None and cached.generation == generation and cached.base == base:
            return cached
        rows = {row.path: row for row in index.every_document()}
        table, written = table_of(base, index), written_links(index)
    links = [(link, table.resolve(link.path, link.target, link.kind)) for link in written]
    return BaseLinks(base, generation, table, rows, links)


def written_links(index: Index) -> list[WrittenLink]:
    """Return all links of a base, entries of `related` last; call it in a snapshot of its index."""
    links = [WrittenLink(*row) for row in link_rows(index)]  # type: ignore[arg-type]  # kinds come from the parser
    for path, front, text in front_matter_of(index, RELATED):
        links += related_links(path, front, text.split("\n"))
    return links


def related_links(path: str, front: Mapping[str, Any], lines: Sequence[str]) -> Iterator[WrittenLink]:
    """Yield the entries of `related` in the front matter of a document, whose lines are given."""
    start = next((at for at, line in enumerate(lines) if line.strip().casefold().startswith(RELATED)), len(lines))
    for entry in islice(dict.fromkeys(entries(related_in(front))), MOST_ENTRIES):
        # Without Obsidian's brackets and link text.
        named = entry.strip().removeprefix("[[").removesuffix("]]").partition("|")[0].strip()
        target, _, fragment = named.partition("#")
        if (target or fragment) and not _EXTERNAL.match(target):
            line = next((at + 1 for at in range(start, len(lines)) if entry in lines[at]), None)
            yield WrittenLink(path, target.strip(), fragment.strip(), entry, line, "related")


def related_in(front: Mapping[str, Any]) -> Any:
    """Return the value of `related` in front matter, or None."""
    return next((value for key, value in front.items() if key.strip().casefold() == RELATED), None)


def entries(value: Any) -> Iterator[str]:
    """Yield the texts and numbers of a front matter value: one, or a list of them."""
    if isinstance(value, list):
        for item in value:
            yield from entries(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and (text := str(value).strip()):
        yield text


def joined(
    bases: Mapping[str, BaseLinks], active: Sequence[Base], git_root: Path | None, skipped: tuple[Skipped, ...] = ()
) -> Graph:
    """Merge the links of all bases and resolve those between bases."""
    by_name = {folded(name): links for links in bases.values() for name in (links.base.id, *links.base.names)}
    real_path = cache(_real_path)
    leaving: dict[Node, list[Edge]] = defaultdict(list)
    coming: dict[Node, list[Edge]] = defaultdict(list)
    for name, base_links in bases.items():
        for link, resolution in base_links.links:
            source, home, found = (name, link.path), name, resolution
            called, mark, inside = link.target.partition("@")
            other = by_name.get(folded(called)) if mark else None
            if other and inside and (named := other.table.resolve("", inside, "related")):
                home, found = other.base.id, named
            if found:
                others = tuple((home, path) for path in found.others)
                edge = Edge(source, link, (home, found.path), found.by, others)
            else:
                goal = _led_out(bases, base_links.base, link, git_root, real_path)
                edge = Edge(source, link, goal, "path" if goal else "")
            leaving[source].append(edge)
            if edge.goal is not None and edge.goal != source:
                coming[edge.goal].append(edge)
    edges = {"leaving": dict(leaving), "coming": dict(coming)}
    return Graph(bases=bases, active=active, git_root=git_root, skipped=skipped, **edges)


def _led_out(
    bases: Mapping[str, BaseLinks], home: Base, link: WrittenLink, git_root: Path | None, real: Callable[[str], str]
) -> Node | None:
    """Resolve a path that leaves its base; None if it leads to no other base."""
    for place in places_on_disk(home, link, git_root):
        folder, name = posixpath.split(place)
        for path in dict.fromkeys((place, posixpath.join(real(folder), name))):
            for other in bases.values():
                inside = inside_of(other.base.path.as_posix(), path, "/")
                if inside is not None and (found := other.table.at(inside)) is not None:
                    return other.base.id, found
    return None


def _real_path(folder: str) -> str:
    with suppress(OSError, ValueError):  # not a possible file name
        return os.path.realpath(folder).replace(os.sep, "/")
    return folder


def places_on_disk(base: Base, link: WrittenLink, git_root: Path | None) -> Iterator[str]:
    """Yield the absolute paths, with `/`, that a link in a base may mean, inside the base or not.

    GitHub resolves paths with a leading `/` from the git root of the workspace.
    """
    root, target = base.path.as_posix(), from_root(link.target)
    folder = posixpath.join(root, posixpath.dirname(link.path))
    # On a site, a page is the folder that its links start from, and a folder above it or of its files the root.
    above = site_folders(link.path)
    starts = [folder, *([posixpath.join(root, stem(link.path))] if above else [])]
    if target.startswith("/"):
        repository = repository_of(base, git_root)
        above = [root, *(posixpath.join(root, one) for one in above)]
        starts = [root, *([repository.as_posix()] if repository else [])]
        starts += [posixpath.join(one, assets) for one in above for assets in ("", *ASSETS)]
    elif not target.startswith(("./", "../")):
        starts.insert(1, root)
    for start in dict.fromkeys(starts):
        yield posixpath.normpath(posixpath.join(start, target.lstrip("/")))


def repository_of(base: Base, git_root: Path | None) -> Path | None:
    """Return the git root of the workspace if a base is part of its repository."""
    own = base.id == PROJECT_ID or base.origin == "docs"
    return git_root if own and git_root is not None and base.path.is_relative_to(git_root) else None


ASSETS = ("static", "public")
"""Folders of a site's files other than pages, whose addresses are without them."""

_LABEL = re.compile(r"/[\w.-]+\.rst")
_GENERATED = re.compile(r"(?:^|/)(?:authors|categor(?:y|ies)|tags?)(?:/[^/.]+)?/?$")
"""End of the address of a page that a site makes of a folder or a tag."""

MOST_SAME = 1000
"""Most files with the same name that are considered."""

Status = Literal["document", "file", "outside", "broken"]
"""What a link leads to: a document; another file or folder; a place outside all bases; nothing."""


@struct
class ResolvedLink(WrittenLink):
    """A link with its target, or why it leads nowhere."""

    status: Status
    goal: Node | None
    others: tuple[Node, ...]
    """Other documents it could mean."""
    by: str
    """How it was resolved: `itself`, `path`, `name`, `title` or `site`."""
    why: str
    """Why it is broken or outside, in words; for a file, its path in its base."""


def resolved_links(hub: Hub, base: Base) -> tuple[ResolvedLink, ...]:
    """Return all links of a base and entries of `related`, resolved or with a reason, by document in order."""
    graph = graph_of(hub)
    if base.id not in graph.bases:
        reasons = {skipped.base: skipped.reason for skipped in graph.skipped}
        raise IndexUnavailable(base.id, reasons.get(base.id, "the base is not active"))
    faults, resolved = Faults(graph), []
    for path in graph.bases[base.id].documents:
        for edge in graph.leaving.get((base.id, path), ()):
            link, (status, why) = edge.link, faults.verdict(edge)
            written = (link.path, link.target, link.fragment, link.text, link.line, link.kind)
            resolved.append(ResolvedLink(*written, status, edge.goal, edge.others, edge.by, why))
    return tuple(resolved)


class Faults:
    """Explains what links lead to; caches what it sees on disk."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._site = cache(lambda name: site_settings(graph.bases[name].base))
        self._files = cache(files_by_name)

    def verdict(self, edge: Edge) -> tuple[Status, str]:
        """Return the kind of a link's target, and why or where if it is no document."""
        if edge.goal is not None:
            return "document", ""
        home, target = self._graph.bases[edge.source[0]].base, edge.link.target
        name, mark, path = target.partition("@")
        for base in self._graph.active if mark else ():
            if folded(name) in map(folded, (base.id, *base.names)):
                if base.id not in self._graph.bases:
                    return "outside", f"base {name} has no readable index"
                if (place := _existing(base, path)) is not None:
                    return "file", place
                return "broken", f"base {base.id} has no document {path!r}"
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
        if (site := self._site(home.id)) and (found := _of_site(site, home, edge.link)):
            return found
        if edge.link.path.endswith(".rst") and edge.link.fragment and _LABEL.fullmatch(edge.link.target):
            return "outside", "it may be a label of another project"
        if edge.link.kind == "wikilink" and folded(edge.link.target) in ("toc", "_toc_"):
            return "outside", "the build of the site writes its table of contents there"
        if edge.link.kind not in PATH_KINDS:
            end = folded(edge.link.target)
            for path in self._files(home.path).get(end.rpartition("/")[2], ())[:MOST_SAME]:
                if f"/{folded(path)}".endswith(f"/{end}"):
                    return "file", path
        return "broken", "no such document or file"


def _existing(base: Base, path: str) -> str | None:
    """Return a path in a base if a file or folder exists there within the base, symlinks resolved."""
    if "\0" in path or not path.strip("/"):
        return None
    if base.engine:  # it holds documents only, so that nobody can tell whether another file is there
        return None if is_markdown(path) else path
    return path if exists_below(base.path, f"{base.path.as_posix()}/{path}") else None


def _of_site(site: SiteSettings, home: Base, link: WrittenLink) -> tuple[Status, str] | None:
    """Return the verdict on a file beside the pages of a site, and on a page that only its build writes."""
    target = from_root(link.target)
    for assets in ("", *ASSETS) if target.startswith("/") else ():
        place = f"{site.folder}/{assets}{target}"
        if exists_below(site.folder, place):
            return "file", os.path.relpath(place, home.path).replace(os.sep, "/")
    if link.target.endswith(PAGE) and not any(places(link.path, link.target, link.kind)):
        return "outside", "it leads out of the pages of the site"
    starts = ("", *(f"{root}/" for root in ("docs", *site.roots)))
    for place in places(link.path, link.target, link.kind):
        if any(place.removeprefix(start) in site.pages for start in starts) or _GENERATED.search(place):
            return "outside", "the build of the site writes it"
    return None


def exists_below(root: Path, place: str) -> bool:
    """Return whether there is a file or folder, links resolved, in a folder."""
    with suppress(OSError, ValueError, RuntimeError):  # missing, not a possible file name, or a symlink loop
        return Path(place).resolve(strict=True).is_relative_to(os.path.realpath(root))
    return False


def found_document(hub: Hub, graph: Graph, ref: str) -> tuple[Node, tuple[str, ...]]:
    """Return the indexed document that a ref names, and notes; lines and heading are ignored."""
    ref = ref.encode("utf-8", "replace").decode("utf-8")
    with Resolver(hub).opened() as resolver:
        _, place = resolver.one(ref)
        base_links = graph.bases.get(place.base.id)
        if base_links is None or place.path not in base_links.documents:
            if skipped := next((one for one in unread(hub, graph) if one.base == place.base.id), None):
                raise KbhubError(f"{skipped.base}: {skipped.reason}")
            reason = f"it is not indexed yet; run `kbhub admin index {place.base.id}`"
            raise DocumentNotFound(resolver.ref(place), reason)
        return (place.base.id, place.path), resolver.notes([place])
