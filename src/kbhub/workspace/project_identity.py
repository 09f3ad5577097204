"""Identify the project of a directory, so that its clones and worktrees share memories.

It is identified by the normalised address of git's `origin`, else by the first commit, else by the real path. Git's
configuration is read as a file, without following includes.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from kbhub.values import struct
from kbhub.workspace.files import read_regular
from kbhub.workspace.git import main_worktree, root_commit

if TYPE_CHECKING:
    from kbhub.types import Workspace

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


def identify_directory(directory: Path, root: Path | None) -> Identity:
    """Return the identity of a directory's project; both paths are absolute, with links resolved."""
    common = common_directory(root) if root else None
    if root and common:
        if address := _origin(common, root):
            return Identity("origin", address)
        # A shallow clone lacks the first commit, and the oldest one it has changes with the next fetch.
        if not (common / "shallow").exists() and not _is_new(common) and (commit := _first_commit(root)):
            return Identity("root", commit)
    return path_identity(root or directory)


def path_identity(directory: Path) -> Identity:
    """Return the identity of a directory by its path."""
    return Identity("path", os.path.realpath(directory))


def common_directory(root: Path) -> Path | None:
    """Return the folder with a repository's configuration, or None if a `.git` file and its target do not match.

    `root` must be absolute, with links resolved.
    """
    git = root / ".git"
    if git.is_dir():
        return git.resolve()
    if main := main_worktree(root):
        return (main / ".git").resolve()
    return _submodule_directory(root)


def normal_origin(address: str) -> str | None:
    """Normalise a remote's address to `host[:port]/path`; None for local paths and invalid addresses.

    Credentials, scheme, default port, `.git`, repeated and trailing slashes and the host's case are dropped.
    """
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
        following = next((git for git in (local / ".git", local) if os.path.isfile(git / "config")), None)  # noqa: PTH113
        if following is None or following == common:
            return None
        common, root = following, local
    return None


def _submodule_directory(root: Path) -> Path | None:
    """A submodule's folder in the outer repository's `.git`, if its configuration names this worktree."""
    try:
        text = os.fsdecode(read_regular(root / ".git", MAX_ADDRESS_CHARACTERS)).rstrip("\r\n")
        if not text.startswith("gitdir: ") or "\0" in text:
            return None
        folder = Path(os.path.realpath(root / text.removeprefix("gitdir: ")))
        config = read_regular(folder / "config", MAX_CONFIG_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    entries = (entry for line in config.split("\n") if (entry := _ENTRY.match(line)))
    worktree = next((_value(entry[2]) for entry in entries if entry[1].lower() == "worktree"), None)
    return folder if worktree and Path(os.path.realpath(folder / worktree)) == root else None


def _is_new(common: Path) -> bool:
    """Whether a repository certainly has no commits, judging by its files, to save running git."""
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
            return None
        _FIRST_COMMITS[key] = commit
    return _FIRST_COMMITS[key]
