"""`read` as a client sees it: pages, parts of long lines, numbers, and why something cannot be read."""

from __future__ import annotations

import pytest
from mcp import Client

from kbhub.server.server import create_server
from test_server import CALL, arguments_of, text_of

pytestmark = pytest.mark.anyio


async def test_pages_of_documents_lead_to_the_last(environment, mode):
    """Every document of a pattern once, by the calls that the answers name."""
    for number in range(40):
        environment.write(f"knowledge/notes/n{number:02}.md", f"# Note {number}\n\n{'about it ' * 150}\n")
    environment.hub().sync()
    arguments, seen = {"refs": "notes/*.md"}, []
    async with Client(create_server(environment.hub()), mode=mode) as client:
        while arguments:
            text = text_of(await client.call_tool("read", arguments))
            assert len(text.encode()) <= 25_000
            seen += [line.split(" · ")[0] for line in text.splitlines() if line.startswith("notes/n")]
            last = text.splitlines()[-1]
            arguments = arguments_of(CALL.search(last)[2]) if last.startswith("Next page, of 40 documents: ") else None

    assert seen == [f"notes/n{number:02}.md" for number in range(40)]


async def test_a_long_line_is_read_on_by_the_named_call(environment, mode):
    environment.write("knowledge/wide.md", "# Wide\n\n" + "x" * 30_000)
    async with Client(create_server(environment.hub()), mode=mode) as client:
        first = text_of(await client.call_tool("read", {"refs": "wide.md"}))
        second = text_of(await client.call_tool("read", arguments_of(CALL.search(first)[2])))

    assert "lines 3-3 of 3, from character " in second
    assert first.count("x") + second.count("x") == 30_000
    assert "continues" not in second


async def test_lines_are_numbered_on_request(environment, mode):
    environment.write("knowledge/a.md", "".join(f"line {number}\n" for number in range(1, 13)))
    async with Client(create_server(environment.hub()), mode=mode) as client:
        plain = text_of(await client.call_tool("read", {"refs": "a.md:9:3"}))
        numbered = text_of(await client.call_tool("read", {"refs": "a.md:9:3", "line_numbers": True}))

    assert "```\nline 9\nline 10\nline 11\n```" in plain
    assert "```\n 9: line 9\n10: line 10\n11: line 11\n```" in numbered


async def test_a_cursor_of_other_refs_is_refused(environment, mode):
    environment.write("knowledge/a.md", "a\n")
    async with Client(create_server(environment.hub()), mode=mode) as client:
        result = await client.call_tool("read", {"refs": "a.md", "cursor": "x"})

    assert result.is_error is True
    assert text_of(result).startswith("`cursor` is not one from kbhub. Copy it in full, or read without it")
