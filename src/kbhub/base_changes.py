"""Add, remove and rename the user's own bases in the global config, which keeps every other byte."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from kbhub.config import BaseEntry, directory_identity, id_fault
from kbhub.config_editing import add_item, remove_value, rename_key, set_value
from kbhub.discovery import EVERYWHERE
from kbhub.errors import UsageError
from kbhub.file_models import adapter
from kbhub.frozen import Model
from kbhub.own_config import config_file, edit_config, places_of, portable, unknown_base
from kbhub.places import expand, is_directory, why_no_directory
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.config import GlobalConfig
    from kbhub.hub import Hub

_UNFIT = re.compile(r"[^\w.-]+")
"""What a folder's name may have and an id that is typed on command lines had better not."""


class BaseChange(Model):
    """What adding, removing or renaming a base did."""

    id: str = Field(description="The base, by the id that it has now or had last.")
    path: Path = Field(description="Its folder.")
    config: Path = Field(description="The file that says so.")
    changed: bool = Field(description="Whether the file was changed; if not, it said so before.")
    active: bool = Field(False, description="Whether the base is active in this workspace now.")
    places: tuple[str, ...] = Field((), description="Entries of `repos` that name it; `*` is every project.")
    notes: tuple[str, ...] = Field((), description="What else to know, in sentences.")


@struct
class NewBase:
    """What a base is to be added as."""

    folder: str
    """Its folder as the user wrote it, or ID=FOLDER."""
    id: str | None = None
    """Its id; if none, made of the folder's name."""
    places: tuple[str, ...] = ()
    """Folders below which it is active; none for every project."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    name: str | None = None
    description: str | None = None
    writable: bool = False

    def fields(self) -> dict[str, Any]:
        """Give what the entry in the config has beside its folder, by the names of the file."""
        said: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "include": list(self.include),
            "exclude": list(self.exclude),
            "writable": self.writable,
        }
        return {key: value for key, value in said.items() if value}


def add_base(hub: Hub, new: NewBase) -> BaseChange:
    """Name a folder as a base in the global config, and say where it is active; again, and nothing changes.

    Args:
        hub: of the workspace.
        new: what to add.

    Raises:
        UsageError: the folder or id cannot be a base, or the config has another of either.
        ConfigError: the config cannot be used or written.
    """
    home, cwd, path = hub.options.home, hub.options.cwd, config_file(hub)
    name, folder = _named_folder(new, home, cwd)
    places = tuple(_real_folder(place, home, cwd) for place in new.places)
    entry = {"knowledge": portable(folder, home), **new.fields()}

    def edit(text: str, settings: GlobalConfig) -> str:
        _refuse_other(settings, name, folder, entry, path, home)
        if name not in settings.bases:
            value = entry if len(entry) > 1 else entry["knowledge"]
            text = set_value(text, ["bases", name], value, path)
        for key in _keys(settings, places, path.parent, home):
            text = _activated(text, settings, key, name, path)
        return text

    changed = edit_config(hub, edit)
    settings, active = _look_again(hub, name)
    notes = _activity_notes(settings, name, path.parent, home)
    if not changed:
        notes = (f"{path} says so already; nothing was changed.", *notes)
    return BaseChange(
        id=name,
        path=folder,
        config=path,
        changed=changed,
        active=active,
        places=places_of(settings, name),
        notes=notes,
    )


def remove_base(hub: Hub, name: str) -> BaseChange:
    """Take a base out of the global config; its documents stay, and so does its index until `kbhub cleanup`.

    Raises:
        UsageError: the config has no such base.
        ConfigError: the config cannot be used or written.
    """
    path = config_file(hub)
    entry = _entry(hub, name)

    def edit(text: str, settings: GlobalConfig) -> str:
        text = remove_value(text, ["bases", name], path)
        for key, value in settings.repos.items():
            # An entry without a base still says that those of `repos` above it do not count there.
            if value == name:
                text = set_value(text, ["repos", key], [], path)
            elif not isinstance(value, str):
                for place in reversed([number for number, one in enumerate(value) if one == name]):
                    text = remove_value(text, ["repos", key, place], path)
        return text

    edit_config(hub, edit)
    folder = expand(entry.knowledge, hub.options.home, path.parent)
    note = f"The documents in {folder} were not touched; `kbhub cleanup` deletes the index."
    return BaseChange(id=name, path=folder, config=path, changed=True, notes=(note,))


def rename_base(hub: Hub, old: str, new: str) -> BaseChange:
    """Give a base of the global config another id; its index stays.

    Raises:
        UsageError: the config has no base `old`, or has a base `new`, or `new` cannot be an id.
        ConfigError: the config cannot be used or written.
    """
    path = config_file(hub)
    entry = _entry(hub, old)
    _check_id(new)
    if old != new and new in hub.config().settings.bases:
        raise UsageError(f"There is a base {new!r} already; choose another id, or remove that one first.")

    def edit(text: str, settings: GlobalConfig) -> str:
        if old == new:
            return text
        text = rename_key(text, ["bases", old], new, path)
        for key, value in settings.repos.items():
            if value == old:
                text = set_value(text, ["repos", key], new, path)
            elif not isinstance(value, str):
                for place in [number for number, one in enumerate(value) if one == old]:
                    text = set_value(text, ["repos", key, place], new, path)
        return text

    changed = edit_config(hub, edit)
    settings, active = _look_again(hub, new)
    note = f"Refs are {new}@PATH now; links and `related` that say {old}@PATH are not changed."
    return BaseChange(
        id=new,
        path=expand(entry.knowledge, hub.options.home, path.parent),
        config=path,
        changed=changed,
        active=active,
        places=places_of(settings, new),
        notes=(note,) if changed else (),
    )


def _entry(hub: Hub, name: str) -> BaseEntry:
    """Give a base of the config by its id."""
    entries = hub.config().settings.entries()
    if name in entries:
        return entries[name]
    found = next((base for base in hub.discovery().bases if base.id == name), None)
    if found is not None and found.names:
        raise UsageError(f"{name!r} is {found.path}, which {config_file(hub)} calls {found.names[0]!r}; name it so.")
    if found is not None:
        what = "named by --base or KBHUB_BASES" if found.origin == "argument" else "found, not configured"
        raise UsageError(f"The base {name!r} is {what}, so {config_file(hub)} has nothing to change about it.")
    raise unknown_base(name, entries)


def _named_folder(new: NewBase, home: Path, cwd: Path) -> tuple[str, Path]:
    name, text = new.id, new.folder
    folder = _absolute(text, home, cwd)
    before, mark, after = text.partition("=")
    if mark and after and not folder.exists():
        if name is not None and name != before:
            raise UsageError(f"{before!r} and --id {name!r} are two ids; give one.")
        name, folder = before, _absolute(after, home, cwd)
    if not is_directory(folder):
        raise UsageError(f"{folder} {why_no_directory(folder)}; a base is a folder of Markdown. Create it first.")
    if name is None:
        name = _id_of(folder)
        if id_fault(name):
            raise UsageError(f"{folder} makes no good id; choose one with --id.")
    _check_id(name)
    return name, folder


def _check_id(name: str) -> None:
    if fault := id_fault(name):
        raise UsageError(f"{fault[0].upper()}{fault[1:]}.")


def _id_of(folder: Path) -> str:
    """Give an id after a folder; one that is called `knowledge` has a better name above it."""
    name = folder.name
    if name.lstrip(".") == "knowledge":
        name = folder.parent.name
    return _UNFIT.sub("-", name.removesuffix(".knowledge")).strip("-.")


def _absolute(text: str, home: Path, cwd: Path) -> Path:
    # Links stay: what the user calls a folder is what the config should say.
    return Path(os.path.abspath(expand(text, home, cwd)))  # noqa: PTH100 - pathlib keeps `..`


def _real_folder(text: str, home: Path, cwd: Path) -> str:
    folder = _absolute(text, home, cwd)
    if text == EVERYWHERE:
        return EVERYWHERE
    if not is_directory(folder):
        raise UsageError(f"--for {text}: {folder} {why_no_directory(folder)}; name the folder of the projects.")
    return str(folder)


def _refuse_other(
    settings: GlobalConfig, name: str, folder: Path, entry: dict[str, Any], path: Path, home: Path
) -> None:
    """Raise unless the config has neither the id nor the folder, or has both together as they are to be."""
    for other, had in settings.entries().items():
        its = expand(had.knowledge, home, path.parent)
        same = directory_identity(its) == directory_identity(folder)
        if other == name and not same:
            raise UsageError(
                f"The base {name!r} is {its} already. Choose another id with --id, or free this one first: "
                f"kbhub bases remove {name}."
            )
        if other == name and len(entry) > 1:
            whole = adapter(BaseEntry).dump_python(had, mode="json", by_alias=True)
            said = {key: value for key, value in whole.items() if key in entry}
            if {**said, "knowledge": None} != {**entry, "knowledge": None}:
                raise UsageError(
                    f"The base {name!r} is there already with other settings. Edit `bases.{name}` in {path}, or "
                    f"remove it first: kbhub bases remove {name}."
                )
        if other != name and same:
            raise UsageError(
                f"{folder} is the base {other!r} already. `kbhub bases rename {other} {name}` gives it another id."
            )


def _keys(settings: GlobalConfig, places: Sequence[str], folder: Path, home: Path) -> list[str]:
    """Give the entries of `repos` for some folders, as the config spells them if it has them."""
    keys = []
    for place in places or (EVERYWHERE,):
        known = [
            key
            for key in settings.repos
            if key != EVERYWHERE and os.path.realpath(expand(key, home, folder)) == os.path.realpath(place)
        ]
        keys.append(EVERYWHERE if place == EVERYWHERE else known[0] if known else portable(Path(place), home))
    return list(dict.fromkeys(keys))


def _activated(text: str, settings: GlobalConfig, key: str, name: str, path: Path) -> str:
    value = settings.repos.get(key)
    if value is None:
        return set_value(text, ["repos", key], [name], path)
    if name in settings.active_in(key):
        return text
    if isinstance(value, str):
        return set_value(text, ["repos", key], [value, name], path)
    return add_item(text, ["repos", key], name, path)


def _look_again(hub: Hub, name: str) -> tuple[GlobalConfig, bool]:
    bases = hub.rediscover().bases
    return hub.config().settings, any(name in (base.id, *base.names) for base in bases)


def _activity_notes(settings: GlobalConfig, name: str, folder: Path, home: Path) -> tuple[str, ...]:
    """Name the folders inside of those where a base is active that have an entry of their own without it."""
    places = places_of(settings, name)
    if EVERYWHERE in places:
        return ()
    real = {key: Path(os.path.realpath(expand(key, home, folder))) for key in settings.repos if key != EVERYWHERE}
    inner = [
        key
        for key, path in real.items()
        if key not in places and any(path.is_relative_to(real[place]) for place in places if place in real)
    ]
    return tuple(f"Not below {key}, which has an entry of its own in `repos`." for key in inner)
