"""A project's `.kbhub.json`: data that came with a clone, never authority.

What a pointer asks for is decided in `discovery`; here it is only read and checked.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from kbhub.checking import Declared, checked, few, in_file, unknown_fields, with_examples
from kbhub.errors import ConfigError
from kbhub.ignore import MAX_RULES
from kbhub.jsonc import read_jsonc
from kbhub.types import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kbhub.file_models import PathText

POINTER_NAMES = (".kbhub.json", ".knowledge.json")
"""File names of a pointer, best first; the second is for people who come from knowledgebased."""


class BaseFields(Declared):
    """What a pointer and an entry of `bases` have in common."""

    cache_dir: PathText | None = None
    """Folder for the index, relative to this file, `~` allowed. From a pointer it is used only after `kbhub
    trust`."""
    name: str | None = None
    """Readable name; if none, the project folder's or the id."""
    description: str | None = None
    """What the knowledge is about, for people and agents."""
    contexts: dict[str, str] = field(default_factory=dict)
    """Path prefix in the base → what lies there, for people and agents."""
    include: tuple[str, ...] = ()
    """Patterns, as in `.gitignore`, of files to take besides Markdown, read as plain text, such as `*.txt`. Hidden
    files count only where a pattern's last part starts with a dot."""
    exclude: tuple[str, ...] = ()
    """Patterns, as in `.gitignore`, of files and folders to leave out."""


class Pointer(BaseFields):
    """Says where a project's knowledge is; lies in the project as `.kbhub.json`."""

    __pydantic_config__ = with_examples(
        {"knowledge": "./docs/knowledge"},
        {
            "knowledge": "~/notes/myapp",
            "name": "My app",
            "contexts": {"api/": "The public HTTP interface"},
            "include": ["*.txt"],
            "exclude": ["drafts/"],
        },
        {"enabled": False},
    )

    schema_: str | None = None
    """Address of this schema, for editors."""
    knowledge: PathText = "./knowledge"
    """Folder of the knowledge, relative to this file, `~` allowed."""
    enabled: bool = True
    """`false` switches kbhub off for this project."""


def read_pointer(path: Path) -> tuple[Pointer, tuple[Problem, ...]]:
    """Read a pointer.

    Returns:
        The pointer, and a warning for each field that means nothing in it.

    Raises:
        ConfigError: it cannot be read, or a value is of the wrong type.
    """
    data = read_jsonc(path)
    pointer = checked(Pointer, data, path)
    check_patterns(pointer, path)
    return pointer, few(_pointer_warnings(path, data))


def check_patterns(said: BaseFields, where: Path, prefix: str = "") -> None:
    """Refuse more patterns than are looked at.

    Args:
        said: what a file says of a base.
        where: the file.
        prefix: what the names of its fields begin with.

    Raises:
        ConfigError: a list is too long.
    """
    for name in ("include", "exclude", "keep_deleted"):
        count = len(getattr(said, name, ()))
        if count > MAX_RULES:
            raise ConfigError(where, f"has {count} patterns; {MAX_RULES} are the most", f"{prefix}{in_file(name)}")


def _pointer_warnings(path: Path, data: dict[str, Any]) -> Iterable[Problem]:
    for name, near in unknown_fields(Pointer, data):
        if name in ("writable", "weight", "kind", "keepDeleted"):
            message = f"a pointer cannot set {name!r}; only ~/.kbhub.json can, for a base of yours."
        else:
            message = unknown_message(name, near)
        yield Problem(subject=str(path), message=message)


def unknown_message(field: str, near: str | None) -> str:
    """The warning about a field that nothing reads."""
    return f"unknown field {field!r}; {f'did you mean {near!r}?' if near else 'it has no effect.'}"
