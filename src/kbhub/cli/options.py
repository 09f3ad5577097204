"""Options and arguments that several commands share: values, parsing and help."""

from __future__ import annotations

import logging
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from kbhub import __version__
from kbhub.errors import UsageError
from kbhub.render.words import neutralised
from kbhub.types import BOUNDS

if TYPE_CHECKING:
    from kbhub.render.formats import Format


_FORMATS: tuple[Format, ...] = ("json", "csv", "md", "xml", "files")
"""Options that choose a format."""

_SHARED = Parameter(name="*", group=Group("Common options", sort_key=2))
"""What every command takes has a group of its own in the help."""

MOST_AROUND = 1000
"""Lines around a matching one; more are a document."""


LOGGERS = ("kbhub", "httpx")
"""Loggers that are shown: kbhub's own, and httpx with a line per request to a model server."""

FORMAT = "kbhub: %(relativeCreated)d ms %(levelname)s %(name)s: %(message)s"

log = logging.getLogger(__name__)


def within(name: str) -> Number:
    """Return the validator of a number that is a field of a query."""
    least, most = BOUNDS[name]
    return Number(gte=least, lte=most)


AllowSecret = Annotated[bool, Parameter(name="--allow-secret", negative="")]
"""For a person who knows that what looks like a credential is none."""


@_SHARED
@dataclass(frozen=True, kw_only=True)
class Places:
    """Where to look."""

    root: Annotated[str | None, Parameter(name="--root", metavar="DIR")] = None
    """Use this directory as the workspace instead of the working directory."""

    config: Annotated[Path | None, Parameter(name="--config", metavar="FILE")] = None
    """Use this global config instead of ~/.kbhub.json."""

    cache_dir: Annotated[Path | None, Parameter(name="--cache-dir", metavar="DIR")] = None
    """Store indexes in this directory."""

    base: Annotated[tuple[str, ...], Parameter(name="--base", metavar="ID=PATH")] = ()
    """Also use this folder as a base; may be repeated."""

    verbose: Annotated[bool, Parameter(name="--verbose")] = False
    """Log what is looked for, found and done to standard error."""


@_SHARED
@dataclass(frozen=True, kw_only=True)
class Common(Places):
    """Where to look, and how to answer."""

    json: Annotated[bool, Parameter(name="--json")] = False
    """Print JSON."""


@_SHARED
@dataclass(frozen=True, kw_only=True)
class Tables(Common):
    """Where to look, and in which format to list: takes the place of `Common` in commands that list things."""

    csv: Annotated[bool, Parameter(name="--csv")] = False
    """Print CSV with a header."""

    md: Annotated[bool, Parameter(name="--md")] = False
    """Print Markdown: a table, or a section for each text."""

    xml: Annotated[bool, Parameter(name="--xml")] = False
    """Print XML."""

    no_pager: Annotated[bool, Parameter(name="--no-pager")] = False
    """Do not use a pager for long text."""

    def format(self) -> Format:
        """Return the requested format; `UsageError` if there are several."""
        chosen = [name for name in _FORMATS if getattr(self, name, False)]
        if len(chosen) > 1:
            raise UsageError(f"{' and '.join(f'--{name}' for name in chosen)} cannot be used together.")
        return chosen[0] if chosen else "text"


@_SHARED
@dataclass(frozen=True, kw_only=True)
class Formats(Tables):
    """The same for commands whose lists are of files."""

    files: Annotated[bool, Parameter(name="--files")] = False
    """Print one line per file: docid, score, path, context."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Hits:
    """Which hits to show, and how much of each."""

    all_: Annotated[bool, Parameter(name="--all")] = False
    """Show all hits."""

    min_score: Annotated[float, Parameter(name="--min-score", metavar="X", validator=within("min_score"))] = 0.0
    """Show only hits with at least this score, from 0 to 1."""

    min_signals: Annotated[int, Parameter(name="--min-signals", metavar="N", validator=within("min_signals"))] = 1
    """Show only hits found by at least this many signals, of keyword and semantic."""

    recency: Annotated[float, Parameter(name="--recency", metavar="X", validator=within("recency"))] = 0.0
    """Prefer newer documents, from 0 (off) to 1 (half a year halves the score)."""

    expand: Annotated[bool, Parameter(name="--expand")] = False
    """Ask a local Ollama model for other wordings first, unless the query already finds strong hits."""

    expand_model: Annotated[str | None, Parameter(name="--expand-model", metavar="MODEL")] = None
    """Use this model for --expand instead of the one in the config; implies --expand."""

    rerank: Annotated[bool, Parameter(name="--rerank")] = False
    """Rerank the best hits with a local Ollama model."""

    full: Annotated[bool, Parameter(name="--full")] = False
    """Show whole documents (whole chunks with --granularity chunk) instead of excerpts."""

    around: Annotated[
        int | None, Parameter(name=("--context", "-C"), metavar="N", validator=Number(gte=0, lte=MOST_AROUND))
    ] = None
    """Show matching lines with N lines before and after, like grep."""

    line_numbers: Annotated[bool, Parameter(name="--line-numbers")] = False
    """Number the lines."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Lines:
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
    own = logging.getLogger(LOGGERS[0])
    if any(isinstance(handler.formatter, _Harmless) for handler in own.handlers):
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Harmless(FORMAT))
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False  # the server's own handler would print it twice
    log.debug("kbhub %s, Python %s, %s", __version__, platform.python_version(), platform.platform())


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
    """Return an argument as Unicode, or raise `UsageError` if it is not UTF-8.

    Python passes bytes that the locale does not know as lone surrogates.
    """
    try:
        return given.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError as error:
        raise UsageError(f"{given!r} is not UTF-8. Convert it first.") from error


def optional(given: str | None) -> str | None:
    """Return an argument, if there is one, as `argument` does."""
    return None if given is None else argument(given)
