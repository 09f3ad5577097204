"""The wire of kbhub's server, judged by the protocol's official conformance suite and by the MCP Inspector.

The latter is another implementation of the protocol, over stdio, strict about schemas.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

from conftest import ran
from daemons import SOURCE, endpoint
from kbhub.hooks.sessions import let_speak
from kbhub.workspace.tool_names import ALL
from node_packages import node_path, node_program

SUITE = node_program("conformance")
TRIES = 3
"""The suite waits half a second to one and a half for notifications, which a busy machine misses; a defect stays."""

SCENARIOS = {
    "2025-11-25": (
        *("server-initialize", "server-session-lifecycle", "ping", "completion-complete", "tools-list"),
        *("tools-call-error", "server-sse-multiple-streams", "resources-list", "prompts-list"),
        "dns-rebinding-protection",
    ),
    "2026-07-28": (
        *("server-stateless", "completion-complete", "tools-list", "tools-call-error", "server-sse-multiple-streams"),
        *("resources-list", "sep-2164-resource-not-found", "prompts-list", "dns-rebinding-protection", "caching"),
        *("http-header-validation", "input-required-result-unsupported-methods"),
    ),
}
"""Revision of the protocol → scenarios about what kbhub has. Others call tools, prompts and resources of the suite's
own, which a server has only for its sake: they judge the SDK."""

CHECKS = {"2025-11-25": 23, "2026-07-28": 69}
"""Revision → checks that passed when the suite was taken up. Fewer would mean that some are skipped."""

ELSEWHERE = {
    "sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400",
    "sep-2575-server-sends-prompts-list-changed-on-subscription",
    "sep-2575-server-sends-tools-list-changed-on-subscription",
}  # fmt: skip
"""Checks of those scenarios that call tools of the suite's own, too."""

SKILLS = {"sep-2640-skills-directory": 7, "sep-2640-skills-enumeration": 32, "sep-2640-skills-manifest": 4}
"""Scenario of the skills extension → checks that passed."""

SKILLS_ADVICE = {"sep-2640-skillmd-metadata-name", "sep-2640-skillmd-metadata-description"}
"""Name and description in the list of resources: that has each document once, by its address in its base; `skills/list`
says what a skill is called."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # a busy machine takes five times as long
judging = pytest.mark.skipif(SUITE is None, reason="no conformance suite: `python tests/node_packages.py` gets it")


def judged(environment, folder, scenarios, unasked, *options):
    """Run the suite; give what it found wrong in scenarios, how many checks passed, and all that it said."""
    with endpoint(environment, None) as port:
        line = [*SUITE, "server", "--url", f"http://127.0.0.1:{port}/mcp", *options, "-o", folder]
        done = ran(*line, env={**os.environ, "PATH": node_path()}, stdin=subprocess.DEVNULL)
    files = [file for name in scenarios for file in folder.glob(f"server-{name}-2*/checks.json")]
    checks = [check for file in files for check in json.loads(file.read_text("utf-8")) if check["id"] not in unasked]
    wrong = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
    return wrong, sum(check["status"] == "SUCCESS" for check in checks), done


@judging
@pytest.mark.parametrize("revision", SCENARIOS)
def test_the_official_suite_finds_nothing_wrong(environment, tmp_path, revision):
    environment.write("knowledge/deploy.md", "# Deploying\n\nA canary first.\n")
    for attempt in range(TRIES):
        options = ("--suite", "all", "--spec-version", revision)
        wrong, passed, done = judged(environment, tmp_path / str(attempt), SCENARIOS[revision], ELSEWHERE, *options)
        if not wrong:
            break
    assert wrong == [], done.out
    assert passed >= CHECKS[revision], done.out[-3000:] + done.err


@judging
@pytest.mark.parametrize("scenario", SKILLS)
def test_the_official_suite_finds_nothing_wrong_with_skills(environment, tmp_path, scenario):
    skill = "---\nname: deploy\ndescription: How to deploy.\n---\n\nA canary first.\n"
    environment.write("knowledge/deploy/SKILL.md", skill)
    environment.write("knowledge/deploy/references/canary.md", "# Canaries\n")
    let_speak(environment.hub())
    wrong, passed, done = judged(environment, tmp_path / "out", [scenario], SKILLS_ADVICE, "--scenario", scenario)
    assert wrong == [], done.out
    assert passed >= SKILLS[scenario], done.out[-3000:] + done.err


OWN = os.environ.get("MCP_INSPECTOR") or shutil.which("mcp-inspector")
INSPECTOR = [OWN] if OWN else node_program("mcp-inspector")
CONNECT_MS = "60000"
"""What a server may take to start and answer; its own limit of 15 s is missed on a machine with ten other loads."""


@pytest.mark.skipif(not INSPECTOR, reason="no MCP Inspector: `python tests/node_packages.py` gets it")
def test_every_tool_is_portable(environment, tmp_path):
    environment.write("knowledge/deploy.md", "# Deploying\n\nA canary first.\n")
    environment.configure(tools="all")
    environment.hub().sync()
    wrapper = tmp_path / "serve.py"
    # The Inspector gives a server its own working directory and few variables.
    wrapper.write_text(
        f"import os, sys\nos.chdir({str(environment.project)!r})\nos.environ.update({environment.env!r})\n"
        f"sys.path.insert(0, {SOURCE!r})\nsys.argv = ['kbhub', 'serve']\nfrom kbhub.__main__ import main\nmain()\n"
    )
    command = [*INSPECTOR, "--cli", sys.executable, str(wrapper), "-q", "--connect-timeout", CONNECT_MS]
    env = {"MCP_CATALOG_PATH": str(tmp_path / "catalog.json"), "HOME": str(environment.home)}
    path = os.environ["PATH"] if OWN else node_path()
    done = ran(*command, "--method", "tools/list", "--strict", env={**os.environ, **env, "PATH": path})

    assert (done.code, done.err.strip()) == (0, "")
    assert [tool["name"] for tool in done.json["tools"]] == list(ALL)
