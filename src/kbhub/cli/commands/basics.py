"""Everyday commands: read, status, init, trust."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from pydantic import Field

from kbhub.cli.console import complain, show_json, show_text, terminal_width, wants_colour, write_verbatim
from kbhub.cli.hits import cut_reading, hides_title, numbered, readings_listing
from kbhub.cli.hubs import bring_in_step, complain_all, complain_broken, complain_nothing, decoded, hub_options
from kbhub.cli.options import Common, Formats, Lines
from kbhub.cli.output import present
from kbhub.cli.overview import overview
from kbhub.errors import UsageError
from kbhub.frozen import Model
from kbhub.hooks.sessions import let_speak, mark_read
from kbhub.hub import Hub
from kbhub.memory.catalog import count_read
from kbhub.reading.read import ReadOptions, by_index
from kbhub.reading.read import read as read_refs
from kbhub.render import pages
from kbhub.render.lists import status_listing
from kbhub.render.terminal import Painter, init_text, read_text, status_text, trust_text
from kbhub.render.words import neutralised
from kbhub.search.base_suggestions import choices, outside
from kbhub.setup.init import make_knowledge, point_to
from kbhub.usage.log import flush, note_read
from kbhub.workspace.config import POINTER_NAMES
from kbhub.workspace.project import PROJECT_ID, find_pointer, trust_pointer
from kbhub.workspace.trust import Grant, identity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kbhub.search.base_suggestions import Suggestion
    from kbhub.workspace.trust import TrustStore


EVERYTHING_READ = sys.maxsize
"""Characters that `read` prints: a shell has no window of tokens to fit."""


class TrustResult(Model):
    """What `kbhub trust` recorded, listed or revoked."""

    grants: tuple[Grant, ...] = Field((), description=("What pointers may reach: just recorded, or all with `--list`."))
    revoked: tuple[Path, ...] = Field((), description="Pointers whose trust was revoked.")


def read(
    *refs: str,
    lines: Lines = Lines(),  # noqa: B008 - frozen
    formats: Formats = Formats(),  # noqa: B008 - frozen
) -> int:
    """Print documents, or parts of them, as they are on disk.

    A ref is a path in the project base, ID@PATH or ID/PATH in another, the end of a path if no other document has it, a
    title, a docid (quote it: '#a1b2c3'), or a path relative to the working directory. Append :LINE, :FROM-TO,
    :FROM:COUNT or '#Heading' for a part. Name several with commas, 'runbooks/*.md' or '{a,b}.md' (quote patterns).

    Example: kbhub read runbooks/rollback.md:10-30

    Args:
        refs: The documents to print.
        lines: Which lines.
        formats: Options of every command.

    Returns:
        The exit code: 1 if a ref matches no document.
    """
    form = formats.format()
    if not refs:
        raise UsageError("Nothing to read. Usage: kbhub read PATH, or, with a docid in quotes: kbhub read '#a1b2c3'")
    hub = Hub(hub_options(formats))
    wanted, whole = [decoded(ref) for ref in refs], ReadOptions(answer_bytes=EVERYTHING_READ)
    result = read_refs(hub, wanted, whole)
    if by_index(wanted, result):
        bring_in_step(hub)
        result = read_refs(hub, wanted, whole)
    count_read(hub, result)
    refs_read = [reading.ref for reading in result.readings]
    note_read(hub, refs_read)
    mark_read(hub, refs_read)
    readings = tuple(cut_reading(reading, lines.first, lines.count) for reading in result.readings)
    if lines.numbers:
        readings = tuple(
            reading.model_copy(update={"text": numbered(reading.text, reading.start_line)}) for reading in readings
        )
    headers = len(refs) > 1 or len(readings) > 1 or any(map(hides_title, readings))
    if form == "text" and not sys.stdout.isatty():
        write_verbatim(read_text(readings, headers=headers, verbatim=True))
    else:
        present(
            formats,
            lambda: readings_listing(readings),
            lambda: read_text(readings, headers=headers, verbatim=False, draw=_drawing(numbered=lines.numbers)),
            document=result.model_copy(update={"readings": readings}).model_dump_json(indent=2),
        )
    if form != "json":
        complain_all(f"{reading.ref}: {reading.deleted}." for reading in readings if reading.deleted)
        complain_all(unread.message for unread in result.unread)
        if not hub.discovery().bases:
            complain_broken(hub)
            complain_nothing(hub)
    flush()
    return 1 if result.unread else 0


def _drawing(*, numbered: bool) -> Callable[[str], str]:
    """Return a layout for a document: that of a terminal, unless its lines are numbered."""
    width = None if numbered else terminal_width()
    if width is None:
        return neutralised
    colour = wants_colour(sys.stdout, os.environ)
    return lambda text: f"{pages.drawn(text, width, colour=colour)}\n"


def status(*, formats: Formats = Formats()) -> int:  # noqa: B008 - frozen
    """Show the workspace, its bases and indexes, and any problems.

    Example: kbhub status --root ~/work/shop
    """
    listed = formats.format() in ("text", "json")
    state = overview(Hub(hub_options(formats, warn=not listed)))
    present(
        formats,
        lambda: status_listing(state.bases),
        lambda: status_text(
            state,
            now=datetime.now(UTC),
            paint=Painter(wants_colour(sys.stdout, os.environ)),
            verbose=formats.verbose,
            width=terminal_width(),
        ),
        document=state.model_dump_json(indent=2),
    )
    return 0


def init(
    *,
    knowledge: Annotated[str | None, Parameter(metavar="DIR")] = None,
    name: Annotated[str | None, Parameter(metavar="NAME")] = None,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Choose what kbhub searches here, or create a knowledge/ folder.

    If the project has Markdown already (docs/, a wiki, an Obsidian vault, a README), lists it; in a terminal, you can
    choose. Otherwise creates knowledge/. Never overwrites anything.

    Example: kbhub init --knowledge ~/notes/shop

    Args:
        knowledge: Write a pointer to this directory, and trust it; knowledge/ is created if it does not exist.
        name: Readable name of the project's knowledge.
        common: Options of every command.
    """
    hub = Hub(hub_options(common))
    found = choices(hub) if knowledge is None else ()
    if found and sys.stdin.isatty() and not common.json:
        chosen = _chosen(found)
        if chosen is None:
            complain("Nothing was changed.")
            return 0
        hub, knowledge = Hub(replace(hub.options, root=chosen.directory)), str(chosen.path)
    discovery, options = hub.discovery(), hub.options
    if knowledge is None:
        made = make_knowledge(discovery, name=name, found=tuple(one.sentence for one in found))
    else:
        made = point_to(discovery, knowledge, name=name, trust=hub.trust, home=options.home, cwd=options.cwd)
    if not found:
        hub.rediscover()
        made = made.model_copy(update={"notes": (*made.notes, *outside(hub))})
    if common.json:
        show_json(made.model_dump_json(indent=2))
    else:
        show_text(init_text(made))
        complain_all(made.notes)
    return 0


def _chosen(found: Sequence[Suggestion]) -> Suggestion | None:
    """Ask which folder is to be the project's knowledge; None to change nothing.

    Raises:
        UsageError: the answer is none of them.
    """
    lines = [f"  {number}  {one.name} ({one.documents})" for number, one in enumerate(found, 1)]
    listed = "\n".join(["This project has Markdown already. What should kbhub search?", *lines])
    sys.stderr.write(f"{listed}\nType a number, or Enter to change nothing: ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if answer.endswith("\n") and not answer.strip():
        return None
    number = answer.strip()
    if number.isdecimal() and 1 <= int(number) <= len(found):
        return found[int(number) - 1]
    raise UsageError(f"{number!r} is not one of them; nothing was changed.")


def trust(
    pointer: Annotated[Path | None, Parameter(metavar="POINTER")] = None,
    /,
    *,
    writable: bool = False,
    documents: bool = False,
    list_: Annotated[bool, Parameter(name="--list")] = False,
    revoke: Annotated[Path | None, Parameter(metavar="POINTER")] = None,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Allow a project's pointer to reach a folder outside the project, or hooks to deliver its documents.

    A pointer comes with a clone, so kbhub follows it out of the project only after you allow it. POINTER defaults to
    the one found for the workspace. Documents come with a clone, too: hooks and skills do not use them until
    --documents allows it for this project.

    Example: kbhub trust ~/work/shop/.kbhub.json

    Args:
        pointer: The .kbhub.json to trust, or its folder.
        writable: Also allow agents to write there.
        documents: Allow hooks to deliver this project's documents, and serve its skills.
        list_: List what is trusted.
        revoke: Stop trusting this pointer.
        common: Options of every command.
    """
    if (pointer is not None or writable) + documents + list_ + (revoke is not None) > 1:
        raise UsageError(
            "POINTER (with or without --writable), --documents, --list and --revoke cannot be used together."
        )
    hub = Hub(hub_options(common))
    if list_:
        result = TrustResult(grants=hub.trust.entries())
    elif revoke is not None:
        result = TrustResult(revoked=_revoke(revoke, hub.trust))
    elif documents:
        result = TrustResult(grants=(let_speak(hub),))
    else:
        target = pointer or _untrusted_pointer(hub, writable=writable)
        result = TrustResult(grants=trust_pointer(target, hub.trust, writable=writable, home=hub.options.home))
    if common.json:
        show_json(result.model_dump_json(indent=2))
    else:
        show_text(trust_text(result.grants, result.revoked, listed=list_))
    return 0


def _untrusted_pointer(hub: Hub, *, writable: bool) -> Path:
    """Return the pointer of the workspace if it asks for something that is not allowed yet.

    Raises:
        UsageError: it does not, or there is none.
    """
    discovery = hub.discovery()
    home = Path(os.path.realpath(hub.options.home))
    found = find_pointer(discovery.workspace, home, config=hub.config().path)
    if found is None:
        raise UsageError("No pointer found for this directory. Name one: kbhub trust PATH/.kbhub.json")
    base = next((base for base in discovery.bases if base.id == PROJECT_ID), None)
    problems = [problem for problem in discovery.problems if problem.subject == PROJECT_ID]
    if base and not problems and (base.writable or not writable):
        raise UsageError(
            f"{found} needs no permission beyond what is already allowed. `kbhub trust --list` shows what is allowed."
        )
    return found


def _revoke(path: Path, store: TrustStore) -> tuple[Path, ...]:
    """Revoke what a pointer, or those in a folder, were allowed."""
    if store.revoke(path):
        return (identity(path),)
    inside = (path / name for name in (*POINTER_NAMES, "knowledge", ".knowledge"))
    revoked = tuple(identity(file) for file in inside if store.revoke(file))
    if not revoked:
        raise UsageError(f"{path} is not trusted, so there is nothing to revoke. `kbhub trust --list` shows what is.")
    return revoked
