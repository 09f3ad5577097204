"""A call that waits for a first index becomes a task, where the client takes tasks (SEP-2663)."""

from __future__ import annotations

import anyio
import pytest
from filelock import FileLock
from mcp import Client, MCPError
from mcp.client.extension import advertise
from mcp.types import METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY, CreateMessageResult, Request, TextContent
from pydantic import BaseModel, ConfigDict

import kbhub.server.tasks
from ask_documents import QUESTION, write_documents
from kbhub.server.server import create_server
from kbhub.server.tasks import IDENTIFIER

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient")]

ACCEPTS = [advertise(IDENTIFIER)]
SECONDS = 60


class Result(BaseModel):
    """Whatever the server answers."""

    model_config = ConfigDict(extra="allow")


async def ask(client, method, **params):
    """Send a request; give the result as sent."""
    return (await client.session.send_request(Request[dict, str](method=method, params=params), Result)).model_dump()


async def call(client, tool, **arguments):
    return await ask(client, "tools/call", name=tool, arguments=arguments)


async def until(client, task, *states):
    """Ask for a task until it is in one of some states."""
    with anyio.fail_after(SECONDS):
        while (state := await ask(client, "tasks/get", taskId=task["taskId"]))["status"] not in states:
            await anyio.lowlevel.checkpoint()
    return state


@pytest.fixture
def held(environment, monkeypatch):
    """A project whose first index another process is making: a lock, to be let go."""
    monkeypatch.setattr(kbhub.server.tasks, "AT_ONCE_SECONDS", 0.2)
    monkeypatch.setattr(kbhub.server.tasks, "LOOK_SECONDS", 0.05)
    write_documents(environment)
    hub = environment.hub()
    (base, *_) = hub.select()
    path = hub.index(base).path
    path.parent.mkdir(parents=True)
    lock = FileLock(f"{path}.lock")
    lock.acquire()
    yield lock
    lock.release()


async def test_a_search_that_waits_for_a_first_index_is_a_task(environment, held):
    """It is answered at once, says how far it is, and has the whole answer in the end."""
    async with Client(create_server(environment.hub()), extensions=ACCEPTS) as client:
        task = await call(client, "search", query="roll back a release")
        working = await ask(client, "tasks/get", taskId=task["taskId"])
        held.release()
        done = await until(client, task, "completed", "failed")

    assert (task["resultType"], task["status"]) == ("task", "working")
    assert working["status"] == "working"
    assert "ndex" in working["statusMessage"]
    assert "result" not in working
    assert done["status"] == "completed"
    assert "Rolling back a release" in done["result"]["content"][0]["text"]
    assert done["ttlMs"] >= 60_000


async def test_what_does_not_wait_is_answered_as_ever(environment, held):
    """`status` says what is under way, and a base that is indexed is no reason to wait."""
    async with Client(create_server(environment.hub()), extensions=ACCEPTS) as client:
        status = await call(client, "status")
        wrong = await call(client, "search", query="x", bases=["none"])
        task = await call(client, "search", query="release")
        held.release()
        first = await until(client, task, "completed")
        later = await call(client, "search", query="release")

    assert status["resultType"] == wrong["resultType"] == later["resultType"] == "complete"
    assert wrong["isError"]
    assert first["result"]["content"] == later["content"]


async def test_a_task_that_is_cancelled_stays_so(environment, held):
    """And can be cancelled twice."""
    async with Client(create_server(environment.hub()), extensions=ACCEPTS) as client:
        task = await call(client, "search", query="release")
        for _ in range(2):
            await ask(client, "tasks/cancel", taskId=task["taskId"])
        held.release()
        state = await until(client, task, "cancelled", "completed")

    assert state["status"] == "cancelled"
    assert "result" not in state


async def test_a_task_asks_the_clients_model(environment, held):
    """`ask` goes on when the client has sent what its model wrote."""

    async def model(_context, _params):
        raise AssertionError("a task asks by its state")

    async with Client(create_server(environment.hub()), extensions=ACCEPTS, sampling_callback=model) as client:
        task = await call(client, "ask", question=QUESTION)
        held.release()
        asked = await until(client, task, "input_required", "completed", "failed")
        ((key, request),) = asked["inputRequests"].items()
        content = TextContent(type="text", text="Roll back first [1].")
        written = CreateMessageResult(role="assistant", model="m", content=content)
        sent = written.model_dump(mode="json", by_alias=True, exclude_none=True)
        await ask(client, "tasks/update", taskId=task["taskId"], inputResponses={key: sent, "other": {}})
        done = await until(client, task, "completed", "failed")

    assert request["method"] == "sampling/createMessage"
    assert "written by your own model (m)" in done["result"]["content"][0]["text"]


async def test_a_client_without_tasks_gets_what_there_is(environment, held, mode, monkeypatch):
    """When nothing gets nearer any more; and the methods say what is missing."""
    monkeypatch.setattr("kbhub.sync.freshness.STALLED_SECONDS", 0.1)
    async with Client(create_server(environment.hub()), mode=mode) as client:
        found = await client.call_tool("search", {"query": "release"})
        with pytest.raises(MCPError) as raised:
            await ask(client, "tasks/get", taskId="x")

    assert "project is still being indexed" in found.content[0].text
    code = MISSING_REQUIRED_CLIENT_CAPABILITY if mode == "auto" else METHOD_NOT_FOUND
    assert raised.value.error.code == code


async def test_tasks_are_not_shared_and_not_kept_for_ever(environment, held, monkeypatch):
    """A task is of one connection; what is too old, or unknown, is said to be gone."""
    hub = environment.hub()
    async with Client(create_server(hub), extensions=ACCEPTS) as client:
        task = await call(client, "search", query="release")
        async with Client(create_server(hub), extensions=ACCEPTS) as other:
            with pytest.raises(MCPError, match="No such task"):
                await ask(other, "tasks/get", taskId=task["taskId"])
        monkeypatch.setattr(kbhub.server.tasks, "KEPT", kbhub.server.tasks.timedelta(0))
        with pytest.raises(MCPError, match="No such task"):
            await ask(client, "tasks/get", taskId=task["taskId"])


async def test_there_is_a_limit_to_tasks(environment, held, monkeypatch):
    """Beyond it calls wait as they do for clients without tasks."""
    monkeypatch.setattr(kbhub.server.tasks, "MOST_TASKS", 1)
    monkeypatch.setattr("kbhub.sync.freshness.STALLED_SECONDS", 0.1)
    async with Client(create_server(environment.hub()), extensions=ACCEPTS) as client:
        first = await call(client, "search", query="release")
        second = await call(client, "search", query="release")

    assert [first["resultType"], second["resultType"]] == ["task", "complete"]
