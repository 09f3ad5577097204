"""What is to be said about a document that was just written: links that lead nowhere, tags and titles of twins."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING, Any

from kbhub.code_references import Sources
from kbhub.errors import IndexUnavailable
from kbhub.graph.resolving import PathTable
from kbhub.index.mentions import tag_counts
from kbhub.index.names import document_names
from kbhub.project import PROJECT_ID
from kbhub.references import ref_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.graph.resolving import LinkKind
    from kbhub.hub import Hub
    from kbhub.types import Base, Document

MAX_WARNINGS = 20
"""Warnings of one answer."""

ALIKE = 0.8
"""Share of words (of both titles' together) from which two titles are nearly the same: four of five."""


def warnings_about(hub: Hub, base: Base, document: Document) -> tuple[str, ...]:
    """Say what a reader would stumble over in a document.

    Args:
        hub: the hub; what its indexes know is what links and tags are compared with.
        base: the document's base.
        document: as it is now.
    """
    found = [*document.problems, *_broken_refs(hub, base, document)]
    try:
        known = _Known(hub, base, document.path)
    except IndexUnavailable:
        return tuple(found[:MAX_WARNINGS])
    found += [*known.broken_links(document), *known.similar_tags(document), *known.similar_titles(document)]
    more = len(found) - MAX_WARNINGS
    return (*found[:MAX_WARNINGS], *([f"And {more} more warnings."] if more > 0 else []))


class _Known:
    """What the indexes know that a document is compared with."""

    def __init__(self, hub: Hub, base: Base, path: str) -> None:
        self.base = base
        self.bases = hub.discovery().bases
        self.git = hub.discovery().workspace.git_root
        self.targets: dict[str, PathTable] = {}
        self.titles: dict[str, list[str]] = {}
        self.tags: Counter[str] = Counter()
        for one in self.bases:
            index = hub.index(one)
            try:
                with index.snapshot():
                    names, paths = list(document_names(index)), index.paths()
                    self.tags += tag_counts(index, without=path if one.id == base.id else "")
            except IndexUnavailable:
                continue
            self.targets[one.id] = PathTable(paths, names)
            for where, name in names:
                if one.id != base.id or where != path:
                    self.titles.setdefault(name, []).append(ref_of(one, where, self.bases))

    def broken_links(self, document: Document) -> Iterator[str]:
        """Name the links and entries of `related` that lead to no document and no file."""
        for link in document.links:
            if not self._leads_somewhere(document.path, link.target, link.kind):
                yield f"Line {link.line}: the link to {link.target!r} leads nowhere."
        for entry in entries(document.front_matter.get("related")):
            target = entry.removeprefix("[[").removesuffix("]]")
            if not self._leads_somewhere(document.path, target, "related"):
                yield f"`related` names {entry!r}, which is no document."

    def similar_tags(self, document: Document) -> Iterator[str]:
        """Name the tags that are new and differ from a known one by case or plural alone."""
        by_form: dict[str, list[str]] = {}
        for tag in self.tags:
            by_form.setdefault(tag_form(tag), []).append(tag)
        for tag in document.tags:
            others = [other for other in by_form.get(tag_form(tag), ()) if other != tag]
            if others and tag not in self.tags:
                other = max(others, key=lambda one: (self.tags[one], one))
                yield f"The tag {tag!r} is new; {other!r} is there already (documents: {self.tags[other]})."

    def similar_titles(self, document: Document) -> Iterator[str]:
        """Name a document that has nearly the same title."""
        mine = _words(document.title)
        for title, refs in self.titles.items():
            words = _words(title)
            if mine and len(mine & words) >= ALIKE * len(mine | words):
                yield f"{refs[0]} has nearly the same title, {title!r}; one document is easier to keep than two."
                return

    def _leads_somewhere(self, source: str, target: str, kind: LinkKind) -> bool:
        name, mark, path = target.partition("@")
        other = next((one for one in self.bases if mark and name in (one.id, *one.names)), None)
        if other is not None:
            targets = self.targets.get(other.id)
            return targets is None or targets.resolve("", path, "related") is not None
        mine = self.targets.get(self.base.id)
        if mine is None or mine.resolve(source, target, kind):
            return True
        root = os.path.realpath(self.base.path)
        inside = [str(self.git)] if self.git and self.base.id == PROJECT_ID else []
        for start in (os.path.dirname(os.path.join(root, source)), root):  # noqa: PTH118, PTH120
            try:
                place = os.path.realpath(os.path.join(start, target.lstrip("/")))  # noqa: PTH118
                contained = any(place == one or place.startswith(f"{one}{os.sep}") for one in (root, *inside))
                if contained and os.path.exists(place):  # noqa: PTH110
                    return True
            except (OSError, ValueError):  # no file has such a name
                continue
        return False


def entries(value: Any) -> list[str]:
    """Give the texts of a front matter value that may be one or a list."""
    values = value if isinstance(value, list) else [value]
    return [text.strip() for text in values if isinstance(text, str) and text.strip()]


NO_PLURALS = frozenset(
    (
        *("alias", "analytics", "aws", "bias", "bus", "canvas", "chaos", "devops", "dns", "dos", "gas", "goods"),
        *("graphics", "gps", "https", "ios", "iis", "jenkins", "kubernetes", "lens", "macos", "mathematics", "news"),
        *("nfs", "physics", "politics", "postgres", "redis", "rss", "sas", "series", "species", "tls", "vfs"),
        *("windows", "xs"),
    )
)
"""Words that end like a plural and are none, or mean something else in the singular (`https` and `http`)."""


def tag_form(tag: str) -> str:
    """Give what is equal for tags that differ by case, accents' form, `-`/`_` or English plural alone."""
    text = unicodedata.normalize("NFC", tag).casefold().replace("_", "-").replace(" ", "-")
    if re.split(r"[-/]", text)[-1] in NO_PLURALS:
        return text
    if text.endswith("ies") and len(text) > 4:
        return f"{text[:-3]}y"
    if re.search(r"(?:s|x|z|ch|sh)es$", text):
        return text[:-2]
    return text[:-1] if text.endswith("s") and not text.endswith("ss") and len(text) > 2 else text


def _broken_refs(hub: Hub, base: Base, document: Document) -> Iterator[str]:
    """Name the entries of `refs` whose file or symbol is not in the project."""
    refs = entries(document.front_matter.get("refs"))
    git = hub.discovery().workspace.git_root
    if base.id != PROJECT_ID or git is None:
        return
    sources = Sources(git)
    for entry in refs:
        if fault := sources.fault(entry):
            yield f"`refs` names {entry!r}, but {fault.reason}."


def _words(title: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", unicodedata.normalize("NFC", title).casefold()))
