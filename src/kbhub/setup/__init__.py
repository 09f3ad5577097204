"""Register the server with the MCP clients on a machine, and tell agents to use it."""
