"""Time a newcomer's first steps: `python benchmarks/first_steps.py [--wheel FILE] [--document FILE] [--json FILE]`.

In an empty home, with a new virtual environment: `pip install` of the wheel, the first answer, a registered client, the
first hook that says something, and the first document that is no Markdown. The project has one document at first, so
that what is timed is kbhub and not a collection. Nothing is timed twice: every step is somebody's first.

pip takes packages from its cache, as far as they are there; `--no-cache` has it download them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]

NOTE = "# Refunds\n\n## How refunds are booked\n\nRefunds are booked in the ledger of the day on which the bank confirms them.\n"
QUESTION = "when are refunds booked in the ledger"
OTHER = "Chargebacks\n\nA chargeback is disputed within seven days, with the delivery note of the carrier.\n"
OTHER_QUESTION = "how long may a chargeback be disputed"

SECONDS = 600
"""What one step may take."""


class Walk:
    """Somebody with an empty home, and what each step of theirs took."""

    def __init__(self, folder: Path, *, cached: bool) -> None:
        self.home, self.project, self.environment = folder / "home", folder / "home" / "shop", folder / "env"
        self.project.mkdir(parents=True)
        caches = subprocess.run(
            [sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=False
        ).stdout.strip()
        kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        settings = Path.home() / ".config" / "pip" / "pip.conf"
        self.env = {
            **({"PIP_CONFIG_FILE": str(settings)} if settings.is_file() else {}),
            **kept,
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(self.environment / "bin"), os.environ["PATH"]]),
            **({"PIP_CACHE_DIR": caches} if cached and caches else {"PIP_NO_CACHE_DIR": "1"}),
        }
        self.steps: list[tuple[str, float]] = []

    def step(self, name: str, *command: str | Path, said: str = "", typed: str = "") -> str:
        """Run a command, note what it took, and give what it printed.

        Raises:
            SystemExit: it failed, or did not print what it should.
        """
        begun = time.perf_counter()
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.project,
            env=self.env,
            input=typed,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        took = time.perf_counter() - begun
        if done.returncode or said not in done.stdout:
            sys.exit(f"{name}: {' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        self.steps.append((name, took))
        print(f"{took:8.2f} s  {name}", flush=True)
        return done.stdout


def built(folder: Path) -> Path:
    """Build the wheel as a release does."""
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if uv is None:
        sys.exit("There is no uv to build the wheel with; name one with --wheel.")
    subprocess.run([uv, "build", "-q", "--out-dir", str(folder)], cwd=ROOT, check=True)
    return next(folder.glob("*.whl"))


def prompt(walk: Walk) -> str:
    """What a client sends when a person asks about refunds."""
    return json.dumps(
        {
            "session_id": "first",
            "transcript_path": "",
            "cwd": str(walk.project),
            "hook_event_name": "UserPromptSubmit",
            "prompt": "On which day are refunds booked in the ledger?",
        }
    )


def walk(folder: Path, wheel: Path, document: Path | None, question: str, *, cached: bool) -> Walk:
    """Go all steps."""
    one = Walk(folder, cached=cached)
    one.step("python -m venv", sys.executable, "-m", "venv", one.environment)
    one.step("pip install of the wheel", one.environment / "bin" / "pip", "install", "-q", wheel)
    kbhub = one.environment / "bin" / "kbhub"
    subprocess.run(["git", "init", "-q", str(one.project)], check=True)
    one.step("kbhub init", kbhub, "init")
    (one.project / "knowledge" / "refunds.md").write_text(NOTE, "utf-8")
    one.step("first search", kbhub, "search", QUESTION, said="refunds.md")
    one.step("first answer", kbhub, "ask", QUESTION, said="the bank confirms them")
    one.step("kbhub setup of a client, with hooks", kbhub, "setup", "--yes", "--hooks", "--client", "claude-code")
    one.step("kbhub base trust --documents", kbhub, "trust", "--documents")
    hook = (kbhub, "hook", "prompt", "--client", "claude-code")
    for tries in range(1, 11):  # the first event finds no daemon, starts it, and may stay silent
        if "the bank confirms them" in one.step(f"hook, event {tries}", *hook, typed=prompt(one)):
            break
    else:
        sys.exit("No hook said anything.")
    one.step("kbhub admin stop", kbhub, "stop")
    if document is None:
        document = folder / "chargebacks.txt"
        document.write_text(OTHER, "utf-8")
        (one.home / ".kbhub.json").write_text(
            json.dumps({"bases": {"more": {"knowledge": "~/more", "include": ["**/*.txt"]}}, "repos": {"*": ["more"]}}),
            "utf-8",
        )
        (one.home / "more").mkdir()
        target = one.home / "more" / document.name
    else:
        target = one.project / "knowledge" / document.name
    shutil.copy(document, target)
    one.step(f"first search in a {document.suffix} file", kbhub, "search", question, said=document.name)
    return one


def main() -> None:
    """Parse the arguments, walk, and print the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, help="the wheel; built from this checkout if none is named")
    parser.add_argument("--document", type=Path, help="the document that is no Markdown; a .txt file if none is named")
    parser.add_argument("--question", default=OTHER_QUESTION, help="what that document answers")
    parser.add_argument("--no-cache", action="store_true", help="have pip download every package")
    parser.add_argument("--json", type=Path, help="also write the seconds into this file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        wheel = (given.wheel or built(folder / "dist")).resolve()
        done = walk(folder, wheel, given.document, given.question, cached=not given.no_cache)
    print(f"{sum(took for _, took in done.steps):8.2f} s  all; {platform.system()}, Python {platform.python_version()}")
    if given.json:
        given.json.write_text(json.dumps(dict(done.steps), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
