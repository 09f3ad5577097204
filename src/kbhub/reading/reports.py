"""Public result types except for search: frozen pydantic models; see `types`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from kbhub.frozen import Model
from kbhub.sync.report import PASSED_OVER
from kbhub.types import Base, Kind, Problem, Skipped, Workspace

EdgeKind = Literal["link", "backlink", "related", "tag", "near"]
"""How two documents are related: by a link from or to the document, an entry of `related`, a shared tag, or meaning."""

EDGE_KINDS: tuple[EdgeKind, ...] = ("link", "backlink", "related", "tag", "near")
"""All edge kinds, in the order of answers."""


class Reading(Model):
    """A document, or a part of it, as it is on disk now."""

    ref: str = Field(description="Its ref.")
    docid: str = Field(description="Its short id.")
    title: str = Field(description="Its title.")
    start_line: int = Field(description="First line shown, from 1.")
    end_line: int = Field(description="Last line shown.")
    total_lines: int = Field(description="Lines of the whole document.")
    offset: int = Field(0, description="Characters of the first line that were left out before the text.")
    text: str = Field(description="Those lines, verbatim; the last may be cut, then `rest` reads on within it.")
    rest: str | None = Field(None, description="The ref that reads on, if something was left out.")
    hash: str = Field("", description="First 12 hex digits of the SHA-256 of the file's bytes.")
    contexts: tuple[str, ...] = Field((), description="What the user says of the place where it lies.")
    deleted: str | None = Field(None, description="That its file is gone, since when, and that its text was kept.")


class Unread(Model):
    """A ref that could not be read."""

    ref: str = Field(description="As it was asked for.")
    message: str = Field(description="Why, and what is near.")


class ReadResult(Model):
    """The answer to `read`."""

    readings: tuple[Reading, ...] = Field((), description="In the order asked for.")
    unread: tuple[Unread, ...] = Field((), description="Refs that could not be read.")
    total: int = Field(0, description="Documents that were asked for, on all pages.")
    cursor: str | None = Field(None, description="Brings the documents left for the next page; none on the last.")


class BaseStatus(Model):
    """One base and the state of its index."""

    base: Base = Field(description="The base.")
    documents: int = Field(0, description="Documents in the index.")
    chunks: int = Field(0, description="Chunks in the index.")
    vectors: int = Field(0, description="Chunks with a vector.")
    reranked: int | None = Field(
        None, description="Texts with a vector of the transformer that reranks; none if it is not used."
    )
    index: Path | None = Field(None, description="The index file; none if there is none yet.")
    index_bytes: int = Field(0, description="Its size.")
    synced: str | None = Field(None, description="When it was last brought in step (ISO 8601, UTC).")
    behind: int | None = Field(
        None, description="Files that are new, changed or gone since; none if that was not looked for."
    )
    passed_over: dict[str, int] = Field({}, description=PASSED_OVER)
    indexing: str | None = Field(None, description="Progress, while indexing goes on.")
    watched: str | None = Field(None, description="How changes are noticed, where a server watches.")
    problems: tuple[Problem, ...] = Field((), description="Files that could not be indexed as they should.")


class Gap(Model):
    """A recurring question that nothing here answers."""

    id: str = Field(description="Id, for `kbhub gaps --close ID`.")
    question: str = Field(description="In the words of the query that is nearest to all of them.")
    count: int = Field(description="Queries that ask it, of those that the log still has.")
    last_asked: str = Field(description="When it was last asked (ISO 8601, UTC).")
    clients: tuple[str, ...] = Field((), description="Who asked: names of MCP clients, or `user`.")
    state: Literal["open", "answered", "closed"] = Field(
        "open", description="`open`, `answered` by something written since, or `closed` by the user."
    )
    since: str = Field(description="When it came to be so.")
    answer: str | None = Field(None, description="Ref of what answers it, or answered it before it was open again.")
    reopened: str | None = Field(None, description="When it was opened again after it had been answered.")


class QuerySummary(Model):
    """What was asked in this project lately, and what nothing answers."""

    logged: bool = Field(description="Whether queries are logged.")
    asked: int = Field(0, description="Queries of the last hour.")
    strong: int = Field(0, description="Those of them that were answered.")
    weak: int = Field(0, description="Those that may have been.")
    none: int = Field(0, description="Those that nothing covers.")
    gaps: int = Field(0, description="Open gaps: recurring questions that nothing answers.")
    top_gaps: tuple[Gap, ...] = Field((), description="The three that are asked most.")


class TagUse(Model):
    """A tag and how many documents have it."""

    tag: str = Field(description="The tag, as it is compared: in small letters.")
    documents: int = Field(description="Documents that have it, over all bases.")


class MemorySummary(Model):
    """How the memories of this project and its user are doing."""

    memories: int = Field(description="How many there are.")
    strength: float = Field(description="Their mean strength, 0 to 1.")
    faded: int = Field(description="Those that have not been used for so long that they fade no further.")
    superseded: int = Field(description="Those that another one replaces.")


class DaemonStatus(Model):
    """The daemon that serves this user's editor windows."""

    pid: int = Field(description="Its process.")
    address: str = Field(description="Its socket, or the address of its port on the loopback interface.")
    http: str | None = Field(None, description="Address of its HTTP endpoint, if it has one.")
    since: str | None = Field(None, description="Since when it has been ready (ISO 8601, UTC).")
    version: str = Field(description="Its version of kbhub, which may be another.")


class Status(Model):
    """What is here: workspace, bases, problems."""

    version: str = Field(description="Version of kbhub.")
    workspace: Workspace = Field(description="The directory kbhub works for.")
    config: Path | None = Field(None, description="The global config that was read; none if there is none.")
    embedder: str = Field(description="The embedder, or why there is none.")
    bases: tuple[BaseStatus, ...] = Field((), description="Active bases.")
    problems: tuple[Problem, ...] = Field((), description="What cannot be used, and what to do.")
    looked_for: tuple[str, ...] = Field((), description="Places tried for the project base.")
    notes: tuple[str, ...] = Field((), description="What is not searched, and what would include it, in sentences.")
    tags: tuple[TagUse, ...] = Field((), description="The tags that most documents have; on the command line.")
    memories: MemorySummary | None = Field(None, description="The memories; on the command line, if there are any.")
    queries: QuerySummary | None = Field(None, description="What was asked lately, and what nothing answers.")
    hooks: str = Field("", description="What hooks delivered in the last days; on the command line, if anything.")
    daemon: DaemonStatus | None = Field(None, description="The daemon; on the command line, if one is running.")


class Finding(Model):
    """What one check of `kbhub doctor` found."""

    check: str = Field(description="What was looked at: `sqlite`, `config`, `permissions`, `index` and so on.")
    level: Literal["ok", "warning", "error"] = Field(description="Whether it works, works less well, or does not work.")
    subject: str = Field("", description="What it is about, if there are several: a base id, a file or a folder.")
    message: str = Field(description="What was found.")
    remedy: str = Field("", description="What to do about it.")
    fixable: bool = Field(False, description="Whether `kbhub doctor --fix` does that safely.")


class Diagnosis(Model):
    """What `kbhub doctor` found, and what it mended."""

    findings: tuple[Finding, ...] = Field(description="One or more per check, in the order of the checks.")
    mended: tuple[str, ...] = Field((), description="What `--fix` did, in sentences.")
    failed: tuple[str, ...] = Field((), description="What `--fix` could not do, and why.")


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
