"""Running a client's own command line, which knows its files best."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from typing import TYPE_CHECKING

from kbhub.setup.clients import SERVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.setup.clients import Machine, OwnCommand, Shape

SECONDS = 60.0
"""For one command. Those written in JavaScript take up to ten seconds to start on a busy machine."""

_VERSION_SECONDS = 20.0
_ERROR_CHARACTERS = 300
_VERSION = re.compile(r"(\d+)\.\d+")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def adding(own: OwnCommand, shape: Shape, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Give the command line that registers a server."""
    entry = json.dumps({"name": SERVER, **shape.fields(argv)})
    found: list[str] = [own.program]
    for part in own.add:
        found += argv if part == "{argv}" else [entry if part == "{json}" else part]
    return tuple(found)


def removing(own: OwnCommand) -> tuple[str, ...]:
    """Give the command line that removes it, if there is one."""
    return (own.program, *own.remove) if own.remove else ()


def shown(command: Sequence[str]) -> str:
    """Give a command line as a person would type it."""
    return shlex.join(command)


def run(command: Sequence[str], machine: Machine) -> str:
    """Run a client's command line in the home directory.

    Returns:
        Why it failed; empty if it did not.
    """
    program = machine.program(command[0])
    if program is None:
        return "it is not on the search path"
    try:
        ended = subprocess.run(  # noqa: S603 - a program of the user's, arguments of ours, no shell
            [program, *command[1:]],
            env=dict(machine.env),
            cwd=machine.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {SECONDS:g} s"
    except OSError as error:
        return f"it cannot be run: {error.strerror or error}"
    if ended.returncode == 0:
        return ""
    said = _ESCAPES.sub("", (ended.stderr or ended.stdout).decode("utf-8", "replace"))
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "it said nothing")
    return f"exit code {ended.returncode}: {last[:_ERROR_CHARACTERS]}"


def major_version(name: str, machine: Machine) -> int | None:
    """Ask a program for its major version; none if it is not there or does not say."""
    program = machine.program(name)
    if program is None:
        return None
    try:
        ended = subprocess.run(  # noqa: S603 - as above
            [program, "--version"],
            env=dict(machine.env),
            cwd=machine.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(ended.stdout.decode("utf-8", "replace"))
    return int(found[1]) if found else None
