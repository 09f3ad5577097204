"""What the commands about memories do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.cli.console import complain, show_json, show_text
from kbhub.cli.hubs import decoded, hub_options
from kbhub.cli.output import present
from kbhub.cli.texts import argument, optional, standard_input
from kbhub.errors import UsageError
from kbhub.hub import Hub
from kbhub.memory.documents import MAX_TEXT_BYTES
from kbhub.memory.forgetting import forget as forget_memories
from kbhub.memory.listing import LISTED
from kbhub.memory.listing import memories as list_memories
from kbhub.memory.moving import move as move_memories
from kbhub.memory.remember import remember as remember_text
from kbhub.memory.transfer import MAX_IMPORT_BYTES
from kbhub.memory.transfer import export as export_memories
from kbhub.memory.transfer import import_ as import_memories
from kbhub.places import expand
from kbhub.render.memories import (
    forgotten_text,
    imported_text,
    memories_listing,
    memories_text,
    moved_text,
    recalled_text,
    remembered_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.cli.options import Common, Formats
    from kbhub.memory.folders import Scope

RECALLED = 3
"""Memories that `recall` prints, unless it is asked for more: all of their text is shown."""


def remember(
    words: Sequence[str],
    *,
    stdin: bool,
    tags: tuple[str, ...],
    scope: Scope | None,
    about: tuple[str, ...],
    name: str | None,
    supersedes: tuple[str, ...],
    namespace: str | None,
    origin: str | None,
    common: Common,
) -> int:
    """Remember a text, or change or confirm what is remembered, and say what was done."""
    if stdin and words:
        raise UsageError("Give the text, or `-` to read it from standard input, not both.")
    text = standard_input(MAX_TEXT_BYTES, "a memory") if stdin else " ".join(map(argument, words)) if words else None
    done = remember_text(
        Hub(hub_options(common)),
        text,
        tags=tuple(map(argument, tags)),
        scope=scope,
        about=tuple(map(argument, about)),
        id=name,
        supersedes=supersedes,
        namespace=optional(namespace),
        origin=optional(origin),
    )
    if common.json:
        show_json(done.model_dump_json(indent=2))
    else:
        show_text(remembered_text(done))
    return 0


def memories(
    words: Sequence[str],
    *,
    scope: Scope | None,
    tags: tuple[str, ...],
    namespace: str | None,
    limit: int | None,
    formats: Formats,
) -> int:
    """Print memories, listed or found."""
    formats.format()
    found = list_memories(
        Hub(hub_options(formats)),
        " ".join(map(decoded, words)) or None,
        scope=scope,
        tags=tags,
        namespace=namespace,
        limit=limit or LISTED,
    )
    present(
        formats,
        lambda: memories_listing(found),
        lambda: memories_text(found),
        document=found.model_dump_json(indent=2),
    )
    for note in found.notes:
        complain(note)
    if not found.memories:
        complain("Nothing is remembered here that fits. `kbhub remember TEXT` remembers something.")
    elif found.total > len(found.memories):
        complain(f"{len(found.memories)} of {found.total} memories; --limit shows more.")
    return 0


def recall(
    words: Sequence[str],
    *,
    scope: Scope | None,
    tags: tuple[str, ...],
    namespace: str | None,
    limit: int | None,
    formats: Formats,
) -> int:
    """Print the memories that answer a query best, whole; 1 if none does."""
    formats.format()
    query = " ".join(map(decoded, words))
    if not query.strip():
        raise UsageError("Nothing to recall. Name it: kbhub recall WORDS; `kbhub memories` lists what is remembered.")
    hub = Hub(hub_options(formats))
    found = list_memories(hub, query, scope=scope, tags=tags, namespace=namespace, limit=limit or RECALLED, whole=True)
    present(
        formats,
        lambda: memories_listing(found),
        lambda: recalled_text(found),
        document=found.model_dump_json(indent=2),
    )
    if not found.memories and not formats.json:
        complain("No memory answers that.")
    return 0 if found.memories else 1


def forget(
    ids: Sequence[str],
    *,
    tags: tuple[str, ...],
    namespace: str | None,
    scope: Scope | None,
    older_than: float | None,
    everything: bool,
    common: Common,
) -> int:
    """Forget memories and say which."""
    done = forget_memories(
        Hub(hub_options(common)),
        ids,
        tags=tags,
        namespace=namespace,
        scope=scope,
        older_than=older_than,
        everything=everything,
    )
    if common.json:
        show_json(done.model_dump_json(indent=2))
    else:
        show_text(forgotten_text(done))
    return 0


def export(*, scope: Scope | None, common: Common) -> int:
    """Print all memories as JSON, whether that is asked for or not."""
    show_json(export_memories(Hub(hub_options(common)), scope=scope).model_dump_json(indent=2))
    return 0


def import_(path: str | None, *, stdin: bool, scope: Scope | None, common: Common) -> int:
    """Take memories in; 1 if some could not be."""
    if stdin == (path is not None):
        raise UsageError("Name the file or folder to import, or `-` to read standard input.")
    hub = Hub(hub_options(common))
    try:
        source = (
            expand(path, hub.options.home, hub.options.cwd) if path else standard_input(MAX_IMPORT_BYTES, "an import")
        )
        done = import_memories(hub, source, scope=scope)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    if common.json:
        show_json(done.model_dump_json(indent=2))
    else:
        show_text(imported_text(done))
        for problem in done.failed:
            complain(f"{problem.subject}: {problem.message}")
    return 1 if done.failed else 0


def move(old: str, *, common: Common) -> int:
    """Take another folder's memories over."""
    done = move_memories(Hub(hub_options(common)), old)
    if common.json:
        show_json(done.model_dump_json(indent=2))
    else:
        show_text(moved_text(done))
    return 0
