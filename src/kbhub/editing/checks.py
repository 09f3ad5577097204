"""Warnings about a changed document: broken links and refs, near-duplicate tags, and links to it that break."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kbhub.errors import IndexUnavailable
from kbhub.hub import Hub
from kbhub.index.catalogue import tag_counts_without
from kbhub.index.references import ref_of
from kbhub.reading.code_references import Sources
from kbhub.reading.graph import RELATED, BaseLinks, Faults, WrittenLink, entries, joined, related_in, related_links
from kbhub.reading.links import LinkKind, PathTable, folded, table_of
from kbhub.types import Base, Document
from kbhub.workspace.project import PROJECT_ID

MAX_WARNINGS = 20

ALIKE = 0.8
"""Share of common words (of all words in both) from which two titles count as nearly the same: four of five."""

NO_PLURALS = frozenset(
    (
        *("alias", "analytics", "aws", "bias", "bus", "canvas", "chaos", "devops", "dns", "dos", "gas", "goods"),
        *("graphics", "gps", "https", "ios", "iis", "jenkins", "kubernetes", "lens", "macos", "mathematics", "news"),
        *("nfs", "physics", "politics", "postgres", "redis", "rss", "sas", "series", "species", "tls", "vfs"),
        *("windows", "xs"),
    )
)
"""Words that look like a plural but are none, or have another meaning in the singular (`https`, `http`)."""


def warnings_about(hub: Hub, base: Base, document: Document) -> tuple[str, ...]:
    """Return warnings about a document's current content, whose links and tags are compared with the indexes."""
    warnings, git, bases = list(document.problems), hub.discovery().workspace.git_root, hub.discovery().bases
    if base.id == PROJECT_ID and git is not None:
        sources = Sources(git)
        named = ((entry, sources.fault(entry)) for entry in entries(document.front_matter.get("refs")))
        warnings += [f"`refs` names {entry!r}, but {fault.reason}." for entry, fault in named if fault]
    path = document.path
    written = [WrittenLink(path, one.target, one.fragment, one.text, one.line, one.kind) for one in document.links]
    written += related_links(path, document.front_matter, ())
    linked: dict[str, BaseLinks] = {}
    titles: dict[str, list[str]] = {}
    tags: Counter[str] = Counter()
    for other in bases:
        with suppress(IndexUnavailable), hub.index(other).snapshot() as index:
            table = table_of(other, index)
            own = [(link, table.resolve(path, link.target, link.kind)) for link in written if other.id == base.id]
            linked[other.id] = BaseLinks(other, index.generation(), table, {}, own)
            tags += tag_counts_without(index, without=path if other.id == base.id else "")
            for at, name in table.names:
                if other.id != base.id or at != path:
                    titles.setdefault(name, []).append(ref_of(other, at, bases))
    graph = joined(linked, bases, git)
    faults = Faults(graph)
    for link in (edge.link for edge in graph.leaving.get((base.id, path), ()) if faults.verdict(edge)[0] == "broken"):
        where = f"Line {link.line}: the link to {link.target!r} is broken."
        entry = f"`related` names {link.text!r}, which is not a document."
        warnings.append(entry if link.kind == RELATED else where)
    warnings += [*_similar_tags(tags, document), *_similar_titles(titles, document)]
    more = len(warnings) - MAX_WARNINGS
    return (*warnings[:MAX_WARNINGS], *([f"And {more} more warnings."] if more > 0 else []))


def _similar_tags(tags: Counter[str], document: Document) -> Iterator[str]:
    """Yield a warning for each new tag that differs from a known one only by case or plural."""
    known = by_form(tags)
    for tag in document.tags:
        others = [other for other in known.get(tag_form(tag), ()) if other != tag]
        if others and tag not in tags:
            other = max(others, key=lambda other: (tags[other], other))
            yield f"The tag {tag!r} is new, but {other!r} already exists (documents: {tags[other]})."


def _similar_titles(titles: Mapping[str, Sequence[str]], document: Document) -> Iterator[str]:
    """Yield a warning if another document has nearly the same title."""
    words = _words(document.title)
    for title, refs in titles.items():
        others = _words(title)
        if words and len(words & others) >= ALIKE * len(words | others):
            yield f"{refs[0]} has almost the same title, {title!r}; one document is easier to maintain than two."
            return


def by_form(tags: Iterable[str]) -> dict[str, list[str]]:
    """Return the tags of each form."""
    forms: dict[str, list[str]] = {}
    for tag in tags:
        forms.setdefault(tag_form(tag), []).append(tag)
    return forms


def tag_form(tag: str) -> str:
    """Normalise a tag: case, Unicode form, `-`/`_` and English plural do not count."""
    text = unicodedata.normalize("NFC", tag).casefold().replace("_", "-").replace(" ", "-")
    if re.split(r"[-/]", text)[-1] in NO_PLURALS:
        return text
    if text.endswith("ies") and len(text) > 4:
        return f"{text[:-3]}y"
    if re.search(r"(?:s|x|z|ch|sh)es$", text):
        return text[:-2]
    return text[:-1] if text.endswith("s") and not text.endswith("ss") and len(text) > 2 else text


def _words(title: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", unicodedata.normalize("NFC", title).casefold()))


def leads_to(targets: PathTable, base: Base, home: Base, source: str, target: str, kind: LinkKind) -> str | None:
    """Return the path in a base that a link resolves to, or None if it leads elsewhere."""
    name, mark, path = target.partition("@")
    if mark and folded(name) in map(folded, (base.id, *base.names)):
        source, target, kind = "", path, RELATED
    elif home.id != base.id:
        return None
    resolution = targets.resolve(source, target, kind)
    return resolution.path if resolution else None


def related_of(front: Mapping[str, Any]) -> list[str]:
    """Return the targets in `related` of a document's front matter."""
    return [target for entry in entries(related_in(front)) if (target := plain_entry(entry))]


def plain_entry(text: str) -> str:
    """Return the target of an entry of `related`, without Obsidian's brackets."""
    return text.strip().removeprefix("[[").removesuffix("]]").partition("|")[0].partition("#")[0].strip()
