"""Modules that calls load when they come to need them: loaded before one is asked for, where there is time."""

from __future__ import annotations

from importlib import import_module

MODULES = (
    "kbhub.query",
    "kbhub.ranking",
    "kbhub.confidence",
    "kbhub.identifiers",
    "kbhub.nested",
    "kbhub.rarity",
    "kbhub.spelling",
    "kbhub.index.looks",
    "kbhub.index.selection",
    "kbhub.index.staleness",
    "kbhub.index.texts",
    "kbhub.index.vocabulary",
    "kbhub.opening",
    "kbhub.sync",
    "kbhub.limits",
)
"""Of what a first search needs, all that does without numpy, which takes more memory than the rest together and waits
until something is searched for: many a server never is asked."""


def load() -> None:
    """Load them."""
    for module in MODULES:
        import_module(module)
