"""The user's bases, and the global config file that names them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from kbhub.errors import UsageError
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.reading.lists import status
from kbhub.types import Origin
from kbhub.workspace.config import checked_config, config_path, folder_of
from kbhub.workspace.field_checks import nearest
from kbhub.workspace.jsonc import alone, edit_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kbhub.reading.reports import BaseStatus
    from kbhub.workspace.settings import GlobalConfig


def config_file(hub: Hub) -> Path:
    """Return the path of the global config in force, which need not exist yet."""
    return config_path(hub.options.config, hub.options.env, hub.options.home)[0]


def edit_config(hub: Hub, edit: Callable[[str, GlobalConfig], str]) -> bool:
    """Edit the global config in force and reload it; return whether anything changed.

    `edit` gets the text and its parsed settings. Invalid content is never written.
    """
    path, home = config_file(hub), hub.options.home

    def check(data: Any) -> None:
        checked_config(data, path, home)

    with alone(hub.trust.path.parent):
        # Reload, as the file may have been edited since.
        hub.rediscover()
        changed = edit_file(path, lambda text: edit(text, hub.config().settings), check)
    hub.rediscover()
    return changed


def team_engine() -> Any:
    """Return the module that publishes and manages shared bases; `UsageError` if its driver is not installed."""
    try:
        from kbhub.sync import publish  # noqa: PLC0415 - the driver is an extra
    except ModuleNotFoundError as error:
        raise UsageError("Shared bases need the extra `postgres`. Install kbhub[postgres].") from error
    return publish


def portable(folder: Path, home: Path) -> str:
    """Return a path relative to `~` if it is below the home directory, to be valid on other machines too."""
    for above in (home, Path(os.path.realpath(home))):
        if folder.is_relative_to(above):
            inside = folder.relative_to(above).as_posix()
            return "~" if inside == "." else f"~/{inside}"
    return str(folder)


def places_of(settings: GlobalConfig, name: str) -> tuple[str, ...]:
    """Return the entries of `repos` that include a base."""
    return tuple(key for key in settings.repos if name in settings.active_in(key))


def unknown_base(name: str, known: Iterable[str]) -> UsageError:
    """Return the error for an unknown base id, with the most similar known one."""
    names = list(known)
    near = nearest(name, names)
    if near:
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
    """What `kbhub bases list` shows."""

    config: Path = Field(description="The global config, which need not exist.")
    bases: tuple[KnownBase, ...] = Field((), description="The project base first, then by id.")


def list_bases(hub: Hub) -> KnownBases:
    """Return all bases in the global config, active here or not, and any others that are active here."""
    settings, path = hub.config().settings, config_file(hub)
    active = {name for base in hub.discovery().bases for name in (base.id, *base.names)}
    everywhere = status(Hub(replace(hub.options, every_base=True)))
    bases = [_known(base, settings, active) for base in everywhere.bases]
    listed = {name for base in everywhere.bases for name in (base.base.id, *base.base.names)}
    problems = {problem.subject: problem.message for problem in everywhere.problems}
    for name, entry in settings.entries().items():
        if name not in listed:
            folder = folder_of(name, entry, path.parent, hub.options.home, hub.options.env)
            places = places_of(settings, name)
            bases.append(
                KnownBase(
                    id=name,
                    path=folder,
                    engine=entry.engine,
                    origin="config",
                    active=False,
                    places=places,
                    problem=problems.get(name),
                )
            )
    return KnownBases(config=path, bases=tuple(sorted(bases, key=lambda base: (base.id != "project", base.id))))


def show_base(hub: Hub, name: str) -> KnownBase:
    """Return the base of `list_bases` with an id, or with an alias if the base is active."""
    bases = {base.id: base for base in list_bases(hub).bases}
    if name in bases:
        return bases[name]
    alias = next((base.id for base in hub.discovery().bases if name in base.names), None)
    if alias in bases:
        return bases[alias]
    raise unknown_base(name, list(bases))


def _known(status: BaseStatus, settings: GlobalConfig, active: set[str]) -> KnownBase:
    base = status.base
    names = (base.id, *base.names)
    return KnownBase(
        id=base.id,
        path=base.path,
        engine=base.place if base.engine else None,
        origin=base.origin,
        active=any(name in active for name in names),
        places=tuple(dict.fromkeys(place for name in names for place in places_of(settings, name))),
        name=base.name,
        description=base.description,
        writable=base.writable,
        weight=base.weight,
        include=base.include,
        exclude=base.exclude,
        contexts=base.contexts,
        documents=status.documents,
        index=status.index,
        index_bytes=status.index_bytes,
        synced=status.synced,
    )
