"""The store of grants: folders outside a project that it may use or not, and projects that may show documents unasked.

It is in the data directory, never in the cache or in a project.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args

import filelock

from kbhub.errors import ConfigError
from kbhub.values import Value
from kbhub.workspace.atomic_writes import write_atomically
from kbhub.workspace.field_checks import choice, plain_text, plainly, shown
from kbhub.workspace.files import private_directory, read_regular

TRUST_NAME = "trust.json"
_VERSION = 1
_MAX_BYTES = 16 * 1024 * 1024
"""Largest store in bytes: 80,000 grants of some 200 bytes."""
_LOCK_SECONDS = 10.0
"""Seconds to wait for another process that writes the store, which normally takes milliseconds."""

Use = Literal["knowledge", "cacheDir", "documents", "refused"]


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


class TrustStore:
    """The grants in a file, usually `trust.json` in the data directory, which need not exist.

    It is read on every call, as other processes may change it. A store that cannot be read is an error in every method,
    and is never overwritten.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

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

    def allows(self, pointer: Path, target: Path, *, use: Use = "knowledge") -> bool:
        """Return whether the user allowed a pointer to use exactly this target; a changed target must be trusted again.

        `pointer` is its file, or the folder or link found without one. The uses, as the base's folder and as that of
        its index, do not imply each other: in the first, files are read; in the second, a database is created and
        opened.
        """
        return self._grant(pointer, target, use) is not None

    def writable(self, pointer: Path, target: Path) -> bool:
        """Return whether the user also allowed agents to write there."""
        grant = self._grant(pointer, target, "knowledge")
        return grant is not None and grant.writable

    def allows_documents(self, root: Path, project: str) -> bool:
        """Return whether the documents of a project may reach agents without being asked for."""
        grant = self._grant(root, root, "documents")
        return grant is not None and grant.project == project

    def refuses(self, pointer: Path, target: Path) -> bool:
        """Return whether the user refused this target when asked, and must not be asked again."""
        return self._grant(pointer, target, "refused") is not None

    def add(
        self, pointer: Path, target: Path, writable: bool = False, *, use: Use = "knowledge", project: str = ""
    ) -> Grant:
        """Add a grant, replacing one for the same pointer, target and use, whether permission or refusal."""
        new = Grant(pointer=identity(pointer), target=target.resolve(), use=use, writable=writable, project=project)
        with self._lock():
            kept = [grant for grant in self.entries() if _key(grant) != _key(new) and not _contradicts(grant, new)]
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

    def _grant(self, pointer: Path, target: Path, use: Use) -> Grant | None:
        key = (identity(pointer), target.resolve(), use)
        return next((grant for grant in self.entries() if _key(grant) == key), None)

    def _write(self, grants: tuple[Grant, ...]) -> None:
        store = {"version": _VERSION, "grants": [grant.model_dump(mode="json") for grant in grants]}
        write_atomically(self.path, json.dumps(store, indent=2) + "\n")

    @contextmanager
    def _lock(self) -> Iterator[None]:
        lock = filelock.FileLock(f"{self.path}.lock", timeout=_LOCK_SECONDS, mode=0o600)
        try:
            private_directory(self.path.parent)
            lock.acquire()
        except filelock.Timeout as error:
            reason = f"another process has held {self.path}.lock for {_LOCK_SECONDS:g} s"
            raise self._unusable(reason) from error
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        try:
            yield
        finally:
            lock.release()

    def _unusable(self, reason: str) -> ConfigError:
        return ConfigError(self.path, f"the trust store cannot be used: {reason}; fix it or move it away")


def identity(pointer: Path) -> Path:
    """Return the real path of a pointer, not resolving its last part: a trusted link is identified by its own path."""
    absolute = pointer.absolute()
    return absolute.parent.resolve() / absolute.name


def _contradicts(grant: Grant, new: Grant) -> bool:
    same = (grant.pointer, grant.target) == (new.pointer, new.target)
    return same and {grant.use, new.use} == {"knowledge", "refused"}


def _key(grant: Grant) -> tuple[Path, Path, Use]:
    return grant.pointer, grant.target, grant.use


def _read(data: Any) -> Iterator[Grant]:
    """Parse the grants of a store strictly, as unknown content may change their meaning."""
    if not isinstance(data, dict) or set(data) != {"version", "grants"} or not isinstance(data["grants"], list):
        raise ValueError(f"expected `version` and a list of `grants`, not {shown(data)}")
    if data["version"] != _VERSION or isinstance(data["version"], bool):
        raise ValueError(f"version: expected {_VERSION}, not {shown(data['version'])}")
    names = {field.name for field in fields(Grant)}
    for number, entry in enumerate(data["grants"]):
        try:
            grant = plainly(Grant, entry, _PLAIN)
        except ValueError as error:
            within = "." if isinstance(entry, dict) else ": "
            raise ValueError(f"grants.{number}{within}{error}") from error
        if unknown := set(entry) - names:
            raise ValueError(f"grants.{number}.{min(unknown)}: unknown field")
        yield grant


_PLAIN = {"str": plain_text, "Path": lambda value: Path(plain_text(value)), "Use": choice(get_args(Use))}
"""Further converters for `plainly`."""
