"""`kbhub setup --hooks` registers hooks beside those of the user, and takes them out again."""

import json
import re

import pytest

from kbhub.hooks.events import CLIENT_EVENTS
from kbhub.setup.instructions import HOOKED
from kbhub.workspace.jsonc import parse_jsonc
from setup_machine import CLAUDE, CODEX, without_blanks

CLIENTS = [hooked.client for hooked in HOOKED]
FILES = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "copilot-cli": ".copilot/hooks/kbhub.json",
    "gemini-cli": ".gemini/settings.json",
}
PROGRAMS = {"claude-code": "claude", "codex": "codex", "copilot-cli": "copilot", "gemini-cli": "gemini"}

THEIRS = {
    "empty": "{}\n",
    "hooks of theirs": """\
{
  "hooks": {
    "UserPromptSubmit": [
      { "hooks": [ { "type": "command", "command": "~/bin/mine.sh" } ] } // mine
    ],
    "Stop": []
  }
}
""",
    "settings": '{"model": "opus",\t"env": {"A": "b"},\r\n "permissions": {"allow": ["Bash(ls)"]}}',
    "comments": '// before\n{\n  /* in */\n  "theme": "dark", // after\n}\n// end\n',
    "byte order mark": '\ufeff{\n\t"theme": "dark"\n}',
    "no hooks yet": '{\n  "hooks": {}\n}\n',
}


def install(account, client):
    """Put a client on the machine, as far as `setup` looks; give its file of hooks."""
    account.program(PROGRAMS[client])
    return account.home / FILES[client]


def commands(file):
    """Give our commands by the client's name of the event."""
    found = {}
    for event, entries in parse_jsonc(file.read_text("utf-8-sig"), str(file)).get("hooks", {}).items():
        for entry in entries:
            for hook in [entry, *entry.get("hooks", [])]:
                command = hook.get("command") or hook.get("bash") or ""
                if " hook " in command:
                    found[event] = command
    return found


@pytest.mark.parametrize(
    ("client", "before"),
    [*(("claude-code", one) for one in THEIRS), *((one, "hooks of theirs") for one in CLIENTS if one != "claude-code")],
)
def test_hooks_stand_beside_theirs_and_go_again(account, client, before):
    file = install(account, client)
    account.file(FILES[client], THEIRS[before])

    code, _, _ = account.run("--client", client, "--hooks", "--yes")

    assert code == 0
    assert set(commands(file)) == set(CLIENT_EVENTS[client].values())
    text = file.read_text("utf-8")
    for part in re.findall(r"//.*|/\*.*?\*/|mine\.sh|\"dark\"|\ufeff|Bash\(ls\)", THEIRS[before]):
        assert part in text
    code, _, _ = account.run("--client", client, "--remove", "--yes")
    assert code == 0
    after = file.read_text("utf-8-sig") if file.exists() else ""
    left, theirs = (parse_jsonc(text.removeprefix("\ufeff") or "{}", "x") for text in (after, THEIRS[before]))
    left.pop("version", None)
    theirs.pop("version", None)
    assert without_blanks(left) == without_blanks(theirs)
    if without_blanks(theirs):  # to the byte, but for what else kbhub or the client wrote
        rest = r'"(?:version|mcpServers)": (?:1|{})'
        assert re.sub(rf",\s*{rest}|\n\s*{rest},", "", file.read_bytes().decode()) == THEIRS[before]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_second_time_changes_nothing_and_another_installation_takes_the_place_of_the_old_one(account, client):
    file = install(account, client)
    account.run("--client", client, "--hooks", "--yes")
    text = file.read_text()
    code, out, _ = account.run("--client", client, "--hooks", "--yes")
    assert (code, file.read_text()) == (0, text)
    assert "unchanged" in out

    command = next(iter(commands(file).values())).partition(" hook ")[0]
    file.write_text(text.replace(json.dumps(command)[1:-1], "/opt/old/kbhub"))
    assert "/opt/old/kbhub hook" in file.read_text()
    account.run("--client", client, "--hooks", "--yes")
    assert file.read_text() == text


@pytest.mark.parametrize("client", CLIENTS)
def test_what_the_user_added_meanwhile_stays(account, client):
    file = install(account, client)
    account.file(FILES[client], '{\n  "theme": "dark"\n}\n')
    account.run("--client", client, "--hooks", "--yes")
    file.write_text(file.read_text().replace('"theme": "dark"', '"theme": "light", "mine": 1'))

    account.run("--client", client, "--remove", "--yes")

    assert without_blanks(parse_jsonc(file.read_text(), "x")) == {"theme": "light", "mine": 1} | (
        {"version": 1} if client == "copilot-cli" else {}
    )


@pytest.mark.parametrize(
    ("client", "content"),
    [
        *(("claude-code", one) for one in ('{"hooks": [', "[]", '{"a": 1, "a": 2}', b'{"\xff": 1}')),
        *((client, '{"hooks": 7}') for client in CLIENTS),
    ],
)
def test_a_malformed_file_is_named_and_not_touched(account, client, content):
    file = install(account, client)
    account.file(FILES[client], content)
    code, out, _ = account.run("--client", client, "--hooks", "--yes")
    assert code == 1
    assert FILES[client].rpartition("/")[2] in out
    assert client == "gemini-cli" or account.untouched()
    assert not file.read_bytes().count(b" hook ")


def test_hooks_are_asked_for_where_a_person_sets_up(account):
    file = install(account, "codex")
    account.run("--client", "codex", typed="n\nn\ny\n")
    assert not file.exists()
    account.run("--client", "codex", "--remove", "--yes")

    _, out, err = account.run("--client", "codex", typed="y\nn\ny\n")

    assert "Register hooks, too" in err
    assert commands(file)
    assert "kbhub base trust --documents" in out + err
    assert "`/hooks`" in out
    account.file(".cursor/mcp.json", "{}")
    assert "Register hooks" not in account.run("--client", "cursor", typed="y\n")[2]  # it has none


@pytest.mark.parametrize("arguments", [("--yes",), ("--no-hooks", "--yes"), ("--dry-run",), ("--hooks", "--dry-run")])
def test_without_a_word_for_it_there_are_no_hooks(account, arguments):
    file = install(account, "claude-code")
    account.run("--client", "claude-code", *arguments)
    assert not file.exists()


def test_removing_leaves_no_hook_of_a_client_that_is_gone(account):
    file = install(account, "codex")
    account.file(".codex/config.toml", CODEX)
    account.run("--client", "codex", "--hooks", "--yes")
    account.run("--client", "codex", "--no-hooks", "--remove", "--yes")
    assert commands(file)  # only the server was to go
    (account.bin / "codex").unlink()
    account.run("--remove", "--yes", "--client", "codex")

    assert not commands(file)


@pytest.mark.parametrize("other", ["claude-code", "cursor", "jetbrains-ai"])
def test_removing_one_client_keeps_the_hooks_of_the_others(account, other):
    file = install(account, "codex")
    account.run("--client", "codex", "--hooks", "--yes")
    before = file.read_bytes()
    account.run("--client", other, "--remove", "--yes")
    assert file.read_bytes() == before


def test_status_and_hooks_name_the_clients_that_run_them(account, kbhub):
    install(account, "claude-code")
    account.file(".claude.json", CLAUDE)
    account.run("--client", "claude-code", "--hooks", "--yes")
    assert kbhub("admin", "hooks", "--json", code=0).json["clients"] == ["Claude Code"]
    out = kbhub("admin", "hooks", code=0).out
    assert "Claude Code" in out
    assert "`kbhub base trust --documents`" in out


@pytest.mark.parametrize(
    ("settings", "clients"),
    [
        ({"enabledPlugins": {"kbhub@kbhub": True}}, ["Claude Code (plugin)"]),
        ({"enabledPlugins": {"kbhub@a-fork": True}, "hooks": []}, ["Claude Code (plugin)"]),
        ({"enabledPlugins": {"kbhub@kbhub": False, "kbhub-tools@kbhub": True}}, []),
        ({"enabledPlugins": ["kbhub@kbhub"]}, []),
        ({"extraKnownMarketplaces": {"kbhub": {}}}, []),
    ],
    ids=["enabled", "of a fork", "disabled", "malformed", "marketplace alone"],
)
def test_hooks_name_the_plugin_of_claude_code(account, kbhub, settings, clients):
    """As `claude plugin install`, `disable` and `uninstall` leave its settings."""
    account.file(FILES["claude-code"], json.dumps(settings))
    assert kbhub("admin", "hooks", "--json", code=0).json["clients"] == clients


INSTALLED = {"version": 2, "plugins": {"kbhub@kbhub": [{"scope": "project"}]}}


@pytest.mark.parametrize(
    ("user", "project", "local", "clients"),
    [
        ({}, {"kbhub@kbhub": True}, {}, ["Claude Code (plugin)"]),
        ({}, {}, {"kbhub@kbhub": True}, ["Claude Code (plugin)"]),
        ({"kbhub@kbhub": True}, {"kbhub@kbhub": False}, {}, []),
        ({}, {"kbhub@kbhub": True}, {"kbhub@kbhub": False}, []),
        ({"kbhub@kbhub": True}, {"other@kbhub": True}, {}, ["Claude Code (plugin)"]),
    ],
    ids=["project", "local", "disabled here", "disabled by me", "another"],
)
def test_hooks_name_the_plugin_of_this_project(account, kbhub, environment, user, project, local, clients):
    """As `claude plugin install --scope project` and `--scope local` leave the settings; the nearest counts."""
    account.file(FILES["claude-code"], json.dumps({"enabledPlugins": user}))
    account.file(".claude/plugins/installed_plugins.json", json.dumps(INSTALLED))
    environment.write(".claude/settings.json", json.dumps({"enabledPlugins": project}))
    environment.write(".claude/settings.local.json", json.dumps({"enabledPlugins": local}))
    environment.write("src/pay.py", "")

    for arguments in ((), ("--root", str(environment.project / "src"))):
        assert kbhub("admin", "hooks", "--json", *arguments, code=0).json["clients"] == clients


@pytest.mark.parametrize("installed", [None, {}, {"plugins": []}, {"plugins": {"other@kbhub": []}}])
def test_a_clone_that_names_the_plugin_has_no_hooks_until_it_is_installed(account, kbhub, environment, installed):
    """Its settings only propose the plugin, which Claude Code installs if the user says so."""
    environment.write(".claude/settings.json", json.dumps({"enabledPlugins": {"kbhub@kbhub": True}}))
    if installed is not None:
        account.file(".claude/plugins/installed_plugins.json", json.dumps(installed))
    assert kbhub("admin", "hooks", "--json", code=0).json["clients"] == []


def test_hooks_that_run_twice_are_told(account, kbhub):
    install(account, "claude-code")
    account.file(FILES["claude-code"], json.dumps({"enabledPlugins": {"kbhub@kbhub": True}}))
    account.file(".claude.json", CLAUDE)
    assert "twice" not in kbhub("admin", "hooks", code=0).out

    account.run("--client", "claude-code", "--hooks", "--yes")

    out = kbhub("admin", "hooks", code=0).out
    assert "Claude Code, Claude Code (plugin)\n" in out
    assert "twice      Claude Code runs every hook twice" in out
    account.run("--client", "claude-code", "--remove", "--yes")
    assert "twice" not in kbhub("admin", "hooks", code=0).out


@pytest.mark.parametrize("client", CLIENTS)
def test_a_path_with_spaces_survives_the_shell(account, client, monkeypatch):
    file = install(account, client)
    monkeypatch.setattr(
        "kbhub.cli.commands.setup.launch", lambda *_: type("L", (), {"argv": ["/opt/my apps/kb'hub"], "note": ""})
    )
    account.run("--client", client, "--hooks", "--yes")
    assert all(command.startswith("'/opt/my apps/kb'\"'\"'hub' hook ") for command in commands(file).values())
