"""Start a registered server as its client would, and list its tools."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from kbhub.setup.plan import MODE

SECONDS = 30.0
"""Timeout until the tools are listed, as in Claude Code (`MCP_TIMEOUT`); starting takes a second at most."""

_ERROR_CHARACTERS = 300

_EMPTY = {"KBHUB_CONFIG": "config.json", "KBHUB_CACHE_DIR": "cache", "KBHUB_DATA_DIR": "data"}
"""Variable → name in an empty folder, so that the server finds nothing to index."""


def shake_hands(
    argv: Sequence[str], given: Mapping[str, str], env: Mapping[str, str], *, seconds: float = SECONDS
) -> str:
    """List the tools of a server started in an empty folder; return why it failed, or an empty string.

    `given` are the environment variables in the client's entry, `env` those of the user.
    """
    with tempfile.TemporaryDirectory(prefix="kbhub-doctor-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / _EMPTY["KBHUB_CONFIG"]).write_text("{}\n", "utf-8")
        variables = {**env, **{key: str(folder / value) for key, value in _EMPTY.items()}, **given}
        with (folder / "errors.txt").open("w+", encoding="utf-8", errors="replace") as errors:
            own = [word for word in argv if word != MODE]  # a daemon would outlive the folder
            fault = anyio.run(_attempt, own, variables, folder, errors, seconds)
            if not fault:
                return ""
            errors.seek(0)
            lines = [line.strip() for line in errors.read().splitlines() if line.strip()]
    return f"{fault}: {lines[-1][:_ERROR_CHARACTERS]}" if lines else fault


async def _attempt(argv: list[str], env: dict[str, str], folder: Path, errors: Any, seconds: float) -> str:
    """Connect with the legacy protocol, which every client speaks, and return the fault, if any."""
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
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        fault = "exits immediately" if "closed" in str(error).lower() else f"gives an invalid answer ({error})"
    return fault
