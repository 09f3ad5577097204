"""A newcomer who follows the tutorial sees what it shows.

In `docs/tutorial.md` a block ```` ```console ```` holds commands, on lines that begin with `$ `, each followed by what
it prints: `…` in a line stands for any text, a line of `…` alone for any lines. A block with `title="~/…"` is a file
that the reader writes. What differs from run to run is compared by kind: docids, ids of memories, sizes, ages,
versions, and scores by the verdict that they mean.

`python tests/test_tutorial.py` prints the page with the output that the commands have now, to copy from;
`python tests/test_tutorial.py /path/to/kbhub` follows it with an installed kbhub.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\S+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HOME_SHOWN = "/home/you"
WIDTH = "100"
"""Columns of the terminal that the page shows."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the page is written for a POSIX shell")


class Command(NamedTuple):
    """One command of the page, and what the page says it prints."""

    text: str
    shown: str


class File(NamedTuple):
    """A file that the reader writes."""

    path: str
    text: str


def steps() -> list[Command | File]:
    """Give what the reader of the page does, in order."""
    found: list[Command | File] = []
    for language, title, body in BLOCK.findall(PAGE.read_text("utf-8")):
        if title:
            found.append(File(title, body))
        elif language == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                found.append(Command(command, shown))
    return found


class Reader:
    """Somebody with an empty home who follows a page, command by command in one shell."""

    def __init__(self, folder: Path, command: str = "") -> None:
        self.home, self.state, launcher = folder / "home", folder / "state", folder / "bin/kbhub"
        self.home.mkdir()
        self.directory = str(self.home)
        launcher.parent.mkdir()
        launcher.write_text(f'#!/bin/sh\nexec {command or f"{sys.executable} -m kbhub"} "$@"\n', "utf-8")
        launcher.chmod(0o755)
        self.env = {
            "HOME": str(self.home), "PATH": f"{launcher.parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": WIDTH,
            "LANG": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1", **({} if command else {"PYTHONPATH": str(ROOT / "src")}),
        }  # fmt: skip

    def write(self, file: File) -> None:
        path = Path(file.path.replace("~", str(self.home), 1))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, "utf-8")

    def run(self, command: str) -> tuple[int, str]:
        """Run a command; give its exit code and all that it prints, with the home of the page."""
        script = f"{command}\ncode=$?\nprintf '%s\\n%s' \"$code\" \"$PWD\" > '{self.state}'"
        done = subprocess.run(
            ["sh", "-c", script], cwd=self.directory, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=60, check=True,
        )  # fmt: skip
        code, _, self.directory = self.state.read_text("utf-8").partition("\n")
        text = done.stdout.decode().replace(str(self.home.resolve()), HOME_SHOWN).replace(str(self.home), HOME_SHOWN)
        return int(code), "\n".join(line.rstrip() for line in text.splitlines())


def verdict_of(score: re.Match[str]) -> str:
    """Give what a score means, as `kbhub.search.judge` has it; digits differ between processors."""
    value = float(score[0])
    return "STRONG" if value >= 0.7 else "NONE" if value < 0.2 else "WEAK"


KINDS = {
    r"#[0-9a-f]{6,}\b": "#DOCID", r"-[0-9a-z]{8}\.md\b": "-ID.md", r"\[[0-9a-z]{8}\]": "[ID]",
    r"^\d\.\d\d(?=  )|(?<=score )\d\.\d\d": verdict_of, r"\d+\.\d [KM]iB": "SIZE",
    r"\b(?:just now|\d+ \w+ ago)\b *": "AGE ", r"\b\d+\.\d+\.\d+\b": "VERSION",
}  # fmt: skip


def comparable(text: str) -> str:
    """Put a kind in place of what differs from run to run."""
    for what, kind in KINDS.items():
        text = re.sub(what, kind, text, flags=re.MULTILINE)
    return text


def pattern(shown: str) -> re.Pattern[str]:
    """Give what the page shows as a pattern of what may be printed."""
    lines = []
    for line in comparable(shown.rstrip("\n")).split("\n"):
        if line == "…":
            lines.append(r"(?:.*\n)*?")
        else:
            lines.append(".*".join(re.escape(part) for part in line.rstrip().split("…")) + r"\n")
    return re.compile("".join(lines))


def followed(reader: Reader) -> Iterator[tuple[Command, int, str]]:
    """Do what the page says; gives each command with its exit code and what it printed."""
    for step in steps():
        if isinstance(step, File):
            reader.write(step)
        else:
            yield step, *reader.run(step.text)


def follow(reader: Reader) -> None:
    """Do what the page says, and compare what is printed with what it shows."""
    for step, code, printed in followed(reader):
        assert code == 0, f"$ {step.text}\n{printed}"
        matches = pattern(step.shown).fullmatch(f"{comparable(printed)}\n")
        assert matches, f"$ {step.text}\n--- printed:\n{printed}\n--- the page shows:\n{step.shown}"


@pytest.mark.slow
@pytest.mark.timeout(600)  # twenty processes, each of which imports and loads a model, on a machine that may be busy
def test_the_tutorial_does_what_it_shows(tmp_path):
    follow(Reader(tmp_path))


def test_the_tutorial_names_what_a_newcomer_needs_and_an_elision_stands_for_some_text_and_nothing_else_does():
    text = "\n".join(step.text for step in steps() if isinstance(step, Command))
    basics = ("init", "search", "ask", "remember", "recall", "base add", "base trust")
    needed = (*basics, "setup --dry-run", "status", "doctor")
    assert [name for name in needed if f"kbhub {name}" not in text] == []
    shown = "one …\n…\nlast\n"
    assert pattern(shown).fullmatch("one two\nthree\nfour\nlast\n")
    assert pattern(shown).fullmatch("one two\nlast\n")
    assert not pattern(shown).fullmatch("won two\nlast\n")
    assert not pattern(shown).fullmatch("one two\nlast\nmore\n")
    assert not pattern("0.90  a.md\n").fullmatch(comparable("0.30  a.md\n"))


def print_page(reader: Reader) -> None:
    for step, code, printed in followed(reader):
        sys.stdout.write(f"$ {step.text}\n{printed}\n{f'[exit code {code}]' if code else ''}\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        if sys.argv[1:]:
            follow(Reader(Path(name).resolve(), f'"{os.path.abspath(sys.argv[1])}"'))  # noqa: PTH100 - a link may be meant
        else:
            print_page(Reader(Path(name).resolve()))
