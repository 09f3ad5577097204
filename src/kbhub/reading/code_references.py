"""Check what the entries of `refs` name in a project: `file`, `folder/`, `file::symbol`, `file::Outer::inner`.

Paths are relative to the git root; nothing outside of it is opened, and no symlink out of it is followed.
"""

from __future__ import annotations

import os
from collections import defaultdict
from itertools import takewhile
from pathlib import Path
from typing import Literal

from kbhub.documents.symbols import Code
from kbhub.documents.walk import open_contained
from kbhub.errors import PathNotContained
from kbhub.reading.links import Nearest
from kbhub.types import Base
from kbhub.values import struct
from kbhub.workspace.formats import SKIPPED_FOLDERS

SYMBOL_BYTES = 4 << 20
"""Size limit of a source file that is searched for a symbol; larger ones may be generated."""

BUDGET_BYTES = 256 << 20
"""Bytes of source files searched in one run; a clone may name thousands of large ones."""

MOST_FILES = 50_000
"""Files of a project considered for a suggestion; that takes 0.2 s."""

KEPT_FILES = 4
"""Parsed source files kept in memory; callers with many entries should sort them."""

RefState = Literal["outside", "missing", "unchecked", "undefined", "named"]
"""The path leaves the project; the file is missing; it could not be checked; the symbol is not in the file; the file
mentions it but does not define it."""


@struct
class RefFault:
    """A problem with an entry."""

    state: RefState
    reason: str
    """Words that complete a sentence."""
    near: str = ""
    """The entry that was probably meant."""


class Sources:
    """The files of one project, for checking refs; caches what it sees, so create a new one each time.

    The root is the git root, absolute, with symlinks resolved.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._base = Base(id="project files", path=root, origin="argument")
        self._files: dict[str, Code | RefFault] = {}
        self._read = 0
        self._names: dict[str, list[str]] | None = None
        self._nearest = Nearest(())

    def fault(self, entry: str) -> RefFault | None:
        """Return the problem with an entry of `refs`, or None if what it names exists."""
        path, *symbols = (part.strip() for part in entry.split("::"))
        symbols = [symbol for symbol in symbols if symbol]
        path = path.removeprefix("./").replace("\\", "/").rstrip("/") or "."
        if not symbols:
            return self._missing(path)
        code = self._code(path)
        if isinstance(code, RefFault):
            return code
        result = code.look_up(symbols)
        if result.found == "defined":
            return None
        near = entry.replace(result.symbol, result.near, 1) if result.near else ""
        if result.found == "named":
            return RefFault("named", f"the file mentions {result.symbol!r}, but does not define it", near)
        return RefFault("undefined", f"the file has no {result.symbol!r}", near)

    def _missing(self, path: str) -> RefFault | None:
        if path == ".":
            return None
        try:
            open_contained(self._base, path).close()
        except IsADirectoryError:
            return None
        except (PathNotContained, OSError, ValueError) as error:
            return self._fault_of(path, error)
        return None

    def _code(self, path: str) -> Code | RefFault:
        if path not in self._files:
            while len(self._files) >= KEPT_FILES:
                self._files.pop(next(iter(self._files)))
            self._files[path] = self._opened(path)
        return self._files[path]

    def _opened(self, path: str) -> Code | RefFault:
        if self._read > BUDGET_BYTES:
            return RefFault("unchecked", f"the limit of {BUDGET_BYTES >> 20} MiB of searched code is reached")
        try:
            with open_contained(self._base, path) as file:
                data = file.read(SYMBOL_BYTES + 1)
        except IsADirectoryError:
            return RefFault("missing", "it is a folder, which has no symbols")
        except (PathNotContained, OSError, ValueError) as error:
            return self._fault_of(path, error)
        self._read += len(data)
        if len(data) > SYMBOL_BYTES:
            return RefFault("unchecked", f"the file is larger than {SYMBOL_BYTES >> 20} MiB, so it is not searched")
        return Code(path, data.decode("utf-8", "replace"))

    def _fault_of(self, path: str, error: Exception) -> RefFault:
        if isinstance(error, PathNotContained):
            return RefFault("outside", "it is outside the project")
        if isinstance(error, PermissionError):
            return RefFault("unchecked", "the file cannot be read (permission denied)")
        return RefFault("missing", "the file does not exist", self._near(path))

    def _near(self, path: str) -> str:
        """Return the file that was probably meant: one with the same name, else with a similar path."""
        if self._names is None:
            self._names = _names_below(self.root)
            self._nearest = Nearest(self._names)
        name = path.rpartition("/")[2].casefold()
        same = self._names.get(name) or []
        if not same:
            close = self._nearest.closest(name, _NEAR_NAME)
            same = self._names[close] if close else []
        return max(same, key=lambda other: (_shared(path, other), -len(other)), default="")


_NEAR_NAME = 0.85
"""Minimum similarity (0 to 1, difflib's ratio) of a suggested file name."""


def _shared(path: str, other: str) -> int:
    """Count the folders that two paths share, from both ends."""
    ours, theirs = path.split("/"), other.split("/")
    return _common(ours, theirs) + _common(ours[::-1], theirs[::-1])


def _common(first: list[str], second: list[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _names_below(root: Path) -> dict[str, list[str]]:
    """Return case-folded file name → paths from the root; skips symlinks and hidden folders."""
    paths: dict[str, list[str]] = defaultdict(list)
    count = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in SKIPPED_FOLDERS)
        inside = os.path.relpath(folder, root).replace(os.sep, "/")
        for name in sorted(files):
            paths[name.casefold()].append(name if inside == "." else f"{inside}/{name}")
        count += len(files)
        if count > MOST_FILES:
            break
    return dict(paths)
