"""What makes agents use kbhub: lines in their instructions, a skill, a plugin."""

import io
import os
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from kbhub.__main__ import main
from kbhub.setup.clients import CLIENTS, client_named
from kbhub.setup.instructions import LINES, SKILL, SKILLS, SUBAGENT
from kbhub.workspace.tool_names import ALL
from setup_machine import OPENCODE, Terminal

ROOT = Path(__file__).parents[2]
posix = pytest.mark.skipif(os.name == "nt", reason="needs links")


@pytest.mark.parametrize("before", [
    b"# Rules\n\nBe kind.\n", b"# Rules\r\n\r\nBe kind.\r\n", b"no line break at the end",
    b"\xef\xbb\xbfwith a byte order mark\n\n\n", b"not UTF-8: \xe9\xff\n", b"",
])  # fmt: skip
@pytest.mark.parametrize("name", ["AGENTS.md", "CLAUDE.md", "GEMINI.md"])
def test_lines_come_and_go_and_leave_no_trace(account, name, before):
    """Whatever the file was, its bytes stay at its beginning, its line breaks are used, and `--remove` restores it."""
    file = account.project / name
    file.write_bytes(before)

    code, _, _ = account.run("--agents-md", "--yes")
    after = file.read_bytes()
    assert (code, after.startswith(before), after.count(b"kbhub:start")) == (0, True, 1)
    assert LINES in after.decode("utf-8", "replace").replace("\r\n", "\n")
    assert (b"\r\n" in before) == (b"\r\n" in after)
    assert re.search(rb"[^\r]\n", after) is None or b"\r\n" not in before
    code, out, _ = account.run("--agents-md")
    assert (code, out.split()[0], file.read_bytes()) == (0, "unchanged", after)
    code, _, _ = account.run("--agents-md", "--yes", "--remove")
    assert code == 0
    assert (file.read_bytes() if before else b"") == before
    assert file.exists() == bool(before)
    assert list(account.project.glob("*.bak")) == []


def test_a_project_without_instructions_gets_one_file_and_old_lines_are_brought_up_to_date_in_place(account):
    account.file(".cursor/mcp.json", '{"mcpServers": {"kbhub": {"command": "/x/kbhub", "args": ["serve"]}}}')
    (account.project / "src").mkdir()
    os.chdir(account.project / "src")
    code, _, _ = account.run("--agents-md", "--yes")
    assert (code, (account.project / "AGENTS.md").read_text()) == (0, f"{LINES}\n")
    assert not (account.project / "CLAUDE.md").exists()
    account.run("--agents-md", "--yes", "--remove")
    assert (account.untouched(), (account.project / "AGENTS.md").exists()) == (True, False)

    file = account.project / "AGENTS.md"
    file.write_text("# A\n<!-- kbhub:start, of an older version -->\nold\n<!-- kbhub:end -->\n\n# B\n")
    account.run("--agents-md", "--yes")
    assert file.read_text() == f"# A\n{LINES}\n\n# B\n"
    account.run("--agents-md", "--yes", "--remove")
    assert file.read_text().split() == ["#", "A", "#", "B"]


@posix
def test_a_file_that_takes_another_in_or_leads_to_it_gets_no_lines_of_its_own(account):
    agents, claude = account.project / "AGENTS.md", account.project / "CLAUDE.md"
    agents.write_text("# A\n")
    claude.write_text("@AGENTS.md\n\nMore.\n")
    code, out, _ = account.run("--agents-md", "--yes")
    assert (code, claude.read_text(), "imports AGENTS.md" in out) == (0, "@AGENTS.md\n\nMore.\n", True)
    agents.write_text("# A\n")
    claude.unlink()
    claude.symlink_to("AGENTS.md")
    account.run("--agents-md", "--yes")
    assert (agents.read_text().count("kbhub:start"), claude.is_symlink()) == (1, True)


@posix
@pytest.mark.parametrize(
    ("name", "options"), [("AGENTS.md", ["--agents-md"]), (".mcp.json", ["--project", "--client", "claude-code"])]
)
def test_a_link_out_of_the_project_is_not_followed(account, name, options):
    target = account.file("precious.json", "{}\n")
    (account.project / name).symlink_to(target)
    code, out, _ = account.run("--yes", *options)
    assert (code, account.untouched()) == (1, True)
    assert "points outside" in out


@pytest.mark.parametrize(
    "text",
    [
        b"<!-- kbhub:start -->\nno end\n", b"<!-- kbhub:end -->\n<!-- kbhub:start -->\n",
        b"<!-- kbhub:start --><!-- kbhub:end -->" * 2, "# A\n".encode("utf-16"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("more", [[], ["--remove"]])
def test_a_file_that_cannot_be_understood_is_named_and_not_touched(account, text, more):
    file = account.project / "AGENTS.md"
    file.write_bytes(text)
    code, out, _ = account.run("--agents-md", "--yes", *more)
    assert (code, file.read_bytes()) == (1, text)
    assert "left unchanged" in out


def test_the_lines_name_tools_that_exist_the_subagent_those_that_read_and_each_client_with_subagents_is_tested():
    text = LINES + SKILL.read_text("utf-8") + SUBAGENT.read_text("utf-8")
    named = {"search", "read", "remember", "memories", "forget"}
    assert named <= set(ALL)
    assert {name for name in named if f"`{name}`" not in text} == set()
    assert set(re.findall(r"`(\w+)", SUBAGENT.read_text("utf-8"))) & {*ALL} == {"search", "read", "related"}
    assert {client.name for client in CLIENTS if client.subagent} == set(SUBAGENTS)


def test_the_skill_is_written_once_per_folder(account):
    """Where Claude Code looks, and where Codex and Gemini CLI both do; it goes again without a trace."""
    (account.home / ".claude").mkdir()
    (account.home / ".codex").mkdir()
    account.file(".gemini/settings.json", "{}")
    code, out, _ = account.run("--skill", "--yes")
    folders = [account.home / folder / "skills" for folder in (".claude", ".agents")]
    files = [folder / name / "SKILL.md" for name in SKILLS for folder in folders]

    assert code == 0
    assert "Skill for Codex, Gemini CLI" in out
    assert "Skill kbhub-wiki for Codex, Gemini CLI" in out
    assert [file.read_bytes() for file in files] == [skill.read_bytes() for skill in SKILLS.values() for _ in folders]
    assert account.run("--skill")[1].split()[0] == "unchanged"
    files[0].write_text(SKILL.read_text("utf-8") + "of an older version")
    account.run("--skill", "--yes")
    assert files[0].read_bytes() == SKILL.read_bytes()
    account.run("--skill", "--yes", "--remove")
    assert not any(file.parent.exists() for file in files)
    assert account.untouched()


@pytest.mark.parametrize("name", SKILLS)
def test_the_skill_is_a_skill(name):
    _, head, body = SKILLS[name].read_text("utf-8").split("---\n", 2)
    front = yaml.safe_load(head)
    assert (set(front), front["name"]) == ({"name", "description"}, name)
    assert 0 < len(front["description"]) <= 1024  # agentskills.io, specification
    assert len(body.splitlines()) < 60


SKILL_FILE = ".claude/skills/kbhub/SKILL.md"
SUBAGENTS = {
    "claude-code": ".claude/agents/kbhub-researcher.md", "codex": ".codex/agents/kbhub-researcher.toml",
    "copilot-cli": ".copilot/agents/kbhub-researcher.agent.md", "cursor": ".cursor/agents/kbhub-researcher.md",
    "gemini-cli": ".gemini/agents/kbhub-researcher.md", "opencode": ".config/opencode/agents/kbhub-researcher.md",
}  # fmt: skip


@pytest.mark.parametrize("client", SUBAGENTS)
def test_the_subagent_has_the_form_of_the_client_and_goes_without_a_trace(account, client):
    file = account.home / SUBAGENTS[client]
    code, _, _ = account.run("--subagent", "--client", client, "--yes")
    text = file.read_text("utf-8")
    _, head, body = SUBAGENT.read_text("utf-8").split("---\n", 2)
    wanted = yaml.safe_load(head)

    assert code == 0
    if client == "codex":
        found = tomllib.loads(text)
        assert found == {**wanted, "developer_instructions": body.lstrip()}
    else:
        _, found, rest = text.split("---\n", 2)
        named = {"mode": "subagent"} if client == "opencode" else {"name": "kbhub-researcher"}
        assert (yaml.safe_load(found), rest) == ({**named, "description": wanted["description"]}, body)
    account.run("--client", client, "--remove", "--yes")  # though it names no subagent
    assert not file.exists()
    assert not file.parent.exists()


@pytest.mark.parametrize(
    ("client", "names"),
    [
        ("claude-code", ".claude/settings.json .claude/agents/kbhub-researcher.md"),
        ("codex", ".codex/hooks.json .codex/agents/kbhub-researcher.toml"),
        ("copilot-cli", ".github/hooks/kbhub.json .github/agents/kbhub-researcher.agent.md"),
        ("opencode", ".opencode/agents/kbhub-researcher.md"),
    ],
)
def test_init_tells_the_subagents_of_a_project_and_setup_undoes_it(account, monkeypatch, client, names):
    """It asks, or takes an option; the files work for everybody, and a hook of the user's does not run twice."""
    if client == "opencode":  # whose program would be asked for its version
        account.file(".config/opencode/opencode.json", OPENCODE)
    else:
        account.program(client_named(client).programs[0])
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert main(["init"]) == 0
    assert f"AGENTS.md, {names.replace(' ', ', ')} so that" in account.capture.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["init", "--subagent", "--agents-md", "--knowledge", "."]) == 0
    assert "kbhub ls project" in account.capture.readouterr().out
    *hooks, _ = files = [account.project / name for name in names.split()]
    assert all(re.findall(r'"(Sub\w+|kbhub hook)', hook.read_text())[1:] == ["kbhub hook"] for hook in hooks)
    account.run("--project", "--remove", "--yes")
    assert not any("kbhub" in file.read_text() for file in files if file.exists())


@pytest.mark.parametrize("what", ["skill", "subagent"])
def test_what_somebody_made_theirs_is_left_alone(account, what):
    (account.home / ".claude").mkdir()
    file = {"skill": SKILL_FILE, "subagent": SUBAGENTS["claude-code"]}[what]
    account.file(file, "---\nname: kbhub\n---\nmine\n")
    for more in ([], ["--remove"]):
        code, out, _ = account.run(f"--{what}", "--yes", *more)
        assert (code, account.untouched(), "left unchanged" in out) == (1, True, True)


def test_a_person_is_offered_the_subagent_and_the_lines(account):
    assert "No MCP client found" in account.run("--subagent", "--yes")[2]
    assert "so that subagents" not in account.run(typed="y\n")[2]  # nobody has any
    (account.home / ".claude").mkdir()
    code, _, err = account.run("--no-hooks", typed="n\ny\n")
    lines, file = account.project / "AGENTS.md", account.home / SUBAGENTS["claude-code"]
    assert (code, lines.exists(), file.exists()) == (0, False, False)
    assert "a subagent and some lines in this project's AGENTS.md so that subagents" in " ".join(err.split())
    code, _, _ = account.run("--no-hooks", typed="y\ny\n")
    assert (code, LINES in lines.read_text("utf-8"), file.exists()) == (0, True, True)
    assert "so that subagents" not in account.run("--no-hooks", typed="y\n")[2]  # there is nothing left to do
    lines.unlink()
    assert "so that subagents" not in account.run("--hooks", typed="y\n")[2]  # the hook tells them


def test_who_removes_kbhub_is_rid_of_what_every_option_wrote(account):
    lines = account.project / "AGENTS.md"
    lines.write_text("# A\n")
    account.run("--yes", "--client", "claude-code", "--agents-md", "--skill", "--subagent")
    account.run("--yes", "--client", "claude-code", "--remove")
    assert "kbhub:start" in lines.read_text()  # other clients read it
    assert "removed  AGENTS.md" in account.run("--yes", "--remove")[1]
    assert (lines.read_text(), (account.home / SKILL_FILE).exists()) == ("# A\n", False)
    assert "AGENTS.md" not in account.run("--yes", "--remove")[1]


def test_the_way_without_a_server_is_a_skill_and_the_command_or_is_said_to_lead_nowhere(account):
    account.file(".claude.json", "{}")
    skill = account.home / SKILL_FILE
    code, out, _ = account.run("--no-server", "--yes")

    assert (code, account.untouched(), skill.read_bytes()) == (0, True, SKILL.read_bytes())
    assert "kbhub search" in SKILL.read_text("utf-8")
    assert out.count("written") == 2
    account.run("--no-server", "--remove", "--yes")
    assert not skill.exists()

    account.file(".config/zed/settings.json", "{}")
    code, _, err = account.run("--no-server", "--yes", "--client", "zed")
    assert (code, account.untouched(), "--agents-md" in err) == (1, True, True)
    account.run("--client", "claude-code", "--yes")
    assert "registered; `kbhub setup --remove --client claude-code` " in account.run("--no-server", "--yes")[2]
    for together in (("--no-server", "--own-process"), ("--project", "--hooks")):
        assert "cannot be used together" in account.run(*together, "--yes")[2]


def test_init_asks_for_the_lines_and_takes_no_for_an_answer(account, monkeypatch):
    """Without a terminal it writes them only if told to; `setup --agents-md --remove` takes them out."""
    lines = account.project / "AGENTS.md"
    monkeypatch.chdir(account.project)
    for typed, arguments, there in (
        (None, [], False), ("n\n", [], False), ("y\n", ["--no-agents-md"], False), ("y\n", [], True),
        (None, ["--agents-md"], True),
    ):  # fmt: skip
        monkeypatch.setattr("sys.stdin", io.StringIO("") if typed is None else Terminal(typed))
        assert main(["init", *arguments]) == 0
        asked = "subagents search here first" in account.capture.readouterr().err
        assert (lines.exists(), asked) == (there, typed is not None and not arguments)
        if there:
            assert lines.read_text("utf-8") == f"{LINES}\n"
            account.run("--agents-md", "--remove", "--yes")
    (account.project / "CLAUDE.md").write_text("# Rules\n")
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert main(["init"]) == 0
    err = account.capture.readouterr().err
    assert "Write to CLAUDE.md so" in err
    assert f"Added lines to {account.project / 'CLAUDE.md'}." in err
