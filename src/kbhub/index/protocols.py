"""What the core asks of an engine, and of what writes an index."""

# ruff: noqa: D102 - the writer is described in `sqlite.writer.IndexWriter`

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from kbhub.index.engine import Index, NewDocument
from kbhub.types import Base
from kbhub.workspace.memory_folders import Files


class Writer(Protocol):
    """A writer of an index, whatever engine holds it; see `sqlite.writer.IndexWriter`."""

    def transaction(self, *, content: bool = True) -> AbstractContextManager[None]: ...

    def meta(self, key: str) -> Any: ...

    def set_meta(self, values: Mapping[str, Any]) -> None: ...

    def files(self, paths: Sequence[str] | None = None) -> dict[str, tuple[int, int, bytes]]: ...

    def vectors(self, keys: Iterable[int]) -> dict[int, bytes | None]: ...

    def put(self, document: NewDocument, vectors: Mapping[int, bytes | None]) -> None: ...

    def put_vector(self, chunk: int, key: int, vector: bytes | None) -> None: ...

    def touch(self, path: str, size: int, mtime_ns: int) -> None: ...

    def remove(self, path: str) -> int | None: ...

    def forget_vectors(self) -> None: ...

    def without_vector(self, limit: int) -> list[tuple[int, str, tuple[str, ...], str]]: ...

    def set_problems(self, problems: Sequence[tuple[str, str]], paths: Iterable[str] | None = None) -> None: ...

    def left_out(self, paths: Iterable[str] | None = None) -> dict[str, str]: ...

    def set_commits(self, times: Mapping[str, int]) -> None: ...

    def counts(self) -> tuple[int, int]: ...

    def tidy(self, written: int) -> None: ...


class SharedEngine(Protocol):
    """Holds the indexes of shared bases on a server; an extension declares it for a scheme of URLs."""

    @staticmethod
    def missing() -> str | None:
        """Return what has to be installed before it can be used, in a sentence or two."""
        ...

    def index(self, base: Base, env: Mapping[str, str]) -> Index:
        """Return the index of a base, for reading, without connecting; credentials come from `env`."""
        ...

    def files(self, hub: Any, base: Base) -> Files:
        """Return the memories in a base that takes them."""
        ...

    def takes_memories(self, url: str, name: str, timeout: float, env: Mapping[str, str]) -> bool | None:
        """Return whether agents may remember in a base; None if it cannot be read, or does not exist."""
        ...

    def findings(self, hub: Any, base: Base) -> list[Any]:
        """Return what `kbhub doctor` says of a base: each a `Finding`."""
        ...
