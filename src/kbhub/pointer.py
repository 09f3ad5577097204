"""A project's `.kbhub.json`: data that came with a clone, never authority.

What a pointer asks for is decided in `discovery`; here it is only read and checked.
"""

from __future__ import annotations

import difflib
import json
import unicodedata
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from kbhub.errors import ConfigError
from kbhub.jsonc import read_jsonc
from kbhub.types import DEFERRED, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

POINTER_NAMES = (".kbhub.json", ".knowledge.json")
"""File names of a pointer, best first; the second is for people who come from knowledgebased."""

# The similarity (0 to 1) from which difflib's own documentation calls two words a close match.
_NEAR = 0.6
_SHOWN_INPUT = 60
"""Characters of a wrong value that an error shows."""

_CHOICES = {
    "(entry)": "expected a path or an object",
    "(list)": "expected an id or a list of ids",
    "(names)": "expected `core`, `all` or a list of tools",
}
"""What is expected where the branch of a union that pydantic names was taken for want of a better."""


def _path_text(text: str) -> str:
    # No file system takes NUL, and a control character in a path is never meant.
    if not text.strip() or any(unicodedata.category(character) == "Cc" for character in text):
        raise ValueError("expected a path without control characters")
    return text


PathText = Annotated[str, Field(min_length=1), AfterValidator(_path_text)]


class FileModel(BaseModel):
    """What a configuration file holds: camelCase there, snake_case here."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        field_title_generator=lambda name, _: name.strip("_").replace("_", " ").capitalize(),
        validate_by_name=True,
        validate_by_alias=True,
        frozen=True,
        extra="ignore",  # unknown fields are warnings; `unknown_fields` finds them
        defer_build=DEFERRED,
    )


_M = TypeVar("_M", bound=FileModel)


class BaseFields(FileModel):
    """What a pointer and an entry of `bases` have in common."""

    cache_dir: PathText | None = Field(
        None,
        description="Folder for the index, relative to this file, `~` allowed. From a pointer it is used only "
        "after `kbhub trust`.",
    )
    name: str | None = Field(None, description="Readable name; if none, the project folder's or the id.")
    description: str | None = Field(None, description="What the knowledge is about, for people and agents.")
    contexts: dict[str, str] = Field(
        default_factory=dict, description="Path prefix in the base → what lies there, for people and agents."
    )
    include: tuple[str, ...] = Field(
        (),
        description="Patterns, as in `.gitignore`, of files to take besides Markdown, read as plain text, such "
        "as `*.txt`. Hidden files count only where a pattern's last part starts with a dot.",
    )
    exclude: tuple[str, ...] = Field((), description="Patterns, as in `.gitignore`, of files and folders to leave out.")


class Pointer(BaseFields):
    """Says where a project's knowledge is; lies in the project as `.kbhub.json`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"knowledge": "./docs/knowledge"},
                {
                    "knowledge": "~/notes/myapp",
                    "name": "My app",
                    "contexts": {"api/": "The public HTTP interface"},
                    "include": ["*.txt"],
                    "exclude": ["drafts/"],
                },
                {"enabled": False},
            ]
        }
    )

    schema_: str | None = Field(None, alias="$schema", description="Address of this schema, for editors.")
    knowledge: PathText = Field(
        "./knowledge", description="Folder of the knowledge, relative to this file, `~` allowed."
    )
    enabled: bool = Field(True, description="`false` switches kbhub off for this project.")


def read_pointer(path: Path) -> tuple[Pointer, tuple[Problem, ...]]:
    """Read a pointer.

    Returns:
        The pointer, and a warning for each field that means nothing in it.

    Raises:
        ConfigError: it cannot be read, or a value is of the wrong type.
    """
    data = read_jsonc(path)
    pointer = validated(Pointer, data, path)
    return pointer, tuple(_pointer_warnings(path, data))


def _pointer_warnings(path: Path, data: dict[str, Any]) -> Iterable[Problem]:
    for field, near in unknown_fields(Pointer, data):
        if field in ("writable", "weight", "kind", "keepDeleted"):
            message = f"a pointer cannot set {field!r}; only ~/.kbhub.json can, for a base of yours."
        else:
            message = unknown_message(field, near)
        yield Problem(subject=str(path), message=message)


def unknown_message(field: str, near: str | None) -> str:
    """The warning about a field that nothing reads."""
    return f"unknown field {field!r}; {f'did you mean {near!r}?' if near else 'it has no effect.'}"


def validated(model: type[_M], data: Any, where: Path | str, prefix: Sequence[str] = ()) -> _M:
    """What a file says as a model, every value of exactly the type that is asked for.

    Args:
        model: what is expected.
        data: parsed JSON.
        where: the file, for the error.
        prefix: field that `data` is the value of.

    Raises:
        ConfigError: the first field that is wrong, and what was expected.
    """
    if not isinstance(data, dict):
        raise ConfigError(where, f"expected an object in braces, not {shown(data)}", ".".join(prefix) or None)
    try:
        # As JSON and strict: lists may become tuples, but "5" never becomes 5.
        return model.model_validate_json(json.dumps(data), strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        field, message = first_error(error)
        raise ConfigError(where, message, ".".join((*prefix, *field)) or None) from error


def first_error(error: ValidationError) -> tuple[tuple[str, ...], str]:
    """Path of the first wrong field, and what was expected there."""
    first = error.errors(include_url=False)[0]
    # Branches of a union have names in parentheses, which are not the user's words.
    field = tuple(str(part) for part in first["loc"] if not str(part).startswith("("))
    if first["type"] == "missing":
        return field, "is missing"
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    message = _CHOICES.get(str(first["loc"][-1]) if first["loc"] else "", message)
    return field, f"{message}, not {shown(first['input'])}"


def shown(value: Any) -> str:
    """A wrong value as an error shows it."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_INPUT else f"{text[:_SHOWN_INPUT]}…"


def unknown_fields(model: type[FileModel], data: dict[str, Any]) -> Iterable[tuple[str, str | None]]:
    """Fields of `data` that `model` does not have, each with the nearest name that it has."""
    known = [field.alias or name for name, field in model.model_fields.items()]
    for key in data:
        if key not in known:
            yield key, nearest(key, known)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `word`, if one is near."""
    folded = {name.lower().replace("_", ""): name for name in known}
    found = difflib.get_close_matches(word.lower().replace("_", ""), folded, n=1, cutoff=_NEAR)
    return folded[found[0]] if found else None
