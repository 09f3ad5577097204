"""Starting a registered server as its client would, and asking for its tools."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECONDS = 30.0
"""From start to the list of tools: what Claude Code gives a server (`MCP_TIMEOUT`); starting takes one at most."""

_ERROR_CHARACTERS = 300

_EMPTY = {"KBHUB_CONFIG": "config.json", "KBHUB_CACHE_DIR": "cache", "KBHUB_DATA_DIR": "data"}
"""Variable → name in an empty folder: the server is to find nothing that it would begin to index."""


def shake_hands(
    argv: Sequence[str], given: Mapping[str, str], env: Mapping[str, str], *, seconds: float = SECONDS
) -> str:
    """Start a server in an empty folder, greet it, and ask for its tools.

    Args:
        argv: what the client starts.
        given: variables that the client gives it.
        env: variables of the user.
        seconds: how long to wait.

    Returns:
        Why it did not work, in words that follow the command; empty if it did.
    """
    with tempfile.TemporaryDirectory(prefix="kbhub-doctor-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / _EMPTY["KBHUB_CONFIG"]).write_text("{}\n", "utf-8")
        variables = {**env, **{key: str(folder / value) for key, value in _EMPTY.items()}, **given}
        with (folder / "errors.txt").open("w+", encoding="utf-8", errors="replace") as errors:
            fault = anyio.run(_attempt, list(argv), variables, folder, errors, seconds)
            if not fault:
                return ""
            errors.seek(0)
            said = [line.strip() for line in errors.read().splitlines() if line.strip()]
    return f"{fault}: {said[-1][:_ERROR_CHARACTERS]}" if said else fault


async def _attempt(argv: list[str], env: dict[str, str], folder: Path, errors: Any, seconds: float) -> str:
    """Give the fault, if any, of one connection of the era that every client speaks."""
    server = StdioServerParameters(command=argv[0], args=argv[1:], env=env, cwd=folder)
    fault = ""
    try:
        with anyio.fail_after(seconds):
            async with Client(stdio_client(server, errlog=errors), mode="legacy") as client:
                tools = (await client.list_tools()).tools
        fault = "" if tools else "offers no tools"
    except* TimeoutError:
        fault = f"did not answer within {seconds:g} s"
    except* (MCPError, OSError, ValueError) as group:
        fault = "ends at once" if _is_closed(group) else f"does not answer as it should ({_first(group)})"
    return fault


def _first(error: BaseException) -> BaseException:
    """Give the first error in a group of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_closed(group: BaseException) -> bool:
    return "closed" in str(_first(group)).lower()
