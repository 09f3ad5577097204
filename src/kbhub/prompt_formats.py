"""What embedding models want to stand before a query and before a document; without it they find much less."""

from __future__ import annotations

import hashlib

from kbhub.values import struct

FORMAT_DIGITS = 8
"""Hex digits that tell one format from another in a fingerprint."""


@struct
class PromptFormat:
    """What stands before the texts that a model embeds."""

    query: str = ""
    document: str = ""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the vectors of the same texts would."""
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
"""Beginning of a model's name → its format, as the model's own card has it; the first that fits counts."""


def format_of(model: str) -> PromptFormat:
    """Give the format of a model.

    Args:
        model: its name, as `hf.co/Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0` or `embeddinggemma:latest`.

    Returns:
        The format; an empty one for models that want none, and for unknown ones.
    """
    name = model.rpartition("/")[2].partition(":")[0].casefold().removeprefix("text-embedding-")
    return next((wanted for start, wanted in FORMATS.items() if name.startswith(start)), PromptFormat())
