"""Registering the server with the MCP clients of a machine, and telling agents to use it."""
