"""A setting that means nothing is said wherever it may be missed, once and in one line."""

import pytest
from mcp import Client

from kbhub.server.server import KbhubServer

FIELD = "unknown field 'repso'; did you mean 'repos'?"
WRONG = {"bases": {"notes": "~/notes"}, "repso": {"*": ["notes"]}}

COMMANDS = [
    *(["search", "rollback"], ["search", "rollback", "--json"], ["index"], ["memories"], ["bases", "list"]),
    *(["related", "rollback.md"], ["write", "new.md", "--text", "# New"]),
]
"""Such as search, list, and write."""


@pytest.fixture
def mistaken(environment):
    """A project with a document, and a global config that misspells `repos`."""
    environment.write("knowledge/rollback.md", "# Roll back\n\nRun `shop rollback`.\n")
    environment.write(f"{environment.home}/notes/a.md", "# A\n")
    environment.configure(**WRONG)
    return environment


def test_every_command_names_an_unknown_field_once_and_several_warnings_are_one_line_that_counts_them(
    mistaken, kbhub, monkeypatch
):
    for command in COMMANDS:
        said = [line for line in kbhub(*command).err.splitlines() if "unknown field" in line]
        assert said == [f"kbhub: {mistaken.home / '.kbhub.json'}: {FIELD}"]
    for command in (["status"], ["status", "--json"], ["doctor"]):
        done = kbhub(*command)
        assert "unknown field 'repso'" in done.out
        assert "unknown field" not in done.err
    monkeypatch.setenv("KBHUB_SERCH__LIMIT", "3")
    mistaken.write("knowledge/.keep", "")
    mistaken.write(".kbhub.json", '{"weight": 3}')
    (line,) = [line for line in kbhub("search", "rollback").err.splitlines() if "unknown" in line]
    assert line.endswith(f"{FIELD} 2 more; see `kbhub status`.")


def texts(results):
    return ["\n".join(part.text for part in result.content) for result in results]


@pytest.mark.anyio
@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("first", [("search", {"query": "rollback"}), ("read", {"refs": "nosuch.md"})], ids=["", "x"])
async def test_the_first_answer_of_a_session_names_it_and_no_other(mistaken, mode, first):
    async with Client(KbhubServer(mistaken.hub()), mode=mode) as client:
        results = [await client.call_tool(*first), await client.call_tool("search", {"query": "rollback"})]
    async with Client(KbhubServer(mistaken.hub()), mode=mode) as client:
        again = await client.call_tool(*first)
    said = [FIELD in text for text in texts([*results, again])]
    assert said == [True, False, True]
    assert f"Note: {mistaken.home / '.kbhub.json'}: {FIELD}" in texts(results)[0].splitlines()


@pytest.mark.anyio
@pytest.mark.usefixtures("patient")
async def test_status_names_it_once_and_what_is_structured_has_it_too(mistaken, mode):
    async with Client(KbhubServer(mistaken.hub()), mode=mode) as client:
        status = await client.call_tool("status", {})
        search = await client.call_tool("search", {"query": "rollback"})
    async with Client(KbhubServer(mistaken.hub(), structured=True), mode=mode) as client:
        structured = await client.call_tool("search", {"query": "rollback"})
    assert texts([status])[0].count(FIELD) == 1
    assert FIELD not in texts([search])[0]
    assert any(FIELD in note for note in structured.structured_content["notes"])
