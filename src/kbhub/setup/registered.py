"""Which clients on this machine have the server registered, and what they start."""

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
    """Find the server in the user's files of all clients; an unreadable file gives a registration with a fault.

    Project files are not read: they may not be trustworthy, and clients ask before they start anything from them.

    Args:
        env: environment variables, for the clients' folders and PATH.
        home: the home directory.
        platform: the operating system, or None for the current one.
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
