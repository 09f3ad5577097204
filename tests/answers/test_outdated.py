"""A document that no longer holds by its own word says so wherever it is found."""

import os

import pytest
from mcp import Client

from conftest import synced
from kbhub.answers.citations import request_of
from kbhub.answers.question import prepare
from kbhub.server.server import KbhubServer
from test_server import text_of

MARK = "outdated: superseded by api.md"


@pytest.fixture
def outdated(environment):
    """A project with a document that names the one in its place, and one past its day."""
    environment.write("knowledge/ops.md", "---\nsuperseded_by: api.md\n---\n# Ops\n\nDeploy things by hand.\n")
    environment.write("knowledge/old.md", "---\nexpires: 2020-01-01\n---\n# Old\n\nDeploy boxes at night.\n")
    environment.write("knowledge/new.md", "# New\n\nDeploy ships in the morning.\n")
    return environment


@pytest.mark.parametrize("options", [[], ["--md"], ["--budget", "500"]])
def test_sources_are_marked_in_a_terminal(kbhub, outdated, options):
    out = kbhub("ask", "deploy things by hand", *options, code=0).out

    assert MARK in out
    assert "old.md" not in out or "outdated: expires 2020-01-01" in out


@pytest.mark.anyio
@pytest.mark.usefixtures("patient")
async def test_hits_and_sources_are_marked_for_a_model(outdated):
    """On the line that names the document, in place of an age that says nothing."""
    outdated.env["KBHUB_TOOLS"] = "all"
    asked = {"question": "deploy things by hand"}
    calls = (("search", {"query": "deploy"}), ("ask", asked), ("ask", {**asked, "options": {"budget": 500}}))
    async with Client(KbhubServer(outdated.hub())) as client:
        told = [text_of(await client.call_tool(*call)) for call in calls]

    assert all(f" · {MARK}\n" in text for text in told)
    assert "stale" not in told[0]


def test_a_model_that_writes_is_told_and_an_empty_successor_supersedes_nothing(outdated):
    outdated.write("knowledge/zebra.md", '---\nsuperseded_by: ""\n---\n# Zebras\n\nStripes.\n')
    hub = synced(outdated)

    assert MARK in request_of(prepare(hub, "deploy things by hand")).prompt
    assert hub.search("zebras").hits[0].outdated is None


DECISIONS = {
    "notes/front.md": ("---\nstatus: accepted\n---\n# Queue\n\nWe deploy by queue.\n", None),
    "notes/madr.md": ("# Queue two\n\n* Status: Accepted\n* Date: 2020-01-01\n\nWe deploy by two queues.\n", None),
    "notes/nygard.md": ("# Queue three\n\n## Status\n\nAccepted\n\n## Context\n\nWe deploy by three.\n", None),
    "docs/ADR/0001-queue.md": ("# Queue four\n\nWe deploy by four queues.\n", None),
    "docs/decisions/0002-queue.md": (
        "# Queue five\n\n## Status\n\nSuperseded by [ADR 7](0007-queue.md)\n\nWe deploy by five.\n",
        "superseded by ADR 7",
    ),
    "notes/deprecated.md": ("---\nstatus: Deprecated\n---\n# Queue six\n\nWe deploy by six queues.\n", "deprecated"),
    "notes/plain.md": ("# Queue seven\n\nWe deploy by seven queues.\n", ""),
    "notes/log.md": ("# Queue eight\n\n" + "We deploy by eight.\n\n" * 20 + "status: accepted\n\nA log.\n", ""),
}
"""Path → its text, and why it is stale: none where it is not, empty for age alone."""


def test_a_decision_does_not_go_stale_by_age(environment, kbhub):
    """What was accepted holds until its own word says otherwise: in hits, and in an audit."""
    for path, (text, _) in DECISIONS.items():
        file = environment.write(f"knowledge/{path}", text)
        os.utime(file, (1_500_000_000, 1_500_000_000))
    hits = {hit["path"]: hit for hit in kbhub("search", "queue deploy", "-n", "20", "--json", code=0).json["hits"]}
    audited = kbhub("audit", "--check", "stale", "--json").json["findings"]
    told = {one["path"]: one["message"] for one in audited}

    stale = {path for path, (_, why) in DECISIONS.items() if why is not None}
    assert {path: hits[path]["outdated"] for path in DECISIONS} == {
        path: why or None for path, (_, why) in DECISIONS.items()
    }
    assert {path for path in DECISIONS if hits[path]["stale"]} == stale
    assert set(told) == stale
    assert "superseded by ADR 7" in told["docs/decisions/0002-queue.md"]
