"""The source archive and the wheel that a release has, and installations of them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
UV = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
SECONDS = 300
"""What an installation may take; it is some ten where the packages are in uv's cache."""


def made(*command, env=None, folder=ROOT):
    if None in command:
        pytest.skip("there is no uv here (`pip install -r .ci/uv.txt`)")
    base = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        list(map(str, command)), cwd=folder, env=base | (env or {}), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=SECONDS, check=False,
    )  # fmt: skip


def skip_without_index(done):
    """Leave a test out if a command failed for want of a package index."""
    signs = ("Failed to fetch", "Could not find a version", "dns error", "Failed to establish a new connection")
    if done.returncode and any(sign in done.stderr for sign in signs):
        pytest.skip(f"no package index: {done.stderr.strip().splitlines()[-1]}")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel, built out of the source archive as a release is; the archive lies beside it."""
    folder = tmp_path_factory.mktemp("dist")
    done = made(UV, "build", "-q", "--python", sys.executable, "--out-dir", folder)
    skip_without_index(done)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built
