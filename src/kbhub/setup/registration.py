"""Register the server with clients, and remove it again."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from kbhub.errors import ConfigError
from kbhub.setup import launch
from kbhub.setup.clients import CLIENTS, SERVER
from kbhub.setup.entries import (
    EntryLocation,
    decode,
    says_the_same,
    with_entry,
    with_fields,
    without_empty,
    without_entry,
)
from kbhub.setup.files import Records, digest, edit, missing_folders, read_bytes
from kbhub.setup.plan import Action, PlannedStep, Step, done, failed
from kbhub.setup.targets import SERVE, current_text, project_target, registered, user_target
from kbhub.workspace.files import data_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kbhub.setup.clients import Client
    from kbhub.setup.dialogs import AnyName
    from kbhub.setup.machine import Machine
    from kbhub.setup.targets import RegisteredServer, Target

OFF = "It is disabled there; enable it in the client's settings."


def chosen_clients(machine: Machine, names: Sequence[AnyName], root: Path | None = None) -> tuple[Client, ...]:
    """Return the named clients or, without names, those that are installed; names of dialogs are skipped.

    The files in a project's `root` show further clients, which other members of a team may use.
    """
    if names:
        by_name: dict[str, Client] = {client.name: client for client in CLIENTS}
        return tuple(by_name[name] for name in dict.fromkeys(names) if name in by_name)
    return tuple(client for client in CLIENTS if machine.has(client) or (root and _has_file(client, root)))


def without_project_file(clients: Sequence[Client], *, remove: bool) -> tuple[str, ...]:
    """Return a note for each client without project files, saying what to do instead."""
    effect = "removes it for you" if remove else "registers it for you only"
    return tuple(
        f"{client.title} has no project file; `kbhub setup --client {client.name}{' --remove' * remove}` {effect}."
        for client in clients
        if client.project is None
    )


def user_tasks(clients: Sequence[Client], machine: Machine, argv: Sequence[str], *, remove: bool) -> list[PlannedStep]:
    """Plan to register the server in the user's files, or to remove it.

    `argv` is the command line that starts kbhub, without the subcommand.
    """
    tasks = []
    for client in clients:
        make = partial(user_target, client, machine, (*argv, SERVE))
        tasks.append(_planned(client.name, client.title, machine.file(client), make, machine, remove=remove))
    return tasks


def project_tasks(clients: Sequence[Client], machine: Machine, root: Path, *, remove: bool) -> list[PlannedStep]:
    """Plan the same for the files of a project (its symlinks resolved), skipping clients without any.

    Clients that share a file share a task.
    """
    tasks: dict[Path, PlannedStep] = {}
    for client in clients:
        if client.project is None:
            continue
        make = partial(project_target, client, machine, root)
        task = _planned(client.name, client.title, root / client.project.files[-1], make, machine, remove=remove)
        if other := tasks.get(task.step.file):
            title = f"{other.step.title}, {client.title}"
            tasks[task.step.file] = _retitled(other, title)
        else:
            tasks[task.step.file] = task
    return list(tasks.values())


def _has_file(client: Client, root: Path) -> bool:
    return client.project is not None and any((root / name).is_file() for name in client.project.files)


def _planned(
    name: str, title: str, file: Path, make: Callable[[], Target | None], machine: Machine, *, remove: bool
) -> PlannedStep:
    """Plan a change of one file; a file that cannot be parsed gives a failed step."""
    step = Step(subject=name, title=title, action="remove" if remove else "register", file=file)
    try:
        target = make()
        assert target is not None
        step = step.model_copy(update={"file": target.file})
        entry = registered(current_text(target), target)
    except ConfigError as error:
        return PlannedStep(failed(step, str(error)))
    return _removal(target, step, entry, machine) if remove else _registration(target, step, entry, machine)


def _registration(target: Target, step: Step, entry: RegisteredServer | None, machine: Machine) -> PlannedStep:
    own = target.client.own if target.within is None else None
    if entry is None:
        line: tuple[str, ...] = ()
        if own and machine.program(own.program):
            line = launch.adding(own, target.shape, target.argv)
        step = _with_action(step, "register", command=target.argv, through=launch.shown(line))
        return PlannedStep(step, lambda: _register(target, step, line, machine))
    off = () if entry.enabled else (OFF,)
    if entry.name != SERVER:
        return PlannedStep(
            _with_action(
                step, "nothing", command=entry.argv, notes=(f"It is already registered as {entry.name!r}.", *off)
            )
        )
    if target.wants(entry):
        return PlannedStep(_with_action(step, "nothing", command=entry.argv, notes=off))
    argv = target.argv_instead_of(entry)
    step = _with_action(step, "update", command=argv, before=entry.argv, notes=off)
    return PlannedStep(step, lambda: _recorded(target, machine, lambda: _edited(target, step)))


def _removal(target: Target, step: Step, entry: RegisteredServer | None, machine: Machine) -> PlannedStep:
    if entry is None or entry.name != SERVER:
        return PlannedStep(_with_action(step, "nothing"))
    own = target.client.own if target.within is None else None
    line = launch.removing(own) if own and machine.program(own.program) else ()
    step = _with_action(step, "remove", before=entry.argv, through=launch.shown(line))
    return PlannedStep(step, lambda: _remove(target, step, line, machine))


def _register(target: Target, step: Step, line: tuple[str, ...], machine: Machine) -> Step:
    def is_there() -> bool:
        entry = registered(current_text(target), target)
        return entry is not None and target.wants(entry)

    return _done_by(target, step, line, machine, is_there)


def _remove(target: Target, step: Step, line: tuple[str, ...], machine: Machine) -> Step:
    def is_gone() -> bool:
        entry = registered(current_text(target), target)
        return entry is None or entry.name != SERVER

    return _done_by(target, step, line, machine, is_gone)


def _done_by(
    target: Target, step: Step, line: tuple[str, ...], machine: Machine, succeeded: Callable[[], bool]
) -> Step:
    """Let the client's own CLI do it; edit the file if there is no command, it fails, or it has no effect."""

    def change() -> Step:
        if not line:
            return _edited(target, step)
        fault = launch.run(line, machine)
        if not fault and succeeded():
            return done(step, notes=_hint(target, step))
        reason = fault or f"it had no effect on {target.file}"
        return _edited(target, step, f"`{line[0]}` failed ({reason}), so the file was edited instead.")

    return _recorded(target, machine, change)


def _recorded(target: Target, machine: Machine, change: Callable[[], Step]) -> Step:
    """Run a change with a backup of the file, and record it; after a removal, restore the original."""
    records, before, folders = Records(data_dir(machine.env)), read_bytes(target.file), missing_folders(target.file)
    copy = records.copied(target.file, before)
    try:
        step = change()
        if step.action == "remove":
            return _taken_back(target, step, records, before, copy)
        after = read_bytes(target.file)
        if after == before:
            return step
        return step.model_copy(update={"backup": records.changed(target.file, copy, before, after, folders)})
    finally:
        if copy and read_bytes(target.file) == before:
            copy.unlink(missing_ok=True)


def _taken_back(target: Target, step: Step, records: Records, before: bytes | None, copy: Path | None) -> Step:
    """Restore the original file or, if somebody else changed it, remove the empty objects kbhub left behind."""
    change, current = records.of(target.file), read_bytes(target.file)
    if change is None:
        return step.model_copy(update={"backup": copy})
    place = EntryLocation(target.form, target.keys, SERVER, target.file)
    text, original = decode(current, target.file), decode(change.content, target.file)
    restored = current
    if says_the_same(text, original, place) and (change.after == digest(before) or change.content is None):
        restored = change.content
    elif current is not None:
        restored = without_empty(text, original, place).encode()
    edit(target.file, lambda _: restored, within=target.within)
    if restored != change.content:
        records.undone(target.file)
        return step.model_copy(update={"backup": copy})
    records.undone(target.file, copy, change.copy)
    for folder in change.folders if restored is None else ():
        with suppress(OSError):  # it holds other files by now
            folder.rmdir()
    return step


def _edited(target: Target, step: Step, note: str = "") -> Step:
    """Edit the file so that it starts the command in the step."""

    def change(content: bytes | None) -> bytes | None:
        text = decode(content, target.file)
        entry = registered(text, target)
        if entry is not None and entry.name != SERVER:
            entry = None
        place = EntryLocation(target.form, target.keys, SERVER, target.file)
        if step.action == "remove":
            return content if entry is None else without_entry(text, place).encode()
        if entry is None:
            return with_entry(text, place, target.shape.entry(step.command)).encode()
        if target.wants(entry):
            return content
        return with_fields(text, place, target.shape.fields(step.command)).encode()

    edit(target.file, change, within=target.within)
    notes = (note, *_hint(target, step)) if note else _hint(target, step)
    return done(step.model_copy(update={"through": ""}), notes=notes)


def _hint(target: Target, step: Step) -> tuple[str, ...]:
    client = target.client
    return (
        *((client.hint,) if client.hint and target.within is None else ()),
        *((client.caveat,) if client.caveat and step.action != "remove" else ()),
    )


def _with_action(step: Step, action: Action, **more: Any) -> Step:
    return step.model_copy(update={"action": action, **more})


def _retitled(task: PlannedStep, title: str) -> PlannedStep:
    """Return a task that is shown under another title, before and after it is done."""
    do = task.do
    step = task.step.model_copy(update={"title": title})
    return PlannedStep(step, None if do is None else lambda: do().model_copy(update={"title": title}))
