"""What goes wrong in mdvault and knowledgebased does not go wrong here.

One test per flaw that has no home in the tests of a module. "mdvault: 7" is the seventh flaw in our notes on it.
"""

from pathlib import Path

import pytest
from mcp import Client

from conftest import synced
from kbhub.server.server import KbhubServer, instructions
from kbhub.types import Query
from trees import snapshot

pytestmark = pytest.mark.usefixtures("no_pause")


def test_names_are_compared_as_they_are(environment):
    """`_`, `%` and `*` in the name of a base or document, or in a docid, stand for themselves (mdvault: 1)."""
    bases = {"my_vault": "~/my_vault", "myXvault": "~/myXvault"}
    environment.configure(bases=bases, repos={"*": list(bases)})
    for base in bases:
        for name in ("a_b.md", "aXb.md", "A_B2.md"):
            environment.write(environment.home / base / name, f"# {base} {name}\n")
    hub = synced(environment)
    (environment.home / "my_vault" / "a_b.md").unlink()
    hub.sync(["my_vault"], full=True)

    assert [2, 3] == [one.documents for one in sorted(hub.status().bases, key=lambda one: one.documents)]
    assert hub.read("myXvault@a_b.md").readings[0].text == "# myXvault a_b.md"
    for ref in ("#%", "#______", "#*", "my_vault@a_b.md", "myXvault@%", "my%@aXb.md"):
        assert not hub.read([ref]).readings, ref


def test_no_word_of_a_document_is_out_of_reach(environment):
    """Front matter, a title, a short introduction, comments in code: each is found, and shown as it is (mdvault: 5)."""
    head = "---\nowner: quokka\n---\n# Wombat\n\nTiny numbat.\n\n"
    environment.write("knowledge/a.md", f"{head}```\n# bilby\nrun   potoroo\n```\n\n## Last\n\nDunnart.\n")
    hub = synced(environment)
    for word in ("quokka", "wombat", "numbat", "bilby", "potoroo", "dunnart"):
        assert word in hub.search(Query(text=word, mode="keyword")).hits[0].excerpt.lower()
    assert "# bilby\nrun   potoroo\n" in hub.search(Query(text="potoroo", mode="keyword")).hits[0].excerpt


def test_nothing_is_left_by_commands_that_index_nothing_and_the_project_is_left_as_it_is(environment, kbhub):
    """No empty database lies about after a look or a mistake (mdvault: 14).

    Searching, reading and indexing write nothing into a repository (knowledgebased: 17).
    """
    environment.write("knowledge/a.md", "# Zebra\n")
    for line in ("status", "read a.md", "admin index nope", "base trust --list"):
        kbhub(*line.split())
        assert [*Path(environment.env["KBHUB_CACHE_DIR"]).rglob("*"), *environment.home.rglob("*")] == [], line
    environment.write("knowledge/a.md", "# Zebra\n")
    before = snapshot(environment.project)
    for line in ("admin index --full", "search zebra", "read a.md", "status", "base trust --list"):
        kbhub(*line.split(), code=0)
    assert before == snapshot(environment.project)


@pytest.mark.anyio
async def test_the_environment_stays_private(environment, monkeypatch):
    """No answer of a tool holds a variable of the environment (knowledgebased: 3)."""
    monkeypatch.setenv("DEPLOY_TOKEN", "hunter2-hunter2")
    environment.write("knowledge/a.md", "# Zebra\n")
    hub = environment.hub(env={**environment.env, "DEPLOY_TOKEN": "hunter2-hunter2"})
    calls = [("status", {}), ("search", {"query": "token"}), ("read", {"refs": "b.md"})]
    calls.append(("read", {"refs": "$DEPLOY_TOKEN"}))
    async with Client(KbhubServer(hub, structured=True)) as client:
        answers = [(await client.call_tool(tool, arguments)).model_dump_json() for tool, arguments in calls]
    assert "hunter2" not in "".join([*answers, instructions(hub)])
