"""Public result types except for search: frozen pydantic models; see `types`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from kbhub.frozen import Model
from kbhub.types import Base, Kind, Problem, Skipped, Workspace

PASSED_OVER = "End of the name → files that hold text and are of a kind that is not taken."

EdgeKind = Literal["link", "backlink", "related", "tag", "near"]
"""How two documents are related: by a link from or to the document, an entry of `related`, a shared tag, or meaning."""

EDGE_KINDS: tuple[EdgeKind, ...] = ("link", "backlink", "related", "tag", "near")


class Reading(Model):
    """A document, or a part of it, as it is on disk now."""

    ref: str = Field(description="Its ref.")
    docid: str = Field(description="Its short id.")
    title: str = Field(description="Its title.")
    start_line: int = Field(description="First line shown, from 1.")
    end_line: int = Field(description="Last line shown.")
    total_lines: int = Field(description="Lines of the whole document.")
    offset: int = Field(0, description="Characters skipped at the start of the first line.")
    text: str = Field(description="Those lines, verbatim; if the last is cut, `rest` continues within it.")
    rest: str | None = Field(None, description="Ref to continue reading, if something was left out.")
    hash: str = Field("", description="First 12 hex digits of the SHA-256 of the file's bytes.")
    contexts: tuple[str, ...] = Field((), description="Description of the place, from the config.")
    deleted: str | None = Field(None, description="That its file is gone, since when, and that its text was kept.")


class Unread(Model):
    """A ref that could not be read."""

    ref: str = Field(description="The ref as requested.")
    message: str = Field(description="Why, and similar refs.")


class ReadResult(Model):
    """The answer to `read`."""

    readings: tuple[Reading, ...] = Field((), description="In the requested order.")
    unread: tuple[Unread, ...] = Field((), description="Refs that could not be read.")
    notes: tuple[str, ...] = Field((), description="Refs that were taken for other paths, as sentences.")
    total: int = Field(0, description="Number of requested documents, on all pages.")
    cursor: str | None = Field(None, description="Cursor for the next page; null on the last.")


class BaseStatus(Model):
    """One base and the state of its index."""

    base: Base = Field(description="The base.")
    documents: int = Field(0, description="Documents in the index.")
    chunks: int = Field(0, description="Chunks in the index.")
    vectors: int = Field(0, description="Chunks with a vector.")
    reranked: int | None = Field(
        None, description="Texts with a vector of the transformer for reranking; null if it is not used."
    )
    index: Path | None = Field(None, description="The index file; null if it does not exist yet.")
    index_bytes: int = Field(0, description="Its size.")
    synced: str | None = Field(None, description="When it was last synced (ISO 8601, UTC).")
    behind: int | None = Field(None, description="Number of files new, changed or gone since; null if not checked.")
    passed_over: dict[str, int] = Field({}, description=PASSED_OVER)
    indexing: str | None = Field(None, description="Progress of indexing.")
    watched: str | None = Field(None, description="How changes are detected, if a server watches.")
    problems: tuple[Problem, ...] = Field((), description="Files that could not be fully indexed.")


class Gap(Model):
    """A recurring question that nothing here answers."""

    id: str = Field(description="Id, for `kbhub gaps --close ID`.")
    question: str = Field(description="The query most similar to all of them.")
    count: int = Field(description="Number of logged queries that ask it.")
    last_asked: str = Field(description="When it was last asked (ISO 8601, UTC).")
    clients: tuple[str, ...] = Field((), description="Who asked: names of MCP clients, or `user`.")
    state: Literal["open", "answered", "closed"] = Field(
        "open", description="`open`, `answered` by something written since, or `closed` by the user."
    )
    since: str = Field(description="When it got this state.")
    answer: str | None = Field(None, description="Ref of its answer, or of its answer before it was opened again.")
    reopened: str | None = Field(None, description="When it was opened again after it had been answered.")


class QuerySummary(Model):
    """What was asked in this project lately, and what nothing answers."""

    logged: bool = Field(description="Whether queries are logged.")
    asked: int = Field(0, description="Number of queries in the last hour.")
    strong: int = Field(0, description="Number of them that were answered.")
    weak: int = Field(0, description="Number of them that may have been answered.")
    none: int = Field(0, description="Number of them that nothing covers.")
    gaps: int = Field(0, description="Number of open gaps: recurring questions without an answer.")
    top_gaps: tuple[Gap, ...] = Field((), description="The three most frequent gaps.")


class TagUse(Model):
    """A tag and how many documents have it."""

    tag: str = Field(description="The tag in lower case, as compared.")
    documents: int = Field(description="Documents that have it, over all bases.")


class MemorySummary(Model):
    """How the memories of this project and its user are doing."""

    memories: int = Field(description="Number of memories.")
    strength: float = Field(description="Their mean strength, 0 to 1.")
    faded: int = Field(description="Number of them that have faded as far as memories fade, unused.")
    superseded: int = Field(description="Number of them that another one replaces.")


class DaemonStatus(Model):
    """The daemon that serves this user's editor windows."""

    pid: int = Field(description="Its process id.")
    address: str = Field(description="Its socket, or the address of its port on the loopback interface.")
    http: str | None = Field(None, description="Address of its HTTP endpoint, if it has one.")
    since: str | None = Field(None, description="When it became ready (ISO 8601, UTC).")
    version: str = Field(description="Its version of kbhub, which may be another.")


class Status(Model):
    """What is here: workspace, bases, problems."""

    version: str = Field(description="Version of kbhub.")
    workspace: Workspace = Field(description="The workspace directory.")
    config: Path | None = Field(None, description="The global config in use; null if there is none.")
    embedder: str = Field(description="The embedder, or why there is none.")
    bases: tuple[BaseStatus, ...] = Field((), description="Active bases.")
    problems: tuple[Problem, ...] = Field((), description="What cannot be used, and what to do.")
    looked_for: tuple[str, ...] = Field((), description="Places tried for the project base.")
    notes: tuple[str, ...] = Field((), description="What is not searched, and how to include it, as sentences.")
    tags: tuple[TagUse, ...] = Field((), description="The most frequent tags; on the command line.")
    memories: MemorySummary | None = Field(None, description="The memories; on the command line, if there are any.")
    queries: QuerySummary | None = Field(None, description="Recent queries, and gaps.")
    hooks: str = Field("", description="What hooks delivered recently; on the command line, if anything.")
    daemon: DaemonStatus | None = Field(None, description="The daemon; on the command line, if one is running.")


class Finding(Model):
    """What one check of `kbhub doctor` found."""

    check: str = Field(description="What was checked: `sqlite`, `config`, `permissions`, `index` and so on.")
    level: Literal["ok", "warning", "error"] = Field(description="Whether it works, works less well, or does not work.")
    subject: str = Field("", description="What it is about, if there are several: a base id, a file or a folder.")
    message: str = Field(description="What was found.")
    remedy: str = Field("", description="What to do about it.")
    fixable: bool = Field(False, description="Whether `kbhub doctor --fix` can do that.")


def ok(check: str, message: str, subject: str = "") -> Finding:
    """Return the finding that something works."""
    return Finding(check=check, level="ok", subject=subject, message=message)


def bad(
    check: str,
    message: str,
    remedy: str,
    subject: str = "",
    level: Literal["ok", "warning", "error"] = "warning",
    *,
    fixable: bool = False,
) -> Finding:
    """Return the finding that something works less well, or not at all, and what to do about it."""
    return Finding(check=check, level=level, subject=subject, message=message, remedy=remedy, fixable=fixable)


class Diagnosis(Model):
    """Findings and repairs of `kbhub doctor`."""

    findings: tuple[Finding, ...] = Field(description="Findings in the order of the checks, one or more per check.")
    fixed: tuple[str, ...] = Field((), description="What `--fix` did, as sentences.")
    failed: tuple[str, ...] = Field((), description="What `--fix` could not do, and why.")


class NamedDocument(Model):
    """What names a document in an answer."""

    ref: str = Field(description="Its ref.")
    docid: str = Field(description="Its short id.")
    base: str = Field(description="Id of its base.")
    title: str = Field(description="Its title.")


class Neighbour(NamedDocument):
    """A document that something joins to another."""

    kind: EdgeKind = Field(
        description="How they are related: `link` to it, `backlink` from it, `related`, `tag`, `near`."
    )
    direction: Literal["out", "in", "both"] = Field(description="Who names whom: `in` is the neighbour naming.")
    hop: int = Field(ge=1, description="Distance from the requested document, in links.")
    via: str | None = Field(None, description="Ref of the document one step before it, from the second hop on.")
    line: int | None = Field(None, description="Line of the link, in the document that holds it.")
    context: str = Field("", description="Text of the link; the shared tags.")
    heading: str = Field("", description="Heading or block that the link names, as written.")
    count: int = Field(1, description="Number of such links between the two; the first is shown.")
    score: float | None = Field(None, description="`near`: cosine similarity; `tag`: share of its tags' weight.")
    ambiguous: tuple[str, ...] = Field((), description="Other refs that the link could mean; the nearest was chosen.")


class LeftLink(Model):
    """A link of the document that leads to no document."""

    line: int | None = Field(None, description="Its line.")
    kind: str = Field(description="`markdown`, `reference`, `wikilink`, `embed` or `related`.")
    target: str = Field(description="As written, with its heading.")
    text: str = Field("", description="What is shown for it.")
    status: Literal["file", "outside", "broken"] = Field(
        description="`file`: another file; `outside`: out of all bases; `broken`: nothing there."
    )
    why: str = Field("", description="Where the file is, or what is wrong.")


class Related(NamedDocument):
    """What `related` knows of one document."""

    ref: str = Field(description="Ref of the document.")
    tags: tuple[str, ...] = Field((), description="Its tags.")
    hops: int = Field(description="Number of links followed; 0 for none.")
    neighbours: tuple[Neighbour, ...] = Field((), description="By kind, within it by hop, then the strongest first.")
    totals: dict[str, int] = Field(
        default_factory=dict, description="Kind → number of neighbours, shown or not; at most 100 for `near`."
    )
    left: tuple[LeftLink, ...] = Field((), description="Its links that lead to no document, broken ones first.")
    notes: tuple[str, ...] = Field((), description="That the ref was taken for another path, as a sentence.")
    skipped: tuple[Skipped, ...] = Field((), description="Bases that could not be read, and why.")


class TagCount(Model):
    """A tag and how many documents have it."""

    tag: str = Field(description="The most frequent spelling, without `#`; `a/b` is nested in `a`.")
    count: int = Field(description="Number of documents with it or a tag nested in it.")
    own: int = Field(description="Number of documents with it.")
    depth: int = Field(0, description="Parent tags.")


class TaggedDocument(NamedDocument):
    """A document that has a tag asked for, or that links join to one."""

    kind: Kind = Field("document", description="What it is.")
    tags: tuple[str, ...] = Field((), description="Its tags.")
    hop: int = Field(0, description="0 if it has a requested tag; otherwise the distance from one that has, in links.")
    via: str | None = Field(None, description="Ref of the document one step before it.")
    edge: EdgeKind | None = Field(None, description="How it is related to that one.")


class Tags(Model):
    """All tags, or the documents of some."""

    names: tuple[str, ...] = Field((), description="Requested tags; empty for a list of all.")
    tags: tuple[TagCount, ...] = Field(
        (), description="Without names: nested tags below their parents, most frequent first."
    )
    documents: tuple[TaggedDocument, ...] = Field((), description="With names: documents with any of them first.")
    tagged: int = Field(0, description="Number of documents with any of the names, or any tag, shown or not.")
    total: int = Field(0, description="Number of tags or documents, shown or not.")
    unknown: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Name that is not a tag → similar tags."
    )
    skipped: tuple[Skipped, ...] = Field((), description="Bases that could not be read, and why.")
