"""The plan of `kbhub setup`: steps with what carries them out, and the command line of kbhub."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from kbhub.errors import ConfigError, KbhubError
from kbhub.frozen import Model
from kbhub.setup.clients import SERVER, Machine, Shape
from kbhub.values import struct
from kbhub.workspace.files import content_of, edit_content, own_folder, private_directory, write_atomically

MODE = "--connect"
"""Has the windows share one process."""

_PACKAGE = "kbhub"

_RECEIPTS = {"uv-receipt.toml": ("UV_TOOL_BIN_DIR", "XDG_BIN_HOME"), "pipx_metadata.json": ("PIPX_BIN_DIR",)}
"""What an installer leaves in an environment, and the variables for its launchers' folder."""

_VERSION_SECONDS = 20.0
"""Clients written in JavaScript take up to ten seconds to start on a busy machine."""

_VERSION = re.compile(r"(\d+)\.\d+")


@struct
class Installation:
    """Where kbhub is installed."""

    prefix: Path
    """`sys.prefix` of its environment, symlinks not resolved."""
    executable: Path
    scripts: Path
    isolated: bool
    origin: str = ""
    """URL it was installed from, if not from a package index."""


@struct
class Launch:
    """How to start an installed kbhub."""

    argv: tuple[str, ...]
    """Without the subcommand."""
    note: str = ""


def this_installation() -> Installation:
    """Return the installation that is running."""
    scripts, isolated = Path(sysconfig.get_path("scripts")), sys.prefix != sys.base_prefix
    record: Any = {}
    with suppress(PackageNotFoundError, ValueError):  # what pip or uv recorded (PEP 610): nothing from an index
        record = json.loads(distribution(_PACKAGE).read_text("direct_url.json") or "{}")
    url = record.get("url", "") if isinstance(record, dict) else ""
    vcs = record.get("vcs_info", {}).get("vcs") if url else None
    return Installation(Path(sys.prefix), Path(sys.executable), scripts, isolated, f"{vcs}+{url}" if vcs else str(url))


def launch(installation: Installation, machine: Machine) -> Launch:
    """Find a command that starts kbhub and still works after its next upgrade.

    `uvx` environments are temporary, so the runner itself is used. `uv` and `pipx` tools are started through their
    launcher, which later versions keep, and so is anything else with a symlink on PATH (Homebrew's folders contain the
    version). Otherwise it is the script in the environment.
    """
    prefix, env, windows = installation.prefix, machine.env, machine.platform == "win32"
    name = f"{_PACKAGE}.exe" if windows else _PACKAGE
    if runner := _uvx(prefix, machine):
        return Launch((*runner, *(("--from", installation.origin) if installation.origin else ()), _PACKAGE))
    places = next((variables for receipt, variables in _RECEIPTS.items() if (prefix / receipt).is_file()), ())
    folders = [*map(env.get, places), f"{machine.home}/.local/bin"] if places else []
    launchers = [Path(folder) / name for folder in folders if folder]
    launchers += [
        Path(program).absolute()
        for folder in env.get("PATH", "").split(os.pathsep)
        if folder and (program := shutil.which(_PACKAGE, path=folder))
    ]
    for launcher in filter(Path.is_file, launchers):
        inside = launcher.resolve().is_relative_to(os.path.realpath(prefix)) and not launcher.is_relative_to(prefix)
        if (launcher.is_symlink() and inside) or (windows and places):
            return Launch((str(launcher),))
    if (script := installation.scripts / name).is_file():
        note = (
            f"kbhub is in the virtual environment {prefix} and stops working if you delete that. "
            "To install it on its own, run `uv tool install kbhub` or `pipx install kbhub`."
        )
        return Launch((str(script),), note if installation.isolated and not places else "")
    return Launch((str(installation.executable), "-P", "-m", _PACKAGE))  # not from a repository


def _uvx(prefix: Path, machine: Machine) -> tuple[str, ...] | None:
    """Return the `uvx` command if an environment is in uv's cache, such as `archive-v0/…` or `environments-v2/…`."""
    cache, parts = machine.env.get("UV_CACHE_DIR"), prefix.parts
    named = any(part.startswith(("archive-v", "environments-v", "builds-v")) for part in parts)
    if not (cache and prefix.is_relative_to(cache)) and not ("uv" in parts and named):
        return None
    if uvx := machine.program("uvx"):
        return (str(Path(uvx).absolute()),)
    uv = machine.env.get("UV") or machine.program("uv")  # uv sets `UV` to its own path
    return (str(Path(uv).absolute()), "tool", "run") if uv and Path(uv).is_file() else None


def major_version(name: str, machine: Machine) -> int | None:
    """Return the major version a program reports, or None if it cannot be determined."""
    program = machine.program(name)
    if program is None:
        return None
    try:
        process = subprocess.run(  # noqa: S603 - a program the user installed, our own arguments, no shell
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
    version = _VERSION.search(process.stdout.decode("utf-8", "replace"))
    return int(version[1]) if version else None


Action = Literal["register", "update", "remove", "write", "delete", "nothing"]
"""`register`, `update` and `remove` an entry of a client; `write` and `delete` other files or parts of them."""


class Step(Model):
    """One thing to do, or that was done."""

    subject: str = Field(description="What it is about: the name of a client, `agents-md` or `skill`.")
    title: str = Field(description="The same for people.")
    action: Action = Field(description="What is to be done.")
    file: Path = Field(description="The file that it is about.")
    state: Literal["planned", "done", "failed"] = Field("planned", description="How far it got.")
    command: tuple[str, ...] = Field((), description="What the client starts, afterwards.")
    before: tuple[str, ...] = Field((), description="What the client starts now, if that is something else.")
    backup: Path | None = Field(None, description="Copy of the file as it was before.")
    notes: tuple[str, ...] = Field((), description="What else to know, in sentences.")


class Paste(Model):
    """What the user has to do in a client's settings dialog."""

    subject: str = Field(description="Name of the client.")
    title: str = Field(description="The same for people.")
    where: str = Field(description="The page of the dialog.")
    entry: str = Field(description="JSON to paste there; empty if the server is to be deleted.")
    notes: tuple[str, ...] = Field((), description="What else to know, in sentences.")


class SetupReport(Model):
    """What `kbhub setup` did or, with `dry_run`, would do."""

    dry_run: bool = Field(description="Whether nothing was done.")
    steps: tuple[Step, ...] = Field(description="In the order in which they are done.")
    pastes: tuple[Paste, ...] = Field((), description="What only the user can do.")
    notes: tuple[str, ...] = Field((), description="What else to know, in sentences.")


@struct
class PlannedStep:
    """A step and the function that carries it out."""

    step: Step
    do: Callable[[], Step] | None = None
    """None if there is nothing to do or the step cannot be done."""


def failed(step: Step, reason: str) -> Step:
    """Return the step marked as failed, with the reason as a note."""
    return step.model_copy(update={"state": "failed", "notes": (*step.notes, reason)})


MAX_BYTES = 64 * 1024 * 1024
"""Limit for a client's file; Claude Code keeps the history of every project in the same file as its servers."""

_NEW_MODE = 0o644
_NEW_PRIVATE_MODE = 0o600
"""For new files in the home directory, which may come to hold other servers' API keys."""

FOLDER = "setup"

_NOTHING = b"\xef\xbb\xbf{} \t\r\n"  # the bytes of a file that holds nothing


def _copies(file: Path, machine: Machine) -> Path:
    """Return the folder for copies of a file."""
    real = os.path.realpath(file).encode("utf-8", "surrogateescape")
    return own_folder("data", machine.env) / FOLDER / hashlib.sha256(real).hexdigest()[:16]


def original(file: Path, machine: Machine) -> bytes | None:
    """Return what a file was before kbhub first changed it, as its oldest copy has it; None if kbhub created it."""
    copies = sorted(_copies(file, machine).glob("*.bak"))
    content = content_of(copies[0], MAX_BYTES) if copies else None
    return None if content is not None and SERVER.encode() in content else content


def planned(
    step: Step,
    change: Callable[[bytes | None], bytes | None],
    machine: Machine,
    *,
    within: Path | None = None,
    notes: tuple[str, ...] = (),
    folder: bool = False,
) -> PlannedStep:
    """Plan to edit a file, with a dated copy; it must be in `within`, and may be all that its `folder` holds."""
    file, copies = step.file, list[Path]()

    def changed(before: bytes | None) -> bytes | None:
        if within is not None and not Path(os.path.realpath(file)).is_relative_to(within):
            raise ConfigError(file, f"points outside {within}; it was left unchanged")
        after = change(before)
        if step.action in ("remove", "delete") and after not in (None, before) and not after.strip(_NOTHING):
            was = original(file, machine)
            return after if was and was.strip(_NOTHING) else was
        return after

    try:
        now = content_of(file, MAX_BYTES)
        if changed(now) == now:
            return PlannedStep(step.model_copy(update={"action": "nothing"}))
    except ConfigError as error:
        return PlannedStep(failed(step, str(error)))

    def saved(before: bytes | None) -> bytes | None:
        after = changed(before)
        if before is not None and after != before:
            there = private_directory(_copies(file, machine))
            copies.append(there / f"{file.name}.{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.bak")
            write_atomically(copies[-1], before)
        return after

    def do() -> Step:
        try:
            edit_content(file, MAX_BYTES, saved, new_mode=_NEW_PRIVATE_MODE if within is None else _NEW_MODE)
        except ConfigError:
            for copy in copies:
                copy.unlink(missing_ok=True)
            raise
        if folder and not file.exists():
            with suppress(OSError):  # it holds something else
                file.parent.rmdir()
        backup = copies[0] if copies else None
        return step.model_copy(update={"state": "done", "backup": backup, "notes": (*step.notes, *notes)})

    return PlannedStep(step, do)


def carry_out(task: PlannedStep) -> Step:
    """Carry out a task and return the resulting step, marked as failed if it raised."""
    if task.do is None:
        return task.step
    try:
        return task.do()
    except KbhubError as error:
        return failed(task.step, str(error))
    except OSError as error:
        return failed(task.step, f"{error.filename or task.step.file}: {error.strerror or error}")


def pastes(names: Sequence[str], argv: Sequence[str], *, remove: bool) -> tuple[Paste, ...]:
    """Return what to paste into the dialog of JetBrains' AI Assistant, or to delete there, only if it is named."""
    if "jetbrains-ai" not in names:
        return ()
    server = {"mcpServers": {SERVER: Shape().entry(tuple(argv))}}
    hint = (
        'To search a project from there, set its folder as the working directory, or add "--root" and the folder to '
        "the arguments."
    )
    where = "Settings | Tools | AI Assistant | Model Context Protocol (MCP)"
    entry = "" if remove else json.dumps(server, indent=2, ensure_ascii=False)
    notes = () if remove else (hint,)
    return (Paste(subject="jetbrains-ai", title="JetBrains AI Assistant", where=where, entry=entry, notes=notes),)
