"""The bases that the user has: those of the global config, active here or not, and the others that are active here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.own_config import config_file, places_of, unknown_base
from kbhub.places import expand
from kbhub.types import Origin

if TYPE_CHECKING:
    from kbhub.config import GlobalConfig
    from kbhub.reports import BaseStatus


class KnownBase(Model):
    """A base that the global config names, or that is active here."""

    id: str = Field(description="Its id.")
    path: Path = Field(description="Its folder.")
    origin: Origin = Field(description="How it was found.")
    active: bool = Field(description="Whether it is active in this workspace.")
    places: tuple[str, ...] = Field((), description="Entries of `repos` that name it; `*` is every project.")
    name: str | None = Field(None, description="Readable name.")
    description: str | None = Field(None, description="What it is about.")
    writable: bool = Field(False, description="Whether agents may write documents in it.")
    weight: float = Field(1.0, description="Factor on the score of its hits.")
    include: tuple[str, ...] = Field((), description="Patterns of further files to take.")
    exclude: tuple[str, ...] = Field((), description="Patterns of files to leave out.")
    contexts: dict[str, str] = Field(default_factory=dict, description="Path prefix → what lies there.")
    documents: int = Field(0, description="Documents in its index.")
    index: Path | None = Field(None, description="The index file; none if there is none yet.")
    index_bytes: int = Field(0, description="Its size.")
    synced: str | None = Field(None, description="When it was last brought in step (ISO 8601, UTC).")
    problem: str | None = Field(None, description="Why it cannot be used, and what to do.")


class KnownBases(Model):
    """What `kbhub bases list` shows."""

    config: Path = Field(description="The global config, which need not exist.")
    bases: tuple[KnownBase, ...] = Field((), description="The project base first, then by id.")


def list_bases(hub: Hub) -> KnownBases:
    """Give every base of the global config, active here or not, and the others that are active here."""
    settings, path = hub.config().settings, config_file(hub)
    active = {name for base in hub.discovery().bases for name in (base.id, *base.names)}
    everywhere = Hub(replace(hub.options, every_base=True)).status()
    known = [_known(one, settings, active) for one in everywhere.bases]
    there = {name for one in everywhere.bases for name in (one.base.id, *one.base.names)}
    problems = {problem.subject: problem.message for problem in everywhere.problems}
    for name, entry in settings.entries().items():
        if name not in there:
            folder = expand(entry.knowledge, hub.options.home, path.parent)
            places = places_of(settings, name)
            known.append(
                KnownBase(
                    id=name, path=folder, origin="config", active=False, places=places, problem=problems.get(name)
                )
            )
    return KnownBases(config=path, bases=tuple(sorted(known, key=lambda one: (one.id != "project", one.id))))


def show_base(hub: Hub, name: str) -> KnownBase:
    """Give one base of `list_bases`, by its id.

    Raises:
        UsageError: there is none of this id.
    """
    listed = list_bases(hub)
    found = next((one for one in listed.bases if one.id == name), None)
    if found is None:
        united = next((base for base in hub.discovery().bases if name in base.names), None)
        found = next((one for one in listed.bases if united and one.id == united.id), None)
    if found is None:
        raise unknown_base(name, [one.id for one in listed.bases])
    return found


def _known(one: BaseStatus, settings: GlobalConfig, active: set[str]) -> KnownBase:
    base = one.base
    names = (base.id, *base.names)
    return KnownBase(
        id=base.id,
        path=base.path,
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
        documents=one.documents,
        index=one.index,
        index_bytes=one.index_bytes,
        synced=one.synced,
    )
