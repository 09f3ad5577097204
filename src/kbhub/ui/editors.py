"""Addresses that open a file in an editor of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbhub.hub import Hub
    from kbhub.reading.read import Whole
    from kbhub.workspace.settings import Editor

EDITORS: Mapping[Editor, str] = {
    "vscode": "vscode://file{path}:{line}",
    "vscodium": "vscodium://file{path}:{line}",
    "cursor": "cursor://file{path}:{line}",
    "windsurf": "windsurf://file{path}:{line}",
    "zed": "zed://file{path}:{line}",
    "idea": "idea://open?file={path}&line={line}",
    "sublime": "subl://open?url=file://{path}&line={line}",
    "obsidian": "obsidian://open?path={path}",
}
"""Name of an editor → the address by which its maker says to open a file."""


def editor_address(hub: Hub, whole: Whole, line: int) -> str | None:
    """Return the address that opens a document in the user's editor at a 1-based line; None if it is no local file."""
    if whole.base.engine or whole.deleted:
        return None
    path = (whole.base.path / whole.path).as_posix()
    template = EDITORS[hub.config().settings.ui.editor]
    return template.format(path=quote(path if path.startswith("/") else f"/{path}"), line=line)
