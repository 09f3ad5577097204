"""What an agent and its subagent did with `examples/team`, call by call, over standard input: both sides of it.

The calls are those that an agent made with these notes when it was asked to rename a column of `orders`, and to find
out what happens if that release must be rolled back; no model runs here. The snapshot is what it was told.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

from daemons import META, call, text_of, windows
from kbhub.setup.instructions import SUBAGENT

SERVE = """
import kbhub.server.calls
from kbhub.hub import HubOptions
from kbhub.server.stdio import serve
kbhub.server.calls.FIRST_ANSWER_SECONDS = kbhub.server.calls.FRESHEN_SECONDS = 60
serve(HubOptions(serve=True, clock=lambda: 1795000000.0))
"""
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
def start(environment):
    """Start a server for the example, as for a window of its own."""
    shutil.copytree(EXAMPLE, environment.project / "knowledge")
    with windows(environment) as begin:
        yield lambda: begin(("-c", SERVE))


def played(window, calls, *, modern):
    """Send the calls; give what was said, and all that could be read of the answers before each."""
    lines, told = [], [""]
    for tool, given in calls:
        answer = window.ask(call(tool, modern=modern, **given))
        assert answer["result"].get("isError") is not True, text_of(answer)
        lines.append(f"→ {tool} {json.dumps(given)}\n{text_of(answer)}")
        told.append(told[-1] + text_of(answer))
    return _NUMBERS.sub("…", "\n\n".join(lines)), told


def test_an_agent_follows_what_it_is_told(start, snapshot):
    window = start()
    window.handshake()
    said, told = played(window, AGENT, modern=False)

    for (_, given), before in zip(AGENT, told, strict=False):
        assert all(ref in before for ref in given.get("refs", "").split(","))
    assert "basket_id becomes cart_id" in told[-1].removeprefix(told[-2])
    assert said == snapshot


def test_a_subagent_answers_from_the_notes_and_changes_nothing(start, environment, snapshot):
    window = start()
    tools = window.ask({"method": "tools/list", "params": {"_meta": META}})["result"]["tools"]
    reading = {tool["name"] for tool in tools if tool.get("annotations", {}).get("readOnlyHint")}
    allowed = reading & set(re.findall(r"`(\w+)", SUBAGENT.read_text("utf-8")))
    assert {tool for tool, _ in RESEARCHER} == allowed
    before = {path: path.read_bytes() for path in environment.project.rglob("*") if path.is_file()}
    said, told = played(window, RESEARCHER, modern=True)

    for (_, given), earlier in zip(RESEARCHER, told, strict=False):
        assert all(ref in earlier for ref in given.get("refs", given.get("ref", "")).split(","))
    assert {path: path.read_bytes() for path in environment.project.rglob("*") if path.is_file()} == before
    assert said == snapshot
