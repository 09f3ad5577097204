"""What the everyday commands do, save `search`: open a hub, ask it, print. Loaded when one of them runs."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kbhub.cli import INTERRUPTED, commands
from kbhub.cli.console import (
    complain,
    progress_bars,
    show_json,
    show_text,
    terminal_width,
    wants_colour,
    write_verbatim,
)
from kbhub.cli.hits import (
    cut_reading,
    numbered,
    readings_listing,
)
from kbhub.cli.hubs import decoded, hub_options
from kbhub.cli.output import present
from kbhub.cli.readiness import (
    active_and_broken,
    bring_in_step,
    complain_all,
    complain_broken,
    complain_nothing,
    pull_bases,
)
from kbhub.cli.results import IndexResult, TrustResult
from kbhub.errors import BaseNotFound, KbhubError, UsageError
from kbhub.hub import Hub
from kbhub.init import make_knowledge, point_to
from kbhub.keeping import change_keeping
from kbhub.later import pages
from kbhub.memory.known import count_read
from kbhub.outside import outside
from kbhub.overview import overview
from kbhub.pointer import POINTER_NAMES
from kbhub.project import PROJECT_ID, find_pointer, trust_pointer
from kbhub.querylog.recording import flush, note_read
from kbhub.reading import ReadOptions, by_index
from kbhub.render.diagnosis import diagnosis_text
from kbhub.render.listing import status_listing
from kbhub.render.plain import neutralised
from kbhub.render.terminal import (
    Painter,
    init_text,
    read_text,
    report_text,
    status_text,
    trust_text,
)
from kbhub.trust import identity
from kbhub.types import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kbhub.cli.options import Common, Formats, Lines, Places
    from kbhub.reports import SyncReport
    from kbhub.sync import Progress
    from kbhub.trust import TrustStore

EVERYTHING_READ = sys.maxsize
"""Characters that `read` prints: a shell has no window of tokens to fit."""


def read(refs: Sequence[str], *, lines: Lines, formats: Formats) -> int:
    """Print what refs lead to; 1 if one leads nowhere."""
    form = formats.format()
    if not refs:
        raise UsageError("Nothing to read. Name a ref: kbhub read PATH, or a docid in quotes: kbhub read '#a1b2c3'.")
    hub = Hub(hub_options(formats))
    wanted, whole = [decoded(ref) for ref in refs], ReadOptions(answer_bytes=EVERYTHING_READ)
    result = hub.read(wanted, whole)
    if by_index(wanted, result):
        bring_in_step(hub)
        result = hub.read(wanted, whole)
    count_read(hub, result)
    note_read(hub, [reading.ref for reading in result.readings])
    readings = tuple(cut_reading(reading, lines.first, lines.count) for reading in result.readings)
    if lines.numbers:
        readings = tuple(one.model_copy(update={"text": numbered(one.text, one.start_line)}) for one in readings)
    headers = len(refs) > 1 or len(readings) > 1
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
        complain_all(f"{one.ref}: {one.deleted}." for one in readings if one.deleted)
        complain_all(unread.message for unread in result.unread)
        if not hub.discovery().bases:
            complain_broken(hub)
            complain_nothing(hub)
    flush()
    return 1 if result.unread else 0


def _drawing(*, numbered: bool) -> Callable[[str], str]:
    """Give what lays a document out: for a terminal, unless its lines are to be told by their numbers."""
    width = None if numbered else terminal_width()
    if width is None:
        return neutralised
    colour = wants_colour(sys.stdout, os.environ)
    return lambda text: f"{pages.drawn(text, width, colour=colour)}\n"


def index(
    bases: Sequence[str],
    *,
    all_bases: bool,
    full: bool,
    keep_deleted: Sequence[str],
    forget_deleted: Sequence[str],
    pull: bool,
    common: Common,
) -> int:
    """Bring indexes in step; 1 if a base could not be, 130 if interrupted."""
    if bases and all_bases:
        raise UsageError("--all-bases and names of bases exclude each other; leave one out.")
    hub = Hub(hub_options(common, every_base=all_bases))
    if bases:
        names = [base.id for base in hub.select(bases)]
    else:
        names = _every_name(hub) if all_bases else active_and_broken(hub)
    complain_all(change_keeping(hub, names, keep=keep_deleted, forget=forget_deleted))
    pulled = pull_bases(hub, bases) if pull else ()
    reports: list[SyncReport] = []
    failed: list[Problem] = []
    interrupted = False
    try:
        with progress_bars() as progress:
            for name in names:
                _index_one(hub, name, reports, failed, full=full, progress=progress)
    except KeyboardInterrupt:
        interrupted = True
    if not (interrupted or all_bases):  # with other bases than usual, other questions are answered
        commands.querylog.maintain_if_due(hub)
    if common.json:
        result = IndexResult(pulled=pulled, reports=tuple(reports), failed=tuple(failed), interrupted=interrupted)
        show_json(result.model_dump_json(indent=2))
    else:
        for report in reports:
            show_text(report_text(report))
        complain_all(f"{one.subject}: {one.message}" for one in failed)
    if interrupted:
        complain("Interrupted. The indexes are usable as far as they got; the next `kbhub index` goes on from there.")
        return INTERRUPTED
    if not names and all_bases:
        complain("The global config names no base to index. `kbhub bases add PATH` adds one.")
    elif not names:
        complain_nothing(hub)
    return 1 if failed or not names or any(one.state == "failed" for one in pulled) else 0


def status(*, formats: Formats) -> int:
    """Print what is here."""
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


def doctor(*, fix: bool, common: Common) -> int:
    """Print what is wrong, mend what is safe if that is wanted; 1 if an error is left."""
    # It asks the watcher what it could watch, whose library no other command but `serve` needs.
    from kbhub.doctor import examine, mend  # noqa: PLC0415

    hub = Hub(hub_options(common, warn=False))
    diagnosis = examine(hub)
    if fix:
        diagnosis = mend(hub, diagnosis)
    if common.json:
        show_json(diagnosis.model_dump_json(indent=2))
    else:
        show_text(diagnosis_text(diagnosis, Painter(wants_colour(sys.stdout, os.environ))))
    return 1 if any(finding.level == "error" for finding in diagnosis.findings) else 0


def init(*, knowledge: str | None, name: str | None, common: Common) -> int:
    """Make knowledge, or a pointer to it, and say what to do next."""
    hub = Hub(hub_options(common))
    discovery, home = hub.discovery(), hub.options.home
    if knowledge is None:
        made = make_knowledge(discovery, name=name)
    else:
        made = point_to(discovery, knowledge, name=name, trust=hub.trust, home=home, cwd=hub.options.cwd)
    hub.rediscover()
    made = made.model_copy(update={"notes": (*made.notes, *outside(hub))})
    if common.json:
        show_json(made.model_dump_json(indent=2))
    else:
        show_text(init_text(made))
        complain_all(made.notes)
    return 0


def trust(pointer: Path | None, *, writable: bool, listed: bool, revoke: Path | None, common: Common) -> int:
    """Record, list or take back what projects may reach."""
    if (pointer is not None or writable) + listed + (revoke is not None) > 1:
        raise UsageError("A POINTER (with or without --writable), --list and --revoke exclude each other; use one.")
    hub = Hub(hub_options(common))
    if listed:
        result = TrustResult(grants=hub.trust.entries())
    elif revoke is not None:
        result = TrustResult(revoked=_revoke(revoke, hub.trust))
    else:
        target = pointer or _untrusted_pointer(hub, writable=writable)
        result = TrustResult(grants=trust_pointer(target, hub.trust, writable=writable, home=hub.options.home))
    if common.json:
        show_json(result.model_dump_json(indent=2))
    else:
        show_text(trust_text(result.grants, result.revoked, listed=listed))
    return 0


def serve(*, structured: bool, protocol: str | None, read_only: bool, places: Places) -> NoReturn:
    """Run the MCP server until the client goes, then end the process."""
    # The MCP SDK takes half a second to import; no other command needs it.
    from kbhub.stdio import serve as serve_stdio  # noqa: PLC0415

    if sys.stdin.isatty():
        complain("This server speaks MCP with a coding agent on standard input; a person can leave with Ctrl-D.")
    chosen = protocol or os.environ.get("KBHUB_PROTOCOL") or "auto"
    options = replace(hub_options(places, serve=True), read_only=read_only)
    serve_stdio(options, structured=structured, protocol=chosen)


def _untrusted_pointer(hub: Hub, *, writable: bool) -> Path:
    """Give the pointer of the workspace, if there is anything about it to allow."""
    discovery = hub.discovery()
    home = Path(os.path.realpath(hub.options.home))
    found = find_pointer(discovery.workspace, home, config=hub.config().path)
    if found is None:
        raise UsageError("No pointer was found for this directory; name one: kbhub trust PATH/.kbhub.json.")
    base = next((base for base in discovery.bases if base.id == PROJECT_ID), None)
    problems = [problem for problem in discovery.problems if problem.subject == PROJECT_ID]
    if base and not problems and (base.writable or not writable):
        raise UsageError(f"{found} asks for nothing that is not allowed already. `kbhub trust --list` shows what is.")
    return found


def _revoke(path: Path, store: TrustStore) -> tuple[Path, ...]:
    """Take back what was allowed to a pointer, or to those in a folder."""
    if store.revoke(path):
        return (identity(path),)
    inside = (path / name for name in (*POINTER_NAMES, "knowledge", ".knowledge"))
    revoked = tuple(identity(one) for one in inside if store.revoke(one))
    if not revoked:
        raise UsageError(f"Nothing is trusted for {path}; `kbhub trust --list` shows what is.")
    return revoked


def _index_one(
    hub: Hub,
    name: str,
    reports: list[SyncReport],
    failed: list[Problem],
    *,
    full: bool,
    progress: Progress | None,
) -> None:
    try:
        reports += hub.sync((name,), full=full, check=True, progress=progress)
    except KbhubError as error:
        failed.append(Problem(subject=name, message=_why(hub, name, error)))


def _every_name(hub: Hub) -> list[str]:
    """Ids of the global config's bases and of those named for this call, active or not."""
    return sorted({*hub.config().settings.bases, *hub.options.bases})


def _why(hub: Hub, name: str, error: KbhubError) -> str:
    """A base that is not active has its reason among the problems of discovery."""
    if isinstance(error, BaseNotFound):
        return next((one.message for one in hub.discovery().problems if one.subject == name), str(error))
    return str(error)
