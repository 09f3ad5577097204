"""What is published, from empty homes: every way to install kbhub, and a newcomer's first hour without a network."""

import json
import os
import re
import shlex
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from mcp import Client, StdioServerParameters

import formula
from kbhub import __version__
from node_packages import node_path, node_program
from test_tutorial import Reader, followed
from wheels import ROOT, UV, made, skip_without_index

TEAM = ROOT / "examples" / "team"
QUESTION = "how do we roll back a release"
PIP_SETTINGS = Path.home() / ".config" / "pip" / "pip.conf"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform == "win32", reason="written for a POSIX shell"),
    pytest.mark.skipif(UV is None, reason="uv builds and installs the wheel, and there is none"),
]


@pytest.fixture
def home(tmp_path):
    """An empty home, with the package managers' caches of the user who runs this."""
    cache = made(UV, "cache", "dir").stdout.strip()
    folder = tmp_path / "home"
    folder.mkdir()
    # pip refuses a wheel without a hash if a constraint has one.
    versions = re.sub(r" \\\n    --hash=\S+", "", (ROOT / "constraints.txt").read_text("utf-8"))
    (tmp_path / "versions.txt").write_text(versions, "utf-8")
    bin_folders = [folder / ".local" / "bin", Path(UV).parent, Path("/usr/local/bin"), Path("/usr/bin"), Path("/bin")]
    return {
        "HOME": str(folder), "PATH": os.pathsep.join(map(str, bin_folders)), "UV_CACHE_DIR": cache,
        "UV_PYTHON": sys.executable, "UV_FIND_LINKS": "",
        "PIP_CONFIG_FILE": str(PIP_SETTINGS) if PIP_SETTINGS.is_file() else os.devnull,
        "PIP_CACHE_DIR": made(sys.executable, "-m", "pip", "cache", "dir").stdout.strip(),
        "PIP_CONSTRAINT": str(tmp_path / "versions.txt"), "UV_CONSTRAINT": str(ROOT / "constraints.txt"),
        "NO_COLOR": "1",
    }  # fmt: skip


def run(home, *command, folder=ROOT):
    """Run a command as that user, and give what it prints."""
    done = made(*command, env=home, folder=folder)
    skip_without_index(done)
    assert done.returncode == 0, f"{shlex.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def answers(home, *kbhub):
    """Say whether this kbhub is of this version, and finds the page on rolling back."""
    assert run(home, *kbhub, "--version").split()[-1] == __version__
    return "rollback.md" in run(home, *kbhub, "search", "--root", TEAM, QUESTION)


@pytest.fixture
def venv(home, tmp_path):
    """A new environment without any package."""
    run(home, sys.executable, "-m", "venv", tmp_path / "env")
    return tmp_path / "env/bin"


def test_uvx_runs_the_wheel_and_registers_itself(wheel, home):
    assert answers(home, UV, "tool", "run", "--from", wheel, "kbhub")
    run(home, UV, "tool", "run", "--from", wheel, "kbhub", "setup", "--yes", "--client", "cursor")
    entry = json.loads((Path(home["HOME"]) / ".cursor/mcp.json").read_text("utf-8"))["mcpServers"]["kbhub"]
    assert Path(entry["command"]).name in ("uvx", "uv")
    assert entry["args"][-3:] == ["kbhub", "serve", "--connect"]


@pytest.mark.parametrize("extra", ["", "[pdf]"])
def test_uv_installs_the_wheel_as_a_tool(wheel, home, extra):
    run(home, UV, "tool", "install", f"kbhub{extra} @ {wheel.as_uri()}")
    assert answers(home, "kbhub")
    run(home, UV, "tool", "uninstall", "kbhub")
    assert not (Path(home["HOME"]) / ".local/bin/kbhub").exists()


def test_pip_installs_the_wheel(wheel, home, venv):
    run(home, venv / "pip", "install", "-q", wheel)
    assert answers(home, venv / "kbhub")


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git repository, as in a source archive")
def test_a_git_address_can_be_installed(home, venv):
    address = f"git+file://{ROOT}"
    run(home, UV, "tool", "install", address)
    run(home, venv / "pip", "install", "-q", address)
    assert answers(home, "kbhub")
    assert answers(home, venv / "kbhub")


@pytest.fixture
def source(wheel, tmp_path):
    """The folder in the source archive of the release."""
    (archive,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    return tmp_path / archive.name.removesuffix(".tar.gz")


def commands(page):
    return re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)


def test_the_readmes_first_command_answers(source, home):
    del home["PIP_CONSTRAINT"]
    answer = run(home, "sh", "-ec", commands(source / "README.md")[0], folder=source)
    assert "rollback.md" in answer


def test_wheels_for_a_machine_without_a_network_suffice(source, home, venv):
    del home["PIP_CONSTRAINT"]
    path = os.pathsep.join([str(venv), home["PATH"]])
    fetch, install = commands(source / "docs/how-to/offline.md")[:2]
    run(home | {"PATH": path}, "sh", "-ec", fetch, folder=source)
    run(home, "sh", "-ec", install.replace("kbhub setup", "kbhub --version"), folder=source)
    assert answers(home, Path(home["HOME"]) / ".kbhub-venv/bin/kbhub")


def test_the_images_commands_install_kbhub(source, home, venv, tmp_path):
    copied, target = tmp_path / "src", tmp_path / "kbhub"
    path = os.pathsep.join([str(venv), home["PATH"]])
    stage, _, _ = (source / "Dockerfile").read_text("utf-8").partition("\nFROM python:3.13-slim\n")
    for line in stage.splitlines():
        name, _, rest = line.partition(" ")
        if name == "COPY":
            *files, place = rest.split()
            for file in files:
                to = copied / place / (file if place.endswith("/") else "")
                to.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if (source / file).is_dir() else shutil.copy)(source / file, to)
        if name == "RUN":
            run(home | {"PATH": path}, "sh", "-ec", rest.replace("/opt/kbhub", str(target)), folder=copied)

    assert answers(home, target / "bin/kbhub")
    assert not list(target.glob("bin/pip*"))


def test_the_formulas_commands_install_the_release(wheel, source, home, tmp_path):
    """What Homebrew would run, in its order, with the files of the release; the program that it links to works."""
    (archive,) = wheel.parent.glob("*.tar.gz")
    text = formula.formula(archive, "ada/kbhub")
    places = {"libexec": tmp_path / "libexec", f'"python{formula.PYTHON}"': sys.executable}

    def word(part):
        for name, path in places.items():
            if part == name:
                return str(path)
        base, _, rest = part.partition("/")
        return f"{places[base]}/{json.loads(rest)}" if base in places else json.loads(part)

    del home["PIP_CONSTRAINT"]  # Homebrew sets none, and its versions have to suffice
    lines = [line.strip().removeprefix("system ") for line in text.splitlines() if line.strip().startswith("system ")]
    assert len(lines) == 3
    for number, line in enumerate(lines):
        run(home, *map(word, line.split(", ")), folder=wheel.parent)
        if number == 0:
            shutil.copy(source / "requirements.txt", places["libexec"])

    assert answers(home, tmp_path / "libexec/bin/kbhub")


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_bundle_brings_kbhub_by_uv(wheel, home, tmp_path, anyio_backend):
    bundle = tmp_path / "bundle"
    shutil.copytree(ROOT / "plugins" / "bundle", bundle)
    launch = json.loads((bundle / "manifest.json").read_text("utf-8"))["server"]["mcp_config"]
    filled = {"${__dirname}": str(bundle), "${user_config.notes}": str(TEAM / "knowledge")}
    line = [re.sub(r"\$\{.*?\}", lambda match: filled[match[0]], part) for part in launch["args"]]
    env = {**os.environ, **home, "UV_FIND_LINKS": str(wheel.parent)}
    del env["UV_CONSTRAINT"]
    run(env, UV, "sync", "-q", "--directory", bundle)
    async with Client(StdioServerParameters(command=UV, args=line, env=env, cwd=tmp_path)) as client:
        found = await client.call_tool("search", {"query": QUESTION})
    assert "rollback.md" in found.content[0].text


@pytest.mark.skipif(node_program("mcpb") is None, reason="no mcpb: `python tests/node_packages.py` gets it")
def test_the_release_makes_what_the_stores_take(wheel, home, tmp_path):
    steps = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))["jobs"]["build"]["steps"]
    (script,) = [step["run"] for step in steps if "formula.py" in step.get("run", "")]
    for name in ("plugins", "scripts"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "dist").symlink_to(wheel.parent)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    programs = Path(home["HOME"]) / ".local/bin"
    programs.mkdir(parents=True)
    called = re.search(r"npx --yes @anthropic-ai/mcpb@[\d.]+ ", script)
    (programs / "npx").write_text(f'#!/bin/sh\nshift 2\nexec {shlex.join(node_program("mcpb"))} "$@"\n', "utf-8")
    (programs / "npx").chmod(0o755)
    path = os.pathsep.join([str(programs), node_path(), home["PATH"]])
    run({**home, "PATH": path, "GITHUB_REPOSITORY": "ada/kbhub"}, "bash", "-euc", script, folder=tmp_path)
    stores = tmp_path / "stores"
    archives = ["darwin.kbhub.tar.gz", "linux.kbhub.tar.gz", "win32.kbhub.tar.gz"]

    assert called
    assert sorted(file.name for file in stores.iterdir()) == sorted([*archives, "kbhub.mcpb", "kbhub.rb"])
    assert "ada/kbhub" in (stores / "kbhub.rb").read_text("utf-8")
    assert "manifest.json" in zipfile.ZipFile(stores / "kbhub.mcpb").namelist()
    for name in archives:
        with tarfile.open(stores / name) as opened:
            assert "./gemini-extension.json" in opened.getnames()


CUT_OFF = ["unshare", "-rn"]
"""Starts a program without any network, not even this machine's own."""

NO_PROXY_ANSWERS = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A new environment with nothing but the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("environment")
    done = made(UV, "venv", "-q", "--python", sys.executable, folder)
    assert done.returncode == 0, done.stderr
    options = ("-q", "--compile-bytecode", "-p", folder / "bin" / "python", "-c", "constraints.txt")
    done = made(UV, "pip", "install", *options, wheel)
    skip_without_index(done)
    assert done.returncode == 0, done.stderr
    return folder / "bin" / "kbhub"


@pytest.fixture
def reader(installed, tmp_path):
    """Somebody with an empty home whose `kbhub` is the installed one and has no network."""
    probe = (*CUT_OFF, sys.executable, "-c", "import socket; socket.create_connection(('127.0.0.1', 9))")
    may = shutil.which(CUT_OFF[0]) and "Network is unreachable" in made(*probe).stderr  # not on every system
    cut_off = f"{' '.join(CUT_OFF)} " if may else ""
    made_reader = Reader(tmp_path, f'{cut_off}"{installed}"')
    made_reader.env |= NO_PROXY_ANSWERS
    return made_reader


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    version = wheel.name.split("-")[1]
    assert {name.split("/")[0] for name in names} == {"kbhub", f"kbhub-{version}.dist-info"}
    schemas = {f"kbhub/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("schemas/**/*.json")}
    assert {"kbhub/py.typed", "kbhub/setup/skill/SKILL.md", *schemas} <= set(names)
    assert schemas
    assert any(name.startswith("kbhub/models/packaged/") for name in names)
    assert [name for name in names if name.endswith((".pyc", ".orig")) or "test" in name] == []


def test_the_tutorial_works(reader):
    for step, code, printed in followed(reader):
        assert code == 0, f"$ {step.text}\n{printed}"
