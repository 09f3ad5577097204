"""The wire of kbhub's server, judged by the protocol's official conformance suite, and what that suite is given."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, MCPError

from conformance.fixture_tools import TOOLS
from conformance.server import FixtureServer
from conftest import ran
from kbhub.hooks.sessions import let_speak
from kbhub.workspace.tool_names import CORE
from node_packages import node_path, node_program

TESTS = Path(__file__).parents[1]
SUITE = node_program("conformance")
TRIES = 3
"""The suite waits half a second to one and a half for notifications, which a busy machine misses; a defect stays."""

CHECKS = {"2025-11-25": 81, "2026-07-28": 152}
"""Revision of the protocol → checks that passed when the suite was taken up. Fewer would mean that some are skipped."""

ADVICE = {"server-sse-priming-event", "server-sse-retry-field"}
"""What the suite recommends, and kbhub does not do: it keeps no events for clients that lost a stream within a call.
Its calls take less than a second, a client asks again, and the revision of 2026 has no such streams any more."""


@pytest.fixture
def project(environment):
    """A project with a document."""
    environment.write("knowledge/deploy.md", "# Deploying\n\nA canary first.\n")
    return environment


@pytest.fixture
def url(project):
    """The address of the server with the fixtures."""
    env = {**project.env, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])}
    line, pipes = [sys.executable, "-m", "conformance.server"], {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    process = subprocess.Popen(line, cwd=project.project, env=env, **pipes, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


SKILLS = {"sep-2640-skills-directory": 7, "sep-2640-skills-enumeration": 32, "sep-2640-skills-manifest": 4}
"""Scenario of the skills extension → checks that passed."""

SKILLS_ADVICE = {"sep-2640-skillmd-metadata-name", "sep-2640-skillmd-metadata-description"}
"""Name and description in the list of resources: that has each document once, by its address in its base; `skills/list`
says what a skill is called."""


def judged(url, options, folder, advice=ADVICE):
    """Run the suite, and give what it found wrong, what it found right, and all that it said."""
    line, env = [*SUITE, "server", "--url", url, *options, "-o", folder], {**os.environ, "PATH": node_path()}
    done = ran(*line, env=env, stdin=subprocess.DEVNULL)
    checks = [check for file in folder.rglob("checks.json") for check in json.loads(file.read_text("utf-8"))]
    wrong = [
        f"{check['status']} {check['id']}: {check.get('errorMessage')}"
        for check in checks
        if check["status"] == "FAILURE" or (check["status"] == "WARNING" and check["id"] not in advice)
    ]
    passed = re.search(r"^(?:Total|Passed): (\d+)(?: passed|/)", done.out, re.MULTILINE)
    return wrong, int(passed[1]) if passed else 0, done


@pytest.mark.slow
@pytest.mark.timeout(300)  # a busy machine takes five times as long
@pytest.mark.skipif(SUITE is None, reason="no conformance suite: `python tests/node_packages.py` gets it")
@pytest.mark.parametrize("revision", CHECKS)
def test_the_official_suite_finds_nothing_wrong(url, tmp_path, revision):
    for attempt in range(TRIES):
        options = ["--suite", "all", "--spec-version", revision]
        wrong, passed, done = judged(url, options, tmp_path / str(attempt))
        if not wrong:
            break

    assert wrong == [], done.out
    assert (done.code, passed >= CHECKS[revision]) == (0, True), done.out[-3000:] + done.err


@pytest.fixture
def skilled(project):
    """The project has a skill, and may speak."""
    project.write(
        "knowledge/deploy/SKILL.md", "---\nname: deploy\ndescription: How to deploy.\n---\n\nA canary first.\n"
    )
    project.write("knowledge/deploy/references/canary.md", "# Canaries\n")
    let_speak(project.hub())
    return project


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(SUITE is None, reason="no conformance suite: `python tests/node_packages.py` gets it")
@pytest.mark.parametrize("scenario", SKILLS)
def test_the_official_suite_finds_nothing_wrong_with_skills(skilled, url, tmp_path, scenario):
    wrong, passed, done = judged(url, ["--scenario", scenario], tmp_path, SKILLS_ADVICE)

    assert wrong == [], done.out
    assert passed >= SKILLS[scenario], done.out[-3000:] + done.err


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_fixtures_are_beside_what_kbhub_has(project, mode, anyio_backend):
    server = FixtureServer(project.hub(), project.home / ".kbhub.json")
    async with Client(server, mode=mode) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
        own = await client.read_resource("kbhub://project/deploy.md")
        fixture = await client.read_resource("test://static-text")
        with pytest.raises(MCPError, match=r"test://none"):
            await client.read_resource("test://none")
        failed = await client.call_tool("test_error_handling", {})
        wrong = await client.call_tool("test_simple_text", {"x": 1})

    assert tools[: len(CORE)] == list(CORE)
    assert set(TOOLS) <= set(tools)
    assert {"search_first", "test_simple_prompt"} <= prompts
    assert own.contents[0].text.startswith("# Deploying")
    assert fixture.contents[0].text == "This is the content of the static text resource."
    assert "intentionally" in failed.content[0].text
    assert wrong.content[0].text.startswith("unknown parameter 'x'")
