"""What configuration files may say: a project's pointer, and the user's global config with its settings."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from kbhub.types import Mode
from kbhub.workspace.field_checks import Declared, with_examples

if TYPE_CHECKING:
    from pydantic import Field

    from kbhub.workspace.tool_names import ToolName

    # For type checkers; `validation` has them with their conditions.
    PathText = str
    ToolSet = Literal["core", "all"] | tuple[ToolName, ...]
    Bases = dict[str, "str | BaseEntry"]
    Repos = dict[str, str | tuple[str, ...]]

RESERVED_IDS = ("*", "project", "memory", "user")
"""Ids with a meaning of their own: every workspace, the project base, and memories."""

ENV_PREFIX = "KBHUB_"
OTHER_VARIABLES = frozenset(
    f"{ENV_PREFIX}{name}" for name in ("ROOT", "CONFIG", "CACHE_DIR", "DATA_DIR", "BASES", "DISABLE", "PROTOCOL")
)
"""Variables with the prefix that are no settings."""

MAX_RULES = 2000
"""Patterns of one ignore file, or of one `include` or `exclude`; the longest public template has some 500, and each
takes a tenth of a millisecond before a file can be looked at. A file's further ones do not count."""
DEFAULT_FILE_BYTES = 5 * 1024 * 1024
"""Bytes of the longest document: product.md. Hand-written Markdown is a hundredth of it."""
DEFAULT_PDF_BYTES = 50 * 1024 * 1024
"""Bytes of the longest PDF: its text is a small part of it; the books of publishers stay below."""

DEFAULT_CONVERTED_BYTES = 50 * 1024 * 1024
"""Bytes of the longest file of another converted kind: most of a long one are pictures."""
DEFAULT_SESSION_BYTES = 100 * 1024 * 1024
"""Bytes of the longest session log: days of work; rendering it takes some seconds."""
DEFAULT_FILES = 100_000
"""Files of one base; ten times the largest of the vaults that kbhub is measured with."""
DEFAULT_TRASH_DAYS = 30
"""Days that a forgotten memory can be had back: what the bins of desktop systems and mail programs keep."""
DEFAULT_QUERY_DAYS = 90
"""Days that queries are kept: a quarter of a year, in which what recurs does so."""
DEFAULT_FRESHEN_FILES = 2000
"""Files up to which `kbhub search` looks at a base's files first: some 10 ms of file-system calls."""
DEFAULT_PORT = 28722
"""Of HTTP: no service has it at IANA, and no system hands it out to outgoing connections (32768 and above)."""
DEFAULT_UNLOAD_MINUTES = 10.0
"""Minutes without a client: an editor that is restarted finds everything as it was."""
DEFAULT_END_MINUTES = 60.0
"""Minutes without a client: a break for lunch; a start takes half a second."""
DEFAULT_OLLAMA_MODEL = "qwen3:0.6b"
"""The smallest model of Ollama's library (0.5 GB) that answers in a given form; it runs on any machine."""
DEFAULT_MODEL_SECONDS = 4.0
"""Longest that a search waits for a language model: as long as people wait for a page."""
DEFAULT_ANSWER_SECONDS = 45.0
"""Longest that an answer waits for its writer: several MCP clients give a call up after 60 seconds."""
MOST_MODEL_SECONDS = 600.0
"""Longest wait that can be set; who asks has gone by then."""
MOST_CANDIDATES = 40
"""Hits that are graded at most: what comes after is hardly ever the answer, and each costs a request."""
DEFAULT_CANDIDATES = 20
"""Hits that are graded; those that the built-in second look takes in."""


class BaseFields(Declared):
    """What a pointer and an entry of `bases` have in common."""

    cache_dir: PathText | None = None
    """Folder for the index, relative to this file; `~` is allowed. From a pointer, it is only used after `kbhub
    trust`."""
    name: str | None = None
    """Display name; defaults to the project folder's name or the id."""
    description: str | None = None
    """What the knowledge is about, for people and agents."""
    contexts: dict[str, str] = field(default_factory=dict)
    """Path prefix in the base → description of what is there, for people and agents."""
    include: tuple[str, ...] = ()
    """`.gitignore`-style patterns of files to index besides Markdown, as plain text, such as `*.txt`. Hidden files only
    match if the last part of a pattern starts with a dot."""
    exclude: tuple[str, ...] = ()
    """`.gitignore`-style patterns of files and folders to skip."""
    inline_tags: bool | None = None
    """Whether `#tags` in the text are tags, by the rules of Obsidian; null means only if a `.obsidian` folder shows
    that the base is part of a vault."""


class Pointer(BaseFields):
    """Says where a project's knowledge is. Stored in the project as `.kbhub.json`."""

    __pydantic_config__ = with_examples(
        {"knowledge": "./docs/knowledge"},
        {
            "knowledge": "~/notes/myapp",
            "name": "My app",
            "contexts": {"api/": "The public HTTP interface"},
            "include": ["*.txt"],
            "exclude": ["drafts/"],
        },
        {"enabled": False},
    )

    schema_: str | None = None
    """URL of this schema, for editors."""
    knowledge: PathText = "./knowledge"
    """Folder of the knowledge, relative to this file; `~` is allowed."""
    docs_fallback: bool | None = None
    """Whether the repository's `docs/` is searched, too, as a base of its own; null means only if the folder is called
    `knowledge` or `.knowledge`."""
    read_only: bool = False
    """Whether agents may not write documents there, unless you allow it with `kbhub trust --writable`."""
    enabled: bool = True
    """`false` turns kbhub off for this project."""


class BaseEntry(BaseFields):
    """An entry of `bases`, if a path is not enough."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {
        **Declared.__pydantic_config__,
        "json_schema_extra": {"oneOf": [{"required": ["knowledge"]}, {"required": ["engine"]}]},
    }

    knowledge: PathText | None = None
    """Folder of the knowledge, relative to this file; `~` is allowed."""
    engine: PathText | None = None
    """Instead of a folder, the URL of the PostgreSQL database of a shared base, such as
    `postgresql://kb.example/handbook`, followed by `#NAME` if its name there differs from the id. Put the password in
    `~/.pgpass`, a service file or PGPASSWORD, where libpq finds it, not in the URL. Needs the extra
    `kbhub[postgres]`."""
    timeout: Annotated[float, Field(gt=0, le=60)] = 2.0
    """Timeout for the database in seconds; after that, the base is skipped."""
    kind: Literal["document", "session"] = "document"
    """What the files are: documents, or logs of agent sessions (`.jsonl` of Claude Code, Codex and Gemini CLI)."""
    keep_deleted: tuple[str, ...] = ()
    """`.gitignore`-style patterns of files whose text is kept and stays searchable after they are deleted."""
    memories: bool = False
    """Whether agents may remember in the database with the scope `team`; an admin of the base must also allow it
    there."""
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Factor for the score of its hits; 1 is neutral."""
    writable: bool = False
    """Whether agents may write documents in the base."""


class EmbedderSettings(Declared):
    """The model that turns text into vectors."""

    model: Annotated[str | None, Field(min_length=1)] = None
    """Folder or hub id of a model2vec model, `minilm` (all-MiniLM-L6-v2, with the extra `kbhub[onnx]`), `ollama/MODEL`,
    or `openai/MODEL` of an OpenAI-compatible server at `embedder.url`. null uses the model packaged with kbhub; `none`
    turns semantic search off."""
    url: Annotated[str | None, Field(pattern=r"^https?://[^\s/]+")] = None
    """URL of the server of an `openai/` model, including `/v1`; or of an `ollama/` model, if it differs from
    `OLLAMA_HOST`."""
    key_variable: Annotated[str | None, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = None
    """Name of the environment variable with the API key for the server of an `openai/` model, if it needs one."""


class ExpansionSettings(Declared):
    """Other wordings for a query, from an Ollama model."""

    enabled: bool = False
    """Whether to expand every search; otherwise only on request."""
    model: Annotated[str, Field(min_length=1)] = DEFAULT_OLLAMA_MODEL
    """Ollama model."""
    seconds: Annotated[float, Field(gt=0, le=MOST_MODEL_SECONDS)] = DEFAULT_MODEL_SECONDS
    """Timeout in seconds; after that, the search runs without other wordings."""


class RerankSettings(Declared):
    """Grades for the best hits, from an Ollama model."""

    enabled: bool = False
    """Whether to rerank every search; otherwise only on request."""
    model: Annotated[str, Field(min_length=1)] = DEFAULT_OLLAMA_MODEL
    """Ollama model."""
    seconds: Annotated[float, Field(gt=0, le=MOST_MODEL_SECONDS)] = DEFAULT_MODEL_SECONDS
    """Timeout in seconds; grades that have arrived by then are used."""
    candidates: Annotated[int, Field(ge=2, le=MOST_CANDIDATES)] = DEFAULT_CANDIDATES
    """Number of hits to grade, from the first."""


class AnswerSettings(Declared):
    """Who writes the answers of `ask` if the client's own model does not."""

    model: Annotated[str | None, Field(min_length=1)] = None
    """Ollama model that writes answers. null for none: answers are then composed of sentences of the documents."""
    seconds: Annotated[float, Field(gt=0, le=MOST_MODEL_SECONDS)] = DEFAULT_ANSWER_SECONDS
    """Timeout in seconds; after that, the answer is composed of sentences of the documents."""


class SearchSettings(Declared):
    """Defaults for searches."""

    limit: Annotated[int, Field(ge=1, le=100)] = 5
    """Number of hits to return."""
    mode: Mode = "hybrid"
    """`keyword`, `semantic` or `hybrid`."""
    second_look: bool = True
    """Whether all-MiniLM-L6-v2 reranks `hybrid` searches if the extra `kbhub[onnx]` is installed. Its vectors are
    computed in advance, when the machine is idle."""


DEFAULT_MODELS = {"claude": "claude", "codex": "codex", "gemini": "gemini"}
"""Alias → name of a model for `kbhub distil`: which version answered, only its owner knows."""


Editor = Literal["vscode", "vscodium", "cursor", "windsurf", "zed", "idea", "sublime", "obsidian"]
"""Editors that open a file by an address."""


class UiSettings(Declared):
    """The pages of `kbhub ui`."""

    editor: Editor = "vscode"
    """Editor for "Open in editor"."""


class DistilSettings(Declared):
    """Model names for `kbhub distil`."""

    models: dict[str, str] = field(default_factory=DEFAULT_MODELS.copy)
    """Alias → model name, such as `claude` → `claude-sonnet-4`; `c`, `x` and `g` stand for `claude`, `codex` and
    `gemini`."""


class MemorySettings(Declared):
    """Memories of agents."""

    enabled: bool = True
    """Whether memories are stored and searched."""
    shared: bool = False
    """Whether memories may be written to `memories/` of the project base, shared with everyone who has the project."""
    trash_days: Annotated[int, Field(ge=0)] = DEFAULT_TRASH_DAYS
    """Days to keep forgotten memories, in `trash/` of the data directory."""


class LimitSettings(Declared):
    """Limits on what kbhub reads."""

    file_bytes: Annotated[int, Field(ge=1)] = DEFAULT_FILE_BYTES
    """Maximum size of a file, in bytes."""
    pdf_bytes: Annotated[int, Field(ge=1)] = DEFAULT_PDF_BYTES
    """Maximum size of a PDF, in bytes."""
    converted_bytes: Annotated[int, Field(ge=1)] = DEFAULT_CONVERTED_BYTES
    """Maximum size of any other file that is converted, in bytes: Office documents, EPUB, HTML, notebooks, mail."""
    session_bytes: Annotated[int, Field(ge=1)] = DEFAULT_SESSION_BYTES
    """Maximum size of a session log, in bytes."""
    files: Annotated[int, Field(ge=1)] = DEFAULT_FILES
    """Maximum number of files per base; the rest is skipped."""
    freshen_files: Annotated[int, Field(ge=0)] = DEFAULT_FRESHEN_FILES
    """Maximum number of files of a base to sync before a search on the command line."""


class ServeSettings(Declared):
    """The shared daemon, and MCP over HTTP."""

    port: Annotated[int, Field(ge=0, le=65535)] = DEFAULT_PORT
    """Port of `kbhub serve --http` on the loopback interface; 0 picks a free one."""
    unload_minutes: Annotated[float, Field(gt=0)] = DEFAULT_UNLOAD_MINUTES
    """Minutes without a client after which the daemon releases indexes and models."""
    end_minutes: Annotated[float, Field(gt=0)] = DEFAULT_END_MINUTES
    """Minutes without a client after which a daemon started by `kbhub serve --connect` stops."""


class LogSettings(Declared):
    """Messages on standard error, and the query log."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "WARNING"
    """Minimum level to log."""
    queries: bool = True
    """Whether to log queries, only in the data directory, to find missing knowledge and to rank what was read
    before."""
    days: Annotated[int, Field(ge=1)] = DEFAULT_QUERY_DAYS
    """Days to keep logged queries."""


class Settings(Declared):
    """All settings that can also be set by a variable: `KBHUB_READ_ONLY`, `KBHUB_SEARCH__LIMIT`, and so on."""

    docs_fallback: bool = True
    """Whether to search a repository's `docs/` if the project has no other knowledge, or only `knowledge/`."""
    read_only: bool = False
    """Turns off every tool that writes."""
    tools: ToolSet = "core"
    """Tools offered to agents: `core`, `all` (also `tags`, `audit`, those that write documents, and `ask` even if no
    model can write the answer), or a list of names."""
    search: SearchSettings = field(default_factory=SearchSettings)
    """Search."""
    embedder: EmbedderSettings = field(default_factory=EmbedderSettings)
    """Vectors."""
    expansion: ExpansionSettings = field(default_factory=ExpansionSettings)
    """Other wordings for a query, from a language model."""
    rerank: RerankSettings = field(default_factory=RerankSettings)
    """Grades from a language model."""
    answers: AnswerSettings = field(default_factory=AnswerSettings)
    """Who writes answers."""
    memory: MemorySettings = field(default_factory=MemorySettings)
    """Memories."""
    limits: LimitSettings = field(default_factory=LimitSettings)
    """Limits."""
    serve: ServeSettings = field(default_factory=ServeSettings)
    """The shared daemon and HTTP."""
    log: LogSettings = field(default_factory=LogSettings)
    """Log."""
    distil: DistilSettings = field(default_factory=DistilSettings)
    """Saving chat answers."""
    ui: UiSettings = field(default_factory=UiSettings)
    """The pages of `kbhub ui`."""


class GlobalConfig(Settings):
    """The user's own bases, where they are active, and settings. Stored in the home directory."""

    __pydantic_config__ = with_examples(
        {"bases": {"notes": "~/notes"}, "repos": {"*": ["notes"]}},
        {
            "bases": {
                "notes": {"knowledge": "~/notes", "writable": True, "weight": 1.2},
                "team": "~/work/handbook",
                "handbook": {"engine": "postgresql://kb.example/handbook"},
            },
            "repos": {"*": ["notes"], "~/work": ["team"]},
            "docsFallback": False,
            "search": {"limit": 10, "mode": "hybrid"},
        },
    )

    schema_: str | None = None
    """URL of this schema, for editors."""
    bases: Bases = field(default_factory=dict)
    """Id → folder, or an object with more fields. An id cannot be `*`, `project`, `memory` or `user`, or contain `@`,
    `/`, whitespace or control characters."""
    repos: Repos = field(default_factory=dict)
    """Folder → ids of the bases active in and below it; `*` means everywhere. The longest matching prefix of the
    workspace wins."""
    contexts: dict[str, str] = field(default_factory=dict)
    """Path prefix in any base → description of what is there, for people and agents; the empty prefix applies to
    everything."""

    def entries(self) -> dict[str, BaseEntry]:
        """The bases by id, each as an object."""
        return {
            name: value if isinstance(value, BaseEntry) else BaseEntry(knowledge=value)
            for name, value in self.bases.items()
        }

    def active_in(self, key: str) -> tuple[str, ...]:
        """Ids that an entry of `repos` names."""
        value = self.repos.get(key, ())
        return (value,) if isinstance(value, str) else value
