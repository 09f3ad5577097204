"""The plan of `kbhub setup` and its outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from kbhub.frozen import Model

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
    through: str = Field("", description="The client's own command that does it; empty where the file is edited.")
    backup: Path | None = Field(None, description="Copy of the file as it was before.")
    notes: tuple[str, ...] = Field((), description="What else to know, in sentences.")


class SetupReport(Model):
    """What `kbhub setup` did or, with `dry_run`, would do."""

    dry_run: bool = Field(description="Whether nothing was done.")
    steps: tuple[Step, ...] = Field(description="In the order of their doing.")
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
    program: str | None = Field(None, description="The program that the command names; none if there is no such.")
    fault: str = Field("", description="Why the client's file cannot be read, if so.")

    @property
    def argv(self) -> tuple[str, ...]:
        """The command with its arguments."""
        return (self.command, *self.args)

    @property
    def starts(self) -> bool:
        """Whether there is a program to start."""
        return self.program is not None
