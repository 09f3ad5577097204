"""Your own bases: bases, ls, context, cleanup."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from kbhub.cli.app import confirmed, page, terminal_width
from kbhub.cli.options import Common, Formats, Reply, command
from kbhub.errors import UsageError
from kbhub.hub import Hub
from kbhub.render import bases as reports
from kbhub.render.terminal import size_text, visible_line
from kbhub.render.terminal import text as text_of
from kbhub.setup import bases, contexts
from kbhub.setup.cache import delete, examine_cache
from kbhub.setup.found import add_found, add_package


@command(reports.bases_report, options=Formats)
def list_(hub: Hub) -> bases.KnownBases:
    """List all your bases, and any others that are active here.

    Example: kbhub base list --csv
    """
    return bases.list_bases(hub)


@command()
def add(
    hub: Hub,
    path: Annotated[str | None, Parameter(name="DIR|ID=DIR")] = None,
    /,
    *,
    id_: Annotated[str | None, Parameter(metavar="ID")] = None,
    for_: Annotated[tuple[str, ...], Parameter(metavar="DIR")] = (),
    include: Annotated[tuple[str, ...], Parameter(metavar="PATTERN")] = (),
    exclude: Annotated[tuple[str, ...], Parameter(metavar="PATTERN")] = (),
    name: Annotated[str | None, Parameter(metavar="NAME")] = None,
    description: Annotated[str | None, Parameter(metavar="TEXT")] = None,
    writable: bool = False,
    found: bool = False,
    docs: Annotated[str | None, Parameter(metavar="PACKAGE[==VERSION]")] = None,
) -> Reply:
    """Add a folder of Markdown files as a base.

    The base is active in every project, or only below the folders given with --for. Comments and everything else in
    ~/.kbhub.json are preserved.

    Example: kbhub base add ops=~/work/handbook --for ~/work

    Args:
        path: The folder. Its name becomes the id, unless ID= precedes it.
        id_: Id in refs and filters.
        for_: Activate the base only in and below this folder; may be repeated.
        include: Also index files that match this .gitignore-style pattern; may be repeated.
        exclude: Skip files that match this .gitignore-style pattern; may be repeated.
        name: Display name.
        description: What the base is about, for people and agents.
        writable: Allow agents to write documents in the base.
        found: Instead, add what coding agents keep of this project, memories and logs of sessions,
            and of you: read-only, and active in this project only.
        docs: Instead, add the documentation of a library that this project uses, in the version that its lock
            file pins, from what is installed; or that in an archive or a file, by its path.
    """
    said = {"name": name, "description": description, "include": include, "exclude": exclude, "writable": writable}
    given = any(one not in (None, (), False) for one in (path, id_, for_, *said.values()))
    if sum(map(bool, (given, found, docs))) != 1 or not (found or docs or path):
        raise UsageError("Name one folder, or give --found or --docs PACKAGE alone.")
    if docs:
        package = add_package(hub, docs)
        return Reply(package, reports.package_report(package))
    if found:
        made = add_found(hub)
        return Reply(made, reports.found_report(made), code=0 if made.bases else 1)
    change = bases.add_base(hub, path or "", id_, for_, **said)
    return Reply(change, reports.change_report(change, "Added"))


@command(lambda change: reports.change_report(change, "Removed"))
def remove(hub: Hub, id_: Annotated[str, Parameter(name="ID")], /) -> bases.BaseChange:
    """Remove a base from ~/.kbhub.json. Your documents are not touched.

    Example: kbhub base remove ops

    Args:
        id_: Its id.
    """
    return bases.remove_base(hub, id_)


@command(lambda change: reports.change_report(change, "Renamed to"))
def rename(hub: Hub, old: str, new: str, /) -> bases.BaseChange:
    """Change the id of a base. Its folder and index stay the same.

    Example: kbhub base rename ops operations

    Args:
        old: Current id.
        new: New id.
    """
    return bases.rename_base(hub, old, new)


@command(reports.base_report)
def show(hub: Hub, id_: Annotated[str, Parameter(name="ID")], /) -> bases.KnownBase:
    """Show the details of a base.

    Example: kbhub base show ops

    Args:
        id_: Its id.
    """
    return bases.show_base(hub, id_)


@command()
def add_context(hub: Hub, place: Annotated[str, Parameter(name="BASE[/PATH]")], text: str | None = None, /) -> Reply:
    """Describe a base, or a path in a base.

    Searches show the description with every hit from there. Inside a base's folder, PATH alone or no argument is
    enough; `/` means all bases. Replaces any earlier description of the same path.

    Example: kbhub base context add ops/runbooks "What to do when something is down"

    Args:
        place: The base or path to describe; optional inside a base's folder.
        text: What is there.
    """
    where, said = (None, place) if text is None else (place, text)
    return _context_reply(contexts.add_context(hub, contexts.parse_place(hub, where), said), "is")


@command(reports.contexts_report, options=Formats)
def list_contexts(hub: Hub, place: Annotated[str | None, Parameter(name="BASE[/PATH]")] = None, /) -> Reply:
    """List the descriptions of bases and paths.

    Example: kbhub base context list ops

    Args:
        place: List only descriptions of this base or path, or of something in it.
    """
    found = contexts.list_contexts(hub, contexts.parse_place(hub, place) if place is not None else None)
    hints = () if found else ('No contexts. Add one with `kbhub base context add BASE/PATH "what is there"`.',)
    return Reply(found, hints=hints)


@command()
def remove_context(hub: Hub, place: Annotated[str | None, Parameter(name="BASE[/PATH]")] = None, /) -> Reply:
    """Remove the description of a base or path.

    Example: kbhub base context rm ops/runbooks

    Args:
        place: The base or path; optional inside a base's folder.
    """
    return _context_reply(contexts.remove_context(hub, contexts.parse_place(hub, place)), "is no longer")


@command()
def cleanup(hub: Hub, *, yes: bool = False, dry_run: bool = False, common: Common) -> Reply:
    """Delete what nothing needs: indexes without a base, damaged indexes, corpora of `kbhub dev eval`, cached answers.

    Shows what would be freed and asks first. Only files in kbhub's cache directory are deleted, never documents,
    memories or configuration.

    Example: kbhub admin cleanup --dry-run

    Args:
        yes: Skip the confirmation prompt.
        dry_run: Show what would be deleted, without deleting it.

    Returns:
        The exit code: 1 if something could not be deleted, 2 if there is no terminal to ask on.
    """
    if yes and dry_run:
        raise UsageError("--yes cannot be used with --dry-run.")
    found = examine_cache(hub)
    asked = not (yes or dry_run or common.json)
    if not common.json:
        page(text_of(reports.cleanup_report(found), width=terminal_width()), pager=False)
    wanted = bool(found.found) and (
        yes or (asked and confirmed(f"Delete everything listed ({size_text(found.bytes)})?"))
    )
    done = delete(hub, found) if wanted else found
    hints = [one.text for one in done.kept]
    code = 1 if done.kept else 0
    if asked and found.found and not sys.stdin.isatty():
        hints.append("Nothing was deleted: there is no terminal to ask on. To delete without asking, add --yes.")
        code = UsageError.exit_code
    said = f"Deleted {len(done.deleted)} of {len(done.found)}; freed {size_text(done.freed)}." if wanted else ""
    return Reply(done, said, hints=hints, code=code)


def _context_reply(change: contexts.ContextChange, verb: str) -> Reply:
    said = change.context
    where = "all bases" if said.base is None else said.place
    lines = (visible_line(f"{where} {verb}: {said.context}"), visible_line(f"In {said.file}."))
    return Reply(change, "\n".join(lines), notes=change.notes)
