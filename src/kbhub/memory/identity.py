"""Which project a directory belongs to, so that its clones and worktrees share what was remembered.

The first of: the address of git's `origin`, in one form for all its spellings; the first commit; the real path. Git's
configuration is read as a file: no program runs, and no other file is included.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from kbhub.files import read_regular
from kbhub.gitroot import main_worktree
from kbhub.history import root_commit
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.types import Workspace

MAX_CONFIG_BYTES = 1 << 20
"""Bytes of a repository's configuration; one with a thousand branches has 100 kB."""

MAX_ADDRESS_CHARACTERS = 2048
"""Characters of an origin's address; servers take no longer paths."""

MAX_HOPS = 4
"""Clones of clones of local repositories that are followed to the one whose origin is elsewhere."""

DIGEST_DIGITS = 12
"""Hex digits of an identity's hash in the name of its folder: 48 bits tell the projects of a machine apart."""

DEFAULT_PORTS = {"http": 80, "https": 443, "ssh": 22, "git": 9418}
"""Scheme → the port that need not be said (IANA)."""

CASELESS_HOSTS = frozenset({"github.com", "gitlab.com", "bitbucket.org", "codeberg.org"})
"""Servers where `Acme/Shop` and `acme/shop` are one repository, by their documentation."""

_SECTION = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_ENTRY = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*)")
_SCP = re.compile(r"(?:[^@/\\]+@)?(\[[^\]]+\]|[^:/\\\[\]@]{2,}):(.+)", re.DOTALL)  # one letter is a Windows drive
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}

Kind = Literal["origin", "root", "path"]


@struct
class Identity:
    """What makes a project the same one wherever it is checked out."""

    kind: Kind
    """By the address of its origin, by its first commit, or by its path alone."""
    text: str
    """`github.com/acme/shop`, a commit's hash, or a path."""

    @property
    def digest(self) -> str:
        """A short hash, for the name of a folder."""
        whole = f"{self.kind}\0{self.text}".encode("utf-8", "surrogateescape")
        return hashlib.sha256(whole).hexdigest()[:DIGEST_DIGITS]


def identify(workspace: Workspace) -> Identity | None:
    """Say which project a workspace belongs to; none where kbhub works for no directory."""
    if workspace.directory is None:
        return None
    return identify_directory(workspace.directory, workspace.git_root)


def identify_directory(directory: Path, root: Path | None) -> Identity:
    """Say which project a directory belongs to.

    Args:
        directory: absolute, links resolved.
        root: its git root, if it is in a repository.
    """
    common = common_directory(root) if root else None
    if root and common:
        if address := _origin(common, root):
            return Identity("origin", address)
        # A shallow clone has not got the first commit; what it takes for that changes with the next fetch.
        if not (common / "shallow").exists() and not _is_new(common) and (commit := _first_commit(root)):
            return Identity("root", commit)
    return path_identity(root or directory)


def path_identity(directory: Path) -> Identity:
    """Give the identity of a directory that is known by its path alone."""
    return Identity("path", os.path.realpath(directory))


def common_directory(root: Path) -> Path | None:
    """Give the folder with a repository's configuration, none if a `.git` file names one that does not know of it.

    Args:
        root: a git root, absolute, links resolved.
    """
    git = root / ".git"
    if git.is_dir():
        return git.resolve()
    if main := main_worktree(root):
        return (main / ".git").resolve()
    return _submodule_directory(root)


def normal_origin(address: str) -> str | None:
    """Give one form for all spellings of a remote's address: `host[:port]/path`.

    Credentials, the scheme and its default port, `.git`, doubled and trailing slashes and the case of the host do
    not count.

    Args:
        address: as git has it.

    Returns:
        None for a path of this machine, and for what is no address.
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
    """Give the address of the remote `origin` in the text of git's configuration; the first, as git takes it."""
    here = False
    for line in re.sub(r"\\\r?\n", "", config).split("\n"):
        rest = line
        if section := _SECTION.match(line):
            name, sub = section[1].lower(), re.sub(r"\\(.)", r"\1", section[2] or "")
            here = (name, sub) == ("remote", "origin")
            rest = line[section.end() :]
        entry = _ENTRY.match(rest)
        if here and entry and entry[1].lower() == "url":
            return _value(entry[2])
    return None


def _value(text: str) -> str:
    """Read a value: quotes, escapes, and comments outside quotes."""
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
    """Give the origin's address in one form, through local clones to the repository that is elsewhere."""
    for _ in range(MAX_HOPS):
        address = _address_in(common)
        if address is None:
            return None
        if remote := normal_origin(address):
            return remote
        local = Path(os.path.realpath(root / address.removeprefix("file://")))
        following = next((one for one in (local / ".git", local) if os.path.isfile(one / "config")), None)  # noqa: PTH113
        if following is None or following == common:
            return None
        common, root = following, local
    return None


def _address_in(common: Path) -> str | None:
    try:
        text = read_regular(common / "config", MAX_CONFIG_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    return origin_address(text)


def _submodule_directory(root: Path) -> Path | None:
    """Give a submodule's folder in the repository around it, if that folder says so, too."""
    try:
        text = os.fsdecode(read_regular(root / ".git", MAX_ADDRESS_CHARACTERS)).rstrip("\r\n")
        if not text.startswith("gitdir: ") or "\0" in text:
            return None
        folder = Path(os.path.realpath(root / text.removeprefix("gitdir: ")))
        config = read_regular(folder / "config", MAX_CONFIG_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    trees = (entry for line in config.split("\n") if (entry := _ENTRY.match(line)))
    tree = next((_value(entry[2]) for entry in trees if entry[1].lower() == "worktree"), None)
    return folder if tree and Path(os.path.realpath(folder / tree)) == root else None


def _is_new(common: Path) -> bool:
    """Whether a repository has no commit yet, as far as its files say so; git need not be asked then."""
    if not os.path.lexists(common / "HEAD"):
        return True  # to git it is no repository at all
    try:
        if not read_regular(common / "HEAD", MAX_ADDRESS_CHARACTERS).startswith(b"ref:"):
            return False
        with os.scandir(common / "refs" / "heads") as branches:
            return next(branches, None) is None and not any((common / name).exists() for name in _OTHER_REFS)
    except OSError:
        return False


_OTHER_REFS = ("packed-refs", "reftable")
"""Where git keeps branches besides `refs/heads`."""

_FIRST_COMMITS: dict[tuple[str, int], str] = {}
"""Git root and its inode → its first commit, which never becomes another one."""


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
