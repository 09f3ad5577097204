"""Extensions: a third party's, a broken one, and the core without any."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from mcp import Client
from mcp.server.extension import ToolBinding
from mcp.server.lowlevel.helper_types import ReadResourceContents

import kbhub
from conftest import make_repository, ran
from kbhub.server.client import ServerExtension
from kbhub.server.server import KbhubServer
from kbhub.workspace.extensions import Extension
from wheels import ROOT, UV, made, skip_without_index

CORE = ("answers", "index", "reading", "search")
"""Rooms whose tests use nothing of an extension."""

TALK = """WEBVTT Release talk

1
00:00:01.000 --> 00:00:04.000
Welcome, everybody.

2
00:06:00.000 --> 00:06:05.000
The <i>flux capacitor</i> needs a restart after a release.
"""


@pytest.fixture
def project(tmp_path):
    """A project with a talk, a draft and a finished document."""
    knowledge = tmp_path / "project" / "knowledge"
    knowledge.mkdir(parents=True)
    make_repository(knowledge.parent)
    knowledge.joinpath("talk.vtt").write_text(TALK)
    knowledge.joinpath("plan.md").write_text("---\ntags: [draft]\n---\n# Rollback\n\nWe roll a release back by tag.\n")
    knowledge.joinpath("how.md").write_text("# Rollback\n\nWe roll a release back by its tag.\n")
    return knowledge.parent


COMMANDS = """
import json, sys
from kbhub.__main__ import main
for line in json.loads(sys.argv[1]):
    print("code", main([*line, "--root", "project"]), flush=True)
"""


def commands_in(project, *commands, package, code=COMMANDS):
    """Run command lines, one after the other, in one process with a further package on its path."""
    home, line = project.parent / "home", [sys.executable, "-c", code, json.dumps(commands)]
    home.mkdir(exist_ok=True)
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(package)}
    done = ran(*line, cwd=project.parent, env=env)
    assert done.code == 0, done.err
    return done


def named(folder, name, module="not_there"):
    information = folder / f"{name}-1.0.dist-info"
    information.mkdir(parents=True)
    information.joinpath("entry_points.txt").write_text(f"[kbhub.extensions]\n{name} = {module}:EXTENSION\n")


def test_the_example_adds_a_format_and_a_signal_and_a_broken_extension_is_named_and_stops_nothing(project, tmp_path):
    """One that lies in a repository is none."""
    done = made(UV, "pip", "install", "-q", "--no-deps", "--target", tmp_path / "more", ROOT / "examples" / "extension")
    skip_without_index(done)
    assert done.returncode == 0, done.stderr
    named(tmp_path / "more", "broken")
    named(tmp_path / "more", "half", "half")
    fields = "signals=('nowhere:SIGNAL',), commands={'search': ('nowhere:search', '', 'Finds nothing.')}"
    half = f"from kbhub.workspace.extensions import Extension\nEXTENSION = Extension({fields})\n"
    tmp_path.joinpath("more", "half.py").write_text(half)
    named(project.parent, "cloned")
    talk, back = ("search", "flux capacitor", "--json"), ("search", "roll back a release", "--explain", "--json")
    done = commands_in(project, talk, back, package=tmp_path / "more")
    found, ranked, _ = done.out.split("code 0\n")

    best = json.loads(found)["hits"][0]
    assert (best["path"], best["kind"], best["title"]) == ("talk.vtt", "other", "Release talk")
    assert "## Minute 5" in json.dumps(best)
    hits = {hit["path"]: hit for hit in json.loads(ranked)["hits"]}
    assert list(hits)[:2] == ["how.md", "plan.md"]
    assert hits["plan.md"]["trace"]["factors"] == {"draft": 0.8}
    assert "kbhub: The extension 'not_there:EXTENSION' cannot be loaded: No module named 'not_there'." in done.err
    assert "kbhub: The extension 'nowhere:SIGNAL' cannot be loaded: No module named 'nowhere'." in done.err
    assert "cloned" not in done.err


class Greeting(ServerExtension):
    """A tool, and a resource at an address."""

    identifier = "org.example/greeting"

    def tools(self):
        return [ToolBinding(self.greet)]

    def greet(self, name: str) -> str:
        return f"Hello {name}, from {self.hub.discovery().bases[0].id}."

    async def read(self, uri):
        return [ReadResourceContents("Hello.", "text/plain")] if uri == "greeting://all" else None


@pytest.mark.anyio
async def test_an_extension_adds_a_tool_and_an_address_to_the_server(environment, monkeypatch):
    environment.write("knowledge/how.md", "# Rollback\n")
    added = Extension(server=("test_extensions:Greeting", "nowhere:Extension"))
    monkeypatch.setattr("kbhub.server.server.extensions", lambda: (added,))
    async with Client(KbhubServer(environment.hub())) as client:
        assert "org.example/greeting" in client.server_capabilities.extensions
        assert [tool.name for tool in (await client.list_tools()).tools][-1] == "greet"
        said = await client.call_tool("greet", {"name": "Ann"})
        wrong = await client.call_tool("greet", {"nam": "Ann"})
        read = await client.read_resource("greeting://all")
    assert said.content[0].text == "Hello Ann, from project."
    assert "unknown parameter 'nam'; did you mean 'name'?" in wrong.content[0].text
    assert read.contents[0].text == "Hello."


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """The package without `extensions/`, as a distribution that declares none."""
    folder = tmp_path_factory.mktemp("core")
    source = Path(kbhub.__file__).parent
    shutil.copytree(source, folder / "kbhub", ignore=lambda place, _: ["extensions"] if Path(place) == source else [])
    shutil.copytree(ROOT / "schemas", folder / "kbhub" / "schemas")
    information = folder / f"kbhub-{kbhub.__version__}.dist-info"
    information.mkdir()
    information.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: kbhub\nVersion: {kbhub.__version__}\n")
    return folder


SERVE = """
import anyio
from mcp import Client
from kbhub.api import Hub
from kbhub.hub import HubOptions
from kbhub.server.server import KbhubServer

async def search():
    async with Client(KbhubServer(Hub(HubOptions(root="project")))) as client:
        print("served", client.server_capabilities.extensions)
        print((await client.call_tool("search", {"query": "roll back a release"})).content[0].text)

anyio.run(search)
"""


def test_the_core_searches_and_serves_without_extensions(project, core):
    asked = ("search", "roll back a release"), ("team",), ("ui",)
    done = commands_in(project, *asked, package=core, code=COMMANDS + SERVE)
    printed, _, served = done.out.partition("served ")
    assert "how.md" in printed
    assert printed.endswith("code 0\ncode 2\ncode 2\n")
    assert served.startswith("None\n")
    assert "how.md" in served


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_core_passes_its_tests_without_extensions(core, tmp_path):
    line = [sys.executable, "-m", "pytest", "-n", "auto", "-p", "no:cacheprovider", *(f"tests/{room}" for room in CORE)]
    env = {**os.environ, "PYTHONPATH": str(core), "TMPDIR": str(tmp_path)}
    done = ran(*line, cwd=ROOT, env=env, timeout=800)
    assert done.code == 0, done.out[-3000:]
