"""Read a shared base: the same tables as in an index file, those of one base among many, through one transaction.

The tables are what functions of the database return (`functions.sql`), for no reader may touch those behind them.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from kbhub.errors import EngineUnavailable, IndexUnavailable
from kbhub.index.columns import made
from kbhub.index.engine import PACKED_FROM, WORD, Index, Snapshot, numbers
from kbhub.index.postgres.bases import opened
from kbhub.index.postgres.blocks import Block, occurrences, phrase, stored, united
from kbhub.index.postings import Postings
from kbhub.index.signatures import Signatures, enlarged, roomy, sign
from kbhub.index.sqlite.similarity import similarities_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kbhub.index.columns import Columns
    from kbhub.index.postgres.server import Server
    from kbhub.index.query import Term

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
    "alike": "ILIKE",
    "each": "",
}
"""What engines write differently. A list that is a condition is an array."""

_TABLES = {
    "meta": "kbhub.meta_",
    "document": "kbhub.document_",
    "chunk": "kbhub.chunk_",
    "vector": "kbhub.vector_",
    "property": "kbhub.property_",
    "link": "kbhub.link_",
    "problem": "kbhub.problem_",
    "vocabulary": "kbhub.term_",
}
"""Table as statements name it → the beginning of the functions that return its rows."""

_COLUMNS = {"link": "*, place AS rowid", "vocabulary": "term, chunks AS doc"}
"""Table → its columns, where they are not those of the function."""

_NUMBERS = ("id", "chunk_id", "document_id")
"""Columns of numbers; the others are texts."""

_LISTED = re.compile(rf"(?:(?:NOT )?IN )?{WORD.pattern}")

_FOUND = re.compile(
    r"FROM (\w+) WHERE (?:@each )?(?:(\w+) IN @(?:ids|texts)|(?:docid|term) >= \? AND (?:docid|term) < \?)"
)
"""Rows that the database looks up, instead of going through the whole table."""

_NAME = re.compile(rf"\b(?:FROM|JOIN) ({'|'.join(_TABLES)})\b")


class PostgresIndex(Index):
    """Read a shared base; thread-safe.

    Args:
        path: identifies the index; files that belong to it lie beside it.
        base: id of the base here, for messages.
        server: its database.
        name: its name there.
    """

    def __init__(self, path: Path, base: str, server: Server, name: str) -> None:
        super().__init__(path, base)
        self.server, self.name = server, name

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """See `Index`."""
        outer = getattr(self._local, "seen", None)
        try:
            with self.server.reading() as connection:
                self._local.seen = Snapshot(connection, (self._number(connection), 0))
                yield
        except EngineUnavailable as error:
            raise self._unavailable(error.reason, error.remedy) from error
        finally:
            self._local.seen = outer

    def close(self) -> None:
        """See `Index`. The connections belong to the server, which other bases share."""

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """See `Index`."""
        number = self._seen().file[0]
        return self._fetch(_written(statement, number), *map(_bound, values))

    def damaged(self, what: str) -> IndexUnavailable:
        """See `Index`."""
        return self._unavailable(f"it is damaged: {what}", "Its publisher can rebuild it with `kbhub publish --full`.")

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
        content: bytes | None = self._of("SELECT kbhub.file(%s, %s)", path)[0][0]
        return content

    def docid_counts(self, prefixes: Iterable[str]) -> dict[str, int]:
        """See `Index`."""
        rows = self._of("SELECT prefix, documents FROM kbhub.docid_counts(%s, %s::text[])", sorted(set(prefixes)))
        return {prefix: count for prefix, count in rows if count}

    def counts(self) -> tuple[int, int, int]:
        """See `Index`."""
        ((documents, chunks, embedded),) = self._of("SELECT documents, chunks, embedded FROM kbhub.counts(%s)")
        return documents, chunks, embedded

    def without_vector(self) -> int:
        """See `Index`."""
        ((count,),) = self._of("SELECT chunks - vectors FROM kbhub.counts(%s)")
        return int(count)

    def chunks_with(self, stem: str, limit: int) -> list[int]:
        """See `Index`."""
        found: list[int] = self._ids(self._blocks([stem])[stem])[:limit].tolist()
        return found

    def expect(self, stems: Iterable[str]) -> None:
        """See `Index`."""
        known = self._seen().postings
        if missing := [stem for stem in stems if stem not in known]:
            known |= {stem: self._counted(blocks) for stem, blocks in self._blocks(missing).items()}

    def similarities(
        self, vector: NDArray[np.int8], chunks: Sequence[int] | NDArray[np.signedinteger]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """See `Index`."""
        return similarities_of(self._vectors(chunks), vector)

    def _read_meta(self) -> dict[str, Any]:
        return dict(self.rows("SELECT key, value FROM meta"))

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
        return made(pack, 0, np.concatenate(ids), np.concatenate(documents), np.concatenate(lengths), gone)

    def _read_signatures(self, before: Signatures | None, columns: Columns) -> Signatures:
        packed = dict(self._of("SELECT name, data FROM kbhub.packed_rows(%s)"))
        if "mean" not in packed or columns.chunks < PACKED_FROM:
            return sign(before, columns.ids, self._vectors)
        mean = np.frombuffer(packed["mean"], np.float32)
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
        for ids, (raw,) in self._parts("signature", ("signature",), last):
            positions = columns.positions(ids)
            bits[:, positions] = np.frombuffer(raw, np.uint64).reshape(-1, words).T
            signed[positions] = True
        return Signatures(bits, signed, mean, meant)

    def _parts(
        self, table: str, fields: Sequence[str], last: int
    ) -> Iterator[tuple[NDArray[np.int64], tuple[bytes, ...]]]:
        """Yield (chunk ids, each field joined) of all chunks after one, some at a time.

        Joined by the server, since a hundred thousand rows would take ten times as long.
        """
        joined = ", ".join(f"string_agg({one}, '' ORDER BY chunk_id)" for one in ("int8send(chunk_id)", *fields))
        statement = f"SELECT {joined} FROM kbhub.{table}_after(%s, %s, {CHUNKS_AT_ONCE})"
        while True:
            ((raw, *data),) = self._of(statement, last)
            ids = np.frombuffer(raw or b"", ">i8").astype(np.int64)
            if len(ids):
                yield ids, tuple(data)
                last = int(ids[-1])
            if len(ids) < CHUNKS_AT_ONCE:
                return

    def _read_postings(self, term: Term, columns: Columns) -> Postings:
        ahead = self._seen().postings
        stems = [stored(token) for token in term.tokens]
        if term.plain:
            self.expect(stems)
            return ahead[stems[0]]
        endings = stems[-1:]
        if term.match.endswith(" *"):
            rows = self.rows(
                "SELECT term FROM vocabulary WHERE term >= ? AND term < ? ORDER BY term LIMIT ?",
                *(stems[-1], stems[-1] + LAST_CHARACTER, MOST_ENDINGS),
            )
            endings = [ending for (ending,) in rows]
        blocks = self._blocks([*stems[:-1], *endings], places=True)
        parts = [occurrences(blocks[stem]) for stem in stems[:-1]]
        chunks, counts = phrase([*parts, united([occurrences(blocks[stem]) for stem in endings])])
        return Postings(columns.positions(chunks), counts)

    def _blocks(self, stems: Sequence[str], *, places: bool = False) -> dict[str, list[Block]]:
        """Return the postings of stems, as stored."""
        wanted = [stored(stem) for stem in stems]
        rows = self._of(
            f"SELECT term, first, last, chunks, counts, {'places' if places else 'NULL::bytea'} "
            "FROM kbhub.posting_by_term(%s, %s::text[]) ORDER BY term, first",
            wanted,
        )
        found: dict[str, list[Block]] = {stem: [] for stem in wanted}
        for stem, *block in rows:
            found[stem].append(Block(*block))
        return {stem: found[stored(stem)] for stem in stems}

    def _ids(self, blocks: Sequence[Block]) -> NDArray[np.int64]:
        return np.concatenate([np.zeros(0, np.int64), *(block.ids() for block in blocks)])

    def _counted(self, blocks: Sequence[Block]) -> Postings:
        counts = np.concatenate([np.zeros(0), *(block.weights() for block in blocks)])
        return Postings(self.columns().positions(self._ids(blocks)), counts)

    def _vectors(self, chunks: Sequence[int] | NDArray[np.signedinteger]) -> list[tuple[int, bytes]]:
        return self.rows(
            "SELECT chunk_id, embedding FROM vector WHERE chunk_id IN @ids AND embedding IS NOT NULL ORDER BY chunk_id",
            numbers(chunks),
        )

    def _of(self, statement: str, *values: Any) -> list[Any]:
        """Run a statement whose first value is the number of the base."""
        return self._fetch(statement, self._seen().file[0], *values)

    def _fetch(self, statement: str, *values: Any) -> list[Any]:
        connection = self._seen().connection
        try:
            with self.server.deadline(connection):
                return connection.execute(statement, values, binary=True).fetchall()  # type: ignore[no-any-return]
        except EngineUnavailable as error:
            raise self._unavailable(error.reason, error.remedy) from error

    def _number(self, connection: Any) -> int:
        with self.server.deadline(connection):
            row = opened(connection, self.name)
        if row is None:
            raise self._unavailable(
                f"there is no base {self.name!r} that you may read", "Ask its publisher or an admin."
            )
        return row[0]

    def _unavailable(self, why: str, remedy: str = "") -> IndexUnavailable:
        return IndexUnavailable(self.base, f"{self.server.name}: {why}", remedy)


@lru_cache(maxsize=1024)
def _written(statement: str, number: int) -> str:
    """Return a statement for one base: the tables it names are what functions return of this base's rows."""
    sql = _FOUND.sub(lambda found: _lookup(found, number), statement)
    whole = ", ".join(
        f"{name} AS NOT MATERIALIZED (SELECT {_COLUMNS.get(name, '*')} FROM {_TABLES[name]}rows({number}))"
        for name in dict.fromkeys(_NAME.findall(sql))
    )
    sql = _LISTED.sub(lambda word: _WORDS[word[0].replace("@", "")], sql.replace("%", "%%").replace("?", "%s"))
    return f"WITH {whole} {sql}" if whole else sql


def _lookup(found: re.Match[str], number: int) -> str:
    name, column = found.groups()
    call = f"between({number}, ?, ?)"
    if column:
        kind = "bigint" if column in _NUMBERS else "text"
        call = f"by_{column}({number}, ?::{kind}[])"
    return f"FROM (SELECT {_COLUMNS.get(name, '*')} FROM {_TABLES[name]}{call}) AS {name} WHERE true"


def _bound(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
