"""The nouns of kbhub, in one place; they import nothing that takes long to load.

What a search is made of and gives is a `Value`, since `kbhub search` would wait longer for pydantic than for the
search. Other results are pydantic models, in `reports`. Both cross edges (command line, MCP, Python API): they are the
`--json` output, the structured result and the published schema. What is made by the thousand is a slotted dataclass
that never crosses an edge.
"""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from kbhub.values import Value, Within, struct

Mode = Literal["keyword", "semantic", "hybrid"]
Granularity = Literal["document", "chunk"]
Fusion = Literal["convex", "rrf"]
Verdict = Literal["strong", "weak", "none"]
Kind = Literal["document", "memory", "session", "pdf"]
Origin = Literal["pointer", "knowledge", ".knowledge", "sibling", "docs", "config", "argument", "memory"]


class Problem(Value):
    """Something that is wrong and does not stop the rest."""

    subject: str
    """What it is about: a base id, a file or a setting."""
    message: str
    """What happened and what to do next, in one or two sentences."""


class Base(Value):
    """One folder of Markdown that is searched as a unit."""

    id: str
    """Id in refs and filters; the discovered base of a project is `project`."""
    path: Path
    """Its folder, absolute, links resolved."""
    origin: Origin
    """How it was found."""
    names: tuple[str, ...] = ()
    """Other ids of the same folder."""
    only: tuple[str, ...] = ()
    """Parts of the folder that belong to it; empty means all."""
    name: str | None = None
    """Readable name."""
    description: str | None = None
    """What it is about, for people and agents."""
    contexts: dict[str, str] = field(default_factory=dict)
    """Path prefix → what lies there."""
    include: tuple[str, ...] = ()
    """Patterns of further files to take, as in `.gitignore`."""
    exclude: tuple[str, ...] = ()
    """Patterns of files to leave out, as in `.gitignore`."""
    cache_dir: Path | None = None
    """Where its index lies, if not in the usual place."""
    weight: float = 1.0
    """Factor on the score of its hits."""
    writable: bool = False
    """Whether agents may write documents in it."""
    kind: Kind = "document"
    """What its files are."""
    keep_deleted: tuple[str, ...] = ()
    """Patterns of files whose text is kept when they are gone."""


class Workspace(Value):
    """The directory that kbhub works for, and how it was chosen."""

    directory: Path | None
    """Absolute path, links resolved; none means global bases only."""
    source: str
    """What named it: an option, a variable, the working directory, the client."""
    git_root: Path | None = None
    """Nearest folder above (or it) that holds `.git`."""


class Discovery(Value):
    """The active bases for a workspace, with everything that was looked for."""

    workspace: Workspace
    """The directory it was made for."""
    bases: tuple[Base, ...] = ()
    """Active bases: the project base first, then by id."""
    problems: tuple[Problem, ...] = ()
    """Bases and settings that cannot be used, and why."""
    warnings: tuple[Problem, ...] = ()
    """Those of them that are about fields and variables which have no effect."""
    looked_for: tuple[str, ...] = ()
    """Places that were tried for the project base, in order."""
    off: bool = False
    """Whether kbhub is switched off here, by the user or the project."""

    def problem_of(self, name: str) -> str:
        """Give what is wrong with a base, in sentences; empty if that is nothing."""
        return next((one.message for one in self.problems if one.subject == name), "")


@struct
class FileEntry:
    """A file of a base as the walk saw it."""

    path: str
    """Relative to the base, with `/`."""
    size: int
    """Bytes."""
    mtime_ns: int
    """Nanoseconds since the epoch."""


@struct
class Heading:
    """A heading of a document."""

    level: int
    """1 to 6."""
    text: str
    """Without marks, trailing `#` and `{#id}`."""
    line: int
    """1-based."""


@struct
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


@struct
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


@struct
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


_NUMBERS: dict[Any, str] = {int: "a whole number", (int, float): "a number"}
_RANGES: tuple[tuple[str, Any, int, int], ...] = (
    ("limit", int, 1, 100),
    ("offset", int, 0, 2**63 - 1),
    ("recency", (int, float), 0, 1),
    ("min_signals", int, 1, 2),
    ("min_score", (int, float), 0, 1),
)
"""Field of a query, what it is, the least and the greatest value that it takes."""
_CHOICES = (("mode", get_args(Mode)), ("granularity", get_args(Granularity)), ("fusion", get_args(Fusion)))
"""Field of a query and the texts that it takes."""


class Query(Value):
    """What is asked of the hub."""

    text: str
    """Any string."""
    bases: tuple[str, ...] = ()
    """Ids of the bases to search; empty means all."""
    mode: Mode = "hybrid"
    """`keyword`, `semantic` or `hybrid`."""
    limit: int = 5
    """Hits to return."""
    offset: int = 0
    """Hits to leave out first, for paging."""
    granularity: Granularity = "document"
    """One hit per `document` or per `chunk`."""
    explain: bool = False
    """Whether each hit carries its trace."""
    fusion: Fusion = "convex"
    """How keyword and semantic are joined: by values, or by ranks."""
    without: tuple[str, ...] = ()
    """Signals to leave out, to see what they are worth."""
    recency: float = 0.0
    """How much newer documents are preferred; 0 not at all."""
    min_signals: int = 1
    """Signals that must have found a hit."""
    min_score: float = 0.0
    """Least score of a hit."""

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ValueError(f"text of a query must be a text, not {self.text!r}")  # noqa: TRY004 - as for the others
        for name, kinds, least, most in _RANGES:
            value = getattr(self, name)
            if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value <= most:
                raise ValueError(f"{name} of a query must be {_NUMBERS[kinds]} from {least} to {most}, not {value!r}")
        for name, among in _CHOICES:
            if getattr(self, name) not in among:
                raise ValueError(f"{name} of a query must be one of {', '.join(among)}, not {getattr(self, name)!r}")
        for name in ("bases", "without"):
            if isinstance(value := getattr(self, name), str) or not all(isinstance(one, str) for one in value):
                raise ValueError(f"{name} of a query must be a list of texts, not {value!r}")
            self.__dict__[name] = tuple(value)


class Signal(Value):
    """One reason for a score."""

    name: str
    """`keyword`, `semantic`, `phrase`, `identifier`, `definition`, `title` and so on."""
    rank: int | None = None
    """Place in that signal's ranking over all bases, from 1, if it has one."""
    value: float
    """BM25 with pooled statistics, cosine similarity, or a share from 0 to 1."""
    contribution: float
    """What it adds to the score."""


class Trace(Value):
    """How a score came about: the sum of the contributions times the factors is the score."""

    signals: tuple[Signal, ...]
    """One entry per signal that speaks for the chunk."""
    factors: dict[str, float] = field(default_factory=dict)
    """`weight` of the base, `recency` and so on, those that are not 1."""


class Span(Value):
    """A range of lines."""

    start_line: int
    """First line, from 1."""
    end_line: int
    """Last line."""


class Hit(Value):
    """One ranked result."""

    ref: str
    """`path.md` in the project base, `id@path.md` in another."""
    docid: str
    """Short id of the document, `#a1b2c3`."""
    base: str
    """Id of its base."""
    path: str
    """Path in the base."""
    title: str
    """Title of the document."""
    headings: tuple[str, ...] = ()
    """Headings above the chunk, outermost first."""
    start_line: int
    """First line of the chunk, from 1."""
    end_line: int
    """Last line of the chunk."""
    excerpt: str
    """The part that answers best, verbatim."""
    excerpt_line: int
    """Line of the document where the excerpt starts."""
    score: Annotated[float, Within(0, 1)]
    """0 to 1: how likely the best hit answers, and how near the others come to it."""
    kind: Kind = "document"
    """What it is."""
    age_days: int | None = None
    """Days since `updated` or `date`, last commit or change."""
    stale: bool = False
    """Older than a year, past its day of review, or superseded."""
    outdated: str | None = None
    """Why it may no longer hold: superseded, expired, to be reviewed by its own word; or its file was deleted."""
    kept: bool = False
    """Whether its file is gone and only its text is kept."""
    contexts: tuple[str, ...] = ()
    """What the configuration says of where it lies."""
    also: tuple[Span, ...] = ()
    """Other matching chunks of the same document."""
    duplicates: tuple[str, ...] = ()
    """Refs of documents with the same text, left out."""
    whole: bool = False
    """Whether the excerpt is all of the document but its front matter."""
    trace: Trace | None = None
    """How the score came about, if asked for."""


class Skipped(Value):
    """A base that was not searched."""

    base: str
    """Its id."""
    reason: str
    """Why, and what to do."""


class Correction(Value):
    """A word that occurs nowhere, and what was looked for in its place."""

    typed: str
    """As it was typed."""
    used: str
    """As it stands in the documents."""


class SearchResult(Value):
    """The answer to a query."""

    query: str
    """What was asked."""
    mode: Mode
    """The mode that ran; less than asked for if a note says so."""
    hits: tuple[Hit, ...] = ()
    """Best first."""
    verdict: Verdict | None = None
    """Whether the bases cover the query: `strong`, `weak`, or `none`; none given if not judged."""
    total: int = 0
    """Hits in all, of which `limit` are here: those nearest in meaning, and all that have a word of the query."""
    total_exact: bool = True
    """Whether `total` counts every match; else there may be more, and a note of the last page says where it ends."""
    searched: tuple[str, ...] = ()
    """Bases that were searched."""
    skipped: tuple[Skipped, ...] = ()
    """Bases that were not, and why."""
    unmatched: tuple[str, ...] = ()
    """Terms of the query that occur in no base."""
    corrections: tuple[Correction, ...] = ()
    """Words that were taken for others."""
    filters: tuple[str, ...] = ()
    """Filters and exclusions of the query, as they were understood."""
    notes: tuple[str, ...] = ()
    """What limits this answer, in sentences."""
    terms: tuple[str, ...] = ()
    """Words of the query to highlight."""
    cursor: str | None = None
    """Brings the next page in the MCP tool; none on the last."""

    @property
    def listed(self) -> bool:
        """Whether filters alone chose the hits, so that nothing ranked them and they come newest first."""
        return bool(self.filters) and not self.terms


@struct
class Scan:
    """What the walk of a base found."""

    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Path in the base → (size in bytes, time in ns since the epoch); see `FileEntry`."""
    skipped: tuple[Problem, ...] = ()
    """Files that are not taken although their name asks for it, and why."""
    unlisted: tuple[str, ...] = ()
    """Folders that could not be listed: what is below them is unknown, not gone."""
    passed_over: dict[str, int] = field(default_factory=dict)
    """End of the name → files that hold text and are of a kind that is not taken, where all files were looked at."""
    frame: object = None
    """All that decides about a file apart from itself and what lies beside and above it in the base; none if that
    cannot be said, because there are links, or more files than are taken. Two of them can be compared."""

    def entry(self, path: str) -> FileEntry:
        """Give a file by its path."""
        return FileEntry(path, *self.files[path])
