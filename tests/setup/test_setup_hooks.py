"""`kbhub setup --hooks` registers hooks, or a plugin, beside those of the user, and takes them out again."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from conftest import ran
from daemons import until
from kbhub.hooks.events import CLIENT_EVENTS
from kbhub.setup.clients import Machine
from kbhub.setup.instructions import HOOKED, hooked_clients
from kbhub.workspace.config import parse_jsonc
from setup_machine import CLAUDE, CODEX, OPENCODE, without_blanks

CLIENTS = [hooked.client for hooked in HOOKED]
FILES = {
    "claude-code": ".claude/settings.json", "codex": ".codex/hooks.json", "copilot-cli": ".copilot/hooks/kbhub.json",
    "gemini-cli": ".gemini/settings.json",
}  # fmt: skip
PROGRAMS = {"claude-code": "claude", "codex": "codex", "copilot-cli": "copilot", "gemini-cli": "gemini"}

THEIRS = {
    "hooks of theirs": """\
{
  "hooks": {
    "UserPromptSubmit": [
      { "hooks": [ { "type": "command", "command": "~/bin/mine.sh" } ] } // mine
    ],
    "Notification": []
  }
}
""",
    "comments": '// before\n{\n  /* in */\n  "theme": "dark", // after\n}\n// end\n',
    "byte order mark": '\ufeff{\n\t"theme": "dark"\n}',
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
    left, theirs = (parse_jsonc(text, "x") for text in (file.read_text("utf-8-sig"), THEIRS[before].lstrip("\ufeff")))
    assert {**without_blanks(left), "version": 1} == {**without_blanks(theirs), "version": 1}
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
    account.run("--client", client, "--remove", "--yes")
    assert not file.exists()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_malformed_file_is_named_and_not_touched(account, client):
    file = install(account, client)
    account.file(FILES[client], '{"hooks": 7}')
    code, out, _ = account.run("--client", client, "--hooks", "--yes")
    assert code == 1
    assert FILES[client].rpartition("/")[2] in out
    assert client == "gemini-cli" or account.untouched()
    assert not file.read_bytes().count(b" hook ")


@pytest.mark.parametrize("arguments", [("--yes",), ("--no-hooks", "--yes"), ("--dry-run",), ("--hooks", "--dry-run")])
def test_without_a_word_for_it_there_are_no_hooks(account, arguments):
    file = install(account, "claude-code")
    account.run("--client", "claude-code", *arguments)
    assert not file.exists()


def test_a_client_without_hooks_or_subagents_is_named_and_hooks_are_asked_for_where_a_person_sets_up(account):
    account.file(".cursor/mcp.json", "{}")
    code, out, err = account.run("--hooks", "--yes", "--client", "cursor")
    assert (code, "Cursor has no hooks" in out + err, "Hooks deliver" in out + err) == (0, True, False)
    assert "VS Code has no subagents" in "".join(account.run("--subagent", "--yes", "--client", "vscode")[1:])

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


def test_removing_keeps_the_hooks_of_other_clients_and_leaves_none_of_a_client_that_is_gone(account):
    file = install(account, "codex")
    account.file(".codex/config.toml", CODEX)
    account.run("--client", "codex", "--hooks", "--yes")
    before = file.read_bytes()
    for options in (["claude-code"], ["cursor"], ["jetbrains-ai"], ["codex", "--no-hooks"]):  # the last: the server
        account.run("--remove", "--yes", "--client", *options)
        assert file.read_bytes() == before
    (account.bin / "codex").unlink()
    account.run("--remove", "--yes", "--client", "codex")
    assert not file.exists()


@pytest.mark.parametrize("program", ["claude", "code"])
def test_a_project_has_one_hook_for_claude_code_and_copilot_which_runs_it_too(account, program):
    clients = [account.program(name) for name in (program, "copilot")]
    account.run("--project", "--subagent", "--yes")
    found = [(account.project / name).exists() for name in (".claude/settings.json", ".github/hooks/kbhub.json")]
    assert found == [clients[0].name == "claude", clients[0].name == "code"]


def plugins(**enabled):
    return {"enabledPlugins": {f"{name}@kbhub": on for name, on in enabled.items()}}


ON, OFF = plugins(kbhub=True), plugins(kbhub=False)
HERE = {"version": 2, "plugins": {"kbhub@kbhub": [{"scope": "project"}]}}
PLUGINS = {
    "enabled": ([ON], True),
    "of a fork": ([{"enabledPlugins": {"kbhub@a-fork": True}, "hooks": []}], True),
    "disabled": ([{"enabledPlugins": {"kbhub@kbhub": False, "kbhub-tools@kbhub": True}}], False),
    "project": ([{}, HERE, ON], True),
    "disabled here": ([ON, HERE, OFF], False),
    "another": ([ON, HERE, plugins(other=True)], True),
    "proposed by a clone": ([{}, None, ON], False),
    "another is installed": ([{}, {"plugins": {"other@kbhub": []}}, ON], False),
}
"""The user's settings, installed plugins, the project's settings and the local ones → whether the plugin runs."""


@pytest.mark.parametrize("case", PLUGINS)
def test_the_plugin_of_claude_code_is_seen(account, environment, case):
    """As `claude plugin install` with its scopes, `disable` and `uninstall` leave the settings; the nearest counts.

    The settings of a clone only propose the plugin, which Claude Code installs if the user says so.
    """
    contents, runs = PLUGINS[case]
    user, project = account.home / ".claude", environment.project / ".claude"
    places = user / "settings.json", user / "plugins/installed_plugins.json", project / "settings.json"
    for place, content in zip((*places, project / "settings.local.json"), contents, strict=False):
        if content is not None:
            environment.write(place, json.dumps(content))
    found = hooked_clients(Machine(account.home, account.env), environment.project)
    assert found == (("Claude Code (plugin)",) if runs else ())


def test_hooks_that_run_twice_are_told(account, kbhub):
    install(account, "claude-code")
    account.file(FILES["claude-code"], json.dumps({"enabledPlugins": {"kbhub@kbhub": True}}))
    account.file(".claude.json", CLAUDE)
    assert "twice" not in kbhub("admin", "hooks", code=0).out

    account.run("--client", "claude-code", "--hooks", "--yes")

    below = ("--root", str(account.project / ".git"))
    assert kbhub("admin", "hooks", "--json", *below, code=0).json["clients"] == ["Claude Code", "Claude Code (plugin)"]
    out = kbhub("admin", "hooks", code=0).out
    assert "Claude Code, Claude Code (plugin)\n" in out
    assert "`kbhub base trust --documents`" in out
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


NODE = shutil.which("node")
PLUGIN = ".config/opencode/plugins/kbhub.js"

STUB = """\
#!{python}
import json, sys
given = json.load(sys.stdin)
event = sys.argv[2]
open({log!r}, "a").write(json.dumps([event, sys.argv[3:], given]) + "\\n")
if event == "tool" and "broken" in str(given):
    print("no json")
elif event not in ("compact", "session-end"):
    print(json.dumps({{"hookSpecificOutput": {{"additionalContext": "told of " + event}}}}))
"""
DRIVER = Path(__file__).with_name("opencode_driver.js")


def test_it_is_written_and_goes_again(account):
    account.file(".config/opencode/opencode.json", OPENCODE)
    code, _, _ = account.run("--client", "opencode", "--hooks", "--yes")
    file = account.home / PLUGIN

    assert code == 0
    command = re.search(r"^const COMMAND = (.*)$", file.read_text(), re.MULTILINE)
    assert [*json.loads(command[1]), "serve", "--connect"] == account.wanted()
    theirs = file.with_name("theirs.js")
    theirs.write_text("export default {}")
    account.run("--client", "opencode", "--remove", "--yes")
    assert (file.exists(), theirs.exists()) == (False, True)


@pytest.mark.skipif(NODE is None or sys.platform == "win32", reason="needs node and a script to run")
def test_a_session_is_told_what_kbhub_says(account, tmp_path):
    """And is not disturbed where kbhub is gone."""
    account.file(".config/opencode/opencode.json", OPENCODE)
    account.run("--client", "opencode", "--hooks", "--yes")
    stub, log = tmp_path / "stub", tmp_path / "log"
    stub.write_text(STUB.format(python=sys.executable, log=str(log)))
    stub.chmod(0o700)
    plugin = (account.home / PLUGIN).read_text()
    for name, program in (("answering", stub), ("gone", tmp_path / "gone")):
        started = f"const COMMAND = {json.dumps([str(program)])}"
        (tmp_path / f"{name}.js").write_text(re.sub("^const COM.*$", started, plugin, flags=re.MULTILINE))
    shutil.copy(DRIVER, tmp_path / "driver.js")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    done = ran(NODE, "driver.js", cwd=tmp_path)

    assert (done.code, done.err) == (0, "")
    (*messages, read, grep, broken, nothing, last), gone = done.json
    assert gone == [[], [], [], [], "text", "text", "text", None, []]
    part = {"id": "prt_2k", "messageID": "msg_1", "type": "text", "synthetic": True}
    assert messages == [
        [{**part, "sessionID": "a", "text": "told of session-start\ntold of prompt"}],
        [{**part, "sessionID": "a", "text": "told of prompt"}],
        [{**part, "sessionID": "b", "text": "told of subagent-start"}],
        [{**part, "sessionID": "old", "text": "told of session-start\ntold of prompt"}],
    ]
    assert (read, grep, broken, nothing) == ("text\n\ntold of tool", "text", "text", None)
    assert last[0]["text"] == "told of session-start\ntold of prompt"
    until(lambda: '"session-end"' in log.read_text())  # for which nobody waited
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    assert {tuple(words) for _, words, _ in calls} == {("--client", "opencode")}
    assert all(given.keys() >= {"session_id", "cwd"} for _, _, given in calls)
    starts = [(event, given["source"]) for event, _, given in calls if event.endswith("start")]
    assert starts == [("session-start", "startup"), ("subagent-start", "startup"), ("session-start", "resume"),
                      ("session-start", "compact")]  # fmt: skip
    assert [given["prompt"] for event, _, given in calls if event == "prompt"] == ["one", "two", "three", "four"]
    assert [given["session_id"] for event, _, given in calls if event in ("compact", "session-end")] == ["a", "a"]
