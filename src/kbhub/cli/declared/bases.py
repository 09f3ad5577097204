"""Your own bases: bases, ls, context, cleanup."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from kbhub.cli import commands
from kbhub.cli.app import app
from kbhub.cli.options import Common, Formats

bases_app = App(
    name="bases",
    help="List, add, remove and rename your own bases, in ~/.kbhub.json.\n\nWithout a command, `list`.",
    usage="kbhub bases [COMMAND]",
)
context_app = App(
    name="context",
    help="Say what lies where, for people and agents.\n\nWithout a command, `list`.",
    usage="kbhub context [COMMAND]",
)
app.command(bases_app)
app.command(context_app)


@bases_app.command(name="list", usage="kbhub bases list [OPTIONS]")
def list_(*, formats: Formats = Formats()) -> int:  # noqa: B008 - frozen
    """List your own bases, active here or not, and the others that are active here.

    Example: kbhub bases list --csv
    """
    return commands.bases.list_(formats=formats)


@bases_app.command(name="add", usage="kbhub bases add [OPTIONS] PATH|ID=PATH")
def add(
    path: Annotated[str, Parameter(metavar="PATH|ID=PATH")],
    /,
    *,
    id_: Annotated[str | None, Parameter(name="--id", metavar="ID")] = None,
    for_: Annotated[tuple[str, ...], Parameter(name="--for", metavar="DIR")] = (),
    include: Annotated[tuple[str, ...], Parameter(metavar="PATTERN")] = (),
    exclude: Annotated[tuple[str, ...], Parameter(metavar="PATTERN")] = (),
    name: Annotated[str | None, Parameter(metavar="NAME")] = None,
    description: Annotated[str | None, Parameter(metavar="TEXT")] = None,
    writable: bool = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Add a folder of Markdown as a base of your own.

    It is active in every project, or in those below the folders that --for names. Comments and everything else in
    ~/.kbhub.json stay as they are.

    Example: kbhub bases add ops=~/work/handbook --for ~/work

    Args:
        path: The folder; its name is the id, unless ID= stands before it.
        id_: Id in refs and filters.
        for_: Active in this folder and below it only; may be repeated.
        include: Pattern of files to take besides Markdown, as in .gitignore; may be repeated.
        exclude: Pattern of files to leave out, as in .gitignore; may be repeated.
        name: Readable name.
        description: What it is about, for people and agents.
        writable: Let agents write documents in it.
        common: Options of every command.
    """
    return commands.bases.add(
        path,
        name_id=id_,
        places=for_,
        include=include,
        exclude=exclude,
        name=name,
        description=description,
        writable=writable,
        common=common,
    )


@bases_app.command(name="remove", usage="kbhub bases remove [OPTIONS] ID")
def remove(id_: Annotated[str, Parameter(metavar="ID")], /, *, common: Common = Common()) -> int:  # noqa: B008 - frozen
    """Take a base out of ~/.kbhub.json; its documents are not touched.

    Example: kbhub bases remove ops

    Args:
        id_: Its id.
        common: Options of every command.
    """
    return commands.bases.remove(id_, common=common)


@bases_app.command(name="rename", usage="kbhub bases rename [OPTIONS] OLD NEW")
def rename(
    old: Annotated[str, Parameter(metavar="OLD")],
    new: Annotated[str, Parameter(metavar="NEW")],
    /,
    *,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Give a base another id; its folder and index stay.

    Example: kbhub bases rename ops operations

    Args:
        old: Its id.
        new: The id that it is to have.
        common: Options of every command.
    """
    return commands.bases.rename(old, new, common=common)


@bases_app.command(name="show", usage="kbhub bases show [OPTIONS] ID")
def show(id_: Annotated[str, Parameter(metavar="ID")], /, *, common: Common = Common()) -> int:  # noqa: B008 - frozen
    """Show all there is to know of a base.

    Example: kbhub bases show ops

    Args:
        id_: Its id.
        common: Options of every command.
    """
    return commands.bases.show(id_, common=common)


@app.command(name="ls", usage="kbhub ls [OPTIONS] [BASE[/PATH]]")
def ls(
    place: Annotated[str | None, Parameter(metavar="BASE[/PATH]")] = None,
    /,
    *,
    formats: Formats = Formats(),  # noqa: B008 - frozen
) -> int:
    """List documents with their docids, titles, dates and tags.

    PATH is a folder, a document or a pattern (quote it). Without BASE it is a path in the project base, or else one
    from the working directory; without anything, all documents are listed.

    Example: kbhub ls 'ops/runbooks/*.md'

    Args:
        place: What to list.
        formats: Options of every command.
    """
    return commands.bases.ls(place, formats=formats)


@context_app.command(name="add", usage="kbhub context add [OPTIONS] [BASE[/PATH]] TEXT")
def add_context(
    place: Annotated[str, Parameter(metavar="BASE[/PATH]")],
    text: Annotated[str | None, Parameter(metavar="TEXT")] = None,
    /,
    *,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Say what lies in a base, or at a path in one.

    Searches show it with every hit from there. Inside a base's folder, PATH alone or nothing is enough; `/` is all
    bases. What was said of the same path before is replaced.

    Example: kbhub context add ops/runbooks "What to do when something is down"

    Args:
        place: What it is about; may be left out.
        text: What lies there.
        common: Options of every command.
    """
    where, said = (None, place) if text is None else (place, text)
    return commands.bases.add_context(where, said, common=common)


@context_app.command(name="list", usage="kbhub context list [OPTIONS] [BASE[/PATH]]")
def list_contexts(
    place: Annotated[str | None, Parameter(metavar="BASE[/PATH]")] = None,
    /,
    *,
    formats: Formats = Formats(),  # noqa: B008 - frozen
) -> int:
    """List what is said of bases and paths.

    Example: kbhub context list ops

    Args:
        place: Only what is about this, or about something in it.
        formats: Options of every command.
    """
    return commands.bases.list_contexts(place, formats=formats)


@context_app.command(name=("rm", "remove"), usage="kbhub context rm [OPTIONS] [BASE[/PATH]]")
def remove_context(
    place: Annotated[str | None, Parameter(metavar="BASE[/PATH]")] = None,
    /,
    *,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Take back what was said of a base or path.

    Example: kbhub context rm ops/runbooks

    Args:
        place: What it is about; inside a base's folder it may be left out.
        common: Options of every command.
    """
    return commands.bases.remove_context(place, common=common)


@app.command(name="cleanup", usage="kbhub cleanup [OPTIONS]")
def cleanup(
    *,
    yes: bool = False,
    dry_run: bool = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Delete what is not needed: indexes whose base is gone, what was set aside, corpora of `kbhub eval`, kept answers.

    Says what it would free and asks first. Documents, memories and configuration are never touched, nor is anything
    outside kbhub's cache directory.

    Example: kbhub cleanup --dry-run

    Args:
        yes: Do not ask.
        dry_run: Only say what would be deleted.
        common: Options of every command.
    """
    return commands.bases.cleanup(yes=yes, dry_run=dry_run, common=common)
