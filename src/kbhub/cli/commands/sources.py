"""What the commands about sources do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kbhub.cli.console import complain, show_json, show_text
from kbhub.cli.hubs import hub_options
from kbhub.cli.texts import argument, standard_input
from kbhub.distil import distil as save_answer
from kbhub.errors import KbhubError, UsageError
from kbhub.hub import Hub

if TYPE_CHECKING:
    from kbhub.cli.options import Common


def distil(model: str, text: str | None, *, base_id: str | None, common: Common) -> int:
    """Save an answer, print where."""
    hub = Hub(hub_options(common))
    given = _text(text, hub.config().settings.limits.file_bytes)
    saved = save_answer(hub, model, given, base=base_id)
    if common.json:
        show_json(saved.model_dump_json(indent=2))
        return 0
    show_text(f"Saved {saved.ref}")
    if saved.related:
        show_text(f"related: {', '.join(saved.related)}")
    for note in saved.notes:
        complain(note)
    return 0


def _text(text: str | None, most: int) -> str:
    if text is not None:
        return argument(text)
    if sys.stdin is not None and not sys.stdin.isatty():
        given = standard_input(most, "a document")
        if not given.strip():
            raise UsageError("There is no text to save: standard input is empty.")
        return given
    return _clipboard()


def _clipboard() -> str:
    # It looks for the programs of the system when it is used, and no other command needs it.
    import pyperclip  # noqa: PLC0415

    try:
        found = str(pyperclip.paste())
    except (pyperclip.PyperclipException, OSError) as error:
        raise KbhubError(
            "There is no text to save, and the clipboard cannot be read here. Give the text as an argument or on "
            "standard input; on Linux, wl-clipboard, xclip or xsel makes the clipboard readable."
        ) from error
    if not found.strip():
        raise UsageError(
            "There is no text to save: the clipboard is empty. Give it as an argument or on standard input."
        )
    return found
