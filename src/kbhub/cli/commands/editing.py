"""What the commands that change documents do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kbhub import editing
from kbhub.cli.console import complain, show_json, show_text
from kbhub.cli.hubs import hub_options
from kbhub.cli.texts import argument, optional, standard_input
from kbhub.cli.trash_results import TrashResult
from kbhub.errors import UsageError
from kbhub.hub import Hub
from kbhub.render.editing import deleted_text, renamed_text, restored_text, trash_text, written_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbhub.cli.options import Common
    from kbhub.editing.documents import WriteMode


def write(
    ref: str,
    *,
    text: str | None,
    stdin: bool,
    mode: WriteMode,
    section: str | None,
    assignments: Sequence[str],
    unset: Sequence[str],
    based_on: str | None,
    common: Common,
) -> int:
    """Create or change a document, and say what there is to say about it."""
    if stdin and text is not None:
        raise UsageError("--text and `-` exclude each other; use one.")
    hub = Hub(hub_options(common))
    done = editing.write_document(
        hub,
        argument(ref),
        text=standard_input(hub.config().settings.limits.file_bytes, "a document") if stdin else optional(text),
        front_matter={**_assigned(assignments), **dict.fromkeys(unset)},
        section=optional(section),
        mode=mode,
        based_on=based_on,
    )
    if common.json:
        show_json(done.model_dump_json(indent=2))
    else:
        show_text(written_text(done))
        _complain_all(done.warnings)
    return 0


def delete(ref: str, *, based_on: str | None, common: Common) -> int:
    """Move a document to the trash."""
    done = editing.delete_document(Hub(hub_options(common)), argument(ref), based_on)
    if common.json:
        show_json(done.model_dump_json(indent=2))
    else:
        show_text(deleted_text(done))
        _complain_all(f"{link}: the link to it leads nowhere now." for link in done.broken)
    return 0


def restore(name: str | None, *, listed: bool, empty_older_than: float | None, common: Common) -> int:
    """Bring a document back, list the trash, or empty it."""
    if (name is not None) + listed + (empty_older_than is not None) != 1:
        raise UsageError("Give a NAME, --list, or --empty-older-than DAYS: one of the three.")
    hub = Hub(hub_options(common))
    if name is not None:
        done = editing.restore(hub, argument(name))
        if common.json:
            show_json(done.model_dump_json(indent=2))
        else:
            show_text(restored_text(done))
        return 0
    removed = () if empty_older_than is None else editing.empty_trash(hub, older_than_days=empty_older_than)
    result = TrashResult(entries=editing.trash(hub) if listed else (), removed=removed)
    if common.json:
        show_json(result.model_dump_json(indent=2))
    else:
        show_text(trash_text(result.entries if listed else result.removed, emptied=not listed))
    return 0


def rename(ref: str, new: str, *, mend_links: bool, common: Common) -> int:
    """Give a document another path; 1 if links could not be mended that should have been."""
    done = editing.rename(Hub(hub_options(common)), argument(ref), argument(new), mend_links=mend_links)
    if common.json:
        show_json(done.model_dump_json(indent=2))
    else:
        show_text(renamed_text(done))
        _complain_all(f"{one.subject}: {one.message}" for one in done.unmended)
        if done.links and not mend_links:
            complain("The links are as they were; --mend-links rewrites them when a document is renamed.")
    return 1 if mend_links and done.unmended else 0


def _assigned(assignments: Iterable[str]) -> dict[str, Any]:
    """Give the keys and values of `KEY=VALUE`, where a value that is no JSON is text."""
    values: dict[str, Any] = {}
    for assignment in assignments:
        key, mark, value = argument(assignment).partition("=")
        if not mark or not key.strip():
            raise UsageError(f"--set {assignment!r}: expected KEY=VALUE.")
        try:
            values[key.strip()] = json.loads(value)
        except ValueError:
            values[key.strip()] = value
        if values[key.strip()] is None:
            raise UsageError(f"--set {assignment!r}: --unset {key.strip()} removes a key.")
    return values


def _complain_all(messages: Iterable[str]) -> None:
    for message in messages:
        complain(message)
