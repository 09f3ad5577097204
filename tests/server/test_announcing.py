"""A client hears of other tools or resources, and of documents that it follows, in the way of its era."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp import Client
from mcp.types import ListRootsResult, Root, RootsListChangedNotification

import kbhub.server.client
import kbhub.sync.watch
from conftest import make_repository
from kbhub.server.client import Announcer
from kbhub.server.resources import MAX_SUBSCRIPTIONS
from kbhub.server.server import KbhubServer
from test_resources import INVALID_PARAMS, every_uri, read, refused

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("patient"),
    pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"),
]

WAIT_SECONDS = 60
"""How long a test waits for what should come within a second."""

URI = "kbhub://project/deploy.md"
LISTS = {"tools": "tools", "ToolsListChanged": "tools", "resources": "resources", "ResourcesListChanged": "resources"}
"""What clients of both eras hear, per list."""


@pytest.fixture
def shop(environment):
    """A project with documents, and a folder that no config names yet."""
    environment.write("knowledge/deploy.md", "# Deploying\n\nA canary first.")
    environment.write("knowledge/notes/one.md", "# One\n")
    environment.write(environment.home / "notes" / "zebra.md", "# Zebra\n")
    configure(environment, bases={}, repos={})
    environment.hub().sync()  # or its first documents would be announced, too
    return environment


def configure(shop, **more):
    """Write the global config with the second base, the way an editor saves."""
    config = {"bases": {"notes": "~/notes"}, "repos": {"*": ["notes"]}, "tools": "all", **more}
    shop.write(shop.home / ".kbhub.json.new", json.dumps(config)).replace(shop.home / ".kbhub.json")


class Ears(asyncio.Queue):
    """What a client was told: names of lists and addresses of documents, in order."""

    async def next(self):
        with anyio.fail_after(WAIT_SECONDS):
            return await self.get()

    async def until(self, wanted):
        while await self.next() != wanted:
            pass

    def rest(self):
        return [self.get_nowait() for _ in range(self.qsize())]


@asynccontextmanager
async def listening(server, mode, *uris, lists=True, **options):
    """Connect a client that has listed documents and tools, follows some, and listens as clients of its era do."""
    ears = Ears()

    async def handler(message):
        if mode == "legacy":  # the SDK's client passes on here what comes for a subscription, too
            method = getattr(message, "method", "")
            if method == "notifications/resources/updated":
                await ears.put(str(message.params.uri))
            elif method.endswith("list_changed"):
                await ears.put(method.split("/")[1])

    async def listen(subscription):
        async for event in subscription:
            await ears.put(getattr(event, "uri", None) or LISTS[type(event).__name__])

    async with Client(server, mode=mode, message_handler=handler, **options) as client:
        await client.list_tools()
        await every_uri(client)
        if mode == "legacy":
            for uri in uris:
                await client.subscribe_resource(uri)
            yield client, ears
            return
        wanted = {"tools_list_changed": lists, "resources_list_changed": lists, "resource_subscriptions": uris}
        async with client.listen(**wanted) as subscription, anyio.create_task_group() as group:
            group.start_soon(listen, subscription)
            yield client, ears
            group.cancel_scope.cancel()


async def test_what_changes_nothing_is_not_announced_and_a_base_that_the_config_names_now_is(shop, mode):
    server = KbhubServer(shop.hub())
    async with listening(server, mode) as (client, ears):
        for text in ("{", json.dumps({"tools": "all", "search": {"limit": 9}})):
            (shop.home / ".kbhub.json").write_text(text)
            server.hub._discovered = None
            await anyio.to_thread.run_sync(server.announcer.look)
            assert ears.rest() == []
        await client.call_tool("status", {})

    # The client hears it and finds what is in the new base, without a restart and without having asked.
    (shop.home / ".kbhub.json").unlink()
    async with listening(KbhubServer(shop.hub()), mode) as (client, ears):
        configure(shop)
        await ears.until("resources")
        found = await client.call_tool("search", {"query": "zebra"})
    assert "notes@zebra.md" in found.content[0].text


async def test_the_end_of_a_connection_does_not_wait_for_a_client_that_reads_nothing(shop):
    class Deaf:
        async def send_resource_list_changed(self):
            await anyio.sleep_forever()

    announcer = Announcer(shop.hub())
    with anyio.fail_after(WAIT_SECONDS):
        async with announcer.connection():
            announcer._sessions[None] = Deaf()
            configure(shop)
            announcer._hub._discovered = None
            await anyio.to_thread.run_sync(announcer.look)
    configure(shop, bases={"notes": "~/notes", "more": "~"}, repos={"*": ["more"]})
    announcer._hub._discovered = None
    await anyio.to_thread.run_sync(announcer.look)  # nobody is there


async def test_roots_that_change_are_asked_for_again_unless_something_else_names_the_workspace(shop):
    asked = []

    async def answer(_context):
        asked.append(1)
        return ListRootsResult(roots=[])

    async with listening(KbhubServer(shop.hub()), "legacy", list_roots_callback=answer) as (client, _):
        await client.session.send_notification(RootsListChangedNotification())
        await client.call_tool("search", {"query": "deploy"})
    assert asked == []

    # A client of the handshake era that opens another folder gets that folder's knowledge.
    other = shop.write(shop.home / "other" / "knowledge" / "giraffe.md", "# Giraffe\n").parent.parent
    make_repository(other)
    roots, asked = [Root(uri=shop.project.as_uri())], []

    async def answer(_context):
        asked.append(str(roots[0].uri))
        return ListRootsResult(roots=list(roots))

    server = KbhubServer(shop.hub(cwd=shop.home))
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


async def append(client):
    await client.call_tool("write_document", {"ref": "deploy.md", "mode": "append", "text": "More."})


async def test_a_document_that_changes_is_announced_to_who_follows_it(shop, mode):
    """By the watcher, without a call; others are not, and who follows none hears nothing."""
    followed = (URI, "kbhub://project/gone.md")
    async with listening(KbhubServer(shop.hub()), mode, *followed, lists=False) as (client, ears):
        await client.call_tool("status", {"reload": True})
        shop.write("knowledge/notes/one.md", "# Another\n")
        shop.write("knowledge/deploy.md", "# Deploying differently\n")
        assert await ears.next() == URI
        assert (await read(client, URI)).text == "# Deploying differently\n"
        assert set(ears.rest()) <= {URI}


async def test_documents_that_come_and_go_are_announced_and_many_changes_are_one_announcement(shop, mode, monkeypatch):
    """A new one and one that is deleted change the list; who follows it hears that, too."""
    uri = "kbhub://project/new.md"
    async with listening(KbhubServer(shop.hub()), mode, uri) as (client, ears):
        await client.call_tool("write_document", {"ref": "new.md", "text": "# New\n"})
        assert {await ears.next(), await ears.next()} == {"resources", uri}
        assert mode != "legacy" or uri in (await every_uri(client))[0]
        await client.call_tool("delete_document", {"ref": "new.md"})
        assert {await ears.next(), await ears.next()} == {"resources", uri}

    # A client fetches the list anew each time, so it hears of it every two seconds at most.
    monkeypatch.setattr(kbhub.server.client, "LIST_SECONDS", 3600)
    async with listening(KbhubServer(shop.hub()), mode) as (client, ears):
        for number in range(3):
            await client.call_tool("write_document", {"ref": f"n{number}.md", "text": "# New\n"})
        assert await ears.next() == "resources"
        await client.call_tool("status", {"reload": True})
        assert ears.rest() == []


async def test_what_cannot_be_followed_is_refused_and_the_first_base_that_can_be_written_is_announced(shop, mode):
    async with Client(KbhubServer(shop.hub()), mode="legacy") as client:
        error = await refused(client.subscribe_resource("file:///etc/passwd"))
        for number in range(MAX_SUBSCRIPTIONS):
            await client.subscribe_resource(f"kbhub://project/{number}.md")
        many = await refused(client.subscribe_resource(URI))
        await client.unsubscribe_resource("kbhub://project/0.md")
        await client.subscribe_resource(URI)

    assert (error.code, error.data) == (INVALID_PARAMS, {"uri": "file:///etc/passwd"})
    assert many.code == INVALID_PARAMS

    configure(shop, docsFallback=False)
    (shop.project / "knowledge").rename(shop.project / "elsewhere")
    shop.hub().sync()
    async with listening(KbhubServer(shop.hub()), mode) as (_, ears):
        configure(shop, docsFallback=False, bases={"notes": {"knowledge": "~/notes", "writable": True}})
        assert await ears.next() == "tools"
        assert ears.rest() == []


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe closes otherwise")
async def test_the_end_of_a_connection_ends_what_is_followed(shop, mode):
    """The next client of the same server follows what it asked for, and nothing else."""
    server = KbhubServer(shop.hub())
    async with listening(server, mode, URI):
        assert server.announcer.subscribed == {URI}
    async with listening(server, mode) as (client, ears):
        await append(client)
        await client.call_tool("write_document", {"ref": "new.md", "text": "# New\n"})
        assert await ears.next() == "resources"


@pytest.mark.parametrize(
    ("mounts", "told"), [([], "watched live"), ([("/", "nfs4")], "polled every 2 s: it is on nfs4")]
)
async def test_status_says_how_changes_are_noticed(shop, mode, monkeypatch, mounts, told):
    monkeypatch.setattr(kbhub.sync.watch, "_remote_mounts", lambda: mounts)
    server = KbhubServer(shop.hub())
    async with Client(server, mode=mode) as client:
        await client.call_tool("search", {"query": "deploy"})
        calls = server._opened()
        with calls.background._changed:  # the watcher has told that all is to be looked at once
            assert calls.background._changed.wait_for(lambda: calls.watcher.state("project") is not None, 60)
        assert told in (await client.call_tool("status", {})).content[0].text
