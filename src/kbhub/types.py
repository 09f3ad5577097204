"""The nouns of kbhub, in one place; imports nothing of ours.

What crosses an edge (command line, MCP, Python API) is a frozen pydantic model: it is the `--json` output,
the structured result and the published schema. What is made by the thousand is a slotted dataclass that
never crosses an edge.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic import main as pydantic_main

DEFERRED = hasattr(pydantic_main, "_rebuild_lock")
"""Whether what validates and serializes a model is built when one is first made: it takes a millisecond a class, and a
process uses few of the hundred. Before 2.14, pydantic built it without a lock, and threads met a half-built one."""

Mode = Literal["keyword", "semantic", "hybrid"]
Granularity = Literal["document", "chunk"]
Fusion = Literal["convex", "rrf"]
Verdict = Literal["strong", "weak", "none"]
Kind = Literal["document", "memory", "session", "pdf"]
Origin = Literal["pointer", "knowledge", ".knowledge", "sibling", "docs", "config", "argument", "memory"]


class Model(BaseModel):
    """A frozen value that crosses an edge."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=DEFERRED)


class Problem(Model):
    """Something that is wrong and does not stop the rest."""

    subject: str = Field(description="What it is about: a base id, a file or a setting.")
    message: str = Field(description="What happened and what to do next, in one or two sentences.")


class Base(Model):
    """One folder of Markdown that is searched as a unit."""

    id: str = Field(description="Id in refs and filters; the discovered base of a project is `project`.")
    path: Path = Field(description="Its folder, absolute, links resolved.")
    origin: Origin = Field(description="How it was found.")
    names: tuple[str, ...] = Field((), description="Other ids of the same folder.")
    only: tuple[str, ...] = Field((), description="Parts of the folder that belong to it; empty means all.")
    name: str | None = Field(None, description="Readable name.")
    description: str | None = Field(None, description="What it is about, for people and agents.")
    contexts: dict[str, str] = Field(default_factory=dict, description="Path prefix → what lies there.")
    include: tuple[str, ...] = Field((), description="Patterns of further files to take, as in `.gitignore`.")
    exclude: tuple[str, ...] = Field((), description="Patterns of files to leave out, as in `.gitignore`.")
    cache_dir: Path | None = Field(None, description="Where its index lies, if not in the usual place.")
    weight: float = Field(1.0, gt=0, description="Factor on the score of its hits.")
    writable: bool = Field(False, description="Whether agents may write documents in it.")
    kind: Kind = Field("document", description="What its files are.")
    keep_deleted: tuple[str, ...] = Field((), description="Patterns of files whose text is kept when they are gone.")


class Workspace(Model):
    """The directory that kbhub works for, and how it was chosen."""

    directory: Path | None = Field(description="Absolute path, links resolved; none means global bases only.")
    source: str = Field(description="What named it: an option, a variable, the working directory, the client.")
    git_root: Path | None = Field(None, description="Nearest folder above (or it) that holds `.git`.")


class Discovery(Model):
    """The active bases for a workspace, with everything that was looked for."""

    workspace: Workspace = Field(description="The directory it was made for.")
    bases: tuple[Base, ...] = Field((), description="Active bases: the project base first, then by id.")
    problems: tuple[Problem, ...] = Field((), description="Bases and settings that cannot be used, and why.")
    looked_for: tuple[str, ...] = Field((), description="Places that were tried for the project base, in order.")
    off: bool = Field(False, description="Whether kbhub is switched off here, by the user or the project.")


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of a base as the walk saw it."""

    path: str
    """Relative to the base, with `/`."""
    size: int
    """Bytes."""
    mtime_ns: int
    """Nanoseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a document."""

    level: int
    """1 to 6."""
    text: str
    """Without marks, trailing `#` and `{#id}`."""
    line: int
    """1-based."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link out of a document, as it stands in the text."""

    target: str
    """Decoded path, name or URL, without its fragment."""
    fragment: str
    """Heading or anchor after `#`, decoded; empty if none."""
    text: str
    """What is shown for it."""
    line: int
    """1-based."""
    kind: Literal["markdown", "wikilink", "embed", "reference"]


@dataclass(frozen=True, slots=True)
class Document:
    """One file, parsed. Nothing of its text is lost: `lines` is all of it."""

    path: str
    """Relative to its base, with `/`."""
    title: str
    """Front matter `title`, else the first level-1 heading, else the first heading, else the file name, which also
    serves where a document of several level-1 parts begins with one called "Summary" or the like."""
    lines: tuple[str, ...]
    """The text without line endings and byte order mark."""
    body: int
    """Index in `lines` of the first line after the front matter."""
    front_matter: dict[str, Any]
    """Keys are strings; values as YAML gave them, made JSON-safe (dates as ISO strings)."""
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    headings: tuple[Heading, ...]
    fences: tuple[tuple[int, int], ...]
    """First and last line (1-based, inclusive) of each fenced code block."""
    links: tuple[Link, ...]
    problems: tuple[str, ...] = ()
    """What could not be read as it should be (encoding, front matter), for people."""
    tables: tuple[tuple[int, int], ...] = ()
    """First and last line (1-based, inclusive) of each pipe table."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The unit that is indexed and ranked: part of one document."""

    headings: tuple[str, ...]
    """Headings above it, outermost first; of merged sections, those they share."""
    start_line: int
    """1-based, inclusive."""
    end_line: int
    """1-based, inclusive."""
    text: str
    """The very text of those lines, joined by `\\n` (a part of the line where one line is too long)."""
    prose: int = 0
    """Offset in `text` of the first character after the front matter."""


class Query(Model):
    """What is asked of the hub."""

    text: str = Field(description="Any string.")
    bases: tuple[str, ...] = Field((), description="Ids of the bases to search; empty means all.")
    mode: Mode = Field("hybrid", description="`keyword`, `semantic` or `hybrid`.")
    limit: int = Field(5, ge=1, le=100, description="Hits to return.")
    offset: int = Field(0, ge=0, description="Hits to leave out first, for paging.")
    granularity: Granularity = Field("document", description="One hit per `document` or per `chunk`.")
    explain: bool = Field(False, description="Whether each hit carries its trace.")
    fusion: Fusion = Field("convex", description="How keyword and semantic are joined: by values, or by ranks.")
    without: tuple[str, ...] = Field((), description="Signals to leave out, to see what they are worth.")
    recency: float = Field(0.0, ge=0, le=1, description="How much newer documents are preferred; 0 not at all.")
    min_signals: int = Field(1, ge=1, le=2, description="Signals that must have found a hit.")
    min_score: float = Field(0.0, ge=0, le=1, description="Least score of a hit.")


class Signal(Model):
    """One reason for a score."""

    name: str = Field(description="`keyword`, `semantic`, `phrase`, `identifier`, `definition`, `title` and so on.")
    rank: int | None = Field(None, description="Place in that signal's ranking over all bases, from 1, if it has one.")
    value: float = Field(description="BM25 with pooled statistics, cosine similarity, or a share from 0 to 1.")
    contribution: float = Field(description="What it adds to the score.")


class Trace(Model):
    """How a score came about: the sum of the contributions times the factors is the score."""

    signals: tuple[Signal, ...] = Field(description="One entry per signal that speaks for the chunk.")
    factors: dict[str, float] = Field(
        default_factory=dict, description="`weight` of the base, `recency` and so on, those that are not 1."
    )


class Span(Model):
    """A range of lines."""

    start_line: int = Field(description="First line, from 1.")
    end_line: int = Field(description="Last line.")


class Hit(Model):
    """One ranked result."""

    ref: str = Field(description="`path.md` in the project base, `id@path.md` in another.")
    docid: str = Field(description="Short id of the document, `#a1b2c3`.")
    base: str = Field(description="Id of its base.")
    path: str = Field(description="Path in the base.")
    title: str = Field(description="Title of the document.")
    headings: tuple[str, ...] = Field((), description="Headings above the chunk, outermost first.")
    start_line: int = Field(description="First line of the chunk, from 1.")
    end_line: int = Field(description="Last line of the chunk.")
    excerpt: str = Field(description="The part that answers best, verbatim.")
    excerpt_line: int = Field(description="Line of the document where the excerpt starts.")
    score: float = Field(
        ge=0, le=1, description="0 to 1: how likely the best hit answers, and how near the others come to it."
    )
    kind: Kind = Field("document", description="What it is.")
    age_days: int | None = Field(None, description="Days since `updated` or `date`, last commit or change.")
    stale: bool = Field(False, description="Older than a year, past its day of review, or superseded.")
    outdated: str | None = Field(None, description="What it says itself: superseded, expired, to be reviewed.")
    kept: bool = Field(False, description="Whether its file is gone and only its text is kept.")
    contexts: tuple[str, ...] = Field((), description="What the configuration says of where it lies.")
    also: tuple[Span, ...] = Field((), description="Other matching chunks of the same document.")
    duplicates: tuple[str, ...] = Field((), description="Refs of documents with the same text, left out.")
    trace: Trace | None = Field(None, description="How the score came about, if asked for.")


class Skipped(Model):
    """A base that was not searched."""

    base: str = Field(description="Its id.")
    reason: str = Field(description="Why, and what to do.")


class Correction(Model):
    """A word that occurs nowhere, and what was looked for in its place."""

    typed: str = Field(description="As it was typed.")
    used: str = Field(description="As it stands in the documents.")


class SearchResult(Model):
    """The answer to a query."""

    query: str = Field(description="What was asked.")
    mode: Mode = Field(description="The mode that ran; less than asked for if a note says so.")
    hits: tuple[Hit, ...] = Field((), description="Best first.")
    verdict: Verdict | None = Field(
        None, description="Whether the bases cover the query: `strong`, `weak`, or `none`; none given if not judged."
    )
    total: int = Field(0, description="Ranked hits in all; `limit` of them are here.")
    searched: tuple[str, ...] = Field((), description="Bases that were searched.")
    skipped: tuple[Skipped, ...] = Field((), description="Bases that were not, and why.")
    unmatched: tuple[str, ...] = Field((), description="Terms of the query that occur in no base.")
    corrections: tuple[Correction, ...] = Field((), description="Words that were taken for others.")
    filters: tuple[str, ...] = Field((), description="Filters and exclusions of the query, as they were understood.")
    notes: tuple[str, ...] = Field((), description="What limits this answer, in sentences.")
    terms: tuple[str, ...] = Field((), description="Words of the query to highlight.")
    cursor: str | None = Field(None, description="Brings the next page in the MCP tool; none on the last.")

    @property
    def listed(self) -> bool:
        """Whether filters alone chose the hits, so that nothing ranked them and they come newest first."""
        return bool(self.filters) and not self.terms


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


class SyncReport(Model):
    """What bringing one index in step with its files did."""

    base: str = Field(description="Id of the base.")
    added: int = Field(0, description="Documents new in the index.")
    changed: int = Field(0, description="Documents whose content changed.")
    removed: int = Field(0, description="Documents whose file is gone.")
    unchanged: int = Field(0, description="Documents left as they were.")
    failed: tuple[Problem, ...] = Field((), description="Files that could not be read, and why.")
    chunks: int = Field(0, description="Chunks in the index afterwards.")
    vectors_made: int = Field(0, description="Vectors computed.")
    vectors_reused: int = Field(0, description="Vectors taken over from equal earlier text.")
    seconds: float = Field(0.0, description="Wall-clock time.")
    busy: bool = Field(False, description="Whether another process was indexing, so that nothing was done here.")
    notes: tuple[str, ...] = Field((), description="Anything else to know, in sentences.")


class BaseStatus(Model):
    """One base and the state of its index."""

    base: Base = Field(description="The base.")
    documents: int = Field(0, description="Documents in the index.")
    chunks: int = Field(0, description="Chunks in the index.")
    vectors: int = Field(0, description="Chunks with a vector.")
    index: Path | None = Field(None, description="The index file; none if there is none yet.")
    index_bytes: int = Field(0, description="Its size.")
    synced: str | None = Field(None, description="When it was last brought in step (ISO 8601, UTC).")
    behind: int | None = Field(
        None, description="Files that are new, changed or gone since; none if that was not looked for."
    )
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


class Status(Model):
    """What is here: workspace, bases, problems."""

    version: str = Field(description="Version of kbhub.")
    workspace: Workspace = Field(description="The directory kbhub works for.")
    config: Path | None = Field(None, description="The global config that was read; none if there is none.")
    embedder: str = Field(description="The embedder, or why there is none.")
    bases: tuple[BaseStatus, ...] = Field((), description="Active bases.")
    problems: tuple[Problem, ...] = Field((), description="What cannot be used, and what to do.")
    looked_for: tuple[str, ...] = Field((), description="Places tried for the project base.")
    tags: tuple[TagUse, ...] = Field((), description="The tags that most documents have; on the command line.")
    memories: MemorySummary | None = Field(None, description="The memories; on the command line, if there are any.")
    queries: QuerySummary | None = Field(None, description="What was asked lately, and what nothing answers.")


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


@dataclass(frozen=True, slots=True)
class Scan:
    """What the walk of a base found."""

    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Path in the base → (size in bytes, time in ns since the epoch); see `FileEntry`."""
    skipped: tuple[Problem, ...] = ()
    """Files that are not taken although their name asks for it, and why."""
    unlisted: tuple[str, ...] = ()
    """Folders that could not be listed: what is below them is unknown, not gone."""
    frame: object = None
    """All that decides about a file apart from itself and what lies beside and above it in the base; none if that
    cannot be said, because there are links, or more files than are taken. Two of them can be compared."""

    def entry(self, path: str) -> FileEntry:
        """Give a file by its path."""
        return FileEntry(path, *self.files[path])
