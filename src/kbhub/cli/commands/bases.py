"""Your own bases: bases, ls, context, cleanup."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from kbhub.cli.console import complain, show_json, terminal_width
from kbhub.cli.console import show_text as print_text
from kbhub.cli.options import (
    Common,
    Formats,
    bring_in_step,
    complain_all,
    complain_broken,
    complain_nothing,
    hub_options,
    present,
)
from kbhub.errors import UsageError
from kbhub.hub import Hub
from kbhub.reading.lists import list_documents
from kbhub.render.bases import (
    base_report,
    bases_report,
    change_report,
    cleanup_report,
    contexts_report,
    documents_report,
)
from kbhub.render.layout import size_text, visible_line
from kbhub.render.terminal import text as text_of
from kbhub.setup.bases import BaseChange, NewBase, add_base, list_bases, remove_base, rename_base, show_base
from kbhub.setup.cleanup import Cleanup, delete, examine_cache
from kbhub.setup.contexts import ContextChange, parse_place
from kbhub.setup.contexts import add_context as write_context
from kbhub.setup.contexts import list_contexts as contexts_at
from kbhub.setup.contexts import remove_context as take_back


def list_(*, formats: Formats = Formats()) -> int:  # noqa: B008 - frozen
    """List all your bases, and any others that are active here.

    Example: kbhub bases list --csv
    """
    formats.format()
    listed = list_bases(Hub(hub_options(formats)))
    present(
        formats,
        bases_report(listed).rows,
        lambda: text_of(bases_report(listed), width=terminal_width()),
        document=listed.model_dump_json(indent=2),
    )
    return 0


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
    """Add a folder of Markdown files as a base.

    The base is active in every project, or only below the folders given with --for. Comments and everything else in
    ~/.kbhub.json are preserved.

    Example: kbhub bases add ops=~/work/handbook --for ~/work

    Args:
        path: The folder. Its name becomes the id, unless ID= precedes it.
        id_: Id in refs and filters.
        for_: Activate the base only in and below this folder; may be repeated.
        include: Also index files that match this .gitignore-style pattern; may be repeated.
        exclude: Skip files that match this .gitignore-style pattern; may be repeated.
        name: Display name.
        description: What the base is about, for people and agents.
        writable: Allow agents to write documents in the base.
        common: Options of every command.
    """
    new = NewBase(
        folder=path,
        id=id_,
        places=for_,
        include=include,
        exclude=exclude,
        name=name,
        description=description,
        writable=writable,
    )
    return _print_change(add_base(Hub(hub_options(common)), new), "Added", common)


def remove(id_: Annotated[str, Parameter(metavar="ID")], /, *, common: Common = Common()) -> int:  # noqa: B008 - frozen
    """Remove a base from ~/.kbhub.json. Its documents are not touched.

    Example: kbhub bases remove ops

    Args:
        id_: Its id.
        common: Options of every command.
    """
    return _print_change(remove_base(Hub(hub_options(common)), id_), "Removed", common)


def rename(
    old: Annotated[str, Parameter(metavar="OLD")],
    new: Annotated[str, Parameter(metavar="NEW")],
    /,
    *,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Change the id of a base. Its folder and index stay the same.

    Example: kbhub bases rename ops operations

    Args:
        old: Current id.
        new: New id.
        common: Options of every command.
    """
    return _print_change(rename_base(Hub(hub_options(common)), old, new), "Renamed to", common)


def show(id_: Annotated[str, Parameter(metavar="ID")], /, *, common: Common = Common()) -> int:  # noqa: B008 - frozen
    """Show the details of a base.

    Example: kbhub bases show ops

    Args:
        id_: Its id.
        common: Options of every command.
    """
    base = show_base(Hub(hub_options(common)), id_)
    if common.json:
        show_json(base.model_dump_json(indent=2))
    else:
        print_text(text_of(base_report(base), width=terminal_width()))
    return 0


def ls(
    place: Annotated[str | None, Parameter(metavar="BASE[/PATH]")] = None,
    /,
    *,
    formats: Formats = Formats(),  # noqa: B008 - frozen
) -> int:
    """List documents with their docids, titles, dates and tags.

    PATH is a folder, a document or a pattern (quote it). Without BASE, it is relative to the project base, or else to
    the working directory. Without an argument, all documents are listed.

    Example: kbhub ls 'ops/runbooks/*.md'

    Args:
        place: What to list.
        formats: Options of every command.

    Returns:
        The exit code: 1 if a base could not be listed.
    """
    formats.format()
    hub = Hub(hub_options(formats))
    bring_in_step(hub)
    result = list_documents(hub, place)
    present(
        formats,
        documents_report(result.documents).rows,
        lambda: text_of(documents_report(result.documents), width=terminal_width()),
        document=result.model_dump_json(indent=2),
    )
    complain_all(f"Cannot list {skipped.base}. {skipped.reason}" for skipped in result.skipped)
    if not hub.discovery().bases:
        complain_broken(hub)
        complain_nothing(hub)
        return 1
    if not result.documents and not result.skipped:
        known = ", ".join(base.id for base in hub.discovery().bases)
        complain(f"No documents{f' at {place!r}' if place else ''}. Active bases: {known}.")
    return 1 if result.skipped or (place and not result.documents) else 0


def add_context(
    place: Annotated[str, Parameter(metavar="BASE[/PATH]")],
    text: Annotated[str | None, Parameter(metavar="TEXT")] = None,
    /,
    *,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Describe a base, or a path in a base.

    Searches show the description with every hit from there. Inside a base's folder, PATH alone or no argument is
    enough; `/` means all bases. Replaces any earlier description of the same path.

    Example: kbhub context add ops/runbooks "What to do when something is down"

    Args:
        place: The base or path to describe; optional inside a base's folder.
        text: What is there.
        common: Options of every command.
    """
    where, said = (None, place) if text is None else (place, text)
    hub = Hub(hub_options(common))
    return _print_context(write_context(hub, parse_place(hub, where), said), "is", common)


def list_contexts(
    place: Annotated[str | None, Parameter(metavar="BASE[/PATH]")] = None,
    /,
    *,
    formats: Formats = Formats(),  # noqa: B008 - frozen
) -> int:
    """List the descriptions of bases and paths.

    Example: kbhub context list ops

    Args:
        place: List only descriptions of this base or path, or of something in it.
        formats: Options of every command.
    """
    formats.format()
    hub = Hub(hub_options(formats))
    found = contexts_at(hub, parse_place(hub, place) if place is not None else None)
    report = contexts_report(found)
    present(formats, report.rows, lambda: text_of(report, width=terminal_width()))
    if not found:
        complain('No contexts. Add one with `kbhub context add BASE/PATH "what is there"`.')
    return 0


def remove_context(
    place: Annotated[str | None, Parameter(metavar="BASE[/PATH]")] = None,
    /,
    *,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Remove the description of a base or path.

    Example: kbhub context rm ops/runbooks

    Args:
        place: The base or path; optional inside a base's folder.
        common: Options of every command.
    """
    hub = Hub(hub_options(common))
    return _print_context(take_back(hub, parse_place(hub, place)), "is no longer", common)


def cleanup(
    *,
    yes: bool = False,
    dry_run: bool = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Delete what is no longer needed: indexes without a base, old or damaged indexes, corpora of `kbhub eval`, cached
    answers.

    Shows what would be freed and asks first. Only files in kbhub's cache directory are deleted, never documents,
    memories or configuration.

    Example: kbhub cleanup --dry-run

    Args:
        yes: Skip the confirmation prompt.
        dry_run: Show what would be deleted, without deleting it.
        common: Options of every command.

    Returns:
        The exit code: 1 if something could not be deleted, 2 if there is no terminal to ask on.
    """
    if yes and dry_run:
        raise UsageError("--yes cannot be used with --dry-run.")
    hub = Hub(hub_options(common))
    found = examine_cache(hub)
    asked = not (yes or dry_run or common.json)
    if not common.json:
        print_text(text_of(cleanup_report(found), width=terminal_width()))
    wanted = yes or (asked and bool(found.found) and _agreed(found))
    done = delete(hub, found) if wanted and found.found else found
    if common.json:
        show_json(done.model_dump_json(indent=2))
    elif wanted and found.found:
        print_text(f"Deleted {len(done.deleted)} of {len(done.found)}; freed {size_text(done.freed)}.")
    complain_all(f"{problem.subject}: {problem.message}" for problem in done.kept)
    if asked and found.found and not sys.stdin.isatty():
        complain(
            "Nothing was deleted: there is no terminal to ask on. Run `kbhub cleanup --yes` to delete without asking."
        )
        return UsageError.exit_code
    return 1 if done.kept else 0


def _agreed(found: Cleanup) -> bool:
    """Ask whether to delete what was found."""
    if not sys.stdin.isatty():
        return False
    sys.stdout.flush()
    sys.stderr.write(f"Delete everything listed ({size_text(found.bytes)})? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print_change(change: BaseChange, verb: str, common: Common) -> int:
    if common.json:
        show_json(change.model_dump_json(indent=2))
    else:
        print_text(text_of(change_report(change, verb)))
    return 0


def _print_context(change: ContextChange, verb: str, common: Common) -> int:
    if common.json:
        show_json(change.model_dump_json(indent=2))
        return 0
    said = change.context
    where = "all bases" if said.base is None else f"{said.base}/{said.path}" if said.path else said.base
    print_text(visible_line(f"{where} {verb}: {said.context}"))
    print_text(visible_line(f"In {said.file}."))
    complain_all(change.notes)
    return 0
