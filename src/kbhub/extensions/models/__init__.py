"""Embedders on a server: Ollama's, and those of what speaks OpenAI's protocol."""

from kbhub.workspace.extensions import Extension

_REMOTE = "kbhub.extensions.models.remote:open_remote"

EXTENSION = Extension(embedders={"ollama/": _REMOTE, "openai/": _REMOTE})
