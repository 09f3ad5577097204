"""Check what the entries of `refs` name in a project: `file`, `folder/`, `file::symbol`, `file::Outer::inner`.

Paths are relative to the git root; nothing outside of it is opened, and no symlink out of it is followed. No code is
run: Python is looked up by its syntax tree; in other files a symbol is there if they name it.
"""

from __future__ import annotations

import ast
import difflib
import itertools
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

from kbhub.documents.walk import open_contained
from kbhub.errors import PathNotContained
from kbhub.reading.links import Nearest, files_by_name, folded
from kbhub.types import Base
from kbhub.values import shared_start, struct

GRAMMAR_CHARACTERS = 500_000
"""Characters of the longest Python file that is parsed (0.5 s and 50 MB); longer ones are searched as text."""

MOST_WORDS = 1000
"""Words of a file of another language that are compared with a symbol to suggest one."""

NEAR_ENOUGH = 0.6
"""Similarity (0 to 1, difflib's ratio) from which a defined name is suggested."""

_WORD = re.compile(r"[A-Za-z_$][\w$]{2,}")


@struct
class Undefined:
    """Where a symbol is lost."""

    name: str
    """The first of its names that is not defined in the expected scope."""
    near: str = ""
    """A similar name that is defined there."""


class Code:
    """A source file in which symbols are looked up; its suffix determines the language."""

    def __init__(self, path: str, text: str) -> None:
        self._text = text
        self._suffix = path.lower().rpartition(".")[2]

    def undefined(self, symbols: Sequence[str]) -> Undefined | None:
        """Return which name of a symbol is not defined: each is nested in the previous one (`Outer.inner` is two)."""
        parts = [part for symbol in symbols for part in re.split(r"::|\.", symbol)]
        names = [name for part in parts if (name := part.strip("() \t"))]
        if self._tree is None:
            missing = next((name for name in names if not self.mentions(name)), None)
            if missing is None:
                return None
            words = dict.fromkeys(match[0] for match in itertools.islice(_WORD.finditer(self._text), MOST_WORDS))
            return Undefined(missing, _near(missing, words))
        found = _in_python(self._tree, names)
        return found if isinstance(found, Undefined) else None

    def meaning(self, symbols: Sequence[str]) -> str | None:
        """Return what a symbol of Python, or the module, does: no comments, docstrings or layout; None if it cannot."""
        names = [name for symbol in symbols for name in re.split(r"::|\.", symbol.strip("() \t"))]
        found = _in_python(self._tree, names) if self._tree else None
        if found is None or isinstance(found, Undefined):
            return None
        statements = [_statement(self._tree, node) for node in found]  # type: ignore[arg-type]
        with suppress(RecursionError):
            return "\n".join(ast.dump(_Undocumented().visit(one)) for one in statements)
        return None

    @cached_property
    def _tree(self) -> ast.Module | None:
        """The syntax of Python; None if it is invalid, for another version, or too long."""
        if self._suffix not in ("py", "pyi") or len(self._text) > GRAMMAR_CHARACTERS:
            return None
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as invalid escapes in the user's code
            return ast.parse(self._text)
        return None

    def mentions(self, name: str) -> bool:
        """Return whether a name occurs in the file."""
        return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self._text) is not None


class _Undocumented(ast.NodeTransformer):
    """Removes docstrings."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Remove that of a node."""
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = node.body[ast.get_docstring(node, clean=False) is not None :]
        return super().generic_visit(node)


def _statement(tree: ast.Module, node: ast.AST) -> ast.AST:
    """Return the innermost statement with a node."""
    if isinstance(node, ast.stmt | ast.Module):
        return node
    line = node.lineno  # type: ignore[attr-defined]
    statements = (one for one in ast.walk(tree) if isinstance(one, ast.stmt))
    around = (one for one in statements if one.lineno <= line <= (one.end_lineno or 0))
    return min(around, key=lambda one: (one.end_lineno or 0) - one.lineno)


def _in_python(tree: ast.Module, names: Sequence[str]) -> Undefined | list[ast.AST]:
    """Return what defines a symbol, or where it is lost."""
    scopes: list[ast.AST] = [tree]
    for name in names:
        definitions = [definition for scope in scopes for definition in _defined_in(scope)]
        inner = [node for defined, node in definitions if defined == name]
        if not inner:
            return Undefined(name, _near(name, {defined for defined, _ in definitions}))
        scopes = inner
    return scopes


def _near(name: str, others: Collection[str]) -> str:
    return next(iter(difflib.get_close_matches(name, others, n=1, cutoff=NEAR_ENOUGH)), "")


def _defined_in(scope: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names that a module, class or function defines, without imported ones."""
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node
            if isinstance(scope, ast.ClassDef) and not isinstance(node, ast.ClassDef):
                stored = (part for part in ast.walk(node) if isinstance(part, ast.Attribute))
                for part in stored:
                    owner = part.value if isinstance(part.ctx, ast.Store) else None
                    if isinstance(owner, ast.Name) and owner.id in ("self", "cls"):
                        yield part.attr, part
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node
        if not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            pending.extend(ast.iter_child_nodes(node))


SYMBOL_BYTES = 4 << 20
"""Size limit of a source file that is searched for a symbol; larger ones may be generated."""

BUDGET_BYTES = 256 << 20
"""Bytes of source files searched in one run; a clone may name thousands of large ones."""

_NEAR_NAME = 0.85
"""Minimum similarity (0 to 1, difflib's ratio) of a suggested file name."""

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
        self._code = lru_cache(maxsize=KEPT_FILES)(self._opened)
        self._read = 0

    def fault(self, entry: str) -> RefFault | None:
        """Return the problem with an entry of `refs`, or None if what it names exists."""
        path, *symbols = (part.strip() for part in entry.split("::"))
        symbols = [symbol for symbol in symbols if symbol]
        path = path.removeprefix("./").replace("\\", "/").rstrip("/") or "."
        if not symbols:
            try:
                if path != ".":
                    open_contained(self._base, path).close()
            except (PathNotContained, OSError, ValueError) as error:
                return None if isinstance(error, IsADirectoryError) else self._fault_of(path, error)
            return None
        code = self._code(path)
        if isinstance(code, RefFault):
            return code
        if (lost := code.undefined(symbols)) is None:
            return None
        near = entry.replace(lost.name, lost.near, 1) if lost.near else ""
        if code.mentions(lost.name):
            return RefFault("named", f"the file mentions {lost.name!r}, but does not define it", near)
        return RefFault("undefined", f"the file has no {lost.name!r}", near)

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

    @cached_property
    def _files(self) -> tuple[Mapping[str, Sequence[str]], Nearest]:
        return (names := files_by_name(self.root)), Nearest(names)

    def _near(self, path: str) -> str:
        """Return the file that was probably meant: one with the same name, else with a similar path."""
        names, nearest = self._files
        name = folded(path.rpartition("/")[2])
        same = names.get(name) or names.get(nearest.closest(name, _NEAR_NAME), ())

        def likeness(other: str) -> tuple[int, int]:
            ours, theirs = path.split("/"), other.split("/")
            return len(shared_start(ours, theirs)) + len(shared_start(ours[::-1], theirs[::-1])), -len(other)

        return max(same, key=likeness, default="")
