"""The chunks that match a query: selected by its filters, and scored by BM25, as columns.

The functions that take an index need it within a snapshot; a selection of None is everything.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import apsw
import numpy as np

from kbhub.documents.filters import Rule, parse_rules
from kbhub.index.engine import DATED, K1, B, Index, Key, Place, Selection, numbers
from kbhub.index.query import parser
from kbhub.index.signatures import Postings
from kbhub.values import DAY_SECONDS, struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

Places = Callable[[Sequence[Key]], Mapping[Key, Place]]
"""Returns the positions of chunks."""

_WILD = re.compile(r"[*?\[]")

_SPELLINGS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
"""YAML's other spellings of true and false."""

Condition = tuple[str, list[Any]]
"""SQL on the table `document`, and its values."""


def select(
    index: Index,
    names: Collection[str],
    filters: Sequence[parser.Filter],
    excluded: Sequence[parser.Term],
    now: float,
    elsewhere: Sequence[str] = (),
) -> Selection | None:
    """Apply filters and exclusions (of chunks, titles, paths and tags) to a base; return None if everything matches.

    `names` are its ids, for `base:`, `now` seconds since the epoch, for `age:`, and `elsewhere` paths of another base.
    """
    if not (filters or excluded or elsewhere):
        return None
    folded = {parser.fold(name) for name in names}
    for part in filters:
        if part.key == "base":
            named = any(value.text == parser.ANY or parser.fold(value.text) in folded for value in part.values)
            if named == part.excluded:
                return Selection(array("q"), 0)
    conditions = [_condition(index, part, now) for part in filters if part.key != "base"]
    if excluded:
        documents = index.columns().documents
        found = [documents[index.postings(term).positions] for term in excluded]
        conditions.append(("id NOT IN @ids", [np.unique(np.concatenate(found))]))
    filtered = bool(conditions)
    if elsewhere:
        conditions.append(("path NOT IN @texts", [list(elsewhere)]))
    if not conditions:
        return None
    sql, values = _joined("AND", conditions)
    rows, columns = index.rows(f"SELECT id FROM document WHERE {sql}", *values), index.columns()
    mask = np.isin(columns.documents, np.array([number for (number,) in rows], np.int32)) & columns.alive
    return Selection(array("q", columns.ids[mask].tolist()), len(np.unique(columns.documents[mask])), filtered)


def paths_of(index: Index, selection: Selection | None) -> list[str]:
    """Return the paths of the selected documents."""
    documents = np.unique(index.columns().documents[index.selected(selection)])
    return [path for (path,) in index.rows("SELECT path FROM document WHERE id IN @ids", numbers(documents))]


def known_keys(index: Index, keys: Iterable[str]) -> frozenset[str]:
    """Return those folded keys that occur in the front matter of an index's documents."""
    rows = index.rows("SELECT DISTINCT key FROM property WHERE key IN @texts", sorted(keys))
    return frozenset(key for (key,) in rows)


def newest(index: Index, selection: Selection | None, limit: int) -> list[tuple[int, int]]:
    """Return (id of the first chunk, seconds since the epoch) of the newest documents, ties by path."""
    columns, mask = index.columns(), index.selected(selection)
    documents, first = np.unique(columns.documents[mask], return_index=True)
    rows = index.rows(f"SELECT id, {DATED}, path FROM document WHERE id IN @ids", numbers(documents))
    first_of = dict(zip(documents.tolist(), columns.ids[mask][first].tolist(), strict=True))
    rows.sort(key=lambda row: (-row[1], row[2]))
    return [(first_of[number], dated) for number, dated, _ in rows[:limit]]


def _condition(index: Index, part: parser.Filter, now: float) -> Condition:
    if part.key == "path":
        sql, values = _joined("OR", [_path(index, value.text) for value in part.values])
    elif part.key == "kind":
        kinds = [parser.fold(value.text) for value in part.values]
        sql, values = ("true", []) if parser.ANY in kinds else ("kind IN @texts", [kinds])
    elif part.key == "age":
        age = f"@greatest(0, (? - {DATED}) / {DAY_SECONDS})"
        sql, values = _joined("OR", [_compared(value, age, [int(now)], parser.days_of) for value in part.values])
    else:
        # The key in each alternative, or SQLite would go through all values of the key.
        rows = [condition for value in part.values for condition in _properties(part.key, value)]
        true, values = _joined("OR", [(f"key = ? AND ({sql})", [part.key, *values]) for sql, values in rows])
        sql = f"id IN (SELECT document_id FROM property WHERE @each key IN @texts AND ({true}))"
        values = [[part.key], *values]
    return (f"NOT ({sql})" if part.excluded else sql), values


def _joined(word: str, conditions: Sequence[Condition]) -> Condition:
    sql = f" {word} ".join(f"({sql})" for sql, _ in conditions)
    return sql, [value for _, values in conditions for value in values]


def _path(index: Index, value: str) -> Condition:
    """A path prefix, or with `*`, `?` or `[` a pattern as in `.gitignore`, which has all below a matching folder."""
    prefix = parser.fold(value).removeprefix("./").lstrip("/")
    rules: Sequence[Rule] = ()
    if _WILD.search(prefix):
        # An unescaped mark would make it a comment or a negation.
        rules = parse_rules([f"\\{prefix}" if prefix[0] in "#!" else prefix.removesuffix("/")], "path")
    elif prefix.isascii():
        return "substr(lower(path), 1, ?) = ?", [len(prefix), prefix]
    paths = [(number, parser.fold(path)) for number, path in index.rows("SELECT id, path FROM document")]
    test = rules[0].regex.search if rules else re.compile(re.escape(prefix)).match
    return "id IN @ids", [numbers([number for number, path in paths if test(path)])]


def _properties(key: str, value: parser.FilterValue) -> list[Condition]:
    """Return alternative conditions on a row of the table `property` with the right key."""
    if value.operator != "=":
        # A date is compared at the precision of the value: `>2024` is after that year, `<=2024-05` includes that May.
        ends = [(sign, parser.date_of(end)) for sign, end in _ends(value)]
        compared = [(f"substr(value, 1, {len(date or '')}) {sign} ?", [date]) for sign, date in ends]
        dated = _joined("AND", [("@iso_date", []), *compared])
        return [_compared(value, "@number", [], parser.number_of), dated]
    text = parser.fold(value.text)
    if text == parser.ANY:
        return [("true", [])]
    if key in ("tag", "namespace"):
        name = " ".join(text.lstrip("#").rstrip("/").split()) if key == "tag" else text.strip("/")
        return [("value = ?", [name]), ("value > ? AND value < ?", [f"{name}/", f"{name}0"])]
    same: list[Condition] = [("value IN (?, ?)", [text, _SPELLINGS.get(text, text)])]
    if (number := parser.number_of(text)) is not None:
        same.append(("@number = ?", [number]))
    if (date := parser.date_of(text)) is not None:
        same.append((f"@iso_date AND substr(value, 1, {len(date)}) = ?", [date]))
    return same


def _compared(
    value: parser.FilterValue, what: str, before: list[Any], read: Callable[[str], float | None]
) -> Condition:
    """Compare a number; false if an end is not a number."""
    return _joined("AND", [(f"{what} {sign} ?", [*before, read(end)]) for sign, end in _ends(value)])


def _ends(value: parser.FilterValue) -> list[tuple[str, str]]:
    """Return (comparison, end) for each end of a value; for an empty range, an end that nothing matches."""
    if value.operator != "..":
        return [(value.operator, value.text)]
    return [(sign, end) for sign, end in ((">=", value.text), ("<=", value.upper)) if end] or [("=", "")]


CHUNK_BITS = 44
"""Low bits of a number that hold the chunk id; the bits above hold the base. Ids are never reused, and 2^44 suffice."""

TIED = 400
"""Most chunks kept beyond the limit because they tie with the last one; their order is by place."""

NO_CHUNKS = np.zeros(0, np.int64)


@struct
class Ranking:
    """Chunks found by a signal, best first, one array per field."""

    chunks: NDArray[np.int64]
    """Chunk and base in one number: `chunk + (base << CHUNK_BITS)`."""
    documents: NDArray[np.signedinteger]
    """Ids of their documents in the base."""
    values: NDArray[np.float64]

    @classmethod
    def joined(cls, rankings: Sequence[Ranking]) -> Self:
        """Concatenate the rankings of several bases, unordered."""
        if not rankings:
            return cls(NO_CHUNKS, NO_CHUNKS, np.zeros(0))
        columns = zip(*map(attrgetter("chunks", "documents", "values"), rankings), strict=True)
        return cls(*map(np.concatenate, columns))

    def best(self, limit: int, places: Places) -> Ranking:
        """Sort unordered chunks, ties by place, and keep the best."""
        kept = np.arange(len(self.chunks))
        if len(kept) > limit:
            kept = np.flatnonzero(self.values >= np.partition(self.values, -limit)[-limit])
        order = kept[best_first(self.chunks[kept], self.values[kept], places)[:limit]]
        return Ranking(self.chunks[order], self.documents[order], self.values[order])


def keys_of(chunks: NDArray[np.int64]) -> list[Key]:
    """Split chunk numbers into (number of the base, chunk id)."""
    bases, ids = chunks >> CHUNK_BITS, chunks & ((1 << CHUNK_BITS) - 1)
    return list(zip(bases.tolist(), ids.tolist(), strict=True))


def spread(
    documents: NDArray[np.signedinteger], values: NDArray[np.float64], limit: int, each: int | None
) -> NDArray[np.int64]:
    """Return the unordered indices of the best chunks of a base, at most `each` of a document (None: any number).

    At least `limit`, and all better than the worst of them, except those over a document's limit and ties over `TIED`.
    """
    count = limit
    while True:
        kept = np.arange(len(values))
        if len(values) > count:
            last = np.partition(values, -count)[-count]
            kept = np.concatenate([np.flatnonzero(values > last), np.flatnonzero(values == last)[:TIED]])
        if each is not None and len(kept) > each:
            kept = kept[first_of_each(documents[kept], values[kept], each)]
        if len(kept) >= limit or count >= len(values):
            return kept
        count *= 4


def first_of_each(documents: NDArray[np.signedinteger], values: NDArray[np.float64], each: int) -> NDArray[np.int64]:
    """Return the indices of the `each` best chunks of each document; larger values are better."""
    order = np.lexsort((-values, documents))
    ordered = documents[order]
    index = np.arange(len(order))
    # Distance of each from the first of its document.
    begins = np.maximum.accumulate(np.where(np.concatenate(([True], ordered[1:] != ordered[:-1])), index, 0))
    return order[index - begins < each]


def best_first(chunks: NDArray[np.int64], values: NDArray[np.float64], places: Places) -> NDArray[np.int64]:
    """Return the order of chunks: best (largest) first, ties by path, line and base, however a corpus is split."""
    order: NDArray[np.int64] = np.argsort(-values, kind="stable")
    ordered = values[order]
    equal = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(equal):
        tied = np.union1d(equal, equal + 1)
        keys = keys_of(chunks[order[tied]])
        where = places(keys)
        rows = zip(ordered[tied].tolist(), keys, order[tied].tolist(), strict=True)
        order[tied] = [row[2] for row in sorted(rows, key=lambda row: (-row[0], where[row[1]]))]
    return order


def scores(
    terms: Sequence[tuple[Postings, float]], lengths: NDArray[np.int32], mean_length: float
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Score every chunk that contains any of the terms, each given with its weight (inverse document frequency).

    Lengths are in tokens, the mean over all bases. Returns positions, ascending; scores; summed weights of its terms.
    """
    if not terms:
        return np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    positions = np.concatenate([postings.positions for postings, _ in terms])
    counts = np.concatenate([postings.counts for postings, _ in terms])
    weights = np.repeat([weight for _, weight in terms], [len(postings.positions) for postings, _ in terms])
    norm = K1 * (1 - B + (B / mean_length) * lengths[positions]) if mean_length else K1
    parts = weights * (K1 + 1) * counts / (counts + norm)
    summed: Any = np.bincount  # declared for integers only
    total = summed(positions, weights=parts)
    matching = np.flatnonzero(total)
    return matching, total[matching], summed(positions, weights=weights)[matching]


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
