"""`kbhub init`: create a knowledge folder, or a pointer to an existing one, without overwriting anything."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import Field

from kbhub.errors import UsageError
from kbhub.frozen import Model
from kbhub.setup.bases import portable
from kbhub.types import Base, Discovery
from kbhub.workspace.config import POINTER_NAMES
from kbhub.workspace.files import expand, is_directory, open_folder
from kbhub.workspace.project import FOLDER, PROJECT_ID, STARTER_NAME, TrustStore, required, trust_pointer

STARTER = Path(__file__).parent / "skill" / "starter.md"


class Initialised(Model):
    """The created files."""

    knowledge: Path | None = Field(description="Folder of the project's knowledge; null if it has none yet.")
    made: tuple[Path, ...] = Field((), description="Files that were made, in order; empty if there was no need.")
    trusted: bool = Field(False, description="Whether the pointer was trusted, as it leads out of the project.")
    notes: tuple[str, ...] = Field((), description="What else to know, in sentences.")


def make_knowledge(discovery: Discovery, *, name: str | None = None, found: tuple[str, ...] = ()) -> Initialised:
    """Create `knowledge/` with a starter document, unless there is knowledge, or `found` says what could be it."""
    directory = required(discovery.workspace.directory)
    project = discovery.project
    if project is not None and project.origin != "docs":
        if not _renamed(project, directory, name):
            return _unchanged(discovery, project, found)
        pointer = _create_pointer(directory, f"./{project.path.relative_to(directory).as_posix()}", name=name)
        return Initialised(knowledge=project.path, made=(pointer,), notes=found)
    if found and name:
        raise UsageError(f'Choose the folder that is to be called "{name}": add --knowledge DIR. {" ".join(found)}')
    if found:
        why = "This project has documentation already, so no knowledge was created."
        return Initialised(knowledge=_docs(discovery), notes=(why, *found))
    return _create_folder(directory, discovery, name)


def _create_folder(directory: Path, discovery: Discovery, name: str | None) -> Initialised:
    """Create `knowledge/` and, if it is empty, a starter document in it."""
    _refuse_pointer(directory, discovery)
    folder, made = directory / FOLDER, []
    if folder.is_symlink():
        raise UsageError(
            f"{folder} is a symlink and was left unchanged; allow it with `kbhub base trust {folder}`, or remove it."
        )
    try:
        folder.mkdir(exist_ok=True)
        empty = not any(folder.iterdir())
    except OSError as error:
        raise UsageError(f"{folder} cannot be used as a knowledge folder: {error.strerror or error}.") from error
    if empty:
        made.append(create_file(folder / STARTER_NAME, STARTER.read_text("utf-8")))
    if discovery.workspace.git_root is None or name:
        made.append(_create_pointer(directory, f"./{FOLDER}", name=name))
    return Initialised(knowledge=folder, made=tuple(made), notes=_replaced(discovery, folder))


def point_to(
    discovery: Discovery, knowledge: str, *, trust: TrustStore, home: Path, cwd: Path, name: str | None = None
) -> Initialised:
    """Write a pointer to an existing folder, and trust it if that is outside; `docs/` searched so far stays so."""
    directory = required(discovery.workspace.directory)
    target = Path(os.path.realpath(expand(knowledge, home, cwd)))
    if not is_directory(target):
        if target == directory / FOLDER:
            return _create_folder(directory, discovery, name)
        raise UsageError(f"{target} is not a directory; create it first, or use `--knowledge {FOLDER}` to create that.")
    project, git = discovery.project, discovery.workspace.git_root
    if project is not None and project.path == target and project.origin != "docs":
        if not _renamed(project, directory, name):
            return _unchanged(discovery, project)
    elif discovery.untrusted is not None and discovery.untrusted[1] == target and name is None:
        trust.add(*discovery.untrusted)
        return Initialised(knowledge=target, trusted=True)
    # A path that works in other checkouts: relative, unless the target is on another drive.
    try:
        relative = Path(os.path.relpath(target, directory)).as_posix()
        knowledge = relative if relative.split("/")[0] in (".", "..") else f"./{relative}"
    except ValueError:
        knowledge = portable(target, home)
    _refuse_pointer(directory, discovery, target, knowledge)
    trust.entries()  # fails early if the store cannot be used
    docs = _docs(discovery)
    keep = docs is not None and not (docs.is_relative_to(target) or target.is_relative_to(docs))
    read_only = target == (git or directory) and (project is None or project.origin == "docs")
    pointer = _create_pointer(directory, knowledge, name=name, docsFallback=keep, readOnly=read_only)
    inside = target.is_relative_to(git or directory)
    if not inside:
        trust_pointer(pointer, trust, writable=False, home=home)
    notes = _replaced(discovery, target)
    if read_only:
        notes += ("Agents may read it, but not write there; `kbhub base trust --writable` lets them.",)
    return Initialised(knowledge=target, made=(pointer,), trusted=not inside, notes=notes)


def declare_okf(made: Initialised, day: str) -> Initialised:
    """Make the knowledge a bundle of the Open Knowledge Format, with a log that begins on a day."""
    folder = made.knowledge
    if folder is None:
        return made
    entry = f"\n* [How to write knowledge here]({STARTER_NAME})\n" if folder / STARTER_NAME in made.made else ""
    index, log = folder / "index.md", folder / "log.md"
    if index.exists():
        note = f'{index} exists; add `okf_version: "0.2"` to its front matter.'
        return made.model_copy(update={"notes": (*made.notes, note)})
    new = [create_file(index, f'---\nokf_version: "0.2"\n---\n# Pages\n{entry}')]
    if not log.exists():
        new.append(create_file(log, f"# Log\n\n## {day}\n* **Initialization**: Made the bundle.\n"))
    return made.model_copy(update={"made": (*made.made, *new)})


def create_file(path: Path, text: str) -> Path:
    """Create a file with Unix line endings atomically; `UsageError` if the path exists or cannot be written."""
    try:
        with open_folder(Base(id=PROJECT_ID, path=path.parent, origin="argument"), ()) as folder:
            folder.create(path.name, text.encode())
    except FileExistsError as error:
        raise UsageError(f"{path} already exists and was left unchanged.") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}.") from error
    return path


def _docs(discovery: Discovery) -> Path | None:
    """Return the `docs/` that is searched without having been chosen."""
    return next((base.path / "docs" for base in discovery.bases if base.origin == "docs"), None)


def _replaced(discovery: Discovery, target: Path) -> tuple[str, ...]:
    """Return what happens to the folders that are searched now, once `target` is the project's knowledge."""
    project, docs, notes = discovery.project, _docs(discovery), []
    if project is not None and project.origin != "docs" and project.path != target:
        notes.append(f"This replaces {project.path}, which was the project's knowledge until now.")
    if docs is not None and target.is_relative_to(docs) and target != docs:
        notes.append(f"This replaces {docs}, which was searched until now.")
    elif docs is not None and not docs.is_relative_to(target):
        notes.append(f'{docs} is still searched, too; `"docsFallback": false` in .kbhub.json ends that.')
    return tuple(notes)


def _unchanged(discovery: Discovery, project: Base, found: tuple[str, ...] = ()) -> Initialised:
    docs = _docs(discovery)
    places = f"{project.path} and {docs}" if docs else str(project.path)
    note = f"This project already has its knowledge in {places}; nothing had to change."
    return Initialised(knowledge=project.path, notes=(note, *found))


def _renamed(project: Base, directory: Path, name: str | None) -> bool:
    """Return whether the knowledge is to get another name, by a new pointer; `UsageError` if that cannot be."""
    if name is None or name == project.name:
        return False
    if project.origin != "pointer" and project.path.is_relative_to(directory):
        return True
    called = f'The knowledge in {project.path} is called "{project.name}"'
    if project.origin != "pointer":
        raise UsageError(f"{called}. To rename it, run this command in {project.path.parent}.")
    pointer = next(filter(None, map(_pointer_in, (directory, *directory.parents))), POINTER_NAMES[0])
    raise UsageError(f'{called}, and was left unchanged. To rename it, set "name" in {pointer}.')


def _pointer_in(directory: Path) -> Path | None:
    """Return the pointer in a folder, readable or not; None if there is none."""
    return next((directory / name for name in POINTER_NAMES if os.path.lexists(directory / name)), None)


def _refuse_pointer(directory: Path, discovery: Discovery, target: Path | None = None, knowledge: str = "") -> None:
    """Raise `UsageError` about a pointer in a directory: none is overwritten. `knowledge` names `target`."""
    pointer = _pointer_in(directory)
    if pointer is None:
        return
    project = discovery.project
    if target is not None and project is not None and project.origin == "pointer":
        raise UsageError(
            f"{pointer} says that this project's knowledge is in {project.path}, and was left unchanged. To use "
            f'{target}, set "knowledge" there to {json.dumps(knowledge, ensure_ascii=False)}, or remove the file and '
            "run this command again."
        )
    if problem := discovery.problem_of(PROJECT_ID):
        raise UsageError(f"`kbhub init` never changes a pointer that exists. {problem}")
    why = '; it says "enabled": false, so kbhub is off here' if discovery.off else ""
    raise UsageError(f"{pointer} already exists, and was left unchanged{why}. Edit it, or remove it first.")


def _create_pointer(directory: Path, knowledge: str, **more: str | bool | None) -> Path:
    fields = {"knowledge": knowledge, **{name: value for name, value in more.items() if value}}
    return create_file(directory / POINTER_NAMES[0], json.dumps(fields, indent=2, ensure_ascii=False) + "\n")
