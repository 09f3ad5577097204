"""What this machine has of a project, as bases of that project only: what clients keep, and docs of its packages.

Sources, read in November 2026: Claude Code 2.1, Codex 0.171, Gemini CLI 0.61 and opencode 1.18, where they write; for
Cursor, reports of users. Claude Code and Cursor name a folder by the path of the project, in which each other character
becomes a hyphen: two projects may share one.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import Field

from kbhub.documents.sessions import began_in
from kbhub.errors import UsageError
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.index.foreign_sessions import folder_of_copies, opencode_database
from kbhub.setup.bases import activated, edit_config, folder_in, portable
from kbhub.setup.clients import Machine
from kbhub.sync.packages import Package, copy_documentation
from kbhub.workspace.config import directory_identity
from kbhub.workspace.config_edits import set_value
from kbhub.workspace.files import SESSIONS, expand, private_directory, real_path
from kbhub.workspace.project import required
from kbhub.workspace.settings import GlobalConfig

CLAUDE_CHARACTERS = 200
"""Characters of a project's path in the name of its folder in Claude Code, before a hash."""

_UNFIT = re.compile(r"[^a-zA-Z0-9]")


class FoundBase(Model):
    """A folder that a client keeps."""

    id: str = Field(description="Its id as a base.")
    path: Path = Field(description="Its folder.")
    added: bool = Field(description="Whether the config lacked it.")


class FoundBases(Model):
    """What the clients on this machine keep of a project."""

    project: Path = Field(description="The project, in which alone they are active.")
    config: Path = Field(description="The file that says so.")
    bases: tuple[FoundBase, ...] = Field((), description="One per folder and kind.")
    left: tuple[Path, ...] = Field((), description="Folders left out, as they are bases with other settings already.")


class PackageBase(Model):
    """The documentation of a package, as a base."""

    id: str = Field(description="Its id as a base.")
    path: Path = Field(description="The folder with the copy of the documentation.")
    name: str = Field(description="Name of the package.")
    version: str = Field(description="Version that was copied.")
    source: Path = Field(description="Where it was found.")
    lock: str | None = Field(None, description="The lock file that pins the version; the copy follows it.")
    files: int = Field(description="Number of documents.")
    project: Path = Field(description="The project, in which alone it is active.")
    added: bool = Field(description="Whether the config lacked it.")


def found(hub: Hub) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Return what clients keep of the project: id → folder, fields of the entry. No link is followed to another's."""
    project, home = required(hub.discovery().workspace.root), hub.options.home
    machine = Machine(home, hub.options.env)
    named = _UNFIT.sub("-", project.name).strip("-") or "project"
    # A memory that its client forgot must really be gone.
    logs = {"kind": "session", "keepDeleted": ["*.jsonl", "session-*.json"]}
    ours = {**logs, "sessionsOf": portable(project, home)}
    places: dict[str, tuple[Path, dict[str, Any]]] = {}
    name, hyphened = _UNFIT.sub("-", str(project))[:CLAUDE_CHARACTERS], _hyphened(str(project))
    for folder in _folders(machine.path("{claude}/projects")):
        if not f"{folder.name}-".startswith(f"{name}-"):
            continue
        # A log must say that it is this project's or of a folder in it, and none that it is another's. Memories outlive
        # the logs; without any, no other project with that name may be on this machine.
        told = {began_in(log, project) for log in folder.glob("*.jsonl") if not log.is_symlink()}
        outlived = not told and folder.name == name and any(folder.glob("memory/*.md"))
        if False not in told and (True in told or (outlived and _is_alone(project, hyphened))):
            inner = folder.name.removeprefix(name).rstrip("-")
            places[f"claude-{named}{inner}"] = folder, {**ours, "include": ["/memory/*.md"]}
    for client, sessions in (("codex", "{codex}/sessions"), ("copilot", "{copilot}/session-state")):
        if _is_plain(folder := machine.path(sessions)):
            places[f"{client}-{named}"] = folder, ours
    for folder in _folders(machine.path("{home}/.cursor/projects")):
        transcripts = folder / "agent-transcripts"
        # Its logs do not tell of which project they are.
        if _hyphened(folder.name) == hyphened and _is_plain(transcripts) and _is_alone(project, hyphened):
            places[f"cursor-{named}"] = transcripts, logs
    if opencode_database(hub.options.env, home).is_file():
        places[f"opencode-{named}"] = folder_of_copies(hub.data, project, "opencode"), ours
    gemini = machine.path("{home}/.gemini")
    # The folder has the project's path in it or, of older versions, the hash of the path as its name.
    old = hashlib.sha256(str(project).encode("utf-8", "surrogateescape")).hexdigest()
    for folder in _folders(gemini / "tmp"):
        marker = folder / ".project_root"
        said = marker.read_text("utf-8", "replace").strip() if marker.is_file() and not marker.is_symlink() else ""
        if os.path.realpath(said) == str(project) if said else folder.name == old:
            places[f"gemini-{named}"] = folder, {**logs, "include": ["/memory/*.md"]}
            break
    memories = machine.path("{codex}/memories")
    for client, kept, file in (("codex", memories, "memory_summary.md"), ("gemini", gemini, "GEMINI.md")):
        if (kept / file).is_file() and _is_plain(kept):
            only = {"include": [f"/{file}"], "exclude": ["/*", f"!/{file}"]}
            places[f"{client}-all"] = kept, {"kind": "session", **only}
    return places


def _is_plain(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink()


def _folders(folder: Path) -> list[Path]:
    """Return the folders in one that are no symlinks, if that is none."""
    return [*filter(_is_plain, sorted(folder.iterdir()))] if _is_plain(folder) else []


def _hyphened(name: str) -> str:
    return re.sub(r"-+", "-", _UNFIT.sub("-", name)).strip("-").casefold()


def _is_alone(project: Path, name: str) -> bool:
    """Return whether no other folder on this machine has a path that becomes a project's name with hyphens."""
    return [*_spelled(Path(project.anchor), name)] == [project]


def _spelled(folder: Path, name: str) -> Iterator[Path]:
    """Yield the folders below one whose paths become a name with hyphens."""
    with suppress(OSError):
        for child in sorted(folder.iterdir()):
            part = _hyphened(child.name)
            if part == name and _is_plain(child):
                yield child
            elif part and name.startswith(f"{part}-") and _is_plain(child):
                yield from _spelled(child, name[len(part) + 1 :])


def add_found(hub: Hub) -> FoundBases:
    """Add to the global config what clients keep of the project, active there only. What it has already stays."""
    project, path, home = required(hub.discovery().workspace.root), hub.config().file, hub.options.home
    places, known, left = found(hub), list[FoundBase](), list[Path]()
    for folder, _ in places.values():
        if folder.parent == hub.data / SESSIONS:
            private_directory(folder)  # what it is to have comes when it is indexed

    def edit(text: str, settings: GlobalConfig) -> str:
        names = []
        for wanted, (folder, fields) in places.items():
            name, there = _name(wanted, folder, fields, settings, hub)
            if name is None:
                left.append(folder)
                continue
            names.append(name)
            known.append(FoundBase(id=name, path=folder, added=not there))
            if not there:
                text = set_value(text, ["bases", name], {"knowledge": portable(folder, home), **fields}, path)
        return activated(text, settings, project, names, path, home) if names else text

    edit_config(hub, edit)
    return FoundBases(project=project, config=path, bases=tuple(known), left=tuple(left))


def _name(
    wanted: str, folder: Path, fields: dict[str, Any], settings: GlobalConfig, hub: Hub
) -> tuple[str | None, bool]:
    """Return the id of a found folder, None if it is a base with other settings, and whether the config has it."""
    taken, number = wanted, 1
    for name, entry in settings.bases.items():
        other = folder_in(hub, name, entry)
        if directory_identity(other) == directory_identity(folder) and entry.sessions_of == fields.get("sessionsOf"):
            same = (entry.kind, *map(list, (entry.include, entry.exclude)))
            wants = (fields["kind"], fields.get("include", []), fields.get("exclude", []))
            return (name, True) if same == wants else (None, True)
    while taken in settings.bases:
        number += 1
        taken = f"{wanted}-{number}"
    return taken, False


def add_package(hub: Hub, text: str) -> PackageBase:
    """Add a copy of the documentation of a package that the project uses as a base of that project."""
    project, path, home = required(hub.discovery().workspace.root), hub.config().file, hub.options.home
    if text.startswith((".", "/", "~")) or Path(text).is_absolute():
        text = str(real_path(expand(text, home, hub.options.cwd)))
    package = Package.parsed(text)
    folder, one, pin, files = copy_documentation(hub.data, project, text, hub.options.env, home)
    wanted, names = f"{_UNFIT.sub('-', package.name).strip('-')}-docs", list[str]()

    def edit(text: str, settings: GlobalConfig) -> str:
        name, there = _name(wanted, folder, {"kind": "document"}, settings, hub)
        if name is None:
            raise UsageError(f"{folder} is a base with other settings already.")
        names[:] = [name, "" if there else "added"]
        if not there:
            entry = {"knowledge": portable(folder, home), "description": f"Documentation of {package.name}"}
            text = set_value(text, ["bases", names[0]], entry, path)
        return activated(text, settings, project, names[:1], path, home)

    edit_config(hub, edit)
    lock = pin.lock if pin and not package.version else None
    return PackageBase(
        id=names[0], path=folder, name=package.name, version=one.version, source=one.folder, lock=lock, files=files,
        project=project, added=bool(names[1]),
    )  # fmt: skip
