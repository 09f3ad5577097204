"""Extensions of the protocol: views of results (MCP Apps, SEP-1865), and skills (SEP-2640)."""

from kbhub.workspace.extensions import Extension

_SERVER = "kbhub.extensions.protocol.server"

EXTENSION = Extension(server=(f"{_SERVER}:Apps", f"{_SERVER}:Skills"))
