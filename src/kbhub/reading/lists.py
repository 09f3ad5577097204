"""List bases with their state, and their documents, from the indexes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from kbhub import __version__
from kbhub.documents.filters import parse_rules
from kbhub.documents.walk import inside_of
from kbhub.errors import BaseNotFound, BaseUnavailable, EmbedderError, IndexUnavailable, UsageError
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.index.engine import DocumentRow
from kbhub.index.references import DOCID_DIGITS, ref_of
from kbhub.index.sqlite.index import NOT_THERE
from kbhub.reading.reports import BaseStatus, Status
from kbhub.sync.background import embedded
from kbhub.sync.freshness import Freshness, passed_over, why_unread
from kbhub.types import Base, Kind, Problem, Skipped
from kbhub.values import shared_start
from kbhub.workspace.discovery import covers, matching, plain
from kbhub.workspace.files import is_directory

WILD = frozenset("*?[")


def status(hub: Hub) -> Status:
    """Return the status of a workspace: its bases and problems."""
    config, discovery = hub.config(), hub.discovery()
    problems = list(discovery.problems)
    name = "none: keyword search only"
    try:
        if embedder := hub.embedder():
            name = embedder.name
    except EmbedderError as error:
        problems.append(Problem(subject="embedder.model", message=str(error)))
    return Status(
        version=__version__,
        workspace=discovery.workspace,
        config=config.path,
        embedder=name,
        bases=tuple(_base_status(hub, base) for base in discovery.bases),
        problems=tuple(problems),
        looked_for=discovery.looked_for,
    )


def _base_status(hub: Hub, base: Base) -> BaseStatus:
    index, state = hub.index(base), hub.state(Freshness)
    progress, failure = state.progress.get(base.id), state.failed.get(base.id)
    indexing = f"{progress[0]} of {progress[1]} files" if progress else None
    problems = [] if is_directory(base.path) else [Problem(subject=base.id, message=f"{base.path} is gone.")]
    if failure:
        problems.append(Problem(subject=base.id, message=failure))
    try:
        with index.snapshot():
            documents, chunks, vectors = index.counts()
            problems += [Problem(subject=path, message=message) for path, message in index.problems()]
            synced = index.meta("synced")
            index_bytes = 0 if base.engine else index.path.stat().st_size
    except (FileNotFoundError, IndexUnavailable) as error:  # no file: it has just been moved aside
        if isinstance(error, IndexUnavailable) and error.reason != NOT_THERE and not failure:
            problems.append(Problem(subject=base.id, message=error.alone))
        return BaseStatus(base=base, indexing=indexing, problems=tuple(problems))
    return BaseStatus(
        base=base, documents=documents, chunks=chunks, vectors=vectors, index_bytes=index_bytes, synced=synced,
        reranked=embedded(hub, base) if hub.transformer() else None, index=None if base.engine else index.path,
        passed_over=passed_over(hub, base), indexing=indexing, problems=tuple(problems),
    )  # fmt: skip


def typed_into(here: Path | None, path: str, bases: Iterable[Base]) -> list[tuple[Base, str]]:
    """Return the bases that a path leads into, each with the path in it, innermost first.

    The path may be any string, relative to the directory `here`; without one (None) it leads nowhere.
    """
    if here is None or not path or "\0" in path:
        return []
    whole = os.path.normpath(os.path.join(here, path))  # noqa: PTH118 - any string comes here
    folder, name = os.path.split(whole)
    # Bases have real paths. A symlink within a base is a document of its own; one to the base is the base.
    reals = dict.fromkeys((os.path.join(os.path.realpath(folder), name), os.path.realpath(whole)))  # noqa: PTH118
    places = [
        (base, inside.replace(os.sep, "/"))
        for real in reals
        for base in bases
        if (inside := inside_of(str(base.path), real)) is not None
    ]
    return sorted(places, key=lambda place: len(place[0].path.parts), reverse=True)


class Listed(Model):
    """One document of a listing."""

    ref: str = Field(description="`path.md` in the project base, `id@path.md` in another.")
    docid: str = Field(description="Short id of the document, `#a1b2c3`.")
    base: str = Field(description="Id of its base.")
    path: str = Field(description="Path in the base.")
    title: str = Field(description="Title of the document.")
    date: str | None = Field(None, description="Front matter `updated` or `date`, last commit or change (ISO 8601).")
    tags: tuple[str, ...] = Field((), description="Its tags.")
    kind: Kind = Field("document", description="What it is.")
    size: int = Field(0, description="Bytes of the file.")
    contexts: tuple[str, ...] = Field((), description="Descriptions of its path, the most general first.")


class Documents(Model):
    """What `kbhub ls` lists."""

    documents: tuple[Listed, ...] = Field((), description="By base, then by path.")
    skipped: tuple[Skipped, ...] = Field((), description="Bases that could not be listed, and why.")


def list_documents(hub: Hub, place: str | None = None) -> Documents:
    """List the documents of a base, of a folder in one, or of all active bases.

    A place is BASE, BASE/PATH, BASE@PATH, a path in the project base, or one relative to the shell's directory; the
    path may be a folder, a document or, in a base, a pattern as in `.gitignore`. None lists everything.

    Raises `UsageError` if the path leads out of its base; `BaseNotFound` if there is no such base, and no project base
    to contain the path.
    """
    meanings, bases = _meanings(hub, place), hub.select()
    skipped: dict[str, Skipped] = {}
    rows: dict[str, list[DocumentRow]] = {}
    for base in bases:
        try:
            if not is_directory(base.path):
                raise BaseUnavailable(base.id, f"{base.path} is gone")
            with hub.index(base).snapshot() as index:
                rows[base.id] = index.every_document()
        except (BaseUnavailable, IndexUnavailable) as error:
            skipped[base.id] = Skipped(base=base.id, reason=why_unread(hub, error))
    short = short_docids(row.docid for every in rows.values() for row in every)
    everywhere = hub.config().settings.contexts
    documents: list[tuple[Base, DocumentRow]] = []
    for chosen, path in meanings:
        if documents := [(base, row) for base in chosen for row in _matching(rows.get(base.id, ()), path)]:
            break
    listed = [
        Listed(
            ref=ref_of(base, row.path, bases), docid=short[row.docid], base=base.id, path=row.path, title=row.title,
            date=date_of(row), tags=row.tags, kind=row.kind, size=row.size,
            contexts=matching(base.contexts, everywhere, row.path),
        )
        for base, row in documents
    ]  # fmt: skip
    lacking = [skipped[base.id] for base in (chosen if documents else meanings[0][0]) if base.id in skipped]
    return Documents(documents=tuple(listed), skipped=tuple(lacking))


def short_docids(docids: Iterable[str]) -> dict[str, str]:
    """Return full docid → unique short form, `#` and digits, given all full docids of the active bases."""
    ordered = sorted(set(docids))
    short = {}
    for place, docid in enumerate(ordered):
        neighbours = [*ordered[max(0, place - 1) : place], *ordered[place + 1 : place + 2]]
        same = max((len(shared_start(docid, other)) for other in neighbours), default=0)
        short[docid] = f"#{docid[: max(DOCID_DIGITS, same + 1)]}"
    return short


def _meanings(hub: Hub, place: str | None) -> list[tuple[tuple[Base, ...], str]]:
    """Return the bases a place may be in, each time with the path in them, likeliest first."""
    typed = [((base,), path) for base, path in typed_into(hub.options.typed_in, place or "", hub.select())]
    try:
        return [_chosen(hub, place), *typed]
    except (UsageError, BaseNotFound):
        if not typed:
            raise
        return list(typed)


def _chosen(hub: Hub, place: str | None) -> tuple[tuple[Base, ...], str]:
    """Return the bases that a place is in, and the path in them."""
    bases = hub.select()
    if not place:
        return bases, ""
    for mark in ("@", "/"):
        name, _, path = place.partition(mark)
        for base in bases:
            if name in (base.id, *base.names):
                return (base,), _contained(path)
    project = tuple(base for base in bases if base.id == "project")
    wild = not WILD.isdisjoint(place.partition("/")[0])
    if not project and not wild:
        hub.select((place.partition("/")[0],))  # raises an error that lists the bases
    return (bases if wild else project), _contained(place)


def _contained(path: str) -> str:
    if ".." in path.split("/"):
        raise UsageError(f"{path!r} leads out of its base.")
    return plain(path)


def _matching(rows: Sequence[DocumentRow], path: str) -> list[DocumentRow]:
    exact = [row for row in rows if covers(path, row.path)]
    if exact or WILD.isdisjoint(path):
        return exact
    rules = parse_rules((path,), "the pattern")
    return [row for row in rows if any(rule.matches(row.path, directory=False) for rule in rules)]


def date_of(row: DocumentRow) -> str | None:
    """Return a document's own date, else that of its last commit, else of its mtime."""
    stored = row.committed if row.dated is None else row.dated
    moment = abs(row.mtime_ns) / 1e9 if stored is None else stored
    with suppress(OverflowError, ValueError, OSError):  # mtimes can be of any year
        return datetime.fromtimestamp(moment, UTC).date().isoformat()
    return None
