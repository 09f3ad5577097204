"""A ref of a git remote that holds memories: their files, and an index of what the files do not say.

What it holds is data of others: only plain files with fitting names are read, nothing of it is ever checked out.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from kbhub.errors import KbhubError, UsageError
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.memory.files import MAX_FILE_BYTES
from kbhub.memory.transfer import MOST_USES
from kbhub.values import struct
from kbhub.workspace.git import SAFE, common_directory, installed, normal_origin

REFS = {"project": "refs/kbhub/memories", "user": "refs/kbhub/user-memories"}
INDEX = "index.json"

MOST_ENTRIES, MOST_BYTES, MOST_INDEX_BYTES = 20_000, 64 << 20, 8 << 20
"""Limits of a ref's files: as many bytes as an import may have."""

MOST_NAME_BYTES = 200
"""Limit of a file's name; the trash puts a time behind it."""

_NAME = re.compile(r"\w[\w .,+'()&-]*\.md")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ENTRY = re.compile(r"(\d+) (\w+) ([0-9a-f]+) +(\d+|-)\t(.+)", re.DOTALL)

FETCH_SECONDS, LOCAL_SECONDS = 120, 30
"""Time limits of a git command that speaks to a remote, and of any other."""

SHOWN_CHARACTERS = 300
"""Length to which messages of git are cut."""

PROTOCOLS = "https:http:ssh:git:file"
"""Protocols git may fetch with: none that runs a command chosen by the remote, such as `ext`."""

OPTIONS = (
    *SAFE,
    *("-c", "core.askPass=", "-c", "submodule.recurse=false", "-c", "fetch.recurseSubmodules=false"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "protocol.ext.allow=never"),
)
_QUIET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": PROTOCOLS,
    "GIT_OPTIONAL_LOCKS": "0",
    "GCM_INTERACTIVE": "never",  # Git Credential Manager would open a window
    "LC_ALL": "C",
}
_SSH = "ssh -oBatchMode=yes"
"""Never prompts; overrides `core.sshCommand` of the checkout."""

_HARMLESS = re.compile(
    r"core\.(hookspath|repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf"
    r"|eol|safecrlf|longpaths|quotepath|sharedrepository|untrackedcache|commitgraph|sparsecheckout(cone)?)"
    r"|remote\..*\.(url|fetch|pushurl|tagopt|prune|promisor|partialclonefilter|gh-resolved)"
    r"|branch\..*\.(remote|merge|rebase|pushremote|description|vscode-merge-base|gh-merge-base)"
    r"|user\.(name|email|signingkey)|init\.defaultbranch|pull\.(rebase|ff)|push\.(default|autosetupremote|followtags)"
    r"|gc\.auto|commit\.gpgsign|fetch\.(prune|prunetags|parallel|writecommitgraph)|rerere\..*|color\..*"
    r"|extensions\.(objectformat|partialclone|refstorage)|lfs\.repositoryformatversion",
    re.DOTALL,
)
"""Harmless keys of a checkout's configuration, in lower case: none names a program, another file or a proxy that counts
beside `OPTIONS`."""

_Seconds = Field(0, ge=0, le=1 << 53)


class MemoryNote(Model):
    """What a memory's file does not say."""

    time: int = _Seconds
    uses: int = Field(0, ge=0, le=MOST_USES)
    last: int = _Seconds


class MemoryIndex(Model):
    """`index.json` of a ref."""

    version: Literal[1]
    memories: dict[str, MemoryNote] = Field(default_factory=dict)
    """By id; without those of which there is nothing to note."""
    gone: dict[str, int] = Field(default_factory=dict)
    """Id of a deleted memory → when."""


@struct
class Tree:
    """What a commit of a ref holds."""

    index: MemoryIndex
    files: Mapping[str, bytes]
    oids: Mapping[str, str]
    foreign: tuple[str, ...] = ()


@struct
class Done:
    """The result of a git command."""

    ok: bool
    out: str
    """What it printed; bytes that are not UTF-8 as lone surrogates."""
    why: str


@struct
class Git:
    """Git in a checkout that nobody vouches for; no terminal, hook or program of the checkout's is used."""

    program: str
    folder: Path

    def strange_settings(self) -> list[str]:
        """Return the checkout's settings that may do harm; raise `KbhubError` if they cannot be read."""
        settings = self.run("config", "--local", "--no-includes", "--list", "--name-only", "-z")
        if not settings.ok:
            raise KbhubError(f"git cannot read {self.folder}: {settings.why}")
        keys = {key.lower() for key in settings.out.split("\0") if key}
        return sorted(key for key in keys if not _HARMLESS.fullmatch(key))

    def run(self, *arguments: str, data: bytes = b"", seconds: float = LOCAL_SECONDS) -> Done:
        """Run a command, with `data` on standard input."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") and key != "SSH_ASKPASS"}
        ssh = os.environ.get("GIT_SSH_COMMAND") or _SSH
        # Git does not look for a repository above the base.
        env = {**kept, **_QUIET, "GIT_SSH_COMMAND": ssh, "GIT_CEILING_DIRECTORIES": str(self.folder.parent)}
        try:
            process = subprocess.Popen(  # noqa: S603 - git itself, with fixed options
                [self.program, "--no-pager", *OPTIONS, *arguments],
                cwd=self.folder,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # no terminal for ssh prompts; and its children are killed with it
            )
        except OSError as error:
            return Done(ok=False, out="", why=error.strerror or str(error))
        try:
            out, errors = process.communicate(data, timeout=seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            return Done(ok=False, out="", why=f"it took longer than {seconds:g} s")
        except BaseException:
            _end(process)
            raise
        message = " ".join(errors.decode("utf-8", "replace").split())[:SHOWN_CHARACTERS]
        return Done(process.returncode == 0, out.decode("utf-8", "surrogateescape"), message or "git did not say why")


@struct
class RemoteRef:
    """A ref, in a repository and in a remote of it."""

    git: Git
    remote: str
    ref: str
    receive: tuple[str, ...]
    """Options of a push to a folder: its hooks do not run."""

    def fetched(self) -> str | None:
        """Fetch the ref; return its commit in the remote, or None if that has none."""
        answer = self.git.run("ls-remote", "--end-of-options", self.remote, self.ref, seconds=FETCH_SECONDS)
        listed = self._done("fetch from", answer).split("\n")
        commits = [line.partition("\t")[0] for line in listed if line.endswith(f"\t{self.ref}")]
        if not commits:
            return None
        options = ("--quiet", "--no-tags", "--no-recurse-submodules", "--no-filter", "--no-write-fetch-head")
        fetch = ("fetch", *options, "--end-of-options", self.remote, f"+{self.ref}:{self.ref}")
        self._done("fetch from", self.git.run(*fetch, seconds=FETCH_SECONDS))
        return commits[0]

    def has(self, commit: str, ancestor: str) -> bool:
        """Return whether a commit is another one, which need not exist, or comes after it."""
        if commit == ancestor or not _COMMIT.fullmatch(ancestor):
            return commit == ancestor
        return self.git.run("merge-base", "--is-ancestor", ancestor, commit).ok

    def tree(self, commit: str | None) -> Tree:
        """Return what a commit holds; raise `KbhubError` if it is too much, or nothing that kbhub wrote."""
        if commit is None:
            return Tree(MemoryIndex(version=1), {}, {})
        oids, foreign, size = dict[str, str](), list[str](), 0
        for line in self._done("read", self.git.run("ls-tree", "-z", "-l", commit)).split("\0")[:-1]:
            match = _ENTRY.fullmatch(line)
            mode, _, oid, length, name = match.groups() if match else ("", "", "", "", line)
            fits = length.isdecimal() and int(length) <= (MOST_INDEX_BYTES if name == INDEX else MAX_FILE_BYTES)
            if mode != "100644" or not fits or not (name == INDEX or is_memory_name(name)):
                foreign.append(name.encode("utf-8", "backslashreplace").decode())
                continue
            oids[name], size = oid, size + int(length)
        self._limit(len(oids), size)
        files = dict(zip(oids, self._contents(list(oids.values())), strict=True))
        try:
            index = MemoryIndex.model_validate_json(files.pop(INDEX, b""))
        except ValidationError as error:
            raise KbhubError(
                f"{self._place} has no {INDEX} that this kbhub understands. Update kbhub, or delete the ref if it is "
                "not of kbhub."
            ) from error
        return Tree(index, files, oids, tuple(foreign))

    def _limit(self, count: int, size: int) -> None:
        if count > MOST_ENTRIES or size > MOST_BYTES:
            raise KbhubError(
                f"{self._place} would hold {count:,} memories of {size:,} bytes; {MOST_ENTRIES:,} and {MOST_BYTES:,} "
                "are the limit. Forget some."
            )

    def _contents(self, oids: list[str]) -> list[bytes]:
        out = self._done("read", self.git.run("cat-file", "--batch", data="".join(f"{oid}\n" for oid in oids).encode()))
        whole, at, contents = out.encode("utf-8", "surrogateescape"), 0, []
        for _ in oids:
            start = whole.index(b"\n", at) + 1
            head = whole[at:start].split()
            if len(head) != 3:
                raise KbhubError(f"{self._place} is not whole: git lacks an object of it. Sync again.")
            contents.append(whole[start : start + int(head[2])])
            at = start + int(head[2]) + 1
        return contents

    def committed(self, files: Mapping[str, bytes], index: MemoryIndex, parent: str | None, old: Tree) -> str:
        """Make a commit of files, which follows the one of the old tree; return its name."""
        self._limit(len(files), sum(map(len, files.values())))
        written = {**files, INDEX: f"{index.model_dump_json(indent=1, exclude_defaults=True)}\n".encode()}
        stream = (
            f"reset {self.ref}\n\ncommit {self.ref}\nmark :1\ncommitter kbhub <kbhub> now\ndata 13\nSync memories\n"
        )
        stream += f"from {parent}\ndeleteall\n" if parent else "deleteall\n"
        whole = bytearray(stream.encode())
        for name, data in sorted(written.items()):
            if old.files.get(name) == data:
                whole += f"M 100644 {old.oids[name]} {name}\n".encode()
            else:
                whole += f"M 100644 inline {name}\ndata {len(data)}\n".encode() + data + b"\n"
        options = ("--quiet", "--force", "--date-format=now")
        made = self.git.run("fast-import", *options, data=bytes(whole) + b"get-mark :1\n")
        return self._done("write to", made).strip()

    def pushed(self, commit: str, before: str | None) -> Done:
        """Push a commit if the remote still has the one of before; no other ref goes along."""
        options = ("--quiet", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no")
        lease = f"--force-with-lease={self.ref}:{before or ''}"
        push = ("push", *options, *self.receive, lease, "--end-of-options", self.remote, f"{commit}:{self.ref}")
        return self.git.run(*push, seconds=FETCH_SECONDS)

    @property
    def _place(self) -> str:
        return f"{self.ref} of {self.remote!r}"

    def _done(self, what: str, done: Done) -> str:
        if not done.ok:
            raise KbhubError(f"Cannot {what} {self.remote!r}, {self.ref}: {done.why.rstrip('.')}. Nothing was pushed.")
        return done.out


def is_memory_name(name: str) -> bool:
    """Return whether a file of a ref may have a name."""
    return _NAME.fullmatch(name) is not None and len(name.encode()) <= MOST_NAME_BYTES


def remote_ref(hub: Hub, remote: str | None, scope: Literal["project", "user"]) -> RemoteRef:
    """Return the ref of a scope; raise `UsageError` if there is no git, no repository, or no such remote."""
    workspace = hub.discovery().workspace
    root = workspace.git_root
    if root is None or common_directory(root) is None:
        raise UsageError(
            f"{workspace.directory or hub.options.cwd} is in no git repository, and memories are synced through one. "
            "Run it in a repository with a remote, or use `kbhub memories export`."
        )
    if (program := installed()) is None:
        raise UsageError("git is not installed, and memories are synced through it. Install git.")
    git = Git(program, root)
    if strange := git.strange_settings():
        raise UsageError(
            f"{root}/.git/config has settings that git would obey ({', '.join(strange[:3])}). Review them, and move "
            "them to your own ~/.gitconfig."
        )
    names = git.run("remote").out.split("\n")[:-1]
    chosen = remote or ("origin" if "origin" in names or len(names) != 1 else names[0])
    if chosen not in names or chosen.startswith("-"):
        known = f"It has: {', '.join(names)}." if names else "Add one: git remote add origin URL."
        raise UsageError(f"{root} has no remote {chosen!r}. {known}")
    addresses = git.run("remote", "get-url", "--push", "--all", "--end-of-options", chosen).out.split("\n")[:-1]
    if len(addresses) != 1:
        raise UsageError(f"The remote {chosen!r} has {len(addresses)} addresses to push to. Name one with a single.")
    is_folder = normal_origin(addresses[0]) is None
    receive = f"--receive-pack={shlex.join((git.program, *OPTIONS, 'receive-pack'))}"
    return RemoteRef(git, chosen, REFS[scope], (receive,) if is_folder else ())


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill git and all its child processes."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()
