"""What the commands about links and tags do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub import graph
from kbhub.cli.console import complain, terminal_width
from kbhub.cli.hubs import hub_options
from kbhub.cli.output import present
from kbhub.cli.readiness import bring_in_step, complain_all, complain_broken, complain_nothing
from kbhub.errors import UsageError
from kbhub.graph.neighbours import LIMIT as RELATED_LIMIT
from kbhub.graph.tags import LIMIT as TAGS_LIMIT
from kbhub.hub import Hub
from kbhub.render.graph import related_listing, related_text, tags_listing, tags_notes, tags_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbhub.cli.options import Formats
    from kbhub.graph import EdgeKind
    from kbhub.types import Skipped


def related(ref: str, *, hops: int, kinds: Sequence[EdgeKind], limit: int | None, formats: Formats) -> int:
    """Bring small bases in step, and print what is related to a document; 1 if a base could not be looked at."""
    formats.format()
    hub = Hub(hub_options(formats))
    bring_in_step(hub)
    result = graph.related(hub, ref, hops=hops, kinds=kinds or graph.EDGE_KINDS, limit=limit or RELATED_LIMIT)
    present(
        formats,
        lambda: related_listing(result),
        lambda: related_text(result, width=terminal_width()),
        document=result.model_dump_json(indent=2),
    )
    return _said(result.skipped)


def tags(
    names: Sequence[str],
    *,
    bases: Sequence[str],
    hops: int,
    limit: int | None,
    everything: bool,
    formats: Formats,
) -> int:
    """Bring small bases in step, and print tags or documents of some; 1 if a base could not be looked at."""
    formats.format()
    if everything and limit is not None:
        raise UsageError("--all and --limit exclude each other; use one.")
    hub = Hub(hub_options(formats))
    bring_in_step(hub, bases)
    result = graph.tags(hub, names, bases=bases, hops=hops, limit=limit or TAGS_LIMIT, everything=everything)
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
        complain("No document has a tag.")
    complain_all(tags_notes(result))
    return _said(result.skipped)


def _said(skipped: Iterable[Skipped]) -> int:
    """Name the bases that were not looked at."""
    messages = [f"Not looked at: {one.base}. {one.reason}" for one in skipped]
    complain_all(messages)
    return 1 if messages else 0
