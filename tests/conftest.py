"""What several test modules share: a project of a user with an empty home."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import hypothesis
import pytest

import faults
from kbhub.__main__ import main
from kbhub.hub import Hub
from kbhub.options import HubOptions

HOUR_NS = 3_600_000_000_000

# A busy machine makes an example late, never wrong.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


@dataclass(frozen=True)
class Environment:
    """An empty home, and a project in it that is a git repository without commits."""

    home: Path
    project: Path
    env: dict[str, str]

    def write(self, path: str, text: str | bytes) -> Path:
        """Write a file, below the project unless the path is absolute; it is an hour old, so its time is trusted."""
        file = self.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        hour_ago = file.stat().st_mtime_ns - HOUR_NS
        os.utime(file, ns=(hour_ago, hour_ago))
        return file

    def hub(self, **changes) -> Hub:
        """Open a hub for the project."""
        options = {"cwd": self.project, "home": self.home, "env": self.env, **changes}
        return Hub(HubOptions(**options))


@pytest.fixture
def environment(tmp_path) -> Environment:
    """A user with an empty home and an empty project."""
    return make_environment(tmp_path)


def make_environment(folder: Path) -> Environment:
    """Make a user with an empty home and an empty project in a folder."""
    real = folder.resolve()
    home, project = real / "home", real / "work" / "shop"
    home.mkdir()
    project.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    env = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "KBHUB_CACHE_DIR": str(real / "cache"),
        "KBHUB_DATA_DIR": str(real / "data"),
    }
    return Environment(home, project, env)


class Outcome(NamedTuple):
    """What a command ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        """Its results as data."""
        return json.loads(self.out)


@pytest.fixture
def kbhub(environment, monkeypatch, capsys):
    """Runs a command in this process, in the project, as a user with an empty home."""
    for name in [name for name in os.environ if name.startswith("KBHUB_") or name in ("NO_COLOR", "FORCE_COLOR")]:
        monkeypatch.delenv(name)
    for name, value in {**environment.env, "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(environment.project)

    def run(*arguments: str) -> Outcome:
        code = main(list(arguments))
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def children():
    """What starts processes that are to suffer faults."""
    made = faults.Children()
    yield made
    made.stop()
