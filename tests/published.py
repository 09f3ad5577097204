"""What kbhub publishes about its tools as JSON Schema, with descriptions for people, which no conversation pays for."""

from __future__ import annotations

import anyio
from mcp import Client
from mcp.server import MCPServer

from kbhub.server.parameters import compact
from kbhub.server.server import create_server
from kbhub.workspace.tool_names import ALL


def published_tools(hub):
    """Definitions of all tools by their names, whatever is offered; with output schemas."""
    return anyio.run(listed, hub)


async def listed(hub):
    """The same, within an event loop."""
    server = create_server(hub, structured=True)
    async with Client(server) as client:
        await client.list_tools()
        server._register(ALL)
        tools = await MCPServer.list_tools(server)
    return {
        tool.name: tool.model_copy(update={"input_schema": compact(tool.input_schema, whole=True)}) for tool in tools
    }
