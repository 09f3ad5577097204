"""Questions that the server asks the user through the client: all memories, and a pointer out of the project."""

import json

import anyio
import pytest
from mcp import Client
from mcp.types import ElicitResult

import kbhub.server.client
from kbhub.memory.changes import remember
from kbhub.memory.lists import memories
from kbhub.server.server import KbhubServer

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient", "no_pause")]


class User:
    """Who is asked: what they were shown, and what they say."""

    def __init__(self, *says):
        self.says, self.asked = list(says), []

    async def __call__(self, _context, params):
        self.asked.append(params.message)
        said = self.says.pop(0)
        if said is None:
            await anyio.sleep_forever()
        return ElicitResult(action=said, content={} if said == "accept" else None)


@pytest.fixture
def remembering(environment):
    """A project with two memories."""
    environment.write("knowledge/a.md", "# Zebra\n")
    hub = environment.hub()
    remember(hub, "The lighthouse blinks twice a minute.")
    remember(hub, "Crates of herring leave on Mondays.")
    return environment


@pytest.fixture
def clone(environment):
    """A clone whose pointer leads to notes of the user's that nobody allowed."""
    environment.write(f"{environment.home}/notes/zebra.md", "# Zebra\n\nThe zebra crosses at noon.\n")
    environment.write(".kbhub.json", json.dumps({"knowledge": f"{environment.home}/notes"}))
    return environment


async def told(environment, mode, user, tool, **arguments):
    """Call a tool in a conversation of its own; give the text, and whether it failed."""
    async with Client(KbhubServer(environment.hub()), mode=mode, elicitation_callback=user) as client:
        result = await client.call_tool(tool, arguments)
    return result.content[0].text, result.is_error


async def test_all_memories_are_forgotten_after_a_yes_and_none_after_a_no(remembering, mode):
    for says in ("decline", "cancel"):
        text, failed = await told(remembering, mode, User(says), "forget", everything=True)
        assert failed
        assert "did not allow it" in text
        assert memories(remembering.hub()).total == 2
    user = User("accept")
    text, failed = await told(remembering, mode, user, "forget", everything=True)
    assert not failed, text
    (question,) = user.asked
    assert "all 2 memories (those of this project)" in question
    assert memories(remembering.hub()).total == 0


async def test_nothing_is_forgotten_while_nobody_answers(remembering, monkeypatch):
    monkeypatch.setattr(kbhub.server.client, "ANSWER_SECONDS", 0.2)
    _, failed = await told(remembering, "legacy", User(None), "forget", everything=True)
    assert failed
    assert memories(remembering.hub()).total == 2


async def test_a_pointer_is_followed_after_a_yes(clone, mode):
    user = User("accept")
    for _ in range(2):
        text, _ = await told(clone, mode, user, "search", query="when does the zebra cross")
        assert "zebra.md" in text
    (question,) = user.asked
    assert f"{clone.home}/notes" in question
    assert ".kbhub.json" in question


async def test_a_pointer_that_was_refused_is_not_asked_about_again(clone, mode):
    user = User("decline")
    for _ in range(2):
        text, _ = await told(clone, mode, user, "search", query="zebra")
        assert "zebra.md" not in text
    assert len(user.asked) == 1
    hub = clone.hub()
    (grant,) = hub.trust.entries()
    assert (grant.use, grant.target) == ("refused", clone.home / "notes")
    assert "kbhub base trust" in hub.discovery().problem_of("project")
    hub.trust.add(grant.pointer, grant.target)
    assert [grant.use for grant in hub.trust.entries()] == ["knowledge"]


async def test_a_user_who_says_nothing_is_asked_once_a_connection(clone, mode):
    user = User("cancel", "cancel")
    for _ in range(2):
        async with Client(KbhubServer(clone.hub()), mode=mode, elicitation_callback=user) as client:
            for _ in range(2):
                assert "is not followed" in (await client.call_tool("status", {})).content[0].text
    assert len(user.asked) == 2
    assert clone.hub().trust.entries() == ()


async def test_only_what_was_shown_is_allowed(clone, mode):
    clone.write(f"{clone.home}/secrets/key.md", "# Zebra key\n")

    async def swap(_context, params):
        if "secrets" in params.message:
            return ElicitResult(action="cancel")
        clone.write(".kbhub.json", json.dumps({"knowledge": f"{clone.home}/secrets"}))
        return ElicitResult(action="accept", content={})

    text, _ = await told(clone, mode, swap, "search", query="zebra")
    assert "key.md" not in text
    assert clone.home / "secrets" not in [grant.target for grant in clone.hub().trust.entries()]


async def test_a_client_that_cannot_ask_is_told_the_command(clone, mode):
    notes = clone.home / "/".join(["very-long-names-of-folders"] * 7)
    notes.mkdir(parents=True)
    clone.write(".kbhub.json", json.dumps({"knowledge": str(notes)}))
    assert "kbhub base trust" in (await told(clone, mode, None, "status"))[0]
