"""The tools of the MCP server, in groups; `definitions` is what clients see of them, `calls` what every call needs."""
