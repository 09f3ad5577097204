"""Modules that a search loads when it comes to need them: loaded before one is asked for, where there is time."""

from __future__ import annotations

from importlib import import_module

MODULES = (
    "kbhub.search",
    "kbhub.surroundings",
    "kbhub.spelling",
    "kbhub.index.postings",
    "kbhub.index.texts",
    "kbhub.index.vocabulary",
    "kbhub.query_vectors",
    "kbhub.opening",
    "kbhub.sync",
    "kbhub.limits",
)


def load() -> None:
    """Load them."""
    for module in MODULES:
        import_module(module)
