"""Git roots, commit times and what identifies a project, read from git's files or its history."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import which
from typing import Literal
from urllib.parse import unquote, urlsplit

from kbhub.types import Base, Workspace
from kbhub.values import struct
from kbhub.workspace.files import probe, probe_in_vain, read_regular
from kbhub.workspace.formats import is_text

_MAX_LINE_BYTES = 8192
"""Largest `.git`, `gitdir` or `commondir` file in bytes; it has one path, which no system allows beyond 4096."""

LOG_SECONDS = 10
"""Timeout for a git command; after it, file times are used."""

FRESH_PATHS = 200
"""Most paths passed to git individually; for more, the whole base is listed."""

SAFE = (
    # A repository's own configuration may name programs; none of them may run because a folder is searched.
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false"),
    *("-c", "core.quotePath=false", "-c", "log.mailmap=false", "-c", "core.alternateRefsCommand="),
)

_QUIET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # the same for older versions of git
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
}

_COMMIT = re.compile(r"//([<>])(\d{1,11}) (\w+) ?(\w*).*")
"""A commit's side, time (seconds since the epoch), hash and first parent in the log; no file name can look like it."""

_LOG = ("log", "--format=//%m%ct %H %P", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BRANCH = re.compile(r"ref: (refs/heads/(?!.*\.\.)[\w./-]+)\n?")


def git_root(directory: Path, home: Path | None) -> Path | None:
    """Return the nearest folder at or above an absolute, real one that contains `.git`, a directory or a file, or None.

    It is never `home`, as a repository of dotfiles would make all of the user's files part of a project.
    """
    folder, above = str(directory), None
    while folder != above:  # plain strings, as pathlib takes three times as long per folder
        probe(f"{folder}{os.sep}.git")
        if os.path.exists(f"{folder}{os.sep}.git"):  # noqa: PTH110
            return None if home and folder == str(home) else Path(folder)
        above, folder = folder, os.path.dirname(folder)  # noqa: PTH120
    return None


def main_worktree(root: Path) -> Path | None:
    """Return the main worktree of a repository if `root`, absolute and real, is a linked worktree, else None.

    The repository must list this worktree too: a `.git` file could come from an archive and name any repository.
    """
    admin = _path_in(root / ".git", "gitdir: ")
    if admin is None:
        return None
    back, common = _path_in(admin / "gitdir"), _path_in(admin / "commondir")
    if back is None or common is None or back.name != ".git" or back.parent.resolve() != root:
        return None
    common = common.resolve()
    if admin.resolve().parent != common / "worktrees":
        return None  # not the repository's own administrative folder
    main = common.parent
    return main if common.name == ".git" and main != root else None


def _path_in(file: Path, prefix: str = "") -> Path | None:
    """Return the path in one of git's single-line files, resolved against the file's folder."""
    try:
        text = os.fsdecode(read_regular(file, _MAX_LINE_BYTES)).rstrip("\r\n")
    except OSError:
        return None
    if not text.startswith(prefix) or "\0" in text or len(text) == len(prefix):
        return None
    return Path(os.path.normpath(file.parent / text.removeprefix(prefix)))


def commit_times(base: Base, since: str | None, fresh: Sequence[str] = ()) -> tuple[str, Mapping[str, int]] | None:
    """Return the head commit, and path in a base → when its file was last committed, in seconds since the epoch.

    Only commits after `since`, the previous head commit, are listed; for `fresh` paths, added since, older ones count.
    None without git, repository, commit, or an answer in time.
    """
    head = head_commit(base.path)
    if head is None:
        return None
    paths = base.only or (".",)
    times: Mapping[str, int] | None = {} if head == since else None
    if times is None and since is not None:
        times = _log(base, f"{since}...{head}", paths)
    if times is None:  # it is the first time, or the history is another one
        times = _log(base, head, paths)
    elif older := _tracked(base, [path for path in fresh if path not in times]):
        times = {**(_log(base, head, older) or {}), **times}
    return None if times is None else (head, times)


def _tracked(base: Base, paths: Sequence[str]) -> list[str]:
    """Pathspecs of the tracked files among `paths`, or of the whole base if they are too many for a command line."""
    if not paths:
        return []
    pathspecs = [f":(literal){path}" for path in paths] if len(paths) <= FRESH_PATHS else list(base.only or (".",))
    listing = _git(base.path, "ls-files", "-z", "--", *pathspecs)
    tracked = set(listing.split("\0")).intersection(paths) if listing else set()
    return [f":(literal){path}" for path in tracked] if len(tracked) <= FRESH_PATHS else pathspecs


def _log(base: Base, commits: str, paths: Sequence[str]) -> dict[str, int] | None:
    """Time of the last of some commits for each path, or None if git fails, or some are on the left side of `A...B`."""
    log = _git(base.path, *_LOG, "--relative", "--left-right", "--diff-merges=first-parent", commits, "--", *paths)
    if log is None:
        return None
    times: dict[str, int] = {}
    for commit, name in _changes(log):
        if commit[1] == "<":
            return None
        if is_text(name):
            times.setdefault(name, int(commit[2]))
    return times


def _changes(log: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each commit of a log with each file that it changed."""
    commit, first = None, False
    for entry in log.split("\0"):
        name = entry.removeprefix("\n") if first else entry
        first = entry.startswith("//")
        if first:
            commit = _COMMIT.fullmatch(entry)
        elif name and commit is not None:
            yield commit, name


@struct
class Commit:
    """A commit that changed a file."""

    hash: str
    at: int
    """Seconds since the epoch."""
    author: str
    subject: str


def history(base: Base, path: str, limit: int) -> list[Commit]:
    """Return the last commits that changed a file, the latest first; none without git."""
    options = ("--format=%h%x1f%ct%x1f%an%x1f%s%x1e", f"--max-count={limit}", "--no-ext-diff", "--no-textconv")
    log = _git(base.path, "log", *options, "--", f":(literal){path}")
    fields = (entry.strip("\n").split("\x1f", 3) for entry in (log or "").split("\x1e"))
    return [Commit(one[0], int(one[1]), one[2], one[3]) for one in fields if len(one) == 4 and one[1].isdecimal()]


SHA1_DIGITS = 40
"""Hex digits of a hash of git, unless the repository was made with SHA-256."""

MOST_MOVES = 5


def versions(root: Path, paths: Sequence[str]) -> dict[str, list[str]] | None:
    """Return path, from the git root → its versions, `COMMIT:PATH`, newest first, or None if git does not answer.

    Commits that only moved a file are left out; those of its old path follow. A merge counts only if it has a version
    of its own: otherwise, the branch says with what else the file was written.
    """
    found: dict[str, list[str]] = {path: [] for path in paths}
    names, moves, first = {path: path for path in paths}, set[str](), set[str]()
    for _ in range(MOST_MOVES):
        touched: dict[str, list[str]] = defaultdict(list)
        wanted = sorted(set(names.values()))
        for start in range(0, len(wanted), FRESH_PATHS):
            specs = [f":(literal){path}" for path in wanted[start : start + FRESH_PATHS]]
            log = _git(root, *_LOG, "--diff-merges=combined", "HEAD", "--", *specs)
            if log is None:
                return None
            for commit, name in _changes(log):
                touched[name] += [commit[3]] if commit[3] not in moves else []
                first |= set() if commit[4] else {commit[3]}
        before, moved = {}, _moved(root, {touched[name][-1] for name in wanted if touched[name]} - first)
        for path, name in names.items():
            found[path] += [f"{commit}:{name}" for commit in touched[name]]
            if touched[name] and (old := moved[touched[name][-1]].get(name)):
                found[path].pop()
                before[path] = old
        moves |= {touched[names[path]][-1] for path in before}
        if not (names := before):
            break
    return found


def listed(root: Path) -> dict[str, str]:
    """Return hash → path of the committed files of a repository; of those with the same content, the last."""
    entries = (entry.partition("\t") for entry in (_git(root, "ls-tree", "-r", "-z", "HEAD") or "").split("\0"))
    return {head.split(" ")[2]: path for head, _, path in entries if path}


def hashed(data: bytes, files: Iterable[str]) -> str:
    """Return the hash under which git stores a file, like those of `listed`."""
    kind = "sha256" if len(next(iter(files), "")) > SHA1_DIGITS else "sha1"
    return hashlib.new(kind, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _moved(root: Path, commits: Collection[str]) -> Mapping[str, Mapping[str, str]]:
    """Return commit → new → old path of the files that commits moved without a change."""
    options = ("-r", "-z", "--name-status", "--diff-filter=R", "--no-ext-diff", "--no-textconv")
    given = "".join(f"{commit}\n" for commit in commits)
    output = _git(root, "diff-tree", "--stdin", "-M100%", *options, given=given) if commits else ""
    moved: dict[str, dict[str, str]] = defaultdict(dict)
    commit, fields = "", iter((output or "").split("\0"))
    for field in fields:
        if field.startswith("R"):
            old, new = next(fields, ""), next(fields, "")
            moved[commit][new] = old
        else:
            commit = field
    return moved


def is_shallow(root: Path) -> bool:
    """Return whether the history of a repository was cut off when it was cloned."""
    return ((common_directory(root) or _own_folder(root)) / "shallow").exists()


def _own_folder(root: Path) -> Path:
    """Return git's folder for a worktree."""
    return _path_in(root / ".git", "gitdir: ") or root / ".git"


def stored(root: Path, names: Iterable[str], most: int, budget: int) -> dict[str, bytes] | None:
    """Return the contents of files by names, `COMMIT:PATH`; others, those with more bytes than `most`, and those beyond
    the budget are left out. None if git does not answer; no path may lead out of the repository.
    """
    names, by_hash = [*dict.fromkeys(name for name in names if "\n" not in name)], dict[str, int]()
    listing = _git(root, "cat-file", "--batch-check", given="".join(f"{name}\n" for name in names)) if names else ""
    fields = {name: line.split(" ") for name, line in zip(names, (listing or "").split("\n"), strict=False)}
    fields = {name: one for name, one in fields.items() if len(one) == 3 and one[1] == "blob" and int(one[2]) <= most}
    for digest, _, size in fields.values():
        if budget >= int(size) and digest not in by_hash:
            by_hash[digest], budget = int(size), budget - int(size)
    given = "".join(f"{digest}\n" for digest in by_hash)
    data = _output(root, "cat-file", "--batch", given=given) if given else b""
    if listing is None or data is None:
        return None
    contents, end = dict[str, bytes](), -1
    for digest, length in by_hash.items():
        start = data.find(b"\n", end + 1) + 1
        end = start + length
        contents[digest] = data[start:end]
    return {name: contents[one[0]] for name, one in fields.items() if one[0] in contents}


def head_commit(folder: Path) -> str | None:
    """Return the hash of the commit checked out at a folder, or None; git itself is asked if no file says it."""
    root = git_root(Path(os.path.realpath(folder)), None)
    if root is None:
        return None
    own, text = _own_folder(root), ""
    with suppress(OSError, ValueError):
        text = read_regular(own / "HEAD", _MAX_LINE_BYTES).decode()
        if branch := _BRANCH.fullmatch(text):
            text = read_regular((common_directory(root) or own) / branch[1], _MAX_LINE_BYTES).decode()
    return _hash(text) or _hash(_git(folder, "rev-parse", "--verify", "--quiet", "HEAD"))


def _hash(text: str | None) -> str | None:
    """The hash that git printed, if it is one."""
    return text.strip() if text and _HASH.fullmatch(text.strip()) else None


def _git(folder: Path, *arguments: str, given: str = "") -> str | None:
    output = _output(folder, *arguments, given=given)
    return None if output is None else output.decode("utf-8", "surrogateescape")


def installed() -> str | None:
    """Return the path of git, or None; one found in the working directory is untrusted, and not run."""
    git = which("git")
    return git if git and os.path.isabs(git) else None  # noqa: PTH117


def _output(folder: Path, *arguments: str, given: str = "") -> bytes | None:
    # Starting git to find out that this is no repository, or one without commits, takes 5 ms.
    if (root := git_root(Path(os.path.realpath(folder)), None)) is None or _is_new(root) or not (git := installed()):
        return None
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | _QUIET
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(  # noqa: S603 - git itself, with fixed options
            [git, "--no-pager", *SAFE, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            input=given.encode("utf-8", "surrogateescape"),
            timeout=LOG_SECONDS,
            check=True,
        ).stdout
    return None


_MAX_CONFIG_BYTES = 1 << 20
"""Largest git configuration in bytes; with a thousand branches it has 100 kB."""

MAX_ADDRESS_CHARACTERS = 2048
"""Of an origin; servers accept no longer paths."""

MAX_HOPS = 4
"""Local clones of clones that are followed to a remote origin."""

DIGEST_DIGITS = 12
"""Hex digits of an identity's hash in its folder's name: 48 bits are enough for the projects of a machine."""

DEFAULT_PORTS = {"http": 80, "https": 443, "ssh": 22, "git": 9418}

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
    text: str
    """`github.com/acme/shop`, a commit's hash, or a path."""

    @property
    def digest(self) -> str:
        """A short hash for the name of a folder."""
        whole = f"{self.kind}\0{self.text}".encode("utf-8", "surrogateescape")
        return hashlib.sha256(whole).hexdigest()[:DIGEST_DIGITS]


def identify(workspace: Workspace) -> Identity | None:
    """Return the identity of a workspace's project, or None if the workspace has no directory."""
    directory, root = workspace.directory, workspace.git_root
    if directory is None:
        return None
    common = common_directory(root) if root else None
    if root and common:
        if address := _origin(common, root):
            return Identity("origin", address)
        # A shallow clone lacks the first commit, and the oldest one it has changes with the next fetch.
        probe(common / "shallow")
        if not (common / "shallow").exists() and not _is_new(root) and (commit := _first_commit(root)):
            return Identity("root", commit)
    return Identity("path", os.path.realpath(root or directory))


def project_text(workspace: Workspace) -> str:
    """Return the identity of a workspace's project as memories have it; empty without a directory."""
    identity = identify(workspace)
    return identity.text if identity else ""


def common_directory(root: Path) -> Path | None:
    """Return the folder with a repository's configuration, or None if a `.git` file and its target do not match."""
    git = root / ".git"
    if git.is_dir():
        return git.resolve()
    if main := main_worktree(root):
        return (main / ".git").resolve()
    # That of a submodule is in the outer repository's `.git`, and its configuration names this worktree.
    named = _path_in(git, "gitdir: ")
    folder = Path(os.path.realpath(named or root))
    config = ""
    with suppress(OSError):
        config = read_regular(folder / "config", _MAX_CONFIG_BYTES).decode("utf-8", "replace") if named else ""
    entries = (entry for line in config.split("\n") if (entry := _ENTRY.match(line)))
    worktree = next((_value(entry[2]) for entry in entries if entry[1].lower() == "worktree"), None)
    return folder if worktree and Path(os.path.realpath(folder / worktree)) == root else None


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
        address = None
        with suppress(OSError):
            address = origin_address(read_regular(common / "config", _MAX_CONFIG_BYTES).decode("utf-8", "replace"))
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


def _is_new(root: Path) -> bool:
    """Return whether a repository certainly has no commits, judging by its files, to save running git."""
    common, head = common_directory(root) or root / ".git", _own_folder(root) / "HEAD"
    for path in (head, *(common / name for name in _OTHER_REFS)):
        probe(path)
    probe(common / "refs" / "heads", entries=True)
    if not os.path.lexists(head):
        return True  # not a valid repository
    with suppress(OSError), os.scandir(common / "refs" / "heads") as branches:
        if read_regular(head, MAX_ADDRESS_CHARACTERS).startswith(b"ref: refs/heads/"):
            return next(branches, None) is None and not any((common / name).exists() for name in _OTHER_REFS)
    return False


_OTHER_REFS = ("packed-refs", "reftable")

_FIRST_COMMITS: dict[tuple[str, int], str] = {}
"""Cache: git root and inode of its `.git` → first commit, which never changes."""


def _first_commit(root: Path) -> str | None:
    try:
        key = str(root), (root / ".git").stat().st_ino
    except OSError:
        return None
    if key not in _FIRST_COMMITS:
        commit = _hash(_git(root, "rev-list", "--max-parents=0", "--first-parent", "HEAD"))
        if commit is None:
            probe_in_vain()
            return None
        _FIRST_COMMITS[key] = commit
    return _FIRST_COMMITS[key]
