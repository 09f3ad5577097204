"""Claude's memory tool (`memory_20250818`) over a project's memories: each is a file below `/memories`.

A file's folder is the memory's namespace. Its name is the one that it was created by, else that of the memory's own
file. Commands, answers and errors are worded as Anthropic documents them, because models are trained on these words.
Nothing is looked up by path on disk, so no path leads out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from kbhub.errors import UsageError, WriteRefused
from kbhub.memory.catalog import all_known, ref
from kbhub.memory.changes import bring_in_step, forget, rewrite
from kbhub.memory.files import checked_namespace, read
from kbhub.memory.remember import remember

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbhub.hub import Hub
    from kbhub.memory.catalog import StoredMemory
    from kbhub.search.memory_boost import Facts

ROOT = "/memories"

LEVELS = 2
"""Levels below a folder that `view` lists."""

_NAME = re.compile(r"[^\s/\x00-\x1f\x7f.](?:[^/\x00-\x1f\x7f]{0,126}[^\s/\x00-\x1f\x7f])?")


class _Command(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class View(_Command):
    """Show a folder, or a file with line numbers."""

    command: Literal["view"]
    path: str
    view_range: tuple[int, int] | None = None
    """First and last line, from 1; -1 is the end."""


class Create(_Command):
    """Make a file."""

    command: Literal["create"]
    path: str
    file_text: str


class Replace(_Command):
    """Put a text in the place of one that is there once."""

    command: Literal["str_replace"]
    path: str
    old_str: str
    new_str: str = ""


class Insert(_Command):
    """Put a text behind a line; behind line 0 is the beginning."""

    command: Literal["insert"]
    path: str
    insert_line: int
    insert_text: str


class Delete(_Command):
    """Delete a file or a folder."""

    command: Literal["delete"]
    path: str


class Rename(_Command):
    """Rename or move a file or a folder."""

    command: Literal["rename"]
    old_path: str
    new_path: str


Command = View | Create | Replace | Insert | Delete | Rename

_COMMANDS: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="command")])


def memory_tool(hub: Hub, command: Mapping[str, Any], *, client: str = "memory tool") -> str:
    """Run a command of Claude's memory tool on the memories of the project.

    Give the input of a `tool_use` block, and send back the text as its `tool_result`; that of an error with `is_error`.

    Args:
        hub: what owns the bases.
        command: `view`, `create`, `str_replace`, `insert`, `delete` or `rename`, with its parameters.
        client: who is said to have written what is written.

    Returns:
        What the command did, or shows.

    Raises:
        UsageError: the command cannot be carried out; nothing was changed.
        SecretFound: the text seems to hold a credential.
        WriteRefused: the settings allow no writing, or a file cannot be changed without losing something of it.
        MemoriesUnavailable: they cannot be written.
    """
    try:
        wanted = _COMMANDS.validate_python(dict(command))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"][1:]))
        raise UsageError(f"Invalid `{where or 'command'}` parameter: {first['msg']}.") from error
    files = _files(hub)
    match wanted:
        case View():
            return _view(wanted, files)
        case Create():
            return _create(hub, wanted, files, client)
        case Replace():
            return _replace(hub, wanted, files, client)
        case Insert():
            return _insert(hub, wanted, files, client)
        case Delete():
            return _delete(hub, wanted, files)
        case Rename():
            return _rename(hub, wanted, files)


def _files(hub: Hub) -> dict[str, StoredMemory]:
    """Return the files by path; of two with the same path, the first keeps it."""
    files: dict[str, StoredMemory] = {}
    for memory in all_known(hub, "project"):
        name = memory.facts.memory_tool
        if not _NAME.fullmatch(name) or (path := _joined(memory.facts.namespace, name)) in files:
            path = _joined(memory.facts.namespace, memory.path.rpartition("/")[2])
        files.setdefault(path, memory)
    return dict(sorted(files.items()))


def _joined(namespace: str, name: str) -> str:
    return "/".join((ROOT, *([namespace] if namespace else []), name))


def _split(path: str) -> tuple[str, str]:
    """Return namespace and name of a path that something is written to.

    Raises:
        UsageError: nothing can be there.
    """
    path = path.rstrip("/")
    if not path.startswith(f"{ROOT}/"):
        raise UsageError(f"The path {path} is not below {ROOT}. Use a path below it.")
    folder, _, name = path.removeprefix(f"{ROOT}/").rpartition("/")
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a valid file name: use up to 128 characters, without `/` or a leading dot.")
    return checked_namespace(folder) if folder else "", name


def _at(path: str, files: Mapping[str, StoredMemory]) -> StoredMemory:
    found = files.get(path) or files.get(_normal(path))
    if found is None:
        raise UsageError(f"The path {path} does not exist. Please provide a valid path.")
    return found


def _normal(path: str) -> str:
    """Return a path as `_files` has it, if it can be one."""
    try:
        return _joined(*_split(path))
    except UsageError:
        return path


def _below(path: str, files: Iterable[str]) -> list[str]:
    folder = path.rstrip("/").casefold()
    return [file for file in files if folder and file.casefold().startswith(f"{folder}/")]


def _check_folder(path: str, files: Mapping[str, StoredMemory]) -> None:
    """Refuse a path below a file."""
    for parent in PurePosixPath(path).parents:
        if str(parent) in files:
            raise UsageError(f"{parent} is a file, not a directory.")


def _text(memory: StoredMemory) -> str:
    stored = read(memory.shelf, memory.path)
    return stored.content.body if stored else ""


def _view(command: View, files: Mapping[str, StoredMemory]) -> str:
    path = command.path.rstrip("/") or "/"
    if path == ROOT or (_below(path, files) and _normal(path) not in files):
        return _listing(path, files)
    lines = _text(_at(path, files)).split("\n")
    first, last = command.view_range or (1, -1)
    last = len(lines) if last == -1 else last
    if not 1 <= first <= last <= len(lines):
        raise UsageError(
            f"Invalid `view_range` parameter: {list(command.view_range or ())}. It should be within the range of lines "
            f"of the file: [1, {len(lines)}]"
        )
    numbered = "\n".join(f"{number:6}\t{lines[number - 1]}" for number in range(first, last + 1))
    return f"Here's the content of {path} with line numbers:\n{numbered}"


def _listing(path: str, files: Mapping[str, StoredMemory]) -> str:
    sizes: dict[str, int] = {path: 0}
    for file in _below(path, files):
        size = len(_text(files[file]).encode())
        inner = file[len(path) + 1 :].split("/")
        sizes[path] += size
        for level in range(1, min(len(inner), LEVELS) + 1):
            shown = "/".join((path, *inner[:level])) + ("/" if level < len(inner) else "")
            sizes[shown] = sizes.get(shown, 0) + size
    rows = "\n".join(f"{_size(size)}\t{shown}" for shown, size in sizes.items())
    return (
        f"Here're the files and directories up to {LEVELS} levels deep in {path}, excluding hidden items and "
        f"node_modules:\n{rows}"
    )


def _size(count: int) -> str:
    return f"{count}B" if count < 1024 else f"{count / 1024:.1f}K"


def _create(hub: Hub, command: Create, files: Mapping[str, StoredMemory], client: str) -> str:
    namespace, name = _split(command.path)
    path = _joined(namespace, name)
    if path in files or _below(path, files):
        raise UsageError(f"File {command.path} already exists")
    _check_folder(path, files)
    done = remember(hub, command.file_text, namespace=namespace, client=client, file_name=name)
    if done.did != "stored":
        there = next((file for file, known in files.items() if known.facts.id == done.memory.id), done.memory.ref)
        raise UsageError(f"File {command.path} was not created: {there} already says the same")
    return f"File created successfully at: {command.path}"


def _replace(hub: Hub, command: Replace, files: Mapping[str, StoredMemory], client: str) -> str:
    memory = _at(command.path, files)
    text = _text(memory)
    count = text.count(command.old_str) if command.old_str else 0
    if count == 0:
        raise UsageError(
            f"No replacement was performed, old_str `{command.old_str}` did not appear verbatim in {command.path}."
        )
    if count > 1:
        places = [match.start() for match in re.finditer(re.escape(command.old_str), text)]
        numbers = [text.count("\n", 0, place) + 1 for place in places]
        raise UsageError(
            f"No replacement was performed. Multiple occurrences of old_str `{command.old_str}` in lines: {numbers}. "
            "Please ensure it is unique"
        )
    before = text[: text.index(command.old_str)].count("\n")
    _change(hub, memory, text.replace(command.old_str, command.new_str), client)
    lines = _text(_at(command.path, _files(hub))).split("\n")
    from_, to = max(before - 3, 0), min(before + command.new_str.count("\n") + 4, len(lines))
    snippet = "\n".join(f"{number + 1:6}\t{lines[number]}" for number in range(from_, to))
    return f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"


def _insert(hub: Hub, command: Insert, files: Mapping[str, StoredMemory], client: str) -> str:
    memory = _at(command.path, files)
    lines = _text(memory).split("\n")
    if not 0 <= command.insert_line <= len(lines):
        raise UsageError(
            f"Invalid `insert_line` parameter: {command.insert_line}. It should be within the range of lines of the "
            f"file: [0, {len(lines)}]"
        )
    lines[command.insert_line : command.insert_line] = command.insert_text.removesuffix("\n").split("\n")
    _change(hub, memory, "\n".join(lines), client)
    return f"The file {command.path} has been edited."


def _change(hub: Hub, memory: StoredMemory, text: str, client: str) -> None:
    remember(hub, text, id=ref(hub, memory), scope="project", client=client)


def _delete(hub: Hub, command: Delete, files: Mapping[str, StoredMemory]) -> str:
    path = command.path.rstrip("/")
    if path == ROOT:
        raise UsageError(f"{ROOT} itself cannot be deleted. Delete the files in it.")
    file = files.get(_normal(path))
    chosen = [file] if file else [files[inner] for inner in _below(path, files)]
    if not chosen:
        raise UsageError(f"The path {command.path} does not exist")
    forget(hub, [ref(hub, memory) for memory in chosen], scope="project")
    return f"Successfully deleted {command.path}"


def _rename(hub: Hub, command: Rename, files: Mapping[str, StoredMemory]) -> str:
    if hub.config().settings.read_only:
        raise WriteRefused("memories", "`readOnly` is set; only searching and reading are allowed")
    old, new = _normal(command.old_path.rstrip("/")), _joined(*_split(command.new_path))
    inside = [] if old in files or old == ROOT else _below(old, files)
    if old not in files and not inside:
        raise UsageError(f"The path {command.old_path} does not exist")
    if new in files or _below(new, files):
        raise UsageError(f"The destination {command.new_path} already exists")
    _check_folder(new, files)
    moves = {file: f"{new}{file[len(old) :]}" for file in inside} or {old: new}
    # Every name is checked before any file is changed.
    places = {file: _split(target) for file, target in moves.items()}
    for file, (namespace, name) in places.items():
        rewrite(hub, files[file], partial(_renamed, namespace, name))
    bring_in_step(hub, files[next(iter(moves))].shelf)
    return f"Successfully renamed {command.old_path} to {command.new_path}"


def _renamed(namespace: str, name: str, _: Facts) -> dict[str, str]:
    return {"namespace": namespace, "memory_tool": name}
