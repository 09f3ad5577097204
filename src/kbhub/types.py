"""kbhub's central data types; cheap to import.

Queries and search results are a `Value`, as importing pydantic takes longer than a search. Other results are pydantic
models, in `reports`. Both are public: they are the `--json` output, the structured results of tools and the published
schemas. Types with thousands of instances are slotted dataclasses, and internal.
"""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from kbhub.values import Value, Within, struct

Mode = Literal["keyword", "semantic", "hybrid"]
Granularity = Literal["document", "chunk"]
Verdict = Literal["strong", "weak", "none"]
Kind = Literal[
    "document", "memory", "session", "html", "notebook", "canvas", "mail", "epub", "docx", "pptx", "xlsx", "odt", "pdf",
    "other",
]  # fmt: skip
Origin = Literal["pointer", "knowledge", ".knowledge", "sibling", "docs", "config", "argument", "memory"]


class Problem(Value):
    """A problem that does not stop the rest."""

    subject: str
    """What it is about: a base id, a file or a setting."""
    message: str
    """What happened and what to do next, in one or two sentences."""

    @property
    def text(self) -> str:
        """Both, on one line."""
        return f"{self.subject}: {self.alone}"

    @property
    def alone(self) -> str:
        """The message without its subject, which many name."""
        return self.message.removeprefix(f"{self.subject}: ")


class Base(Value):
    """A folder of Markdown that is searched as a unit."""

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
    """Display name."""
    description: str | None = None
    """What it is about, for people and agents."""
    contexts: dict[str, str] = field(default_factory=dict)
    """Path prefix → description."""
    include: tuple[str, ...] = ()
    """`.gitignore`-style patterns of more files to index."""
    exclude: tuple[str, ...] = ()
    """`.gitignore`-style patterns of files to skip."""
    inline_tags: bool = False
    """Whether `#tags` in the text of its documents are tags, as in an Obsidian vault."""
    cache_dir: Path | None = None
    """Where its index is, if not in the default place."""
    weight: float = 1.0
    """Factor on the score of its hits."""
    writable: bool = False
    """Whether agents may write documents in it."""
    kind: Kind = "document"
    """What its files are."""
    keep_deleted: tuple[str, ...] = ()
    """Patterns of files whose text is kept after they are deleted."""
    sessions_of: Path | None = None
    """Project whose sessions alone belong to it."""
    engine: str | None = None
    """URL of the database that holds it, if it is shared by a team; then its folder here is empty."""
    shared_as: str | None = None
    """Its name in that database."""
    timeout: float = 2.0
    """Timeout for the database, in seconds."""

    @property
    def place(self) -> str:
        """Where it is, for people: its folder or its database."""
        return f"{self.engine.partition('?')[0]}#{self.shared_as}" if self.engine else str(self.path)


class Workspace(Value):
    """The workspace, and how it was chosen."""

    directory: Path | None
    """Absolute path, links resolved; None means global bases only."""
    source: str
    """What named it: an option, a variable, the working directory, the client."""
    git_root: Path | None = None
    """Nearest folder, from there upwards, that contains `.git`."""

    @property
    def root(self) -> Path | None:
        """The folder of the project: the git root, or else the directory."""
        return self.git_root or self.directory


class Discovery(Value):
    """The active bases for a workspace, with everything that was looked for."""

    workspace: Workspace
    """The directory it was made for."""
    bases: tuple[Base, ...] = ()
    """Active bases: the project base first, then by id."""
    problems: tuple[Problem, ...] = ()
    """Bases and settings that cannot be used, and why."""
    warnings: tuple[Problem, ...] = ()
    """Those of them about fields and variables that have no effect."""
    looked_for: tuple[str, ...] = ()
    """Places that were tried for the project base, in order."""
    off: bool = False
    """Whether kbhub is turned off here, by the user or the project."""
    untrusted: tuple[Path, Path] | None = None
    """A pointer that leads out of the project, and its target, if the user has neither allowed nor refused it."""

    @property
    def project(self) -> Base | None:
        """The base of the project, if it has one."""
        return next((base for base in self.bases if base.id == "project"), None)

    def problem_of(self, name: str) -> str:
        """Return the first problem of a base in sentences, or an empty string."""
        return next((problem.message for problem in self.problems if problem.subject == name), "")


@struct
class FileEntry:
    """A file of a base, as listed by the walk."""

    path: str
    """Relative to the base, with `/`."""
    size: int
    mtime_ns: int
    """Nanoseconds since the epoch."""


@struct
class Heading:
    """A heading of a document."""

    level: int
    """1 to 6."""
    text: str
    """Without markup, trailing `#` and `{#id}`."""
    line: int
    """1-based."""


@struct
class Link:
    """A link of a document to another one."""

    target: str
    """Decoded path, name or URL, without its fragment."""
    fragment: str
    """Heading or anchor after `#`, decoded; empty if none."""
    text: str
    line: int
    """1-based."""
    kind: Literal["markdown", "wikilink", "embed", "reference"]


@struct
class Document:
    """A parsed file; `lines` has its whole text."""

    path: str
    """Relative to its base, with `/`."""
    title: str
    """Front matter `title`, else the first level-1 heading, else one that opens the text, else the file name. If the
    first of several level-1 headings is "Summary" or the like, the file name is used."""
    lines: tuple[str, ...]
    """The text without line endings and byte order mark."""
    body: int = 0
    """Index in `lines` of the first line after the front matter."""
    front_matter: dict[str, Any] = field(default_factory=dict)
    """Parsed YAML with string keys and JSON-safe values (dates as ISO strings)."""
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    headings: tuple[Heading, ...] = ()
    fences: tuple[tuple[int, int], ...] = ()
    """First and last line (1-based, inclusive) of each fenced code block."""
    links: tuple[Link, ...] = ()
    problems: tuple[str, ...] = ()
    """Messages on what could not be parsed (encoding, front matter)."""
    tables: tuple[tuple[int, int], ...] = ()
    """First and last line (1-based, inclusive) of each pipe table."""


@struct
class Chunk:
    """A part of a document, the unit of indexing and ranking."""

    headings: tuple[str, ...]
    """Headings above it, outermost first; for merged sections, those they share."""
    start_line: int
    """1-based, inclusive."""
    end_line: int
    """1-based, inclusive."""
    text: str
    """The lines joined by `\\n`, or a part of a single line that is too long."""
    prose: int = 0
    """Offset in `text` of the first character after the front matter."""


MOST_HITS = 100
"""Hits of one answer at most."""

BOUNDS: dict[str, tuple[int, int]] = {
    "limit": (1, MOST_HITS),
    "offset": (0, 2**63 - 1),
    "recency": (0, 1),
    "min_score": (0, 1),
}
"""Field of a query that is a number → its minimum and maximum."""
_CHOICES = (("mode", get_args(Mode)), ("granularity", get_args(Granularity)))


class Query(Value):
    """A query for the hub."""

    text: str
    """Any string."""
    queries: tuple[str, ...] = ()
    """Other wordings of the text, ranked as one query. Filters and exclusions in them have no effect."""
    passage: str = ""
    """A hypothetical answer, whose words are ranked with those of the queries."""
    bases: tuple[str, ...] = ()
    """Ids of the bases to search; empty for all."""
    mode: Mode = "hybrid"
    """`keyword`, `semantic` or `hybrid`."""
    limit: int = 5
    """Number of hits to return."""
    offset: int = 0
    """Number of hits to skip, for paging."""
    granularity: Granularity = "document"
    """One hit per `document` or per `chunk`."""
    explain: bool = False
    """Whether each hit carries its trace."""
    without: tuple[str, ...] = ()
    """Signals to leave out, to see their effect."""
    recency: float = 0.0
    """How much newer documents are preferred; 0 turns this off."""
    min_score: float = 0.0
    """Minimum score of a hit."""

    def __post_init__(self) -> None:
        for name in ("text", "passage"):
            if not isinstance(value := getattr(self, name), str):
                raise ValueError(f"{name} of a query must be a string, not {value!r}")  # noqa: TRY004 - as for the others
        for name, (least, most) in BOUNDS.items():
            value, whole = getattr(self, name), isinstance(getattr(Query, name), int)
            kinds: Any = int if whole else (int, float)
            if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value <= most:
                number = "a whole number" if whole else "a number"
                raise ValueError(f"{name} of a query must be {number} from {least} to {most}, not {value!r}")
        for name, among in _CHOICES:
            if getattr(self, name) not in among:
                raise ValueError(f"{name} of a query must be one of {', '.join(among)}, not {getattr(self, name)!r}")
        for name in ("queries", "bases", "without"):
            if isinstance(value := getattr(self, name), str) or not all(isinstance(item, str) for item in value):
                raise ValueError(f"{name} of a query must be a list of strings, not {value!r}")
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
    reason: str | None = None
    """Details, if the name is not enough."""


class Trace(Value):
    """Explanation of a score, which is the sum of the contributions times the factors."""

    signals: tuple[Signal, ...]
    """One entry per signal that contributes."""
    factors: dict[str, float] = field(default_factory=dict)
    """`weight` of the base, `recency` and so on, those that are not 1."""


class Span(Value):
    """A range of lines."""

    start_line: int
    """First line, from 1."""
    end_line: int
    """Last line."""
    excerpt: str = ""
    """Its best matching part, if that may answer as well as the hit's: at most one of a page has it."""


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
    """The best matching part, verbatim."""
    excerpt_line: int
    """Line of the document where the excerpt starts."""
    score: Annotated[float, Within(0, 1)]
    """0 to 1: how likely the best hit answers the query, and how close the others come to it."""
    kind: Kind = "document"
    """What it is."""
    age_days: int | None = None
    """Days since `updated` or `date`, last commit or change."""
    stale: bool = False
    """Older than a year, past its review date, or superseded."""
    outdated: str | None = None
    """Why it may no longer hold: superseded, expired, due for review; its file was deleted; or a newer hit says
    something about the same thing."""
    replaces: tuple[str, ...] = ()
    """Older hits about the same thing that it apparently replaces, as `ref:line`."""
    kept: bool = False
    """Whether its file is gone and only its text is kept."""
    rejected: bool = False
    """Whether it is a memory of a way that was tried, and not taken."""
    trust: str | None = None
    """Who stands behind the document, if its front matter says so (Open Knowledge Format): `generated` by an agent and
    unverified, `machine-confirmed`, or `human-reviewed`."""
    contexts: tuple[str, ...] = ()
    """Description of the place, from the config."""
    also: tuple[Span, ...] = ()
    """Other matching chunks of the same document."""
    duplicates: tuple[str, ...] = ()
    """Refs of its copies, translations and other versions, which are left out."""
    whole: bool = False
    """Whether the excerpt is the whole document, except for its front matter."""
    trace: Trace | None = None
    """Explanation of the score, if requested."""


class Skipped(Value):
    """A base that was not searched."""

    base: str
    """Its id."""
    reason: str
    """Why, and what to do."""


class Correction(Value):
    """A word that no document contains, and the word used instead."""

    typed: str
    """The word as typed."""
    used: str
    """The word as it occurs in the documents."""


class SearchResult(Value):
    """The result of a query."""

    query: str
    """The query."""
    mode: Mode
    """The mode that ran; a note says so if it is less than requested."""
    hits: tuple[Hit, ...] = ()
    """Best first."""
    verdict: Verdict | None = None
    """Whether the bases cover the query: `strong`, `weak` or `none`; null if not judged."""
    total: int = 0
    """Number of hits in total, of which at most `limit` are returned: the nearest in meaning, and all that contain a
    word of the query."""
    total_exact: bool = True
    """Whether `total` counts every match; otherwise there may be more, and a note on the last page says where the list
    ends."""
    searched: tuple[str, ...] = ()
    """Bases that were searched."""
    skipped: tuple[Skipped, ...] = ()
    """Bases that were not searched, and why."""
    unmatched: tuple[str, ...] = ()
    """Terms of the query that no document contains."""
    corrections: tuple[Correction, ...] = ()
    """Words that were replaced by others."""
    filters: tuple[str, ...] = ()
    """Filters and exclusions of the query, as they were understood."""
    notes: tuple[str, ...] = ()
    """Limits of this answer, as sentences."""
    terms: tuple[str, ...] = ()
    """Words of the query to highlight."""
    cursor: str | None = None
    """Cursor for the next page in the MCP tool; null on the last."""

    @property
    def listed(self) -> bool:
        """Whether hits were only filtered, not ranked, so that they are sorted newest first."""
        return bool(self.filters) and not self.terms
