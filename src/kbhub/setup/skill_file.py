"""The skill that tells agents when and how to search; written where clients look for the user's skills."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import ConfigError
from kbhub.setup.clients import SERVER
from kbhub.setup.files import edit, read_bytes
from kbhub.setup.models import Action, Step
from kbhub.setup.tasks import Task, done, failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.setup.clients import Client, Machine

SKILL = Path(__file__).parent / "skill" / "SKILL.md"
"""The skill as it comes with kbhub."""

OURS = b"<!-- Written by `kbhub setup --skill`"
"""In a skill that kbhub may change and delete."""

_OURS_NO_MORE = "is no longer marked as kbhub's, so somebody made it theirs; it was not touched"


def skill_tasks(clients: Sequence[Client], machine: Machine, *, remove: bool) -> list[Task]:
    """Plan to write, or delete, the skill for clients that have skills; a folder that several read gets one."""
    readers: dict[Path, list[str]] = {}
    for client in clients:
        if client.skills:
            file = machine.path(client.skills) / SERVER / SKILL.name
            readers.setdefault(file, []).append(client.title)
    return [_task(file, ", ".join(titles), remove=remove) for file, titles in readers.items()]


def _task(file: Path, title: str, *, remove: bool) -> Task:
    action: Action = "delete" if remove else "write"
    step = Step(subject="skill", title=f"Skill for {title}", action=action, file=file)
    try:
        wanted = _wanted(read_bytes(file), file, remove=remove)
        if wanted == read_bytes(file):
            return Task(step.model_copy(update={"action": "nothing"}))
    except ConfigError as error:
        return Task(failed(step, str(error)))
    return Task(step, partial(_do, step, file, remove=remove))


def _do(step: Step, file: Path, *, remove: bool) -> Step:
    edit(file, lambda content: _wanted(content, file, remove=remove))
    if remove and not any(file.parent.iterdir()):
        file.parent.rmdir()
    return done(step)


def _wanted(content: bytes | None, file: Path, *, remove: bool) -> bytes | None:
    """Give what is to be in the place of what is there.

    Raises:
        ConfigError: what is there is not kbhub's.
    """
    if content is not None and OURS not in content:
        raise ConfigError(file, _OURS_NO_MORE)
    return None if remove else SKILL.read_bytes()
