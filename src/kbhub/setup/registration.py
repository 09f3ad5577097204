"""Find, register and remove the server in the files of clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import Any

from kbhub.errors import ConfigError
from kbhub.setup import plan
from kbhub.setup.clients import CLIENTS, SERVER, Client, Form, Machine, Platform, Shape, this_platform
from kbhub.setup.entries import (
    EntryLocation,
    back_up,
    decode,
    edit,
    parse,
    read_bytes,
    servers,
    with_entry,
    with_fields,
    without_entry,
)
from kbhub.setup.plan import RELOCATABLE, Action, AnyName, PlannedStep, Registration, Step, done, failed, major_version
from kbhub.values import struct
from kbhub.workspace.files import data_dir

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
    argv: tuple[str, ...]
    env: Mapping[str, str]
    enabled: bool


@struct
class Target:
    """A file in which the server is to be registered or removed."""

    client: Client
    title: str
    file: Path
    keys: tuple[str, ...]
    shape: Shape
    argv: tuple[str, ...]
    """The command line of the server."""
    within: Path | None = None
    """The project that the file must be in, or None for the user's own file."""

    @property
    def form(self) -> Form:
        """The format of the file."""
        return self.client.form

    def wants(self, entry: RegisteredServer) -> bool:
        """Return whether an entry starts the right command; options that follow `serve` are the user's."""
        base = self.argv[: self.argv.index(SERVE) + 1]
        return entry.argv[: len(base)] == base

    def argv_instead_of(self, entry: RegisteredServer) -> tuple[str, ...]:
        """Return the command line that replaces an entry's, keeping the user's options."""
        own = entry.argv[entry.argv.index(SERVE) + 1 :] if SERVE in entry.argv and runs_kbhub(entry) else ()
        return (*self.argv[: self.argv.index(SERVE) + 1], *own) if own else self.argv


def user_target(client: Client, machine: Machine, argv: Sequence[str]) -> Target:
    """Return the user's file of a client."""
    file = machine.file(client)
    keys = _keys(client, file, machine)
    return Target(client, client.title, file, keys, client.shape, tuple(argv))


def project_target(client: Client, machine: Machine, root: Path) -> Target | None:
    """Return a client's file in a project, or None if the client has none."""
    project = client.project
    if project is None:
        return None
    paths = [root / name for name in project.files]
    file = next((path for path in paths if path.is_file()), paths[-1])
    shape = project.shape or client.shape
    keys = _keys(client, file, machine)
    return Target(client, client.title, file, keys, shape, (*RELOCATABLE, *project.args), within=root)


def current_text(target: Target) -> str:
    """Read the target's file. Raises like `entries.decode` and `files.read_bytes`."""
    return decode(read_bytes(target.file), target.file)


def registered(text: str, target: Target) -> RegisteredServer | None:
    """Find kbhub's entry in a file: by name, or else by the command it starts."""
    entries = servers(parse(text, target.form, target.file), target.keys, target.file)
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
    return RegisteredServer(name, argv, variables, enabled)


def runs_kbhub(entry: RegisteredServer) -> bool:
    """Return whether an entry starts this server, through whatever runner."""
    # PureWindowsPath splits at both separators, so it handles paths of any platform.
    return SERVE in entry.argv and any(PureWindowsPath(word).stem == SERVER for word in entry.argv[:_LEADING])


def _keys(client: Client, file: Path, machine: Machine) -> tuple[str, ...]:
    """Return the key path of the servers, which for opencode depends on the file and the installed version."""
    if not client.later_keys:
        return client.keys
    data = parse(decode(read_bytes(file), file), client.form, file)
    holder = data.get(client.keys[0])
    nested = holder.get(client.later_keys[1]) if isinstance(holder, Mapping) else None
    if isinstance(nested, Mapping) and not {"command", "url"} & nested.keys():
        return client.later_keys
    version = None if holder else major_version(client.programs[0], machine)
    return client.later_keys if version is not None and version >= _NESTED_SINCE else client.keys


def registrations(env: Mapping[str, str], home: Path, platform: Platform | None = None) -> tuple[Registration, ...]:
    """Find the server in the user's files of all clients; an unreadable file gives a registration with a fault.

    Project files are not read: they may not be trustworthy, and clients ask before they start anything from them.
    """
    machine = Machine(home, env, platform or this_platform())
    registered: list[Registration] = []
    for client in CLIENTS:
        if machine.file(client).is_file():
            registered += _of(client, machine)
    return tuple(registered)


def unregistered(env: Mapping[str, str], home: Path, platform: Platform | None = None) -> tuple[str, ...]:
    """Return the titles of installed clients that lack the server. Arguments as for `registrations`."""
    machine = Machine(home, env, platform or this_platform())
    names = {registration.client for registration in registrations(env, home, platform)}
    return tuple(client.title for client in CLIENTS if client.name not in names and machine.has(client))


def _of(client: Client, machine: Machine) -> list[Registration]:
    file = machine.file(client)
    try:
        target = user_target(client, machine, (SERVER, "serve"))
        raw = servers(parse(current_text(target), target.form, file), target.keys, file)
    except ConfigError as error:
        fault = str(error)
        return [Registration(client=client.name, title=client.title, file=file, name=SERVER, command="", fault=fault)]
    entries = [entry_of(name, fields, client.shape) for name, fields in raw.items()]
    return [
        Registration(
            client=client.name,
            title=client.title,
            file=file,
            name=entry.name,
            command=entry.argv[0] if entry.argv else "",
            args=entry.argv[1:],
            env=dict(entry.env),
            enabled=entry.enabled,
            program=_program(entry.argv[0], entry.env, machine) if entry.argv else None,
        )
        for entry in entries
        if entry.name == SERVER or runs_kbhub(entry)
    ]


def _program(command: str, env: Mapping[str, str], machine: Machine) -> str | None:
    path = env.get("PATH", machine.env.get("PATH", ""))
    return Machine(machine.home, {"PATH": path}, machine.platform).program(command)


OFF = "It is disabled there; enable it in the client's settings."


def chosen_clients(machine: Machine, names: Sequence[AnyName], root: Path | None = None) -> tuple[Client, ...]:
    """Return the named clients or, without names, those that are installed; names of dialogs are skipped.

    The files in a project's `root` show further clients, which other members of a team may use.
    """
    if names:
        by_name: dict[str, Client] = {client.name: client for client in CLIENTS}
        return tuple(by_name[name] for name in dict.fromkeys(names) if name in by_name)
    return tuple(client for client in CLIENTS if machine.has(client) or (root and _has_file(client, root)))


def without_project_file(clients: Sequence[Client], *, remove: bool) -> tuple[str, ...]:
    """Return a note for each client without project files, saying what to do instead."""
    effect = "removes it for you" if remove else "registers it for you only"
    return tuple(
        f"{client.title} has no project file; `kbhub setup --client {client.name}{' --remove' * remove}` {effect}."
        for client in clients
        if client.project is None
    )


def user_tasks(clients: Sequence[Client], machine: Machine, argv: Sequence[str], *, remove: bool) -> list[PlannedStep]:
    """Plan to register the server in the user's files, or to remove it.

    `argv` is the command line that starts kbhub, without the subcommand.
    """
    tasks = []
    for client in clients:
        make = partial(user_target, client, machine, (*argv, SERVE))
        tasks.append(_planned(client.name, client.title, machine.file(client), make, machine, remove=remove))
    return tasks


def project_tasks(clients: Sequence[Client], machine: Machine, root: Path, *, remove: bool) -> list[PlannedStep]:
    """Plan the same for the files of a project (its symlinks resolved), skipping clients without any.

    Clients that share a file share a task.
    """
    tasks: dict[Path, PlannedStep] = {}
    for client in clients:
        if client.project is None:
            continue
        make = partial(project_target, client, machine, root)
        task = _planned(client.name, client.title, root / client.project.files[-1], make, machine, remove=remove)
        if other := tasks.get(task.step.file):
            title = f"{other.step.title}, {client.title}"
            tasks[task.step.file] = _retitled(other, title)
        else:
            tasks[task.step.file] = task
    return list(tasks.values())


def _has_file(client: Client, root: Path) -> bool:
    return client.project is not None and any((root / name).is_file() for name in client.project.files)


def _planned(
    name: str, title: str, file: Path, make: Callable[[], Target | None], machine: Machine, *, remove: bool
) -> PlannedStep:
    """Plan a change of one file; a file that cannot be parsed gives a failed step."""
    step = Step(subject=name, title=title, action="remove" if remove else "register", file=file)
    try:
        target = make()
        assert target is not None
        step = step.model_copy(update={"file": target.file})
        entry = registered(current_text(target), target)
    except ConfigError as error:
        return PlannedStep(failed(step, str(error)))
    return _removal(target, step, entry, machine) if remove else _registration(target, step, entry, machine)


def _registration(target: Target, step: Step, entry: RegisteredServer | None, machine: Machine) -> PlannedStep:
    own = target.client.own if target.within is None else None
    if entry is None:
        line: tuple[str, ...] = ()
        if own and machine.program(own.program):
            line = plan.adding(own, target.shape, target.argv)
        step = _with_action(step, "register", command=target.argv, through=plan.shown(line))
        return PlannedStep(step, partial(_carried_out, target, step, line, machine))
    off = () if entry.enabled else (OFF,)
    if entry.name != SERVER:
        return PlannedStep(
            _with_action(
                step, "nothing", command=entry.argv, notes=(f"It is already registered as {entry.name!r}.", *off)
            )
        )
    if target.wants(entry):
        return PlannedStep(_with_action(step, "nothing", command=entry.argv, notes=off))
    argv = target.argv_instead_of(entry)
    step = _with_action(step, "update", command=argv, before=entry.argv, notes=off)
    return PlannedStep(step, partial(_carried_out, target, step, (), machine))


def _removal(target: Target, step: Step, entry: RegisteredServer | None, machine: Machine) -> PlannedStep:
    if entry is None or entry.name != SERVER:
        return PlannedStep(_with_action(step, "nothing"))
    own = target.client.own if target.within is None else None
    line = plan.removing(own) if own and machine.program(own.program) else ()
    step = _with_action(step, "remove", before=entry.argv, through=plan.shown(line))
    return PlannedStep(step, partial(_carried_out, target, step, line, machine))


def _carried_out(target: Target, step: Step, line: tuple[str, ...], machine: Machine) -> Step:
    """Let the client's own CLI do it; edit the file if there is no command, it fails, or it has no effect.

    A backup of the file is kept if it changed.
    """

    def edited(content: bytes | None) -> bytes | None:
        return _edited(content, target, step)

    before, note = read_bytes(target.file), ""
    copy = back_up(data_dir(machine.env), target.file, before)
    try:
        if line:
            fault = plan.run(line, machine)
            if not fault and edited(content := read_bytes(target.file)) == content:
                return done(step, backup=copy, notes=_hint(target, step))
            reason = fault or f"it had no effect on {target.file}"
            note = f"`{line[0]}` failed ({reason}), so the file was edited instead."
        edit(target.file, edited, within=target.within)
        notes = (note, *_hint(target, step)) if note else _hint(target, step)
        return done(step.model_copy(update={"through": ""}), backup=copy, notes=notes)
    finally:
        if copy and read_bytes(target.file) == before:
            copy.unlink(missing_ok=True)


def _edited(content: bytes | None, target: Target, step: Step) -> bytes | None:
    """Return the file so that it starts the command in the step, or without its entry."""
    text = decode(content, target.file)
    entry = registered(text, target)
    if entry is not None and entry.name != SERVER:
        entry = None
    place = EntryLocation(target.form, target.keys, SERVER, target.file)
    if step.action == "remove":
        return content if entry is None else without_entry(text, place).encode()
    if entry is None:
        return with_entry(text, place, target.shape.entry(step.command)).encode()
    if target.wants(entry):
        return content
    return with_fields(text, place, target.shape.fields(step.command)).encode()


def _hint(target: Target, step: Step) -> tuple[str, ...]:
    client = target.client
    return (
        *((client.hint,) if client.hint and target.within is None else ()),
        *((client.caveat,) if client.caveat and step.action != "remove" else ()),
    )


def _with_action(step: Step, action: Action, **more: Any) -> Step:
    return step.model_copy(update={"action": action, **more})


def _retitled(task: PlannedStep, title: str) -> PlannedStep:
    """Return a task that is shown under another title, before and after it is done."""
    do = task.do
    step = task.step.model_copy(update={"title": title})
    return PlannedStep(step, None if do is None else lambda: do().model_copy(update={"title": title}))
