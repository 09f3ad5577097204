"""Contexts: the user's descriptions of paths in a base, and the files they are stored in."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from kbhub.errors import UsageError
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.setup.bases import edit_config, folder_in, unknown_base
from kbhub.setup.init import create_file
from kbhub.values import struct
from kbhub.workspace.config import POINTER_NAMES, checked, read_jsonc
from kbhub.workspace.config_edits import alone, edit_file, remove_value, set_value
from kbhub.workspace.discovery import covers, plain
from kbhub.workspace.project import PROJECT_ID, clean, find_pointer
from kbhub.workspace.settings import Pointer

EVERY_BASE = "/"
"""Stands for all bases on the command line."""

_FIELD = "contexts"


class Context(Model):
    """One description of a path."""

    base: str | None = Field(description="Id of its base; none is about every base.")
    path: str = Field(description="Prefix of paths in the base; empty is all of it.")
    context: str = Field(description="What is there.")
    file: Path | None = Field(None, description="The file that says so.")

    @property
    def place(self) -> str:
        """What it describes, as it is typed on the command line."""
        return _shown(self.base, self.path)


class ContextChange(Model):
    """What adding or removing a context did."""

    context: Context = Field(description="The context.")
    changed: bool = Field(description="Whether the file was changed; if not, it said so before.")
    notes: tuple[str, ...] = Field((), description="What else to know, in sentences.")


@struct
class ContextTarget:
    """What a context describes."""

    base: str | None
    """Id of the base, or None for every base."""
    path: str
    """Path in the base without leading or trailing `/`; empty for the base itself."""


def list_contexts(hub: Hub, place: ContextTarget | None = None) -> tuple[Context, ...]:
    """Return the contexts of active and configured bases; with `place`, those that apply to it or below it."""
    settings, file, discovery = hub.config().settings, hub.config().file, hub.discovery()
    contexts = [Context(base=None, path=path, context=text, file=file) for path, text in settings.contexts.items()]
    bases, entries = {base.id: base for base in discovery.bases}, settings.bases
    pointer = find_pointer(discovery.workspace, Path(os.path.realpath(hub.options.home)), config=file)
    for base in bases.values():
        said = {path for name in (base.id, *base.names) if name in entries for path in entries[name].contexts}
        other = pointer if base.id == PROJECT_ID else None
        contexts += [
            Context(base=base.id, path=path, context=text, file=file if path in said else other)
            for path, text in base.contexts.items()
        ]
    united = {name for base in bases.values() for name in base.names}
    for name, entry in entries.items():
        if name not in bases and name not in united:
            contexts += [
                Context(base=name, path=path, context=clean(text), file=file) for path, text in entry.contexts.items()
            ]
    if place is None:
        return tuple(contexts)
    return tuple(
        context
        for context in contexts
        if context.base in (place.base, None)
        and (covers(plain(context.path), place.path) or covers(place.path, plain(context.path)))
    )


def add_context(hub: Hub, place: ContextTarget, text: str) -> ContextChange:
    """Write a description of a place, replacing any previous one; `UsageError` if it cannot be written."""
    text = clean(text)
    if not text:
        raise UsageError("A context needs a text: kbhub base context add BASE/PATH TEXT.")
    home = _home_of(hub, place)
    # As spelled in the file, or with a trailing slash if it is a folder.
    slash = "/" if home.folder is not None and place.path and (home.folder / place.path).is_dir() else ""
    key = next((key for key in home.contexts if plain(key) == place.path), f"{place.path}{slash}")
    changed = _write(hub, home, key, text)
    notes = [] if changed else [f"{home.file} already says so; nothing changed."]
    if home.folder is not None and place.path and not (home.folder / place.path).exists():
        notes.append(f"There is nothing at {place.path} yet.")
    context = Context(base=place.base, path=key, context=text, file=home.file)
    return ContextChange(context=context, changed=changed, notes=tuple(notes))


def remove_context(hub: Hub, place: ContextTarget) -> ContextChange:
    """Remove the description of a place; `UsageError` if there is none, or kbhub must not change its file."""
    home = _home_of(hub, place)
    entries = {plain(key): (key, text) for key, text in home.contexts.items()}
    if place.path not in entries:
        known = ", ".join(repr(_shown(place.base, key)) for key in entries)
        others = f"it has contexts for: {known}" if known else "it has none at all"
        raise UsageError(f"{home.file} has no context for {_shown(place.base, place.path)!r}; {others}.")
    key, text = entries[place.path]
    _write(hub, home, key, None)
    return ContextChange(context=Context(base=place.base, path=key, context=text, file=home.file), changed=True)


def _shown(base: str | None, path: str) -> str:
    """Return a place as it is typed on the command line."""
    return f"{base or ''}/{path}" if path or base is None else base


def parse_place(hub: Hub, text: str | None) -> ContextTarget:
    """Parse a place as typed: `/`, BASE[/PATH], BASE@PATH, a path in the base around here or in the project's."""
    if text == EVERY_BASE:
        return ContextTarget(None, "")
    known = _known_ids(hub)
    if text and not text.startswith("."):
        for mark in ("@", "/"):
            name, separator, path = text.partition(mark)
            if name in known and (separator or name == text):
                return ContextTarget(name, _contained(path))
    cwd = Path(os.path.realpath(hub.options.cwd))
    target = Path(os.path.normpath(cwd / (text or ".")))
    enclosing = [base for base in hub.discovery().bases if cwd.is_relative_to(base.path)]
    if not enclosing and text:
        project = hub.discovery().project
        unsafe = "\0" in text or Path(text).is_absolute() or ".." in Path(text).parts
        if project is None or unsafe or not os.path.lexists(project.path / text):
            raise unknown_base(text.partition("/")[0], known)
        return ContextTarget(project.id, _contained(text))
    if not enclosing:
        raise UsageError(f"{cwd} is not in an active base; name one: kbhub base context add BASE/PATH TEXT.")
    base = max(enclosing, key=lambda candidate: len(candidate.path.parts))
    if not target.is_relative_to(base.path):
        raise UsageError(f"{text!r} is outside the base {base.id!r}.")
    inside = target.relative_to(base.path).as_posix()
    return ContextTarget(base.id, "" if inside == "." else inside)


@struct
class _Home:
    """The file that holds a base's contexts."""

    file: Path
    keys: tuple[str, ...]
    contexts: Mapping[str, str]
    folder: Path | None
    pointer: bool = False


def _home_of(hub: Hub, place: ContextTarget) -> _Home:
    settings, file = hub.config().settings, hub.config().file
    if place.base is None:
        return _Home(file, (_FIELD,), settings.contexts, None)
    if entry := settings.bases.get(place.base):
        folder = folder_in(hub, place.base, entry)
        return _Home(file, ("bases", place.base, _FIELD), entry.contexts, folder)
    base = next((base for base in hub.discovery().bases if base.id == place.base), None)
    if base is None:
        raise unknown_base(place.base, _known_ids(hub))
    if base.id != PROJECT_ID:
        folder = base.path / "docs" if base.origin == "docs" else base.path
        raise UsageError(
            f"The base {base.id!r} has no entry in any file. Add it first: kbhub base add {base.id}={folder}."
        )
    workspace, folder = hub.discovery().workspace, base.path.parent
    pointer = find_pointer(workspace, Path(os.path.realpath(hub.options.home)), config=hub.config().path)
    if base.origin != "pointer" or pointer is None:
        # A pointer without `knowledge` means ./knowledge; any other folder would have to be named in it.
        inside = workspace.directory is not None and workspace.directory.is_relative_to(folder)
        if base.origin != "knowledge" or base.path.name != "knowledge" or not inside or pointer != base.path:
            raise UsageError(
                f"The project's knowledge is {base.path}, and it has no pointer that could hold contexts. "
                f"Run `kbhub init --knowledge {'docs' if base.origin == 'docs' else base.path}` "
                "in the project's folder to create one."
            )
        pointer = folder / POINTER_NAMES[0]
    contexts = checked(Pointer, read_jsonc(pointer), pointer).contexts if pointer.exists() else {}
    return _Home(pointer, (_FIELD,), contexts, base.path, pointer=True)


def _write(hub: Hub, home: _Home, key: str, text: str | None) -> bool:
    """Set or remove a context; an object that would become empty is removed with it."""

    def edit(before: str) -> str:
        if text is not None:
            keys = home.keys
            if len(keys) > 1 and isinstance(folder := hub.config().said["bases"].get(keys[1]), str):
                before = set_value(before, keys[:2], {"knowledge": folder}, home.file)
            return set_value(before, (*keys, key), text, home.file)
        return remove_value(before, home.keys if len(home.contexts) == 1 else (*home.keys, key), home.file)

    if not home.pointer:
        return edit_config(hub, lambda before, _: edit(before))
    if not home.file.exists():
        create_file(home.file, json.dumps({_FIELD: {key: text}}, indent=2, ensure_ascii=False) + "\n")
        changed = True
    else:
        with alone(hub.trust.path.parent):
            changed = edit_file(home.file, edit, lambda data: checked(Pointer, data, home.file))
    hub.rediscover()
    return changed


def _contained(path: str) -> str:
    """Normalise a path in a base, rejecting one that leads out of it."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in path:
        raise UsageError(f"{path!r} is outside its base.")
    return "/".join(parts)


def _known_ids(hub: Hub) -> list[str]:
    active = [name for base in hub.discovery().bases for name in (base.id, *base.names)]
    return list(dict.fromkeys([*active, *hub.config().settings.bases]))
