"""A server of the SDK that does nothing: the floor for starting and for memory."""

import gc

gc.disable()

from mcp.server import MCPServer  # noqa: E402

gc.enable()
gc.freeze()

server = MCPServer("bare", version="1", log_level="ERROR")


@server.tool()
def nothing() -> str:
    """Nothing."""
    return ""


if __name__ == "__main__":
    server.run()
