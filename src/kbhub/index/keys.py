"""Identify documents, and the texts of their chunks, in an index."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.types import Base


def document_id(base: Base, path: str) -> str:
    """Return the full docid of a document: hex digits, of which six are shown."""
    return hashlib.sha256(f"{base.path}\0{path}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def chunk_key(text: str) -> int:
    """Return the key of a text's vector: 64 bits of its SHA-256, signed."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big", signed=True)


def embedded_text(title: str, headings: Sequence[str], prose: str) -> str:
    """Return the text that is embedded for a chunk: its prose under its title and headings."""
    return "\n".join(part for part in (title, " > ".join(headings), prose) if part)
