"""The models of Ollama that the settings name: whether the server answers and has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.errors import ModelUnavailable
from kbhub.inference.deadline import Deadline
from kbhub.inference.server import Ollama
from kbhub.reports import Finding

if TYPE_CHECKING:
    from kbhub.hub import Hub

SECONDS = 3.0
"""How long the server is waited for; it answers from memory."""


def ollama_findings(hub: Hub) -> list[Finding]:
    """Check each model that the settings switch on; nothing is asked of a server that nobody wants.

    The embedder is not among them: it has a check of its own.

    Raises:
        ConfigError: the global config is wrong.
    """
    settings = hub.config().settings
    wanted: dict[str, list[str]] = {}
    for model, setting in (
        (settings.expansion.model if settings.expansion.enabled else None, "expansion"),
        (settings.rerank.model if settings.rerank.enabled else None, "rerank"),
        (settings.answers.model, "answers"),
    ):
        if model:
            wanted.setdefault(model, []).append(setting)
    server = Ollama(hub.options.env)
    return [_finding(server, model, uses) for model, uses in wanted.items()]


def _finding(server: Ollama, model: str, uses: list[str]) -> Finding:
    purpose = " and ".join(f"`{one}`" for one in uses)
    try:
        server.digest(model, Deadline(SECONDS))
    except ModelUnavailable as error:
        message = f"{purpose} cannot be used: {error}"
        remedy = f"See to that, or take {purpose} out of the config; kbhub goes on without."
        return Finding(check="ollama", level="warning", message=message, remedy=remedy)
    return Finding(check="ollama", level="ok", message=f"{server.where} has {model!r}, for {purpose}")
