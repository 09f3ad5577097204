"""A client's file with the server in it, or not yet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

from kbhub.setup.clients import SERVER
from kbhub.setup.entries import decode, parse, servers
from kbhub.setup.files import read_bytes
from kbhub.setup.launching import RELOCATABLE
from kbhub.setup.own_commands import major_version
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.setup.clients import Client, Form, Machine, Shape

SERVE = "serve"
"""The command of kbhub that is the server; what follows it in an entry is the user's."""

_NESTED_SINCE = 2
"""Major version of opencode that nests servers a level deeper (opencode.ai/v2/docs/mcp-servers)."""

_LEADING = 7
"""Words of a command among which `kbhub` stands: `uv tool run --from URL kbhub serve` has it sixth."""


@struct
class Entry:
    """What a server's entry starts."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    enabled: bool


@struct
class Target:
    """A file in which a server is to be registered."""

    client: Client
    title: str
    file: Path
    keys: tuple[str, ...]
    shape: Shape
    argv: tuple[str, ...]
    """What is to be started."""
    within: Path | None = None
    """The project that it must lie in; none for the user's own."""

    @property
    def form(self) -> Form:
        """The format of the file."""
        return self.client.form

    def wants(self, entry: Entry) -> bool:
        """Whether an entry starts what is wanted; options that its user added after `serve` are the user's matter."""
        base = self.argv[: self.argv.index(SERVE) + 1]
        return entry.argv[: len(base)] == base

    def argv_instead_of(self, entry: Entry) -> tuple[str, ...]:
        """Give what an entry is to start that starts something else, with its user's options kept."""
        own = entry.argv[entry.argv.index(SERVE) + 1 :] if SERVE in entry.argv and runs_kbhub(entry) else ()
        return (*self.argv[: self.argv.index(SERVE) + 1], *own) if own else self.argv


def user_target(client: Client, machine: Machine, argv: Sequence[str]) -> Target:
    """Give the place of the server in the user's file of a client.

    Raises:
        ConfigError: the file is malformed.
    """
    file = machine.file(client)
    keys = _keys(client, file, machine)
    return Target(client, client.title, file, keys, client.shape, tuple(argv))


def project_target(client: Client, machine: Machine, root: Path) -> Target | None:
    """Give the place of the server in a project, or none where the client looks for none there.

    Raises:
        ConfigError: the file is malformed.
    """
    project = client.project
    if project is None:
        return None
    paths = [root / name for name in project.files]
    file = next((path for path in paths if path.is_file()), paths[-1])
    shape = project.shape or client.shape
    keys = _keys(client, file, machine)
    return Target(client, client.title, file, keys, shape, (*RELOCATABLE, *project.args), within=root)


def current_text(target: Target) -> str:
    """Give what the target's file says; raises as `entries.decode` and `files.read_bytes`."""
    return decode(read_bytes(target.file), target.file)


def registered(text: str, target: Target) -> Entry | None:
    """Find kbhub in a file: by its name, else under another by what is started.

    Raises:
        ConfigError: the file is malformed.
    """
    found = servers(parse(text, target.form, target.file), target.keys, target.file)
    if SERVER in found:
        return entry_of(SERVER, found[SERVER], target.shape)
    entries = (entry_of(name, raw, target.shape) for name, raw in found.items())
    return next((entry for entry in entries if runs_kbhub(entry)), None)


def entry_of(name: str, raw: Any, shape: Shape) -> Entry:
    """Read an entry; one that starts no command has an empty `argv`."""
    fields = raw if isinstance(raw, Mapping) else {}
    command, args = fields.get(shape.command), fields.get(shape.args or "", [])
    words = command if isinstance(command, list) else [command, *(args if isinstance(args, list) else [])]
    argv = tuple(words) if all(isinstance(word, str) for word in words) else ()
    env = fields.get(shape.env)
    variables = {str(key): str(value) for key, value in env.items()} if isinstance(env, Mapping) else {}
    enabled = fields.get("enabled") is not False and fields.get("disabled") is not True
    return Entry(name, argv, variables, enabled)


def runs_kbhub(entry: Entry) -> bool:
    """Whether an entry starts this server, by whatever runner."""
    # A Windows path has both separators, so its rules read a path of any system.
    return SERVE in entry.argv and any(PureWindowsPath(word).stem == SERVER for word in entry.argv[:_LEADING])


def _keys(client: Client, file: Path, machine: Machine) -> tuple[str, ...]:
    """Give the way to the servers, which for opencode depends on what is there and on its version."""
    if not client.later_keys:
        return client.keys
    data = parse(decode(read_bytes(file), file), client.form, file)
    holder = data.get(client.keys[0])
    nested = holder.get(client.later_keys[1]) if isinstance(holder, Mapping) else None
    if isinstance(nested, Mapping) and not {"command", "url"} & nested.keys():
        return client.later_keys
    version = None if holder else major_version(client.programs[0], machine)
    return client.later_keys if version is not None and version >= _NESTED_SINCE else client.keys
