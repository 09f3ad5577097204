"""What configuration files may say, and its strict validation: a project's pointer, and the user's global config.

The content of a file is declared once, as dataclasses with pydantic annotations. Plainly valid files are converted here
without pydantic, which takes longer to import than a search takes. Pydantic validates everything else, words the errors
and generates the published schemas (`validation`).
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import operator
import re
from collections.abc import Iterable
from dataclasses import field
from functools import partial
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, get_args

from kbhub.types import Mode, Problem
from kbhub.values import Value

if TYPE_CHECKING:
    from pydantic import ValidationError

_LOOKED_AT = 200
_SHOWN_INPUT = 60
"""Characters of an invalid value shown in an error."""

MOST_UNKNOWN = 10
"""Unknown fields of a file that are reported individually; with more, it is probably another kind of file."""

_CHOICES = {
    "(entry)": "expected a path or an object",
    "(list)": "expected an id or a list of ids",
    "(names)": "expected `core`, `all` or a list of tools",
}
"""Union branch that pydantic fell back to → message naming all branches."""

T = TypeVar("T")

Use = Literal["knowledge", "cacheDir", "documents", "refused"]
"""What the user decided for a pointer: `project.Grant`."""

_ALLOWED = {"Mode": get_args(Mode), "ToolSet": ("core", "all"), "Use": get_args(Use)}
_EXPECTED: dict[str, tuple[type, str]] = {
    "bool": (bool, "true or false"),
    **dict.fromkeys(("str", "Path", "PathText"), (str, "a text")),
    "tuple[str, ...]": (list, "a list"),
    **dict.fromkeys(("dict[str, str]", "Bases", "Repos"), (dict, "an object in braces")),
}
"""Source text of an annotation → the type of its values in JSON, and what errors call it."""
_ITEMS = {"Bases": "BaseEntry", "Repos": "Ids"}
"""Source text of an annotation → that of an item; all others are texts."""

_NUMBER = re.compile(r"Annotated\[(int|float), Field\(((?:ge|gt|le)=\d+(?:, le=\d+)?)(?:, allow_inf_nan=False)?\)\]")
"""Annotation of a number with nothing but bounds."""
_WITHIN = {"ge": operator.ge, "gt": operator.gt, "le": operator.le}
_HUGE = 2**53
"""Integers from here on are not exact as floats, and are left to pydantic."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def in_file(name: str) -> str:
    """Return a field's name in a file: camelCase there, snake_case here."""
    if name == "schema_":
        return "$schema"
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


class Declared(Value):
    """What a configuration file holds: names are in camelCase there, in snake_case here."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "alias_generator": in_file,
        "field_title_generator": lambda name, _: name.strip("_").replace("_", " ").capitalize(),
        "validate_by_name": True,
        "validate_by_alias": True,
        "extra": "ignore",  # unknown fields are warnings; `unknown_fields` finds them
    }


def with_examples(*examples: dict[str, Any]) -> dict[str, Any]:
    """Return the pydantic config of a `Declared` class whose schema has examples."""
    return {**Declared.__pydantic_config__, "json_schema_extra": {"examples": list(examples)}}


def plainly(declared: type[T], data: Any) -> T:
    """Convert JSON to a dataclass without pydantic; `ValueError` if a value does not plainly match its annotation."""
    if not isinstance(data, dict):
        raise ValueError("expected an object in braces")  # noqa: TRY004 - as for any other unexpected value
    values: dict[str, Any] = {}
    for spec in dataclasses.fields(declared):  # type: ignore[arg-type]
        if (name := in_file(spec.name)) in data:
            annotation, group = str(spec.type), spec.default_factory
            try:
                if isinstance(group, type) and group.__name__ == annotation:
                    values[spec.name] = plainly(group, data[name])
                else:
                    values[spec.name] = _plain(annotation, data[name])
            except ValueError as error:
                raise ValueError(f"{name}: {error}, not {shown(data[name])}") from error
        elif spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING:
            raise ValueError(f"{name}: is missing")
    return declared(**values)


def _plain(annotation: str, value: Any) -> Any:
    """Convert a JSON value to what the source text of an annotation stands for; raise `ValueError` as `plainly`."""
    if value is None and annotation.endswith(" | None"):
        return None
    if annotation == "BaseEntry":
        return plainly(BaseEntry, {"knowledge": value} if isinstance(value, str) else value)
    if annotation == "Ids":
        annotation, value = "tuple[str, ...]", [value] if isinstance(value, str) else value
    if allowed := _ALLOWED.get(annotation):
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(f"expected one of {', '.join(map(repr, allowed))}")
        return value
    if number := _NUMBER.fullmatch(annotation):
        if type(value) not in ((int, float) if number[1] == "float" else (int,)) or not abs(value) < _HUGE:
            raise ValueError("expected a number")
        for limit in number[2].split(", "):
            name, _, bound = limit.partition("=")
            if not _WITHIN[name](value, float(bound)):
                raise ValueError("out of bounds")
        return float(value) if number[1] == "float" else value
    annotation = annotation.removesuffix(" | None")
    if annotation not in _EXPECTED or not isinstance(value, _EXPECTED[annotation][0]):
        raise ValueError(f"expected {_EXPECTED.get(annotation, ('', annotation))[1]}")
    of = _ITEMS.get(annotation, "str")
    if isinstance(value, list):
        return tuple([_plain(of, one) for one in value])
    if isinstance(value, dict):
        return {_plain("str", key): _plain(of, one) for key, one in value.items()}
    if isinstance(value, str):
        value.encode()  # fails for lone surrogates
        return Path(value) if annotation == "Path" else path_text(value) if annotation == "PathText" else value
    return value


def path_text(text: str) -> str:
    """Return a string if it can be a path, else raise `ValueError`."""
    if not text.strip() or _CONTROL.search(text):
        raise ValueError("expected a path without control characters")
    return text


def first_error(error: ValidationError) -> tuple[tuple[str, ...], str]:
    """Return the path of the first invalid field, and what was expected there."""
    first = error.errors(include_url=False)[0]
    # Names in parentheses are branches of unions, not fields of the file.
    field = tuple(str(part) for part in first["loc"] if not str(part).startswith("("))
    if first["type"] == "missing":
        return field, "is missing"
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    message = message.partition(", unable to ")[0]  # redundant, as the input is shown
    message = _CHOICES.get(str(first["loc"][-1]) if first["loc"] else "", message)
    return field, f"{message}, not {shown(first['input'])}"


def shown(value: Any) -> str:
    """Return a wrong value as shown in an error."""
    return cut(json.dumps(value, ensure_ascii=False, default=str))


def unknown_fields(declared: type, data: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    """Yield the undeclared fields of `data` and of the groups in it, each with what a warning says of it."""
    known = {in_file(spec.name): spec.default_factory for spec in dataclasses.fields(declared)}
    for number, key in enumerate(filterfalse(known.__contains__, data)):
        # Looking for the nearest one takes a tenth of a millisecond.
        near = nearest(cut(key), known) if number < MOST_UNKNOWN else None
        hint = f"did you mean {f'{prefix}{near}'!r}?" if near else "it has no effect."
        yield f"{prefix}{cut(key)}", f"unknown field {f'{prefix}{cut(key)}'!r}; {hint}"
    for name, group in known.items():
        if isinstance(group, type) and dataclasses.is_dataclass(group) and isinstance(value := data.get(name), dict):
            yield from unknown_fields(group, value, f"{prefix}{name}.")


def few(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the first warnings about a file's fields, and one that counts the rest."""
    warnings = tuple(problems)
    if (more := len(warnings) - MOST_UNKNOWN) <= 0:
        return warnings
    return (*warnings[:MOST_UNKNOWN], Problem(subject=warnings[0].subject, message=f"unknown fields, {more} more."))


def cut(text: str, most: int = _SHOWN_INPUT) -> str:
    """Shorten a text for an error, to so many characters."""
    return text if len(text) <= most else f"{text[:most]}…"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `word`, or None if none is similar enough."""
    folded = {name.lower().replace("_", ""): name for name in known}
    matches = difflib.get_close_matches(word[:_LOOKED_AT].lower().replace("_", ""), folded, n=1)
    return folded[matches[0]] if matches else None


if TYPE_CHECKING:
    from pydantic import Field

    from kbhub.workspace.tool_names import ToolName

    # For type checkers; `validation` has them with their conditions.
    PathText = str
    ToolSet = Literal["core", "all"] | tuple[ToolName, ...]
    Bases = dict[str, "BaseEntry"]
    Repos = dict[str, tuple[str, ...]]

RESERVED_IDS = ("*", "project", "memory", "user")

ENV_PREFIX = "KBHUB_"
OTHER_VARIABLES = frozenset(
    f"{ENV_PREFIX}{name}" for name in ("ROOT", "CONFIG", "CACHE_DIR", "DATA_DIR", "BASES", "DISABLE", "PROTOCOL")
)

MAX_RULES = 2000
"""Patterns of one ignore file, or of one `include` or `exclude`; the longest public template has some 500, and each
takes a tenth of a millisecond before a file can be looked at. A file's further ones do not count."""
MIB = 1 << 20
DEFAULT_FILE_BYTES = 5 * MIB
"""Bytes of the longest document: product.md. Hand-written Markdown is a hundredth of it."""
DEFAULT_OLLAMA_MODEL = "qwen3:0.6b"
"""The smallest model of Ollama's library (0.5 GB) that answers in a given form; it runs on any machine."""
DEFAULT_MODEL_SECONDS = 4.0
"""Longest that a search waits for a language model: as long as people wait for a page."""
MOST_MODEL_SECONDS = 600.0
"""Longest wait that can be set; who asks has gone by then."""
MOST_CANDIDATES = 40
"""Hits that are graded at most: what comes after is hardly ever the answer, and each costs a request."""


class BaseFields(Declared):
    """What a pointer and an entry of `bases` have in common."""

    cache_dir: PathText | None = None
    """Folder for the index, relative to this file; `~` is allowed. From a pointer, it is only used after `kbhub
    base trust`."""
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
    """Whether agents may not write documents there, unless you allow it with `kbhub base trust --writable`."""
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
    """What the files are: documents, or logs of coding agents (Claude Code, Codex, Copilot CLI, Gemini CLI)."""
    keep_deleted: tuple[str, ...] = ()
    """`.gitignore`-style patterns of files whose text is kept and stays searchable after they are deleted."""
    sessions_of: PathText | None = None
    """Project whose sessions alone belong to a base of kind `session`: those that began in its folder."""
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
    candidates: Annotated[int, Field(ge=2, le=MOST_CANDIDATES)] = 20  # as many as the built-in second look takes in
    """Number of hits to grade, from the first."""


class AnswerSettings(Declared):
    """Who writes the answers of `ask` if the client's own model does not."""

    model: Annotated[str | None, Field(min_length=1)] = None
    """Ollama model that writes answers. null for none: answers are then composed of sentences of the documents."""
    seconds: Annotated[float, Field(gt=0, le=MOST_MODEL_SECONDS)] = 45.0  # MCP clients give a call up after 60
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


Editor = Literal["vscode", "vscodium", "cursor", "windsurf", "zed", "idea", "sublime", "obsidian"]
"""Editors that open a file by an address."""


class UiSettings(Declared):
    """The pages of `kbhub ui`."""

    editor: Editor = "vscode"
    """Editor for "Open in editor"."""


class DistilSettings(Declared):
    """Model names for `kbhub doc distil`."""

    # Which version answered, only its owner knows.
    models: dict[str, str] = field(default_factory=partial(dict, claude="claude", codex="codex", gemini="gemini"))
    """Alias → model name, such as `claude` → `claude-sonnet-4`; `c`, `x` and `g` stand for `claude`, `codex` and
    `gemini`."""


class MemorySettings(Declared):
    """Memories of agents."""

    enabled: bool = True
    """Whether memories are stored and searched."""
    shared: bool = False
    """Whether memories may be written to `memories/` of the project base, shared with everyone who has the project."""
    trash_days: Annotated[int, Field(ge=0)] = 30  # what the bins of desktop systems and mail programs keep
    """Days to keep forgotten memories, in `trash/` of the data directory."""


class LimitSettings(Declared):
    """Limits on what kbhub reads."""

    file_bytes: Annotated[int, Field(ge=1)] = DEFAULT_FILE_BYTES
    """Maximum size of a file, in bytes."""
    pdf_bytes: Annotated[int, Field(ge=1)] = 50 * MIB  # the books of publishers stay below
    """Maximum size of a PDF, in bytes."""
    converted_bytes: Annotated[int, Field(ge=1)] = 50 * MIB  # most of a long one are pictures
    """Maximum size of any other file that is converted, in bytes: Office documents, EPUB, HTML, notebooks, mail."""
    session_bytes: Annotated[int, Field(ge=1)] = 100 * MIB  # days of work; rendering it takes some seconds
    """Maximum size of a session log, in bytes."""
    files: Annotated[int, Field(ge=1)] = 100_000  # ten times the largest of the vaults that kbhub is measured with
    """Maximum number of files per base; the rest is skipped."""
    freshen_files: Annotated[int, Field(ge=0)] = 2000  # some 10 ms of file-system calls
    """Maximum number of files of a base to sync before a search on the command line."""


class ServeSettings(Declared):
    """The shared daemon, and MCP over HTTP."""

    # No service has it at IANA, and no system hands it out to outgoing connections (32768 and above).
    port: Annotated[int, Field(ge=0, le=65535)] = 28722
    """Port of `kbhub serve --http` on the loopback interface; 0 picks a free one."""
    unload_minutes: Annotated[float, Field(gt=0)] = 10.0  # an editor that is restarted finds everything as it was
    """Minutes without a client after which the daemon releases indexes and models."""
    end_minutes: Annotated[float, Field(gt=0)] = 60.0  # a break for lunch; a start takes half a second
    """Minutes without a client after which a daemon started by `kbhub serve --connect` stops."""


class AuditSettings(Declared):
    """What `kbhub audit` looks for."""

    ignore: tuple[str, ...] = ()
    """Checks that only run by name, such as `orphans`."""


class LogSettings(Declared):
    """Messages on standard error, and the query log."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "WARNING"
    """Minimum level to log."""
    queries: bool = True
    """Whether to log queries, only in the data directory, to find missing knowledge and to rank what was read
    before."""
    days: Annotated[int, Field(ge=1)] = 90  # a quarter of a year, in which what recurs does so
    """Days to keep logged queries."""


class Settings(Declared):
    """All settings that can also be set by a variable: `KBHUB_READ_ONLY`, `KBHUB_SEARCH__LIMIT`, and so on."""

    docs_fallback: bool = True
    """Whether to search a repository's `docs/` if the project has no other knowledge, or only `knowledge/`."""
    read_only: bool = False
    """Turns off every tool that writes."""
    tools: ToolSet = "core"
    """Tools offered to agents: `core`, `all` (and `ask` even if no model can write the answer), or a list of names."""
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
    audit: AuditSettings = field(default_factory=AuditSettings)
    """Audits."""
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
