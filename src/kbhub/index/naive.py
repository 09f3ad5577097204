"""The baseline that search must beat: one FTS5 table, any of the query's words, SQLite's BM25."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORD = re.compile(r"\w+")


class NaiveIndex:
    """Texts in memory, stemmed by FTS5's `porter` and otherwise unprocessed."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._connection = apsw.Connection(":memory:")
        self._connection.execute("CREATE VIRTUAL TABLE naive USING fts5(text, tokenize='porter unicode61')")
        rows = ((number, text.replace("\0", " ")) for number, text in enumerate(texts))
        self._connection.executemany("INSERT INTO naive(rowid, text) VALUES (?, ?)", rows)

    def rank(self, query: str, limit: int) -> list[tuple[int, float]]:
        """Return (number of the text, BM25 score), best first, of the texts with any word of a query."""
        words = dict.fromkeys(_WORD.findall(query))
        if not words:
            return []
        expression = " OR ".join(f'"{word}"' for word in words)
        rows = self._connection.execute(
            "SELECT rowid, -bm25(naive) FROM naive WHERE naive MATCH ? ORDER BY bm25(naive), rowid LIMIT ?",
            (expression, limit),
        )
        return [(int(number), float(score)) for number, score in rows]

    def close(self) -> None:
        """Release the memory."""
        self._connection.close()
