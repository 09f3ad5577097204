"""What agents and you remember: remember, memories, recall, forget."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from kbhub.cli import commands
from kbhub.cli.app import app
from kbhub.cli.options import Common, Formats

MOST_LISTED = 1000
"""Memories of one list at most; `kbhub memories export` gives all."""

memories_app = App(
    name="memories",
    help="List what is remembered, or search in it; export, import and move it.\n\n"
    "Example: kbhub memories --tag deploy",
    usage="kbhub memories [OPTIONS] [QUERY…] | COMMAND",
)
app.command(memories_app)

Tags = Annotated[tuple[str, ...], Parameter(name="--tag", metavar="TAG")]
Namespace = Annotated[str | None, Parameter(metavar="A/B")]
Limit = Annotated[int | None, Parameter(name=("--limit", "-n"), metavar="N", validator=Number(gte=1, lte=MOST_LISTED))]
AnyScope = Literal["project", "user", "shared"]


@app.command(usage="kbhub remember [OPTIONS] TEXT… | -")
def remember(
    *text: str,
    stdin: Annotated[bool, Parameter(name="-")] = False,
    tags: Tags = (),
    scope: AnyScope | None = None,
    about: Annotated[tuple[str, ...], Parameter(metavar="WHAT")] = (),
    id_: Annotated[str | None, Parameter(name="--id", metavar="ID")] = None,
    supersedes: Annotated[tuple[str, ...], Parameter(metavar="ID")] = (),
    namespace: Namespace = None,
    origin: Annotated[str | None, Parameter(name="--from", metavar="TEXT")] = None,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Remember something for this project, or change or confirm what is remembered.

    It is a Markdown file that you may edit or delete. What is known already is strengthened, not written twice.

    Example: kbhub remember --tag deploy "Releases need the VPN; without it the upload hangs."

    Args:
        text: What to remember, Markdown. With --id, the new text; without any, that memory is confirmed.
        stdin: Read what to remember from standard input.
        tags: A tag; may be repeated. With --id, these take the place of the old ones.
        scope: This project (as if not given), every project of yours, or shared in the project's memories/.
        about: A document (PATH, ID@PATH, PATH#Heading) or code (FILE, FILE::SYMBOL) it is about; may be repeated.
        id_: Change or confirm this memory.
        supersedes: An older memory that it takes the place of; may be repeated.
        namespace: Where to file it.
        origin: What it was learned from, in words.
        common: Options of every command.
    """
    return commands.memories.remember(
        text,
        stdin=stdin,
        tags=tags,
        scope=scope,
        about=about,
        name=id_,
        supersedes=supersedes,
        namespace=namespace,
        origin=origin,
        common=common,
    )


@memories_app.default
def memories(
    *query: str,
    scope: AnyScope | None = None,
    tags: Tags = (),
    namespace: Namespace = None,
    limit: Limit = None,
    formats: Formats = Formats(),  # noqa: B008 - frozen
) -> int:
    """List what is remembered here, the strongest first, or search in it.

    Example: kbhub memories --tag deploy

    Args:
        query: What to look for.
        scope: Only this project's, the user's or the shared ones.
        tags: Only those with this tag; may be repeated.
        namespace: Only those filed here or below.
        limit: Memories to show (20).
        formats: Options of every command.
    """
    return commands.memories.memories(query, scope=scope, tags=tags, namespace=namespace, limit=limit, formats=formats)


@memories_app.command(name="export", usage="kbhub memories export [OPTIONS]")
def export(*, scope: AnyScope | None = None, common: Common = Common()) -> int:  # noqa: B008 - frozen
    """Print all memories as one JSON document.

    Example: kbhub memories export > memories.json

    Args:
        scope: Only this project's, the user's or the shared ones.
        common: Options of every command.
    """
    return commands.memories.export(scope=scope, common=common)


@memories_app.command(name="import", usage="kbhub memories import [OPTIONS] PATH | -")
def import_(
    path: Annotated[str | None, Parameter(metavar="PATH")] = None,
    /,
    *,
    stdin: Annotated[bool, Parameter(name="-")] = False,
    scope: AnyScope | None = None,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Take memories in: an export, a folder of basic-memory, or the file of an MCP memory server.

    What is remembered already is left as it is.

    Example: kbhub memories import ~/basic-memory

    Args:
        path: The export or the .jsonl file, or the folder.
        stdin: Read the export or the .jsonl file from standard input.
        scope: Where to put them; without it, an export goes where it was, and the others into this project.
        common: Options of every command.
    """
    return commands.memories.import_(path, stdin=stdin, scope=scope, common=common)


@memories_app.command(name="move", usage="kbhub memories move [OPTIONS] OLD")
def move(old: Annotated[str, Parameter(metavar="OLD")], /, *, common: Common = Common()) -> int:  # noqa: B008 - frozen
    """Make another folder's or project's memories this project's.

    For a folder without git that was moved or renamed, or a project whose origin is another one now.

    Example: kbhub memories move ~/old/place/of/the/project

    Args:
        old: Path of the folder, which need not exist any more, or what its memories are filed under.
        common: Options of every command.
    """
    return commands.memories.move(old, common=common)


@app.command(usage="kbhub recall [OPTIONS] QUERY…")
def recall(
    *query: str,
    scope: AnyScope | None = None,
    tags: Tags = (),
    namespace: Namespace = None,
    limit: Limit = None,
    formats: Formats = Formats(),  # noqa: B008 - frozen
) -> int:
    """Print the memories that answer best, whole.

    Example: kbhub recall how do we release

    Args:
        query: What to look for.
        scope: Only this project's, the user's or the shared ones.
        tags: Only those with this tag; may be repeated.
        namespace: Only those filed here or below.
        limit: Memories to show (3).
        formats: Options of every command.
    """
    return commands.memories.recall(query, scope=scope, tags=tags, namespace=namespace, limit=limit, formats=formats)


@app.command(usage="kbhub forget [OPTIONS] [ID…]")
def forget(
    *ids: str,
    tags: Tags = (),
    namespace: Namespace = None,
    scope: AnyScope | None = None,
    older_than: Annotated[float | None, Parameter(metavar="DAYS", validator=Number(gte=0))] = None,
    all_: Annotated[bool, Parameter(name="--all")] = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Forget memories by id, or those that a filter chooses. Their files are kept in the trash for a while.

    Example: kbhub forget --namespace ops/old --older-than 90

    Args:
        ids: Ids, refs or file names.
        tags: Those with this tag; may be repeated.
        namespace: Those filed here or below; never a pattern.
        scope: Whose; a filter without it is about this project's.
        older_than: Those not used or changed for so many days.
        all_: Forget everything of the scope, or whatever the filter chooses.
        common: Options of every command.
    """
    return commands.memories.forget(
        ids, tags=tags, namespace=namespace, scope=scope, older_than=older_than, everything=all_, common=common
    )
