"""What becomes knowledge: distil."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from kbhub.cli.console import complain, show_json, show_text
from kbhub.cli.hubs import hub_options
from kbhub.cli.options import Common
from kbhub.cli.texts import argument, standard_input
from kbhub.editing.distil import distil as save_answer
from kbhub.errors import KbhubError, UsageError
from kbhub.hub import Hub


def distil(
    model: str,
    text: str | None = None,
    /,
    *,
    base_id: Annotated[str | None, Parameter(name="--in", metavar="BASE")] = None,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Save a chat answer as a document, with links to what is near it in meaning.

    The text is the argument, else standard input if that is no terminal, else the clipboard. It goes to
    llm-completions/MODEL/ of the project base if that may be written, else to a base in your data.

    Example: kbhub distil claude < answer.md

    Args:
        model: Who answered: a name, or an alias: c (claude), x (codex), g (gemini), or one of the config.
        text: The answer.
        base_id: Save it in this base.
        common: Options of every command.
    """
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
