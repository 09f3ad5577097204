"""The everyday commands: search, read, index, status, doctor, init, trust, serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub.cli import commands
from kbhub.cli.app import app
from kbhub.cli.options import Common, Formats, Hits, Lines, Places, Ways

MOST_HITS = 100
"""Hits of one answer at most, as `types.Query` has it."""

MOST_PORT = 65535
"""Of TCP."""


@app.command(usage="kbhub search [OPTIONS] QUERY…")
def search(
    *query: str,
    stdin: Annotated[bool, Parameter(name="-")] = False,
    bases: Annotated[tuple[str, ...], Parameter(name="--in", metavar="BASE")] = (),
    mode: Literal["keyword", "semantic", "hybrid"] | None = None,
    limit: Annotated[
        int | None, Parameter(name=("--limit", "-n"), metavar="N", validator=Number(gte=1, lte=MOST_HITS))
    ] = None,
    page: Annotated[int, Parameter(metavar="N", validator=Number(gte=1))] = 1,
    granularity: Literal["document", "chunk"] = "document",
    explain: bool = False,
    hits: Hits = Hits(),  # noqa: B008 - frozen
    formats: Formats = Formats(),  # noqa: B008 - frozen
) -> int:
    """Search all active bases.

    Bases that changed are brought in step first. tag:ops, path:api/, base:notes, kind:memory, age:<30d and any
    KEY:VALUE of the front matter choose documents; -WORD leaves out. Put words that start with a dash after `--`.

    Example: kbhub search how do we roll back a release tag:ops

    Args:
        query: What to look for: a question, words, or a "phrase" in double quotes.
        stdin: Read what to look for from standard input.
        bases: Search only this base; may be repeated.
        mode: By words, by meaning, or both.
        limit: Hits to show (5, in formats for programs 20, unless the config says otherwise).
        page: Which page of hits to show, from 1.
        granularity: One hit per document, or per chunk.
        explain: Show how each score came about.
        hits: Which hits, and how much of each.
        formats: Options of every command.
    """
    return commands.searching.search(
        query,
        stdin=stdin,
        bases=bases,
        mode=mode,
        limit=limit,
        page=page,
        granularity=granularity,
        explain=explain,
        options=hits,
        formats=formats,
    )


@app.command(usage="kbhub read [OPTIONS] REF…")
def read(
    *refs: str,
    lines: Lines = Lines(),  # noqa: B008 - frozen
    formats: Formats = Formats(),  # noqa: B008 - frozen
) -> int:
    """Print documents, or parts of them, as they are on disk now.

    A ref is a path in the project base, ID@PATH or ID/PATH in another, a title, a docid (quote it: '#a1b2c3'), or a
    path from the working directory that leads to a document. It may end in :LINE, :FROM-TO, :FROM:COUNT or '#Heading'.
    Several: 'runbooks/*.md', '{a,b}.md' (quote them), or with commas.

    Example: kbhub read runbooks/rollback.md:10-30

    Args:
        refs: What to print.
        lines: Which lines.
        formats: Options of every command.
    """
    return commands.basics.read(refs, lines=lines, formats=formats)


@app.command(usage="kbhub index [OPTIONS] [BASE…]")
def index(
    *bases: str,
    all_bases: bool = False,
    full: bool = False,
    keep_deleted: Annotated[tuple[str, ...], Parameter(metavar="PATTERN")] = (),
    forget_deleted: Annotated[tuple[str, ...], Parameter(metavar="PATTERN")] = (),
    pull: bool = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Bring the indexes of bases in step with their files.

    Without a base, all active ones. Ctrl-C leaves a usable index; the next run goes on from there.

    Example: kbhub index --all-bases

    Args:
        bases: Ids of the bases.
        all_bases: Every base of the global config, also those not active here; for a cron job.
        full: Read every file again, even if it looks unchanged, and make every vector anew.
        keep_deleted: Keep the text of files of these names, from now on, so that it is found when they are deleted.
        forget_deleted: Delete what is kept of deleted files of these names, and keep no more of them.
        pull: First fetch and fast-forward those of your own bases that are git checkouts.
        common: Options of every command.
    """
    return commands.basics.index(
        bases,
        all_bases=all_bases,
        full=full,
        keep_deleted=keep_deleted,
        forget_deleted=forget_deleted,
        pull=pull,
        common=common,
    )


@app.command(usage="kbhub status [OPTIONS]")
def status(*, formats: Formats = Formats()) -> int:  # noqa: B008 - frozen
    """Show the workspace, its bases, their indexes, and what is wrong.

    Example: kbhub status --root ~/work/shop
    """
    return commands.basics.status(formats=formats)


@app.command(usage="kbhub doctor [OPTIONS]")
def doctor(
    *,
    fix: bool = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Check everything that search needs, and say what to do about what is wrong.

    Looks at SQLite, the model, config, pointers, trust, kbhub's own folders, every active base with its index, and
    the limits of watching. Fails if there is an error; a warning is none.

    Example: kbhub doctor --fix

    Args:
        fix: Mend what is safe: modes of kbhub's own files, indexes that are broken or behind, and what is left of
            old ones. Documents, config and pointers are never touched.
        common: Options of every command.
    """
    return commands.basics.doctor(fix=fix, common=common)


@app.command(usage="kbhub init [OPTIONS]")
def init(
    *,
    knowledge: Annotated[str | None, Parameter(metavar="DIR")] = None,
    name: Annotated[str | None, Parameter(metavar="NAME")] = None,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Make a knowledge/ folder here, or point to one that exists.

    Nothing that exists is ever overwritten.

    Example: kbhub init --knowledge ~/notes/shop

    Args:
        knowledge: Write a pointer to this existing directory, and trust it.
        name: Readable name of the project's knowledge.
        common: Options of every command.
    """
    return commands.basics.init(knowledge=knowledge, name=name, common=common)


@app.command(usage="kbhub trust [OPTIONS] [POINTER]")
def trust(
    pointer: Annotated[Path | None, Parameter(metavar="POINTER")] = None,
    /,
    *,
    writable: bool = False,
    list_: Annotated[bool, Parameter(name="--list")] = False,
    revoke: Annotated[Path | None, Parameter(metavar="POINTER")] = None,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Allow a project's pointer to reach a folder outside the project.

    A pointer comes with a clone, so kbhub follows it out of the project only after you allowed it. Without a
    POINTER, the one found for the workspace.

    Example: kbhub trust ~/work/shop/.kbhub.json

    Args:
        pointer: The .kbhub.json to trust, or the folder it lies in.
        writable: Let agents write there, too.
        list_: Show what is trusted.
        revoke: Take the trust in this pointer back.
        common: Options of every command.
    """
    return commands.basics.trust(pointer, writable=writable, listed=list_, revoke=revoke, common=common)


@app.command(usage="kbhub serve [OPTIONS]")
def serve(
    *,
    structured: bool = False,
    protocol: Literal["auto", "legacy"] | None = None,
    read_only: bool = False,
    connect: bool = False,
    http: bool = False,
    daemon: bool = False,
    port: Annotated[int | None, Parameter(metavar="N", validator=Number(gte=0, lte=MOST_PORT))] = None,
    socket: Annotated[Path | None, Parameter(metavar="PATH")] = None,
    places: Places = Places(),  # noqa: B008 - frozen
) -> int:
    """Run the MCP server on standard input and output, for a coding agent.

    With --connect, one process answers for all windows. With --http, the server answers on a port of this machine.

    Example, in the agent's list of servers: "kbhub": {"command": "kbhub", "args": ["serve"]}

    Args:
        structured: Add output schemas and structured content, for programs; models need text alone.
        protocol: Which clients to answer: all, or those of 2025 (`initialize`) only. KBHUB_PROTOCOL sets it too.
        read_only: Take every tool away that writes: memories and documents. KBHUB_READ_ONLY=true does it too.
        connect: Answer by way of the shared daemon, which is started if it does not run.
        http: Serve MCP over HTTP on this machine alone, with a token.
        daemon: Run in the background; `kbhub stop` ends it.
        port: Port of --http, 0 for a free one (28722, unless the config says otherwise).
        socket: Unix socket of --http in place of a port; it needs no token.
        places: Options of every command.
    """
    ways = Ways(connect=connect, http=http, daemon=daemon, port=port, socket=socket)
    done: int | None = None
    if ways.other_than_streams:
        done = commands.daemon.serve(
            structured=structured, protocol=protocol, read_only=read_only, ways=ways, places=places
        )
    if done is None:
        commands.basics.serve(structured=structured, protocol=protocol, read_only=read_only, places=places)
    return done
