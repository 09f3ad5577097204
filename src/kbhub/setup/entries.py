"""A server's entry in a client's file: read, add, change or remove it, with a dated backup, and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
import yaml
from tomlkit.exceptions import TOMLKitError

from kbhub.errors import ConfigError
from kbhub.setup.clients import Form
from kbhub.values import struct
from kbhub.workspace import jsonc
from kbhub.workspace.atomic_writes import write_atomically
from kbhub.workspace.files import private_directory, read_regular
from kbhub.workspace.jsonc import parse_jsonc

MAX_BYTES = 64 * 1024 * 1024
"""Limit for a client's file; Claude Code keeps the history of every project in the same file as its servers."""

_NEW_MODE = 0o644
_NEW_PRIVATE_MODE = 0o600
"""For new files in the home directory, which may come to hold other servers' API keys."""


FOLDER = "setup"
"""Folder in the data directory, with a subfolder for each changed file."""

MAX_COPIES = 1000
"""Limit of copies of one file within a second."""

_STAMP = "%Y%m%dT%H%M%SZ"


def read_bytes(path: Path) -> bytes | None:
    """Read a regular file, or return None if it does not exist."""
    try:
        return read_regular(os.path.realpath(path), MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(path, f"cannot be read: {error.strerror or error}") from error


def edit(
    path: Path,
    change: Callable[[bytes | None], bytes | None],
    *,
    within: Path | None = None,
) -> None:
    """Edit, create or delete a file; a symlink is followed and stays a symlink.

    `change` maps the old content to the new; None stands for no file. If it raises, nothing is written. `within` is a
    folder, symlinks resolved, that the file must be in, since a project may not be trustworthy. Raises `ConfigError` if
    the file cannot be read or written, is outside `within`, or changed concurrently.
    """
    real = Path(os.path.realpath(path))
    if within is not None and not real.is_relative_to(within):
        raise ConfigError(path, f"points outside {within}; nothing was written")
    before = read_bytes(path)
    after = change(before)
    if after == before:
        return
    if read_bytes(path) != before:
        raise ConfigError(path, "another program changed the file at the same time; nothing was written, try again")
    try:
        if after is None:
            real.unlink()
        else:
            real.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(real, after, mode=_mode(real, private=within is None))
    except OSError as error:
        raise ConfigError(path, f"cannot be written: {error.strerror or error}") from error


def _mode(real: Path, *, private: bool) -> int:
    try:
        return stat.S_IMODE(real.stat().st_mode)
    except FileNotFoundError:
        return _NEW_PRIVATE_MODE if private else _NEW_MODE


def back_up(data: Path, file: Path, content: bytes | None) -> Path | None:
    """Save a file's content under a UTC timestamp in the data directory; None if there is no file."""
    if content is None:
        return None
    real = os.path.realpath(file).encode("utf-8", "surrogateescape")
    folder = private_directory(data / FOLDER / hashlib.sha256(real).hexdigest()[:16])
    stamp = time.strftime(_STAMP, time.gmtime())
    names = (f"{file.name}.{stamp}{end}.bak" for end in ("", *(f"-{number}" for number in range(2, MAX_COPIES))))
    copy = next(folder / name for name in names if not (folder / name).exists())
    write_atomically(copy, content)
    return copy


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
    data = FORMATS[form].parse(text, path)
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
    return _edited(text, place, FORMATS[place.form].added, entry, entry)


def with_fields(text: str, place: EntryLocation, fields: dict[str, Any]) -> str:
    """Return the text with some fields of a server replaced. Raises like `with_entry`."""
    old = servers(parse(text, place.form, place.path), place.keys, place.path)[place.name]
    if not isinstance(old, Mapping):
        where = ".".join((*place.keys, place.name))
        raise ConfigError(place.path, "expected an object; it was left unchanged", where)
    return _edited(text, place, FORMATS[place.form].changed, fields, {**old, **fields})


def without_entry(text: str, place: EntryLocation) -> str:
    """Return the text without a server. Raises like `with_entry`."""
    return _edited(text, place, FORMATS[place.form].removed, {}, None)


def _edited(text: str, place: EntryLocation, edit: Edit, fields: dict[str, Any], entry: dict[str, Any] | None) -> str:
    """Return the edited text after checking that nothing but the entry changed; it is `entry` now, or gone."""
    bom, body = without_bom(text)
    after = bom + edit(body, place.keys, place.name, fields, place.path)
    expected = parse(text, place.form, place.path)
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


def _json_added(text: str, keys: Sequence[str], name: str, entry: dict[str, Any], path: Path) -> str:
    return jsonc.set_value(text if text.strip() else jsonc.NEW_FILE, [*keys, name], entry, path)


def _json_changed(text: str, keys: Sequence[str], name: str, fields: dict[str, Any], path: Path) -> str:
    for key, value in fields.items():
        text = jsonc.set_value(text, [*keys, name, key], value, path)
    return text


def _json_removed(text: str, keys: Sequence[str], name: str, _fields: dict[str, Any], path: Path) -> str:
    """Return the text without a server; servers without any are `{}`, as before, unless there is a comment in them."""
    text = jsonc.remove_value(text, [*keys, name], path)
    if servers(parse(text, "json", path), keys, path):
        return text
    empty = jsonc.set_value(text, keys, {}, path)
    return empty if "".join(empty.split()) == "".join(text.split()) else text


_HEADER = re.compile(r"[ \t]*\[")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")  # not splitlines(), which also splits inside strings


def _toml_parse(text: str, path: Path) -> dict[str, Any]:
    """Parse a client's TOML file; `ConfigError` if it is malformed."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(path, f"malformed TOML: {error}") from error


def _toml_added(text: str, keys: Sequence[str], name: str, entry: dict[str, Any], path: Path) -> str:
    """Return the text with a table appended, or added in place if the servers are an inline table."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{'.'.join((*keys, name))}]", *(f"{key} = {_value(value)}" for key, value in entry.items())]
    head = "" if not text.strip() else text if text.endswith("\n") else text + newline
    edited = head + (newline if head else "") + newline.join(lines) + newline
    try:
        _toml_parse(edited, path)
    except ConfigError:
        return _rewritten(text, [*keys], path, lambda holder: holder.update({name: entry}))
    return edited


def _toml_changed(text: str, keys: Sequence[str], name: str, fields: dict[str, Any], path: Path) -> str:
    """Return the text with some values of a table replaced."""
    return _rewritten(text, [*keys, name], path, lambda table: table.update(fields))


def _toml_removed(text: str, keys: Sequence[str], name: str, _fields: dict[str, Any], path: Path) -> str:
    """Return the text without a table and its subtables; comments before the next table stay."""
    heads = re.compile(
        r"[ \t]*\[[ \t]*"
        + r"[ \t]*\.[ \t]*".join(rf"[\"']?{re.escape(key)}[\"']?" for key in (*keys, name))
        + r"[ \t]*[.\]]"
    )
    lines = _LINE.findall(text)
    dropped: set[int] = set()
    at = 0
    while at < len(lines):
        if not heads.match(lines[at]):
            at += 1
            continue
        end = at + 1
        while end < len(lines) and not _HEADER.match(lines[end]):
            end += 1
        following = end
        while end > at + 1 and lines[end - 1].strip()[:1] in ("", "#"):
            end -= 1
        dropped.update(range(at, end))
        at = following
    if not dropped:
        return _rewritten(text, [*keys], path, lambda holder: holder.remove(name))
    # Drop one of the two blank lines that are now adjacent.
    first, after = min(dropped), max(dropped) + 1
    if first and not lines[first - 1].strip() and (after == len(lines) or not lines[after].strip()):
        dropped.add(first - 1)
    return "".join(line for number, line in enumerate(lines) if number not in dropped)


def _rewritten(text: str, keys: Sequence[str], path: Path, change: Any) -> str:
    try:
        document = tomlkit.parse(text)
        holder: Any = document
        for key in keys:
            holder = holder[key]
        change(holder)
        return tomlkit.dumps(document)
    except (TOMLKitError, KeyError, AttributeError) as error:
        raise ConfigError(path, "has an unusual layout; make the change by hand") from error


def _value(value: Any) -> str:
    return str(tomlkit.item(value).as_string())


_UNIT = 2
"""Spaces per level where the file does not show its own indentation."""


def _yaml_parse(text: str, path: Path) -> Any:
    """Parse a client's YAML file; `ConfigError` if it is malformed."""
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(path, f"malformed YAML: {' '.join(str(error).split())}") from error
    return {} if data is None else data


def _yaml_added(text: str, keys: Sequence[str], name: str, entry: dict[str, Any], path: Path) -> str:
    """Return the text with a key added at the start of its mapping.

    `keys` has exactly one key, that of the mapping; `path` names the file in errors.
    """
    (key,) = keys
    newline = _newline(text)
    pair = _pair(_root(text), key)
    if pair is None:
        head = text if not text or text.endswith("\n") else text + newline
        return head + newline.join([f"{key}:", *_block(name, entry, _UNIT)]) + newline
    node, holder = pair
    if isinstance(holder, yaml.MappingNode) and holder.value and not holder.flow_style:
        indent = holder.value[0][0].start_mark.column
    elif _is_empty(holder):
        start, end = holder.start_mark.index, holder.end_mark.index
        if end > start:  # `{}` or `null`
            text = text[:start].rstrip(" ") + text[end:]
        indent = _UNIT
    else:
        raise ConfigError(path, "has an unusual layout; make the change by hand", key)
    line = _line_end(text, node.end_mark.index)
    head = text[:line] if text[:line].endswith("\n") else text[:line] + newline
    return head + newline.join(_block(name, entry, indent)) + newline + text[line:]


def _yaml_changed(text: str, keys: Sequence[str], name: str, fields: dict[str, Any], path: Path) -> str:
    """Return the text with the value of a key rewritten."""
    entry = {**servers(_yaml_parse(text, path), keys, path)[name], **fields}
    start, end, indent = _lines_of(text, keys, name, path)
    newline = _newline(text)
    return text[:start] + newline.join(_block(name, entry, indent)) + newline + text[end:]


def _yaml_removed(text: str, keys: Sequence[str], name: str, _fields: dict[str, Any], path: Path) -> str:
    """Return the text without a key and its value."""
    start, end, _ = _lines_of(text, keys, name, path)
    pair = _pair(_root(text), keys[0])
    if pair and len(pair[1].value) == 1:  # a key without a value would be null
        colon = text.index(":", pair[0].end_mark.index) + 1
        return f"{text[:colon]} {{}}{text[colon:start]}{text[end:]}"
    return text[:start] + text[end:]


def _lines_of(text: str, keys: Sequence[str], name: str, path: Path) -> tuple[int, int, int]:
    """Return start and end offset of the lines of a key with its value, and the key's column."""
    (key,) = keys
    pair = _pair(_root(text), key)
    inner = _pair(pair[1], name) if pair and not pair[1].flow_style else None
    if inner is None:
        raise ConfigError(path, "has an unusual layout; make the change by hand", key)
    start = text.rfind("\n", 0, inner[0].start_mark.index) + 1
    return start, _line_end(text, _last(inner[1]).end_mark.index), inner[0].start_mark.column


def _root(text: str) -> yaml.Node | None:
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _pair(node: yaml.Node | None, key: str) -> tuple[yaml.ScalarNode, Any] | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((pair for pair in pairs if isinstance(pair[0], yaml.ScalarNode) and pair[0].value == key), None)


def _is_empty(node: yaml.Node) -> bool:
    return not node.value or (isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null")


def _last(node: yaml.Node) -> yaml.Node:
    """Return the last leaf; the end mark of a block itself is where the next node starts."""
    while isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        node = node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1]
    return node


def _block(name: str, entry: dict[str, Any], indent: int) -> list[str]:
    """Render an entry; JSON scalars, lists and empty objects are valid YAML."""
    inner = " " * (indent + _UNIT)
    return [f"{' ' * indent}{name}:", *(f"{inner}{key}: {_scalar(value)}" for key, value in entry.items())]


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _line_end(text: str, offset: int) -> int:
    if offset and text[offset - 1] == "\n":
        return offset
    end = text.find("\n", offset)
    return len(text) if end < 0 else end + 1


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


Edit = Callable[[str, Sequence[str], str, dict[str, Any], Path], str]
"""Edits a file's text: key path of the servers, name of the server, its fields, and the file for errors."""


@struct
class EntryFormat:
    """How a kind of file is read and edited."""

    parse: Callable[[str, Path], Any]
    added: Edit
    changed: Edit
    removed: Edit


FORMATS: dict[Form, EntryFormat] = {
    "json": EntryFormat(parse_jsonc, _json_added, _json_changed, _json_removed),
    "toml": EntryFormat(_toml_parse, _toml_added, _toml_changed, _toml_removed),
    "yaml": EntryFormat(_yaml_parse, _yaml_added, _yaml_changed, _yaml_removed),
}
