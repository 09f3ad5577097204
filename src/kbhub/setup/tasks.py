"""Things to do: each is shown before it is done, and one that fails does not stop the others."""

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
    """A step, and how to do it."""

    step: Step
    do: Callable[[], Step] | None = None
    """None where there is nothing to do, or it cannot be done."""


def done(step: Step, *, backup: Path | None = None, notes: tuple[str, ...] = ()) -> Step:
    """Give a step as it is after it was done."""
    return step.model_copy(update={"state": "done", "backup": backup, "notes": (*step.notes, *notes)})


def failed(step: Step, reason: str) -> Step:
    """Give a step that could not be done."""
    return step.model_copy(update={"state": "failed", "notes": (*step.notes, reason)})


def carry_out(task: Task) -> Step:
    """Do what is to be done, if anything."""
    if task.do is None:
        return task.step
    try:
        return task.do()
    except KbhubError as error:
        return failed(task.step, str(error))
    except OSError as error:
        return failed(task.step, f"{error.filename or task.step.file}: {error.strerror or error}")
