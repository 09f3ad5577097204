"""Commands about what becomes knowledge: distil."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from kbhub.cli import commands
from kbhub.cli.app import app
from kbhub.cli.options import Common


@app.command(usage="kbhub distil [OPTIONS] MODEL [TEXT]")
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
    return commands.sources.distil(model, text, base_id=base_id, common=common)
