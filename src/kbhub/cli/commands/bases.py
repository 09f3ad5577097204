"""What the commands about your own bases do: bases, ls, context, cleanup."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kbhub.base_changes import NewBase, add_base, remove_base, rename_base
from kbhub.bases import list_bases, show_base
from kbhub.cleanup import delete, examine_cache
from kbhub.cli.console import complain, show_json, terminal_width
from kbhub.cli.console import show_text as print_text
from kbhub.cli.hubs import hub_options
from kbhub.cli.output import present
from kbhub.cli.readiness import bring_in_step, complain_all, complain_broken, complain_nothing
from kbhub.contexts import add_context as write_context
from kbhub.contexts import list_contexts as contexts_at
from kbhub.contexts import parse_place
from kbhub.contexts import remove_context as take_back
from kbhub.errors import UsageError
from kbhub.hub import Hub
from kbhub.listing import list_documents
from kbhub.render.listing import (
    base_text,
    bases_listing,
    bases_text,
    change_text,
    cleanup_text,
    contexts_listing,
    contexts_text,
    documents_listing,
    documents_text,
)
from kbhub.render.plain import one_line
from kbhub.render.terminal import size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.base_changes import BaseChange
    from kbhub.cleanup import Cleanup
    from kbhub.cli.options import Common, Formats
    from kbhub.contexts import ContextChange


def list_(*, formats: Formats) -> int:
    """Print the bases of the config, and those that are active here."""
    formats.format()
    listed = list_bases(Hub(hub_options(formats)))
    present(
        formats,
        lambda: bases_listing(listed.bases),
        lambda: bases_text(listed.bases, listed.config, width=terminal_width()),
        document=listed.model_dump_json(indent=2),
    )
    return 0


def add(
    path: str,
    *,
    name_id: str | None,
    places: Sequence[str],
    include: Sequence[str],
    exclude: Sequence[str],
    name: str | None,
    description: str | None,
    writable: bool,
    common: Common,
) -> int:
    """Add a base to the config, and say where it is active."""
    new = NewBase(
        folder=path,
        id=name_id,
        places=tuple(places),
        include=tuple(include),
        exclude=tuple(exclude),
        name=name,
        description=description,
        writable=writable,
    )
    return _print_change(add_base(Hub(hub_options(common)), new), "Added", common)


def remove(name: str, *, common: Common) -> int:
    """Take a base out of the config."""
    return _print_change(remove_base(Hub(hub_options(common)), name), "Removed", common)


def rename(old: str, new: str, *, common: Common) -> int:
    """Give a base another id."""
    return _print_change(rename_base(Hub(hub_options(common)), old, new), "Renamed to", common)


def show(name: str, *, common: Common) -> int:
    """Print all there is to know of a base."""
    base = show_base(Hub(hub_options(common)), name)
    if common.json:
        show_json(base.model_dump_json(indent=2))
    else:
        print_text(base_text(base, width=terminal_width()))
    return 0


def ls(place: str | None, *, formats: Formats) -> int:
    """Bring small bases in step, and print their documents; 1 if a base could not be listed."""
    formats.format()
    hub = Hub(hub_options(formats))
    bring_in_step(hub)
    result = list_documents(hub, place)
    present(
        formats,
        lambda: documents_listing(result.documents),
        lambda: documents_text(result.documents, width=terminal_width()),
        document=result.model_dump_json(indent=2),
    )
    complain_all(f"Not listed: {skipped.base}. {skipped.reason}" for skipped in result.skipped)
    if not hub.discovery().bases:
        complain_broken(hub)
        complain_nothing(hub)
        return 1
    if not result.documents and not result.skipped:
        known = ", ".join(base.id for base in hub.discovery().bases)
        complain(f"No documents{f' at {place!r}' if place else ''}. Active bases: {known}.")
    return 1 if result.skipped or (place and not result.documents) else 0


def add_context(place: str | None, text: str, *, common: Common) -> int:
    """Write down what lies at a place."""
    hub = Hub(hub_options(common))
    return _print_context(write_context(hub, parse_place(hub, place), text), "is", common)


def list_contexts(place: str | None, *, formats: Formats) -> int:
    """Print what is said of bases and paths."""
    formats.format()
    hub = Hub(hub_options(formats))
    found = contexts_at(hub, parse_place(hub, place) if place is not None else None)
    present(formats, lambda: contexts_listing(found), lambda: contexts_text(found, width=terminal_width()))
    if not found:
        complain('No contexts. `kbhub context add BASE/PATH "what lies there"` adds one.')
    return 0


def remove_context(place: str | None, *, common: Common) -> int:
    """Take back what was said of a place."""
    hub = Hub(hub_options(common))
    return _print_context(take_back(hub, parse_place(hub, place)), "is no longer", common)


def cleanup(*, yes: bool, dry_run: bool, common: Common) -> int:
    """Say what nothing needs, ask, delete it; 1 if something could not be deleted, 2 if nobody could be asked."""
    if yes and dry_run:
        raise UsageError("--yes and --dry-run exclude each other; use one.")
    hub = Hub(hub_options(common))
    found = examine_cache(hub)
    asked = not (yes or dry_run or common.json)
    if not common.json:
        print_text(cleanup_text(found, width=terminal_width()))
    wanted = yes or (asked and bool(found.found) and _agreed(found))
    done = delete(hub, found) if wanted and found.found else found
    if common.json:
        show_json(done.model_dump_json(indent=2))
    elif wanted and found.found:
        print_text(f"Deleted {len(done.deleted)} of {len(done.found)}: {size_text(done.freed)} freed.")
    complain_all(f"{problem.subject}: {problem.message}" for problem in done.kept)
    if asked and found.found and not sys.stdin.isatty():
        complain("Nothing was deleted, as there is nobody to ask; `kbhub cleanup --yes` deletes it.")
        return UsageError.exit_code
    return 1 if done.kept else 0


def _agreed(found: Cleanup) -> bool:
    """Ask whether to delete what was found."""
    if not sys.stdin.isatty():
        return False
    sys.stdout.flush()
    sys.stderr.write(f"Delete all of it ({size_text(found.bytes)})? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print_change(change: BaseChange, verb: str, common: Common) -> int:
    if common.json:
        show_json(change.model_dump_json(indent=2))
    else:
        print_text(change_text(change, verb))
    return 0


def _print_context(change: ContextChange, verb: str, common: Common) -> int:
    if common.json:
        show_json(change.model_dump_json(indent=2))
        return 0
    one = change.context
    where = "every base" if one.base is None else f"{one.base}/{one.path}" if one.path else one.base
    print_text(one_line(f"{where} {verb}: {one.context}"))
    print_text(one_line(f"In {one.file}."))
    complain_all(change.notes)
    return 0
