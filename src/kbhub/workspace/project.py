"""The project base of a workspace, found by walking up; what comes with a clone is not trusted.

The grants are folders outside a project that it may use or not, and projects that may show documents unasked. Their
store is in the data directory, never in the cache or in a project.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import field, fields
from pathlib import Path
from typing import Any

from kbhub.errors import ConfigError, UsageError
from kbhub.types import Base, Origin, Problem, Workspace
from kbhub.values import Value, struct
from kbhub.workspace.config import CONFIG_NAME, POINTER_NAMES, read_pointer
from kbhub.workspace.files import expand, held, is_directory, probe, read_regular, real_path, write_atomically
from kbhub.workspace.formats import NATIVE_SUFFIXES, SKIPPED_FOLDERS, is_native
from kbhub.workspace.git import git_root, main_worktree
from kbhub.workspace.settings import Pointer, Use, cut, plainly, shown

_join = os.path.join  # of plain strings, as pathlib is too slow on the way up

TRUST_NAME = "trust.json"
_VERSION = 1
_MAX_BYTES = 16 * 1024 * 1024
"""Of the largest store: 80,000 grants of some 200 bytes."""
_LOCK_SECONDS = 10.0
"""How long to wait for another process that writes the store, which normally takes milliseconds."""


class Grant(Value):
    """A permission for a pointer to use a target outside its project."""

    pointer: Path
    """Real path of the pointer file, or of the folder or link found without one."""
    target: Path
    """The folder it may use, links resolved."""
    use: Use = "knowledge"
    writable: bool = False
    """Whether agents may write there although it is outside the git root."""
    project: str = ""
    """For the use `documents`: the project that the folder held, so that another one cloned there is not meant."""


@struct
class TrustStore:
    """The grants in a file, usually `trust.json` in the data directory, which need not exist.

    It is read on every call, as other processes may change it. A store that cannot be read is an error in every method,
    and is never overwritten.
    """

    path: Path

    def entries(self) -> tuple[Grant, ...]:
        """Return all grants, oldest first."""
        try:
            text = read_regular(self.path, _MAX_BYTES)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        try:
            return tuple(_read(json.loads(text)))
        except (ValueError, RecursionError) as error:
            raise self._unusable(str(error)) from error

    def add(
        self, pointer: Path, target: Path, writable: bool = False, *, use: Use = "knowledge", project: str = ""
    ) -> Grant:
        """Add a grant, replacing one for the same pointer, target and use, whether permission or refusal."""
        new = Grant(pointer=identity(pointer), target=target.resolve(), use=use, writable=writable, project=project)
        uses = {use, "knowledge", "refused"} if use in ("knowledge", "refused") else {use}
        with self._lock():
            same = (new.pointer, new.target)
            kept = [one for one in self.entries() if (one.pointer, one.target) != same or one.use not in uses]
            self._write((*kept, new))
        return new

    def revoke(self, pointer: Path) -> bool:
        """Remove all grants of a pointer, which need not exist any more; return whether there were any."""
        with self._lock():
            grants = self.entries()
            kept = tuple(grant for grant in grants if grant.pointer != identity(pointer))
            if len(kept) == len(grants):
                return False
            self._write(kept)
        return True

    def grant(self, pointer: Path, target: Path, use: Use = "knowledge") -> Grant | None:
        """Return the grant, or for the use `refused` the refusal, of exactly a pointer's target, or None.

        The uses do not imply each other: in a base's folder files are read, in an index's a database is created.
        """
        key = (identity(pointer), target.resolve(), use)
        return next((grant for grant in self.entries() if (grant.pointer, grant.target, grant.use) == key), None)

    def _write(self, grants: tuple[Grant, ...]) -> None:
        store = {"version": _VERSION, "grants": [grant.model_dump(mode="json") for grant in grants]}
        write_atomically(self.path, json.dumps(store, indent=2) + "\n")

    def _lock(self) -> AbstractContextManager[None]:
        return held(self.path.with_name(f"{self.path.name}.lock"), _LOCK_SECONDS, self._unusable)

    def _unusable(self, reason: str) -> ConfigError:
        return ConfigError(self.path, f"the trust store cannot be used: {reason}; fix it or move it away")


def identity(pointer: Path) -> Path:
    """Return the real path of a pointer, not resolving its last part: a trusted link is identified by its own path."""
    absolute = pointer.absolute()
    return absolute.parent.resolve() / absolute.name


def _read(data: Any) -> Iterator[Grant]:
    """Parse the grants of a store strictly, as unknown content may change their meaning."""
    if not isinstance(data, dict) or set(data) != {"version", "grants"} or not isinstance(data["grants"], list):
        raise ValueError(f"expected `version` and a list of `grants`, not {shown(data)}")
    if data["version"] != _VERSION or isinstance(data["version"], bool):
        raise ValueError(f"version: expected {_VERSION}, not {shown(data['version'])}")
    names = {field.name for field in fields(Grant)}
    for number, entry in enumerate(data["grants"]):
        try:
            grant = plainly(Grant, entry)
        except ValueError as error:
            within = "." if isinstance(entry, dict) else ": "
            raise ValueError(f"grants.{number}{within}{error}") from error
        if unknown := set(entry) - names:
            raise ValueError(f"grants.{number}.{min(unknown)}: unknown field")
        yield grant


VAULT_FOLDER = ".obsidian"


def has_inline_tags(said: bool | None, folder: Path, home: Path | None) -> bool:
    """Return whether `#tags` in the text of a base's documents are tags, as `said` or, if that is None, as in a vault.

    A vault's root is the folder itself or, within a git repository, above it. `home` is no repository; None if the
    folder is known to be in one.
    """
    if said is not None:
        return said
    root = git_root(folder, home)
    for place in (folder, *folder.parents):
        if is_directory(place / VAULT_FOLDER):
            return True
        if root is None or place == root:
            break
    return False


PROJECT_ID = "project"

FOLDER = "knowledge"
STARTER_NAME = "how-to-write-knowledge.md"
"""The folder that `kbhub init` creates, and the document in it."""

MAX_SHOWN_PATH = 500
"""Characters of a pointer's path shown in a message; real paths are shorter."""

_DOCS_BUDGET = 2000
"""Entries below `docs/` that are searched for a document, so that a folder of assets does not slow every start."""


@struct
class Match:
    """The first pointer, folder or link on the way up that locates a project's knowledge."""

    origin: Origin
    pointer: Path
    """The pointer file, or the folder or link found without one; grants of trust refer to it."""
    folder: Path
    root: Path | None
    """The git root within which its target may be anywhere."""


@struct(frozen=False)
class Project:
    """The project base of a workspace, or why there is none."""

    base: Base | None = None
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    looked_for: list[str] = field(default_factory=list)
    off: bool = False
    docs: bool = True
    """Whether `docs/` is searched, too, or in place of a missing base."""
    untrusted: tuple[Path, Path] | None = None


def owned_by_user(path: Path) -> bool:
    """Return whether the current user owns a file, and the link if it is one; always true on Windows."""
    if not hasattr(os, "getuid"):
        return True
    with suppress(OSError):
        return path.lstat().st_uid == os.getuid() == path.stat().st_uid
    return False


def find_project(workspace: Workspace, trust: TrustStore, home: Path, *, config: Path | None) -> Project:
    """Walk up from the workspace to the first pointer, `knowledge/`, `.knowledge/` or sibling."""
    project = Project()
    try:
        if match := _first_match(workspace, home, config, project.looked_for):
            _resolve(match, workspace, trust, home, project)
    except ConfigError as error:
        project.problems.append(Problem(subject=PROJECT_ID, message=str(error)))
    return project


def find_pointer(workspace: Workspace, home: Path, *, config: Path | None) -> Path | None:
    """Return the pointer, folder or link that locates a workspace's knowledge, whether trusted or not, or None."""
    match = _first_match(workspace, home, config, [])
    return match.pointer if match else None


def docs_base(git: Path, name: str = PROJECT_ID) -> Base | None:
    """Return the `docs/` of a repository and its README as a read-only base, or None if there are no documents."""
    docs = git / "docs"
    if not is_directory(docs) or not Path(os.path.realpath(docs)).is_relative_to(git) or not has_documents(docs):
        return None
    probe(git, entries=True)
    with os.scandir(git) as found:
        names = [entry.name for entry in found if entry.name.lower().startswith("readme.")]
    readmes = [name for suffix in NATIVE_SUFFIXES for name in sorted(names) if name.lower() == f"readme{suffix}"]
    only, tags = (*readmes[:1], "docs"), has_inline_tags(None, docs, None)
    return Base(id=name, path=git, origin="docs", only=only, name=clean(git.name) or None, inline_tags=tags)


def trust_pointer(path: Path, trust: TrustStore, *, writable: bool, home: Path) -> tuple[Grant, ...]:
    """Trust a pointer, a folder with one, or one that needs none, with its current targets, as the user asked."""
    files = [path / name for name in POINTER_NAMES] if is_directory(path) else [path]
    name = path.name
    if name == "knowledge":  # a folder of that name could also be a project with a pointer
        alone = path.is_symlink()
    else:  # discovery ignores a pointer in it
        alone = name.endswith(".knowledge") and (path.parent / name.removesuffix(".knowledge")).is_dir()
    file = None if alone else next((file for file in files if file.is_file()), None)
    if file is None:
        if not is_directory(path):
            raise UsageError(f"{path} is neither a pointer nor a folder. Name a .kbhub.json, or a folder of knowledge.")
        return (trust.add(path, path, writable),)
    pointer, _ = read_pointer(file)
    target = real_path(expand(pointer.knowledge, home, file.absolute().parent))
    if not is_directory(target):
        raise UsageError(f"{file} points to {target}, which is not a folder. Create it, or fix the pointer.")
    grants = [trust.add(file, target, writable)]
    if pointer.cache_dir is not None:
        cache = real_path(expand(pointer.cache_dir, home, file.absolute().parent))
        grants.append(trust.add(file, cache, use="cacheDir"))
    return tuple(grants)


def clean(text: str | None) -> str:
    """Return a text about a base on one line and without control characters, safe for terminals."""
    return " ".join("".join([c if c.isprintable() else " " for c in text or ""]).split())


def _first_match(workspace: Workspace, home: Path, config: Path | None, looked_for: list[str]) -> Match | None:
    """Try all candidates on the way up."""
    if workspace.directory is None:
        return None
    never = (_join(str(home), CONFIG_NAME), str(config))  # global configs, which may have the name of a pointer
    folder = str(workspace.directory)
    git = str(workspace.git_root) if workspace.git_root else None
    above = None
    while folder != above:
        root = git if git and _within(folder, git) else None
        for origin, path, project, scope in _candidates(folder, root, str(home)):
            if path in never:
                continue
            probe(path)
            exists = os.path.lexists(path) and os.path.isdir(path) != (origin == "pointer")  # noqa: PTH112
            note = ""
            if exists and origin in ("knowledge", ".knowledge"):
                note = "" if scope else " (ignored outside a git repository; `kbhub init` writes a pointer)"
            # Anyone can write to a folder such as /tmp, so a pointer or sibling there must belong to the user.
            elif exists and not (git and _within(path, git)) and not owned_by_user(Path(path)):
                note = " (ignored: it belongs to another user)"
            looked_for.append(path + note)
            if exists and not note:
                return Match(origin, Path(path), Path(project), Path(scope) if scope else None)
        above, folder = folder, os.path.dirname(folder)  # noqa: PTH120
    return None


def _candidates(folder: str, root: str | None, home: str) -> Iterator[tuple[Origin, str, str, str | None]]:
    """Yield the candidates of a folder in order: origin, path, project folder, and the project's git root."""
    for name in POINTER_NAMES:
        yield "pointer", _join(folder, name), folder, root
    yield from _folders(folder, root)
    if root == folder:
        main = main_worktree(Path(folder))
        # Only git knows whether the main worktree's knowledge/ is tracked. A tracked folder would exist in this
        # worktree too, and would have matched above. So this one is untracked, or on a branch that is ahead and
        # has the newest version.
        if main is not None and str(main) != home:
            yield from _folders(str(main), str(main))


def _folders(folder: str, root: str | None) -> Iterator[tuple[Origin, str, str, str | None]]:
    yield "knowledge", _join(folder, "knowledge"), folder, root
    yield ".knowledge", _join(folder, ".knowledge"), folder, root
    if sibling := _sibling(folder):
        yield "sibling", sibling, folder, root


def _sibling(folder: str) -> str | None:
    """Path of a project's sibling folder; None for the root of a file system."""
    parent, name = os.path.split(folder)
    return _join(parent, f"{name}.knowledge") if name else None


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(_join(folder, ""))


def _resolve(match: Match, workspace: Workspace, trust: TrustStore, home: Path, project: Project) -> None:
    """Set the project's base from a match, or add the problem with it."""
    pointer = Pointer()
    target = Path(os.path.realpath(match.pointer))
    # A pointer above the workspace's git root may be in a repository of its own.
    root = match.root or git_root(match.folder, home)
    inside = [root] if root else []
    if match.origin == "pointer":
        inside.append(match.folder)
        # A link could lead to any of the user's files, and error messages quote their content.
        if not any(map(target.is_relative_to, inside)):
            link = f"{match.pointer} is a link to {cut(str(target), MAX_SHOWN_PATH)}"
            message = f"{link}, outside the project, so it is not read. Replace it with a file."
            project.problems.append(Problem(subject=PROJECT_ID, message=message))
            return
        pointer, warnings = read_pointer(match.pointer)
        project.warnings += warnings
        if not pointer.enabled:
            project.off = True
            project.looked_for[-1] += ' (it says "enabled": false, so kbhub is off here)'
            return
        target = real_path(expand(pointer.knowledge, home, match.folder))
    # Never one in a .git folder, whoever allows it.
    within = any(map(target.is_relative_to, inside)) or str(target) == _sibling(str(match.folder))
    # Edits outside git cannot be reverted, so there the user decides, not the project.
    writable = not pointer.read_only and workspace.git_root is not None and target.is_relative_to(workspace.git_root)
    granted = None if within and writable else trust.grant(match.pointer, target)
    if ".git" in target.parts:
        problem = "inside a .git folder, which cannot be a base. Name another folder."
    elif not (within or granted):
        command = f"`kbhub base trust {shlex.quote(str(match.pointer))}`"
        problem = f"outside the project, so it is not followed. If you want this, run {command}."
        if is_directory(target) and not trust.grant(match.pointer, target, "refused"):
            project.untrusted = (match.pointer, target)
    else:
        problem = "" if is_directory(target) else "which is not a directory. Create it, or fix the pointer."
    if problem:
        message = f"{match.pointer} leads to {cut(str(target), MAX_SHOWN_PATH)}, {problem}"
        project.problems.append(Problem(subject=PROJECT_ID, message=message))
        return
    usual = not {match.origin, target.name}.isdisjoint((FOLDER, ".knowledge"))
    project.docs = usual if pointer.docs_fallback is None else pointer.docs_fallback
    project.base = Base(
        id=PROJECT_ID,
        path=target,
        origin=match.origin,
        name=clean(pointer.name) or clean(match.folder.name) or None,
        description=clean(pointer.description) or None,
        contexts={prefix: clean(text) for prefix, text in pointer.contexts.items()},
        include=pointer.include,
        exclude=pointer.exclude,
        inline_tags=has_inline_tags(pointer.inline_tags, target, home),
        cache_dir=_cache_dir(match, pointer.cache_dir, trust, home, project) if pointer.cache_dir else None,
        writable=writable or bool(granted and granted.writable),
    )


def _cache_dir(match: Match, said: str, trust: TrustStore, home: Path, project: Project) -> Path | None:
    """Return the folder of the index that a pointer names, if the user allowed it."""
    cache = real_path(expand(said, home, match.folder))
    if trust.grant(match.pointer, cache, "cacheDir"):
        return cache
    reason = f"the index stays in the default place until you run `kbhub base trust {shlex.quote(str(match.pointer))}`."
    message = f"{match.pointer} sets the index folder to {cut(str(cache), MAX_SHOWN_PATH)}; {reason}"
    project.problems.append(Problem(subject=PROJECT_ID, message=message))
    return None


def has_documents(folder: Path) -> bool:
    """Return whether one of the first `_DOCS_BUDGET` entries below a folder is a document that `init` has not made."""
    pending = [folder]
    budget = _DOCS_BUDGET
    for current in pending:
        probe(current, entries=True)
        try:
            with os.scandir(current) as entries:
                for entry in entries:
                    budget -= 1
                    if entry.name.startswith(".") or budget < 0:
                        continue
                    if is_native(entry.name) and entry.name != STARTER_NAME and entry.is_file():
                        return True
                    if entry.is_dir(follow_symlinks=False) and entry.name not in SKIPPED_FOLDERS:
                        pending.append(Path(entry.path))
        except OSError:
            continue
        if budget < 0:
            return False
    return False


MAX_SETTINGS_BYTES = 1 << 20
MOST_PAGES = 20
_PAGES = re.compile(
    r"(?:^|[\s{,])(?:contentDir|docs_dir|docsDir|path|src|srcDir)[\"']?[ \t]*[:=][ \t]*[\"']?([\w./-]+)", re.MULTILINE
)


def site_pages(settings: Path) -> tuple[str, tuple[str, ...]] | None:
    """Return the settings of a documentation site, and the folders of pages that they may name; None if unreadable."""
    with suppress(OSError):
        text = read_regular(settings, MAX_SETTINGS_BYTES, follow=False).decode("utf-8", "replace")
        return text, tuple(dict.fromkeys(map(posixpath.normpath, _PAGES.findall(text)[:MOST_PAGES])))
    return None


def required(folder: Path | None) -> Path:
    """Return the folder of a workspace or of its project; `UsageError` if there is none."""
    if folder is None:
        raise UsageError("No project here. Change to its directory, or name it with --root DIR.")
    return folder
