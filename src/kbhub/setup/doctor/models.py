"""Checks of the configured Ollama models: whether the server answers and has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.errors import ModelUnavailable
from kbhub.models.inference.deadline import Deadline
from kbhub.models.inference.server import Ollama
from kbhub.reading.reports import Finding

if TYPE_CHECKING:
    from kbhub.hub import Hub

SECONDS = 3.0
"""Timeout of a request; the server answers from memory."""


def ollama_findings(hub: Hub) -> list[Finding]:
    """Check each Ollama model that is switched on, except the embedder, which has its own check.

    Raises:
        ConfigError: the global config is invalid.
    """
    settings = hub.config().settings
    models: dict[str, list[str]] = {}
    for model, setting in (
        (settings.expansion.model if settings.expansion.enabled else None, "expansion"),
        (settings.rerank.model if settings.rerank.enabled else None, "rerank"),
        (settings.answers.model, "answers"),
    ):
        if model:
            models.setdefault(model, []).append(setting)
    server = Ollama(hub.options.env)
    return [_finding(server, model, uses) for model, uses in models.items()]


def _finding(server: Ollama, model: str, uses: list[str]) -> Finding:
    purpose = " and ".join(f"`{use}`" for use in uses)
    try:
        server.digest(model, Deadline(SECONDS))
    except ModelUnavailable as error:
        message = f"{purpose} cannot be used: {error}"
        remedy = f"See to that, or take {purpose} out of the config; kbhub goes on without."
        return Finding(check="ollama", level="warning", message=message, remedy=remedy)
    return Finding(check="ollama", level="ok", message=f"{server.where} has {model!r}, for {purpose}")
