"""A client that is connected hears that there are other tools or resources now, in the way of its era."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.types import ListRootsResult, Root, RootsListChangedNotification

from kbhub.server.client import Announcer
from kbhub.server.server import create_server

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient")]

WAIT_SECONDS = 60
"""How long a test waits for what should come within a second."""

SOURCE = str(Path(__file__).parents[2] / "src")
SERVE = "from kbhub.hub import HubOptions; from kbhub.server.stdio import serve; serve(HubOptions(serve=True))"

ENDS = {"tools": ("ToolsListChanged", "notifications/tools/list_changed")}
ENDS["resources"] = ("ResourcesListChanged", "notifications/resources/list_changed")
"""What a client of each era hears, per list."""


@pytest.fixture
def shop(environment):
    """A project with a document, and a folder that no config names yet."""
    environment.write("knowledge/deploy.md", "# Deploy\n")
    environment.write(environment.home / "notes" / "zebra.md", "# Zebra\n")
    environment.hub().sync()  # or its first documents would be announced, too
    return environment


class Ears:
    """What a client was told of lists: names of lists, in order."""

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[str](100)

    def hear(self, name):
        for told, names in ENDS.items():
            if name in names:
                self._send.send_nowait(told)

    async def until(self, *wanted):
        left = set(wanted)
        with anyio.fail_after(WAIT_SECONDS):
            while left:
                left.discard(await self._receive.receive())

    def rest(self):
        return self._receive.statistics().current_buffer_used

    def close(self):
        self._send.close()
        self._receive.close()


@asynccontextmanager
async def listening(server, mode, **options):
    """Connect a client that listens as clients of its era do; the server has begun to watch."""
    ears = Ears()

    async def handler(message):
        if mode == "legacy":  # the SDK's client passes on here what comes for a subscription, too
            ears.hear(getattr(message, "method", ""))

    async def listen(subscription):
        async for event in subscription:
            ears.hear(type(event).__name__)

    try:
        async with Client(server, mode=mode, message_handler=handler, **options) as client:
            if mode == "legacy":
                await client.list_tools()
                yield client, ears
                return
            async with (
                client.listen(tools_list_changed=True, resources_list_changed=True) as subscription,
                anyio.create_task_group() as group,
            ):
                group.start_soon(listen, subscription)
                await client.list_tools()
                yield client, ears
                group.cancel_scope.cancel()
    finally:
        ears.close()


def configure(shop, **settings):
    """Write the global config with the second base, the way an editor saves."""
    config = {"bases": {"notes": "~/notes"}, "repos": {"*": ["notes"]}, **settings}
    shop.write(shop.home / ".kbhub.json.new", json.dumps(config)).replace(shop.home / ".kbhub.json")


def over_stdio(shop):
    return StdioServerParameters(
        command=sys.executable, args=["-c", SERVE], env={**shop.env, "PYTHONPATH": SOURCE}, cwd=shop.project
    )


@pytest.mark.parametrize("way", ["memory", pytest.param("stdio", marks=pytest.mark.slow)])
async def test_a_base_that_the_config_names_now_is_announced(shop, mode, way):
    server = create_server(shop.hub()) if way == "memory" else over_stdio(shop)
    async with listening(server, mode) as (client, ears):
        configure(shop)
        await ears.until("resources")
        found = await client.call_tool("search", {"query": "zebra"})

    assert "notes@zebra.md" in found.content[0].text


async def test_writing_tools_that_come_or_go_are_announced(shop, mode):
    configure(shop)
    shop.hub().sync()  # or documents would come, too
    async with listening(create_server(shop.hub()), mode) as (_, ears):
        configure(shop, readOnly=True)
        await ears.until("tools")
        assert ears.rest() == 0
        configure(shop, readOnly=False)
        await ears.until("tools")
        configure(shop, tools=["search"])
        await ears.until("tools")


async def test_the_first_base_that_can_be_written_is_announced(shop, mode):
    configure(shop, docsFallback=False, tools="all")
    (shop.project / "knowledge").rename(shop.project / "elsewhere")
    shop.hub().sync()
    async with listening(create_server(shop.hub()), mode) as (_, ears):
        configure(shop, docsFallback=False, tools="all", bases={"notes": {"knowledge": "~/notes", "writable": True}})
        await ears.until("tools")
        assert ears.rest() == 0


async def test_what_changes_nothing_is_not_announced(shop, mode):
    configure(shop)
    shop.hub().sync()  # or documents come to light meanwhile, which is announced
    server = create_server(shop.hub())
    async with listening(server, mode) as (client, ears):
        told = []
        announce = server.announcer.look
        for text in (
            "{",
            json.dumps({"bases": {"notes": "~/notes"}, "repos": {"*": ["notes"]}, "search": {"limit": 9}}),
        ):
            (shop.home / ".kbhub.json").write_text(text)
            server.hub._discovered = None
            await anyio.to_thread.run_sync(announce)
            told.append(ears.rest())
        await client.call_tool("status", {})

    assert told == [0, 0]


async def test_the_end_of_a_connection_does_not_wait_for_a_client_that_reads_nothing(shop):
    class Deaf:
        async def send_resource_list_changed(self):
            await anyio.sleep_forever()

    announcer = Announcer(shop.hub())
    with anyio.fail_after(WAIT_SECONDS):
        async with announcer.connection():
            announcer._session = Deaf()
            configure(shop)
            announcer._hub._discovered = None
            await anyio.to_thread.run_sync(announcer.look)
    configure(shop, bases={"notes": "~/notes", "more": "~"}, repos={"*": ["more"]})
    announcer._hub._discovered = None
    await anyio.to_thread.run_sync(announcer.look)  # nobody is there


async def test_roots_that_change_are_asked_for_again(shop):
    other = shop.write(shop.home / "other" / "knowledge" / "giraffe.md", "# Giraffe\n").parent.parent
    (other / ".git").mkdir()
    roots = [Root(uri=shop.project.as_uri())]
    asked = []

    async def answer(_context):
        asked.append(str(roots[0].uri))
        return ListRootsResult(roots=list(roots))

    server = create_server(shop.hub(cwd=shop.home))
    async with listening(server, "legacy", list_roots_callback=answer) as (client, ears):
        before = (await client.call_tool("search", {"query": "giraffe"})).content[0].text
        roots[0] = Root(uri=other.as_uri())
        await client.session.send_notification(RootsListChangedNotification())
        await client.call_tool("status", {})
        after = (await client.call_tool("search", {"query": "giraffe"})).content[0].text
        await ears.until("resources")

    assert "giraffe.md" not in before
    assert "1. giraffe.md" in after
    assert asked == [shop.project.as_uri(), other.as_uri()]


async def test_roots_that_change_do_not_count_where_something_else_names_the_workspace(shop):
    asked = []

    async def answer(_context):
        asked.append(1)
        return ListRootsResult(roots=[])

    async with listening(create_server(shop.hub()), "legacy", list_roots_callback=answer) as (client, _):
        await client.session.send_notification(RootsListChangedNotification())
        found = await client.call_tool("search", {"query": "deploy"})

    assert asked == []
    assert "1. deploy.md" in found.content[0].text
