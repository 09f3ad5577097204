"""Resolve links within a base: paths as on GitHub, names as in Obsidian."""

from __future__ import annotations

import difflib
import os
import posixpath
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Literal

from kbhub.index.catalogue import document_names, document_slugs
from kbhub.index.engine import Index
from kbhub.types import Base
from kbhub.values import struct
from kbhub.workspace.formats import FOLDER_PAGES, SKIPPED_FOLDERS, is_markdown, markdown_paths
from kbhub.workspace.project import site_pages

LinkKind = Literal["markdown", "reference", "wikilink", "embed", "related"]
"""Syntax of a link; `related` is an entry of that front-matter key."""

PATH_KINDS = frozenset({"markdown", "reference"})
"""Links whose target is first tried as a path relative to the folder of their document."""

MOST_NAMED = 100
"""Documents with the same name that are compared by distance, those with the shortest paths: a base may have thousands
named `index.md`, and thousands of links to that name."""

SITE_ROOTS = frozenset({"content", "doc", "docs", "documentation", "pages", "site", "website"})
"""Folders, case-folded, that are not part of the addresses of a documentation site's pages."""

_NUMBER = re.compile(r"(?:(?<=/)|^)\d+[ _.-]+(?=[^/\d])")
"""Number in front of a file's or folder's name, which Docusaurus leaves out of addresses."""

_POST = re.compile(r"/(\d{4}/\d\d)/(?:\d\d/)?([^/]+?)(?:\.html)?/?$")
"""Address of a post of a blog, with its year and month."""

_LANGUAGE = re.compile(r"[a-z]{2}(?:-[a-z]{2,4})?", re.IGNORECASE)

_DATE = re.compile(r"\d{4}-\d\d-\d\d-")

MOST_OTHERS = 9
"""Most alternatives listed beside the chosen document."""


@struct
class Resolution:
    """The document that a link leads to."""

    path: str
    by: Literal["itself", "path", "name", "title", "site"]
    """How it was resolved: `itself` by a heading of its own document, `site` by its address on a documentation site."""
    others: tuple[str, ...] = ()
    """Other documents with the same name, the nearest first, if only distance decided."""


class PathTable:
    """The documents of a base by everything a link may call them.

    Paths are written with `/`; `names` are (path, name) of titles and aliases, `slugs` of `slug` and `id` in front
    matter, `roots` the folders of a site's pages.
    """

    def __init__(
        self,
        paths: Iterable[str],
        names: Iterable[tuple[str, str]] = (),
        slugs: Iterable[tuple[str, str]] = (),
        roots: Iterable[str] = (),
    ) -> None:
        self.paths = frozenset(paths)
        self.names = tuple(names)
        self._slugs, self._roots = tuple(slugs), tuple(f"{address_of(at)}/" for at in roots)

    @cached_property
    def _folded(self) -> dict[str, str]:
        """Folded path → path, the first of those that differ only by case."""
        return {folded(path): path for path in sorted(self.paths, reverse=True)}

    @cached_property
    def _by_end(self) -> dict[str, list[str]]:
        """Last part of a path without extension, or its last two parts → paths, shortest first."""
        paths = defaultdict(list)
        for path in sorted(self.paths, key=_length):
            whole = folded(stem(path))
            for end in {_end(whole, 1), _end(whole, 2)}:
                paths[end].append(path)
        return paths

    @cached_property
    def by_name(self) -> dict[str, list[str]]:
        """Folded title or alias → paths, shortest first."""
        paths = defaultdict(list)
        for path, name in sorted(self.names, key=lambda item: _length(item[0])):
            paths[folded(name)].append(path)
        return paths

    @cached_property
    def _by_address(self) -> dict[str, dict[str, None]]:
        """Folded address on a documentation site → paths, shortest first, then those of titles and aliases."""
        given = [(path, path) for path in self.paths]
        for path, slug in self._slugs:
            # With `/`, it starts at the root of the site, which may be any folder above.
            above = PurePosixPath(path).parents if str(slug).startswith("/") else (posixpath.dirname(path),)
            given += [(path, f"{folder}/{slug}") for folder in above]
        named = [(path, name) for path, name in self.names if name.startswith("/")]
        addresses = defaultdict[str, dict[str, None]](dict)
        for path, name in (*sorted(given, key=lambda pair: _length(pair[0])), *sorted(named)):
            address = address_of(name)
            for at in (address, *(address.removeprefix(root) for root in self._roots)):
                addresses[at][path] = None
            while address.partition("/")[0] in SITE_ROOTS:
                address = address.partition("/")[2]
                addresses[address][path] = None
        return addresses

    @cached_property
    def _by_post(self) -> dict[str, set[str]]:
        """Folded slug, or name without its date, of a file with a date in its path → paths."""
        paths = defaultdict(set)
        for path, name in [*self._slugs, *((path, address_of(path)) for path in self.paths)]:
            if _DATE.search(path):
                paths[folded(_DATE.sub("", str(name)).strip("/").rpartition("/")[2])].add(path)
        return paths

    @cached_property
    def _tops(self) -> frozenset[str]:
        """The folders at the top."""
        return frozenset(path.partition("/")[0] for path in self.paths if "/" in path)

    def pages(self, source: str, target: str) -> list[str]:
        """Return the pages that a path leads to on a documentation site, whose addresses are not those of its files."""
        if target.startswith("/"):
            top, _, rest = target.strip("/").partition("/")
            # The site's root is the base, or a folder above the page.
            above = () if ".." in target.split("/") else site_folders(source)
            places = [target.strip("/"), *(f"{root}{target}" for root in above)]
            places += [] if top in self._tops or not rest else [rest]
        else:
            # Without suffix, it is relative to the page's own address.
            folders = [posixpath.dirname(source), *([] if is_markdown(target) else [stem(source)])]
            places = [posixpath.join(folder, target) for folder in folders]
        for place in (posixpath.normpath(place.removesuffix(PAGE)) for place in places):
            if found := self._by_address.get(address_of(place)):
                end = f"/{folded(page_of(place))}"
                return [path for path in found if f"/{folded(page_of(path))}".endswith(end)] or list(found)
        if (dated := _POST.search(target)) is None:
            return []
        # The post of a blog, by an address with its date.
        month, name = dated[1].replace("/", "-"), folded(dated[2])
        posts = [path for path in self._by_post.get(name, ()) if month in path]
        return posts if len(posts) == 1 else []

    def below(self, address: str) -> list[str]:
        """Return the pages whose addresses end in one."""
        end = f"/{address_of(address.removesuffix(PAGE))}"
        return [*{path: None for at, paths in self._by_address.items() if f"/{at}".endswith(end) for path in paths}]

    def resolve(self, source: str, target: str, kind: LinkKind) -> Resolution | None:
        """Find the document that a link leads to, or None if it is not in this base.

        `source` is the path of the document with the link, `target` any decoded path or name without the fragment.
        """
        target = from_root(target)
        if not target:
            return Resolution(source, "itself")
        homes = (self.at(f"{root}/") for root in reversed(site_folders(source)) if target == "/")
        if home := next(filter(None, homes), None):
            return Resolution(home, "site")
        for place in places(source, target, kind):
            if (path := self.at(place, folders=kind in PATH_KINDS or target.endswith("/"))) is not None:
                # A bare name may mean others too, if only the folder decided; at the root it is the whole path.
                bare = kind not in PATH_KINDS and "/" not in target and "/" in path
                same = self._nearest(source, self.ending_in(target)) if bare else ()
                return Resolution(path, "path", tuple(other for other in same if other != path)[:MOST_OTHERS])
        if not target.startswith(("/", "./", "../")):
            if found_by_file := self._nearest(source, self.ending_in(target)):
                return Resolution(found_by_file[0], "name", found_by_file[1:])
            titled = () if kind in PATH_KINDS else self._nearest(source, self.by_name.get(folded(target), ()))
            if titled:
                return Resolution(titled[0], "title", titled[1:])
        for place in places(source, target, kind):
            if (path := self.at(place, folders=True)) is not None:
                return Resolution(path, "path")
        on_site = kind in PATH_KINDS and target.startswith(("/", "./", "../"))
        return next((Resolution(page, "site") for page in self.pages(source, target)), None) if on_site else None

    def at(self, place: str, *, folders: bool = True) -> str | None:
        """Return the document at a path relative to the base, with `/`; case and extension do not matter.

        A trailing `/`, or an empty path, is a folder, which leads to the document that represents it, with `folders`.
        """
        folder = place.endswith("/") or not place
        place = place.rstrip("/")
        page = markdown_paths(place.removesuffix(PAGE))[1:] if place.endswith(PAGE) else ()
        forms = () if folder else (*markdown_paths(place), *page)
        for form in forms:
            if form in self.paths:
                return form
        for form in forms:
            if path := self._folded.get(folded(form)):
                return path
        prefix = f"{folded(place)}/" if place else ""
        pages = (path for page in FOLDER_PAGES for path in markdown_paths(f"{prefix}{page}")[1:])
        return next((self._folded[page] for page in pages if page in self._folded), None) if folders else None

    def ending_in(self, target: str) -> Iterator[str]:
        """Yield documents whose path, without extension, ends in a target, shortest first."""
        end = folded(stem(target.strip("/")))
        return (path for path in self._by_end.get(_end(end, 2), ()) if f"/{folded(stem(path))}".endswith(f"/{end}"))

    def _nearest(self, source: str, paths: Iterable[str]) -> tuple[str, ...]:
        """Sort documents: in the same folder, below it, by the folders in common, then by length of path."""
        folder = posixpath.dirname(source)
        below = f"{folder}/" if folder else ""

        def distance(path: str) -> tuple[bool, bool, int, tuple[int, int, str]]:
            own = posixpath.dirname(path)
            shared = len(posixpath.commonpath([folder, own]))
            return own != folder, not path.startswith(below), -shared, _length(path)

        return tuple(sorted(dict.fromkeys(islice(paths, MOST_NAMED)), key=distance)[: MOST_OTHERS + 1])


def places(source: str, target: str, kind: LinkKind) -> Iterator[str]:
    """Yield the paths in the base that a target can mean, likeliest first; arguments as for `PathTable.resolve`."""
    folder, target = posixpath.dirname(source), from_root(target)
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


PAGE = ".html"
"""Ends the address of a page that a site makes of a document."""

SITE_SETTINGS = (
    *("_config.yml", "astro.config.mjs", "astro.config.ts", "book.toml", "docusaurus.config.js"),
    *("docusaurus.config.ts", "hugo.toml", "hugo.yaml", "mkdocs.yml", "zensical.toml"),
    *(".vitepress/config.js", ".vitepress/config.mts", ".vitepress/config.ts"),
)
"""Files with the settings of a documentation site."""

_SITE_PAGE = re.compile(r"(?<![\w./-])[\w./-]+\.mdx?\b")


@struct
class SiteSettings:
    """What the settings of the site in or above a base say."""

    folder: Path
    roots: tuple[str, ...]
    """Folders of pages, relative to `folder`; they are not part of the addresses."""
    pages: frozenset[str]
    """Paths of pages, relative to a root."""


def site_settings(base: Base) -> SiteSettings | None:
    """Return the settings of the site that a base is, or is the pages of; None if it is no site."""
    folders = () if base.engine else (base.path, base.path.parent)
    for place in (folder / name for folder in folders for name in SITE_SETTINGS):
        if named := site_pages(place):
            return SiteSettings(place.parent, named[1], frozenset(_SITE_PAGE.findall(named[0])))
    return None


def from_root(target: str) -> str:
    """Return a target with `/` in place of Docusaurus' name for the folder of the site."""
    return target.removeprefix("@site") if target.startswith("@site/") else target


def table_of(base: Base, index: Index) -> PathTable:
    """Return the table of an indexed base; call it in a snapshot of its index."""
    site = site_settings(base)
    return PathTable(index.paths(), document_names(index), document_slugs(index), site.roots if site else ())


def site_folders(path: str) -> list[str]:
    """Return the folders above a page that may be the root of its site, or of a language there, the outermost first."""
    parts = path.split("/")[:-1]
    roots = [0, *(count for count, part in enumerate(parts, 1) if part.casefold() in {*SITE_ROOTS, "src"})]
    languages = [count + 1 for count in roots if count < len(parts) and _LANGUAGE.fullmatch(parts[count])]
    return ["/".join(parts[:count]) for count in sorted({*roots[1:], *languages})]


def folded(text: str) -> str:
    """Return a path or name normalised for comparison: case, accent form and outer spaces do not matter."""
    text = text.strip()
    return text.lower() if text.isascii() else unicodedata.normalize("NFC", text).casefold()


def squashed(text: str) -> str:
    """Return what anchors and headings have in common: their letters and digits."""
    return "".join(filter(str.isalnum, folded(text)))


MOST_FILES = 50_000
"""Files of a folder that are looked at for what a link or an entry of `refs` may mean; that takes 50 to 200 ms."""


def files_by_name(root: Path) -> dict[str, list[str]]:
    """Return folded name → paths, with `/`, of the first files in a folder; skips symlinks and hidden folders."""
    names: dict[str, list[str]] = defaultdict(list)
    count = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in SKIPPED_FOLDERS)
        inside = os.path.relpath(folder, root).replace(os.sep, "/")
        for name in sorted(files):
            names[folded(name)].append(name if inside == "." else f"{inside}/{name}")
        count += len(files)
        if count > MOST_FILES:
            break
    return names


def stem(path: str) -> str:
    """Return a path without its Markdown extension."""
    return path.rpartition(".")[0] if is_markdown(path) else path


def page_of(path: str) -> str:
    """Return a path as it is in the address of its page: without suffix and the name of the page for its folder."""
    folder, _, name = stem(path).rpartition("/")
    return folder if name.casefold() in FOLDER_PAGES else stem(path)


def address_of(path: str) -> str:
    """Return the folded address of a page: without numbers, suffix and the name of the page for its folder."""
    address = folded(page_of(_NUMBER.sub("", posixpath.normpath(path)).strip("/")))
    return "" if address == "." else address


def _end(path: str, parts: int) -> str:
    return "/".join(path.rsplit("/", parts)[-parts:])


def _length(path: str) -> tuple[int, int, str]:
    return path.count("/"), len(path), path


PART = 3
"""Letters per part."""

LETTERS = 100
"""Letters of a name that are compared."""

RAREST = 8
"""Parts of a name used to find candidates: the rarest ones."""

SHARED_BY = 500
"""Names considered per part; a commoner part tells little."""

COMPARED = 20
"""Candidates compared letter by letter, at 0.05 ms each."""

_DIGITS = re.compile(r"\d+")


class Nearest:
    """An index to find the most similar of many names, case-sensitively."""

    def __init__(self, names: Iterable[str]) -> None:
        self._having: dict[str, list[str]] = defaultdict(list)
        for name in dict.fromkeys(names):
            for part in parts_of(f" {name[:LETTERS]} "):
                self._having[part].append(name)
        self.closest = cache(self._closest)

    def _closest(self, name: str, likeness: float) -> str:
        """Return the most similar name, or an empty string if none reaches `likeness` (difflib's ratio, 0 to 1).

        Names with different numbers are not candidates: whoever wrote `step-12` did not mean `step-13`.
        """
        name = name[:LETTERS]
        known = parts_of(f" {name} ").intersection(self._having)
        parts = sorted(known, key=lambda part: len(self._having[part]))
        shared = Counter(other for part in parts[:RAREST] for other in self._having[part][:SHARED_BY])
        likely = (other for other, _ in shared.most_common() if _DIGITS.findall(other) == _DIGITS.findall(name))
        return next(iter(difflib.get_close_matches(name, islice(likely, COMPARED), 1, likeness)), "")


def parts_of(text: str) -> set[str]:
    """Return the parts of a text, by which those like it are found."""
    return {text[at : at + PART] for at in range(len(text) - PART + 1)}
