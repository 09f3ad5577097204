"""Where things are measured: a user of their own with bases of several sizes, kept between runs in one folder."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from bench.common import environment, report_step, unpack
from bench.data import Corpus, make_bases, read_corpus
from kbhub.api import Hub
from kbhub.hub import HubOptions

MAX_FILES = 20_000_000
"""Setting `limits.files` here; a base of 10,000,000 chunks has 4.5 million."""


@dataclass
class Stand:
    """A work folder, the vaults, and what was made of them."""

    work: Path
    vaults: dict[str, Path]
    """Name → folder."""
    corpus: Corpus
    made: dict[str, Path] = field(default_factory=dict)
    """Base → folder."""

    @property
    def home(self) -> Path:
        return self.work / "home"

    def env(self, cache: str = "") -> dict[str, str]:
        """Give the variables of the user; with a name, of one with a cache of that name."""
        env = environment(self.work)
        return env | ({"KBHUB_CACHE_DIR": str(self.work / "caches" / cache)} if cache else {})

    def add(self, name: str, folder: Path) -> Path:
        """Make a folder a base of that name, active in `project(name)`."""
        self.made[name] = folder
        return self.project(name, name)

    def sized(self, chunks: int) -> str:
        """Make a base of about so many chunks, if need be; gives its name."""
        name = f"n{chunks}"
        folder = self.work / "bases" / name
        make_bases(self.corpus, [folder], chunks)
        self.add(name, folder)
        return name

    def split(self, chunks: int, parts: int) -> list[str]:
        """Make bases that share out a base of so many chunks; gives their names."""
        names = [f"n{chunks}-{part}of{parts}" for part in range(parts)]
        folders = [self.work / "bases" / name for name in names]
        make_bases(self.corpus, folders, chunks)
        for name, folder in zip(names, folders, strict=True):
            self.add(name, folder)
        return names

    def project(self, name: str, *bases: str) -> Path:
        """Make a repository in which some bases are active."""
        folder = self.home / "projects" / name
        (folder / ".git").mkdir(parents=True, exist_ok=True)
        config = self.home / ".kbhub.json"
        known = json.loads(config.read_text("utf-8")) if config.exists() else {"repos": {}}
        known["bases"] = {**known.get("bases", {}), **{one: str(path) for one, path in self.made.items()}}
        known["repos"][str(folder)] = list(bases)
        known["limits"] = {"files": MAX_FILES}
        config.write_text(json.dumps(known, indent=1), "utf-8")
        return folder

    def hub(self, project: Path, cache: str = "") -> Hub:
        """Open a hub in a repository."""
        return Hub(HubOptions(env=self.env(cache), home=self.home, cwd=project))

    def indexed(self, *names: str) -> Hub:
        """Give a hub of some bases whose indexes are in step."""
        hub = self.hub(self.project("-".join(names[:2]), *names))
        for report in hub.sync():
            if report.added:
                report_step(f"indexed {report.base}: {report.chunks:,} chunks in {report.seconds:.0f} s")
        return hub


def open_stand(work: Path, vaults: list[Path]) -> Stand:
    """Unpack and read vaults into a work folder."""
    work.mkdir(parents=True, exist_ok=True)
    # What is asked again and again becomes a memory, which an earlier run must not leave to this one.
    shutil.rmtree(work / "data", ignore_errors=True)
    folders = {vault.name.split(".")[0]: unpack(vault, work) for vault in vaults}
    return Stand(work.resolve(), folders, read_corpus(folders, work / "counts.json"))
