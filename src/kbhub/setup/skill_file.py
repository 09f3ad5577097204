"""The skill that tells agents when and how to search, installed in the clients' skill folders."""

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
"""The skill as shipped with kbhub."""

OURS = b"<!-- Written by `kbhub setup --skill`"
"""Marks a skill that kbhub may change and delete."""

_OURS_NO_MORE = "is no longer marked as kbhub's, so somebody made it theirs; it was not touched"


def skill_tasks(clients: Sequence[Client], machine: Machine, *, remove: bool) -> list[Task]:
    """Plan to write or delete the skill, once per skill folder even if several clients share it."""
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
        content = _skill(read_bytes(file), file, remove=remove)
        if content == read_bytes(file):
            return Task(step.model_copy(update={"action": "nothing"}))
    except ConfigError as error:
        return Task(failed(step, str(error)))
    return Task(step, partial(_do, step, file, remove=remove))


def _do(step: Step, file: Path, *, remove: bool) -> Step:
    edit(file, lambda content: _skill(content, file, remove=remove))
    if remove and not any(file.parent.iterdir()):
        file.parent.rmdir()
    return done(step)


def _skill(content: bytes | None, file: Path, *, remove: bool) -> bytes | None:
    """Return the new content of the file; raises ConfigError if the current one is not kbhub's."""
    if content is not None and OURS not in content:
        raise ConfigError(file, _OURS_NO_MORE)
    return None if remove else SKILL.read_bytes()
