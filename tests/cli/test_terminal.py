"""What the command line prints in a terminal of some width, and what it prints elsewhere."""

import re
from pathlib import Path

import pytest

from kbhub.documents.shown_text import cell_width

TEAM = Path(__file__).parents[2] / "examples" / "team" / "knowledge"
STYLES = re.compile(r"\x1b\[[0-9;]*m")
PROGRESS = re.compile(r"[^\n]*\n?\r?\x1b\[1A\x1b\[2K|[^\n]*\r\x1b\[2K|\x1b\[\?25[lh]")
"""Bars that a busy machine shows, and that are gone afterwards."""
COMMANDS = (
    ["ask", "how do I deploy a release to production"], ["read", "runbooks/incident.md"], ["status"], ["ls"],
    ["related", "runbooks/deploy.md"], ["memories"], ["audit"], ["dev", "log"], ["doctor"],
    ["search", "deploy", "-C", "1", "--line-numbers"], ["search", "deploy", "--explain"], ["read", "nowhere/at/all.md"],
)  # fmt: skip


@pytest.fixture
def team(environment, kbhub):
    """A project with the example's documents, a memory that is long, and an index."""
    for file in TEAM.rglob("*.md"):
        environment.write(f"knowledge/{file.relative_to(TEAM).as_posix()}", file.read_bytes())
    kbhub("remember", "--tag", "deploys", "Deploys wait for the board " + "that is green and not red " * 9)
    kbhub("admin", "index")
    return environment


def words(text):
    """Words that a line can hold, without marks of Markdown and of the layout."""
    return set(re.findall(r"(?<![\w/.-])[a-z]{4,25}(?!\.?[\w/-])", text))


@pytest.mark.usefixtures("team")
def test_nothing_is_wider_than_a_terminal_and_no_word_is_cut(kbhub, streams):
    for arguments in COMMANDS:
        bare = STYLES.sub("", PROGRESS.sub("", streams(*arguments, COLUMNS="44", LINES="9999")))
        assert "\x1b" not in bare
        assert [line for line in bare.split("\n") if cell_width(line) > 44] == [], arguments
        assert words(kbhub(*arguments).out) - words(bare) == set(), arguments


@pytest.mark.usefixtures("team")
def test_a_terminal_shows_documents_laid_out_and_a_pipe_gets_them_as_they_are(kbhub, streams, monkeypatch):
    seen = STYLES.sub("", streams("read", "runbooks/incident.md", LINES="9999"))
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
