"""Options and arguments that several commands share, and the hub that is opened with them."""

from __future__ import annotations

import inspect
import logging
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from kbhub import __version__
from kbhub.cli.app import COMMON, MORE, complain, page, progress_bars, show, terminal_width, wants_colour
from kbhub.errors import KbhubError, UsageError
from kbhub.hub import Hub, HubOptions
from kbhub.render import formats as listings
from kbhub.render.formats import Format
from kbhub.render.report import Listing, Report
from kbhub.render.terminal import json_escaped, line, neutralised, warnings_text
from kbhub.render.terminal import text as text_of
from kbhub.sync import base_suggestions
from kbhub.sync.comparison import Progress
from kbhub.sync.freshness import Patience, first_indexes, freshen, sync
from kbhub.types import BOUNDS, Problem
from kbhub.values import Value, counted, struct
from kbhub.workspace.config import parse_base_arguments
from kbhub.workspace.files import WORKING_DIRECTORY_GONE, working_directory
from kbhub.workspace.project import PROJECT_ID

_FORMATS: tuple[Format, ...] = ("json", "csv", "md", "xml", "files")

RARE = Group(MORE, sort_key=2)
"""What only `--help-all` shows."""

MOST_AROUND = 1000
"""Lines around a matching one; more are a document."""

LOGGERS = ("kbhub", "httpx")
"""Loggers that are shown: kbhub's own, and httpx with a line per request to a model server."""

FORMAT = "kbhub: %(relativeCreated)d ms %(levelname)s %(name)s: %(message)s"

log = logging.getLogger(__name__)

WITHIN = {name: Number(gte=least, lte=most) for name, (least, most) in BOUNDS.items()}
"""Field of a query that is a number → the validator of its option."""


@Parameter(name="*", group=Group(COMMON, sort_key=3))
class Places(Value):
    """Where to look. These options, and those of subclasses, have a group of their own in the help."""

    root: Annotated[str | None, Parameter(metavar="DIR")] = None
    """Use this directory as the workspace instead of the working directory."""

    config: Annotated[Path | None, Parameter(metavar="FILE")] = None
    """Use this global config instead of ~/.kbhub.json."""

    cache_dir: Annotated[Path | None, Parameter(metavar="DIR")] = None
    """Store indexes in this directory."""

    base: Annotated[tuple[str, ...], Parameter(metavar="ID=DIR")] = ()
    """Also use this folder as a base; may be repeated."""

    verbose: bool = False
    """Log what is looked for, found and done to standard error."""


class Common(Places):
    """Where to look, and how to answer."""

    json: bool = False
    """Print JSON."""

    def format(self) -> Format:
        """Return the requested format; `UsageError` if there are several."""
        chosen = [name for name in _FORMATS if getattr(self, name, False)]
        if len(chosen) > 1:
            raise UsageError(f"{' and '.join(f'--{name}' for name in chosen)} cannot be used together.")
        return chosen[0] if chosen else "text"


class Tables(Common):
    """Where to look, and in which format to list: takes the place of `Common` in commands that list things."""

    csv: bool = False
    """Print CSV with a header."""

    md: bool = False
    """Print Markdown: a table, or a section for each text."""

    xml: bool = False
    """Print XML."""

    no_pager: bool = False
    """Do not use a pager for long text."""


class Formats(Tables):
    """The same for commands whose lists are of files."""

    files: bool = False
    """Print one line per file: docid, score, path, context."""


@Parameter(name="*")
class Hits(Value):
    """Which hits to show, and how much of each."""

    all_: bool = False
    """Show all hits."""

    min_score: Annotated[float, Parameter(group=RARE, metavar="X", validator=WITHIN["min_score"])] = 0.0
    """Show only hits with at least this score, from 0 to 1."""

    recency: Annotated[float, Parameter(group=RARE, metavar="X", validator=WITHIN["recency"])] = 0.0
    """Prefer newer documents, from 0 (off) to 1 (half a year halves the score)."""

    expand: Annotated[bool, Parameter(group=RARE)] = False
    """Ask a local Ollama model for other wordings first, unless the query already finds strong hits."""

    expand_model: Annotated[str | None, Parameter(group=RARE, metavar="MODEL")] = None
    """Use this model for --expand instead of the one in the config; implies --expand."""

    rerank: Annotated[bool, Parameter(group=RARE)] = False
    """Rerank the best hits with a local Ollama model."""

    full: bool = False
    """Show whole documents (whole chunks with --granularity chunk) instead of excerpts."""

    around: Annotated[
        int | None, Parameter(name=("--context", "-C"), metavar="N", validator=Number(gte=0, lte=MOST_AROUND))
    ] = None
    """Show matching lines with N lines before and after, like grep."""

    line_numbers: Annotated[bool, Parameter(group=RARE)] = False
    """Number the lines."""


@Parameter(name="*")
class Lines(Value):
    """Which lines of documents to show."""

    first: Annotated[int | None, Parameter(name="--from", metavar="LINE", validator=Number(gte=1))] = None
    """Start at this line."""

    count: Annotated[int | None, Parameter(name=("--lines", "-l"), metavar="N", validator=Number(gte=1))] = None
    """Show at most this many lines."""

    numbers: Annotated[bool, Parameter(name="--line-numbers")] = False
    """Number the lines."""


class _Harmless(logging.Formatter):
    """Neutralises log messages, which may quote a document."""

    def format(self, record: logging.LogRecord) -> str:
        return neutralised(super().format(record))


def log_to_stderr() -> None:
    """Show log messages from now on; does nothing the second time."""
    if any(isinstance(handler.formatter, _Harmless) for handler in logging.getLogger(LOGGERS[0]).handlers):
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Harmless(FORMAT))
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False  # the server's own handler would print it twice
    log.debug("kbhub %s, Python %s, %s %s", __version__, platform.python_version(), sys.platform, platform.release())


def standard_input(limit: int, of: str) -> str:
    """Read UTF-8 from standard input, at most `limit` bytes; `of` names what is limited, for the error message."""
    data = sys.stdin.buffer.read(limit + 1)
    if len(data) > limit:
        raise UsageError(f"Standard input is longer than the {limit} bytes allowed for {of}.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"Standard input is not UTF-8 (byte {error.start}). Convert it first.") from error


def argument(given: str) -> str:
    """Return an argument as Unicode; `UsageError` if it is not UTF-8, which Python passes as lone surrogates."""
    try:
        return given.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError as error:
        raise UsageError(f"{given!r} is not UTF-8. Convert it first.") from error


def optional(given: str | None) -> str | None:
    """Return an argument, if there is one, as `argument` does."""
    return None if given is None else argument(given)


POLL_SECONDS = 0.1
"""Interval of looks at a first index that another process makes."""


def hub_options(places: Places, *, serve: bool = False, every_base: bool = False, warn: bool = True) -> HubOptions:
    """Return the hub's options; `warn` prints config fields without effect, unless the result or a client has them."""
    if places.verbose:
        log_to_stderr()
    env = dict(os.environ)
    here, told = working_directory(), set[Problem]()
    if here is None and places.root is None and not serve:
        raise UsageError(WORKING_DIRECTORY_GONE)

    def complain_once(warnings: Sequence[Problem]) -> None:
        fresh = [warning for warning in warnings if warning not in told]
        told.update(fresh)
        if fresh:
            complain(warnings_text(fresh))

    return HubOptions(
        root=places.root,
        config=places.config,
        bases=parse_base_arguments(places.base, env),
        cache=places.cache_dir,
        serve=serve,
        every_base=every_base,
        env=env,
        cwd=here or Path(os.sep),
        typed_in=None if serve else here,
        warn=complain_once if warn and not serve else None,
    )


def decoded(argument: str) -> str:
    """Return an argument as Unicode: Python passes bytes that the locale does not know as lone surrogates."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def bring_in_step(hub: Hub, names: Sequence[str] = ()) -> None:
    """Sync bases with few changes, and report those that are too far behind."""
    most = hub.config().settings.limits.freshen_files
    with progress_bars() as progress:
        for behind in freshen(hub, names, progress):
            if not behind.new_index and behind.files > most:
                command = shlex.join(["kbhub", "admin", "index", behind.base])
                complain(
                    f"{behind.base}: {behind.files} files changed since the last sync; run `{command}` to index them."
                )
                continue
            if progress is None and behind.files > most:
                complain(f"{behind.base}: indexing {behind.files} files…")
            try:
                reports = sync(hub, (behind.base,), progress=progress)
                if any(report.busy for report in reports) and _await_first_index(hub, behind.base, progress):
                    reports = sync(hub, (behind.base,), progress=progress)
            except KbhubError as error:
                if not behind.new_index:  # without an index, the result says why there is none
                    complain(str(error))
                continue
            for report in reports:
                complain(*(f"{report.base}: {note}" for note in report.notes))
                if report.failed:
                    files = counted(len(report.failed), "file")
                    complain(f"{report.base}: could not index {files}; see `kbhub status`.")


def _await_first_index(hub: Hub, base: str, progress: Progress | None) -> bool:
    """Wait while another process makes the first index of a base; return whether it has ended."""
    patience = Patience()
    while files := first_indexes(hub, (base,)).get(base):
        if progress:
            progress(base, *files)
        if (left := patience.left(files[0])) <= 0:
            return False
        time.sleep(min(left, POLL_SECONDS))
    return True


def without_bases(hub: Hub) -> list[str]:
    """Return why no base is active, and what to do; nothing if one is."""
    return [] if hub.discovery().bases else [*(one.text for one in hub.missing()), *nothing_active(hub)]


def nothing_active(hub: Hub) -> list[str]:
    """Return where bases were looked for and what to do, unless kbhub is off here."""
    discovery = hub.discovery()
    # What was there and does not count has its reason behind it; the rest was not there.
    places = [place for place in discovery.looked_for if place.endswith((")", "off here"))]
    if discovery.off:
        return places
    if any(problem.subject == PROJECT_ID for problem in discovery.problems):
        return [*places, "No knowledge is active here; `kbhub status` says more."]
    if where := discovery.workspace.directory:
        advice = (
            f"No knowledge is active here: none in {where}, above it or in the global config. Run `kbhub init` to "
            "choose or create some, or `kbhub status` to see where kbhub looked."
        )
    else:
        advice = (
            "No knowledge is active here: no project, and no base in the global config. Change to a project, name one "
            "with --root DIR, or add a folder of notes with `kbhub base add DIR`."
        )
    return [*places, advice, *base_suggestions.outside(hub)]


class Exact(str):
    """Text that is printed as it is: not wrapped, and without a newline at the end if it has none."""

    __slots__ = ()


Wording = str | Report


@struct
class Reply:
    """What a command returns if it has more to say than its result."""

    result: Any = None
    """A model, rows or a JSON document; without one, `text` is printed in every format."""
    text: Wording | Callable[[], Wording] = ""
    """The result for a person, in place of the command's `text`."""
    rows: Callable[[], Listing] | None = None
    """Return the result as records, in place of the command's `rows`."""
    notes: Sequence[str] = ()
    """Printed on standard error after the result and the notes of a report, unless that is JSON, which has them."""
    hints: Sequence[str] = ()
    """The same in every format."""
    code: int = 0


def command(
    text: Callable[[Any], Wording] | None = None, *, options: type[Common] = Common, colour: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., int]]:
    """Make a command of a function, which gets `hub` and `common` if it names them, and print what it returns."""

    def decorate(function: Callable[..., Any]) -> Callable[..., int]:
        signature = inspect.signature(function)
        own = [one for name, one in signature.parameters.items() if name not in ("hub", "common")]
        shared = inspect.Parameter("common", inspect.Parameter.KEYWORD_ONLY, default=options(), annotation=options)

        @wraps(function)
        def run(*arguments: Any, common: Common = shared.default, **more: Any) -> int:
            common.format()  # raises before anything is done
            if common.verbose:
                log_to_stderr()
            if "hub" in signature.parameters:
                arguments = (Hub(hub_options(common)), *arguments)
            if "common" in signature.parameters:
                more["common"] = common
            returned = function(*arguments, **more)
            reply = returned if isinstance(returned, Reply) else Reply(returned)
            if text and reply.result is not None and not reply.text:
                reply = replace(reply, text=partial(text, reply.result))
            show_reply(reply, common, colour=colour)
            return reply.code

        run.__signature__ = signature.replace(parameters=[*own, shared])  # type: ignore[attr-defined]
        run.__annotations__ = {**function.__annotations__, "common": options}
        return run

    return decorate


def drawn(text: str, **layout: Any) -> str:
    """Lay Markdown out for the terminal."""
    from kbhub.render import pages  # noqa: PLC0415 - rich takes 80 ms to load

    return pages.drawn(text, **layout)


def show_reply(reply: Reply, common: Common, *, colour: bool = False) -> None:
    """Print a result in the requested format, and what is said about it."""
    form, result, noted = common.format(), reply.result, list[str]()
    if form == "json" and (isinstance(result, str) or hasattr(result, "model_dump_json")):
        # Escaped are the characters that a terminal would act upon.
        show(json_escaped(result if isinstance(result, str) else result.model_dump_json(indent=2)))
    else:
        said = reply.text() if callable(reply.text) else reply.text
        noted = [*map(line, said.notes if isinstance(said, Report) else ()), *reply.notes]
        if form != "text" and result is not None:
            rows = said.rows if isinstance(said, Report) else reply.rows
            if rows is None:
                raise UsageError("This result has no rows.")
            written = listings.formatted(rows(), form)
            # Files get the original text, but terminals must not get its control characters.
            show(neutralised(written) if sys.stdout.isatty() else written)
        elif isinstance(said, Exact):
            show(said, exact=True)
        else:
            if isinstance(said, Report):
                said = text_of(said, colour=colour and wants_colour(sys.stdout), width=terminal_width(), draw=drawn)
            page(said, pager=isinstance(common, Tables) and not common.no_pager)
    complain(*noted, *reply.hints)
