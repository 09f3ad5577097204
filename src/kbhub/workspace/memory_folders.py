"""Locate the folders of memories and of saved chat answers, and the active bases among them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import unquote, urlsplit

from kbhub.errors import UsageError
from kbhub.types import Base, Discovery, Workspace
from kbhub.values import struct
from kbhub.workspace.atomic_writes import write_atomically
from kbhub.workspace.files import is_directory, private_directory, probe, probe_in_vain, read_regular, real_path
from kbhub.workspace.git import main_worktree, path_in, root_commit
from kbhub.workspace.settings import GlobalConfig, Settings

MAX_CONFIG_BYTES = 1 << 20
"""Largest git configuration in bytes; with a thousand branches it has 100 kB."""

MAX_ADDRESS_CHARACTERS = 2048
"""Longest address of an origin; servers accept no longer paths."""

MAX_HOPS = 4
"""Local clones of clones that are followed to a remote origin."""

DIGEST_DIGITS = 12
"""Hex digits of an identity's hash in its folder's name: 48 bits are enough for the projects of a machine."""

DEFAULT_PORTS = {"http": 80, "https": 443, "ssh": 22, "git": 9418}
"""Scheme → default port (IANA)."""

CASELESS_HOSTS = frozenset({"github.com", "gitlab.com", "bitbucket.org", "codeberg.org"})
"""Hosts where `Acme/Shop` and `acme/shop` are the same repository, according to their documentation."""

_SECTION = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_ENTRY = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*)")
_SCP = re.compile(r"(?:[^@/\\]+@)?(\[[^\]]+\]|[^:/\\\[\]@]{2,}):(.+)", re.DOTALL)  # one letter is a Windows drive
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}

Kind = Literal["origin", "root", "path"]


@struct
class Identity:
    """Identifies a project wherever it is checked out."""

    kind: Kind
    """By the address of its origin, its first commit, or its path."""
    text: str
    """`github.com/acme/shop`, a commit's hash, or a path."""

    @property
    def digest(self) -> str:
        """A short hash for the name of a folder."""
        whole = f"{self.kind}\0{self.text}".encode("utf-8", "surrogateescape")
        return hashlib.sha256(whole).hexdigest()[:DIGEST_DIGITS]


def identify(workspace: Workspace) -> Identity | None:
    """Return the identity of a workspace's project, or None if the workspace has no directory."""
    if workspace.directory is None:
        return None
    return identify_directory(workspace.directory, workspace.git_root)


def project_text(workspace: Workspace) -> str:
    """Return the identity of a workspace's project as memories have it; empty without a directory."""
    identity = identify(workspace)
    return identity.text if identity else ""


def identify_directory(directory: Path, root: Path | None) -> Identity:
    """Return the identity of a directory's project; both paths are absolute, with links resolved."""
    common = common_directory(root) if root else None
    if root and common:
        if address := _origin(common, root):
            return Identity("origin", address)
        # A shallow clone lacks the first commit, and the oldest one it has changes with the next fetch.
        probe(common / "shallow")
        if not (common / "shallow").exists() and not _is_new(common) and (commit := _first_commit(root)):
            return Identity("root", commit)
    return path_identity(root or directory)


def path_identity(directory: Path) -> Identity:
    """Return the identity of a directory by its path."""
    return Identity("path", os.path.realpath(directory))


def common_directory(root: Path) -> Path | None:
    """Return the folder with a repository's configuration, or None if a `.git` file and its target do not match."""
    git = root / ".git"
    if git.is_dir():
        return git.resolve()
    if main := main_worktree(root):
        return (main / ".git").resolve()
    return _submodule_directory(root)


def normal_origin(address: str) -> str | None:
    """Normalise a remote's address to `host[:port]/path`; None for local paths and invalid addresses."""
    address = address.strip()
    if not address or len(address) > MAX_ADDRESS_CHARACTERS or any(ord(character) < 0x20 for character in address):
        return None
    port = None
    if _SCHEME.match(address):
        try:
            parts = urlsplit(address)
            host, path, port = parts.hostname or "", unquote(parts.path), parts.port
        except ValueError:
            return None
        scheme = parts.scheme.lower().removeprefix("git+").removesuffix("+git")
        if scheme == "file" or not host:
            return None
        port = None if port == DEFAULT_PORTS.get(scheme) else port
    elif match := _SCP.fullmatch(address):
        host, path = match[1].strip("[]").lower(), match[2]
    else:
        return None
    path = "/".join(part for part in path.split("/") if part).removesuffix(".git").rstrip("/")
    if not path:
        return None
    path = path.casefold() if host in CASELESS_HOSTS else path
    return f"{host}{f':{port}' if port else ''}/{path}"


def origin_address(config: str) -> str | None:
    """Return the first URL of the remote `origin` in the text of a git configuration, or None."""
    in_origin = False
    for line in re.sub(r"\\\r?\n", "", config).split("\n"):
        rest = line
        if section := _SECTION.match(line):
            name, sub = section[1].lower(), re.sub(r"\\(.)", r"\1", section[2] or "")
            in_origin = (name, sub) == ("remote", "origin")
            rest = line[section.end() :]
        entry = _ENTRY.match(rest)
        if in_origin and entry and entry[1].lower() == "url":
            return _value(entry[2])
    return None


def _value(text: str) -> str:
    """Parse a value with quotes, escapes and comments."""
    value, quoted = "", False
    characters = iter(text)
    for character in characters:
        if character == '"':
            quoted = not quoted
        elif character == "\\":
            following = next(characters, "")
            value += _ESCAPES.get(following, following)
        elif character in "#;" and not quoted:
            break
        else:
            value += character
    return value.strip()


def _origin(common: Path, root: Path) -> str | None:
    """Normalised address of the origin, following local clones to a remote one."""
    for _ in range(MAX_HOPS):
        try:
            address = origin_address(read_regular(common / "config", MAX_CONFIG_BYTES).decode("utf-8", "replace"))
        except OSError:
            return None
        if address is None:
            return None
        if remote := normal_origin(address):
            return remote
        local = Path(os.path.realpath(root / address.removeprefix("file://")))
        for git in (local / ".git", local):
            probe(git / "config")
        following = next((git for git in (local / ".git", local) if os.path.isfile(git / "config")), None)  # noqa: PTH113
        if following is None or following == common:
            return None
        common, root = following, local
    return None


def _submodule_directory(root: Path) -> Path | None:
    """A submodule's folder in the outer repository's `.git`, if its configuration names this worktree."""
    named = path_in(root / ".git", "gitdir: ")
    folder = Path(os.path.realpath(named or root))
    try:
        config = read_regular(folder / "config", MAX_CONFIG_BYTES).decode("utf-8", "replace") if named else ""
    except OSError:
        return None
    entries = (entry for line in config.split("\n") if (entry := _ENTRY.match(line)))
    worktree = next((_value(entry[2]) for entry in entries if entry[1].lower() == "worktree"), None)
    return folder if worktree and Path(os.path.realpath(folder / worktree)) == root else None


def _is_new(common: Path) -> bool:
    """Whether a repository certainly has no commits, judging by its files, to save running git."""
    for name in ("HEAD", *_OTHER_REFS):
        probe(common / name)
    probe(common / "refs" / "heads", entries=True)
    if not os.path.lexists(common / "HEAD"):
        return True  # not a valid repository
    try:
        if not read_regular(common / "HEAD", MAX_ADDRESS_CHARACTERS).startswith(b"ref:"):
            return False
        with os.scandir(common / "refs" / "heads") as branches:
            return next(branches, None) is None and not any((common / name).exists() for name in _OTHER_REFS)
    except OSError:
        return False


_OTHER_REFS = ("packed-refs", "reftable")
"""Other places where git stores branches."""

_FIRST_COMMITS: dict[tuple[str, int], str] = {}
"""Cache: git root and inode of its `.git` → first commit, which never changes."""


def _first_commit(root: Path) -> str | None:
    try:
        key = str(root), (root / ".git").stat().st_ino
    except OSError:
        return None
    if key not in _FIRST_COMMITS:
        commit = root_commit(root)
        if commit is None:
            probe_in_vain()
            return None
        _FIRST_COMMITS[key] = commit
    return _FIRST_COMMITS[key]


Scope = Literal["project", "user", "shared", "team"]
"""Scope of a memory: this project, all of the user's projects, this project for everyone who has a copy, or a shared
base for everyone who may read it."""

MEMORY_ID, USER_ID, PROJECT_ID = "memory", "user", "project"
"""Ids of the bases with memories of the scopes `project`, `user` and `shared`."""

SHARED_FOLDER = "memories"
"""Folder of shared memories in the project base."""

NO_TEAM = (
    'No shared base here accepts memories. Set `"memories": true` for one in ~/.kbhub.json; its admin allows it '
    "with `kbhub team publish --to URL --memories`."
)

ABOUT_NAME = ".project.json"
"""File that identifies a folder's project, for people and `kbhub memories move`; hidden, so that it is not indexed."""

SYNCED_NAME = ".synced"
"""File of a memory folder: commits that it was synced with, latest first, each with the ids that were held. They are of
several remotes, or from several clones of a project, which share the folder."""

MAX_ABOUT_BYTES = 16_384
NAME_CHARACTERS = 40
"""Characters of a project's name in its folder's name; file names may have 255 bytes."""

_UNSAFE = re.compile(r"[^\w.]+")

COMPLETIONS_ID = "completions"
"""Id of the base; a base of the user's with this id takes precedence."""


class Files(Protocol):
    """The files of a shelf, by path in the base: in a folder (`memory.files`), or in a database (by an engine)."""

    def names(self) -> list[str]: ...  # noqa: D102
    def read(self, path: str, limit: int) -> tuple[bytes, float] | None: ...  # noqa: D102
    def author(self) -> str: ...  # noqa: D102
    def create(self, path: str, data: bytes) -> None: ...  # noqa: D102
    def replace(self, path: str, data: bytes) -> None: ...  # noqa: D102
    def remove(self, path: str) -> None: ...  # noqa: D102


@struct
class MemoryFolder:
    """A folder of memories."""

    scope: Scope
    base: Base
    prefix: str = ""
    """Path prefix in the base: `memories/` for shared ones, else empty."""
    files: Files | None = None
    """Its files, if they are in no folder."""

    @property
    def folder(self) -> Path:
        """The folder itself."""
        return self.base.path / self.prefix if self.prefix else self.base.path

    @property
    def place(self) -> str:
        """Key under which uses of its memories are counted."""
        return place_of(self.base)


def place_of(base: Base) -> str:
    """Return the key for counting uses of a base's memories; it stays valid if the data directory moves."""
    return base.path.name if base.origin == "memory" else f"shared:{base.path}"


def memories_folder(data: Path) -> Path:
    """Return the folder of all memories in the data directory, links resolved."""
    return real_path(data) / "memories"


def memory_bases(discovery: Discovery, data: Path) -> tuple[Base, ...]:
    """Return the bases `memory` (of the workspace's project) and `user`, without empty ones."""
    bases, top = [], memories_folder(data)
    if _folders(top) - {USER_ID}:  # skip `identify` if no project has memories
        identity = identify(discovery.workspace)
        folder = project_folder(data, identity) if identity else None
        bases += [_memory_base(MEMORY_ID, folder)] if folder and _visible(folder) else []
    return (*bases, _memory_base(USER_ID, top / USER_ID)) if _visible(top / USER_ID) else tuple(bases)


def project_folder(data: Path, identity: Identity) -> Path | None:
    """Return the folder of a project's memories, or None if it has none yet."""
    top = memories_folder(data)
    ending = f"-{identity.digest}"
    names = sorted([name for name in _folders(top) if name.endswith(ending)])
    return top / names[0] if names else None


def described(folder: Path) -> Identity | None:
    """Return the identity recorded in a project's folder, or None if there is no valid one."""
    try:
        about = json.loads(read_regular(folder / ABOUT_NAME, MAX_ABOUT_BYTES))
        identity = Identity(about["by"], about["project"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return identity if isinstance(identity.text, str) and folder.name.endswith(identity.digest) else None


def project_folders(data: Path) -> list[Path]:
    """Return the folders of all projects, sorted by name."""
    top = memories_folder(data)
    return [top / name for name in sorted(_folders(top)) if name != USER_ID]


def shelf_for_writing(discovery: Discovery, data: Path, settings: Settings, scope: Scope) -> MemoryFolder:
    """Return the folder for new memories of a scope, created if necessary except for shared ones; under a lock."""
    if scope == "shared":
        return _shared_shelf(discovery, settings)
    if scope == "user":
        return MemoryFolder("user", _memory_base(USER_ID, private_directory(memories_folder(data) / USER_ID)))
    identity = identify(discovery.workspace)
    if identity is None:
        raise UsageError("No project here to remember for. Use the scope `user`, or name a project with --root.")
    folder = project_folder(data, identity)
    if folder is None:
        folder = private_directory(memories_folder(data) / f"{_readable(identity)}-{identity.digest}")
        about = {"project": identity.text, "by": identity.kind}
        write_atomically(folder / ABOUT_NAME, json.dumps(about, indent=2, ensure_ascii=False) + "\n")
    return MemoryFolder("project", _memory_base(MEMORY_ID, folder))


def shelves(discovery: Discovery, settings: Settings) -> list[MemoryFolder]:
    """Return the active folders of memories, the project's first."""
    scopes: dict[str, Scope] = {MEMORY_ID: "project", USER_ID: "user"}
    active = [MemoryFolder(scopes[base.id], base) for base in discovery.bases if base.origin == "memory"]
    project = discovery.project
    if settings.memory.shared and project and (project.path / SHARED_FOLDER).is_dir():
        active.insert(min(1, len(active)), MemoryFolder("shared", project, f"{SHARED_FOLDER}/"))
    return active


def is_memory(settings: Settings, base: Base, path: str) -> bool:
    """Return whether a document is a memory."""
    shared = settings.memory.shared and base.id == PROJECT_ID and path.startswith(f"{SHARED_FOLDER}/")
    return shared or base.kind == "memory"


def _shared_shelf(discovery: Discovery, settings: Settings) -> MemoryFolder:
    if not settings.memory.shared:
        raise UsageError(
            'Shared memories are off, because they are written into the project. To allow them, set `"memory": '
            '{"shared": true}` in ~/.kbhub.json.'
        )
    project = discovery.project
    if project is None:
        raise UsageError("No project base to share memories in. Create one with `kbhub init`.")
    if not project.writable:
        raise UsageError(f"The project base {project.path} is read-only, but shared memories need a writable one.")
    folder = project.path / SHARED_FOLDER
    if os.path.realpath(folder) != str(folder):
        raise UsageError(f"{folder} is a link. Shared memories are only written to a real folder of the project base.")
    return MemoryFolder("shared", project, f"{SHARED_FOLDER}/")


def _memory_base(id_: str, folder: Path) -> Base:
    whose, where = ("this project", "for this project") if id_ == MEMORY_ID else ("the user", "for every project")
    return Base(
        id=id_,
        path=folder,
        origin="memory",
        name=f"memories of {whose}",
        description=f"What agents remembered {where}.",
        kind="memory",
        writable=True,
    )


def _folders(folder: Path) -> set[str]:
    """Names of the visible subfolders of a folder."""
    return {entry.name for entry in _visible(folder) if entry.is_dir(follow_symlinks=False)}


def _visible(folder: Path) -> list[os.DirEntry[str]]:
    """Visible entries of a folder; none if it does not exist."""
    probe(folder, entries=True)
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.name[0] != "."]
    except OSError:
        return []


def _readable(identity: Identity) -> str:
    """Readable part of a folder's name: that of the repository or directory."""
    name = (
        "repository" if identity.kind == "root" else identity.text.replace(os.sep, "/").rstrip("/").rpartition("/")[2]
    )
    plain = unicodedata.normalize("NFKC", name)
    return _UNSAFE.sub("-", plain)[:NAME_CHARACTERS].strip("-.") or "project"


def completions_folder(data: Path) -> Path:
    """Return the folder of saved chat answers in kbhub's data directory, links resolved."""
    return real_path(data) / COMPLETIONS_ID


def with_own(discovery: Discovery, data: Path, settings: GlobalConfig) -> Discovery:
    """Add kbhub's own bases, of memories and of saved chat answers, to those found by discovery."""
    if discovery.off:
        return discovery
    bases = (*discovery.bases, *(memory_bases(discovery, data) if settings.memory.enabled else ()))
    discovery = discovery.model_copy(update={"bases": bases})
    folder = completions_folder(data)
    taken = {*settings.bases, *[name for base in bases for name in (base.id, *base.names)]}
    if COMPLETIONS_ID in taken or not is_directory(folder) or folder in [base.path for base in bases]:
        return discovery
    base = Base(
        id=COMPLETIONS_ID,
        path=folder,
        origin="config",
        name="Chat answers",
        description="Answers of language models, saved by `kbhub doc distil`; not reviewed.",
        writable=True,
    )
    return discovery.model_copy(update={"bases": (*bases, base)})
