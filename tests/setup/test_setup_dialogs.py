"""`kbhub setup` tells what to paste where a client keeps its servers in a settings dialog."""

import json

from setup_machine import CURSOR
from trees import snapshot


def entry(account) -> dict:
    command, *args = account.wanted()
    return {"mcpServers": {"kbhub": {"command": command, "args": args}}}


def test_the_entry_is_printed_with_its_place_and_nothing_is_written(account):
    before = snapshot(account.home)
    code, out, _ = account.run("--client", "jetbrains-ai")

    assert code == 0
    assert out.split("\n")[0].split(maxsplit=1) == ["paste", "JetBrains AI Assistant"]
    assert "in Settings | Tools | AI Assistant | Model Context Protocol (MCP), Add:" in out
    assert json.loads(out[out.index("\n{") : out.rindex("\n}") + 2]) == entry(account)
    assert account.run("--client", "jetbrains-ai", "--remove")[:2] == (
        0,
        "delete  JetBrains AI Assistant\n"
        "    in Settings | Tools | AI Assistant | Model Context Protocol (MCP), the server `kbhub`\n",
    )
    assert snapshot(account.home) == before


def test_clients_with_files_are_registered_beside_it_and_it_is_not_looked_for(account):
    """Nothing shows whether it is installed, so who did not name it is not told."""
    file = account.file(".cursor/mcp.json", CURSOR)
    assert json.loads(account.run("--dry-run", "--json")[1])["pastes"] == []
    code, out, _ = account.run("--yes", "--json", "--client", "jetbrains-ai", "--client", "cursor")
    report = json.loads(out)

    assert (code, [step["subject"] for step in report["steps"]]) == (0, ["cursor"])
    assert [json.loads(paste["entry"]) for paste in report["pastes"]] == [entry(account)]
    assert b"kbhub" in file.read_bytes()
