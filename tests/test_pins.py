"""Whatever kbhub is installed with is pinned by version and hash, for every system, in files that agree."""

import os
import re
import shutil
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from wheels import UV, made, skip_without_index

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
GROUPS = PROJECT["dependency-groups"]
FILES = ("constraints.txt", "requirements.txt", ".ci/uv.txt")


def pins(name, folder=ROOT):
    """Give package → (requirement, hashes), for each line; a package may have one version per Python."""
    found = {}
    text = (folder / name).read_text("utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            requirement, *hashes = line.split(" --hash=")
            one = Requirement(requirement.strip())
            found.setdefault(one.name, []).append((str(one), {each.strip() for each in hashes}))
    return found


def named(lines):
    return [Requirement(line) for line in lines if isinstance(line, str)]


def missing(requirements, pinned):
    def holds(one):
        versions = [
            next(iter(Requirement(pin).specifier)).version for pin, _ in pinned.get(canonicalize_name(one.name), [])
        ]
        return any(one.specifier.contains(version, prereleases=True) for version in versions)

    return [str(one) for one in requirements if not holds(one)]


@pytest.mark.parametrize("name", FILES)
def test_every_package_has_one_version_and_hashes_and_the_files_agree(name):
    every = pins("constraints.txt")
    for package, versions in pins(name).items():
        hashes = {pin.partition(";")[0]: found for pin, found in every[package]}
        for pin, found in versions:
            assert re.fullmatch(r"[a-z0-9-]+==[\w.]+(; .+)?", pin)
            assert found
            assert all(re.fullmatch("sha256:[0-9a-f]{64}", one) for one in found)
            assert hashes[pin.partition(";")[0]] == found


def test_the_pins_are_those_of_the_project_and_requirements_are_complete():
    required = named([*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]])
    extras = [line for lines in PROJECT["project"]["optional-dependencies"].values() for line in lines]
    groups = [line for lines in GROUPS.values() for line in lines]
    assert missing(required, pins("requirements.txt")) == []
    assert missing([*required, *named(extras), *named(groups)], pins("constraints.txt")) == []
    assert missing(named(GROUPS["uv"]), pins(".ci/uv.txt")) == []
    assert [str(one) for one in named(PROJECT["project"]["dependencies"]) if "<" not in str(one.specifier)] == []
    assert GROUPS["build"] == PROJECT["build-system"]["requires"]

    # Whatever kbhub needs here, directly or not, is in the file, or pip would refuse to install it.
    pinned, waiting, seen = pins("requirements.txt"), named(PROJECT["project"]["dependencies"]), set()
    while waiting:
        one = waiting.pop()
        applies = one.marker is None or one.marker.evaluate({"extra": ""})
        if not applies or (one.name, *one.extras) in seen:
            continue
        seen.add((one.name, *one.extras))
        assert missing([one], pinned) == []
        for each in named(requires(one.name) or []):
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *one.extras)):
                waiting.append(Requirement(str(each).partition(";")[0]))

    assert len(seen) > 50


def forged(package, folder):
    """Write the constraints with wrong hashes of one package."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith(f"{package}=="))
    end = next(number for number in range(start + 1, len(lines)) if not lines[number].startswith("    --hash="))
    lines[start + 1 : end] = [re.sub("sha256:[0-9a-f]{8}", "sha256:" + 8 * "0", one) for one in lines[start + 1 : end]]
    (folder / "forged.txt").write_text("\n".join(lines), "utf-8")
    return folder / "forged.txt"


@pytest.mark.slow
@pytest.mark.skipif(UV is None, reason="no uv")
@pytest.mark.parametrize("package", ["mdurl", "trove-classifiers"])
def test_uv_refuses_another_file_than_the_pinned_one(tmp_path, package):
    made(UV, "venv", "-q", "--python", sys.executable, tmp_path / "env")
    file = forged(package, tmp_path)
    done = made(UV, "pip", "install", "-q", "--reinstall", "-p", tmp_path / "env", "-e", ".", "-c", file, "-b", file)
    skip_without_index(done)
    assert done.returncode != 0
    assert f"Hash mismatch for `{package}" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(UV is None, reason="no uv")
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize(
    "system",
    [
        *("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "x86_64-apple-darwin", "aarch64-apple-darwin"),
        *("x86_64-pc-windows-msvc", "aarch64-pc-windows-msvc"),
    ],
)
def test_every_supported_system_has_wheels(system, python):
    if (system, python) == ("aarch64-pc-windows-msvc", "3.11"):
        pytest.skip("not supported")
    target = ("--python-platform", system, "--python-version", python, "--only-binary", ":all:")
    done = made(UV, "pip", "compile", "-q", *target, "requirements.txt", "-o", os.devnull)
    skip_without_index(done)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(UV is None, reason="no uv")
def test_the_script_writes_the_files_again(tmp_path):
    for name in ("pyproject.toml", "README.md", "scripts/pins.py", *FILES):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in FILES[1:]:
        (tmp_path / name).unlink()
    done = made(sys.executable, tmp_path / "scripts/pins.py", env={"UV_FIND_LINKS": str(tmp_path)}, folder=tmp_path)
    skip_without_index(done)

    assert done.returncode == 0, done.stderr
    for name in FILES:
        before, after = pins(name), pins(name, tmp_path)
        assert before.keys() == after.keys()
        for key, versions in before.items():
            for old, new in zip(versions, after[key], strict=True):
                assert old[0] == new[0]
                assert old[1] <= new[1]
