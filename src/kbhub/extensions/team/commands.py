"""Bases that a team shares in PostgreSQL: publish, pull, team."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number
from pydantic import Field

from kbhub.cli import INTERRUPTED
from kbhub.cli.app import complain, progress_bars, terminal_width
from kbhub.cli.options import Common, Reply, command, hub_options, show_reply
from kbhub.errors import EmbedderError, EngineUnavailable, UsageError
from kbhub.extensions.team.engine import team_engine
from kbhub.extensions.team.schema import VERSION, Member, Rights, SharedBase
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.render.bases import sync_report
from kbhub.render.terminal import ago, table
from kbhub.render.terminal import text as text_of
from kbhub.sync.comparison import SyncReport
from kbhub.sync.watch import until_changed
from kbhub.values import counted
from kbhub.workspace.config import engine_fault, split_engine_url
from kbhub.workspace.extensions import engine_for
from kbhub.workspace.project import PROJECT_ID

DEADLINE_SECONDS = 10.0
"""How long a command waits for the database, unless `--timeout` says otherwise: a person waits, not an agent."""

LOOK_SECONDS = 30.0
"""How often `--watch` looks for changes of which no event came, as on network file systems."""

Seconds = Annotated[float, Parameter(metavar="SECONDS", validator=Number(gt=0))]
NamedRole = Annotated[str | None, Parameter(metavar="ROLE")]
NamedBase = Annotated[str | None, Parameter(metavar="NAME")]


class Published(Model):
    """What `kbhub team publish` did, or found."""

    database: str = Field(description="The database, without options.")
    dry_run: bool = Field(False, description="Whether everything was rolled back.")
    report: SyncReport | None = Field(None, description="What was done.")
    removed: int | None = Field(None, description="Documents of the removed base.")
    bases: tuple[SharedBase, ...] | None = Field(None, description="With `--status`, the bases that you may read.")


class Members(Model):
    """What `kbhub team list` shows."""

    base: str | None = Field(description="The base; null for roles that may create bases.")
    members: tuple[Member, ...] = Field(description="By role.")


@command()
def publish(
    base: str | None = None,
    /,
    *,
    to: Annotated[str, Parameter(metavar="URL")],
    watch: bool = False,
    full: bool = False,
    dry_run: bool = False,
    status: bool = False,
    remove: bool = False,
    description: Annotated[str | None, Parameter(metavar="TEXT")] = None,
    memories: Annotated[bool | None, Parameter(negative="--no-memories")] = None,
    allow_secret: bool = False,
    timeout: Seconds = DEADLINE_SECONDS,
    common: Common,
) -> Reply:
    """Publish a base to a team's PostgreSQL database, or sync it there.

    Sends only what changed, in one transaction, so readers never see a half-written base. Only one publisher can run at
    a time; another one gets an error that names the first. Needs kbhub[postgres].

    Example: kbhub team publish handbook --to postgresql://kb.example/team

    Args:
        base: Id of the base, and its name in the database unless the URL ends in #NAME.
        to: URL of the database. Put the password in ~/.pgpass, a service file or PGPASSWORD, not in the URL.
        watch: Keep publishing changes until Ctrl-C.
        full: Read every file again, and recompute every vector.
        dry_run: Show what would be published, then roll it back.
        status: List the bases in the database that you may read.
        remove: Remove the base from the database; your files are kept.
        description: What the base is about, for people and agents.
        memories: Create a base without a folder, for memories of agents (scope `team`); --no-memories ends that.
        allow_secret: Also publish what looks like a credential.
        timeout: Timeout for the database, in seconds.

    Returns:
        The exit code: 130 if interrupted.
    """
    engine, server, shared_as = _server(to, timeout)
    if status:
        listed = tuple(engine.bases.shared_bases(server))
        return Reply(Published(database=server.name, bases=listed), _bases_text(listed, server.name))
    if memories is not None or (base is None and description is not None):
        if not (named := base or shared_as):
            raise UsageError("No name for the base in the database. End the URL with #NAME.")
        engine.bases.describe(server, named, description=description, memories=memories)
        state = "" if memories is None else f"; agents may {'' if memories else 'not '}remember in it"
        return Reply(text=f"{server.name}#{named}: {description or 'description unchanged'}{state}")
    if base is None:
        raise UsageError("No base given. Name one to publish; `kbhub base list` shows them.")
    if remove:
        name = shared_as or base
        removed = engine.bases.remove(server, name)
        text = f"{name}: removed from {server.name}, {counted(removed, 'document')}; your files are not touched"
        return Reply(Published(database=server.name, removed=removed), text)
    hub = Hub(hub_options(common))
    (chosen,) = hub.select([base])
    if chosen.engine and not shared_as:
        raise UsageError(f"The base {chosen.id!r} is itself a shared base. Publish the folder that its publisher has.")
    directory = hub.discovery().workspace.directory
    name = shared_as or (directory.name if chosen.id == PROJECT_ID and directory else chosen.id)
    try:
        send = partial(engine.publish, chosen, server, name, allow_secret=allow_secret)
        _publish_once(send, server.name, hub, common, full=full, dry_run=dry_run)
        if description is not None and not dry_run:
            engine.bases.describe(server, name, description=description)
        while watch and not dry_run:
            until_changed(chosen, LOOK_SECONDS)
            try:
                _publish_once(send, server.name, hub, common, quiet=True)
            except EngineUnavailable as error:
                complain(str(error))
                time.sleep(DEADLINE_SECONDS)
    except KeyboardInterrupt:
        stopped = "Interrupted. The transaction was rolled back; what was published before is kept."
        return Reply(hints=(stopped,), code=INTERRUPTED)
    return Reply()


@command()
def pull(
    url: str, base: str, folder: Annotated[Path, Parameter(name="DIR")], /, *, timeout: Seconds = DEADLINE_SECONDS
) -> Reply:
    """Write the files of a shared base to a folder, byte for byte. Existing files are never changed.

    Skips and reports what could do harm: hidden files and folders, files that are not documents, paths through links,
    and unsafe names, such as those of options, devices and shell variables or with invisible characters.

    Example: kbhub team pull postgresql://kb.example/team handbook ~/handbook

    Args:
        url: URL of the database.
        base: Name of the base there.
        folder: The folder; created if missing.
        timeout: Timeout for the database, in seconds.

    Returns:
        The exit code: 1 if a file exists with other content, the base lacks one, or one was skipped.
    """
    engine, server, _ = _server(url, timeout)
    target = Path(os.path.abspath(folder))  # noqa: PTH100 - pathlib keeps `..`
    done = engine.pull(server, base, target)
    skipped = f", {len(done.refused)} skipped" if done.refused else ""
    text = f"{counted(done.written, 'file')} written to {folder}, {done.same} already there{skipped}"
    notes = [f"{path}: exists with other content; not changed." for path in done.kept]
    notes += [f"{path}: the base does not have this file." for path in done.lacking]
    notes += [f"{one.subject}: skipped, because {one.message}." for one in done.refused]
    return Reply(done, text, notes=notes, code=1 if notes else 0)


@command()
def team_init(
    url: str | None = None, /, *, sql: bool = False, admin: NamedRole = None, timeout: Seconds = DEADLINE_SECONDS
) -> Reply:
    """Create kbhub's schema in a database.

    Whoever runs this may create bases, and allow others to. Outside the schema `kbhub`, a role without login,
    `kbhub_owner`, is created to own the tables. In a database with nothing else in it, a superuser also hides
    PostgreSQL's counts of rows and sizes from other roles.

    Example: kbhub team init postgresql://kb.example/team

    Args:
        url: URL of the database. Optional with --sql; the SQL is then for a database without the schema.
        sql: Print the SQL without running it, for an administrator to run.
        admin: With --sql, the role that may create bases (the one that runs it).
        timeout: Timeout for the database, in seconds.
    """
    if admin and not sql:
        raise UsageError("--admin requires --sql; without it, whoever runs this is the admin.")
    if url is None:
        if not sql:
            raise UsageError(
                "No database given. Name it, such as postgresql://kb.example/team, or print the SQL with --sql."
            )
        return Reply(text=team_engine().bases.init_sql(admin=admin))
    engine, server, _ = _server(url, timeout)
    if sql:
        return Reply(text=engine.bases.init_sql(server, admin))
    before, closed = engine.bases.init(server)
    new, old = f": schema {VERSION}, new", f" already has schema {before}; nothing was changed"
    done = f"{server.name}{old if before else new}"
    open_counts = (
        "Roles that may connect see how many rows all bases have together. To hide that, give kbhub a database of its "
        "own, and run this as a superuser."
    )
    return Reply(text=done if closed else f"{done}\n{open_counts}")


@command()
def team_grant(
    url: str, role: str, rights: Rights, /, *, base: NamedBase = None, timeout: Seconds = DEADLINE_SECONDS
) -> Reply:
    """Allow a role of the database to read, write or administer a base.

    A reader can search and read. An author can also publish, or remember where that is allowed. An admin can also grant
    rights, remove the base, and forget memories of others. A role can be a group.

    Example: kbhub team grant postgresql://kb.example/team everybody reader --base handbook

    Args:
        url: URL of the database.
        role: An existing role; `CREATE ROLE` creates one.
        rights: What it may do: `reader`, `author` or `admin`.
        base: Name of the base there. Without it, an admin may create bases.
        timeout: Timeout for the database, in seconds.
    """
    engine, server, shared_as = _server(url, timeout)
    engine.bases.grant(server, role, rights, base or shared_as)
    what = f"{rights} of {base or shared_as}" if base or shared_as else "may create bases"
    return Reply(text=f"{role}: {what}")


@command()
def team_revoke(url: str, role: str, /, *, base: NamedBase = None, timeout: Seconds = DEADLINE_SECONDS) -> Reply:
    """Revoke a role's rights on a base, from its next query on.

    Example: kbhub team revoke postgresql://kb.example/team everybody --base handbook

    Args:
        url: URL of the database.
        role: The role.
        base: Name of the base there. Without it, the right to create bases.
        timeout: Timeout for the database, in seconds.

    Returns:
        The exit code: 1 if the role had none.
    """
    engine, server, shared_as = _server(url, timeout)
    had = engine.bases.revoke(server, role, base or shared_as)
    said = f"{role}: {'revoked' if had else 'had no rights of its own there'}"
    return Reply(text=said, code=0 if had else 1)


@command(lambda found: "\n".join(table([("role", "rights"), *((one.role, one.rights) for one in found.members)])))
def team_list(url: str, /, *, base: NamedBase = None, timeout: Seconds = DEADLINE_SECONDS) -> Members:
    """List the rights of all roles on a base. Only its admins can.

    Example: kbhub team list postgresql://kb.example/team --base handbook

    Args:
        url: URL of the database.
        base: Name of the base there. Without it, who may create bases.
        timeout: Timeout for the database, in seconds.
    """
    engine, server, shared_as = _server(url, timeout)
    name = base or shared_as
    return Members(base=name, members=tuple(engine.bases.members(server, name)))


def _publish_once(
    send: Any, database: str, hub: Hub, common: Common, *, dry_run: bool = False, quiet: bool = False, **options: bool
) -> None:
    """Publish by `send`, and say what was done; with `quiet` only if that is anything."""
    try:
        embedder = hub.embedder()
    except EmbedderError as error:
        complain(f"Published for keyword search only: {error}")
        embedder = None
    with progress_bars("publishing ") as progress:
        report: SyncReport = send(embedder, hub.limits(), dry_run=dry_run, progress=progress, **options)
    if quiet and not (report.added or report.changed or report.removed):
        return
    undone = " (dry run; nothing was changed)" if dry_run else ""
    result = Published(database=database, dry_run=dry_run, report=report)
    show_reply(Reply(result, f"{text_of(sync_report(report))}{undone}"), common)


def _server(url: str, timeout: float) -> tuple[Any, Any, str | None]:
    """Return the engine, the database of a URL, and the name of the base in it if the URL has one."""
    if fault := engine_fault(url):
        hint = "" if engine_for(url) or "@" in url else f" (it is {url[:60]!r})"
        raise UsageError(f"The URL of the database {fault}{hint}.")
    engine = team_engine()
    database, shared_as = split_engine_url(url)
    return engine, engine.Server(database, timeout, os.environ), shared_as


def _bases_text(bases: tuple[SharedBase, ...], database: str) -> str:
    if not bases:
        return f"{database} has no base that you may read"
    rows = [
        (one.name, one.rights, str(one.documents), ago(one.published), one.publisher or "", one.description or "")
        for one in bases
    ]
    header = ("base", "rights", "documents", "published", "by", "about")
    return "\n".join(table([header, *rows], right=frozenset({2}), width=terminal_width()))
