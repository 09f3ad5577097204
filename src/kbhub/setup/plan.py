"""The plan of `kbhub setup`: steps with the functions that carry them out, and what only a person can do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from kbhub.errors import KbhubError
from kbhub.frozen import Model
from kbhub.setup.clients import SERVER, ClientName, Shape
from kbhub.values import struct

Action = Literal["register", "update", "remove", "write", "delete", "nothing"]
"""`register`, `update` and `remove` an entry of a client; `write` and `delete` other files or parts of them."""


class Step(Model):
    """One thing to do, or that was done."""

    subject: str = Field(description="What it is about: the name of a client, `agents-md` or `skill`.")
    title: str = Field(description="The same for people.")
    action: Action = Field(description="What is to be done.")
    file: Path = Field(description="The file that it is about.")
    state: Literal["planned", "done", "failed"] = Field("planned", description="How far it got.")
    command: tuple[str, ...] = Field((), description="What the client starts, afterwards.")
    before: tuple[str, ...] = Field((), description="What the client starts now, if that is something else.")
    through: str = Field("", description="The client's own command that does it; empty if the file is edited.")
    backup: Path | None = Field(None, description="Copy of the file as it was before.")
    notes: tuple[str, ...] = Field((), description="What else to know, in sentences.")


class Paste(Model):
    """What the user has to do in a client's settings dialog."""

    subject: str = Field(description="Name of the client.")
    title: str = Field(description="The same for people.")
    where: str = Field(description="The page of the dialog.")
    entry: str = Field(description="JSON to paste there; empty if the server is to be deleted.")
    notes: tuple[str, ...] = Field((), description="What else to know, in sentences.")


class SetupReport(Model):
    """What `kbhub setup` did or, with `dry_run`, would do."""

    dry_run: bool = Field(description="Whether nothing was done.")
    steps: tuple[Step, ...] = Field(description="In the order in which they are done.")
    pastes: tuple[Paste, ...] = Field((), description="What only the user can do.")
    notes: tuple[str, ...] = Field((), description="What else to know, in sentences.")


class Registration(Model):
    """The server as a client of this machine has it."""

    client: str = Field(description="Name of the client.")
    title: str = Field(description="The same for people.")
    file: Path = Field(description="Where it is registered.")
    name: str = Field(description="Name of the server there.")
    command: str = Field(description="What the client starts.")
    args: tuple[str, ...] = Field((), description="With which arguments.")
    env: dict[str, str] = Field(default_factory=dict, exclude=True, description="And which variables; may be secrets.")
    enabled: bool = Field(True, description="Whether the client starts it at all.")
    program: str | None = Field(None, description="The program that the command starts; null if it does not exist.")
    fault: str = Field("", description="Why the client's file cannot be read, if so.")

    @property
    def argv(self) -> tuple[str, ...]:
        """The command with its arguments."""
        return (self.command, *self.args)

    @property
    def starts(self) -> bool:
        """Whether there is a program to start."""
        return self.program is not None


@struct
class PlannedStep:
    """A step and the function that carries it out."""

    step: Step
    do: Callable[[], Step] | None = None
    """None if there is nothing to do or the step cannot be done."""


def done(step: Step, *, backup: Path | None = None, notes: tuple[str, ...] = ()) -> Step:
    """Return the step marked as done."""
    return step.model_copy(update={"state": "done", "backup": backup, "notes": (*step.notes, *notes)})


def failed(step: Step, reason: str) -> Step:
    """Return the step marked as failed, with the reason as a note."""
    return step.model_copy(update={"state": "failed", "notes": (*step.notes, reason)})


def carry_out(task: PlannedStep) -> Step:
    """Carry out a task and return the resulting step, marked as failed if it raised."""
    if task.do is None:
        return task.step
    try:
        return task.do()
    except KbhubError as error:
        return failed(task.step, str(error))
    except OSError as error:
        return failed(task.step, f"{error.filename or task.step.file}: {error.strerror or error}")


DialogName = Literal["jetbrains-ai"]

AnyName = Literal[ClientName, DialogName]
"""A client that `kbhub setup --client` takes."""


@struct
class Dialog:
    """The settings dialog of a client."""

    name: DialogName
    title: str
    where: str
    """How to get there."""
    hint: str


DIALOGS: tuple[Dialog, ...] = (
    Dialog(
        "jetbrains-ai",
        "JetBrains AI Assistant",
        "Settings | Tools | AI Assistant | Model Context Protocol (MCP)",
        'To search a project from there, set its folder as the working directory, or add "--root" and the folder to '
        "the arguments.",
    ),
)
"""In display order. None of them is looked for: nothing shows whether such a client is installed."""


def pastes(names: Sequence[str], argv: Sequence[str], *, remove: bool) -> tuple[Paste, ...]:
    """Return what to paste into the dialogs of the named clients, or that it has to be deleted there.

    Clients without a dialog are skipped.
    """
    entry = {"mcpServers": {SERVER: Shape().entry(tuple(argv))}}
    return tuple(
        Paste(
            subject=dialog.name,
            title=dialog.title,
            where=dialog.where,
            entry="" if remove else json.dumps(entry, indent=2, ensure_ascii=False),
            notes=() if remove else (dialog.hint,),
        )
        for dialog in DIALOGS
        if dialog.name in names
    )
