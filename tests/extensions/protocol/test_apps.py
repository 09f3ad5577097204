"""Clients that show views get one for hits and one for memories; others get what they got before."""

import re

import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID

from kbhub.memory.changes import remember
from kbhub.server.server import KbhubServer
from test_server import text_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient")]

SHOWS = advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]})
SHOWS_OTHERS = advertise(EXTENSION_ID, {"mimeTypes": ["text/other"]})

MOST_BYTES = 150_000
"""Of a view's page."""


@pytest.fixture
def shop(environment):
    """A project with a document and a memory."""
    environment.write("knowledge/deploy.md", "# Deploying\n\nA canary <b>first</b> & <i5>.\n")
    remember(environment.hub(), "Canaries are yellow.", tags=["birds"])
    environment.hub().sync()
    return environment


async def test_a_client_that_shows_views_is_told_of_them(shop, mode):
    async with Client(KbhubServer(shop.hub()), mode=mode, extensions=[SHOWS]) as client:
        tools = (await client.list_tools()).tools
        views = {tool.name: tool.meta["ui"]["resourceUri"] for tool in tools if "ui" in (tool.meta or {})}
        assert views == {"search": "ui://kbhub/search", "memories": "ui://kbhub/memories"}
        for address in views.values():
            (page,) = (await client.read_resource(address)).contents
            assert page.mime_type == APP_MIME_TYPE
            assert len(page.text.encode()) <= MOST_BYTES
            assert "src=" not in page.text
            assert "href=" not in page.text
            assert page.text.lstrip().startswith("<!doctype html>")


async def test_hits_come_with_their_traces_and_memories_to_be_reviewed(shop, mode):
    async with Client(KbhubServer(shop.hub()), mode=mode, extensions=[SHOWS]) as client:
        answer = await client.call_tool("search", {"query": "canary"})
    async with Client(KbhubServer(shop.hub()), mode=mode, extensions=[SHOWS_OTHERS]) as client:
        plain = await client.call_tool("search", {"query": "canary"})
        (tool,) = [tool for tool in (await client.list_tools()).tools if tool.name == "search"]

    html = answer.meta["kbhub/html"]
    assert "A <mark>canary</mark> first &amp; &lt;i5&gt;" in html
    assert 'class="part-keyword"' in html
    assert "<b>first" not in html
    # Notes say what is still being indexed.
    told, before = (re.sub(r"\nNote:.*", "", text_of(one)) for one in (answer, plain))
    assert told == before
    assert "kbhub/html" not in (plain.meta or {})
    assert "ui" not in tool.meta

    # With a button for each tool that a review needs, unless nothing may be written.
    async with Client(KbhubServer(shop.hub()), mode=mode, extensions=[SHOWS]) as client:
        html = (await client.call_tool("memories", {})).meta["kbhub/html"]
    async with Client(KbhubServer(shop.hub(read_only=True)), mode=mode, extensions=[SHOWS]) as client:
        closed = (await client.call_tool("memories", {})).meta["kbhub/html"]
    assert "Canaries are yellow" in html
    assert 'data-call="forget"' in html
    assert 'data-call="forget"' not in closed
