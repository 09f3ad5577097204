"""Everyday commands: ask, status, init, trust."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number
from pydantic import Field

from kbhub.answers.answer import LEAST_BUDGET, LEAST_TOKENS, MOST_BUDGET, MOST_TOKENS, AskOptions
from kbhub.answers.question import ask as answer_question
from kbhub.cli.app import confirmed
from kbhub.cli.options import Common, Exact, Formats, Reply, bring_in_step, command, decoded, hub_options, without_bases
from kbhub.errors import BaseUnavailable, IndexUnavailable, UsageError
from kbhub.frozen import Model
from kbhub.hooks.delivery import hooks_state
from kbhub.hooks.sessions import let_speak
from kbhub.hub import Hub
from kbhub.index.catalogue import tag_counts
from kbhub.index.query.parser import STOP_WORDS, parse_query
from kbhub.memory.catalog import all_known
from kbhub.reading.lists import status as status_of
from kbhub.reading.reports import BaseStatus, DaemonStatus, MemorySummary, Status, TagUse
from kbhub.render.bases import init_report, status_report, trust_report
from kbhub.render.search import answer_markdown, answer_notes, answer_report
from kbhub.render.setup import summary_line
from kbhub.render.terminal import neutralised
from kbhub.search.document_signals import FADING_DAYS
from kbhub.server.daemon.protocol import DaemonFolder, running
from kbhub.setup.clients import Machine
from kbhub.setup.init import declare_okf, make_knowledge, point_to
from kbhub.setup.instructions import agents_tasks, subagent_tasks
from kbhub.setup.plan import PlannedStep, carry_out
from kbhub.setup.registration import chosen_clients
from kbhub.sync.base_suggestions import Suggestion, choices, outside
from kbhub.sync.comparison import behind_of, compare
from kbhub.usage.gaps import summary
from kbhub.usage.log import USER
from kbhub.values import DAY_SECONDS, counted
from kbhub.workspace.config import POINTER_NAMES
from kbhub.workspace.project import PROJECT_ID, Grant, find_pointer, identity, trust_pointer

NO_SUBAGENTS = "No client with subagents was found; `kbhub setup --project --subagent --client NAME` adds the files."
LINES_QUESTION = "Write to {} so that agents and their subagents search here first?"


class TrustResult(Model):
    """What `kbhub base trust` recorded, listed or revoked."""

    grants: tuple[Grant, ...] = Field((), description="What pointers may reach: just recorded, or all with `--list`.")
    revoked: tuple[Path, ...] = Field((), description="Pointers whose trust was revoked.")


@command(options=Formats, colour=True)
def status(*, common: Formats) -> Reply:
    """Show the workspace, its bases and indexes, and problems.

    Example: kbhub status --root ~/work/shop
    """
    state = overview(Hub(hub_options(common, warn=common.format() not in ("text", "json"))))
    return Reply(state, status_report(state, people=True, verbose=common.verbose))


@command(init_report)
def init(
    hub: Hub,
    *,
    knowledge: Annotated[str | None, Parameter(metavar="DIR")] = None,
    name: Annotated[str | None, Parameter(metavar="NAME")] = None,
    okf: bool = False,
    agents_md: Annotated[bool | None, Parameter(negative="--no-agents-md")] = None,
    subagent: Annotated[bool | None, Parameter(negative="--no-subagent")] = None,
    common: Common,
) -> Reply:
    """Choose what kbhub searches here, or create knowledge/.

    If the project has documents already (docs/, a wiki, an Obsidian vault, a README), lists them; in a terminal, you
    can choose. Otherwise creates knowledge/. Never overwrites anything.

    Example: kbhub init --knowledge ~/notes/shop

    Args:
        knowledge: Write a pointer to this directory, and trust it; knowledge/ is created if it does not exist.
        name: Readable name of the project's knowledge.
        okf: Make it a bundle of the Open Knowledge Format: add index.md and log.md.
        agents_md: Add the lines of `kbhub setup --agents-md`. Without this option, kbhub asks you.
        subagent: Add the files of `kbhub setup --project --subagent`. Without this option, kbhub asks you.
    """
    found = choices(hub) if knowledge is None else ()
    if found and sys.stdin.isatty() and not common.json:
        chosen = _chosen(found)
        if chosen is None:
            return Reply(hints=("Nothing was changed.",))
        hub, knowledge = Hub(replace(hub.options, root=chosen.directory)), str(chosen.path)
    discovery, options = hub.discovery(), hub.options
    if knowledge is None:
        made = make_knowledge(discovery, name=name, found=tuple(one.sentence for one in found))
    else:
        made = point_to(discovery, knowledge, name=name, trust=hub.trust, home=options.home, cwd=options.cwd)
    if okf:
        made = declare_okf(made, datetime.fromtimestamp(options.clock(), UTC).date().isoformat())
    if not found:
        hub.rediscover()
        made = made.model_copy(update={"notes": (*made.notes, *outside(hub))})
    tasks, root, machine = list[PlannedStep](), discovery.workspace.root, Machine(options.home, options.env)
    if root:
        clients, lines = chosen_clients(machine, (), root), agents_tasks(root, machine, remove=False)
        wanted = ((agents_md, lines), (subagent, subagent_tasks(clients, machine, root, remove=False)))
        tasks = [task for option, planned in wanted if option for task in planned]
        asked = [task for option, planned in wanted if option is None for task in planned if task.do]
        files = ", ".join(str(task.step.file.relative_to(root)) for task in asked)
        if subagent and not wanted[1][1]:
            made = made.model_copy(update={"notes": (*made.notes, NO_SUBAGENTS)})
        if files and made.knowledge and not common.json and confirmed(LINES_QUESTION.format(files)):
            tasks += asked
    if tasks:
        steps = [carry_out(task) for task in tasks]
        # A file that was there before has a copy.
        written = tuple(step.file for step in steps if step.state == "done" and not step.backup)
        notes = [f"Added lines to {step.file}." for step in steps if step.backup]
        notes += [note for step in steps if step.state == "failed" for note in step.notes]
        made = made.model_copy(update={"made": (*made.made, *written), "notes": (*made.notes, *notes)})
    return Reply(made, notes=made.notes)


def _chosen(found: Sequence[Suggestion]) -> Suggestion | None:
    """Ask which folder is to be the project's knowledge; None to change nothing."""
    lines = [f"  {number}  {one.name} ({one.documents})" for number, one in enumerate(found, 1)]
    listed = "\n".join(["This project has documentation already. What should kbhub search?", *lines])
    sys.stderr.write(f"{listed}\nType a number, or Enter to change nothing: ")
    sys.stderr.flush()
    number = sys.stdin.readline().strip()
    if not number:
        return None
    if number.isdecimal() and 1 <= int(number) <= len(found):
        return found[int(number) - 1]
    raise UsageError(f"{number!r} is not one of them; nothing was changed.")


@command()
def trust(
    hub: Hub,
    pointer: Path | None = None,
    /,
    *,
    writable: bool = False,
    documents: bool = False,
    list_: bool = False,
    revoke: Annotated[Path | None, Parameter(metavar="POINTER")] = None,
) -> Reply:
    """Allow a project's pointer to reach a folder outside the project, or hooks to deliver its documents.

    A pointer comes with a clone, so kbhub follows it out of the project only after you allow it. POINTER defaults to
    the one found for the workspace. Documents come with a clone, too: hooks and skills do not use them until
    --documents allows it for this project.

    Example: kbhub base trust ~/work/shop/.kbhub.json

    Args:
        pointer: The .kbhub.json to trust, or its folder.
        writable: Also allow agents to write there.
        documents: Allow hooks to deliver this project's documents, and serve its skills.
        list_: List what is trusted.
        revoke: Stop trusting this pointer.
    """
    if (pointer is not None or writable) + documents + list_ + (revoke is not None) > 1:
        raise UsageError(
            "POINTER (with or without --writable), --documents, --list and --revoke cannot be used together."
        )
    if list_:
        result = TrustResult(grants=hub.trust.entries())
    elif revoke is not None:
        inside = (revoke / name for name in (*POINTER_NAMES, "knowledge", ".knowledge"))
        files = [revoke] if hub.trust.revoke(revoke) else [file for file in inside if hub.trust.revoke(file)]
        if not files:
            raise UsageError(
                f"{revoke} is not trusted, so there is nothing to revoke. `kbhub base trust --list` shows what is."
            )
        result = TrustResult(revoked=tuple(map(identity, files)))
    elif documents:
        result = TrustResult(grants=(let_speak(hub),))
    else:
        target = pointer or _untrusted_pointer(hub, writable=writable)
        result = TrustResult(grants=trust_pointer(target, hub.trust, writable=writable, home=hub.options.home))
    return Reply(result, trust_report(result.grants, result.revoked, listed=list_))


def _untrusted_pointer(hub: Hub, *, writable: bool) -> Path:
    """Return the pointer of the workspace if it asks for something that is not allowed yet."""
    discovery, home = hub.discovery(), Path(os.path.realpath(hub.options.home))
    found = find_pointer(discovery.workspace, home, config=hub.config().path)
    if found is None:
        raise UsageError("No pointer found for this directory. Name one: kbhub base trust PATH/.kbhub.json")
    base = discovery.project
    if base and not discovery.problem_of(PROJECT_ID) and (base.writable or not writable):
        raise UsageError(
            f"{found} needs no permission beyond what is already allowed. `kbhub base trust --list` shows what is."
        )
    return found


Score = Annotated[float | None, Parameter(metavar="X", validator=Number(gte=0, lte=1))]


@command(colour=True)
def ask(
    hub: Hub,
    *question: str,
    also: Annotated[tuple[str, ...], Parameter(metavar="WORDS")] = (),
    bases: Annotated[tuple[str, ...], Parameter(name="--in", metavar="BASE")] = (),
    written_by: Literal["ollama", "extractive", "none"] | None = None,
    budget: Annotated[
        int | None, Parameter(metavar="TOKENS", validator=Number(gte=LEAST_BUDGET, lte=MOST_BUDGET))
    ] = None,
    max_tokens: Annotated[
        int | None, Parameter(metavar="TOKENS", validator=Number(gte=LEAST_TOKENS, lte=MOST_TOKENS))
    ] = None,
    threshold: Score = None,
    direct_threshold: Score = None,
    md: bool = False,
    common: Common,
) -> Reply:
    """Answer a question from the documents, with citations.

    Every sentence has one. An Ollama model writes the answer if `answers.model` in the global config names one;
    otherwise kbhub composes it from sentences of the documents. If no document covers the question, the answer says so.

    Example: kbhub ask how do we roll back a release

    Args:
        question: The question.
        also: Another wording of the question, as the documents might put it; may be repeated.
        bases: Search only this base; may be repeated.
        written_by: Who writes the answer; `none` prints the passages instead.
        budget: Print the best passages that fit in this many tokens, instead of an answer.
        max_tokens: Maximum length of the answer, in tokens (500).
        threshold: Use only passages with at least this score, from 0 to 1 (0.1).
        direct_threshold: Show passages with at least this score in full (0.8).
        md: Print Markdown.

    Returns:
        The exit code: 1 if there is none.
    """
    if md and common.json:
        raise UsageError("--json cannot be used with --md.")
    text = " ".join(map(decoded, question))
    if not text.strip():
        raise UsageError("No question given. Usage: kbhub ask QUESTION")
    thresholds = {"threshold": threshold, "direct_threshold": direct_threshold}
    given = {"written_by": written_by, "budget": budget, "max_tokens": max_tokens, **thresholds}
    options = AskOptions.model_validate({name: value for name, value in given.items() if value is not None})
    if nothing := without_bases(hub):
        return Reply(hints=nothing, code=1)
    bring_in_step(hub, bases)
    answer = answer_question(hub, text, queries=tuple(map(decoded, also)), bases=bases, options=options, asker=USER)
    terms = tuple(term for term in parse_query(text).terms if not STOP_WORDS.issuperset(term.tokens))
    useful = answer.outcome == "written" or (answer.outcome == "passages" and answer.passages)
    written = f"{answer_markdown(answer)}\n" if md else ""  # as it is for files
    # A terminal would act upon some of what documents say.
    exact = Exact(neutralised(written) if sys.stdout.isatty() else written)
    said = exact or replace(answer_report(answer, terms=terms, whole=False), notes=())
    return Reply(answer, said, notes=answer_notes(answer, also), code=0 if useful else 1)


LOOPBACK = "127.0.0.1"

TAGS = 8


def overview(hub: Hub) -> Status:
    """Return an overview of the workspace; reads the times of all files."""
    here, bases, tags = status_of(hub), list[BaseStatus](), Counter[str]()
    for one in here.bases:
        bases.append(one)
        index = hub.index(one.base)
        with suppress(BaseUnavailable, IndexUnavailable):  # one of its problems says so
            if one.documents:
                with index.snapshot():
                    tags.update(tag_counts(index))
            if one.index is not None and not one.indexing:
                found = compare(one.base, index, hub.limits())
                counts = {"behind": len(behind_of(found, index)), "passed_over": dict(found.scan.passed_over)}
                bases[-1] = one.model_copy(update=counts)
    ordered = sorted(tags.items(), key=lambda one: (-one[1], one[0]))
    state = hooks_state(hub, ())
    waiting = f"; {counted(state.proposals, 'proposed memory', 'proposed memories')}: `kbhub memories inbox`"
    return here.model_copy(
        update={
            "bases": tuple(bases),
            "notes": outside(hub),
            "tags": tuple(TagUse(tag=str(tag), documents=count) for tag, count in ordered[:TAGS]),
            "memories": memory_summary(hub),
            "queries": summary(hub),
            "hooks": (summary_line(state) if state.deliveries else "") + (waiting if state.proposals else ""),
            "daemon": daemon_status(DaemonFolder(hub.data)),
        }
    )


def daemon_status(folder: DaemonFolder) -> DaemonStatus | None:
    """Return the running daemon's status, or None if none is running."""
    record = running(folder)
    if record is None:
        return None
    ready = None
    with suppress(OSError):
        ready = datetime.fromtimestamp(folder.record.stat().st_mtime, UTC).isoformat(timespec="seconds")
    address = record.link if isinstance(record.link, str) else f"{LOOPBACK}:{record.link}"
    return DaemonStatus(pid=record.pid, address=address, http=record.http, since=ready, version=record.version)


def memory_summary(hub: Hub) -> MemorySummary | None:
    """Return the state of the memories of this project and its user; None if there are none."""
    now, known = hub.options.clock(), all_known(hub)
    if not known:
        return None
    return MemorySummary(
        memories=len(known),
        strength=round(fmean(memory.strength(now) for memory in known), 2),
        faded=sum(now - memory.last_use() >= FADING_DAYS * DAY_SECONDS for memory in known),
        superseded=sum(bool(memory.facts.superseded_by) for memory in known),
    )
