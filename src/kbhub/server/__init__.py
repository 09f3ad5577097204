"""The MCP server: tools, resources, prompts, over stdio and HTTP.

Comes in: messages of a client. Goes out: answers and notifications.
Must not know: how anything is found or kept; it translates.
"""
