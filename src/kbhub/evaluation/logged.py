"""A data set of what was really asked in a project: logged queries, answered by the documents that were read then."""

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
"""Of the data set."""


def logged_dataset(hub: Hub) -> Dataset:
    """Make a data set of the log of a project: its queries of which a hit was read, and the documents as they are now.

    Queries that differ in nothing that matters are one. Only documents count: memories grow out of what is asked.

    Args:
        hub: of the workspace.

    Raises:
        DatasetError: no hit of a logged query was read, or none of those is there any more.
        QueryLogUnavailable: the log cannot be read.
    """
    log = log_of(hub)
    documents, notes = _documents(hub)
    known = {document.id for document in documents}
    gold, texts = _judgements(log)
    queries: list[EvalQuery] = []
    for key, refs in gold.items():
        if kept := {ref: 1 for ref in refs if ref in known}:
            queries.append(EvalQuery(f"q{len(queries) + 1}", texts[key], kept))
    if not queries:
        raise DatasetError(log.path, "has no query of which a document was read that is still there")
    if missing := len(gold) - len(queries):
        notes.append(f"Queries whose documents are gone, or are memories, not asked: {missing}.")
    return Dataset(NAME, tuple(documents), tuple(queries), notes=tuple(notes))


def _judgements(log: QueryLog) -> tuple[dict[str, dict[str, None]], dict[str, str]]:
    """Give what was read after the queries of each key, in order, and their latest text."""
    gold: dict[str, dict[str, None]] = {}
    texts: dict[str, str] = {}
    for asked in log.judged():
        key = asked.key or asked.text
        gold.setdefault(key, {}).update(dict.fromkeys(asked.opened))
        texts[key] = asked.text
    return gold, texts


def _documents(hub: Hub) -> tuple[list[EvalDocument], list[str]]:
    documents, notes = [], []
    bases = hub.discovery().bases
    for number, base in enumerate(bases):
        if base.kind != "document":
            continue
        try:
            found = scan(base, max_bytes=MOST_BYTES, max_files=MOST_FILES)
        except BaseUnavailable as error:
            notes.append(str(error))
            continue
        for path in found.files:
            try:
                with open_contained(base, path) as file:
                    data = file.read(MOST_BYTES)
            except (OSError, PathNotContained) as error:
                notes.append(f"{path}: {error}")
                continue
            # A folder's number and not the base's id, which need not be a name that a folder may have.
            documents.append(EvalDocument(ref_of(base, path, bases), f"{number}/{path}", data))
    return documents, notes
