"""Arguments, folders, machine: what every benchmark begins and ends with."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tarfile
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
"""Where the kbhub of this checkout lies; child processes run it whether or not it is installed."""


def parser(description: str | None) -> argparse.ArgumentParser:
    """Begin the arguments of a script, whose docstring is its help."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def environment(folder: Path, home: Path | None = None) -> dict[str, str]:
    """Give the variables of a user of their own: nothing of the real user's settings, cache or data."""
    inherited = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG", "TMPDIR") if name in os.environ}
    return {
        **inherited,
        "HOME": str(home or folder / "home"),
        "KBHUB_CACHE_DIR": str(folder / "cache"),
        "KBHUB_DATA_DIR": str(folder / "data"),
        "PYTHONPATH": inherited.get("PYTHONPATH") or str(SOURCE),
    }


def unpack(vault: Path, folder: Path) -> Path:
    """Give the folder of a vault; an archive is unpacked below `folder`, once."""
    if vault.is_dir():
        return vault.resolve()
    target = folder / "vaults" / vault.name.split(".")[0]
    if not target.exists():
        partial = target.with_name(f"{target.name}.partial")
        with tarfile.open(vault) as archive:
            archive.extractall(partial, filter="data")
        partial.rename(target)
    return target


def machine() -> dict[str, str]:
    """Say what was measured on; no host name, no path."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    memory = ""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"
    return {
        "cores": str(os.cpu_count()),
        "processor": " ".join(part for part in (platform.machine(), model) if part),
        "memory": memory,
        "system": platform.system(),
        "python": platform.python_version(),
    }


def load() -> float:
    """Give the load of the machine over the last minute, 0 where the system does not say."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def report_step(text: str) -> None:
    """Say on standard error what is being done."""
    print(f"  {text}", file=sys.stderr, flush=True)


def read_json(path: Path) -> dict:
    """Give what a JSON file holds, nothing if it is not there."""
    return json.loads(path.read_text("utf-8")) if path.exists() else {}
