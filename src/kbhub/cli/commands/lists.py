"""What there is: ls, related, read."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub.cli.app import complain, terminal_width, wants_colour
from kbhub.cli.commands.search import cut_reading, hides_title, numbered
from kbhub.cli.options import Exact, Formats, Lines, Reply, bring_in_step, command, decoded, drawn, without_bases
from kbhub.errors import UsageError
from kbhub.hooks.sessions import mark_read
from kbhub.hub import Hub
from kbhub.reading import neighbours
from kbhub.reading.lists import list_documents
from kbhub.reading.neighbours import MOST_HOPS, RELATED_LIMIT, TAGS_LIMIT
from kbhub.reading.read import ReadOptions, by_index
from kbhub.reading.read import read as read_refs
from kbhub.reading.reports import EDGE_KINDS
from kbhub.render.bases import documents_report
from kbhub.render.documents import related_report, tags_report
from kbhub.render.report import Listing, records
from kbhub.render.search import read_text
from kbhub.render.terminal import neutralised

Hops = Annotated[int, Parameter(metavar="N", validator=Number(gte=0, lte=MOST_HOPS))]
Limit = Annotated[int | None, Parameter(name=("--limit", "-n"), metavar="N", validator=Number(gte=1))]
Kinds = tuple[Literal["link", "backlink", "related", "tag", "near"], ...]

EVERYTHING_READ = sys.maxsize
"""Characters that `read` prints: a shell has no window of tokens to fit."""


@command(options=Formats)
def ls(
    hub: Hub,
    *places: Annotated[str, Parameter(name="BASE[/PATH]")],
    tags: bool = False,
    bases: Annotated[tuple[str, ...], Parameter(name="--in", metavar="BASE")] = (),
    hops: Hops | None = None,
    limit: Limit = None,
    all_: bool = False,
) -> Reply:
    """List documents, or tags and the documents that have them.

    PATH is a folder, a document or a pattern (quote it). Without BASE, it is relative to the project base, or else to
    the working directory. Without an argument, all documents are listed.

    With --tags, list the tags with their number of documents, or the documents with any of the given tags. A nested tag
    counts for its parents: `team/ops` for `team`. Documents linked with the tagged ones are listed after them. Leave
    out the `#` of a tag, or quote it.

    Example: kbhub ls 'ops/runbooks/*.md'

    Args:
        places: What to list; with --tags, tags, in which `*` matches anything.
        tags: List tags, or the documents that have them.
        bases: With --tags, only those of this base; may be repeated.
        hops: With --tags, links to follow from the tagged documents (1).
        limit: With --tags, tags or documents to show (100).
        all_: With --tags, show all of them.

    Returns:
        The exit code: 1 if a base could not be read, or there is nothing at the given path.
    """
    if tags:
        if all_ and limit is not None:
            raise UsageError("--all cannot be used with --limit.")
        bring_in_step(hub, bases)
        most, steps = limit or TAGS_LIMIT, 1 if hops is None else hops
        found = neighbours.tags(hub, places, bases=bases, hops=steps, limit=most, everything=all_)
        if nothing := without_bases(hub):
            return Reply(found, tags_report(found), hints=nothing, code=1)
        none = [] if places or found.tags or found.skipped else ["No document has tags."]
        return Reply(found, tags_report(found), hints=none, code=1 if found.skipped else 0)
    if bases or hops is not None or limit is not None or all_:
        raise UsageError("--in, --hops, --limit and --all require --tags.")
    if places[1:]:
        raise UsageError("Name one BASE[/PATH], or quote the pattern.")
    place = places[0] if places else None
    bring_in_step(hub)
    result = list_documents(hub, place)
    report = documents_report(result.documents)
    hints = [f"Cannot list {skipped.base}. {skipped.reason}" for skipped in result.skipped]
    if nothing := without_bases(hub):
        return Reply(result, report, hints=[*hints, *nothing], code=1)
    if not result.documents and not result.skipped:
        known = ", ".join(base.id for base in hub.discovery().bases)
        hints.append(f"No documents{f' at {place!r}' if place else ''}. Active bases: {known}.")
    return Reply(result, report, hints=hints, code=1 if result.skipped or (place and not result.documents) else 0)


@command(related_report, options=Formats)
def related(
    hub: Hub,
    ref: str,
    /,
    *,
    hops: Hops = 1,
    kinds: Annotated[Kinds, Parameter(name="--kind")] = (),
    limit: Limit = None,
) -> Reply:
    """Show documents related to one, by links, tags or meaning.

    Backlinks and `related` in front matter count, too, and broken links are listed. Links resolve across all active
    bases, as on GitHub and in Obsidian.

    Example: kbhub related runbooks/rollback.md --hops 2 --kind backlink

    Args:
        ref: The document: a path, ID@PATH, a title or a docid.
        hops: Links to follow; 0 only counts. Tags and meaning are always one step.
        kinds: Show only this kind; may be repeated.
        limit: Documents of each kind to show (10).

    Returns:
        The exit code: 1 if a base could not be read.
    """
    bring_in_step(hub)
    complain(*without_bases(hub))
    result = neighbours.related(hub, ref, hops=hops, kinds=kinds or EDGE_KINDS, limit=limit or RELATED_LIMIT)
    return Reply(result, code=1 if result.skipped else 0)


@command(options=Formats)
def read(
    hub: Hub,
    *refs: Annotated[str, Parameter(name="REF")],
    lines: Lines = Lines(),  # noqa: B008 - frozen
) -> Reply:
    """Print documents, or parts of them, as they are on disk.

    A ref is a path in the project base, ID@PATH or ID/PATH in another, the end of a path or a page's address if only
    one document has it, a number (ADR-7), title, docid (quote it: '#a1b2c3'), id of a memory, or a path from here.
    Append :LINE, :FROM-TO, :FROM:COUNT or '#Heading' for a part. Name several with commas, 'runbooks/*.md' or
    '{a,b}.md' (quote patterns).

    Example: kbhub read runbooks/rollback.md:10-30

    Args:
        refs: The documents to print.
        lines: Which lines.

    Returns:
        The exit code: 1 if a ref matches no document.
    """
    if not refs:
        raise UsageError("Nothing to read. Usage: kbhub read PATH, or, with a docid in quotes: kbhub read '#a1b2c3'")
    wanted, whole = [decoded(ref) for ref in refs], ReadOptions(answer_bytes=EVERYTHING_READ)
    result = read_refs(hub, wanted, whole)
    if by_index(wanted, result):
        bring_in_step(hub)
        result = read_refs(hub, wanted, whole)
    mark_read(hub, [reading.ref for reading in result.readings])
    readings = tuple(cut_reading(reading, lines.first, lines.count) for reading in result.readings)
    if lines.numbers:
        readings = tuple(
            reading.model_copy(update={"text": numbered(reading.text, reading.start_line)}) for reading in readings
        )
    headers = len(refs) > 1 or len(readings) > 1 or any(map(hides_title, readings))
    fields = ("docid", "ref", "title", "start_line", "end_line", "total_lines", "deleted", "text")
    notes = [*result.notes, *(f"{reading.ref}: {reading.deleted}." for reading in readings if reading.deleted)]
    notes += [unread.message for unread in result.unread]

    def text() -> str:
        if not sys.stdout.isatty():
            return Exact(read_text(readings, headers=headers, verbatim=True))
        width = None if lines.numbers else terminal_width()
        colour = wants_colour(sys.stdout)

        def draw(text: str) -> str:
            return neutralised(text) if width is None else f"{drawn(text, width=width, colour=colour)}\n"

        return read_text(readings, headers=headers, verbatim=False, draw=draw)

    def rows() -> Listing:
        return records("document", fields, readings, lambda one: {"context": " / ".join(one.contexts)}, "text")

    shown, notes = result.model_copy(update={"readings": readings}), [*notes, *without_bases(hub)]
    return Reply(shown, text, rows, notes, code=1 if result.unread else 0)
