"""The file in which a client has, or will have, the server, and what is registered there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

from kbhub.errors import ConfigError
from kbhub.setup.clients import CLIENTS, SERVER
from kbhub.setup.entries import decode, parse, servers
from kbhub.setup.files import read_bytes
from kbhub.setup.launch import RELOCATABLE, major_version
from kbhub.setup.machine import Machine, this_platform
from kbhub.setup.plan import Registration
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.setup.clients import Client, Form, Shape
    from kbhub.setup.machine import Platform


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
