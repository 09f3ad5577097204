"""How documents hang together: related, tags."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub.cli import commands
from kbhub.cli.app import app
from kbhub.cli.options import Formats

MOST_HOPS = 3
"""Hops at most, as `graph.neighbours` has it."""

Hops = Annotated[int, Parameter(metavar="N", validator=Number(gte=0, lte=MOST_HOPS))]
Limit = Annotated[int | None, Parameter(name=("--limit", "-n"), metavar="N", validator=Number(gte=1))]
Kinds = tuple[Literal["link", "backlink", "related", "tag", "near"], ...]


@app.command(usage="kbhub related [OPTIONS] REF")
def related(
    ref: str,
    /,
    *,
    hops: Hops = 1,
    kinds: Annotated[Kinds, Parameter(name="--kind")] = (),
    limit: Limit = None,
    formats: Formats = Formats(),  # noqa: B008 - frozen
) -> int:
    """Show what is related to a document: links, backlinks, front matter `related`, shared tags, near in meaning.

    Its links that lead nowhere are shown too. Links are followed over all active bases, as GitHub and Obsidian do.

    Example: kbhub related runbooks/rollback.md --hops 2 --kind backlink

    Args:
        ref: The document: a path, ID@PATH, a title or a docid.
        hops: Steps along links; tags and nearness are one step. 0 follows none, and only counts.
        kinds: Show only this; may be repeated.
        limit: Documents of each kind to show (10).
        formats: Options of every command.
    """
    return commands.graph.related(ref, hops=hops, kinds=kinds, limit=limit, formats=formats)


@app.command(usage="kbhub tags [OPTIONS] [TAG…]")
def tags(
    *names: str,
    bases: Annotated[tuple[str, ...], Parameter(name="--in", metavar="BASE")] = (),
    hops: Hops = 1,
    limit: Limit = None,
    all_: Annotated[bool, Parameter(name="--all")] = False,
    formats: Formats = Formats(),  # noqa: B008 - frozen
) -> int:
    """List all tags with their documents counted, or the documents that have any of some tags.

    A tag counts for those that it lies under: `team/ops` for `team`. Documents that links join to the tagged ones
    follow them. Quote a tag with its `#`, or leave that out.

    Example: kbhub tags ops --hops 0 --all

    Args:
        names: Tags; `*` stands for anything.
        bases: Only the tags of this base; may be repeated.
        hops: Steps along links from the documents that have a tag.
        limit: Tags or documents to show (100).
        all_: Leave nothing out.
        formats: Options of every command.
    """
    return commands.graph.tags(names, bases=bases, hops=hops, limit=limit, everything=all_, formats=formats)
