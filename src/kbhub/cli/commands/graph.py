"""How documents are related: related, tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub.cli.console import complain, terminal_width
from kbhub.cli.hubs import bring_in_step, complain_all, complain_broken, complain_nothing, hub_options
from kbhub.cli.options import Formats
from kbhub.cli.output import present
from kbhub.errors import UsageError
from kbhub.hub import Hub
from kbhub.reading import neighbours
from kbhub.reading import neighbours as tag_lists
from kbhub.reading.neighbours import MOST_HOPS
from kbhub.reading.neighbours import RELATED_LIMIT as RELATED_LIMIT
from kbhub.reading.neighbours import RELATED_LIMIT as TAGS_LIMIT
from kbhub.reading.reports import EDGE_KINDS
from kbhub.render.graph import related_listing, related_text, tags_listing, tags_notes, tags_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbhub.types import Skipped

Hops = Annotated[int, Parameter(metavar="N", validator=Number(gte=0, lte=MOST_HOPS))]
Limit = Annotated[int | None, Parameter(name=("--limit", "-n"), metavar="N", validator=Number(gte=1))]
Kinds = tuple[Literal["link", "backlink", "related", "tag", "near"], ...]


def related(
    ref: str,
    /,
    *,
    hops: Hops = 1,
    kinds: Annotated[Kinds, Parameter(name="--kind")] = (),
    limit: Limit = None,
    formats: Formats = Formats(),  # noqa: B008 - frozen
) -> int:
    """Show documents related to one: by links, backlinks, `related` in front matter, shared tags, or meaning.

    Its broken links are listed, too. Links resolve across all active bases, as on GitHub and in Obsidian.

    Example: kbhub related runbooks/rollback.md --hops 2 --kind backlink

    Args:
        ref: The document: a path, ID@PATH, a title or a docid.
        hops: Links to follow; 0 only counts. Tags and meaning are always one step.
        kinds: Show only this kind; may be repeated.
        limit: Documents of each kind to show (10).
        formats: Options of every command.

    Returns:
        The exit code: 1 if a base could not be read.
    """
    formats.format()
    hub = Hub(hub_options(formats))
    bring_in_step(hub)
    result = neighbours.related(hub, ref, hops=hops, kinds=kinds or EDGE_KINDS, limit=limit or RELATED_LIMIT)
    present(
        formats,
        lambda: related_listing(result),
        lambda: related_text(result, width=terminal_width()),
        document=result.model_dump_json(indent=2),
    )
    return _said(result.skipped)


def tags(
    *names: str,
    bases: Annotated[tuple[str, ...], Parameter(name="--in", metavar="BASE")] = (),
    hops: Hops = 1,
    limit: Limit = None,
    all_: Annotated[bool, Parameter(name="--all")] = False,
    formats: Formats = Formats(),  # noqa: B008 - frozen
) -> int:
    """List all tags with their number of documents, or the documents with any of the given tags.

    A nested tag counts for its parents: `team/ops` for `team`. Documents linked with the tagged ones are listed after
    them. Leave out the `#` of a tag, or quote it.

    Example: kbhub tags ops --hops 0 --all

    Args:
        names: Tags; `*` matches anything.
        bases: List only tags of this base; may be repeated.
        hops: Links to follow from the tagged documents.
        limit: Tags or documents to show (100).
        all_: Show all of them.
        formats: Options of every command.

    Returns:
        The exit code: 1 if a base could not be read.
    """
    formats.format()
    if all_ and limit is not None:
        raise UsageError("--all cannot be used with --limit.")
    hub = Hub(hub_options(formats))
    bring_in_step(hub, bases)
    result = tag_lists.tags(hub, names, bases=bases, hops=hops, limit=limit or TAGS_LIMIT, everything=all_)
    present(
        formats,
        lambda: tags_listing(result),
        lambda: tags_text(result, width=terminal_width()),
        document=result.model_dump_json(indent=2),
    )
    if not hub.discovery().bases:
        complain_broken(hub)
        complain_nothing(hub)
        return 1
    if not names and not result.tags and not result.skipped:
        complain("No document has tags.")
    complain_all(tags_notes(result))
    return _said(result.skipped)


def _said(skipped: Iterable[Skipped]) -> int:
    """Complain about the bases that were not looked at; return 1 if there are any."""
    messages = [f"Cannot read {base.base}. {base.reason}" for base in skipped]
    complain_all(messages)
    return 1 if messages else 0
