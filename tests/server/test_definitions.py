"""The definitions of the tools that are kept are those that the SDK makes of the tools."""

from __future__ import annotations

import json

import pytest
from mcp.server import MCPServer

from kbhub.server.parameters import compact
from kbhub.server.server import create_server
from kbhub.server.tools import definitions
from kbhub.workspace.tool_names import ALL

pytestmark = pytest.mark.anyio


async def made_by_the_sdk(hub, *, structured):
    server = create_server(hub, structured=structured)
    server._register(ALL)
    tools = {tool.name: tool for tool in await MCPServer.list_tools(server)}
    return {name: tools[name].model_copy(update={"input_schema": compact(tools[name].input_schema)}) for name in ALL}


def sent(tools):
    return {name: tool.model_dump(mode="json", by_alias=True, exclude_none=True) for name, tool in tools.items()}


async def test_the_definitions_are_those_of_the_tools(environment):
    """A run that changes one fails, so that the change is seen."""
    made = sent(await made_by_the_sdk(environment.hub(), structured=True))
    text = json.dumps(made, ensure_ascii=False, indent=1) + "\n"
    before = definitions.FILE.read_text("utf-8") if definitions.FILE.exists() else ""
    if text != before:
        definitions.FILE.write_text(text, "utf-8")

    assert text == before, f"{definitions.FILE.name} was out of date and has been written anew; look at the difference"


@pytest.mark.parametrize("structured", [True, False])
async def test_what_is_sent_is_what_the_sdk_would_send(environment, structured):
    """With what the tools return, and without."""
    made = await made_by_the_sdk(environment.hub(), structured=structured)

    assert definitions.kept(structured=structured) == made
