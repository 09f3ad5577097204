"""What the entries of `refs` name in a project: `file`, `folder/`, `file::symbol`, `file::Outer::inner`.

Paths are from the git root and stay in it; nothing outside is opened, and no link out of it is followed.
"""

from __future__ import annotations

import os
from collections import defaultdict
from itertools import takewhile
from typing import TYPE_CHECKING, Literal

from kbhub.document_names import SKIPPED_FOLDERS
from kbhub.errors import PathNotContained
from kbhub.nearest import Nearest
from kbhub.symbols import Code
from kbhub.types import Base
from kbhub.values import struct
from kbhub.walk import open_contained

if TYPE_CHECKING:
    from pathlib import Path

SYMBOL_BYTES = 4 << 20
"""Bytes of a source file that is searched for a symbol; generated ones may be longer and are not searched."""

BUDGET_BYTES = 256 << 20
"""Bytes of source files that are searched in one go; a clone may name thousands of large ones."""

MOST_FILES = 50_000
"""Files of a project whose names are looked at for a suggestion; that takes 0.2 s."""

KEPT_FILES = 4
"""Source files that are kept in memory, parsed; who asks about many entries sorts them."""

RefState = Literal["outside", "missing", "unchecked", "undefined", "named"]
"""The path leads out of the project; no such file; it could not be looked into; the symbol is not in the file; the file
names it and does not define it."""


@struct
class RefFault:
    """What is wrong with an entry."""

    state: RefState
    reason: str
    """Words that end a sentence."""
    near: str = ""
    """The entry that was probably meant."""


class Sources:
    """The files of one project, for looking up what refs name; remembers what it saw, so make a new one each time.

    Args:
        root: git root, absolute, links resolved.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._base = Base(id="project files", path=root, origin="argument")
        self._files: dict[str, Code | RefFault] = {}
        self._read = 0
        self._names: dict[str, list[str]] | None = None
        self._nearest = Nearest(())

    def fault(self, entry: str) -> RefFault | None:
        """Say what is wrong with an entry of `refs`; none if what it names is there.

        Args:
            entry: as it is written.
        """
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
            return RefFault("named", f"the file names {result.symbol!r} and does not define it there", near)
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
            return RefFault("unchecked", f"more than {BUDGET_BYTES >> 20} MiB of code were searched already")
        try:
            with open_contained(self._base, path) as file:
                data = file.read(SYMBOL_BYTES + 1)
        except IsADirectoryError:
            return RefFault("missing", "that is a folder, which has no symbols")
        except (PathNotContained, OSError, ValueError) as error:
            return self._fault_of(path, error)
        self._read += len(data)
        if len(data) > SYMBOL_BYTES:
            return RefFault("unchecked", f"the file is longer than {SYMBOL_BYTES >> 20} MiB, and is not searched")
        return Code(path, data.decode("utf-8", "replace"))

    def _fault_of(self, path: str, error: Exception) -> RefFault:
        if isinstance(error, PathNotContained):
            return RefFault("outside", "it lies outside the project")
        if isinstance(error, PermissionError):
            return RefFault("unchecked", "the file may not be read")
        return RefFault("missing", "there is no such file", self._near(path))

    def _near(self, path: str) -> str:
        """Give the file that was probably meant: one of the same name, else of nearly the same path."""
        if self._names is None:
            self._names = _names_below(self.root)
            self._nearest = Nearest(self._names)
        name = path.rpartition("/")[2].casefold()
        same = self._names.get(name) or []
        if not same:
            close = self._nearest.closest(name, _NEAR_NAME)
            same = self._names[close] if close else []
        return max(same, key=lambda one: (_shared(path, one), -len(one)), default="")


_NEAR_NAME = 0.85
"""Similarity (0 to 1, difflib's ratio) of file names from which one is suggested for another."""


def _shared(path: str, other: str) -> int:
    """Count the folders that two paths share, from the end and from the beginning."""
    ours, theirs = path.split("/"), other.split("/")
    return _common(ours, theirs) + _common(ours[::-1], theirs[::-1])


def _common(one: list[str], other: list[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _names_below(root: Path) -> dict[str, list[str]]:
    """Give case-folded file name → paths from the root, links not followed, hidden folders left out."""
    found: dict[str, list[str]] = defaultdict(list)
    count = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in SKIPPED_FOLDERS)
        inside = os.path.relpath(folder, root).replace(os.sep, "/")
        for name in sorted(files):
            found[name.casefold()].append(name if inside == "." else f"{inside}/{name}")
        count += len(files)
        if count > MOST_FILES:
            break
    return dict(found)
