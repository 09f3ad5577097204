"""The project base: found by walking up from the workspace, and believed no more than a clone deserves."""

from __future__ import annotations

import os
import shlex
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.config import CONFIG_NAME
from kbhub.document_names import MARKDOWN_SUFFIXES, SKIPPED_FOLDERS
from kbhub.errors import ConfigError, UsageError
from kbhub.gitroot import git_root, main_worktree
from kbhub.places import expand, is_directory
from kbhub.pointer import POINTER_NAMES, Pointer, read_pointer
from kbhub.types import Base, Problem
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kbhub.trust import Grant, TrustStore
    from kbhub.types import Origin, Workspace

PROJECT_ID = "project"

MAX_SHOWN_PATH = 500
"""Characters of a path from a pointer that a message shows; what people write is shorter."""

_DOCS_BUDGET = 2000
"""Entries below `docs/` that are looked at for Markdown: a folder of assets must not slow every start down."""


@struct
class Match:
    """The first thing on the way up that says where a project's knowledge is."""

    origin: Origin
    pointer: Path
    """The pointer file, or the folder or link that was found without one: what trust is bound to."""
    folder: Path
    """The project's folder."""
    root: Path | None
    """The git root that it may lead to anywhere in."""


@dataclass(slots=True)
class Project:
    """What was found for a workspace."""

    base: Base | None = None
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    """Fields of the pointer that have no effect."""
    looked_for: list[str] = field(default_factory=list)
    off: bool = False
    """Whether the pointer switches kbhub off here."""


def owned_by_user(path: Path) -> bool:
    """Whether the current user owns a file, and a link to it; Windows has no such owners and says yes."""
    if not hasattr(os, "getuid"):
        return True
    try:
        return path.lstat().st_uid == os.getuid() == path.stat().st_uid
    except OSError:
        return False


def find_project(
    workspace: Workspace,
    trust: TrustStore,
    home: Path,
    *,
    config: Path | None = None,
    owned: Callable[[Path], bool] = owned_by_user,
) -> Project:
    """Walk up from the workspace to the first pointer, `knowledge/`, `.knowledge/` or sibling.

    Args:
        workspace: where to start.
        trust: what the user allowed.
        home: the home directory, links resolved.
        config: the global config that is in force, which is no pointer wherever it lies.
        owned: whether the current user owns a path.
    """
    project = Project()
    if workspace.directory is None:
        return project
    match = _first_match(workspace, home, _no_pointers(home, config), owned, project.looked_for)
    if match is None:
        return project
    try:
        _resolve(match, workspace, trust, home, project)
    except ConfigError as error:
        project.problems.append(Problem(subject=PROJECT_ID, message=str(error)))
    return project


def find_pointer(
    workspace: Workspace,
    home: Path,
    *,
    config: Path | None = None,
    owned: Callable[[Path], bool] = owned_by_user,
) -> Path | None:
    """What says where a workspace's knowledge is, whether it is followed or not: a pointer, a folder or a link.

    Args:
        workspace: where to start.
        home: the home directory, links resolved.
        config: the global config that is in force.
        owned: whether the current user owns a path.
    """
    if workspace.directory is None:
        return None
    match = _first_match(workspace, home, _no_pointers(home, config), owned, [])
    return match.pointer if match else None


def docs_base(git: Path) -> Base | None:
    """The `docs/` of a repository, with its README, as a read-only base; none if it has no Markdown."""
    docs = git / "docs"
    if not is_directory(docs) or not Path(os.path.realpath(docs)).is_relative_to(git) or not _has_markdown(docs):
        return None
    with os.scandir(git) as found:
        names = [entry.name for entry in found if entry.name.lower().startswith("readme.")]
    readmes = [name for suffix in MARKDOWN_SUFFIXES for name in sorted(names) if name.lower() == f"readme{suffix}"]
    return Base(id=PROJECT_ID, path=git, origin="docs", only=(*readmes[:1], "docs"), name=_one_line(git.name) or None)


def trust_pointer(path: Path, trust: TrustStore, *, writable: bool, home: Path) -> tuple[Grant, ...]:
    """Let a pointer reach what it names now, as the user asked.

    Args:
        path: a pointer file, the folder that holds one, or a folder or link that is found without one.
        trust: where to record it.
        writable: whether agents may also write there.
        home: the home directory.

    Raises:
        UsageError: there is nothing to trust, or what it names does not exist.
        ConfigError: the pointer or the trust store is malformed.
    """
    files = [path / name for name in POINTER_NAMES] if is_directory(path) else [path]
    file = None if _found_alone(path) else next((one for one in files if one.is_file()), None)
    if file is None:
        if not is_directory(path):
            raise UsageError(f"{path} is no pointer and no folder; name a .kbhub.json or a folder of knowledge.")
        return (trust.add(path, path, writable),)
    pointer, _ = read_pointer(file)
    target = _real(pointer.knowledge, home, file.absolute().parent)
    if not is_directory(target):
        raise UsageError(f"{file} points to {target}, which is no folder; create it or mend the pointer.")
    grants = [trust.add(file, target, writable)]
    if pointer.cache_dir is not None:
        cache = _real(pointer.cache_dir, home, file.absolute().parent)
        grants.append(trust.add(file, cache, use="cacheDir"))
    return tuple(grants)


def _found_alone(path: Path) -> bool:
    """Whether the walk takes a folder or link as it is, so that a pointer which lies in it means nothing."""
    name = path.name
    if name == "knowledge":
        return path.is_symlink()  # a folder of that name may as well be a project with a pointer
    return name.endswith(".knowledge") and (path.parent / name.removesuffix(".knowledge")).is_dir()


def clean(texts: dict[str, str]) -> dict[str, str]:
    """Texts about a base, each on one line and without control characters: they are shown in terminals."""
    return {key: _one_line(text) for key, text in texts.items()}


def _one_line(text: str | None) -> str:
    shown = (c if c.isspace() or unicodedata.category(c)[0] != "C" else " " for c in text or "")
    return " ".join("".join(shown).split())


def _no_pointers(home: Path, config: Path | None) -> set[str]:
    """Files with a pointer's name, perhaps, that are global configs."""
    return {_join(str(home), CONFIG_NAME), *([str(config)] if config else [])}


def _first_match(
    workspace: Workspace, home: Path, never: set[str], owned: Callable[[Path], bool], looked_for: list[str]
) -> Match | None:
    """Try everything on the way up; plain strings, because pathlib would take most of the time that there is."""
    folder = str(workspace.directory)
    git = str(workspace.git_root) if workspace.git_root else None
    above = None
    while folder != above:
        root = git if git and _within(folder, git) else None
        for origin, path, project, scope in _candidates(folder, root, str(home)):
            if path in never:
                continue
            there = os.path.lexists(path) and os.path.isdir(path) != (origin == "pointer")  # noqa: PTH112
            note = _why_not(origin, path, scope, git, owned) if there else ""
            looked_for.append(path + note)
            if there and not note:
                return Match(origin, Path(path), Path(project), Path(scope) if scope else None)
        above, folder = folder, os.path.dirname(folder)  # noqa: PTH120
    return None


def _candidates(folder: str, root: str | None, home: str) -> Iterator[tuple[Origin, str, str, str | None]]:
    """What is tried in one folder, in order: how it is called, its path, its project, and that one's git root."""
    for name in POINTER_NAMES:
        yield "pointer", _join(folder, name), folder, root
    yield from _folders(folder, root)
    if root == folder:
        main = main_worktree(Path(folder))
        # Git alone could tell whether the main worktree's knowledge/ is tracked. But a folder that is tracked is
        # in this worktree too, and was taken above; so what is left to be found here is not tracked, or only on
        # a branch that has come further, and then it is the newest there is.
        if main is not None and str(main) != home:
            yield from _folders(str(main), str(main))


def _folders(folder: str, root: str | None) -> Iterator[tuple[Origin, str, str, str | None]]:
    yield "knowledge", _join(folder, "knowledge"), folder, root
    yield ".knowledge", _join(folder, ".knowledge"), folder, root
    if sibling := _sibling(folder):
        yield "sibling", sibling, folder, root


def _sibling(folder: str) -> str | None:
    """The folder beside a project's; the root of a file system has none."""
    parent, name = os.path.split(folder)
    return _join(parent, f"{name}.knowledge") if name else None


def _join(folder: str, name: str) -> str:
    return f"{folder}{name}" if folder.endswith(os.sep) else f"{folder}{os.sep}{name}"


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(_join(folder, ""))


def _why_not(origin: Origin, path: str, root: str | None, git: str | None, owned: Callable[[Path], bool]) -> str:
    """Why something that is there does not count; empty if it does."""
    if origin in ("knowledge", ".knowledge"):
        return "" if root else " (does not count outside a git repository; `kbhub init` makes a pointer)"
    # A folder such as /tmp is everybody's: whoever puts a pointer or a sibling there must be the user.
    inside = git is not None and _within(path, git)
    return "" if inside or owned(Path(path)) else " (does not count: it belongs to another user)"


def _resolve(match: Match, workspace: Workspace, trust: TrustStore, home: Path, project: Project) -> None:
    """Turn a match into the project's base, or into the problem that there is with it."""
    pointer = Pointer()
    target = Path(os.path.realpath(match.pointer))
    if match.origin == "pointer":
        # What it leads to is no pointer but any file of the user's, and messages quote what they find in one.
        if not _within_project(match, target, home):
            message = f"{match.pointer} is a link to {target}, outside the project, and is not read. Put a file there."
            project.problems.append(Problem(subject=PROJECT_ID, message=message))
            return
        pointer, warnings = read_pointer(match.pointer)
        project.warnings += warnings
        if not pointer.enabled:
            project.off = True
            project.looked_for[-1] += ' (it says "enabled": false, so kbhub is off here)'
            return
        target = _real(pointer.knowledge, home, match.folder)
    problem = _target_problem(match, target, trust, home)
    if problem:
        project.problems.append(Problem(subject=PROJECT_ID, message=problem))
        return
    git = workspace.git_root
    inside = git is not None and target.is_relative_to(git)
    project.base = Base(
        id=PROJECT_ID,
        path=target,
        origin=match.origin,
        name=_one_line(pointer.name) or _one_line(match.folder.name) or None,
        description=_one_line(pointer.description) or None,
        contexts=clean(pointer.contexts),
        include=pointer.include,
        exclude=pointer.exclude,
        cache_dir=_cache_dir(match, pointer, trust, home, project),
        # What git does not keep cannot be taken back, so there the user decides and not the project.
        writable=inside or trust.writable(match.pointer, target),
    )


def _target_problem(match: Match, target: Path, trust: TrustStore, home: Path) -> str | None:
    """Why a project may not have its knowledge at `target`, or none if it may."""
    shown = str(target) if len(str(target)) <= MAX_SHOWN_PATH else f"{str(target)[:MAX_SHOWN_PATH]}…"
    what = f"{match.pointer} leads to {shown}"
    if ".git" in target.parts:
        return f"{what}, inside a .git folder, which is never a base. Name another folder."
    followed = (
        _within_project(match, target, home)
        or str(target) == _sibling(str(match.folder))
        or trust.allows(match.pointer, target)
    )
    if not followed:
        command = f"kbhub trust {shlex.quote(str(match.pointer))}"
        return f"{what}, outside the project, and is not followed. If that is what you want, run `{command}`."
    if not is_directory(target):
        return f"{what}, which is not a directory. Create it, or mend the pointer."
    return None


def _within_project(match: Match, target: Path, home: Path) -> bool:
    """Whether a real path lies in the git root of a match or, where it is a pointer, below the pointer's folder."""
    # A pointer above the workspace's git root may be in a repository of its own.
    root = match.root or git_root(match.folder, home)
    below = match.origin == "pointer" and target.is_relative_to(match.folder)
    return below or (root is not None and target.is_relative_to(root))


def _cache_dir(match: Match, pointer: Pointer, trust: TrustStore, home: Path, project: Project) -> Path | None:
    if pointer.cache_dir is None:
        return None
    cache = _real(pointer.cache_dir, home, match.folder)
    if trust.allows(match.pointer, cache, use="cacheDir"):
        return cache
    command = f"kbhub trust {shlex.quote(str(match.pointer))}"
    message = f"{match.pointer} wants the index in {cache}; it stays in the usual place until you run `{command}`."
    project.problems.append(Problem(subject=PROJECT_ID, message=message))
    return None


def _real(text: str, home: Path, folder: Path) -> Path:
    return Path(os.path.realpath(expand(text, home, folder)))


def _has_markdown(folder: Path) -> bool:
    """Whether some Markdown lies in a folder; looks at `_DOCS_BUDGET` entries, nearest first."""
    pending = [folder]
    budget = _DOCS_BUDGET
    for current in pending:
        try:
            with os.scandir(current) as found:
                for entry in found:
                    budget -= 1
                    if entry.name.startswith(".") or budget < 0:
                        continue
                    if entry.name.lower().endswith(MARKDOWN_SUFFIXES) and entry.is_file():
                        return True
                    if entry.is_dir(follow_symlinks=False) and entry.name not in SKIPPED_FOLDERS:
                        pending.append(Path(entry.path))
        except OSError:
            continue
        if budget < 0:
            return False
    return False
