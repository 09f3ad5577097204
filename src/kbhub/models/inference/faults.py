"""Interpret the error messages of model servers."""

from __future__ import annotations

SHOWN_CHARACTERS = 200
"""Characters shown of a server's error message."""

TOO_LONG = (
    "context length",  # Ollama, OpenAI
    "too large to process",  # llama.cpp
    "maximum model length",  # vLLM
)
"""Substrings of error messages about a text that is too long for the model."""


def shown(said: str) -> str:
    """Return a server's message on one line, truncated."""
    text = " ".join(said.split())
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def is_too_long(said: str) -> bool:
    """Return whether a message says that a text is too long for the model."""
    return any(part in said.casefold() for part in TOO_LONG)
