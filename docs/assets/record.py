"""Record the terminal session that the README shows: `python docs/assets/record.py` writes `session.svg` beside it.

Runs the real command line in a terminal, with an empty home, in a copy of `examples/team`, and draws what it prints
with rich. The picture names no address, so nothing is fetched when it is shown. `tests/test_docs_site.py` compares its
text with that of a new run; ids and scores differ between runs and machines, and are left out there.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
PICTURE = Path(__file__).with_name("session.svg")

COMMANDS = (
    'kbhub search "how do we roll back a release" -n 1',
    'kbhub ask "who gets paged for a SEV1"',
    'kbhub search "who pays for the coffee machine" --min-score 0.13',
    'kbhub remember --tag deploy "The staging database is reset every night at two."',
    'kbhub search "when is staging reset" -n 1',
)
"""What is typed."""

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
    home, project = folder / "home", folder / "team"
    home.mkdir()
    shutil.copytree(ROOT / "examples" / "team", project)
    env = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "COLUMNS": str(COLUMNS),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }
    return [(command, _printed(command, project, env)) for command in COMMANDS]


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
    """Draw a session as SVG.

    Args:
        session: commands with what they printed.
    """
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for number, (command, printed) in enumerate(session):
        console.print(Text.assemble("" if not number else "\n", ("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(printed.rstrip("\n")))
    return console.export_svg(title="kbhub", theme=THEME, code_format=_format(), unique_id="kbhub")


def _format() -> str:
    """Give rich's frame without the web fonts that it would fetch."""
    without = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    without = without.replace("Fira Code, monospace", FONT)
    return re.sub(r"<!-- .*? -->", "<title>A terminal session with kbhub: search, answer and memory</title>", without)


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as name:
        PICTURE.write_text(draw(run(Path(name).resolve())) + "\n", "utf-8")
    sys.stdout.write(f"{PICTURE}\n")


if __name__ == "__main__":
    main()
