"""`kbhub setup` registers the server with the clients of a machine, and harms nothing that is theirs."""

import json
import os
import stat
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from kbhub.setup.clients import CLIENTS, Machine
from kbhub.setup.registration import registrations
from kbhub.workspace.config import parse_jsonc
from setup_machine import CURSOR, FILES, UPDATED, ZED, in_common, without_blanks
from trees import snapshot

posix = pytest.mark.skipif(os.name == "nt", reason="its client commands are shell scripts")

MALFORMED = {
    "cursor": '{"mcpServers": {"a": ]}', "codex": "model = \n[x", "goose": "extensions:\n - {\n",
    "zed": '{"a": 1, "a": 2}', "amp": "[]", "claude-code": '{"mcpServers": ["x"]}', "vscode": b'{"\xff\xfe": 1}',
    "opencode": '{"mcp": 1}', "continue": "mcpServers:\n",
}  # fmt: skip


def started(account, name) -> list[str]:
    """What the file of a client starts."""
    found = registrations(Machine(account.home, account.env, "linux"))
    return next(list(one.entry.argv) for one in found if (one.client.name, one.entry.name) == (name, "kbhub"))


def backups(file: Path) -> list[Path]:
    assert list(file.parent.glob("*.bak")) == []
    return sorted((Path(os.environ["KBHUB_DATA_DIR"]) / "setup").glob(f"*/{file.name}.*.bak"))


@pytest.mark.parametrize("name", FILES)
def test_a_clients_file_gets_the_server_and_loses_it_again_and_keeps_every_other_byte(account, name):
    """What is new is one piece in between; without it the file is that of before."""
    path, before = FILES[name]
    file = account.file(path, before)

    code, out, _ = account.run("--yes", "--client", name)

    assert (code, started(account, name)) == (0, account.wanted())
    after, old = file.read_bytes(), before.encode()
    assert in_common(after, old) + in_common(after[::-1], old[::-1]) >= len(old)
    assert _without_ours(after, name, path) == _meaning(old, path)
    assert [copy.read_bytes() for copy in backups(file)] == [old]
    assert "backup  " in out

    code, out, _ = account.run("--client", name)
    assert (code, out.split()[0], file.read_bytes(), len(backups(file))) == (0, "unchanged", after, 1)

    code, out, _ = account.run("--yes", "--remove", "--client", name)
    assert (code, out.split()[0]) == (0, "removed")
    assert file.read_bytes().decode() == before
    assert after in [copy.read_bytes() for copy in backups(file)]


def _meaning(data: bytes, path: str):
    text = data.decode("utf-8-sig")
    if path.endswith(".toml"):
        return tomllib.loads(text)
    return yaml.safe_load(text) if path.endswith(".yaml") else parse_jsonc(text, path)


def _without_ours(data: bytes, name: str, path: str):
    found = _meaning(data, path)
    keys = next(client.keys for client in CLIENTS if client.name == name)
    holder = found
    for key in keys:
        holder = holder[key]
    del holder["kbhub"]
    before = _meaning(FILES[name][1].encode(), path)
    if not holder and keys[0] not in before:
        del found[keys[0]]
    return found


def test_what_somebody_wrote_meanwhile_stays_when_it_is_taken_out(account):
    file = account.file(".cursor/mcp.json", '{"theme": "dark"}\n')
    account.run("--yes", "--client", "cursor")
    mine = file.read_text().replace('"dark"', '"light"')
    file.write_text(mine)
    account.run("--yes", "--remove", "--client", "cursor")
    assert without_blanks(parse_jsonc(file.read_text(), file)) == {"theme": "light"}
    assert mine in [copy.read_text() for copy in backups(file)]


def test_gemini_is_told_about_folders_that_it_does_not_trust(account):
    for more in ((), ("--project",)):
        said = " ".join(account.run("--yes", "--client", "gemini-cli", *more)[1].split())
        assert "In a folder that it does not trust" in said
        assert "does not trust" not in account.run("--yes", "--client", "gemini-cli", "--remove", *more)[1]


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_named_and_not_touched_and_the_others_are_done(account, name):
    file = account.file(FILES[name][0], MALFORMED[name])
    other = "cursor" if name != "cursor" else "zed"
    code, out, _ = account.run("--yes", "--client", name, "--client", other)
    assert code == 1
    assert str(file) in out
    assert out.split()[0] == "failed"
    assert account.untouched()
    assert backups(file) == []
    assert started(account, other) == account.wanted()


@posix
def test_links_are_followed_and_modes_kept(account):
    real = account.file("dotfiles/cursor.json", CURSOR)
    real.chmod(0o640)
    link = account.home / ".cursor" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to(real)
    account.run("--yes", "--client", "cursor")
    assert link.is_symlink()
    assert b"kbhub" in real.read_bytes()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    (copy,) = backups(link)
    assert (copy.read_text(), stat.S_IMODE(copy.stat().st_mode)) == (CURSOR, 0o600)


@pytest.mark.parametrize("name", UPDATED)
def test_another_command_is_updated_and_its_users_options_stay(account, name):
    """An older installation's entry gets the new command; variables, limits and what follows `serve` are the user's."""
    file = account.file(FILES[name][0], UPDATED[name])

    code, out, _ = account.run("--client", name, "--dry-run")
    assert (code, out.split()[0], account.untouched()) == (0, "update", True)
    assert "/opt/old/kbhub serve" in out
    code, out, _ = account.run("--client", name, "--yes")

    text = file.read_text()
    assert (code, out.split()[0]) == (0, "updated")
    assert started(account, name) == [*account.wanted(), "--base", "n=~/n"]
    kept = {"cursor": ["/* k */", '"env": {"A": "b"}'], "codex": ["# old", "startup_timeout_sec = 30", "# end"]}
    assert all(one in text for one in kept.get(name, ["  x:\n    enabled: true\n"]))
    account.run("--client", name, "--yes", "--remove")
    assert not file.exists() or "kbhub" not in file.read_text()  # nor what it was updated from


def test_an_entry_without_the_key_that_keeps_its_tools_in_sight_gets_it(account):
    """Another value is the user's; the command and all else stay as they are."""
    command, *args = account.wanted()
    entry = {"env": {"A": "b"}, "command": command, "args": [*args, "--base", "n=~/n"]}
    path = account.file(".claude.json", json.dumps({"mcpServers": {"kbhub": entry, "x": {}}}))
    code, out, _ = account.run("--client", "claude-code", "--dry-run")
    assert (code, out.split()[0], account.untouched(), "Adds alwaysLoad," in out) == (0, "update", True, True)
    account.run("--client", "claude-code", "--yes")
    assert json.loads(path.read_text()) == {"mcpServers": {"kbhub": {**entry, "alwaysLoad": True}, "x": {}}}
    account.file(".claude.json", json.dumps({"mcpServers": {"kbhub": {**entry, "alwaysLoad": False}}}))
    assert (account.run("--client", "claude-code")[1].split()[0], account.untouched()) == ("unchanged", True)


def test_windows_come_to_share_a_process_unless_it_serves_http_and_get_their_own_again_with_a_word(account):
    command, serve, mode = account.wanted()
    entry = {"command": command, "args": [serve, "--read-only"], "env": {"A": "b"}}
    account.file(".cursor/mcp.json", json.dumps({"mcpServers": {"kbhub": entry}}))

    code, out, _ = account.run("--client", "cursor", "--yes")
    assert (code, started(account, "cursor")) == (0, [command, serve, mode, "--read-only"])
    assert "Windows share one process; `--own-process` gives each its own." in out
    code, out, _ = account.run("--client", "cursor", "--own-process", "--yes")
    assert (code, started(account, "cursor")) == (0, [command, serve, "--read-only"])
    assert "Each window has a process of its own." in out
    assert account.run("--client", "cursor", "--own-process")[1].split()[0] == "unchanged"
    entry.update(command="kbhub", args=[serve, "--http"])
    account.file(".cursor/mcp.json", json.dumps({"mcpServers": {"kbhub": entry}}))
    assert (account.run("--client", "cursor", "--yes")[0], started(account, "cursor")[1:]) == (0, [serve, "--http"])


def test_a_server_of_another_name_is_not_registered_twice(account):
    account.file(".cursor/mcp.json", '{"mcpServers": {"notes": {"command": "/x/kbhub", "args": ["serve"]}}}')
    code, out, _ = account.run("--client", "cursor")
    assert (code, account.untouched()) == (0, True)
    assert "'notes'" in out


@posix
@pytest.mark.parametrize(
    ("text", "version", "nested"),
    [
        ('{"mcp": {"servers": {"x": {"type": "local", "command": ["x"]}}}}', None, True),
        ('{"mcp": {}}', None, False), ("", None, False), ("", "2.0.3", True),
    ],
)  # fmt: skip
def test_opencode_is_registered_where_its_version_looks(account, text, version, nested):
    """Version 2 nests servers a level deeper; a file that does so is followed, and a new client asked."""
    file = account.file(".config/opencode/opencode.json", text)
    if version:
        account.program("opencode", f"echo {version}")
    account.run("--yes", "--client", "opencode")
    mcp = json.loads(file.read_text())["mcp"]
    assert ("kbhub" in mcp.get("servers", {}), "kbhub" in mcp) == (nested, not nested)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("mcp_servers = { a = { command = 'x' } }\n", "mcp_servers = { a = { command = 'x' }"),
        ("[mcp_servers]\na = { command = 'x' } # c\n", "[mcp_servers]\na = { command = 'x' } # c\n"),
        ("x = 1", "x = 1\n\n[mcp_servers.kbhub]"), ("x = 1\r\n", "x = 1\r\n\r\n[mcp_servers.kbhub]\r\n"),
        *((text, text) for text in (
            'a = """\n[mcp_servers.kbhub]\n"""\n', "a = '''\n[mcp_servers.kbhub]\n'''\n[mcp_servers.a]\nargs = []\n",
            *(f'a = "{mark}[mcp_servers.kbhub]"\n' for mark in "\u2028\x85"),
        )),
    ],
)  # fmt: skip
def test_odd_toml_is_kept_and_comes_back(account, before, after):
    file = account.file(".codex/config.toml", before)
    code, _, _ = account.run("--yes", "--client", "codex")
    assert (code, started(account, "codex")) == (0, account.wanted())
    assert file.read_bytes().startswith(after.encode())
    account.run("--yes", "--remove", "--client", "codex")
    assert file.read_bytes().decode().rstrip() == before.rstrip()


@pytest.mark.parametrize(
    "before",
    ["", "A: 1", "extensions:\n", "extensions: {} # mine\nB: 2\n", "A: 1\r\nextensions:\r\n  x:\r\n    y: true\r\n"],
)
def test_odd_yaml_is_kept(account, before):
    file = account.file(".config/goose/config.yaml", before)
    code, _, _ = account.run("--yes", "--client", "goose")
    data = yaml.safe_load(file.read_text())
    assert (code, started(account, "goose")) == (0, account.wanted())
    extensions = data.pop("extensions")
    del extensions["kbhub"]
    expected = yaml.safe_load(before) or {}
    assert (extensions, data) == (expected.pop("extensions", None) or {}, expected)
    assert (b"\r\n" in file.read_bytes()) == ("\r\n" in before)
    assert ("# mine" in file.read_text()) == ("# mine" in before)


def test_yaml_in_braces_is_left_to_its_owner(account):
    """There is no way to keep its writing, so it is named and not touched."""
    account.file(".config/goose/config.yaml", "extensions: {x: {enabled: true}}\n")
    code, out, _ = account.run("--yes", "--client", "goose")
    assert (code, account.untouched()) == (1, True)
    assert "by hand" in out


@pytest.mark.parametrize(
    ("typed", "code", "changed"), [("y\n", 0, True), ("n\n", 1, False), ("\n", 1, False), ("", 1, False)]
)
def test_a_person_is_asked_once(account, typed, code, changed):
    account.file(".cursor/mcp.json", CURSOR)
    account.file(".config/zed/settings.json", ZED)
    got, _, err = account.run("--no-subagent", typed=typed)
    assert (got, not account.untouched()) == (code, changed)
    assert "Make these 2 changes? [y/N]" in err


def test_without_a_client_a_project_or_a_yes_it_says_so_and_nothing_is_done(account, monkeypatch):
    code, out, err = account.run()
    assert (code, out) == (1, "")
    assert "--client" in err
    code, _, err = account.run("--client", "emacs")
    assert code == 2
    assert "claude-code" in err

    account.file(".cursor/mcp.json", CURSOR)
    code, out, err = account.run()
    assert (code, account.untouched()) == (2, True)
    assert "Cursor" in out
    assert "--yes" in err

    monkeypatch.chdir(account.home)
    code, _, err = account.run("--project", "--client", "cursor", "--yes")
    assert (code, "No project here" in err) == (2, True)


def test_a_project_gets_files_that_work_for_everybody(account):
    """They name no place of this machine; clients that share a file are one step; no copies lie about."""
    clients = ("claude-code", "copilot-cli", "vscode", "cursor", "codex", "opencode", "gemini-cli", "zed")
    code, out, _ = account.run("--project", "--yes", *(word for client in clients for word in ("--client", client)))
    assert (code, out.count("/.mcp.json")) == (0, 1)
    assert "Claude Code, Copilot CLI" in out
    paths = [path for path in account.project.rglob("*") if path.is_file() and ".git/" not in str(path)]
    files = {str(path.relative_to(account.project)) for path in paths}

    assert files == {
        *(".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json", ".codex/config.toml", "opencode.json"),
        *(".gemini/settings.json", ".zed/settings.json"),
    }
    entry = {"command": "kbhub", "args": ["serve", "--connect"], "alwaysLoad": True, "deferTools": "never"}
    assert json.loads((account.project / ".mcp.json").read_text()) == {"mcpServers": {"kbhub": entry}}
    vscode = json.loads((account.project / ".vscode/mcp.json").read_text())["servers"]["kbhub"]
    assert (vscode["command"], vscode["args"]) == ("kbhub", ["serve", "--connect", "--root", "${workspaceFolder}"])
    assert not any(str(account.home) in (account.project / name).read_text() for name in files)
    assert not any(sys.prefix in (account.project / name).read_text() for name in files)


def test_a_projects_file_is_found_without_its_client(account):
    """What one member of a team put in, another can take out, whichever clients are on the machine; only that goes."""
    account.file(".cursor/mcp.json", CURSOR)
    account.run("--yes")
    mine = (account.home / ".cursor/mcp.json").read_bytes()
    account.run("--yes", "--project", "--client", "claude-code", "--client", "cursor", "--client", "opencode")
    code, out, err = account.run("--yes", "--project", "--remove")
    assert (code, err, out.count("removed")) == (0, "", 3)
    assert not any(b"kbhub" in path.read_bytes() for path in account.project.rglob("*.json"))
    assert not (account.project / ".mcp.json").exists()
    assert (account.home / ".cursor/mcp.json").read_bytes() == mine


@pytest.mark.parametrize(
    ("more", "does"), [((), "` registers it for you only"), (("--remove",), " --remove` removes it for you")]
)
def test_a_client_without_a_file_in_a_project_is_named(account, more, does):
    """Alone it is a failure, beside others a note, and nothing to speak of where it was not asked for."""
    said = f"Goose has no project file; `kbhub setup --client goose{does}."
    assert account.run("--project", "--client", "goose", "--yes", *more) == (1, "", f"kbhub: {said}\n")
    code, out, err = account.run("--project", "--client", "goose", "--client", "cursor", "--yes", *more)
    assert (code, "Cursor" in out, err) == (0, True, f"kbhub: {said}\n")
    for program in ("goose", "cursor"):
        account.program(program)
    code, out, err = account.run("--project", "--yes", *more)
    assert (code, "Cursor" in out, err) == (0, True, "")


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
    code, out, _ = account.run("--client", "jetbrains-ai", "--remove")
    assert (code, out.split("\n")[0]) == (0, "delete  JetBrains AI Assistant")
    assert "(MCP), the server `kbhub`\n" in out
    assert snapshot(account.home) == before


def test_removing_leaves_empty_files_of_others_as_they_are(account):
    files = [account.file(".cursor/mcp.json", "{}\n"), account.project / "AGENTS.md"]
    files[1].write_text("")
    assert "removed" not in account.run("--yes", "--remove")[2]
    assert [file.read_text() for file in files] == ["{}\n", ""]
