"""Which clients of a machine have the server registered, and what they start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import ConfigError
from kbhub.setup.clients import CLIENTS, SERVER, Machine, this_platform
from kbhub.setup.entries import parse, servers
from kbhub.setup.models import Registration
from kbhub.setup.targets import current_text, entry_of, runs_kbhub, user_target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbhub.setup.clients import Client, Platform


def registrations(env: Mapping[str, str], home: Path, platform: Platform | None = None) -> tuple[Registration, ...]:
    """Find the server in the users' files of all clients; a file that cannot be read is one with a fault.

    A project's files are not looked at: they may come from anybody, and their clients ask before they start anything.

    Args:
        env: environment variables, for the clients' folders and the search path.
        home: the home directory.
        platform: the system; none for this one.
    """
    machine = Machine(home, env, platform or this_platform())
    found: list[Registration] = []
    for client in CLIENTS:
        if machine.file(client).is_file():
            found += _of(client, machine)
    return tuple(found)


def unregistered(env: Mapping[str, str], home: Path, platform: Platform | None = None) -> tuple[str, ...]:
    """Give the titles of the clients on the machine that do not have the server; arguments as `registrations`."""
    machine = Machine(home, env, platform or this_platform())
    known = {one.client for one in registrations(env, home, platform)}
    return tuple(client.title for client in CLIENTS if client.name not in known and machine.has(client))


def _of(client: Client, machine: Machine) -> list[Registration]:
    file = machine.file(client)
    try:
        target = user_target(client, machine, (SERVER, "serve"))
        raw = servers(parse(current_text(target), target.form, file), target.keys, file)
    except ConfigError as error:
        return [_registration(client, file, fault=str(error))]
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


def _registration(client: Client, file: Path, fault: str) -> Registration:
    return Registration(client=client.name, title=client.title, file=file, name=SERVER, command="", fault=fault)


def _program(command: str, env: Mapping[str, str], machine: Machine) -> str | None:
    path = env.get("PATH", machine.env.get("PATH", ""))
    return Machine(machine.home, {"PATH": path}, machine.platform).program(command)
