"""The parts of pages that are made from the code: commands, errors, schemas, Python API, fields, clients, tools."""

from __future__ import annotations

import inspect
import io
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_type_hints

from rich.console import Console

import kbhub
from kbhub import errors
from kbhub.cli.app import HelpColumns, _plain, app
from kbhub.server.definitions import expected
from kbhub.setup.clients import CLIENTS, Machine
from kbhub.values import Value
from kbhub.workspace.settings import GlobalConfig
from kbhub.workspace.tool_names import BY_MODEL, CORE, WRITERS
from kbhub.workspace.validation import schema as workspace_schema

COMMON = "Common options"
REPEATED = "; may be repeated"


def load(group):
    """Import every command of a group: in a list of commands, cyclopts describes only those that are loaded."""
    for name, command in group.resolved_commands().items():
        if not name.startswith("-"):
            load(command)


load(app)


@dataclass
class Page(HelpColumns):
    """What the help of one command says, taken apart; stands in for what prints it."""

    words: tuple[str, ...]
    usage: str = ""
    paragraphs: list[str] = field(default_factory=list)
    panels: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    """Title → (names, description, choices) of each entry."""

    def __call__(self, _console, _options, panel):
        for entry in panel.entries:
            value = entry.metavar and not entry.choices and not entry.positional_label
            names = ", ".join(f"`{label}`" for label in entry.display_labels)
            names += f" {entry.metavar.rstrip('.')}" if value else ""
            about = " ".join(_plain(entry.description).split())
            self.panels.setdefault(panel.title, []).append((names, about, ", ".join(entry.choices or ())))

    def render_usage(self, _console, _options, usage):
        self.usage = _plain(usage).removeprefix("Usage: ")

    def render_description(self, _console, _options, description):
        text = _plain(description)
        self.paragraphs += [" ".join(one.split()) for one in text.split("\n\n") if one.strip()]

    @property
    def name(self):
        return " ".join(("kbhub", *self.words))

    @property
    def summary(self):
        return self.paragraphs[0]

    @property
    def example(self):
        return next((one for one in self.paragraphs if one.startswith("Example")), None)

    @property
    def own(self):
        """Arguments and options, without those of every command and without subcommands."""
        return {title: rows for title, rows in self.panels.items() if title not in (COMMON, "Commands")}


def pages():
    """The help of every command and every command of a group, in the order of the list of commands."""
    return [page_of(words) for words in _paths(())]


def _paths(words):
    inner = {id(one): name for name, one in reversed(_commands(command(words)).items())}
    for name in sorted(inner.values()) if not words else reversed(inner.values()):
        yield (*words, name)
        yield from _paths((*words, name))


def _commands(group):
    return {name: group[name] for name in group if not name.startswith("-")}


def page_of(words):
    page, holders = Page(words), [command(words[:depth]) for depth in range(len(words) + 1)]
    before = [one.help_formatter for one in holders]
    for one in holders:
        one.help_formatter = page
    try:
        app.help_print(list(words), console=Console(file=io.StringIO(), width=200))
    finally:
        for one, formatter in zip(holders, before, strict=True):
            one.help_formatter = formatter
    return page


def command(words):
    """The application of a command."""
    found = app
    for word in words:
        found = found[word]
    return found


def defaults(words):
    """Option → its default, for those that have one that says something."""
    if not command(words).default_command:
        return {}
    arguments = command(words).assemble_argument_collection()
    plain = [one for one in arguments if isinstance(one.field_info.default, str | int | float)]
    return {
        name: one.field_info.default for one in plain for name in one.names if one.field_info.default not in (False, "")
    }


def ending(words):
    """When the exit code is not 0, as the function says."""
    doc = inspect.getdoc(command(words).default_command) or ""
    said = re.search(r"\nReturns:\n +The exit code: ((?:1|2|130) .*)\.$", doc)
    return f"Exit code {said[1]}." if said else ""


def cell(text):
    return " ".join(str(text).split()).replace("|", "\\|")


def table(head, rows):
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(cell, row))} |" for row in rows)])


def command_section(page, shared=frozenset()):
    level = "##" if len(page.words) == 1 else "###"
    inner = page.panels.get("Commands", [])
    parts = [f"{level} `{page.name}`"]
    if (not inner or command(page.words).default_command) and page.usage != f"{page.name} [OPTIONS]":
        parts.append(f"`{page.usage.replace(' [OPTIONS]', '')}`")
    parts.append(" ".join(one for one in page.paragraphs if one != page.example))
    preset = defaults(page.words)
    rows = []
    for title, (names, about, choices) in ((title, row) for title, some in page.own.items() for row in some):
        if (names, about, choices) in shared or (title == "Arguments" and len(about.split()) < 4 and not choices):
            continue  # the usage says as much
        known = [str(preset[name]) for name in re.findall(r"`([^`]+)`", names) if name in preset]
        said = f"{about}{f' One of: {choices}.' if choices else ''}{f' Default: `{known[0]}`.' if known else ''}"
        several = "…" if REPEATED in said else ""
        rows.append(f"- {names.replace('_`', '`')}{several}: {said.replace(REPEATED, '')}")
    parts += ["\n".join(rows)] if rows else []
    parts.append(" ".join(filter(None, (example(page), ending(page.words)))))
    return "\n\n".join(filter(None, parts))


def example(page):
    about, _, line = (page.example or "").partition(": ")
    return f"{about}: `{line}`." if line and line != page.name else ""


def command_line():
    """The commands, and what they have in common."""
    every = pages()
    common = max((page.panels.get(COMMON, []) for page in every), key=len)
    database = {row for row in page_of(("team", "list")).own["Options"] if row[0].startswith("`--timeout`")}
    shared = "\n".join(
        f"- {names}{'…' if REPEATED in about else ''}: {about.replace(REPEATED, '')}" for names, about, _ in common
    )
    return "\n\n".join(
        [
            "An option with `…` after it may be repeated. `[OPTIONS]` is left out of the usage.",
            f"## Options of every command\n\n{shared}",
            "Those that choose a format (`--csv`, `--md`, `--xml`, `--files`) and `--no-pager` belong to commands that "
            "list things, `--files` to those that list files. `kbhub serve` and `kbhub admin stop` have no `--json` "
            "where they give no result.",
            "Commands with a database also have `--timeout` SECONDS, "
            f"{defaults(('team', 'list'))['--timeout']:g} by default.",
            *(command_section(page, database) for page in every),
        ]
    )


# -- errors ------------------------------------------------------------------------------------------------------------

HERE = Path("/home/ada/work/shop")
ERRORS = {
    "UsageError": (
        errors.UsageError("--json and --csv cannot be used together."),
        "Fix the call; see the command's `--help`, or the tool's description.",
    ),
    "ConfigError": (
        errors.ConfigError(Path("/home/ada/.kbhub.json"), 'expected a valid integer, not "many"', "search.limit"),
        "Fix the field, file or variable that it names; a running server picks up the fixed file. See "
        "[configuration](configuration.md) and the examples in `examples/broken`.",
    ),
    "BaseNotFound": (
        errors.BaseNotFound("opps", ["project", "ops"]),
        "Name one of the active bases. `kbhub base list` shows the other bases, and where they are active.",
    ),
    "DocumentNotFound": (
        errors.DocumentNotFound("runbook/rollback.md", near=["runbooks/rollback.md"]),
        "Use one of the refs that it suggests, or find the document with `search`.",
    ),
    "PartNotFound": (
        errors.PartNotFound("runbooks/rollback.md:90", "the document has only 42 lines"),
        "Read the document without the part, or one of the parts that it has.",
    ),
    "AmbiguousReference": (
        errors.AmbiguousReference("rollback", "this title", ["runbooks/rollback.md", "ops@rollback.md"]),
        "Name one of them by its path or docid.",
    ),
    "PathNotContained": (
        errors.PathNotContained("../secrets.md", "project"),
        "Add the folder as a base (`kbhub base add DIR`), or move the file into one.",
    ),
    "WriteRefused": (
        errors.WriteRefused(
            "ops@rollback.md", "the base 'ops' is not writable; set `writable` for it in ~/.kbhub.json"
        ),
        "Nothing was written. To allow it, change the setting that it names.",
    ),
    "SecretFound": (
        errors.SecretFound("The memory", "GitHub token", 2, "ghp_…"),
        "Nothing was written. Write down where the credential is kept instead; if it was pasted somewhere, revoke it.",
    ),
    "DocumentChanged": (
        errors.DocumentChanged("rollback.md", "4be0a1b2c3d4", "9f8e7d6c5b4a", "12 lines, saved 2 minutes ago"),
        "Nothing was written. Read the document again and redo the edit.",
    ),
    "MemoryNotFound": (
        errors.MemoryNotFound("k7f3a9c2"),
        "`kbhub memories` lists the memories with their ids; `kbhub forget --all` needs none.",
    ),
    "MemoriesUnavailable": (
        errors.MemoriesUnavailable(Path("/home/ada/.local/share/kbhub/memories"), "Permission denied"),
        "Make the folder writable, or move kbhub's data with `KBHUB_DATA_DIR`; if another process holds it, try again.",
    ),
    "QueryLogUnavailable": (
        errors.QueryLogUnavailable(Path("/home/ada/.local/share/kbhub/queries/shop.db"), "file is not a database"),
        "Move the file away: kbhub creates a new one, and only the logged queries are lost.",
    ),
    "BaseUnavailable": (
        errors.BaseUnavailable("ops", "/mnt/team/ops is gone"),
        "Restore the folder (is the drive mounted?), or remove the base: `kbhub base remove ops`.",
    ),
    "IndexUnavailable": (
        errors.IndexUnavailable(
            "ops", "database disk image is malformed", "Rebuild it with `kbhub admin index ops --full`."
        ),
        "An index can always be rebuilt from the files. If the error names the disk or permissions, first free "
        "space or fix the permissions of the cache folder.",
    ),
    "EngineUnavailable": (
        errors.EngineUnavailable(
            "postgresql://kb.example/team", "it did not answer within 10 s", "Raise `timeout`, or try again later."
        ),
        "Searches skip the database meanwhile, and say so; `kbhub doctor` finds out more.",
    ),
    "ModelUnavailable": (
        errors.ModelUnavailable("missing", "Ollama has no model 'qwen3:0.6b'. Fetch it with `ollama pull qwen3:0.6b`."),
        "Searches and answers work without the model meanwhile, and say so.",
    ),
    "EmbedderError": (
        errors.EmbedderError("Cannot load the embedding model 'models/potion': No such file or directory"),
        "Fix `embedder.model`, or remove it to use the packaged model. Until then, kbhub only searches by keyword.",
    ),
    "DatasetError": (
        errors.DatasetError(HERE / "golden.jsonl", "expected an object with `query` and `relevant`", 7),
        "Fix the line; [eval](eval.md) shows the formats.",
    ),
    "DaemonFault": (
        errors.DaemonFault("The daemon was not ready within 10 s; its log has more."),
        "Run `kbhub admin stop` and try again. Clients are served without the daemon meanwhile.",
    ),
}
"""Error → one as it is seen, and what to do about it."""


def error_classes():
    """Every class of the tree but its root, each below its parent."""

    def below(parent):
        for child in parent.__subclasses__():
            if child.__module__.startswith("kbhub."):
                yield child
                yield from below(child)

    return list(below(errors.KbhubError))


def error_page():
    parts = []
    for one in error_classes():
        example, advice = ERRORS[one.__name__]
        doc = inspect.getdoc(one).split("\n\n")[0]
        parent = one.__bases__[0]
        kind = f" A kind of `{parent.__name__}`." if parent is not errors.KbhubError else ""
        code = f" Exit code {one.exit_code}." if one.exit_code != 1 else ""
        parts += [f"## `{one.__name__}`", f"{' '.join(doc.split())}{kind}{code}", f"> {example}", advice]
    return "\n\n".join(parts)


# -- schemas -----------------------------------------------------------------------------------------------------------

OF_WHAT = {
    "config": "`~/.kbhub.json`: [configuration](configuration.md)",
    "memory": "front matter of a memory's file: [memories](memories.md)",
    "pointer": "a project's `.kbhub.json`: [configuration](configuration.md)",
}


def schema_page(schemas):
    rows = ((f"`{name}`", what) for name, what in OF_WHAT.items())
    tools = sorted(path.removeprefix("tools/").removesuffix(".input") for path in schemas if path.endswith(".input"))
    return (
        f"{table(('name', 'of what'), rows)}\n\nOf each [tool](tools.md): `NAME.input`, its parameters, and "
        "`NAME.output`, its structured answer. The files are `schemas/config.schema.json`, "
        f"`schemas/tools/NAME.input.schema.json` and so on. NAME is {', '.join(f'`{name}`' for name in tools)}."
    )


# -- Python ------------------------------------------------------------------------------------------------------------

METHODS = ("open", "search", "read", "sync", "status")
"""What a script needs of a hub; the rest may change."""

FUNCTIONS = ("ask", "remember", "memories", "forget")
MODELS = ("Query", "SearchResult", "Hit", "ReadOptions", "ReadResult", "Reading", "SyncReport", "Status", "AskOptions")
MODELS += ("Answer", "Remembered", "Memory", "MemoryList", "Forgotten")


def annotation(value):
    text = value if isinstance(value, str) else inspect.formatannotation(value)
    return re.sub(r"\b(?:kbhub|typing|collections\.abc|pathlib)\.(?:\w+\.)*", "", text)


def signature(found):
    """What a function takes, by name and with its type, and `*` before what it takes by keyword alone."""
    made = inspect.signature(found)
    taken = [one for one in made.parameters.values() if one.name not in ("self", "cls", "hub")]
    types = {
        one.name: f"{annotation(one.annotation)}{'' if one.default in (one.empty, None) else f' = {one.default!r}'}"
        for one in taken
    }
    names = [one.name for one in taken]
    keyword = next((at for at, one in enumerate(taken) if one.kind is one.KEYWORD_ONLY), None)
    if keyword is not None:
        names.insert(keyword, "*")
    if "hub" in made.parameters:
        names.insert(0, "hub")
    return ", ".join(names), types, annotation(made.return_annotation).replace("Self", "Hub")


def docstring(found, types=None):
    """A Google docstring as Markdown; the hub that every function takes first goes without saying."""
    text = inspect.getdoc(found)
    sections = re.split(r"\n\n(Args|Returns|Raises|Yields):\n", text)
    parts = [" ".join(sections[0].split())]
    for title, body in zip(sections[1::2], sections[2::2], strict=True):
        entries = re.findall(r"^ {4}(\S.*?)(?=\n {4}\S|\Z)", body, re.DOTALL | re.MULTILINE)
        told = [" ".join(one.split()) for one in entries]
        told = [one for one in told if not one.startswith("hub: ")]
        if title == "Args":
            rows = [one.partition(": ") for one in told]
            told = [f"`{name}: {types[name]}`: {about}" if types else f"`{name}`: {about}" for name, _, about in rows]
        else:
            told = [re.sub(r"^([\w, ]+): ", lambda names: f"`{names[1].replace(', ', '`, `')}`: ", one) for one in told]
        parts.append(f"{title} {' '.join(told)}" if title != "Args" else "\n".join(f"- {one}" for one in told))
    return "\n\n".join(parts)


def fields_of(model):
    if hasattr(model, "model_fields"):
        return [(name, annotation(one.annotation), one.description) for name, one in model.model_fields.items()]
    source = inspect.getsource(model)
    found = re.findall(r'^    (\w+): ([^\n]+?)(?: = [^\n]+)?\n    """(.+?)"""', source, re.DOTALL | re.MULTILINE)
    types = get_type_hints(model) if issubclass(model, Value) else {}
    return [(name, annotation(types.get(name, kind)), " ".join(about.split())) for name, kind, about in found]


def python_page():
    hub = kbhub.Hub
    parts = ["## `Hub`", re.sub(r"\n\n- `options`.*?(?=\n\n)", "", docstring(hub))]
    for name, found in [(f"Hub.{name}", getattr(hub, name)) for name in METHODS] + [
        (name, getattr(kbhub, name)) for name in FUNCTIONS
    ]:
        taken, types, result = signature(found)
        level = "###" if "." in name else "##"
        parts += [f"{level} `{name}`", f"`{name}({taken}) -> {result}`", docstring(found, types)]
    for name in MODELS:
        model = getattr(kbhub, name)
        rows = [f"- `{one}: {kind}`: {about}" for one, kind, about in fields_of(model)]
        parts += [f"## `{name}`", docstring(model), "\n".join(rows)]
    parts += ["## `KbhubError`", docstring(kbhub.KbhubError) + " [All of them](errors.md)."]
    return "\n\n".join(parts)


# -- configuration, clients, tools -------------------------------------------------------------------------------------


def kind(schema) -> str:
    """What a value is, in a word or two."""
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(kind(one) for one in schema[several])
    if "$ref" in schema:
        return "object"
    return {"array": "list", "null": "null"}.get(schema.get("type", ""), schema.get("type", "any"))


def field_rows(schema, definitions, prefix=""):
    for name, value in schema["properties"].items():
        if name == "$schema":
            continue
        inner = definitions.get(value.get("$ref", "").rpartition("/")[2])
        if inner:
            yield from field_rows(inner, definitions, f"{prefix}{name}.")
            continue
        default = value.get("default")
        shown = "" if default in (None, [], {}) else f", default `{json.dumps(default)}`"
        yield f"- `{prefix}{name}` ({kind(value)}{shown}): {value['description']}"


def fields_list(schema) -> str:
    """A Markdown list of the fields of a configuration file; a pointer's without those of an object in `bases`."""
    definitions = schema.get("$defs", {})
    rows = list(field_rows(schema, definitions))
    if "BaseEntry" in definitions:
        return "\n".join([*rows, "", "An object in `bases`:", "", *field_rows(definitions["BaseEntry"], definitions)])
    entry = workspace_schema(GlobalConfig)["$defs"]["BaseEntry"]
    known = set(field_rows(entry, {}))
    shared = ", ".join(row.split()[1] for row in rows if row in known)
    return "\n".join([*(row for row in rows if row not in known), "", f"As in an object in `bases` above: {shared}."])


def clients_table() -> str:
    """A Markdown table of the clients that `kbhub setup` knows."""
    machine = Machine(Path("~"), {}, "linux")
    lines = ["| client | `--client` | file | in a project |", "|---|---|---|---|"]
    for client in CLIENTS:
        file = machine.path(client.files[-1]).as_posix()
        project = f"`{client.project[-1]}`" if client.project else ""
        lines.append(f"| {client.title} | `{client.name}` | `{file}` | {project} |")
    return "\n".join(lines)


def value(schema):
    return expected(schema).replace(", each item a string", " of strings")


def tool_section(tool):
    """The reference of one tool: what it does, then its parameters, those of `options` with the others."""
    marks = [
        mark
        for mark, names in (("core", CORE), ("core where a model can write", BY_MODEL), ("writes", WRITERS))
        if tool.name in names
    ]
    lines = [f"### `{tool.name}`" + (f" ({', '.join(marks)})" if marks else ""), "", tool.description, ""]
    for name, inner in tool.input_schema["properties"].items():
        must = ", required" if name in tool.input_schema.get("required", ()) else ""
        inside = inner.get("properties", {})
        lines.append(
            f"- `{name}` ({value(inner) if not inside else 'an object'}{must}): {inner.get('description', '')}"
        )
        lines += [f"- `{name}.{key}` ({value(one)}): {one.get('description', '')}" for key, one in inside.items()]
    return "\n".join(lines)
