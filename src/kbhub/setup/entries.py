"""Read, add, change and remove a server's entry in a client's file, leaving the rest of the file byte for byte.

Each format locates the entry in its own way. The result is then parsed and compared with the original: if anything but
the one entry would change, the edit is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbhub.errors import ConfigError
from kbhub.setup import toml_entries, yaml_entries
from kbhub.values import struct
from kbhub.workspace import jsonc
from kbhub.workspace.jsonc import parse_jsonc

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kbhub.setup.clients import Form

_BOM = "\ufeff"


@struct
class EntryLocation:
    """The location of a server's entry, which may not exist yet."""

    form: Form
    keys: tuple[str, ...]
    """Key path of the object that holds the servers."""
    name: str
    path: Path
    """The file, for error messages."""


def decode(content: bytes | None, path: Path) -> str:
    """Decode a file's content; None means that there is no file and gives an empty string."""
    try:
        return (content or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(path, "is not UTF-8 text; it was left unchanged") from error


def parse(text: str, form: Form, path: Path) -> dict[str, Any]:
    """Parse a client's file; a blank file is an empty object."""
    text = text.removeprefix(_BOM)
    if not text.strip():
        return {}
    if form == "json":
        data = parse_jsonc(text, path)
    else:
        data = toml_entries.parse(text, path) if form == "toml" else yaml_entries.parse(text, path)
    if not isinstance(data, dict):
        raise ConfigError(path, "does not hold an object; it was left unchanged")
    return data


def servers(data: Mapping[str, Any], keys: Sequence[str], path: Path) -> Mapping[str, Any]:
    """Return the servers in a parsed file, by name."""
    node: Any = data
    for number, key in enumerate(keys):
        node = node.get(key)
        if node is None:
            return {}
        if not isinstance(node, Mapping):
            raise ConfigError(path, "expected an object; it was left unchanged", ".".join(keys[: number + 1]))
    return node  # type: ignore[no-any-return]  # a Mapping, as the loop saw


def with_entry(text: str, place: EntryLocation, entry: dict[str, Any]) -> str:
    """Return the text with a server added, which must not be there yet.

    Raises `ConfigError` if the text is malformed, or too unusual to be edited automatically.
    """
    bom, body = without_bom(text)
    keys, name, path = place.keys, place.name, place.path
    if place.form == "json":
        start = body if body.strip() else jsonc.NEW_FILE
        edited = jsonc.set_value(start, [*keys, name], entry, path)
    elif place.form == "toml":
        edited = toml_entries.added(body, keys, name, entry, path)
    else:
        edited = yaml_entries.added(body, keys, name, entry, path)
    return _checked(text, bom + edited, place, entry)


def with_fields(text: str, place: EntryLocation, fields: dict[str, Any]) -> str:
    """Return the text with some fields of a server replaced. Raises like `with_entry`."""
    bom, body = without_bom(text)
    keys, name, path = place.keys, place.name, place.path
    old = servers(parse(text, place.form, path), keys, path)[name]
    if not isinstance(old, Mapping):
        raise ConfigError(path, "expected an object; it was left unchanged", ".".join((*keys, name)))
    entry, edited = {**old, **fields}, body
    if place.form == "json":
        for key, value in fields.items():
            edited = jsonc.set_value(edited, [*keys, name, key], value, path)
    elif place.form == "toml":
        edited = toml_entries.changed(body, keys, name, fields, path)
    else:
        edited = yaml_entries.changed(body, keys, name, entry, path)
    return _checked(text, bom + edited, place, entry)


def without_entry(text: str, place: EntryLocation) -> str:
    """Return the text without a server. Raises like `with_entry`."""
    bom, body = without_bom(text)
    keys, name, path = place.keys, place.name, place.path
    if place.form == "json":
        edited = jsonc.remove_value(body, [*keys, name], path)
    elif place.form == "toml":
        edited = toml_entries.removed(body, keys, name, path)
    else:
        edited = yaml_entries.removed(body, keys, name, path)
    return _checked(text, bom + edited, place, None)


def without_empty(text: str, before: str, place: EntryLocation) -> str:
    """Return the text without the empty objects on the servers' key path that were not in `before`.

    Only JSON can have such leftovers.
    """
    if place.form != "json":
        return text
    for depth in range(len(place.keys), 0, -1):
        keys = place.keys[:depth]
        bom, body = without_bom(text)
        if not _is_empty_at(parse(text, place.form, place.path), keys):
            break
        if _exists(parse(before, place.form, place.path), keys):
            break
        text = bom + jsonc.remove_value(body, list(keys), place.path)
    return text


def says_the_same(one: str, other: str, place: EntryLocation) -> bool:
    """Return whether two texts hold the same data, ignoring empty objects on the servers' key path."""
    return bool(
        _plain(parse(one, place.form, place.path), place.keys)
        == _plain(parse(other, place.form, place.path), place.keys)
    )


def _exists(data: Any, keys: Sequence[str]) -> bool:
    for key in keys:
        if not isinstance(data, Mapping) or key not in data:
            return False
        data = data[key]
    return True


def _is_empty_at(data: Any, keys: Sequence[str]) -> bool:
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return isinstance(data, Mapping) and not data


def _checked(before: str, after: str, place: EntryLocation, entry: dict[str, Any] | None) -> str:
    """Return the edited text after checking that nothing but the one entry changed."""
    expected = parse(before, place.form, place.path)
    holder: Any = expected
    for key in place.keys:
        if holder.get(key) is None:
            holder[key] = {}
        holder = holder[key]
    if entry is None:
        del holder[place.name]
    else:
        holder[place.name] = entry
    if _plain(parse(after, place.form, place.path), place.keys) != _plain(expected, place.keys):
        raise ConfigError(place.path, "has an unusual layout; make the change by hand")
    return after


def _plain(data: Any, keys: Sequence[str]) -> Any:
    """Return parsed data without the empty objects on the servers' key path."""
    if keys and isinstance(data, dict) and keys[0] in data:
        inner = _plain(data[keys[0]], keys[1:])
        rest = {key: value for key, value in data.items() if key != keys[0]}
        return {**rest, keys[0]: inner} if inner else rest
    return data


def without_bom(text: str) -> tuple[str, str]:
    """Return a byte order mark, if a text begins with one, and the rest."""
    return (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
