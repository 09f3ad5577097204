"""Run a client's own CLI, which is the safest way to change its files."""

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
"""Timeout of a command; those written in JavaScript take up to ten seconds to start on a busy machine."""

_VERSION_SECONDS = 20.0
_ERROR_CHARACTERS = 300
_VERSION = re.compile(r"(\d+)\.\d+")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def adding(own: OwnCommand, shape: Shape, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command line that registers a server."""
    entry = json.dumps({"name": SERVER, **shape.fields(argv)})
    line: list[str] = [own.program]
    for part in own.add:
        line += argv if part == "{argv}" else [entry if part == "{json}" else part]
    return tuple(line)


def removing(own: OwnCommand) -> tuple[str, ...]:
    """Return the command line that removes it, or an empty tuple if there is none."""
    return (own.program, *own.remove) if own.remove else ()


def shown(command: Sequence[str]) -> str:
    """Quote a command line for a shell."""
    return shlex.join(command)


def run(command: Sequence[str], machine: Machine) -> str:
    """Run a client's command line in the home directory.

    Returns:
        Why it failed, or an empty string if it succeeded.
    """
    program = machine.program(command[0])
    if program is None:
        return "it is not on the search path"
    try:
        process = _run([program, *command[1:]], machine, SECONDS)
    except subprocess.TimeoutExpired:
        return f"it did not end within {SECONDS:g} s"
    except OSError as error:
        return f"it cannot be run: {error.strerror or error}"
    if process.returncode == 0:
        return ""
    output = _ESCAPES.sub("", (process.stderr or process.stdout).decode("utf-8", "replace"))
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "it said nothing")
    return f"exit code {process.returncode}: {last[:_ERROR_CHARACTERS]}"


def major_version(name: str, machine: Machine) -> int | None:
    """Return the major version a program reports, or None if it cannot be determined."""
    program = machine.program(name)
    if program is None:
        return None
    try:
        process = _run([program, "--version"], machine, _VERSION_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = _VERSION.search(process.stdout.decode("utf-8", "replace"))
    return int(version[1]) if version else None


def _run(argv: Sequence[str], machine: Machine, seconds: float) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # noqa: S603 - a program the user installed, our own arguments, no shell
        argv,
        env=dict(machine.env),
        cwd=machine.home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=seconds,
        check=False,
    )
