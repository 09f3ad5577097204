"""What configuration files may say: a project's pointer, and the user's global config with its settings."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from kbhub.types import Mode  # noqa: TC001 - pydantic reads it
from kbhub.workspace.checking import Declared, with_examples

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
OTHER_VARIABLES = ("ROOT", "CONFIG", "CACHE_DIR", "DATA_DIR", "BASES", "DISABLE", "PROTOCOL")
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
    """Folder for the index, relative to this file, `~` allowed. From a pointer it is used only after `kbhub
    trust`."""
    name: str | None = None
    """Readable name; if none, the project folder's or the id."""
    description: str | None = None
    """What the knowledge is about, for people and agents."""
    contexts: dict[str, str] = field(default_factory=dict)
    """Path prefix in the base → what lies there, for people and agents."""
    include: tuple[str, ...] = ()
    """Patterns, as in `.gitignore`, of files to take besides Markdown, read as plain text, such as `*.txt`. Hidden
    files count only where a pattern's last part starts with a dot."""
    exclude: tuple[str, ...] = ()
    """Patterns, as in `.gitignore`, of files and folders to leave out."""


class Pointer(BaseFields):
    """Says where a project's knowledge is; lies in the project as `.kbhub.json`."""

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
    """Address of this schema, for editors."""
    knowledge: PathText = "./knowledge"
    """Folder of the knowledge, relative to this file, `~` allowed."""
    enabled: bool = True
    """`false` switches kbhub off for this project."""


class BaseEntry(BaseFields):
    """One entry of `bases`, where a path is not enough."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {
        **Declared.__pydantic_config__,
        "json_schema_extra": {"oneOf": [{"required": ["knowledge"]}, {"required": ["engine"]}]},
    }

    knowledge: PathText | None = None
    """Folder of the knowledge, relative to this file, `~` allowed."""
    engine: PathText | None = None
    """In place of a folder, the URL of the PostgreSQL database of a shared base, such as
    `postgresql://kb.example/handbook`, with its name there after `#` if that is not the id; without a password, which
    libpq finds in `~/.pgpass`, a service file or PGPASSWORD. Needs the extra `kbhub[postgres]`."""
    timeout: Annotated[float, Field(gt=0, le=60)] = 2.0
    """Seconds that such a database may take for an answer; after that the base is skipped."""
    kind: Literal["document", "session"] = "document"
    """What its files are: documents, or logs of agent sessions (`.jsonl` of Claude Code, Codex and Gemini CLI)."""
    keep_deleted: tuple[str, ...] = ()
    """Patterns, as in `.gitignore`, of files whose text is kept and stays searchable when they are deleted."""
    memories: bool = False
    """Whether agents may remember in such a database with the scope `team`; an admin of the base must allow it there,
    too."""
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Factor on the score of its hits; 1 is neutral."""
    writable: bool = False
    """Whether agents may write documents in it."""


class EmbedderSettings(Declared):
    """What turns text into vectors."""

    model: Annotated[str | None, Field(min_length=1)] = None
    """Folder or hub id of a model2vec model, `minilm` (all-MiniLM-L6-v2, of the extra `kbhub[onnx]`), `ollama/MODEL`,
    or `openai/MODEL` of an OpenAI-compatible server at `embedder.url`; null is the one that comes with kbhub; `none`
    switches semantic search off."""
    url: Annotated[str | None, Field(pattern=r"^https?://[^\s/]+")] = None
    """Address of the server of an `openai/` model, up to and with `/v1`; of an `ollama/` model, if it is not the one
    of `OLLAMA_HOST`."""
    key_variable: Annotated[str | None, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = None
    """Name of the environment variable that holds the key for the server of an `openai/` model, where it wants
    one."""


class ExpansionSettings(Declared):
    """Other words for a query, by a language model of Ollama."""

    enabled: bool = False
    """Whether every search is expanded; without it, only where one asks so."""
    model: Annotated[str, Field(min_length=1)] = DEFAULT_OLLAMA_MODEL
    """Model of Ollama."""
    seconds: Annotated[float, Field(gt=0, le=MOST_MODEL_SECONDS)] = DEFAULT_MODEL_SECONDS
    """Longest that a search waits for it; then it goes on without."""


class RerankSettings(Declared):
    """Grades for the best hits, by a language model of Ollama."""

    enabled: bool = False
    """Whether every search is reranked; without it, only where one asks so."""
    model: Annotated[str, Field(min_length=1)] = DEFAULT_OLLAMA_MODEL
    """Model of Ollama."""
    seconds: Annotated[float, Field(gt=0, le=MOST_MODEL_SECONDS)] = DEFAULT_MODEL_SECONDS
    """Longest that a search waits for grades; those that are there by then count."""
    candidates: Annotated[int, Field(ge=2, le=MOST_CANDIDATES)] = DEFAULT_CANDIDATES
    """Hits that are graded, from the first one on."""


class AnswerSettings(Declared):
    """Who writes the answers of `ask` where the client's own model does not."""

    model: Annotated[str | None, Field(min_length=1)] = None
    """Model of Ollama that writes; null for none, then answers are made of sentences of the documents."""
    seconds: Annotated[float, Field(gt=0, le=MOST_MODEL_SECONDS)] = DEFAULT_ANSWER_SECONDS
    """Longest that an answer waits for it; then it is made of sentences of the documents."""


class SearchSettings(Declared):
    """How a search runs where it does not say so itself."""

    limit: Annotated[int, Field(ge=1, le=100)] = 5
    """Hits to return."""
    mode: Mode = "hybrid"
    """`keyword`, `semantic` or `hybrid`."""
    second_look: bool = True
    """Whether all-MiniLM-L6-v2 reranks a `hybrid` search where the extra `kbhub[onnx]` is installed; its vectors are
    made ahead when the machine is idle."""


DEFAULT_MODELS = {"claude": "claude", "codex": "codex", "gemini": "gemini"}
"""Alias → name of a model for `kbhub distil`: which version answered, only its owner knows."""


Editor = Literal["vscode", "vscodium", "cursor", "windsurf", "zed", "idea", "sublime", "obsidian"]
"""Editors that open a file by an address."""


class UiSettings(Declared):
    """The page of `kbhub ui`."""

    editor: Editor = "vscode"
    """Editor that "Open in editor" opens."""


class DistilSettings(Declared):
    """How `kbhub distil` names models."""

    models: dict[str, str] = field(default_factory=lambda: dict(DEFAULT_MODELS))
    """Alias → model name, such as `claude` → `claude-sonnet-4`; `c`, `x` and `g` stand for `claude`, `codex` and
    `gemini`."""


class MemorySettings(Declared):
    """What agents remember."""

    enabled: bool = True
    """Whether memories are kept and searched."""
    shared: bool = False
    """Whether memories may be written into the project base's `memories/`, for everyone who has it."""
    trash_days: Annotated[int, Field(ge=0)] = DEFAULT_TRASH_DAYS
    """Days that forgotten memories are kept, in `trash/` of the data directory."""


class LimitSettings(Declared):
    """How much kbhub takes on."""

    file_bytes: Annotated[int, Field(ge=1)] = DEFAULT_FILE_BYTES
    """Bytes of the longest file that is read."""
    pdf_bytes: Annotated[int, Field(ge=1)] = DEFAULT_PDF_BYTES
    """Bytes of the longest PDF that is read."""
    converted_bytes: Annotated[int, Field(ge=1)] = DEFAULT_CONVERTED_BYTES
    """Bytes of the longest file of another kind that is converted: Office documents, EPUB, HTML, notebooks, mail."""
    session_bytes: Annotated[int, Field(ge=1)] = DEFAULT_SESSION_BYTES
    """Bytes of the longest session log that is read."""
    files: Annotated[int, Field(ge=1)] = DEFAULT_FILES
    """Files of one base; the rest is left out."""
    freshen_files: Annotated[int, Field(ge=0)] = DEFAULT_FRESHEN_FILES
    """Bases of up to this many files are brought in step before a search on the command line."""


class ServeSettings(Declared):
    """The shared daemon, and the server behind HTTP."""

    port: Annotated[int, Field(ge=0, le=65535)] = DEFAULT_PORT
    """Port of `kbhub serve --http` on the loopback interface; 0 is a free one."""
    unload_minutes: Annotated[float, Field(gt=0)] = DEFAULT_UNLOAD_MINUTES
    """Minutes without a client after which the daemon lets go of indexes and models."""
    end_minutes: Annotated[float, Field(gt=0)] = DEFAULT_END_MINUTES
    """Minutes without a client after which a daemon ends that `kbhub serve --connect` has started."""


class LogSettings(Declared):
    """What goes to standard error, and what is noted of queries."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "WARNING"
    """Least level logged."""
    queries: bool = True
    """Whether queries are noted, in the data directory only, to find out which knowledge is missing and to find again
    what was read."""
    days: Annotated[int, Field(ge=1)] = DEFAULT_QUERY_DAYS
    """Days that they are kept."""


class Settings(Declared):
    """Everything that a variable can set too: `KBHUB_READ_ONLY`, `KBHUB_SEARCH__LIMIT`, and so on."""

    docs_fallback: bool = True
    """Whether `docs/` is the project's knowledge where it has no other."""
    read_only: bool = False
    """Takes every writing tool away."""
    tools: ToolSet = "core"
    """Tools that agents are offered: `core`, `all` (also `tags`, `audit`, those that write documents, and `ask` where
    no model can write the answer), or a list of names."""
    search: SearchSettings = field(default_factory=SearchSettings)
    """Search."""
    embedder: EmbedderSettings = field(default_factory=EmbedderSettings)
    """Vectors."""
    expansion: ExpansionSettings = field(default_factory=ExpansionSettings)
    """Other words for a query, by a language model."""
    rerank: RerankSettings = field(default_factory=RerankSettings)
    """Grades by a language model."""
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
    """The page for people."""


class GlobalConfig(Settings):
    """The user's own bases, where they are active, and settings; lies in the home directory."""

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
    """Address of this schema, for editors."""
    bases: Bases = field(default_factory=dict)
    """Id → folder, or an object that says more. An id is not `*`, `project`, `memory` or `user` and has no `@`, `/`,
    whitespace or control character."""
    repos: Repos = field(default_factory=dict)
    """Folder → ids of the bases active below it; `*` is everywhere. Of the folders, the one longest prefix of the
    workspace counts."""
    contexts: dict[str, str] = field(default_factory=dict)
    """Path prefix in any base → what lies there, for people and agents; the empty prefix is about everything."""

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
