"""The user's bases: list, add, remove and rename them in the global config, leaving its other bytes alone."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from kbhub.errors import KbhubError, UsageError
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.reading.lists import status
from kbhub.types import Origin
from kbhub.workspace import config
from kbhub.workspace.config_edits import add_item, alone, edit_file, remove_value, rename_key, set_value
from kbhub.workspace.discovery import EVERYWHERE
from kbhub.workspace.extensions import engine_for
from kbhub.workspace.files import PACKAGES, expand, is_directory, why_no_directory
from kbhub.workspace.settings import BaseEntry, GlobalConfig, nearest
from kbhub.workspace.validation import adapter


def folder_in(hub: Hub, name: str, entry: BaseEntry) -> Path:
    """Return the folder of an entry of the global config in force."""
    return config.folder_of(name, entry, hub.config().file.parent, hub.options.home, hub.options.env)


def edit_config(hub: Hub, edit: Callable[[str, GlobalConfig], str]) -> bool:
    """Edit the text of the global config in force by its settings, and reload it; return whether it changed."""
    path, home = hub.config().file, hub.options.home
    with alone(hub.trust.path.parent):
        # Reload, as the file may have been edited since.
        hub.rediscover()
        changed = edit_file(
            path, lambda text: edit(text, hub.config().settings), lambda data: config.checked_config(data, path, home)
        )
    hub.rediscover()
    return changed


def portable(folder: Path, home: Path) -> str:
    """Return a path relative to `~` if it is below the home directory, to be valid on other machines too."""
    for above in (home, Path(os.path.realpath(home))):
        if folder.is_relative_to(above):
            inside = folder.relative_to(above).as_posix()
            return "~" if inside == "." else f"~/{inside}"
    return str(folder)


def places_of(settings: GlobalConfig, name: str) -> tuple[str, ...]:
    """Return the entries of `repos` that include a base."""
    return tuple(key for key, names in settings.repos.items() if name in names)


def unknown_base(name: str, known: Iterable[str]) -> UsageError:
    """Return the error for an unknown base id, with the most similar known one."""
    names = list(known)
    if near := nearest(name, names):
        return UsageError(f"No base {name!r}; did you mean {near!r}?")
    return UsageError(f"No base {name!r}; " + (f"there are: {', '.join(names)}." if names else "you have none yet."))


class KnownBase(Model):
    """A base that the global config names, or that is active here."""

    id: str = Field(description="Its id.")
    path: Path = Field(description="Its folder.")
    engine: str | None = Field(None, description="The database that holds it, if it is shared.")
    origin: Origin = Field(description="How it was found.")
    active: bool = Field(description="Whether it is active in this workspace.")
    places: tuple[str, ...] = Field((), description="Entries of `repos` that name it; `*` is every project.")
    name: str | None = Field(None, description="Readable name.")
    description: str | None = Field(None, description="What it is about.")
    writable: bool = Field(False, description="Whether agents may write documents in it.")
    weight: float = Field(1.0, description="Factor on the score of its hits.")
    include: tuple[str, ...] = Field((), description="Patterns of further files to take.")
    exclude: tuple[str, ...] = Field((), description="Patterns of files to leave out.")
    contexts: dict[str, str] = Field(default_factory=dict, description="Path prefix → what is there.")
    documents: int = Field(0, description="Documents in its index.")
    index: Path | None = Field(None, description="The index file; null if there is none yet.")
    index_bytes: int = Field(0, description="Its size.")
    synced: str | None = Field(None, description="When it was last synced (ISO 8601, UTC).")
    problem: str | None = Field(None, description="Why it cannot be used, and what to do.")


class KnownBases(Model):
    """What `kbhub base list` shows."""

    config: Path = Field(description="The global config, which need not exist.")
    bases: tuple[KnownBase, ...] = Field((), description="The project base first, then by id.")


def list_bases(hub: Hub) -> KnownBases:
    """Return all bases in the global config, active here or not, and any others that are active here."""
    settings, path = hub.config().settings, hub.config().file
    active = {name for base in hub.discovery().bases for name in (base.id, *base.names)}
    everywhere = status(Hub(replace(hub.options, every_base=True)))
    bases, listed = list[KnownBase](), set[str]()
    for found in everywhere.bases:
        base, names = found.base, (found.base.id, *found.base.names)
        listed |= {*names}
        places = tuple(dict.fromkeys(place for name in names for place in places_of(settings, name)))
        told = {name: getattr(base, name) for name in _OF_BASE} | {name: getattr(found, name) for name in _OF_STATUS}
        engine, here = base.place if base.engine else None, not active.isdisjoint(names)
        bases.append(KnownBase(engine=engine, active=here, places=places, **told))
    problems = {problem.subject: problem.message for problem in everywhere.problems}
    for name, entry in settings.bases.items():
        if name not in listed:
            place: dict[str, Any] = {"path": folder_in(hub, name, entry), "engine": entry.engine}
            place |= {"places": places_of(settings, name), "problem": problems.get(name)}
            bases.append(KnownBase(id=name, origin="config", active=False, **place))
    return KnownBases(config=path, bases=tuple(sorted(bases, key=lambda base: (base.id != "project", base.id))))


def show_base(hub: Hub, name: str) -> KnownBase:
    """Return the base of `list_bases` with an id, or with an alias if the base is active."""
    bases = {base.id: base for base in list_bases(hub).bases}
    aliased = next((base.id for base in hub.discovery().bases if name in base.names), name)
    if found := bases.get(name) or bases.get(aliased):
        return found
    raise unknown_base(name, bases)


_OF_BASE = ("id", "path", "origin", "name", "description", "writable", "weight", "include", "exclude", "contexts")
_OF_STATUS = ("documents", "index", "index_bytes", "synced")

_UNFIT = re.compile(r"[^\w.-]+")


class BaseChange(Model):
    """What adding, removing or renaming a base did."""

    id: str = Field(description="The base, by the id that it has now or had last.")
    path: Path = Field(description="Its folder.")
    engine: str | None = Field(None, description="The database that holds it, if it is shared.")
    config: Path = Field(description="The file that says so.")
    changed: bool = Field(description="Whether the file was changed; if not, it said so before.")
    active: bool = Field(False, description="Whether the base is active in this workspace now.")
    places: tuple[str, ...] = Field((), description="Entries of `repos` that name it; `*` is every project.")
    notes: tuple[str, ...] = Field((), description="What else to know, in sentences.")


def add_base(hub: Hub, text: str, id_: str | None = None, places: Sequence[str] = (), **said: Any) -> BaseChange:
    """Add a folder or a shared base to the global config and activate it; `UsageError` if another is in its way.

    `text` is the folder or URL as the user wrote it, or ID=FOLDER. It is active below `places`, in every project
    without any. `said` are fields of its entry, of which empty ones are left out.
    """
    home, cwd, path = hub.options.home, hub.options.cwd, hub.config().file
    fields = {key: [*value] if isinstance(value, tuple) else value for key, value in said.items() if value}
    folders = [place if place == EVERYWHERE else str(_absolute(place, home, cwd)) for place in places]
    for given, place in zip(places, folders, strict=True):
        if place != EVERYWHERE and not is_directory(Path(place)):
            fault = f"--for {given}: {place} {why_no_directory(Path(place))}"
            raise UsageError(f"{fault}; name the folder that holds the projects.")
    memories, notes = False, tuple[str, ...]()
    if engine_for(text):
        if wrong := config.engine_fault(text):
            raise UsageError(f"The URL of a shared base {wrong}.")
        url, shared_as = config.split_engine_url(text)
        base_id = id_ or shared_as or _UNFIT.sub("-", config.database_name(url)).strip("-.")
        _check_id(base_id)
        entry: dict[str, Any] = {"engine": text, **fields}
        folder = folder_in(hub, base_id, BaseEntry(engine=text))
        memories, notes = _for_memories(hub, text, base_id)
    else:
        base_id, folder = _named_folder(text, id_, home, cwd)
        entry = {"knowledge": portable(folder, home), **fields}

    def edit(text: str, settings: GlobalConfig) -> str:
        _refuse_other(settings, base_id, folder, entry, hub)
        if base_id not in settings.bases:
            value = entry if len(entry) > 1 or "engine" in entry else entry["knowledge"]
            text = set_value(text, ["bases", base_id], value, path)
        if memories and not (base_id in settings.bases and settings.bases[base_id].memories):
            text = set_value(text, ["bases", base_id, "memories"], memories, path)
        for key in _repo_keys(settings, folders, path.parent, home):
            text = _activated(text, settings, key, base_id, path)
        return text

    changed = edit_config(hub, edit)
    notes = (*notes, *_activity_notes(hub.config().settings, base_id, path.parent, home))
    if not changed:
        notes = (f"{path} already says so; nothing changed.", *notes)
    return _change(hub, base_id, folder, entry.get("engine"), notes, changed=changed)


def _change(
    hub: Hub, name: str, folder: Path, engine: str | None, notes: tuple[str, ...], *, changed: bool
) -> BaseChange:
    """Return what became of a base that the config has now."""
    active = any(name in (base.id, *base.names) for base in hub.discovery().bases)
    return BaseChange(
        id=name, path=folder, engine=engine, config=hub.config().file, changed=changed, active=active,
        places=places_of(hub.config().settings, name), notes=notes,
    )  # fmt: skip


def remove_base(hub: Hub, name: str) -> BaseChange:
    """Remove a base from the global config, and kbhub's copy of documentation of a library, if it is one."""
    path = hub.config().file
    entry = _entry(hub, name)

    def edit(text: str, _: GlobalConfig) -> str:
        text = remove_value(text, ["bases", name], path)
        for keys in _mentions(hub, name):
            # Keep the entry even if it is empty: it still overrides the entries of `repos` for parent folders.
            text = set_value(text, keys, [], path) if len(keys) == 2 else remove_value(text, keys, path)
        return text

    edit_config(hub, edit)
    folder = folder_in(hub, name, entry)
    note = f"The documents in {folder} are untouched. `kbhub admin cleanup` deletes the index."
    if entry.engine:
        note = f"The base in {config.shown_url(entry.engine)} is untouched."
    others = {key: _entry(hub, key) for key in hub.config().settings.bases if key != name}
    used = (folder_in(hub, key, one) for key, one in others.items())
    if folder.parent == hub.data / PACKAGES and folder not in used:
        shutil.rmtree(folder, ignore_errors=True)
        note = f"Its copy in {folder} is deleted. `kbhub admin cleanup` deletes the index."
    return BaseChange(id=name, path=folder, engine=entry.engine, config=path, changed=True, notes=(note,))


def rename_base(hub: Hub, old: str, new: str) -> BaseChange:
    """Change the id of a base in the global config, keeping its index."""
    path = hub.config().file
    entry = _entry(hub, old)
    _check_id(new)
    if new in hub.config().settings.bases:
        raise UsageError(f"A base {new!r} already exists; choose another id.")

    def edit(text: str, _: GlobalConfig) -> str:
        text = rename_key(text, ["bases", old], new, path)
        for keys in _mentions(hub, old):
            text = set_value(text, keys, new, path)
        return text

    edit_config(hub, edit)
    notes = (f"Refs are now {new}@PATH. Links and `related` entries that use {old}@PATH are unchanged.",)
    return _change(hub, new, folder_in(hub, new, entry), entry.engine, notes, changed=True)


def _mentions(hub: Hub, name: str) -> Iterator[list[Any]]:
    """Yield the key paths of a base in `repos`, from the end of each list."""
    for key, value in hub.config().said.get("repos", {}).items():
        if isinstance(value, str):
            yield from [["repos", key]] if value == name else []
        else:
            yield from (["repos", key, at] for at in reversed(range(len(value))) if value[at] == name)


def _entry(hub: Hub, name: str) -> BaseEntry:
    entries = hub.config().settings.bases
    if name in entries:
        return entries[name]
    base = next((candidate for candidate in hub.discovery().bases if candidate.id == name), None)
    if base is not None and base.names:
        raise UsageError(f"{name!r} is {base.path}, which {hub.config().file} calls {base.names[0]!r}; use that id.")
    if base is not None:
        origin = "named by --base or KBHUB_BASES" if base.origin == "argument" else "discovered, not configured"
        raise UsageError(f"The base {name!r} is {origin}, so {hub.config().file} has no entry to change.")
    raise unknown_base(name, entries)


def _named_folder(text: str, name: str | None, home: Path, cwd: Path) -> tuple[str, Path]:
    folder = _absolute(text, home, cwd)
    id_part, equals, folder_part = text.partition("=")
    if equals and folder_part and not folder.exists():
        if name is not None and name != id_part:
            raise UsageError(f"{id_part!r} and --id {name!r} are different ids; give one.")
        name, folder = id_part, _absolute(folder_part, home, cwd)
    if not is_directory(folder):
        remedy = "Name its folder." if folder.is_file() else "Create it first."
        raise UsageError(f"{folder} {why_no_directory(folder)}; a base is a folder of Markdown. {remedy}")
    if name is None:
        # A folder that is just called `knowledge` has the name of its parent.
        called = folder.parent.name if folder.name.lstrip(".") == "knowledge" else folder.name
        name = _UNFIT.sub("-", called.removesuffix(".knowledge")).strip("-.")
        if config.id_fault(name):
            raise UsageError(f"{folder} gives no usable id; choose one with --id.")
    _check_id(name)
    return name, folder


def _for_memories(hub: Hub, url: str, name: str) -> tuple[bool, tuple[str, ...]]:
    """Return whether agents may remember in a shared base, and notes on that; no if its database does not say so."""
    database, shared_as = config.split_engine_url(url)
    timeout = BaseEntry(engine=url).timeout
    try:
        takes = hub.shared.engine(database).takes_memories(database, shared_as or name, timeout, hub.options.env)
    except KbhubError as error:
        return False, (f"Could not find out whether agents may remember in it. {error} Then run this again.",)
    if takes is None:
        return False, (f"You may not read it yet, or it does not exist: {config.shown_url(url)}#{shared_as or name}.",)
    return takes, ("Agents may remember in it, with the scope `team`.",) if takes else ()


def _check_id(name: str) -> None:
    if fault := config.id_fault(name):
        raise UsageError(f"{fault[0].upper()}{fault[1:]}.")


def _absolute(text: str, home: Path, cwd: Path) -> Path:
    # Keep symlinks: the config should name the folder as the user does.
    return Path(os.path.abspath(expand(text, home, cwd)))  # noqa: PTH100 - pathlib keeps `..`


def _refuse_other(settings: GlobalConfig, name: str, folder: Path, entry: dict[str, Any], hub: Hub) -> None:
    """Raise if the config already uses the id or the folder for another base, or has it with other settings."""
    path, there = hub.config().file, config.directory_identity(folder)
    for other, other_entry in settings.bases.items():
        other_folder = folder_in(hub, other, other_entry)
        same = config.directory_identity(other_folder) == there and not other_entry.sessions_of
        if other == name and not same:
            raise UsageError(
                f"The base {name!r} is {other_entry.engine or other_folder} already. Choose another id with --id, "
                f"or remove this one first: kbhub base remove {name}."
            )
        if other == name and len(entry) > 1:
            dumped = adapter(BaseEntry).dump_python(other_entry, mode="json", by_alias=True)
            fields = {key: value for key, value in dumped.items() if key in entry}
            if {**fields, "knowledge": None} != {**entry, "knowledge": None}:
                raise UsageError(
                    f"The base {name!r} already exists with other settings. Edit `bases.{name}` in {path}, or "
                    f"remove it first: kbhub base remove {name}."
                )
        if other != name and same:
            raise UsageError(
                f"{folder} is already the base {other!r}. `kbhub base rename {other} {name}` gives it another id."
            )


def _repo_keys(settings: GlobalConfig, places: Sequence[str], folder: Path, home: Path) -> list[str]:
    """Return the keys of `repos` for some folders, spelled as in the config if they are there."""
    real = {os.path.realpath(expand(key, home, folder)): key for key in reversed(settings.repos) if key != EVERYWHERE}
    keys = (
        place if place == EVERYWHERE else real.get(os.path.realpath(place)) or portable(Path(place), home)
        for place in places or (EVERYWHERE,)
    )
    return list(dict.fromkeys(keys))


def _activated(text: str, settings: GlobalConfig, key: str, name: str, path: Path) -> str:
    if name in (active := settings.repos.get(key, ())):
        return text
    if active and isinstance(config.parse_jsonc(text, path)["repos"][key], str):
        return set_value(text, ["repos", key], [*active, name], path)
    return add_item(text, ["repos", key], name, path)


def activated(text: str, settings: GlobalConfig, project: Path, names: Sequence[str], path: Path, home: Path) -> str:
    """Return the config with bases active in a project, too; an entry of its own keeps what a folder above it says."""
    (key,) = _repo_keys(settings, [str(project)], path.parent, home)
    if key in settings.repos:
        for name in names:
            text = _activated(text, settings, key, name, path)
        return text
    above: dict[Path, str] = {Path(os.path.realpath(expand(one, home, path.parent))): one for one in settings.repos}
    said = next((above[one] for one in (project, *project.parents) if one in above), None)
    active = settings.repos[said] if said is not None and said != EVERYWHERE else ()
    return set_value(text, ["repos", key], list(dict.fromkeys((*active, *names))), path)


def _activity_notes(settings: GlobalConfig, name: str, folder: Path, home: Path) -> tuple[str, ...]:
    """Note each subfolder where the base stays inactive because it has its own entry in `repos`."""
    places = places_of(settings, name)
    if EVERYWHERE in places:
        return ()
    resolved = {key: Path(os.path.realpath(expand(key, home, folder))) for key in settings.repos if key != EVERYWHERE}
    overriding = [
        key
        for key, path in resolved.items()
        if key not in places and any(path.is_relative_to(resolved[place]) for place in places if place in resolved)
    ]
    return tuple(f"This does not apply below {key}, which has its own entry in `repos`." for key in overriding)
