"""A newcomer's first hour with what is published: the wheel in a new environment, an empty home, and no network."""

import shutil
import socket
import sys
import zipfile

import pytest
from mcp import Client, StdioServerParameters

from test_tutorial import Reader, followed
from wheels import UV, made, skip_without_index

CUT_OFF = ["unshare", "-rn"]
"""Starts a program without any network, not even this machine's own."""

NO_PROXY_ANSWERS = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform == "win32", reason="written for a POSIX shell"),
    pytest.mark.skipif(UV is None, reason="uv builds and installs the wheel, and there is none"),
]


def can_be_cut_off():
    return shutil.which(CUT_OFF[0]) is not None and made(*CUT_OFF, "true").returncode == 0


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
    cut_off = f"{' '.join(CUT_OFF)} " if can_be_cut_off() else ""
    made_reader = Reader(tmp_path, f'{cut_off}"{installed}"')
    made_reader.env |= NO_PROXY_ANSWERS
    return made_reader


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    version = wheel.name.split("-")[1]

    assert {name.split("/")[0] for name in names} == {"kbhub", f"kbhub-{version}.dist-info"}
    assert {"kbhub/py.typed", "kbhub/setup/skill/SKILL.md"} <= set(names)
    assert any(name.startswith("kbhub/models/packaged/") for name in names)
    assert [name for name in names if name.endswith((".pyc", ".orig")) or "test" in name] == []


def test_the_network_is_cut(installed):
    """What runs so reaches nobody, so that what succeeds needs nobody."""
    if not can_be_cut_off():
        pytest.skip("this system does not let a user take the network away from a program")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        script = f"import socket; socket.create_connection(('127.0.0.1', {listening.getsockname()[1]}), 5)"
        python = installed.parent / "python"

        assert made(python, "-c", script).returncode == 0
        assert "OSError" in made(*CUT_OFF, python, "-c", script).stderr


def test_the_tutorial_works(reader):
    for step, code, printed in followed(reader):
        assert code == 0, f"$ {step.text}\n{printed}"


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_agent_is_served(reader, mode, anyio_backend):
    project = reader.home / "shop"
    (project / "knowledge").mkdir(parents=True)
    (project / ".git").mkdir()
    (project / "knowledge" / "rollback.md").write_text("# Rollback\n\nRedeploy the tag before.\n", "utf-8")
    server = StdioServerParameters(
        command=str(reader.home.parent / "bin" / "kbhub"), args=["serve"], env=reader.env, cwd=project
    )
    async with Client(server, mode=mode) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        found = await client.call_tool("search", {"query": "roll back"})

    assert "search" in tools
    assert "rollback.md" in found.content[0].text
