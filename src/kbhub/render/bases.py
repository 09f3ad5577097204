"""Reports on bases: state, documents, indexing, and the search for knowledge."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.render.memories import summary_lines
from kbhub.render.report import LINE_BYTES, Item, Line, Name, Names, Record, Ref, Report, Text, records, say
from kbhub.render.terminal import ago, ago_text, passed_over_text, size_text
from kbhub.types import Discovery, Problem
from kbhub.values import counted
from kbhub.workspace.config import shown_url
from kbhub.workspace.project import STARTER_NAME

if TYPE_CHECKING:
    from kbhub.reading.lists import Listed
    from kbhub.reading.reports import BaseStatus, Status
    from kbhub.setup.bases import BaseChange, KnownBase, KnownBases
    from kbhub.setup.cache import Cleanup, Removable, Spared
    from kbhub.setup.contexts import Context
    from kbhub.setup.found import FoundBases, PackageBase
    from kbhub.setup.init import Initialised
    from kbhub.sync.comparison import SyncReport
    from kbhub.workspace.project import Grant

PROBLEM_BYTES = 4 * LINE_BYTES
"""UTF-8 bytes shown to a model of a problem: it ends with the command to run, after up to three paths."""

PROBLEMS, MODEL_PROBLEMS = 20, 4
"""Problems listed per base, for people and for a model; `--json` has all."""

FEW_PLACES = 4
"""Number of places up to which all are listed without `--verbose`; a folder three below its git root has 29."""

NO_BASE = "No knowledge is active here: no project, and no global base. `kbhub base add DIR` adds a folder of notes."
NO_PROJECT = "none; change to a project, or name one with --root DIR"
INIT = "Run `kbhub init` to choose or create some."

_BASE_FIELDS = ("id", "path", "origin")
_STATUS_FIELDS = (*_BASE_FIELDS, "documents", "chunks", "vectors", "index", "index_bytes", "synced", "problems")
_STARTER_STEP = 'kbhub search "how to write knowledge"', "tries a search"
_THERE_STEP = "kbhub ls project", "lists the documents that are there"
"""First step after `init`: a search that the starter document answers, or, with existing documents, their list."""
_SETUP_STEP = "kbhub setup", "shows the coding agents on this machine, and registers the server with them"


def status_report(status: Status, *, now: float | None = None, people: bool = False, verbose: bool = False) -> Report:
    """Return the status of a workspace; for `people` where no project base was found, too, if `verbose` every place."""
    workspace, bases = status.workspace, status.bases
    most = PROBLEMS if people else MODEL_PROBLEMS
    memories, fresh = status.memories, all(problem.subject != "project" for problem in status.problems)
    counts = (f"{memories.faded} faded", f"{memories.superseded} superseded") if memories else ()
    directory = f"{workspace.directory} ({workspace.source})" if workspace.directory else NO_PROJECT
    strength = f"{memories.memories}, mean strength {memories.strength:.2f}" if memories else ""
    problems: list[Text] = [*map(_problem, status.problems)]
    for entry in bases:
        problems += [_problem(problem, entry.base.id) for problem in entry.problems[:most]]
        if (more := len(entry.problems) - most) > 0:
            problems.append(say(f"Problem: {{}}: {more} more; see `kbhub status --json`", Line(entry.base.id)))
    passed = [f"{entry.base.id}: {passed_over_text(entry.passed_over)}" for entry in bases if entry.passed_over]
    running = ""
    if daemon := status.daemon:
        since = f", started {ago(daemon.since)}" if daemon.since else ""
        http = f", {daemon.http}" if daemon.http else ""
        other = f", version {daemon.version}" if daemon.version != status.version else ""
        running = f"process {daemon.pid} at {daemon.address}{http}{since}{other}; stop it with `kbhub admin stop`"
    facts = _facts(
        ("kbhub", status.version),
        ("workspace", directory),
        ("config", str(status.config or "none")),
        ("embedder", status.embedder),
        ("daemon", running),
        ("tags", " · ".join(f"{tag.tag} {tag.documents}" for tag in status.tags)),
        ("memories", ", ".join([strength, *(count for count in counts if not count.startswith("0 "))])),
        ("hooks", status.hooks or ""),
    )
    parts: list[Text | Item] = [*facts, "", *(_base(entry, now, people=people) for entry in bases)]
    if not bases:
        parts += _nothing_active(status.looked_for, fresh=fresh, people=people, verbose=verbose)
    if status.queries and (status.queries.asked or status.queries.gaps):
        parts += ["", *(Line(line) for line in summary_lines(status.queries))]
    if people and bases and fresh and status.looked_for and all(entry.base.id != "project" for entry in bases):
        parts += ["", *_looked_for("No project base", status.looked_for, verbose=verbose)]

    def row(entry: BaseStatus) -> Record:
        context = entry.base.contexts.get("") or entry.base.description
        facts = entry.base.model_dump(mode="json", include={*_BASE_FIELDS})
        return {**facts, "problems": len(entry.problems), "context": context}

    notes = [say("Note: {}", Line(note)) for note in (*passed, *status.notes)]
    return Report(
        parts=[*parts, *([""] if notes else []), *notes, *([""] if problems else []), *problems],
        advice="`kbhub status` lists all",
        data=status,
        rows=lambda: records("base", _STATUS_FIELDS, bases, row),
    )


def nothing_here(discovery: Discovery, notes: Sequence[str] = ()) -> Report:
    """Return that no base is active: where they were looked for, and what to do."""
    parts: Iterable[Text] = _nothing_active(discovery.looked_for)
    if discovery.off:
        parts = [say("No knowledge is searched here: {}.", Line(discovery.looked_for[-1]))]
    return Report(parts=[*parts], notes=[*map(Line, notes), *map(_problem, discovery.problems)])


def _nothing_active(
    looked_for: Sequence[str], *, fresh: bool = True, people: bool = False, verbose: bool = False
) -> list[Text]:
    """Return where bases were looked for, and, if there is a project without knowledge (`fresh`), what to do."""
    if not looked_for:
        return [say(NO_BASE)]
    if people:
        places = _looked_for("No knowledge is active here", looked_for, verbose=verbose)
        return [*places, say(INIT)] if fresh else places
    return [say(f"No knowledge is active here (looked for {{}}). {INIT}", Names(looked_for))]


def _looked_for(opening: str, places: Sequence[str], *, verbose: bool) -> list[Text]:
    """Return where knowledge was looked for; of many places, only those with something that was ignored."""
    short = not verbose and len(places) > FEW_PLACES
    # A place with something that was ignored ends with the reason.
    shown = [place for place in places if place.endswith((")", "off here"))] if short else places
    first = f"{opening}. Looked for:"
    if short:
        first = f"{opening}. Looked in {counted(len(places), 'place')}; `kbhub status --verbose` lists them."
        first += " Of these:" if shown else ""
    return [say(first), *(say("  {}", Name(place)) for place in shown)]


def _base(status: BaseStatus, now: float | None, *, people: bool) -> Item:
    """Return a base and its state; in the table for people, the longest column is the last."""
    base = status.base
    state = f"indexing {status.indexing}" if status.indexing else ""
    if not state and status.synced:
        state = f"synced {ago(status.synced, now)}"
        state += f", {counted(status.behind, 'change')} since" if status.behind else ""
    nothing = "not usable" if any(problem.subject == base.id for problem in status.problems) else "not indexed yet"
    state = state or ("first index not finished" if status.documents else nothing)
    if status.watched:
        state += f", watched {status.watched}" if status.watched == "live" else f", {status.watched}"
    counts = [(status.documents, "document"), (status.chunks, "chunk"), (status.vectors, "vector")]
    texts = [counted(count, noun) for count, noun in (counts[:2] if people else counts)]
    texts += [f"{status.reranked} for reranking"] if status.reranked else []
    about = ": ".join(filter(None, (base.name if base.name != base.id else None, base.description)))
    facts = (base.origin, ", ".join(texts), size_text(status.index_bytes) if status.index else "", Line(state))
    place, known = Line(base.place), say("also known as {}", Names(base.names)) if base.names else ""
    if people:
        return Item(label=Line(base.id), marks=(*facts, place, known), row=True)
    return Item(label=Line(base.id), marks=(place, *facts, known, Name(about, LINE_BYTES) if about else ""))


def _problem(problem: Problem, base: str = "") -> Text:
    subject = f"{base}: {problem.subject}" if base and problem.subject != base else problem.subject
    return say("Problem: {}: {}", Line(subject), Line(problem.alone, PROBLEM_BYTES))


def _facts(*facts: tuple[str, str]) -> list[Item]:
    return [Item(label=name, title=Line(value), row=True) for name, value in facts if value]


def sync_report(report: SyncReport) -> Report:
    """Return the result of syncing a base, with a line for each of the first failed files."""
    files = f"{report.added} added, {report.changed} changed, {report.removed} removed, {report.unchanged} unchanged"
    vectors = f"{counted(report.vectors_made, 'vector')} made, {report.vectors_reused} reused"
    index = f"{counted(report.chunks, 'chunk')}, {vectors}; {report.seconds:.1f} s"
    head = say(f"{{}}: {files}, {len(report.failed)} failed; {index}", Name(report.base))
    failed = [say("  failed {}: {}", Name(one.subject), Name(one.alone)) for one in report.failed[:PROBLEMS]]
    if (more := len(report.failed) - PROBLEMS) > 0:
        failed.append(say(f"  failed {more} more; see `kbhub status --json`"))
    passed = [passed_over_text(report.passed_over)] if report.passed_over else []
    return Report(head, [*failed, *(say("  {}", Name(note)) for note in (*passed, *report.notes))])


def init_report(made: Initialised) -> Report:
    """Return the result of `kbhub init`, and what to do next."""
    lines = [f"Created {path}" for path in made.made]
    if made.trusted:
        lines.append(f"Trusted {'it' if lines else 'the pointer'} to reach {made.knowledge}")
    starter = any(path.name == STARTER_NAME for path in made.made)
    steps: list[Text | Item] = ["", "Next:", *_facts(_STARTER_STEP if starter else _THERE_STEP, _SETUP_STEP)]
    return Report(parts=[*map(Line, lines), *(steps if lines else ())])


def trust_report(grants: Sequence[Grant], revoked: Sequence[Path], *, listed: bool) -> Report:
    """Return what pointers are trusted to reach: all grants if `listed`, else only the new and the revoked ones."""
    lines = [] if listed else [f"{path} is no longer trusted." for path in revoked]
    for pointer in dict.fromkeys(grant.pointer for grant in grants):
        lines += [f"{pointer} may", *(f"  {_grant(grant)}" for grant in grants if grant.pointer == pointer)]
        if not listed:
            lines.append(f"Revoke with `{shlex.join(['kbhub', 'base', 'trust', '--revoke', str(pointer)])}`.")
    return Report(parts=[*map(Line, lines or ["Nothing is trusted."])])


def _grant(grant: Grant) -> str:
    if grant.use == "documents":
        return "let hooks deliver its documents, and have its skills served"
    if grant.use == "cacheDir":
        return f"keep its index in {grant.target}"
    if grant.use == "refused":
        return f"not have its knowledge in {grant.target}; you declined when asked"
    return f"have its knowledge in {grant.target}" + (", and agents may write there" if grant.writable else "")


def bases_report(known: KnownBases) -> Report:
    """Return all bases, followed by their problems."""
    items: list[Text | Item] = []
    for base in known.bases:
        place = _places_text(base.places) if base.places or base.origin == "config" else f"found: {base.origin}"
        # The number is unknown without an index, rather than 0.
        count = counted(base.documents, "document") if base.index or (base.engine and not base.problem) else ""
        marks = ("active" if base.active else "not active", Name(place), count, Name(base.engine or str(base.path)))
        items.append(Item(label=Name(base.id), marks=marks, row=True))
    problems = [_problem(Problem(subject=base.id, message=base.problem)) for base in known.bases if base.problem]
    none = "No bases: none in {}, and none active here. Add one with `kbhub base add DIR`."
    parts = [*items, "", *problems] if items else [say(none, Name(str(known.config)))]
    fields = ("id", "path", "origin", "active", "for", "documents", "writable", "name", "description", "problem")

    def row(base: KnownBase) -> Record:
        context = base.contexts.get("") or base.description
        return {"path": base.engine or str(base.path), "for": list(base.places), "context": context}

    return Report(parts=parts, rows=lambda: records("base", fields, known.bases, row))


def base_report(base: KnownBase) -> Report:
    """Return everything known about a base, a line each."""
    facts = _facts(
        ("base", base.id),
        ("name", base.name if base.name and base.name != base.id else ""),
        ("about", base.description or ""),
        ("path", base.engine or str(base.path)),
        ("found by", base.origin),
        ("active", "here" if base.active else "not here"),
        ("for", _places_text(base.places)),
        ("writable", "yes" if base.writable else "no"),
        ("weight", f"{base.weight:g}"),
        ("include", ", ".join(base.include)),
        ("exclude", ", ".join(base.exclude)),
        ("documents", str(base.documents) if base.index or base.engine else ""),
        ("index", f"{base.index} ({size_text(base.index_bytes)})" if base.index else "" if base.engine else "none yet"),
        ("synced", ago(base.synced)),
        ("problem", base.problem or ""),
    )
    contexts = [say("  {}: {}", Name(path or "(all)"), Name(text)) for path, text in base.contexts.items()]
    return Report(parts=[*facts, *([say("contexts"), *contexts] if contexts else [])])


def change_report(change: BaseChange, verb: str) -> Report:
    """Return the result of adding, removing or renaming a base."""
    place = Name(shown_url(change.engine) if change.engine else str(change.path))
    head = say(f"{f'{verb} ' if change.changed else ''}{{}}: {{}}", Name(change.id), place)
    here = "" if "*" in change.places and change.active else ", and here" if change.active else ", but not here"
    active = [say(f"Active in {{}}{here}.", Name(_places_text(change.places)))] if verb != "Removed" else []
    return Report(head, [*active, *map(Name, change.notes)])


def found_report(found: FoundBases) -> Report:
    """Return what clients keep of a project, and which of it is new."""
    if not found.bases and not found.left:
        return Report(say("Coding agents keep nothing of {} here.", Name(str(found.project))))
    lines = [say(f"{'Added ' * one.added}{{}}: {{}}", Name(one.id), Name(str(one.path))) for one in found.bases]
    lines += [say("Left out, as it is a base with other settings: {}", Name(str(folder))) for folder in found.left]
    foot = say("Active in {}. `kbhub base remove ID` takes one out of all projects.", Name(str(found.project)))
    return Report("", lines, foot=foot)


def package_report(package: PackageBase) -> Report:
    """Return which documentation was copied from where."""
    what, pinned = "Added" if package.added else "Updated", f", as {package.lock} pins it" if package.lock else ""
    names = map(Name, (package.id, f"{package.name} {package.version}".rstrip(), str(package.source)))
    line = say(f"{what} {{}}: {{}}{pinned}, {counted(package.files, 'document')} from {{}}", *names)
    return Report("", [line], foot=say("Active in {}.", Name(str(package.project))))


def _places_text(places: Sequence[str]) -> str:
    """Return where a base is active."""
    return "all projects" if "*" in places else ", ".join(f"projects below {one}" for one in places) or "no project"


def documents_report(documents: Sequence[Listed]) -> Report:
    """Return documents, a line each."""
    fields, items = ("docid", "ref", "base", "path", "title", "date", "tags", "kind", "size"), []
    for one in documents:
        tags = Name(" ".join(f"#{tag}" for tag in one.tags))
        items.append(Item(Ref(one.ref, one.docid), Name(one.title), marks=(one.date or "", tags), row=True))
    return Report(
        parts=items,
        rows=lambda: records("document", fields, documents, lambda one: {"context": " / ".join(one.contexts)}),
    )


def contexts_report(contexts: Sequence[Context]) -> Report:
    """Return contexts, a line each."""
    fields = ("base", "path", "context", "file")
    items = [Item(label=Name(context.place), title=Name(context.context), row=True) for context in contexts]
    return Report(parts=items, rows=lambda: records("context", fields, contexts, lambda one: {"ref": one.place}))


def cleanup_report(cleanup: Cleanup) -> Report:
    """Return what would be deleted, and how much space that frees."""
    parts: list[Text | Item] = [say("Nothing to delete in {}.", Name(str(cleanup.cache)))]
    if cleanup.found:
        total = f"{counted(len(cleanup.found), 'item')}, {size_text(cleanup.bytes)}"
        parts = [*map(_removable, cleanup.found), say(total)]
    if cleanup.spared:
        kept = "Kept texts of deleted documents whose base is gone; they cannot be recreated, so they are kept:"
        parts += ["", say(kept), *map(_removable, cleanup.spared)]
    return Report(parts=parts)


def _removable(entry: Removable | Spared) -> Item:
    marks = (ago_text(entry.age), Name(str(entry.path)), Name(entry.reason))
    return Item(label=size_text(entry.bytes), marks=marks, row=True)
