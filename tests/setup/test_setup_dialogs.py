"""`kbhub setup` tells what to paste where a client keeps its servers in a settings dialog."""

import json

from kbhub.setup.clients import Machine
from kbhub.setup.plan import launch, this_installation
from setup_machine import CURSOR
from trees import snapshot


def wanted(account) -> dict:
    machine = Machine(account.home, account.env, "linux")
    command, *args = [*launch(this_installation(), machine).argv, "serve", "--connect"]
    return {"mcpServers": {"kbhub": {"command": command, "args": args}}}


def test_the_entry_is_printed_with_its_place_and_nothing_is_written(account):
    before = snapshot(account.home)
    code, out, _ = account.run("--client", "jetbrains-ai")

    assert code == 0
    assert out.split("\n")[0].split(maxsplit=1) == ["paste", "JetBrains AI Assistant"]
    assert "in Settings | Tools | AI Assistant | Model Context Protocol (MCP), Add:" in out
    assert json.loads(out[out.index("\n{") : out.rindex("\n}") + 2]) == wanted(account)
    assert snapshot(account.home) == before


def test_removing_tells_where_to_delete_it(account):
    code, out, _ = account.run("--client", "jetbrains-ai", "--remove")
    assert code == 0
    assert out == (
        "delete  JetBrains AI Assistant\n"
        "    in Settings | Tools | AI Assistant | Model Context Protocol (MCP), the server `kbhub`\n"
    )


def test_clients_with_files_are_registered_beside_it(account):
    file = account.file(".cursor/mcp.json", CURSOR)
    code, out, _ = account.run("--yes", "--json", "--client", "jetbrains-ai", "--client", "cursor")
    report = json.loads(out)

    assert code == 0
    assert [step["subject"] for step in report["steps"]] == ["cursor"]
    assert [(paste["subject"], json.loads(paste["entry"])) for paste in report["pastes"]] == [
        ("jetbrains-ai", wanted(account))
    ]
    assert b"kbhub" in file.read_bytes()


def test_it_is_not_looked_for(account):
    """Nothing shows whether it is installed, so who did not name it is not told."""
    account.file(".cursor/mcp.json", CURSOR)
    assert json.loads(account.run("--dry-run", "--json")[1])["pastes"] == []
