"""The server's entry in the files of clients: find, register and remove it, with a dated backup and no other change."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import pairwise
from pathlib import Path, PureWindowsPath
from typing import Any

import tomlkit
import yaml
from tomlkit.exceptions import TOMLKitError

from kbhub.errors import ConfigError
from kbhub.setup.clients import CLIENTS, SERVER, AnyName, Client, Form, Machine, Shape, client_named
from kbhub.setup.plan import MAX_BYTES, MODE, PlannedStep, Step, failed, major_version, original, planned
from kbhub.values import struct
from kbhub.workspace import config_edits
from kbhub.workspace.config import BOM, parse_jsonc
from kbhub.workspace.config_edits import newline_of
from kbhub.workspace.files import content_of

_UNUSUAL = "has an unusual layout; make the change by hand"

SERVE = "serve"
"""The subcommand that runs the server; arguments after it in an entry are the user's."""

_NESTED_SINCE = 2
"""Major version of opencode that nests servers a level deeper (opencode.ai/v2/docs/mcp-servers)."""

_LEADING = 7
"""Words of a command line searched for `kbhub`; in `uv tool run --from URL kbhub serve` it is the sixth."""


@struct
class RegisteredServer:
    """A server's entry, parsed."""

    name: str
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    enabled: bool = True
    keys: frozenset[str] = frozenset()


@struct
class Registration:
    """The server as a client of this machine has it."""

    client: Client
    file: Path
    entry: RegisteredServer
    program: str | None = None
    """What the entry starts; None if it does not exist."""
    fault: str = ""
    """Why the file cannot be read."""


@struct
class Target:
    """A file in which the server is to be registered or removed."""

    client: Client
    file: Path
    keys: tuple[str, ...]
    shape: Shape
    argv: tuple[str, ...]
    original: Mapping[str, Any]  # what the file held before kbhub changed it

    def wants(self, entry: RegisteredServer) -> bool:
        """Return whether an entry starts the right command; other options that follow `serve` are the user's."""
        base = self.argv[: self.argv.index(SERVE) + 1]
        return entry.argv[: len(base)] == base and not self.news_for(entry)

    def news_for(self, entry: RegisteredServer) -> str:
        """Return what changes for the windows of an entry, empty for nothing."""
        same = (MODE in self.argv) == (MODE in entry.argv) or "--http" in entry.argv
        return "" if same else NEWS[MODE in self.argv]

    def lacks(self, entry: RegisteredServer) -> dict[str, Any]:
        """Return the fields that an entry lacks to keep its tools in sight; a value that the user gave stays."""
        return {key: value for key, value in self.shape.loaded.items() if key not in entry.keys}


def _file_of(client: Client, machine: Machine, root: Path | None) -> Path:
    """Return the user's file of a client or, with the root of a project, its file there, if it has one."""
    if root is None or not client.project:
        return machine.file(client)
    paths = [root / name for name in client.project]
    return next((path for path in paths if path.is_file()), paths[-1])


def registered(text: str, target: Target) -> RegisteredServer | None:
    """Find kbhub's entry in a file: by name, or else by the command it starts."""
    entries = servers(parse(text, target.client.form, target.file), target.keys, target.file)
    if SERVER in entries:
        return entry_of(SERVER, entries[SERVER], target.shape)
    parsed = (entry_of(name, raw, target.shape) for name, raw in entries.items())
    return next((entry for entry in parsed if runs_kbhub(entry)), None)


def entry_of(name: str, raw: Any, shape: Shape) -> RegisteredServer:
    """Parse an entry; `argv` is empty if it has no command."""
    fields = raw if isinstance(raw, Mapping) else {}
    command, args = fields.get(shape.command), fields.get(shape.args or "", [])
    words = command if isinstance(command, list) else [command, *(args if isinstance(args, list) else [])]
    argv = tuple(words) if all(isinstance(word, str) for word in words) else ()
    env = fields.get(shape.env)
    variables = {str(key): str(value) for key, value in env.items()} if isinstance(env, Mapping) else {}
    enabled = fields.get("enabled") is not False and fields.get("disabled") is not True
    return RegisteredServer(name, argv, variables, enabled, frozenset(fields))


def runs_kbhub(entry: RegisteredServer) -> bool:
    """Return whether an entry starts this server, through whatever runner."""
    # PureWindowsPath splits at both separators, so it handles paths of any platform.
    return SERVE in entry.argv and any(PureWindowsPath(word).stem == SERVER for word in entry.argv[:_LEADING])


def _keys(client: Client, file: Path, machine: Machine) -> tuple[str, ...]:
    """Return the key path of the servers, which for opencode depends on the file and the installed version."""
    if not client.later_keys:
        return client.keys
    holder = data_of(file, client.form).get(client.keys[0])
    nested = holder.get(client.later_keys[1]) if isinstance(holder, Mapping) else None
    if isinstance(nested, Mapping) and not {"command", "url"} & nested.keys():
        return client.later_keys
    version = None if holder else major_version(client.programs[0], machine)
    return client.later_keys if version is not None and version >= _NESTED_SINCE else client.keys


def registrations(machine: Machine) -> tuple[Registration, ...]:
    """Find the server in the user's files of all clients; those of projects may not be trustworthy."""
    found = list[Registration]()
    for client in CLIENTS:
        if not (file := machine.file(client)).is_file():
            continue
        try:
            raw = servers(data_of(file, client.form), _keys(client, file, machine), file)
        except ConfigError as error:
            found.append(Registration(client, file, RegisteredServer(SERVER), fault=str(error)))
            continue
        for entry in (entry_of(key, fields, client.shape) for key, fields in raw.items()):
            if entry.name == SERVER or runs_kbhub(entry):
                path = entry.env.get("PATH", machine.env.get("PATH", ""))
                program = shutil.which(entry.argv[0], path=path) if entry.argv else None
                found.append(Registration(client, file, entry, program))
    return tuple(found)


def unregistered(machine: Machine) -> tuple[str, ...]:
    """Return the titles of installed clients that lack the server."""
    having = [registration.client for registration in registrations(machine)]
    return tuple(client.title for client in CLIENTS if client not in having and machine.has(client))


SHOWN = "Adds {}, so that the client always shows the tools to its model."
OFF = "It is disabled there; enable it in the client's settings."
NEWS = ("Each window has a process of its own.", "Windows share one process; `--own-process` gives each its own.")


def chosen_clients(machine: Machine, names: Sequence[AnyName], root: Path | None = None) -> tuple[Client, ...]:
    """Return the named clients, or those that are installed or have a file in a project's `root`, as in a team."""
    if names:
        return tuple(client_named(name) for name in dict.fromkeys(names) if name != "jetbrains-ai")
    return tuple(
        client
        for client in CLIENTS
        if machine.has(client) or (root and client.project and _file_of(client, machine, root).is_file())
    )


def without_project_file(clients: Sequence[Client], *, remove: bool) -> tuple[str, ...]:
    """Return a note for each client without project files, saying what to do instead."""
    effect = "removes it for you" if remove else "registers it for you only"
    return tuple(
        f"{client.title} has no project file; `kbhub setup --client {client.name}{' --remove' * remove}` {effect}."
        for client in clients
        if not client.project
    )


def client_tasks(
    clients: Sequence[Client], machine: Machine, argv: Sequence[str], root: Path | None = None, *, remove: bool
) -> list[PlannedStep]:
    """Plan to register the server, which `argv` starts, in the user's files or those of a project, or to remove it.

    The project's `root` has its symlinks resolved. Clients that share a file share a task.
    """
    readers: dict[Path, list[Client]] = {}
    for client in clients:
        if client.project or root is None:
            readers.setdefault(_file_of(client, machine, root), []).append(client)
    return [_planned(sharing, machine, argv, root, remove=remove) for sharing in readers.values()]


def _planned(
    clients: Sequence[Client], machine: Machine, argv: Sequence[str], root: Path | None, *, remove: bool
) -> PlannedStep:
    """Plan a change of the file of some clients; a file that cannot be parsed gives a failed step."""
    client, title = clients[0], ", ".join(client.title for client in clients)
    file, extra = _file_of(client, machine, root), client.project_args if root else ()
    step = Step(subject=client.name, title=title, action="remove" if remove else "register", file=file)
    try:
        keys, shape = _keys(client, file, machine), (root and client.project_shape) or client.shape
        before = parse(decode(original(file, machine), file), client.form, file)
        target = Target(client, file, keys, shape, (*argv, *extra), before)
        entry = registered(decode(content_of(file, MAX_BYTES), file), target)
    except ConfigError as error:
        return PlannedStep(failed(step, str(error)))
    if not remove:
        step = _registration(target, step, entry)
    elif entry:
        step = step.model_copy(update={"before": entry.argv if entry.name == SERVER else ()})
    if step.action == "nothing":
        return PlannedStep(step)
    notes = tuple(filter(None, ("" if root else client.hint, "" if remove else client.caveat)))
    return planned(step, lambda content: _edited(content, target, step), machine, within=root, notes=notes)


def _registration(target: Target, step: Step, entry: RegisteredServer | None) -> Step:
    if entry is None:
        return step.model_copy(update={"command": target.argv})
    off = "" if entry.enabled else OFF
    if entry.name == SERVER and (not target.wants(entry) or target.lacks(entry)):
        command, before = entry.argv, tuple[str, ...]()
        if not target.wants(entry):
            # The user's options stay.
            after = entry.argv[entry.argv.index(SERVE) + 1 :] if runs_kbhub(entry) else ()
            own, before = [word for word in after if word != MODE], entry.argv
            mode = [MODE] if MODE in target.argv and "--http" not in own else []
            command = (*target.argv[: target.argv.index(SERVE) + 1], *mode, *own) if own else target.argv
        added = SHOWN.format(", ".join(target.lacks(entry))) if target.lacks(entry) else ""
        notes = tuple(filter(None, (target.news_for(entry), added, off)))
        return step.model_copy(update={"action": "update", "command": command, "before": before, "notes": notes})
    other = "" if entry.name == SERVER else f"It is already registered as {entry.name!r}."
    notes = tuple(filter(None, (other, off)))
    return step.model_copy(update={"action": "nothing", "command": entry.argv, "notes": notes})


def _edited(content: bytes | None, target: Target, step: Step) -> bytes | None:
    """Return the file so that it starts the step's command, or without its entry; `ConfigError` if more changes."""
    text, form, keys, path = decode(content, target.file), target.client.form, target.keys, target.file
    entry, fields, remove = registered(text, target), None, step.action == "remove"
    if entry is None or entry.name != SERVER:
        if remove:
            return content
        fields = target.shape.entry(step.command)
    elif not remove:
        command = {} if target.wants(entry) else target.shape.fields(step.command)
        fields = {**command, **target.lacks(entry)}
        if not fields:
            return content
    expected = parse(text, form, path)
    old = servers(expected, keys, path).get(SERVER)
    if old is not None and fields is not None and not isinstance(old, Mapping):
        raise ConfigError(path, "expected an object; it was left unchanged", ".".join((*keys, SERVER)))
    _, edit = FORMATS[form]
    after = BOM * text.startswith(BOM) + edit(text.removeprefix(BOM), target, old, fields)
    holder: Any = expected
    for key in keys:
        holder[key] = holder.get(key) or {}
        holder = holder[key]
    if fields is None:
        del holder[SERVER]
    else:
        holder[SERVER] = {**(old or {}), **fields}
    with suppress(ConfigError):
        if _plain(parse(after, form, path), keys) == _plain(expected, keys):
            return after.encode()
    raise ConfigError(path, _UNUSUAL)


def decode(content: bytes | None, path: Path) -> str:
    """Decode a file's content; None means that there is no file and gives an empty string."""
    try:
        return (content or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(path, "is not UTF-8 text; it was left unchanged") from error


def data_of(file: Path, form: Form = "json") -> dict[str, Any]:
    """Parse a client's file, which need not exist. Raises like `decode` and `content_of`."""
    return parse(decode(content_of(file, MAX_BYTES), file), form, file)


def parse(text: str, form: Form, path: Path) -> dict[str, Any]:
    """Parse a client's file; a blank file is an empty object."""
    text = text.removeprefix(BOM)
    if not text.strip():
        return {}
    data = FORMATS[form][0](text, path)
    if not isinstance(data, dict):
        raise ConfigError(path, "does not hold an object; it was left unchanged")
    return data


def servers(data: Mapping[str, Any], keys: Sequence[str], path: Path) -> Mapping[str, Any]:
    """Return the servers in a parsed file, by name."""
    node: Any = data
    for number, key in enumerate(keys):
        node = node.get(key)
        if node is None:
            return {}
        if not isinstance(node, Mapping):
            raise ConfigError(path, "expected an object; it was left unchanged", ".".join(keys[: number + 1]))
    return node  # type: ignore[no-any-return]  # a Mapping, as the loop saw


def _plain(data: Any, keys: Sequence[str]) -> Any:
    """Return parsed data without the empty objects on the servers' key path."""
    if keys and isinstance(data, dict) and keys[0] in data:
        inner = _plain(data[keys[0]], keys[1:])
        rest = {key: value for key, value in data.items() if key != keys[0]}
        return {**rest, keys[0]: inner} if inner else rest
    return data


def _json_edited(text: str, target: Target, old: Any, fields: dict[str, Any] | None) -> str:
    keys, path = target.keys, target.file
    if fields is None:
        text = config_edits.remove_value(text, [*keys, SERVER], path)
        for inner in (keys[:length] for length in range(len(keys), 0, -1)):
            empty = config_edits.set_value(text, inner, {}, path)
            if "".join(empty.split()) != "".join(text.split()):  # something else is there, or a comment
                return text
            if inner[-1] in servers(target.original, inner[:-1], path):
                return empty  # `{}`, as before
            text = config_edits.remove_value(text, inner, path)
        return text
    if old is None:
        return config_edits.set_value(text if text.strip() else config_edits.NEW_FILE, [*keys, SERVER], fields, path)
    for key, value in fields.items():
        text = config_edits.set_value(text, [*keys, SERVER, key], value, path)
    return text


def _toml_parse(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(path, f"malformed TOML: {error}") from error


def _toml_edited(text: str, target: Target, old: Any, fields: dict[str, Any] | None) -> str:
    """Return the text with a table appended, or changed or added in place, or without the table and its subtables."""
    keys, path, newline = target.keys, target.file, newline_of(text)
    if fields is not None and old is not None:
        return _rewritten(text, [*keys, SERVER], path, lambda table: table.update(fields))
    if fields is not None:
        lines = [f"[{'.'.join((*keys, SERVER))}]"]
        lines += [f"{key} = {tomlkit.item(value).as_string()}" for key, value in fields.items()]
        head = "" if not text.strip() else text if text.endswith("\n") else text + newline
        edited = head + (newline if head else "") + newline.join(lines) + newline
        try:
            _toml_parse(edited, path)
        except ConfigError:  # the servers are an inline table
            return _rewritten(text, keys, path, lambda holder: holder.update({SERVER: fields}))
        return edited
    name = r"[ \t]*\.[ \t]*".join(rf"[\"']?{re.escape(key)}[\"']?" for key in (*keys, SERVER))
    blank, line = r"(?:[ \t\r]*(?:#[^\n]*)?\n)*", r"(?![ \t]*\[)[ \t]*[^\s#][^\n]*(?:\n|\Z)"
    table = re.compile(rf"(?m)^[ \t]*\[[ \t]*{name}[ \t]*[.\]][^\n]*(?:\n|\Z)(?:{blank}{line})*")
    tables = [*table.finditer(_LONG_STRING.sub(lambda string: re.sub(r"[^\n]", "-", string[0]), text))]
    if not tables:
        return _rewritten(text, keys, path, lambda holder: holder.remove(SERVER))
    head, after = text[: tables[0].start()], text[tables[-1].end() :]
    inner = "".join(text[one.end() : two.start()] for one, two in pairwise(tables))  # comments before the next table
    if head.endswith(f"\n{newline}") and (not after or after.startswith(newline)):
        head = head.removesuffix(newline)
    return head + inner.strip(newline) + after


_LONG_STRING = re.compile(r'"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'')  # a line in it may look like a table


def _rewritten(text: str, keys: Sequence[str], path: Path, change: Callable[[Any], object]) -> str:
    try:
        document = tomlkit.parse(text)
        holder: Any = document
        for key in keys:
            holder = holder[key]
        change(holder)
        return tomlkit.dumps(document)
    except (TOMLKitError, KeyError, AttributeError) as error:
        raise ConfigError(path, _UNUSUAL) from error


_UNIT = 2
"""Spaces per level where the file does not show its own indentation."""


def _yaml_parse(text: str, path: Path) -> Any:
    """Parse a client's YAML file; `ConfigError` if it is malformed."""
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(path, f"malformed YAML: {' '.join(str(error).split())}") from error
    return {} if data is None else data


def _yaml_edited(text: str, target: Target, old: Any, fields: dict[str, Any] | None) -> str:
    """Return the text with a key added at the start of its mapping, which `keys` has alone, or without it."""
    (key,), newline = target.keys, newline_of(text)
    # Its line, if its value is a block or nothing.
    nothing, comment = r"(?:[ \t]*(?:{}|null|~))?", r"(?P<comment>[ \t\r]*(?:#[^\n]*)?)"
    line = re.search(rf"(?m)^{re.escape(key)}:{nothing}{comment}(?:\n|\Z)", text)
    if fields is not None and old is not None:
        return _yaml_edited(_yaml_edited(text, target, old, None), target, None, {**old, **fields})
    if fields is not None and line is None:
        head = text if not text or text.endswith("\n") else text + newline
        return head + newline.join([f"{key}:", *_block(fields, " " * _UNIT)]) + newline
    if line is None:
        raise ConfigError(target.file, _UNUSUAL, key)
    head, rest = text[: line.end()], text[line.end() :]
    first = re.match(r"(?:[ \t\r]*(?:#[^\n]*)?\n)*( +)\S", rest)
    indent = first[1] if first else " " * _UNIT  # of the entries with which the block begins
    if fields is not None:
        opening = f"{key}:{line['comment'].rstrip()}"
        return f"{text[: line.start()]}{opening}{newline}{newline.join(_block(fields, indent))}{newline}{rest}"
    after = head + re.sub(
        rf"(?m)^{indent}{SERVER}:[^\n]*(?:\n|\Z)(?:(?:[ \t\r]*\n)*{indent} +[^\n]*(?:\n|\Z))*", "", rest, count=1
    )
    if _yaml_parse(after, target.file).get(key) is None:  # a key without a value would be null
        if key not in target.original and not line["comment"]:
            return after[: line.start()] + after[line.end() :]
        colon = line.start() + len(f"{key}:")
        after = f"{after[:colon]} {{}}{after[colon:]}"
    return after


def _block(entry: dict[str, Any], indent: str) -> list[str]:
    """Render an entry; JSON scalars, lists and empty objects are valid YAML."""
    inner = f"{indent}{' ' * _UNIT}"
    fields = (f"{inner}{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items())
    return [f"{indent}{SERVER}:", *fields]


Edit = Callable[[str, Target, Any, dict[str, Any] | None], str]
"""Edits a text: with the server's entry before, and the fields to set in it (None for no entry)."""

FORMATS: dict[Form, tuple[Callable[[str, Path], Any], Edit]] = {
    "json": (parse_jsonc, _json_edited),
    "toml": (_toml_parse, _toml_edited),
    "yaml": (_yaml_parse, _yaml_edited),
}
