"""Fetch and fast-forward bases that are git checkouts; nothing else is ever done to them.

A checkout's own configuration can name programs that git runs. So only bases that the user named are pulled, and only
if that configuration contains nothing but settings known to be harmless.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from shutil import which
from typing import Literal

from pydantic import Field

from kbhub.errors import KbhubError
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.types import Base
from kbhub.values import struct

FETCH_SECONDS = 120
"""Timeout of a fetch: a thousand commits over a slow line."""

LOCAL_SECONDS = 30
"""Timeout of git commands without network."""

SHOWN_CHARACTERS = 300
"""Length limit of git's error messages."""

PROTOCOLS = "https:http:ssh:git:file"
"""Protocols git may fetch with: none that runs a command chosen by the remote, such as `ext`."""

SAFE = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.alternateRefsCommand="),
    *("-c", "core.askPass=", "-c", "submodule.recurse=false", "-c", "fetch.recurseSubmodules=false"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "log.showSignature=false"),
    *("-c", "protocol.ext.allow=never"),
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
beside `SAFE`."""


class Pull(Model):
    """What pulling did for one base."""

    base: str = Field(description="Its id.")
    state: Literal["updated", "current", "skipped", "failed"] = Field(description="The outcome.")
    message: str = Field("", description="Why it was skipped or failed, and what to do.")
    before: str | None = Field(None, description="Commit that was checked out before.")
    after: str | None = Field(None, description="Commit that is checked out now.")


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
        try:
            process = subprocess.Popen(  # noqa: S603 - git itself, with fixed options
                [self.program, "--no-pager", *SAFE, *arguments],
                cwd=self.folder,
                env=_environment(self.folder),
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


def git_in(folder: Path) -> Git | None:
    """Return git for a folder, or None if it is not installed."""
    git = which("git")
    # A git in the working directory is untrusted.
    return Git(git, folder) if git and os.path.isabs(git) else None  # noqa: PTH117


def pull(hub: Hub, base: Base) -> Pull:
    """Fetch and fast-forward the checkout of a base, if the user named that base."""
    if reason := _why_not(hub, base):
        return Pull(base=base.id, state="skipped", message=reason)
    if (git := git_in(base.path)) is None:
        return Pull(base=base.id, state="failed", message="git is not installed, so nothing can be pulled.")
    return _Checkout(git, base).pull()


def _why_not(hub: Hub, base: Base) -> str:
    """Return why a base is not pulled; empty if it is."""
    is_named = base.origin in ("config", "argument") or bool(base.names)
    if not is_named and not any(grant.target == base.path for grant in hub.trust.entries() if grant.use == "knowledge"):
        return "Only bases that you added yourself are pulled; this one was found in the project."
    if not (base.path / ".git").exists():
        checkout = next((folder for folder in base.path.parents if (folder / ".git").exists()), None)
        if checkout is None:
            return "It is not a git checkout."
        return f"It is part of the checkout {checkout}, which contains other files. Pull that one yourself."
    return ""


@struct
class _Checkout:
    """The git checkout of a base."""

    git: Git
    base: Base

    def pull(self) -> Pull:
        try:
            strange = self.git.strange_settings()
        except KbhubError as error:
            return self._failed(f"{error}.")
        if strange:
            return self._skipped(
                f"Its .git/config has settings that a pull would obey ({', '.join(strange[:3])}). Review them, and "
                "pull it yourself."
            )
        branch = self.git.run("symbolic-ref", "--quiet", "--short", "HEAD")
        name = branch.out.strip()
        remote = self.git.run("config", "--local", "--get", f"branch.{name}.remote").out.strip() if branch.ok else ""
        if not remote or remote == ".":
            return self._skipped("It has no branch checked out that tracks a remote branch.")
        before = self._commit("HEAD")
        fetched = self.git.run(
            *("fetch", "--quiet", "--no-recurse-submodules", "--end-of-options", remote), seconds=FETCH_SECONDS
        )
        if not fetched.ok:
            return self._failed(f"Cannot fetch: {fetched.why}")
        upstream = self._commit("@{upstream}")
        if upstream is None:
            return self._failed(f"The branch {name!r} tracks a branch that its remote does not have.")
        return self._forward(before, upstream)

    def _forward(self, before: str | None, upstream: str) -> Pull:
        """Fast-forward the branch to a commit."""
        if before == upstream or (before and self.git.run("merge-base", "--is-ancestor", upstream, before).ok):
            return Pull(base=self.base.id, state="current", before=before, after=before)
        if before and not self.git.run("merge-base", "--is-ancestor", before, upstream).ok:
            return self._failed("It has commits that its remote does not have. Merge or rebase it yourself.")
        merged = self.git.run("merge", "--ff-only", "--quiet", "--no-stat", upstream)
        if not merged.ok:
            return self._failed(f"Cannot fast-forward: {merged.why}")
        return Pull(base=self.base.id, state="updated", before=before, after=self._commit("HEAD"))

    def _commit(self, name: str) -> str | None:
        done = self.git.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return done.out.strip() if done.ok else None

    def _failed(self, message: str) -> Pull:
        return Pull(base=self.base.id, state="failed", message=message)

    def _skipped(self, message: str) -> Pull:
        return Pull(base=self.base.id, state="skipped", message=message)


def _environment(folder: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") and key != "SSH_ASKPASS"}
    ssh = os.environ.get("GIT_SSH_COMMAND") or _SSH
    # Git does not look for a repository above the base.
    return {**kept, **_QUIET, "GIT_SSH_COMMAND": ssh, "GIT_CEILING_DIRECTORIES": str(folder.parent)}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill git and all its child processes."""
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    else:
        process.kill()
    process.communicate()
