"""Convert books in EPUB: the chapters of their spine, in order."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING
from urllib.parse import unquote
from xml.etree import ElementTree

from kbhub.documents.sources.converted import decode_as, document_of_markdown
from kbhub.documents.sources.html import markdown_of
from kbhub.documents.sources.packages import local_name, metadata_of, open_package, tree_of
from kbhub.types import Document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zipfile import ZipFile

CONTAINER = "META-INF/container.xml"
PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml")
"""Media types of chapters."""

NAME_CHARACTERS = 100
"""Characters of a missing chapter's name that are shown."""

NCX = "application/x-dtbncx+xml"
"""Media type of the table of contents of EPUB 2, which books of EPUB 3 mostly have, too."""


def read_epub(path: str, data: bytes) -> Document:
    """Convert a book; a broken one, or one that `open_package` refuses, raises any exception."""
    with open_package(data) as package:
        if "META-INF/encryption.xml" in package.namelist() and b"xhtml" in package.read("META-INF/encryption.xml"):
            raise ValueError("it is encrypted")
        root = _package_file(package)
        title, values = metadata_of(package, root)
        chapters, missing = _chapters(package, root)
    names = ", ".join(name[:NAME_CHARACTERS] for name in missing[:5])
    problems = [f"Chapters that are missing are left out: {names}."] if missing else []
    return document_of_markdown(
        path, "\n\n".join(chapters), title=title, front_matter=values, shown=tuple(values), problems=problems
    )


def _package_file(package: ZipFile) -> str:
    for element in tree_of(package.read(CONTAINER)).iter():
        if local_name(element) == "rootfile" and (name := element.get("full-path")):
            return name
    raise ValueError("it names no package file")


def _chapters(package: ZipFile, root: str) -> tuple[list[str], list[str]]:
    """Return the chapters as Markdown, and the names of those that are missing."""
    tree = tree_of(package.read(root))
    folder = posixpath.dirname(root)
    items = {element.get("id"): element for element in tree.iter() if local_name(element) == "item"}
    spine = [element.get("idref") for element in tree.iter() if local_name(element) == "itemref"]
    names = dict(_contents(package, folder, items.values()))
    chapters, missing = [], []
    for identifier in dict.fromkeys(spine):
        item = items.get(identifier)
        if item is None or item.get("media-type") not in PAGES or "nav" in item.get("properties", "").split():
            continue
        member = _member(folder, item)
        try:
            markdown = markdown_of(decode_as(package.read(member), "")[0]).strip("\n")
        except KeyError:
            missing.append(member)
            continue
        has_heading = any(line.startswith("#") for line in markdown.split("\n"))
        if markdown and not has_heading and (name := names.get(member)):
            markdown = f"# {name}\n\n{markdown}"
        if markdown:
            chapters.append(markdown)
    return chapters, missing


def _contents(package: ZipFile, folder: str, items: object) -> Iterator[tuple[str, str]]:
    """Yield member and name of the entries of the table of contents that lead to the top of a chapter."""
    for item in items if isinstance(items, (list, tuple)) else list(items):  # type: ignore[call-overload]
        if item.get("media-type") != NCX:
            continue
        member = _member(folder, item)
        try:
            tree = tree_of(package.read(member))
        except (KeyError, ElementTree.ParseError):
            continue
        for point in tree.iter():
            if local_name(point) == "navPoint":
                # Not `iter`: entries are within each other.
                labels = [element for element in point if local_name(element) == "navLabel"]
                texts = [element.text for label in labels for element in label if local_name(element) == "text"]
                sources = [element.get("src", "") for element in point if local_name(element) == "content"]
                if texts and sources and "#" not in sources[0]:
                    yield _joined(posixpath.dirname(member), sources[0]), " ".join((texts[0] or "").split())


def _member(folder: str, item: ElementTree.Element) -> str:
    return _joined(folder, item.get("href", ""))


def _joined(folder: str, href: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0])))
