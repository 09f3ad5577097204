"""Prefixes that embedding models expect before queries and documents; without them they find much less."""

from __future__ import annotations

import hashlib

from kbhub.values import struct

FORMAT_DIGITS = 8
"""Hex digits of a format's hash in a fingerprint."""


@struct
class PromptFormat:
    """The prefixes of a model."""

    query: str = ""
    document: str = ""

    @property
    def fingerprint(self) -> str:
        """A short hash of the prefixes."""
        return hashlib.sha256(f"{self.query}\0{self.document}".encode()).hexdigest()[:FORMAT_DIGITS]


_REPRESENT = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a search query, retrieve relevant passages that answer the query\nQuery:"

FORMATS = {
    "embeddinggemma": PromptFormat("task: search result | query: ", "title: none | text: "),
    "nomic-embed-text": PromptFormat("search_query: ", "search_document: "),
    "qwen3-embedding": PromptFormat(_INSTRUCT),
    "mxbai-embed": PromptFormat(_REPRESENT),
    "snowflake-arctic-embed2": PromptFormat("query: "),
    "snowflake-arctic-embed-l-v2": PromptFormat("query: "),
    "snowflake-arctic-embed-m-v2": PromptFormat("query: "),
    "snowflake-arctic-embed": PromptFormat(_REPRESENT),
    "bge-m3": PromptFormat(),
    "bge-": PromptFormat(_REPRESENT),
    "multilingual-e5": PromptFormat("query: ", "passage: "),
    "e5-": PromptFormat("query: ", "passage: "),
}
"""Prefix of a model's name → its format, from its model card; the first match applies."""


def format_of(model: str) -> PromptFormat:
    """Return the format of a model.

    Args:
        model: its name, such as `hf.co/Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0` or `embeddinggemma:latest`.

    Returns:
        The format; empty for models without prefixes, and for unknown ones.
    """
    name = model.rpartition("/")[2].partition(":")[0].casefold().removeprefix("text-embedding-")
    return next((prompt for prefix, prompt in FORMATS.items() if name.startswith(prefix)), PromptFormat())
