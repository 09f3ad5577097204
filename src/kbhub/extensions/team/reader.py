"""Reader of a shared base: the tables of an index file, as functions of a database return them (`functions.sql`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbhub.errors import EngineUnavailable, IndexUnavailable
from kbhub.extensions.team.bases import opened
from kbhub.extensions.team.blocks import MOST_BYTES, MOST_PLACES, Block, listed, occurrences, phrase, stored
from kbhub.extensions.team.schema import LARGEST_ID, MOST_DIMENSIONS, checked, checked_meta
from kbhub.extensions.team.server import Server
from kbhub.index.engine import PACKED_FROM, WORD, Index, Snapshot, numbers
from kbhub.index.matches import NO_CHUNKS
from kbhub.index.query.parser import Term
from kbhub.index.signatures import Columns, Postings, Signatures, enlarged, made, roomy, sign
from kbhub.index.sqlite.columns import compared

MOST_ENDINGS = 2_000
"""Most terms with a prefix that are looked up, the first by alphabet."""

CHUNKS_AT_ONCE = 50_000
"""Chunks whose columns or signatures one statement reads, 4 MB: it meets its deadline however large the base is, and
no value reaches PostgreSQL's limit of 1 GB."""

LAST_CHARACTER = "\U0010ffff"

_WORDS = {
    "IN ids": "= ANY(%s::bigint[])",
    "IN texts": "= ANY(%s::text[])",
    "NOT IN ids": "<> ALL(%s::bigint[])",
    "NOT IN texts": "<> ALL(%s::text[])",
    "ids": "(SELECT unnest(%s::bigint[]) AS value)",
    "texts": "(SELECT unnest(%s::text[]) AS value)",
    "number": "number",
    "iso_date": "value ~ '^[0-9]{4}-[0-9]{2}'",
    "greatest": "greatest",
    "position": "strpos",
    "each": "",
}
"""What engines write differently. A list that is a condition is an array."""

LARGEST_FILE = 250_000_000
"""Most bytes of a file that are read; the limits of the settings are smaller."""

_TABLES = ("meta", "document", "chunk", "vector", "property", "link", "problem", "vocabulary")

_COLUMNS = {"link": "*, place AS rowid", "vocabulary": "term, chunks AS doc"}
"""Table → its columns, where they are not those of the function."""

_NUMBERS = ("id", "chunk_id", "document_id")

_LISTED = re.compile(rf"(?:(?:NOT )?IN )?{WORD.pattern}")

_FOUND = re.compile(
    r"FROM (\w+) WHERE (?:@each )?(?:(\w+) IN @(?:ids|texts)|(?:docid|term) >= \? AND (?:docid|term) < \?)"
)
"""Rows that the database looks up, instead of going through the whole table."""

_NAME = re.compile(rf"\b(?:FROM|JOIN) ({'|'.join(_TABLES)})\b")


class PostgresIndex(Index):
    """Reader of the base `name` of a server's database; thread-safe.

    `path` identifies the index, and its files lie beside it; `base` is the base's id here, for messages.
    """

    def __init__(self, path: Path, base: str, server: Server, name: str) -> None:
        super().__init__(path, base)
        self.server, self.name = server, name

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """See `Index`."""
        outer: Any = getattr(self._local, "seen", None)
        try:
            with self.server.reading() as connection:
                with self.sound(), self.server.deadline(connection):
                    found = opened(connection, self.name)
                if found is None:
                    reason = f"there is no base {self.name!r} that you may read"
                    raise self._unavailable(reason, "Ask its publisher or an admin.")
                with self.sound():
                    self._local.seen = Snapshot(connection, (found.number, 0), checked_meta(found.meta))
                yield
        except EngineUnavailable as error:
            raise self._unavailable(error.reason, error.remedy) from error
        finally:
            self._local.seen = outer

    def close(self) -> None:
        """See `Index`. The connections belong to the server, which other bases share."""

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """See `Index`."""
        bound = (value.tolist() if hasattr(value, "tolist") else value for value in values)
        return self._fetch(_written(statement, self._local.seen.file[0]), *bound)

    def damaged(self, what: str) -> IndexUnavailable:
        """See `Index`."""
        remedy = "Its publisher can rebuild it with `kbhub team publish --full`."
        return self._unavailable(f"it is damaged: {what}", remedy)

    def faults(self) -> list[str]:
        """See `Index`."""
        astray = "SELECT count(*) FROM {} WHERE {} NOT IN (SELECT id FROM {})"
        wrong = {
            "chunks without a document": astray.format("chunk", "document_id", "document"),
            "vectors without a chunk": astray.format("vector", "chunk_id", "chunk"),
            "links without a document": astray.format("link", "document_id", "document"),
        }
        return [f"{count} {what}" for what, statement in wrong.items() if (count := self.rows(statement)[0][0])]

    def file(self, path: str) -> bytes | None:
        """See `Index`."""
        short = f"CASE WHEN octet_length(f) <= {LARGEST_FILE} THEN f END"
        ((size, content),) = self._of(f"SELECT octet_length(f), {short} FROM kbhub.file(%s, %s) f", path)
        if size and size > LARGEST_FILE:
            raise self._unavailable(f"{path!r} has more than {LARGEST_FILE:,} bytes")
        found: bytes | None = content
        return found

    def docid_counts(self, prefixes: Iterable[str]) -> dict[str, int]:
        """See `Index`."""
        rows = self._of("SELECT prefix, documents FROM kbhub.docid_counts(%s, %s::text[])", sorted(set(prefixes)))
        return {prefix: count for prefix, count in rows if count}

    def counts(self) -> tuple[int, int, int]:
        """See `Index`."""
        ((documents, chunks, embedded),) = self._of("SELECT documents, chunks, embedded FROM kbhub.counts(%s)")
        return documents, chunks, embedded

    def chunks_with(self, stem: str, limit: int) -> list[int]:
        """See `Index`."""
        (blocks,) = self._blocks([stored(stem)]).values()
        with self.sound():
            return [*listed(blocks)[0][:limit].tolist()]

    def similarities(
        self, vector: NDArray[np.int8], chunks: Sequence[int] | NDArray[np.signedinteger]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """See `Index`."""
        vectors = self._vectors(chunks)
        if vectors and len(vectors[0][1]) != len(vector):
            raise self.damaged(f"its vectors have {len(vectors[0][1])} dimensions, not {len(vector)}")
        return compared(vectors, vector)

    def _read_columns(self, before: Columns | None) -> Columns:
        pack = self.meta("pack") or 0
        if before is None or before.pack != pack:
            before = made(pack, 0, np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))
        last = int(before.ids[-1]) if len(before.ids) else -1
        ids, documents, lengths = [before.ids], [before.documents], [before.lengths]
        for new, (owners, tokens) in self._parts("extent", ("int4send(document_id)", "int4send(tokens)"), last):
            ids.append(new)
            documents.append(np.frombuffer(owners, ">i4").astype(np.int32))
            lengths.append(np.frombuffer(tokens, ">i4").astype(np.int32))
        gone = [chunk for (chunk,) in self._of("SELECT chunk_id FROM kbhub.gone_rows(%s)")]
        if np.isin(np.concatenate([NO_CHUNKS, *ids[1:]]), gone).any():
            raise ValueError("chunks in it exist and are gone")
        if min(int(tokens.min(initial=0)) for tokens in lengths) < 0:
            raise ValueError("a chunk in it has fewer tokens than none")
        return made(pack, 0, np.concatenate(ids), np.concatenate(documents), np.concatenate(lengths), gone)

    def _read_signatures(self, before: Signatures | None, columns: Columns) -> Signatures:
        most = 4 * MOST_DIMENSIONS
        packed = dict(self._of(f"SELECT name, substr(data, 1, {most} + 1) FROM kbhub.packed_rows(%s)"))
        if "mean" not in packed or columns.chunks < PACKED_FROM:
            return sign(before, columns.ids, self._vectors)
        mean = np.frombuffer(packed["mean"], np.float32)
        if not 0 < len(mean) <= MOST_DIMENSIONS or not np.isfinite(mean).all():
            raise ValueError("its mean vector is impossible")
        meant = int(packed["meant"])
        known = len(before.signed) if before is not None and before.meant == meant else 0
        last = int(columns.ids[known - 1]) if known else -1
        words = -(-2 * len(mean) // 64)
        signed = np.zeros(len(columns.ids), np.bool_)
        if before is not None and known:
            bits = enlarged(before.bits, len(signed))
            signed[:known] = before.signed
        else:
            bits = roomy(words, len(signed))
        signature = f"CASE WHEN octet_length(signature) = {8 * words} THEN signature END"
        for ids, (raw,) in self._parts("signature", (signature,), last):
            positions = columns.positions(ids)
            bits[:, positions] = np.frombuffer(raw or b"", np.uint64).reshape(len(ids), words).T
            signed[positions] = True
        return Signatures(bits, signed, mean, meant)

    def _parts(
        self, table: str, fields: Sequence[str], last: int
    ) -> Iterator[tuple[NDArray[np.int64], tuple[bytes, ...]]]:
        """Yield (chunk ids, each field joined) of all chunks after one, some at a time."""
        # Joined by the server: a hundred thousand rows would take ten times as long.
        joined = ", ".join(f"string_agg({one}, '' ORDER BY chunk_id)" for one in ("int8send(chunk_id)", *fields))
        statement = f"SELECT {joined} FROM kbhub.{table}_after(%s, %s, {CHUNKS_AT_ONCE})"
        while True:
            ((raw, *data),) = self._of(statement, last)
            ids = np.frombuffer(raw or b"", ">i8").astype(np.int64)
            if len(ids):
                if ids[-1] > LARGEST_ID:
                    raise ValueError("a chunk in it has an impossible id")
                yield ids, tuple(data)
                last = int(ids[-1])
            if len(ids) < CHUNKS_AT_ONCE:
                return

    def postings(self, term: Term, ahead: Iterable[str] = ()) -> Postings:
        """See `Index`."""
        stems = [stored(token) for token in term.tokens]
        if term.plain:
            known = self._local.seen.postings
            if missing := [stem for stem in dict.fromkeys(map(stored, (*term.tokens, *ahead))) if stem not in known]:
                blocks = self._blocks(missing)
                with self.sound():
                    known |= {stem: self._positions(*listed(some), self.columns()) for stem, some in blocks.items()}
            return known[stems[0]]
        endings = stems[-1:]
        if term.match.endswith(" *"):
            query = "SELECT term FROM vocabulary WHERE term >= ? AND term < ? ORDER BY term LIMIT ?"
            rows = self.rows(query, stems[-1], stems[-1] + LAST_CHARACTER, MOST_ENDINGS)
            endings = [ending for (ending,) in rows]
        blocks = self._blocks([*stems[:-1], *endings], places=True)
        with self.sound():
            parts = [occurrences(blocks[stem]) for stem in stems[:-1]]
            ended = np.sort(np.concatenate([NO_CHUNKS, *(occurrences(blocks[stem]) for stem in endings)]))
            return self._positions(*phrase([*parts, ended]), self.columns())

    def _blocks(self, stems: Sequence[str], *, places: bool = False) -> dict[str, list[Block]]:
        """Return the postings of stems, which are as `stored` returns them."""
        rows = self._of(
            f"SELECT term, first, last, substr(chunks, 1, {MOST_BYTES}), substr(counts, 1, {MOST_BYTES}), "
            f"{f'substr(places, 1, {MOST_PLACES})' if places else 'NULL::bytea'} "
            "FROM kbhub.posting_by_term(%s, %s::text[]) ORDER BY term, first",
            stems,
        )
        found: dict[str, list[Block]] = {stem: [] for stem in stems}
        for stem, *block in rows:
            found[stem].append(Block(*block))
        return found

    def _positions(self, chunks: NDArray[np.int64], counts: NDArray[np.float64], columns: Columns) -> Postings:
        positions = columns.positions(chunks)
        if not columns.alive[positions].all():
            raise ValueError("a term in it is in a chunk that is gone")
        return Postings(positions, counts)

    def _vectors(self, chunks: Sequence[int] | NDArray[np.signedinteger]) -> list[tuple[int, bytes]]:
        which = "chunk_id IN @ids AND embedding IS NOT NULL ORDER BY chunk_id"
        return self.rows(f"SELECT chunk_id, embedding FROM vector WHERE {which}", numbers(chunks))

    def _of(self, statement: str, *values: Any) -> list[Any]:
        """Run a statement whose first value is the number of the base."""
        return self._fetch(statement, self._local.seen.file[0], *values)

    def _fetch(self, statement: str, *values: Any) -> list[Any]:
        connection = self._local.seen.connection
        try:
            with self.server.deadline(connection):
                cursor = connection.execute(statement, values, binary=True)
        except EngineUnavailable as error:
            raise self._unavailable(error.reason, error.remedy) from error
        with self.sound():
            return checked([column.name for column in cursor.description], cursor.fetchall())

    def _unavailable(self, reason: str, remedy: str = "") -> IndexUnavailable:
        return IndexUnavailable(self.base, f"{self.server.name}: {reason}", remedy)


@lru_cache(maxsize=1024)
def _written(statement: str, number: int) -> str:
    """Return a statement for one base: the tables it names are the results of functions for this base."""

    def lookup(found: re.Match[str]) -> str:
        name, column = found.groups()
        call = f"between({number}, ?, ?)"
        if column:
            call = f"by_{column}({number}, ?::{'bigint' if column in _NUMBERS else 'text'}[])"
        rows = f"{_function(name)}_{call}"
        if name in _COLUMNS:
            rows = f"(SELECT {_COLUMNS[name]} FROM {rows})"
        return f"FROM {rows} AS {name} WHERE true"

    sql = _FOUND.sub(lookup, statement)
    whole = ", ".join(
        f"{name} AS NOT MATERIALIZED (SELECT {_COLUMNS.get(name, '*')} FROM {_function(name)}_rows({number}))"
        for name in dict.fromkeys(_NAME.findall(sql))
    )
    sql = _LISTED.sub(lambda word: _WORDS[word[0].replace("@", "")], sql.replace("%", "%%").replace("?", "%s"))
    return f"WITH {whole} {sql}" if whole else sql


def _function(table: str) -> str:
    return "kbhub.term" if table == "vocabulary" else f"kbhub.{table}"
