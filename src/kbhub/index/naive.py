"""The baseline that search has to beat: one FTS5 table, any of the query's words, BM25 as SQLite has it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORD = re.compile(r"\w+")


class NaiveIndex:
    """Texts in memory, stemmed by FTS5's `porter` and nothing else done to them.

    Args:
        texts: what is searched.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._connection = apsw.Connection(":memory:")
        self._connection.execute("CREATE VIRTUAL TABLE naive USING fts5(text, tokenize='porter unicode61')")
        rows = ((number, text.replace("\0", " ")) for number, text in enumerate(texts))
        self._connection.executemany("INSERT INTO naive(rowid, text) VALUES (?, ?)", rows)

    def rank(self, query: str, limit: int) -> list[tuple[int, float]]:
        """Give (number of the text, BM25 score), best first, for the texts that hold any word of a query.

        Args:
            query: any string.
            limit: texts to give.
        """
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
        """Give the memory back."""
        self._connection.close()
