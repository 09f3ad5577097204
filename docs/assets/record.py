"""Record the pictures of kbhub at work: `python docs/assets/record.py` writes `agent.svg` and `session.svg` beside it.

Works in a copy of `examples/team`, with an empty home. For `agent.svg` an MCP client calls the tools of a real server,
as a coding agent does; for `session.svg` the real command line runs in a terminal. With the folder of a clone of
squidfunk/mkdocs-material (MIT) at the commit in `benchmarks/excerpts.jsonl`, it writes `documentation.svg` in the same
way instead. rich draws what they return. The pictures name no address, so nothing is fetched when they are shown.
`tests/test_docs_site.py` compares the text of the first two with that of a new run; ids and scores differ between runs
and machines, and are left out there.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.padding import Padding
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
PICTURE = Path(__file__).with_name("session.svg")
AGENT_PICTURE = Path(__file__).with_name("agent.svg")
DOCUMENTATION_PICTURE = Path(__file__).with_name("documentation.svg")

COMMANDS = (
    'kbhub search "how do we roll back a release" -n 1',
    'kbhub ask "who gets paged for a SEV1"',
    'kbhub search "who pays for the coffee machine" --min-score 0.1',
    'kbhub remember --tag deploy "The staging database is reset every night at two."',
    'kbhub search "when is staging reset" -n 1',
)
"""What is typed in `session.svg`."""


@dataclass(frozen=True)
class Turn:
    """A prompt of the user's in `agent.svg`, and the tool call with which the agent begins to answer it."""

    prompt: str
    tool: str
    arguments: dict[str, Any]
    shown: int
    """Lines of the result that are shown; the others are counted."""


TURNS = (
    Turn("The last release is broken. Roll it back.", "search", {"query": "roll back a release"}, 14),
    Turn(
        "Thanks. Remember to flush the checkout cache after a rollback.",
        "remember",
        {"text": "Flush the checkout cache after a rollback."},
        2,
    ),
    Turn("[a new session] I rolled back checkout. What now?", "search", {"query": "after a rollback of checkout"}, 7),
)
"""What the user and the agent say in `agent.svg`; all that follows each call is the server's."""

DOCUMENTATION_TURNS = (
    Turn("Our search finds no version numbers. Fix it.", "search", {"query": "search finds no version numbers"}, 19),
    Turn("What will it cost to host this on Kubernetes?", "search", {"query": "cost of hosting on Kubernetes"}, 5),
    Turn(
        "Remember why the separator is so odd.",
        "remember",
        {"text": "The search separator has a lookahead, so that versions are found."},
        1,
    ),
    Turn(
        "[a new session] Simplify our mkdocs.yml.", "search", {"query": "why the search separator has a lookahead"}, 7
    ),
)
"""The same in `documentation.svg`."""

DAY_SECONDS = 86_400

COLUMNS = 100
"""Width of the terminal."""

THEME = TerminalTheme(
    (24, 28, 36),
    (222, 227, 235),
    [
        (24, 28, 36),
        (240, 113, 120),
        (152, 195, 121),
        (229, 192, 123),
        (97, 175, 239),
        (198, 120, 221),
        (86, 182, 194),
        (222, 227, 235),
    ],
)
"""Background, text, and the eight colours of SGR: light on dark, at least 4.5 to 1, on light and dark pages alike."""

FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
"""Fonts that systems have."""


def run(folder: Path) -> list[tuple[str, str]]:
    """Run the commands as somebody whose home is empty.

    Args:
        folder: an empty folder to work in.

    Returns:
        Each command with what it printed, colours as SGR sequences.
    """
    project, env = _newcomer(folder)
    return [(command, _printed(command, project, env)) for command in COMMANDS]


def call(
    folder: Path, turns: Sequence[Turn] = TURNS, source: Path = ROOT / "examples" / "team"
) -> list[tuple[Turn, str]]:
    """Call the tools as somebody whose home is empty. Each turn is a session with a server of its own.

    Args:
        folder: an empty folder to work in.
        turns: what is called.
        source: the project, which is copied.

    Returns:
        Each turn with the text of the tool's result.
    """
    project, env = _newcomer(folder, source)
    server = StdioServerParameters(command=sys.executable, args=["-m", "kbhub", "serve"], env=env, cwd=project)

    async def results() -> list[tuple[Turn, str]]:
        found = []
        for turn in turns:
            # As on the next day: what was just written is indexed again, and a first index takes its time.
            for memory in Path(env["HOME"]).rglob("*.md"):
                os.utime(memory, (0, memory.stat().st_mtime - DAY_SECONDS))
            _printed("kbhub admin index", project, env)
            async with Client(server) as client:
                result = await client.call_tool(turn.tool, turn.arguments)
            found.append((turn, result.content[0].text))
        return found

    return asyncio.run(results())


def _newcomer(folder: Path, source: Path = ROOT / "examples" / "team") -> tuple[Path, dict[str, str]]:
    """Give a project with knowledge, and the environment of a user whose home is empty."""
    home, project = folder / "home", folder / source.name
    home.mkdir()
    shutil.copytree(source, project)
    env = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "COLUMNS": str(COLUMNS),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }
    return project, env


def _printed(command: str, project: Path, env: dict[str, str]) -> str:
    arguments = [sys.executable, "-m", *shlex.split(command)]
    ours, its = os.openpty()
    data = b""
    with subprocess.Popen(  # noqa: S603 - our own commands
        arguments, cwd=project, env=env, stdin=subprocess.DEVNULL, stdout=its, stderr=its
    ) as process:
        os.close(its)
        with contextlib.suppress(OSError):  # how Linux says that the other end was closed
            while piece := os.read(ours, 1 << 16):
                data += piece
    os.close(ours)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, arguments, data)
    return data.decode().replace("\r\n", "\n")


def draw(session: list[tuple[str, str]]) -> str:
    """Draw a terminal session as SVG.

    Args:
        session: commands with what they printed.
    """
    console = _console()
    for number, (command, printed) in enumerate(session):
        console.print(Text.assemble("" if not number else "\n", ("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(printed.rstrip("\n")))
    return _exported(console, "A terminal session with kbhub: search, answer and memory")


def draw_agent(session: list[tuple[Turn, str]]) -> str:
    """Draw the tool calls of a coding agent as SVG.

    Args:
        session: turns with the results of their calls.
    """
    console = _console()
    for number, (turn, result) in enumerate(session):
        given = ", ".join(f"{name}={value!r}" for name, value in turn.arguments.items()).replace("'", '"')
        console.print(Text.assemble("" if not number else "\n", ("> ", "bold blue"), (turn.prompt, "bold")))
        console.print(Text.assemble(("● ", "green"), ("kbhub ", "magenta"), (turn.tool, "bold"), f"({given})"))
        lines = result.splitlines()
        for line in lines[: turn.shown]:
            console.print(Padding(Text(line), (0, 0, 0, 2)))
        if len(lines) > turn.shown:
            console.print(Padding(Text(f"… {len(lines) - turn.shown} more lines", "yellow"), (0, 0, 0, 2)))
    return _exported(console, "A coding agent calls the tools of kbhub: search, remember, and search again")


def _console() -> Console:
    return Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")


def _exported(console: Console, title: str) -> str:
    """Give a picture in rich's frame without the web fonts that it would fetch.

    Args:
        console: what was printed.
        title: what the picture shows, for those who cannot see it.
    """
    frame = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    frame = frame.replace("Fira Code, monospace", FONT)
    frame = re.sub(r"<!-- .*? -->", f"<title>{title}</title>", frame)
    return console.export_svg(title="kbhub", theme=THEME, code_format=frame, unique_id="kbhub")


def main() -> None:
    """Write the pictures, or that of a folder."""
    if source := sys.argv[1:]:
        with tempfile.TemporaryDirectory() as name:
            session = call(Path(name).resolve(), DOCUMENTATION_TURNS, Path(source[0]).resolve())
        DOCUMENTATION_PICTURE.write_text(draw_agent(session) + "\n", "utf-8")
        sys.stdout.write(f"{DOCUMENTATION_PICTURE}\n")
        return
    with tempfile.TemporaryDirectory() as name:
        PICTURE.write_text(draw(run(Path(name).resolve())) + "\n", "utf-8")
    with tempfile.TemporaryDirectory() as name:
        AGENT_PICTURE.write_text(draw_agent(call(Path(name).resolve())) + "\n", "utf-8")
    sys.stdout.write(f"{PICTURE}\n{AGENT_PICTURE}\n")


if __name__ == "__main__":
    main()
