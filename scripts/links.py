"""Links that register kbhub with one click, in clients that offer them, and their buttons.

Sources, read in November 2026: cursor.com/docs (MCP install links), lmstudio.ai/docs/app/mcp/deeplink,
code.visualstudio.com (MCP developer guide: `vscode:mcp/install`). Pages on GitHub drop links with schemes of their own,
so each link here is the address of the client's own page that passes it on.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from kbhub.setup.clients import SERVER, client_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.setup.clients import ClientName

LINKED: tuple[ClientName, ...] = ("cursor", "vscode", "vscode-insiders", "lm-studio")
"""The clients that take such links."""

LAUNCH = ("uvx", SERVER, "serve", "--connect")
"""Whoever clicks a button has nothing installed, and uv installs kbhub when the client starts it."""

_HEIGHT = 24
_LETTER = 6.6
"""Widths in pixels, as the usual sans-serif of 12 px has them."""


def link(client: ClientName, argv: Sequence[str] = LAUNCH) -> str:
    """Return the link that registers the server with a client.

    Args:
        client: one of `LINKED`.
        argv: the command line of the server.

    Raises:
        ValueError: the client has no such links.
    """
    entry = client_named(client).shape.entry(tuple(argv))
    encoded = base64.b64encode(json.dumps(entry, separators=(",", ":")).encode()).decode()
    match client:
        case "cursor":
            return f"https://cursor.com/en/install-mcp?{urlencode({'name': SERVER, 'config': encoded})}"
        case "lm-studio":
            return f"https://lmstudio.ai/install-mcp?{urlencode({'name': SERVER, 'config': encoded})}"
        case "vscode" | "vscode-insiders":
            named = json.dumps({"name": SERVER, **entry}, separators=(",", ":"))
            host = "vscode.dev" if client == "vscode" else "insiders.vscode.dev"
            target = f"{client}:mcp/install?{quote(named, safe='')}"
            return f"https://{host}/redirect?url={quote(target, safe='')}"
    raise ValueError(f"{client} has no links that register a server")


def button(client: ClientName) -> str:
    """Return a button for a client, as SVG."""
    text = f"Add to {client_named(client).title}"
    width = round(len(text) * _LETTER) + _HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" role="img"><title>{text}</title>'
        f'<rect width="{width}" height="{_HEIGHT}" rx="5" fill="#24292f"/>'
        f'<text x="{width / 2:g}" y="16" text-anchor="middle" fill="#fff" '
        f'font-family="system-ui,sans-serif" font-size="12">{text}</text></svg>\n'
    )


def buttons(assets: str) -> str:
    """Return all buttons with their links, as a line of Markdown.

    Args:
        assets: path of the folder with the pictures, as seen from the page.
    """
    return " ".join(
        f"[![Add to {client_named(client).title}]({assets}/add-to-{client}.svg)]({link(client)})" for client in LINKED
    )
