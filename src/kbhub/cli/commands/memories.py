"""What agents and you remember: remember, memories, recall, forget."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub.cli.app import misspelt
from kbhub.cli.options import Exact, Formats, Reply, argument, command, decoded, optional, standard_input
from kbhub.errors import UsageError
from kbhub.hub import Hub
from kbhub.memory import changes, lists, transfer
from kbhub.memory.files import MAX_TEXT_BYTES
from kbhub.memory.results import Exported, Forgotten, Moved, Remembered, TrashedList
from kbhub.memory.transfer import MAX_IMPORT_BYTES
from kbhub.render.memories import forgotten_report, memories_report, remembered_report, transfer_report, trashed_report
from kbhub.render.terminal import json_escaped
from kbhub.workspace.files import expand

MOST_LISTED = 1000
"""Memories of one list at most; `kbhub memories export` gives all."""

Tags = Annotated[tuple[str, ...], Parameter(name="--tag", metavar="TAG")]
Namespace = Annotated[str | None, Parameter(metavar="A/B")]
Limit = Annotated[int | None, Parameter(name=("--limit", "-n"), metavar="N", validator=Number(gte=1, lte=MOST_LISTED))]
AnyScope = Literal["project", "user", "shared", "team"]

RECALLED = 3
"""Memories that `recall` prints, unless it is asked for more: all of their text is shown."""


@command(remembered_report)
def remember(
    hub: Hub,
    *text: str,
    stdin: Annotated[bool, Parameter(name="-")] = False,
    tags: Tags = (),
    scope: AnyScope | None = None,
    about: Annotated[tuple[str, ...], Parameter(metavar="WHAT")] = (),
    id_: Annotated[str | None, Parameter(metavar="ID")] = None,
    supersedes: Annotated[tuple[str, ...], Parameter(metavar="ID")] = (),
    namespace: Namespace = None,
    origin: Annotated[str | None, Parameter(name="--from", metavar="TEXT")] = None,
    rejected: Annotated[bool | None, Parameter(negative="--no-rejected")] = None,
    misleading: bool = False,
    allow_secret: bool = False,
) -> Remembered:
    """Remember something, or change or confirm a memory.

    It is for this project unless --scope says otherwise, and a Markdown file that you can edit or delete. A fact that
    is already known is strengthened, not stored twice.

    Example: kbhub remember --tag deploy "Releases need the VPN; without it the upload hangs."

    Args:
        text: What to remember, in Markdown. With --id, the new text; without text, --id confirms the memory.
        stdin: Read the text from standard input.
        tags: Add this tag; may be repeated. With --id, replaces the old tags.
        scope: Where it applies: this project (default), all your projects, or shared in the project's memories/.
        about: Document (PATH, ID@PATH, PATH#Heading) or code (FILE, FILE::SYMBOL) it is about; may be repeated.
        id_: Change or confirm this memory.
        supersedes: Replace this older memory; may be repeated.
        namespace: File it under this namespace.
        origin: What it was learned from, as text.
        rejected: Remember a way that was tried, and not taken; say why.
        misleading: With --id alone, weaken the memory and keep it out of hooks until it is confirmed or changed.
        allow_secret: Store it even if it looks like it contains a credential.
    """
    if stdin and text:
        raise UsageError("Give the text as an argument, or `-` to read it from standard input, not both.")
    said = " ".join(map(argument, text)) if text else None
    return changes.remember(
        hub,
        standard_input(MAX_TEXT_BYTES, "a memory") if stdin else said,
        tags=tuple(map(argument, tags)),
        scope=scope,
        about=tuple(map(argument, about)),
        id=id_,
        supersedes=supersedes,
        namespace=optional(namespace),
        origin=optional(origin),
        rejected=rejected,
        misleading=misleading,
        allow_secret=allow_secret,
    )


@command(memories_report, options=Formats)
def memories(
    hub: Hub,
    *query: str,
    scope: AnyScope | None = None,
    tags: Tags = (),
    namespace: Namespace = None,
    limit: Limit = None,
) -> Reply:
    """List the memories active here, strongest first, or search them.

    Example: kbhub memories list --tag deploy

    Args:
        query: What to search for.
        scope: Only memories of this scope.
        tags: Only memories with this tag; may be repeated.
        namespace: Only memories in or below this namespace.
        limit: Memories to show (20).
    """
    words = " ".join(map(decoded, query)) or None
    found = lists.memories(hub, words, scope=scope, tags=tags, namespace=namespace, limit=limit or lists.LISTED)
    hints = []
    if not found.memories:
        hints.append("No memory matches. Add one with `kbhub remember TEXT`.")
    elif found.total > len(found.memories):
        hints.append(f"Showing {len(found.memories)} of {found.total} memories; --limit shows more.")
    hints += misspelt(query, "memories") if len(query) == 1 or not found.memories else []
    return Reply(found, hints=hints)


@command(options=Formats)
def recall(
    hub: Hub,
    *query: str,
    scope: AnyScope | None = None,
    tags: Tags = (),
    namespace: Namespace = None,
    limit: Limit = None,
) -> Reply:
    """Print the best matching memories in full.

    Example: kbhub recall how do we release

    Args:
        query: What to search for.
        scope: Only memories of this scope.
        tags: Only memories with this tag; may be repeated.
        namespace: Only memories in or below this namespace.
        limit: Memories to show (3).

    Returns:
        The exit code: 1 if none matches.
    """
    words = " ".join(map(decoded, query))
    if not words.strip():
        raise UsageError("Nothing to search for. Usage: kbhub recall QUERY. `kbhub memories` lists all.")
    found = lists.memories(hub, words, scope=scope, tags=tags, namespace=namespace, limit=limit or RECALLED, whole=True)
    notes = () if found.memories else ("No memory matches. List all with `kbhub memories`.",)
    return Reply(found, memories_report(found, whole=True), notes=notes, code=1 if notes else 0)


@command(forgotten_report)
def forget(
    hub: Hub,
    *ids: Annotated[str, Parameter(name="ID")],
    tags: Tags = (),
    namespace: Namespace = None,
    scope: AnyScope | None = None,
    older_than: Annotated[float | None, Parameter(metavar="DAYS", validator=Number(gte=0))] = None,
    all_: bool = False,
) -> Forgotten:
    """Forget memories, by id or by filter.

    Their files stay in the trash for a while.

    Example: kbhub forget --namespace ops/old --older-than 90

    Args:
        ids: Ids, refs or file names.
        tags: Forget memories with this tag; may be repeated.
        namespace: Forget memories in or below this namespace; no patterns.
        scope: Forget memories of this scope (filters: this project's).
        older_than: Forget memories not used or changed for this many days.
        all_: Forget all memories of the scope, or all that match the filters.
    """
    return changes.forget(hub, ids, tags=tags, namespace=namespace, scope=scope, older_than=older_than, everything=all_)


@command(lambda found: Exact(f"{json_escaped(found.model_dump_json(indent=2))}\n"))
def export(hub: Hub, *, scope: AnyScope | None = None, allow_secret: bool = False) -> Exported:
    """Print all memories as one JSON document. Text that looks like a credential is left out.

    Example: kbhub memories export > memories.json

    Args:
        scope: Only memories of this scope.
        allow_secret: Keep text that looks like a credential.
    """
    return transfer.export(hub, scope=scope, allow_secret=allow_secret)


@command(transfer_report)
def import_(
    hub: Hub,
    path: str | None = None,
    /,
    *,
    stdin: Annotated[bool, Parameter(name="-")] = False,
    scope: AnyScope | None = None,
    allow_secret: bool = False,
) -> Reply:
    """Import memories from an export, a basic-memory folder, or the file of an MCP memory server.

    Existing memories are not changed.

    Example: kbhub memories import ~/basic-memory

    Args:
        path: The export or the .jsonl file, or the folder.
        stdin: Read the export or the .jsonl file from standard input.
        scope: Scope for the memories; by default, an export keeps its scopes, and everything else goes to this project.
        allow_secret: Also import what looks like it contains a credential.

    Returns:
        The exit code: 1 if some could not be imported.
    """
    if stdin == (path is not None):
        raise UsageError("Nothing to import. Name a file or folder, or `-` to read standard input.")
    try:
        source = (
            expand(path, hub.options.home, hub.options.cwd) if path else standard_input(MAX_IMPORT_BYTES, "an import")
        )
        done = transfer.import_(hub, source, scope=scope, allow_secret=allow_secret)
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from error
    return Reply(done, notes=[one.text for one in done.failed], code=1 if done.failed else 0)


@command(transfer_report)
def move(hub: Hub, old: str, /) -> Moved:
    """Move the memories of another folder or project to this project.

    Use it after moving or renaming a folder without git, or changing a project's origin.

    Example: kbhub memories move ~/old/place/of/the/project

    Args:
        old: Former path of the folder, which need not exist anymore, or the key its memories are stored under.
    """
    return transfer.move(hub, old)


@command()
def restore(hub: Hub, name: Annotated[str | None, Parameter(name="ID")] = None, /) -> Reply:
    """Restore a forgotten memory, or list those that can be restored.

    Example: kbhub memories restore 37els4kp

    Args:
        name: Its id, or its path in the trash; without it, list the forgotten memories.
    """
    if name is None:
        found = lists.trashed(hub)
        return Reply(TrashedList(memories=found), trashed_report(found))
    memory = lists.restore(hub, name)
    return Reply(memory, f"Restored {memory.ref}: {memory.title}")
