"""`kbhub doctor` starts the server as each registered client would."""

import json
import os
import sys
from pathlib import Path

import pytest

from kbhub.setup.doctor import client_findings
from kbhub.setup.doctor.handshake import shake_hands
from trees import snapshot

SOURCE = str(Path(__file__).parents[2] / "src")
SERVER = [sys.executable, "-m", "kbhub", "serve"]
pytestmark = pytest.mark.skipif(os.name == "nt", reason="its commands are shell scripts")


@pytest.fixture
def user(environment):
    """A user whose search path has nothing on it, and who can start this kbhub."""
    environment.env.update(PATH=str(environment.home / "bin"), PYTHONPATH=SOURCE, PYTHONDONTWRITEBYTECODE="1")
    return environment


def register(user, *argv, client=".cursor", name="kbhub", **more):
    entry = {"command": argv[0], "args": list(argv[1:]), **more}
    return user.write(user.home / client / "mcp.json", json.dumps({"mcpServers": {name: entry}}))


def findings(user):
    return client_findings(user.hub())


def script(user, name, text) -> str:
    file = user.write(user.home / "bin" / name, f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def test_a_server_that_starts_and_answers_is_well_and_nothing_is_changed(user):
    user.write("knowledge/a.md", "# A\n")
    user.write(user.home / "notes" / "b.md", "# B\n")
    user.configure(bases={"n": "~/notes"}, repos={"*": "n"})
    register(user, *SERVER)
    before = snapshot(user.home.parent)
    (finding,) = findings(user)
    assert (finding.level, finding.subject) == ("ok", "Cursor")
    assert finding.message.endswith("serve starts and answers")
    assert snapshot(user.home.parent) == before


@pytest.mark.parametrize("command", ["/gone/kbhub", "kbhub"])
def test_a_command_that_does_not_exist_is_an_error_with_a_remedy_whatever_the_server_is_called(user, command):
    register(user, command, "serve", name="notes")
    (finding,) = findings(user)
    assert (finding.level, finding.subject) == ("error", "Cursor")
    assert f"starts {command}, which does not exist" in finding.message
    assert "kbhub setup --client cursor" in finding.remedy


def test_a_server_that_says_nothing_is_not_waited_for_and_one_switched_off_or_malformed_is_not_started(user):
    mute = script(user, "mute", "while read -r line; do :; done")
    assert shake_hands([mute], {}, user.env, seconds=0.3) == "did not answer within 0.3 s"
    touched = user.home / "touched"
    user.write(user.home / ".lmstudio" / "mcp.json", "{")
    for off in ({"disabled": True}, {"enabled": False}):
        register(user, script(user, "kbhub", f"touch {touched}"), "serve", **off)
        assert [(one.subject, one.level) for one in findings(user)] == [("Cursor", "warning"), ("LM Studio", "warning")]
        assert not touched.exists()
        assert all(one.remedy for one in findings(user))


def test_a_server_is_started_once_for_clients_that_start_it_alike_with_the_variables_of_the_entry(user):
    user.env["WHICH"] = "the user's"
    count = user.home / "count"
    started = script(user, "kbhub", f'echo x >> {count}\necho hello\necho "started with $WHICH" >&2\nexit 1')
    for client in (".cursor", ".lmstudio"):
        register(user, started, "serve", client=client, env={"WHICH": "the entry's"})
    said = "exits immediately: started with the entry's"
    assert [(one.level, said in one.message) for one in findings(user)] == [("error", True)] * 2
    assert count.read_text() == "x\n"


def test_clients_without_the_server_are_named_and_are_no_fault_and_a_projects_registration_is_not_started(user):
    touched = user.home / "touched"
    entry = {"command": script(user, "kbhub", f"touch {touched}"), "args": ["serve"]}
    user.write(".cursor/mcp.json", json.dumps({"mcpServers": {"kbhub": entry}}))
    assert [finding.message for finding in findings(user)] == ["No MCP client was found on this machine."]
    assert not touched.exists()
    (user.home / ".kiro").mkdir()
    (finding,) = findings(user)
    assert (finding.level, finding.message) == ("ok", "Not registered with Kiro; run `kbhub setup` to register it.")
