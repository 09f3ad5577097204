"""Read and validate a project's `.kbhub.json`, the pointer to its knowledge.

A pointer is untrusted data from a clone; `project` decides what it may do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbhub.errors import ConfigError
from kbhub.types import Problem
from kbhub.workspace.config_files import checked
from kbhub.workspace.field_checks import few, in_file, unknown_fields
from kbhub.workspace.jsonc import read_jsonc
from kbhub.workspace.settings import MAX_RULES, Pointer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kbhub.workspace.settings import BaseFields

POINTER_NAMES = (".kbhub.json", ".knowledge.json")
"""File names of a pointer, by precedence; the second is that of knowledgebased."""


def read_pointer(path: Path) -> tuple[Pointer, tuple[Problem, ...]]:
    """Read a pointer, and return it with a warning for each field without effect."""
    data = read_jsonc(path)
    pointer = checked(Pointer, data, path)
    check_patterns(pointer, path)
    return pointer, few(_pointer_warnings(path, data))


def check_patterns(said: BaseFields, where: Path, prefix: str = "") -> None:
    """Raise `ConfigError` if a list of a pointer or an entry of `bases` has more than `MAX_RULES` patterns."""
    for name in ("include", "exclude", "keep_deleted"):
        count = len(getattr(said, name, ()))
        if count > MAX_RULES:
            raise ConfigError(where, f"has {count} patterns; the maximum is {MAX_RULES}", f"{prefix}{in_file(name)}")


def _pointer_warnings(path: Path, data: dict[str, Any]) -> Iterable[Problem]:
    for name, near in unknown_fields(Pointer, data):
        if name in ("writable", "weight", "kind", "keepDeleted"):
            message = f"a pointer cannot set {name!r}; only ~/.kbhub.json can, for one of your bases."
        else:
            message = unknown_message(name, near)
        yield Problem(subject=str(path), message=message)


def unknown_message(field: str, near: str | None) -> str:
    """Return the warning about an unknown field."""
    return f"unknown field {field!r}; {f'did you mean {near!r}?' if near else 'it has no effect.'}"
