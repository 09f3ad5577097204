"""What model servers say about their failures."""

from __future__ import annotations

SHOWN_CHARACTERS = 200
"""Of what a server says about its failure."""

TOO_LONG = (
    "context length",  # Ollama, OpenAI
    "too large to process",  # llama.cpp
    "maximum model length",  # vLLM
)
"""Parts of what servers say when a text is longer than the model takes."""


def shown(said: str) -> str:
    """Give what a server said as part of a sentence."""
    text = " ".join(said.split())
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def is_too_long(said: str) -> bool:
    """Say whether a server reports that a text is longer than its model takes."""
    return any(part in said.casefold() for part in TOO_LONG)
