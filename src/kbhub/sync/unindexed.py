"""Index the files with some words that the first index of a base lacks, for as long as a search takes."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw

from kbhub.documents.markdown import decode
from kbhub.documents.walk import Limits, open_contained
from kbhub.errors import IndexUnavailable, PathNotContained
from kbhub.index.query.parser import Term, normalise
from kbhub.index.sqlite.index import IndexWriter, SqliteIndex
from kbhub.models.embedding import Embedder
from kbhub.sync.comparison import DeletedTexts
from kbhub.sync.indexer import DocumentReader
from kbhub.types import Base, FileEntry
from kbhub.values import struct
from kbhub.workspace.formats import is_converted, kind_of

log = logging.getLogger(__name__)

SCAN_FILES, SCAN_BYTES, SCAN_SECONDS = 20_000, 64 << 20, 2.0
"""Limits of a scan: files to list, bytes and seconds to read. Three thousand files of 3 kB take 0.3 s."""

BEST_FILES, BEST_BYTES = 32, 1 << 20
"""Limits on the files that are indexed for one search, which takes some 5 ms each."""


@struct(frozen=False)
class UnindexedScan:
    """A search of the files that an index lacks."""

    base: Base
    files: int
    """Number of files of the base; `lacking`, how many the index lacks, of which some were `scanned`."""
    lacking: int
    scanned: int = 0
    paths: frozenset[str] = frozenset()
    """Those that are searched, as they have words of the query."""


def scan(
    base: Base,
    indexed: Collection[str],
    terms: Iterable[Term],
    limits: Limits,
    embedder: Embedder | None,
    stack: ExitStack,
) -> tuple[UnindexedScan, SqliteIndex | None]:
    """Find the unconverted files with some terms whose paths an index lacks, and index them while a search takes.

    Returns how far the scan came, and an open index of what it found, if anything; `stack` deletes it.
    """
    listed = DeletedTexts(None, base).scan(limits)
    lacking = [FileEntry(path, *listed.files[path]) for path in sorted(listed.files.keys() - set(indexed))]
    found = UnindexedScan(base, len(listed.files), len(lacking))
    best = _best(found, lacking, terms, limits) if len(lacking) <= SCAN_FILES else []
    if not best:
        return found, None
    try:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="kbhub-", ignore_cleanup_errors=True)))
        path, reader = folder / "unindexed.db", DocumentReader(base, DeletedTexts(None, base), limits)
        with IndexWriter(path) as writer, reader.parser, writer.transaction():
            read = reader.read_all(best, embedder)
            for document in read.documents:
                writer.put(document, read.vectors)
        index = SqliteIndex(path, base.id)
        stack.callback(index.close)
        stack.enter_context(index.snapshot())
    except (OSError, apsw.Error, IndexUnavailable) as error:  # such as a full disk
        log.info("Files that are not indexed yet cannot be searched: %s", error)
        found.scanned = 0
        return found, None
    found.paths = frozenset(entry.path for entry in best)
    return found, index


def _best(found: UnindexedScan, entries: list[FileEntry], terms: Iterable[Term], limits: Limits) -> list[FileEntry]:
    """Scan files, and return those with the most and the rarest terms."""
    # A stem ends in `i` for `y`, which is in no text.
    wanted = {
        term.tokens: [(word.text.casefold(), word.tokens[0].removesuffix("i")) for word in words]
        for term in terms
        if (words := term.words())
    }
    matches: list[tuple[FileEntry, list[tuple[str, ...]]]] = []
    for entry, text in _texts(found, entries, limits) if wanted else ():
        there = [term for term, parts in wanted.items() if all(word in text or stem in text for word, stem in parts)]
        if there:
            matches.append((entry, there))
    counts = Counter(word for _, words in matches for word in words)
    matches.sort(key=lambda match: -sum(1 / counts[word] for word in match[1]))
    best, room = list[FileEntry](), BEST_BYTES
    for entry, _ in matches:
        if len(best) < BEST_FILES and entry.size <= room:
            best.append(entry)
            room -= entry.size
    return best


def _texts(found: UnindexedScan, entries: list[FileEntry], limits: Limits) -> Iterator[tuple[FileEntry, str]]:
    """Yield the texts of files, folded, within the limits of a scan."""
    end, room = time.monotonic() + SCAN_SECONDS, SCAN_BYTES
    for entry in entries:
        if is_converted(kind_of(found.base, entry.path)):
            continue
        if room <= 0 or time.monotonic() > end:
            return
        try:
            with open_contained(found.base, entry.path) as file:
                data = file.read(min(room, limits.file_bytes))
        except (OSError, PathNotContained):
            continue
        room -= len(data)
        found.scanned += 1
        yield entry, normalise(decode(data)[0]).casefold()
