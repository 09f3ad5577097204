"""What an agent and its subagent did with `examples/team`, call by call: both sides of it.

The calls are those that an agent made with these notes when it was asked to rename a column of `orders`, and to find
out what happens if that release must be rolled back; no model runs here. The snapshot is what it was told.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
from mcp import Client

import trees
from kbhub.server.server import KbhubServer
from kbhub.setup.instructions import SUBAGENT
from test_server import text_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient")]

EXAMPLE = Path(__file__).parents[2] / "examples/team/knowledge"

_NUMBERS = re.compile(r"(?<= · )[01]\.\d\d\b|(?<=cursor=\")\w+|(?<= · #)[0-9a-f]{6}|(?<=-four-)\w+|(?<= id )\w+")
"""Scores, which any change of the ranking moves a little, where the next page begins, and ids."""

AGENT = [
    ("search", {"query": "rename a column of the orders table without downtime"}),
    ("read", {"refs": "database-migrations.md"}),
    ("remember", {"text": "orders.basket_id becomes cart_id in four releases; the old column goes a week later.",
                  "about": "database-migrations.md"}),
    ("search", {"query": "when may basket_id be dropped"}),
]  # fmt: skip
RESEARCHER = [
    ("search", {"query": "roll back a release whose migration dropped a column"}),
    ("search", {"query": "who is called when data may be lost"}),
    ("read", {"refs": "runbooks/rollback.md,on-call.md"}),
    ("related", {"ref": "runbooks/rollback.md"}),
]


@pytest.fixture
def server(environment):
    """A server for the example."""
    shutil.copytree(EXAMPLE, environment.project / "knowledge")
    return KbhubServer(environment.hub(clock=lambda: 1795000000.0))


async def played(client, calls):
    """Send the calls; give what was said, and all that could be read of the answers before each."""
    lines, told = [], [""]
    for tool, given in calls:
        answer = await client.call_tool(tool, given)
        assert not answer.is_error, text_of(answer)
        lines.append(f"→ {tool} {json.dumps(given)}\n{text_of(answer)}")
        told.append(told[-1] + text_of(answer))
    return _NUMBERS.sub("…", "\n\n".join(lines)), told


async def test_an_agent_follows_what_it_is_told(server, snapshot):
    async with Client(server, mode="legacy") as client:
        said, told = await played(client, AGENT)
    for (_, given), before in zip(AGENT, told, strict=False):
        assert all(ref in before for ref in given.get("refs", "").split(","))
    assert "basket_id becomes cart_id" in told[-1].removeprefix(told[-2])
    assert said == snapshot


async def test_a_subagent_answers_from_the_notes_and_changes_nothing(server, environment, snapshot):
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
        reading = {tool.name for tool in tools if tool.annotations.read_only_hint}
        assert {tool for tool, _ in RESEARCHER} == reading & set(re.findall(r"`(\w+)", SUBAGENT.read_text("utf-8")))
        before = trees.snapshot(environment.project)
        said, told = await played(client, RESEARCHER)
    for (_, given), earlier in zip(RESEARCHER, told, strict=False):
        assert all(ref in earlier for ref in given.get("refs", given.get("ref", "")).split(","))
    assert trees.snapshot(environment.project) == before
    assert said == snapshot
