"""Pin everything that kbhub is installed with, by version and hash, from what `pyproject.toml` allows.

    python scripts/pins.py                          # after a change of pyproject.toml; what still fits stays
    python scripts/pins.py --upgrade                # the newest version of everything
    python scripts/pins.py --upgrade-package mcp    # the newest version of one package

Options go to `uv pip compile`, which reads versions and hashes from the package index. The files are valid on every
system and Python that kbhub supports.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent

FILES = {
    # With uv, `-c` and `-b` verify the hashes of what is installed and of what builds it.
    "constraints.txt": ("--all-extras", "--group=build", "--group=uv", "--group=dev", "--group=docs"),
    # pip does not verify `-c` for a folder, so this has just what kbhub needs, to install with `-r`.
    "requirements.txt": ("--group=build", "--constraints=constraints.txt"),
    ".ci/uv.txt": ("--constraints=constraints.txt",),
}
"""File → what goes into it; the first decides the versions of all."""

OPTIONS = ("--universal", "--generate-hashes", "--no-annotate", "--quiet")

LOCAL_FILES = ("UV_FIND_LINKS", "UV_EXTRA_INDEX_URL", "UV_INDEX", "UV_CONSTRAINT", "UV_OVERRIDE", "UV_EXCLUDE_NEWER")
"""Variables that would bring hashes of files that nobody else has, or other versions."""


def main(options: list[str]) -> int:
    """Write the files.

    Args:
        options: for `uv pip compile`.
    """
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if uv is None:
        sys.stderr.write("There is no uv. Install it with `pip install -r .ci/uv.txt`.\n")
        return 1
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    python = project["requires-python"].removeprefix(">=")
    env = {name: value for name, value in os.environ.items() if name not in LOCAL_FILES}
    for number, (name, chosen) in enumerate(FILES.items()):
        source = ("--group=pyproject.toml:uv",) if name == ".ci/uv.txt" else ("pyproject.toml",)
        command = [
            *(uv, "pip", "compile", *source, *chosen, *OPTIONS),
            *("--python-version", python, "--custom-compile-command", "python scripts/pins.py", "--output-file", name),
            *(options if number == 0 else ["--upgrade"]),  # the constraints decide
        ]
        if code := subprocess.run(command, cwd=ROOT, env=env, check=False).returncode:  # noqa: S603 - uv
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
