"""A data set from the query log of a project: queries, answered by the documents that were read afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.documents.walk import open_contained, scan
from kbhub.errors import BaseUnavailable, DatasetError, PathNotContained
from kbhub.evaluation.datasets import MOST_BYTES, MOST_FILES, Dataset, EvalDocument, EvalQuery
from kbhub.index.references import ref_of
from kbhub.memory.querylog.recording import log_of

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.index.querylog import QueryLog

NAME = "log"
"""Name of the data set."""


def logged_dataset(hub: Hub) -> Dataset:
    """Build a data set from the queries of which a hit was read, and the current documents.

    Equivalent queries are merged. Memories are left out, because they originate from queries.

    Args:
        hub: the hub with the query log and the bases.

    Raises:
        DatasetError: no hit of a logged query was read, or no document that was read still exists.
        QueryLogUnavailable: the log cannot be read.
    """
    log = log_of(hub)
    documents, notes = _documents(hub)
    document_ids = {document.id for document in documents}
    gold, texts = _judgements(log)
    queries: list[EvalQuery] = []
    for key, refs in gold.items():
        if answers := {ref: 1 for ref in refs if ref in document_ids}:
            queries.append(EvalQuery(f"q{len(queries) + 1}", texts[key], answers))
    if not queries:
        raise DatasetError(log.path, "has no query of which a document was read that is still there")
    if missing := len(gold) - len(queries):
        notes.append(f"Queries whose documents are gone, or are memories, not asked: {missing}.")
    return Dataset(NAME, tuple(documents), tuple(queries), notes=tuple(notes))


def _judgements(log: QueryLog) -> tuple[dict[str, dict[str, None]], dict[str, str]]:
    """Return what was read after the queries of each key, in order, and their latest text."""
    gold: dict[str, dict[str, None]] = {}
    texts: dict[str, str] = {}
    for query in log.judged():
        key = query.key or query.text
        gold.setdefault(key, {}).update(dict.fromkeys(query.opened))
        texts[key] = query.text
    return gold, texts


def _documents(hub: Hub) -> tuple[list[EvalDocument], list[str]]:
    documents, notes = [], []
    bases = hub.discovery().bases
    for number, base in enumerate(bases):
        if base.kind != "document":
            continue
        try:
            scanned = scan(base, max_bytes=MOST_BYTES, max_files=MOST_FILES)
        except BaseUnavailable as error:
            notes.append(str(error))
            continue
        for path in scanned.files:
            try:
                with open_contained(base, path) as file:
                    data = file.read(MOST_BYTES)
            except (OSError, PathNotContained) as error:
                notes.append(f"{path}: {error}")
                continue
            # The number of the base, because its id may not be a valid folder name.
            documents.append(EvalDocument(ref_of(base, path, bases), f"{number}/{path}", data))
    return documents, notes
