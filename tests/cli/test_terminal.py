"""What the command line prints in a real terminal of some width, and what it prints elsewhere."""

import contextlib
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kbhub.documents.shown_text import cell_width

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no pseudoterminals")

ROOT = Path(__file__).parents[2]
TEAM = ROOT / "examples" / "team" / "knowledge"
END_SECONDS = 60
"""How long a command may take."""

PROGRESS = re.compile(r"[^\n]*\n?\r?\x1b\[1A\x1b\[2K|[^\n]*\r\x1b\[2K|\x1b\[\?25[lh]")
"""Bars that a busy machine shows, and that are gone afterwards."""
STYLES = re.compile(r"\x1b\[[0-9;]*m")
QUESTION = "how do I deploy a release to production"
SHORT = (["search", "deploy"], ["ask", QUESTION], ["read", "runbooks/incident.md"], ["status"])
OTHERS = (
    ["base", "list"], ["ls"], ["related", "runbooks/deploy.md"], ["ls", "--tags"], ["memories"],
    ["recall", "deploys"], ["audit"], ["base", "context", "list"], ["dev", "log"], ["gaps"],
    ["admin", "cleanup", "--dry-run"], ["doctor"], ["base", "trust", "--list"],
    ["search", "deploy", "-C", "1", "--line-numbers"], ["search", "deploy", "--explain"],
    ["search", "--full", "flag"], ["ask", "who won the world cup in brazil"], ["ask", QUESTION, "--budget", "900"],
    ["read", "nowhere/at/all.md"],
)  # fmt: skip


@pytest.fixture
def team(environment, kbhub):
    """A project with the example's documents, a memory that is long, and an index."""
    for file in TEAM.rglob("*.md"):
        environment.write(f"knowledge/{file.relative_to(TEAM).as_posix()}", file.read_bytes())
    kbhub("remember", "--tag", "deploys", "Deploys wait for the board " + "that is green and not red " * 9)
    kbhub("admin", "index")
    return environment


def shown(environment, arguments, columns, **changes):
    """Run a command in a terminal of some columns, and give what it is sent."""
    import fcntl
    import termios

    ours, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {**environment.env, "PYTHONPATH": str(ROOT / "src"), "PAGER": "cat", "TERM": "xterm-256color", **changes}
    command = [sys.executable, "-m", "kbhub", *arguments]
    with subprocess.Popen(command, cwd=environment.project, env=env, stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        data = b""
        with contextlib.suppress(OSError):  # its end, as Linux says it
            while piece := os.read(ours, 1 << 16):
                data += piece
        process.wait(END_SECONDS)
    os.close(ours)
    return data.decode("utf-8").replace("\r\n", "\n")


def words(text):
    """Words that a line can hold, without marks of Markdown and of the layout."""
    return set(re.findall(r"(?<![\w/.-])[a-z]{4,25}(?!\.?[\w/-])", text))


@pytest.fixture
def check(team, kbhub):
    """Asserts that a terminal has nothing to break, that it is not acted upon, and that no word is cut."""

    def checked(arguments, columns):
        bare = STYLES.sub("", PROGRESS.sub("", shown(team, arguments, columns)))
        assert "\x1b" not in bare
        assert [line for line in bare.split("\n") if cell_width(line) > columns] == []
        assert words(kbhub(*arguments).out) - words(bare) == set()
        return bare

    return checked


@pytest.mark.slow
@pytest.mark.parametrize("columns", [44, 60, 80, 120])
def test_nothing_is_wider_than_a_terminal_and_no_word_is_cut(check, columns):
    for arguments in SHORT if columns == 60 else (*SHORT, *OTHERS):
        check(arguments, columns)


def test_a_terminal_shows_documents_laid_out_and_a_pipe_gets_them_as_they_are(team, kbhub, monkeypatch):
    seen = STYLES.sub("", shown(team, ["read", "runbooks/incident.md"], 80))
    file = (TEAM / "runbooks" / "incident.md").read_text("utf-8")
    assert "| SEV1 |" not in seen
    assert re.search(r"^SEV1 +cannot pay", seen, re.MULTILINE)
    assert kbhub("read", "runbooks/incident.md").out == file
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert kbhub("read", "runbooks/incident.md").out == file


def test_nothing_that_is_kept_here_acts_on_a_terminal(environment, kbhub, streams):
    """Escape sequences, names of characters and links, in documents, which a clone brings, memories and queries."""
    hostile = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp"
    name = f"evil{hostile}.md"
    text = (
        f"# Deploy {hostile}\n\nDeploy \x1b[2J now &#27;[31m &#x202e;txt [here](https://a.example/\x1b]8;;x\x07).\n\n"
        f"```\x1b[5m\nrm \x9b2J\n```\n\n| a \x1b[7m |\n|---|\n| \u202e b |\n\n[x]({hostile}/../a.md) [a](a.md)\n"
    )
    environment.write(f"knowledge/{name}", text)
    environment.write("knowledge/a.md", "# A\n")
    kbhub("remember", "Cats sleep")
    (memory,) = (environment.home.parent / "data/memories").rglob("*.md")
    memory.write_text(f'---\ntitle: "\\e[2Jx"\nnamespace: "\\u202e"\n---\n{hostile} cats\n')
    kbhub("search", f"deploy {hostile}")
    acts = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")
    for term, *arguments in (
        *(("dumb", "search", "deploy"), ("xterm-256color", "ask", "how to deploy now")),
        *(("xterm-256color", "read", name), ("xterm", "read", f"nope{name}")),
    ):
        bare = STYLES.sub("", streams(*arguments, TERM=term, COLUMNS="70"))
        assert not acts.search(bare), (arguments, term)
        assert "␛" in bare
    for command in ("search deploy", "ask how to deploy now", "dev log show", "memories", "recall cats", "forget --all",
                    "audit", "doc rename a b", "doc delete", "doc restore --list"):  # fmt: skip
        done = kbhub(*command.split(), *([name] if command == "doc delete" else []))
        assert not acts.search(done.out + done.err), command
