"""What makes agents use kbhub: lines in their instructions, a skill, a plugin."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

from kbhub.setup.instructions import LINES, SKILL
from kbhub.workspace.tool_names import ALL

ROOT = Path(__file__).parents[2]
posix = pytest.mark.skipif(os.name == "nt", reason="needs links")


INSTRUCTIONS = [
    b"# Rules\n\nBe kind.\n", b"# Rules\r\n\r\nBe kind.\r\n", b"no line break at the end",
    b"\xef\xbb\xbfwith a byte order mark\n\n\n", b"not UTF-8: \xe9\xff\n", b"",
]  # fmt: skip


@pytest.mark.parametrize("before", INSTRUCTIONS)
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


def test_old_lines_are_brought_up_to_date_in_place_and_what_is_below_stays(account):
    file = account.project / "AGENTS.md"
    file.write_text("# A\n<!-- kbhub:start, of an older version -->\nold\n<!-- kbhub:end -->\n\n# B\n")
    account.run("--agents-md", "--yes")
    assert file.read_text() == f"# A\n{LINES}\n\n# B\n"
    account.run("--agents-md", "--yes", "--remove")
    assert file.read_text().split() == ["#", "A", "#", "B"]


def test_a_project_without_instructions_gets_one_file(account):
    (account.project / "src").mkdir()
    os.chdir(account.project / "src")
    code, _, _ = account.run("--agents-md", "--yes")
    assert (code, (account.project / "AGENTS.md").read_text()) == (0, f"{LINES}\n")
    assert not (account.project / "CLAUDE.md").exists()
    account.run("--agents-md", "--yes", "--remove")
    assert not (account.project / "AGENTS.md").exists()


def test_a_file_that_takes_another_in_gets_no_lines_of_its_own(account):
    (account.project / "AGENTS.md").write_text("# A\n")
    (account.project / "CLAUDE.md").write_text("@AGENTS.md\n\nMore.\n")
    code, out, _ = account.run("--agents-md", "--yes")
    assert (code, (account.project / "CLAUDE.md").read_text()) == (0, "@AGENTS.md\n\nMore.\n")
    assert "imports AGENTS.md" in out


@posix
def test_a_link_between_the_files_is_one_file(account):
    (account.project / "AGENTS.md").write_text("# A\n")
    (account.project / "CLAUDE.md").symlink_to("AGENTS.md")
    account.run("--agents-md", "--yes")
    assert (account.project / "AGENTS.md").read_text().count("kbhub:start") == 1
    assert (account.project / "CLAUDE.md").is_symlink()


@posix
def test_a_link_out_of_the_project_is_not_followed(account):
    target = account.file(".bashrc", "# mine\n")
    (account.project / "AGENTS.md").symlink_to(target)
    code, out, _ = account.run("--agents-md", "--yes")
    assert (code, account.untouched()) == (1, True)
    assert "points outside" in out


@pytest.mark.parametrize(
    "text",
    [
        b"<!-- kbhub:start -->\nno end\n",
        b"<!-- kbhub:end -->\n<!-- kbhub:start -->\n",
        b"<!-- kbhub:start --><!-- kbhub:end --><!-- kbhub:start --><!-- kbhub:end -->",
        "# A\n".encode("utf-16"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--remove"]])
def test_a_file_that_cannot_be_understood_is_named_and_not_touched(account, text, more):
    file = account.project / "AGENTS.md"
    file.write_bytes(text)
    code, out, _ = account.run("--agents-md", "--yes", *more)
    assert (code, file.read_bytes()) == (1, text)
    assert "left unchanged" in out


def test_agents_md_alone_leaves_the_clients_alone(account):
    account.file(".cursor/mcp.json", '{"mcpServers": {"kbhub": {"command": "/x/kbhub", "args": ["serve"]}}}')
    account.run("--agents-md", "--yes")
    account.run("--agents-md", "--yes", "--remove")
    assert account.untouched()


def test_the_lines_name_tools_that_exist():
    text = LINES + SKILL.read_text("utf-8")
    named = {"search", "read", "remember", "memories", "forget"}
    assert named <= set(ALL)
    assert {name for name in named if f"`{name}`" not in text} == set()


def test_the_skill_is_written_once_per_folder(account):
    """Where Claude Code looks, and where Codex and Gemini CLI both do; it goes again without a trace."""
    (account.home / ".claude").mkdir()
    (account.home / ".codex").mkdir()
    account.file(".gemini/settings.json", "{}")
    code, out, _ = account.run("--skill", "--yes")
    files = [account.home / folder / "skills/kbhub/SKILL.md" for folder in (".claude", ".agents")]

    assert code == 0
    assert "Skill for Codex, Gemini CLI" in out
    assert [file.read_bytes() for file in files] == [SKILL.read_bytes()] * 2
    assert account.run("--skill")[1].split()[0] == "unchanged"
    files[0].write_text(SKILL.read_text("utf-8") + "of an older version")
    account.run("--skill", "--yes")
    assert files[0].read_bytes() == SKILL.read_bytes()
    account.run("--skill", "--yes", "--remove")
    assert not any(file.parent.exists() for file in files)
    assert account.untouched()


@pytest.mark.parametrize("more", [[], ["--remove"]])
def test_a_skill_that_somebody_made_theirs_is_left_alone(account, more):
    (account.home / ".claude").mkdir()
    account.file(".claude/skills/kbhub/SKILL.md", "---\nname: kbhub\n---\nmine\n")
    code, _, _ = account.run("--skill", "--yes", *more)
    assert (code, account.untouched()) == (1, True)


def test_the_skill_is_a_skill():
    _, head, body = SKILL.read_text("utf-8").split("---\n", 2)
    front = yaml.safe_load(head)
    assert set(front) == {"name", "description"}
    assert front["name"] == "kbhub"
    assert 0 < len(front["description"]) <= 1024  # agentskills.io, specification
    assert len(body.splitlines()) < 60
