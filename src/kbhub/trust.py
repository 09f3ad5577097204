"""What the user allowed projects to reach; kept in the user's data, never in the cache or in a project."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from kbhub.checking import choice, plain_text, plainly, shown
from kbhub.errors import ConfigError
from kbhub.files import read_regular
from kbhub.later import filelock
from kbhub.places import private_directory, write_atomically
from kbhub.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

TRUST_NAME = "trust.json"
_VERSION = 1
_MAX_BYTES = 16 * 1024 * 1024
"""Bytes of the store; a grant takes some 200, so this is 80,000 of them."""
_LOCK_SECONDS = 10.0
"""How long to wait for another process that writes the store, which takes it milliseconds."""

Use = Literal["knowledge", "cacheDir"]


class Grant(Value):
    """One thing that the user allowed: this pointer may reach this target, for this use."""

    pointer: Path
    """Real path of the pointer file, or of the folder or link that was found without one."""
    target: Path
    """The folder it may reach, links resolved."""
    use: Use = "knowledge"
    writable: bool = False
    """Whether agents may write there although it lies outside the git root."""


class TrustStore:
    """The grants in one file. Nothing is remembered between calls: another process may have added some.

    A store that cannot be read is an error in every method and is never written over.

    Args:
        path: the file, usually `trust.json` in the data directory; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self) -> tuple[Grant, ...]:
        """All grants, oldest first.

        Raises:
            ConfigError: the store is malformed or cannot be read.
        """
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
        """Whether the user let this pointer reach this very target for this use.

        Args:
            pointer: the pointer file, or the folder or link that stands for one.
            target: what it resolves to now; another target than was trusted needs trust anew.
            use: as the base's folder, or as the folder of its index; neither stands for the other, since
                in one files are read and in the other a file is made and opened as a database.
        """
        return self._grant(pointer, target, use) is not None

    def writable(self, pointer: Path, target: Path) -> bool:
        """Whether the user also let agents write there."""
        grant = self._grant(pointer, target, "knowledge")
        return grant is not None and grant.writable

    def add(self, pointer: Path, target: Path, writable: bool = False, *, use: Use = "knowledge") -> Grant:
        """Record a grant; one for the same pointer, target and use is replaced.

        Raises:
            ConfigError: the store is malformed, or another process holds it.
            OSError: it cannot be written.
        """
        new = Grant(pointer=identity(pointer), target=target.resolve(), use=use, writable=writable)
        with self._lock():
            kept = [grant for grant in self.entries() if _key(grant) != _key(new)]
            self._write((*kept, new))
        return new

    def revoke(self, pointer: Path) -> bool:
        """Take back every grant of a pointer, which need not exist any more.

        Returns:
            Whether there was one.
        """
        with self._lock():
            grants = self.entries()
            kept = tuple(grant for grant in grants if grant.pointer != identity(pointer))
            if len(kept) == len(grants):
                return False
            self._write(kept)
        return True

    def _grant(self, pointer: Path, target: Path, use: Use) -> Grant | None:
        wanted = (identity(pointer), target.resolve(), use)
        return next((grant for grant in self.entries() if _key(grant) == wanted), None)

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
        return ConfigError(self.path, f"the trust store cannot be used: {reason}; mend it or move it away")


def identity(pointer: Path) -> Path:
    """The real path of a pointer; the last part stays as it is, for a link is itself what was trusted."""
    absolute = pointer.absolute()
    return absolute.parent.resolve() / absolute.name


def _key(grant: Grant) -> tuple[Path, Path, Use]:
    return grant.pointer, grant.target, grant.use


def _read(data: Any) -> Iterator[Grant]:
    """Give the grants of a store; a store that says anything else, or in another way, may mean something else."""
    if not isinstance(data, dict) or set(data) != {"version", "grants"} or not isinstance(data["grants"], list):
        raise ValueError(f"expected `version` and a list of `grants`, not {shown(data)}")
    if data["version"] != _VERSION or isinstance(data["version"], bool):
        raise ValueError(f"version: expected {_VERSION}, not {shown(data['version'])}")
    names = {one.name for one in fields(Grant)}
    for number, one in enumerate(data["grants"]):
        try:
            grant = plainly(Grant, one, _PLAIN)
        except ValueError as error:
            within = "." if isinstance(one, dict) else ": "
            raise ValueError(f"grants.{number}{within}{error}") from error
        if unknown := set(one) - names:
            raise ValueError(f"grants.{number}.{min(unknown)}: unknown field")
        yield grant


_PLAIN = {"Path": lambda value: Path(plain_text(value)), "Use": choice(get_args(Use))}
"""As `plainly` takes it."""
