"""Result models of the link graph."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kbhub.frozen import Model
from kbhub.types import Kind, Skipped

EdgeKind = Literal["link", "backlink", "related", "tag", "near"]
"""How two documents are related: by a link from or to the document, an entry of `related`, a shared tag, or meaning."""

EDGE_KINDS: tuple[EdgeKind, ...] = ("link", "backlink", "related", "tag", "near")
"""All edge kinds, in the order of answers."""


class Neighbour(Model):
    """A document that something joins to another."""

    ref: str = Field(description="Its ref.")
    docid: str = Field(description="Its short id.")
    base: str = Field(description="Id of its base.")
    title: str = Field(description="Its title.")
    kind: EdgeKind = Field(description="What joins it: `link` to it, `backlink` from it, `related`, `tag`, `near`.")
    direction: Literal["out", "in", "both"] = Field(description="Who names whom: `in` is the neighbour naming.")
    hop: int = Field(ge=1, description="Steps from the document asked about.")
    via: str | None = Field(None, description="Ref of the document one step before it, from the second hop on.")
    line: int | None = Field(None, description="Line of the link, in the document that holds it.")
    context: str = Field("", description="Text of the link as it stands there; the tags that both have.")
    heading: str = Field("", description="Heading or block that the link names, as written.")
    count: int = Field(1, description="Links that join the two in this way; the first is shown.")
    score: float | None = Field(None, description="`near`: cosine similarity; `tag`: share of its tags' weight.")
    ambiguous: tuple[str, ...] = Field((), description="Refs that the link could mean as well; it took the nearest.")


class LeftLink(Model):
    """A link of the document that leads to no document."""

    line: int | None = Field(None, description="Its line.")
    kind: str = Field(description="`markdown`, `reference`, `wikilink`, `embed` or `related`.")
    target: str = Field(description="As written, with its heading.")
    text: str = Field("", description="What is shown for it.")
    status: Literal["file", "outside", "broken"] = Field(
        description="`file`: another file is there; `outside`: it leads out of every base; `broken`: nothing is there."
    )
    why: str = Field("", description="Where the file is, or what is wrong.")


class Related(Model):
    """What `related` knows of one document."""

    ref: str = Field(description="Ref of the document.")
    docid: str = Field(description="Its short id.")
    base: str = Field(description="Id of its base.")
    title: str = Field(description="Its title.")
    tags: tuple[str, ...] = Field((), description="Its tags.")
    hops: int = Field(description="Steps that were gone; none are at 0.")
    neighbours: tuple[Neighbour, ...] = Field((), description="By kind, within it by hop, then the strongest first.")
    totals: dict[str, int] = Field(
        default_factory=dict, description="Kind → neighbours of it, shown or not; of `near`, 100 at most."
    )
    left: tuple[LeftLink, ...] = Field((), description="Its links that lead to no document, broken ones first.")
    skipped: tuple[Skipped, ...] = Field((), description="Bases that could not be looked at, and why.")


class TagCount(Model):
    """A tag and how many documents have it."""

    tag: str = Field(description="As it is most often written, without `#`; `a/b` lies under `a`.")
    count: int = Field(description="Documents that have it or one under it.")
    own: int = Field(description="Documents that have it itself.")
    depth: int = Field(0, description="Tags that it lies under.")


class TaggedDocument(Model):
    """A document that has a tag asked for, or that links join to one."""

    ref: str = Field(description="Its ref.")
    docid: str = Field(description="Its short id.")
    base: str = Field(description="Id of its base.")
    title: str = Field(description="Its title.")
    kind: Kind = Field("document", description="What it is.")
    tags: tuple[str, ...] = Field((), description="Its tags.")
    hop: int = Field(0, description="0 if it has a tag asked for; else steps from one that has.")
    via: str | None = Field(None, description="Ref of the document one step before it.")
    edge: EdgeKind | None = Field(None, description="What joins it to that one.")


class Tags(Model):
    """All tags, or the documents of some."""

    names: tuple[str, ...] = Field((), description="Tags that were asked for; none for a list of all.")
    tags: tuple[TagCount, ...] = Field((), description="Without names: each under its own, the most frequent first.")
    documents: tuple[TaggedDocument, ...] = Field((), description="With names: those that have any of them first.")
    tagged: int = Field(0, description="Documents that have any of the names, or any tag; shown or not.")
    total: int = Field(0, description="Tags or documents in all, shown or not.")
    unknown: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Name that no document has as a tag → tags that are like it."
    )
    skipped: tuple[Skipped, ...] = Field((), description="Bases that could not be looked at, and why.")
