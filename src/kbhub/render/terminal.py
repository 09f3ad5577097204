"""Render results for a person at a terminal, without printing them.

All text from files and file names goes through `neutralised` or `visible_line`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.index.query.excerpts import excerpt, spans
from kbhub.render import memories
from kbhub.render.layout import cell_width, message_of, neutralised, passed_over_text, shortened, table, visible_line
from kbhub.render.report import Call, Item, Name, Names, Quote, Ref, Report, Say, Text
from kbhub.types import Problem
from kbhub.values import DAY_SECONDS, counted, struct
from kbhub.workspace.formats import MARKDOWN_SUFFIX

if TYPE_CHECKING:
    from kbhub.reading.reports import BaseStatus, DaemonStatus, Status
    from kbhub.setup.init import Initialised
    from kbhub.sync.comparison import SyncReport
    from kbhub.workspace.trust import Grant

OTHER_EXCERPT_CHARACTERS = 300
"""Length of excerpts after the first hit's, which is shown in full: some four lines of 80 columns."""

TITLE_CHARACTERS = 60
"""Maximum length of a title or mark in a table."""

LISTED_PROBLEMS = 20
"""Problems listed per base; `--json` has all."""

_BOLD, _DIM, _REF, _TERM, _WARNING = "1", "2", "1;36", "1;33", "33"
"""SGR parameters (ECMA-48): bold, faint, bold cyan, bold yellow, yellow."""

NEXT_STEPS = """\
Next:
  {first}
  kbhub setup       shows the coding agents on this machine, and registers the server with them"""

_STARTER_STEP = 'kbhub search "how to write knowledge"'
_THERE_STEP = "kbhub ls project  lists the documents that are there"
"""First step after `init`: a search that the starter document answers, or, with existing documents, their list."""

FEW_PLACES = 4
"""Number of places up to which all are listed without `--verbose`; a folder three below its git root has 29."""

NO_PROJECT = "none; change to a project, or name one with --root DIR"

_GUTTER = "  │ "
_INDENT = "      "


@struct
class Painter:
    """Adds colours to text, if they are wanted."""

    colour: bool = False

    def __call__(self, text: str, parameters: str) -> str:
        """Return a text with SGR parameters applied, or unchanged without colours."""
        return f"\x1b[{parameters}m{text}\x1b[0m" if self.colour and text else text


PLAIN = Painter()


def text(
    report: Report, paint: Painter = PLAIN, *, width: int | None = None, whole: bool = False, verbatim: bool = False
) -> str:
    """Return a report without its notes and calls.

    `width` is the columns for which tables and quotes are laid out, or None for plain Markdown. Unless `whole`, quotes
    that are not fenced are shortened; `verbatim` keeps the lines of the file.
    """
    room = None if verbatim else width
    lines = _lines(report.head, paint, room, whole=whole) if report.head else []
    indent = "  " if any(isinstance(part, str) and part for part in report.parts) else ""
    for in_table, parts in groupby(report.parts, key=lambda part: isinstance(part, Item) and part.row):
        if in_table:
            items = [part for part in parts if isinstance(part, Item)]
            lines += [indent + row for row in _table(items, width and width - len(indent))]
            continue
        for part in parts:
            if isinstance(part, str):
                lines.append(paint(line(part), _BOLD))
                continue
            if isinstance(part, Quote):
                lines += _quote_lines(part, paint, room, whole=True)
                continue
            block = _lines(part, paint, room, whole=whole)
            if isinstance(part, Item) and part.quote:
                lines += ["", *block] if lines else block
            else:
                lines += [indent * isinstance(part, Item) + one for one in block]
    return "\n".join([*lines, *(["", line(report.foot)] if report.foot else [])]).strip("\n")


def notes(report: Report) -> list[str]:
    """Return the notes of a report, for standard error."""
    return [*map(line, report.notes)]


def line(text: Text) -> str:
    """Return a text on one line for a person."""
    match text:
        case str():
            return visible_line(text)
        case Name():
            return visible_line(text.text)
        case Names():
            return visible_line(", ".join(text.names))
        case Ref():
            return visible_line(f"{text.ref}{text.part}")
        case Call():
            return f"`{visible_line(text.command)}`"
        case Say():
            return text.template.format(*map(line, text.parts))


def _lines(part: Text | Item, paint: Painter, width: int | None, *, whole: bool) -> list[str]:
    if not isinstance(part, Item):
        return [line(part)]
    ref = [paint(line(part.ref), _REF), paint(part.ref.docid, _DIM)] if part.ref else []
    title, marks, details = line(part.title), [*map(line, part.marks)], [*map(line, part.details)]
    label, warning = line(part.label), paint(line(part.warning), _WARNING)
    named = " ".join(filter(None, (label, *ref[:1])))
    if part.quote is None:
        return [
            _joined(part.score, named, *ref[1:], title, *marks, *details, warning),
            *(f"    {line(one)}" for one in part.lines),
        ]
    lines = [_joined(part.score, named, *ref[1:], *(paint(mark, _DIM) for mark in marks), warning)]
    lines += [_INDENT + line for line in (paint(title, _BOLD), visible_line(part.trace)) if line]
    lines += [f"{paint(_GUTTER, _DIM)}{line}".rstrip() for line in _quote_lines(part.quote, paint, width, whole=whole)]
    return [*lines, *(_INDENT + paint(detail, _DIM) for detail in details)]


def report_text(report: SyncReport) -> str:
    """Return the result of syncing a base, with a line per failed file."""
    documents = (
        f"{report.added} added, {report.changed} changed, {report.removed} removed, "
        f"{report.unchanged} unchanged, {len(report.failed)} failed"
    )
    vectors = counted(report.vectors_made, "vector")
    chunks = f"{counted(report.chunks, 'chunk')}, {vectors} made, {report.vectors_reused} reused"
    lines = [f"{report.base}: {documents}; {chunks}; {report.seconds:.1f} s"]
    lines += [f"  failed {_problem(failed)}" for failed in report.failed]
    lines += [f"  {passed_over_text(report.passed_over)}"] if report.passed_over else []
    lines += [f"  {visible_line(note)}" for note in report.notes]
    return "\n".join(lines)


def status_text(
    status: Status, *, now: datetime, paint: Painter, verbose: bool = False, width: int | None = None
) -> str:
    """Return the status of a workspace: configuration, bases, problems.

    `now`, with its time zone, is for ages. `verbose` lists all places where knowledge was looked for.
    """
    workspace = status.workspace
    where = f"{workspace.directory} ({workspace.source})" if workspace.directory else NO_PROJECT
    facts = [
        ("kbhub", status.version),
        ("workspace", where),
        ("config", str(status.config or "none")),
        ("embedder", status.embedder),
        *([("daemon", _daemon(status.daemon, status.version))] if status.daemon else []),
    ]
    blocks = ["\n".join(f"{paint(f'{name:<9}', _DIM)}  {visible_line(value)}" for name, value in facts)]
    if status.bases:
        blocks.append(_bases_table(status.bases, now, paint, width))
    else:
        fresh = all(problem.subject != "project" for problem in status.problems)
        blocks.append(no_bases(status.looked_for, fresh=fresh and bool(workspace.directory), verbose=verbose))
    if about := _overview_lines(status):
        blocks.append("\n".join(f"{paint(f'{name:<9}', _DIM)}  {visible_line(value)}" for name, value in about))
    if status.queries and (status.queries.asked or status.queries.gaps):
        blocks.append(
            "\n".join([paint("queries", _DIM), *(f"  {line}" for line in memories.summary_lines(status.queries))])
        )
    if status.hooks:
        blocks.append(f"{paint('hooks    ', _DIM)}  {visible_line(status.hooks)}")
    if status.bases and not any(entry.base.id == "project" for entry in status.bases):
        blocks.append(_looked_for("No project base", status.looked_for, verbose=verbose))
    passed = [f"{entry.base.id}: {passed_over_text(entry.passed_over)}" for entry in status.bases if entry.passed_over]
    if notes := [*passed, *status.notes]:
        blocks.append("\n".join(map(visible_line, notes)))
    problems = [_problem(problem) for problem in status.problems]
    for entry in status.bases:
        problems += [
            visible_line(f"{entry.base.id}: {problem.subject}: {message_of(problem)}")
            if problem.subject != entry.base.id
            else _problem(problem)
            for problem in entry.problems[:LISTED_PROBLEMS]
        ]
        if (more := len(entry.problems) - LISTED_PROBLEMS) > 0:
            problems.append(f"{entry.base.id}: {more} more; see `kbhub status --json`")
    if problems:
        blocks.append("\n".join([paint("problems", _BOLD), *(f"  {problem}" for problem in problems)]))
    return "\n\n".join(blocks)


def no_bases(looked_for: Sequence[str], *, fresh: bool = True, verbose: bool = False) -> str:
    """Return the text for a workspace without bases: where they were looked for, and what to do.

    `fresh` says whether there is a project without knowledge, so that `kbhub init` helps; `verbose` lists all places.
    """
    remedy = "\nRun `kbhub init` to choose or create some." if fresh else ""
    return _looked_for("No knowledge here", looked_for, verbose=verbose) + remedy


def init_text(made: Initialised) -> str:
    """Return the result of `kbhub init`, and what to do next."""
    lines = [f"Created {visible_line(str(path))}" for path in made.made]
    if made.trusted:
        lines.append(f"Trusted {'it' if lines else 'the pointer'} to reach {visible_line(str(made.knowledge))}")
    if not lines:
        return ""
    starter = any(path.suffix == MARKDOWN_SUFFIX for path in made.made)
    return "\n".join([*lines, "", NEXT_STEPS.format(first=_STARTER_STEP if starter else _THERE_STEP)])


def trust_text(grants: Sequence[Grant], revoked: Sequence[Path], *, listed: bool) -> str:
    """Return what pointers are trusted to reach: all grants if `listed`, else only the new and the revoked ones."""
    if listed and not grants:
        return "Nothing is trusted."
    lines = [] if listed else [f"{visible_line(str(path))} is no longer trusted." for path in revoked]
    for pointer in dict.fromkeys(grant.pointer for grant in grants):
        lines.append(f"{visible_line(str(pointer))} may")
        lines += [f"  {_grant_text(grant)}" for grant in grants if grant.pointer == pointer]
        if not listed:
            lines.append(f"Revoke with `{shlex.join(['kbhub', 'trust', '--revoke', visible_line(str(pointer))])}`.")
    return "\n".join(lines)


def size_text(count: int) -> str:
    """Return a number of bytes in a readable unit."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def ago_text(seconds: float) -> str:
    """Return a time span as an age in its largest fitting unit."""
    for unit, length in (("day", DAY_SECONDS), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return f"{counted(int(seconds // length), unit)} ago"
    return "just now"


def _grant_text(grant: Grant) -> str:
    target = visible_line(str(grant.target))
    if grant.use == "documents":
        return "let hooks deliver its documents, and have its skills served"
    if grant.use == "cacheDir":
        return f"keep its index in {target}"
    if grant.use == "refused":
        return f"not have its knowledge in {target}; you declined when asked"
    return f"have its knowledge in {target}" + (", and agents may write there" if grant.writable else "")


def _joined(*cells: str) -> str:
    return "  ".join(filter(None, cells))


def _quote_lines(quote: Quote, paint: Painter, width: int | None, *, whole: bool) -> list[str]:
    terms, text = quote.terms or (), quote.text
    if not whole and not quote.fenced and quote.terms is not None:
        text, _ = excerpt(text, terms, OTHER_EXCERPT_CHARACTERS)
    text = text.strip("\n")
    if width is not None:
        # rich takes 80 ms to load, and a pipe gets the Markdown.
        from kbhub.render.pages import drawn  # noqa: PLC0415

        return drawn(text, width - cell_width(_GUTTER), colour=paint.colour, terms=terms).split("\n")
    parts, at = [], 0
    for start, end in spans(text, terms) if paint.colour else ():
        # Colour each line separately, or a term across lines would colour the gutter, too.
        marked = "\n".join(paint(neutralised(piece), _TERM) for piece in text[start:end].split("\n"))
        parts += [neutralised(text[at:start]), marked]
        at = end
    return "".join([*parts, neutralised(text[at:])]).split("\n")


def _table(items: Sequence[Item], width: int | None) -> list[str]:
    """Align items in columns, of which empty ones are left out."""
    rows = [
        [
            item.ref.docid if item.ref else "",
            _joined(line(item.label), line(item.ref) if item.ref else ""),
            shortened("  " * item.depth + line(item.title), TITLE_CHARACTERS),
            item.score,
            *(shortened(line(mark), TITLE_CHARACTERS) for mark in item.marks),
            line(item.warning),
        ]
        for item in items
    ]
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    return table([*zip(*columns, strict=True)], width=width) if columns else []


def _bases_table(bases: Sequence[BaseStatus], now: datetime, paint: Painter, width: int | None) -> str:
    header = ("base", "origin", "documents", "chunks", "index", "synced", "path")
    rows = [header, *(_base_row(status, now) for status in bases)]
    first, *others = table(rows, right=frozenset({2, 3, 4}), width=width)
    return "\n".join([paint(first, _DIM), *others])


def _base_row(status: BaseStatus, now: datetime) -> tuple[str, ...]:
    base = status.base
    name = f"{base.id} ({', '.join(base.names)})" if base.names else base.id
    age = ago_text((now - datetime.fromisoformat(status.synced)).total_seconds()) if status.synced else None
    size = size_text(status.index_bytes) if status.index else "-"
    counts = (str(status.documents), str(status.chunks))
    if age and status.behind:
        age += f", {counted(status.behind, 'change')} since"
    if age and status.reranked and status.reranked < status.chunks:
        age += f", {status.reranked} ready to rerank"
    state = f"indexing {status.indexing}" if status.indexing else age or ("unfinished" if status.documents else "never")
    return (visible_line(name), base.origin, *counts, size, state, visible_line(base.place))


def _overview_lines(status: Status) -> list[tuple[str, str]]:
    lines = []
    if status.tags:
        lines.append(("tags", " · ".join(f"{tag.tag} {tag.documents}" for tag in status.tags)))
    if memories := status.memories:
        rest = [
            f"{number} {state}"
            for number, state in ((memories.faded, "faded"), (memories.superseded, "superseded"))
            if number
        ]
        mean = f"mean strength {memories.strength:.2f}"
        lines.append(("memories", ", ".join([str(memories.memories), mean, *rest])))
    return lines


def _looked_for(opening: str, places: Sequence[str], *, verbose: bool) -> str:
    """Return where knowledge was looked for; of many places, only those with something that was ignored."""
    short = not verbose and len(places) > FEW_PLACES
    # A place with something that was ignored ends with the reason.
    shown = [place for place in places if place.endswith((")", "off here"))] if short else places
    lines = [f"  {visible_line(place)}" for place in shown]
    if not short:
        return "\n".join([f"{opening}. Looked for:", *lines]) if places else f"{opening}."
    first = f"{opening}. Looked in {counted(len(places), 'place')}; `kbhub status --verbose` lists them."
    return "\n".join([f"{first} Of these:" if lines else first, *lines])


def _daemon(daemon: DaemonStatus, version: str) -> str:
    since = f", since {daemon.since}" if daemon.since else ""
    http = f", {daemon.http}" if daemon.http else ""
    other = f", version {daemon.version}" if daemon.version != version else ""
    return f"process {daemon.pid} at {daemon.address}{http}{since}{other}; stop it with `kbhub stop`"


def _problem(problem: Problem) -> str:
    return visible_line(f"{problem.subject}: {message_of(problem)}")
