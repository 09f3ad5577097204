"""Clients that keep their servers in a settings dialog, where only a person can enter them.

Source, read in November 2026: jetbrains.com/help/ai-assistant/mcp.html.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from kbhub.setup.clients import SERVER, ClientName, Shape
from kbhub.setup.plan import Paste
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

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
