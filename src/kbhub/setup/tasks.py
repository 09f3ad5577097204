"""Planned steps with the functions that carry them out; a failing step does not stop the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kbhub.errors import KbhubError
from kbhub.values import struct

if TYPE_CHECKING:
    from pathlib import Path

    from kbhub.setup.models import Step


@struct
class Task:
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


def carry_out(task: Task) -> Step:
    """Carry out a task and return the resulting step, marked as failed if it raised."""
    if task.do is None:
        return task.step
    try:
        return task.do()
    except KbhubError as error:
        return failed(task.step, str(error))
    except OSError as error:
        return failed(task.step, f"{error.filename or task.step.file}: {error.strerror or error}")
