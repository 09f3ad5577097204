"""Models beside the packaged one: language models of Ollama, embedders on a server, and all-MiniLM-L6-v2."""

from kbhub.workspace.extensions import Extension, commands_in

_HERE = "kbhub.extensions.models"
_REMOTE = f"{_HERE}.remote:open_remote"

_COMMANDS = """\
dev rerank | rerank | [OPTIONS] QUERY FILE…
    Order text files by how well they answer a query, using an Ollama model.
"""

EXTENSION = Extension(
    commands=commands_in(f"{_HERE}.commands:", _COMMANDS),
    searches=(f"{_HERE}.llm:search_assisted",),
    writers=(f"{_HERE}.llm:write_answer",),
    checks=(f"{_HERE}.llm:ollama_findings",),
    embedders={"ollama/": _REMOTE, "openai/": _REMOTE, "minilm": f"{_HERE}.minilm:open_minilm"},
)
