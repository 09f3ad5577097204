"""Data sets: documents or their sections, and queries with known answers."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kbhub.documents.markdown import parse_document, sections_of
from kbhub.documents.walk import Limits, open_contained, scan
from kbhub.errors import BaseUnavailable, DatasetError, PathNotContained
from kbhub.types import Base, Document
from kbhub.values import struct

SECTION_MARK = "::"
"""Separates a document from the heading path of a section."""

FULL_ANSWER = 2
"""Gain of an answer in `expected`; `also_valid` sets its own gains, 1 for half an answer."""

MOST_BYTES, MOST_FILES = 5 << 20, 1_000_000
"""Maximum size of a document in bytes (the default of `limits`), and of files in a data set."""

_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")

_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)
"""Device names, which Windows reserves."""

_DIGITS = 10
"""Hex digits of the hash that makes file names unique."""

HeadedSection = tuple[str, int, int]
"""The headings above some lines, outermost first, joined by ` > `, or ""; and the first and last line, from 1."""


def headed_sections(document: Document) -> tuple[HeadedSection, ...]:
    """Split a document at its headings, whatever their level; the sections cover it in order."""
    sections = []
    starts = [heading.line for heading in document.headings]
    if not starts or starts[0] > 1:
        sections.append(("", 1, (starts[0] if starts else len(document.lines) + 1) - 1))
    ends = [start - 1 for start in starts[1:]] + [len(document.lines)]
    for (heading, names, _), end in zip(sections_of(document.headings, len(document.lines)), ends, strict=False):
        sections.append((" > ".join(names), heading.line, end))
    return tuple(sections)


def best_answer(name: str, sections: Sequence[HeadedSection], lines: tuple[int, int], gold: Mapping[str, int]) -> str:
    """Return what a chunk counts as: the section it overlaps, or its document, with the highest gain.

    `lines` are its first and last, 1-based; `gold` maps a section or document to its gain. Of equal gains, the first
    counts; if none has a gain, the first overlapping section.
    """
    overlapping = (path for path, start, end in sections if start <= lines[1] and end >= lines[0])
    candidates = [f"{name}{SECTION_MARK}{path}" if path else name for path in overlapping]
    return max([*candidates, name], key=lambda item: gold.get(item, 0))


@struct
class EvalDocument:
    """A document of a data set, as the file that is searched."""

    id: str
    path: str
    """Relative path with `/`, valid on any file system."""
    data: bytes


@struct
class EvalQuery:
    """A query and its answers."""

    id: str
    text: str
    gold: Mapping[str, int]
    """Document, or section (`document::Heading > Heading`) → gain above 0; empty if nothing answers it."""
    stratum: str = ""
    """The kind of query; empty if the data set has no kinds."""
    wordings: tuple[str, ...] = ()
    passage: str = ""
    """A made-up answer."""


@struct
class Dataset:
    """Documents, and queries with their answers."""

    name: str
    documents: tuple[EvalDocument, ...]
    queries: tuple[EvalQuery, ...]
    exponential: bool = False
    """Whether a gain g counts as 2^g − 1 rather than g, so that a full answer is worth three half ones."""
    sections: Mapping[str, tuple[HeadedSection, ...]] | None = None
    """Document → its sections if answers may be sections, None if they are documents."""
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Hex digest of the documents, the same for the same corpus."""
        total = hashlib.sha256()
        for document in self.documents:
            total.update(f"{document.path}\0{len(document.data)}\0".encode())
            total.update(document.data)
        return total.hexdigest()[:16]


@struct(frozen=False)
class _Row:
    """A line of a JSONL file."""

    file: Path
    line: int
    value: dict[str, Any]

    def text(self, *keys: str, default: str | None = None) -> str:
        """Return the first of some fields that is set, as text; `DatasetError` if none is or it is no text."""
        value = next((self.value[key] for key in keys if self.value.get(key) is not None), default)
        if value is None:
            self.fail(f"has no `{keys[0]}`")
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self.fail(f"`{keys[0]}` is not a string")
        return str(value)

    def fail(self, fault: str) -> None:
        """Raise a `DatasetError` about this line."""
        raise DatasetError(self.file, fault, self.line)


def load_dataset(folder: Path) -> Dataset:
    """Read a data set from a folder, or raise `DatasetError`.

    It has `corpus.jsonl`, `queries.jsonl` and `qrels.tsv` (or `qrels/test.tsv`), as BEIR has them; or `queries.jsonl`
    and Markdown, below `docs` if there is such a folder. Either may have a `rewordings.jsonl` with `queries` and `hyde`
    for the `id` of a query.
    """
    if not folder.is_dir():
        fault = "is not a folder. Name a BEIR folder, or a folder of Markdown with a `queries.jsonl`"
        raise DatasetError(folder.absolute(), fault)
    if not (folder / "queries.jsonl").is_file():
        raise DatasetError(folder.absolute(), "has no `queries.jsonl`, the file with the queries and their answers")
    dataset = _beir(folder) if (folder / "corpus.jsonl").is_file() else _vault(folder)
    file, rewordings = folder / "rewordings.jsonl", dict[str, dict[str, Any]]()
    for row in _rows(file) if file.is_file() else ():
        wordings = row.value.get("queries") or []
        if not isinstance(wordings, list) or not all(isinstance(wording, str) for wording in wordings):
            row.fail("`queries` is not a list of strings")
        rewordings[row.text("id", "_id")] = {"wordings": tuple(wordings), "passage": row.text("hyde", default="")}
    queries = tuple(replace(query, **rewordings.get(query.id, {})) for query in dataset.queries)
    return replace(dataset, queries=queries)


def _beir(folder: Path) -> Dataset:
    documents, taken = dict[str, EvalDocument](), set[str]()
    for row in _rows(folder / "corpus.jsonl"):
        name = row.text("_id")
        if name in documents:
            row.fail(f"the document id {name!r} occurs twice")
        title, text = " ".join(row.text("title", default="").split()), row.text("text", default="")
        # Its file has the id as its name, if that is valid everywhere and not taken.
        path = f"{name}.md"
        if not _PLAIN.fullmatch(name) or _RESERVED.match(name) or path.lower() in taken:
            readable = re.sub(r"[^A-Za-z0-9]+", "-", name)[:50].strip("-") or "document"
            path = f"{readable}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:_DIGITS]}.md"
        taken.add(path.lower())
        data = f"# {title}\n\n{text}" if title else text
        documents[name] = EvalDocument(name, path, data.encode("utf-8", "replace"))
    gold, foreign = _judgements(folder, {*documents})
    queries, unjudged, ids = [], 0, set()
    for row in _rows(folder / "queries.jsonl"):
        name = row.text("_id")
        if name in ids:
            row.fail(f"the query id {name!r} occurs twice")
        ids.add(name)
        if name in gold:
            queries.append(EvalQuery(name, row.text("text"), gold[name], row.text("stratum", default="")))
        else:
            unjudged += 1
    notes = []
    if unjudged:
        notes.append(f"Skipped queries without a relevant document: {unjudged}.")
    if foreign:
        notes.append(f"Relevant documents missing from the corpus, which no search can find: {foreign}.")
    if missing := len(gold.keys() - ids):
        notes.append(f"Judged queries missing from `queries.jsonl`: {missing}.")
    if not queries:
        raise DatasetError(folder / "queries.jsonl", "no query has a relevant document in `qrels.tsv`")
    return Dataset(folder.resolve().name, tuple(documents.values()), tuple(queries), notes=tuple(notes))


def _judgements(folder: Path, document_ids: set[str]) -> tuple[dict[str, dict[str, int]], int]:
    """Return query → document → gain, and the number of judged documents that are not in the corpus."""
    file = next((path for path in (folder / "qrels.tsv", folder / "qrels" / "test.tsv") if path.is_file()), None)
    if file is None:
        raise DatasetError(folder, "has a `corpus.jsonl`, but no `qrels.tsv` (or `qrels/test.tsv`)")
    gold: dict[str, dict[str, int]] = {}
    foreign = 0
    for number, line in lines_of(file):
        fields = line.split("\t")
        if number == 1 and fields[-1].strip() == "score":
            continue
        try:
            query, document, score = fields[0], fields[1], int(fields[2])
        except (IndexError, ValueError):
            fault = "expected query-id, corpus-id and an integer score, separated by tabs"
            raise DatasetError(file, fault, number) from None
        if score > 0:
            gold.setdefault(query, {})[document] = score
            foreign += document not in document_ids
    return gold, foreign


def _vault(folder: Path) -> Dataset:
    root = folder / "docs" if (folder / "docs").is_dir() else folder
    try:
        files, notes = files_of(Base(id="eval", path=root.resolve(), origin="argument"))
    except BaseUnavailable as error:
        raise DatasetError(root, str(error)) from error
    if not files:
        raise DatasetError(root, "has no Markdown files")
    documents = tuple(EvalDocument(path, path, data) for path, data in files.items())
    sections = {document.id: headed_sections(parse_document(document.path, document.data)) for document in documents}
    answers = {f"{name}{SECTION_MARK}{path}" for name, parts in sections.items() for path, *_ in parts if path}
    answers |= sections.keys()
    queries: dict[str, EvalQuery] = {}
    for row in _rows(folder / "queries.jsonl"):
        name = row.text("id", "_id", default=str(row.line))
        if name in queries:
            row.fail(f"the query id {name!r} occurs twice")
        queries[name] = EvalQuery(name, row.text("query", "text"), _gold(row, answers), row.text("stratum", default=""))
    if not any(query.gold for query in queries.values()):
        raise DatasetError(folder / "queries.jsonl", "no query has an answer")
    in_sections = any(SECTION_MARK in item for query in queries.values() for item in query.gold)
    parts, name = sections if in_sections else None, folder.resolve().name
    return Dataset(name, documents, tuple(queries.values()), exponential=True, sections=parts, notes=tuple(notes))


def files_of(base: Base) -> tuple[dict[str, bytes], list[str]]:
    """Return path → content of the files of a base, and why others were left out; raises `BaseUnavailable`."""
    files, notes = {}, []
    scanned = scan(base, Limits(MOST_BYTES, MOST_FILES))
    for path in scanned.files:
        try:
            with open_contained(base, path) as file:
                files[path] = file.read(MOST_BYTES)
        except (OSError, PathNotContained) as error:
            notes.append(f"{path}: {error}")
    return files, notes + [f"{problem.subject}: {problem.message}" for problem in scanned.skipped]


def _gold(row: _Row, answers: set[str]) -> dict[str, int]:
    """Read `expected` (one, several or no answers) and `also_valid` (answers with their gains)."""
    expected, more = row.value.get("expected"), row.value.get("also_valid") or {}
    if "expected" not in row.value:
        row.fail('has no `expected`: a file, "file::Heading > Heading", a list of them, or null if nothing answers')
    names = [expected] if isinstance(expected, str) else expected or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        row.fail("`expected` is neither a string, nor a list of them, nor null")
    if not isinstance(more, dict) or not all(isinstance(gain, int | float) for gain in more.values()):
        row.fail("`also_valid` is not an object of answer → gain")
    gold = {name: math.floor(gain) for name, gain in more.items() if gain > 0} | dict.fromkeys(names, FULL_ANSWER)
    for name in gold:
        if name not in answers:
            where, _, heading = name.partition(SECTION_MARK)
            missing = f"no section {heading!r} in {where!r}" if where in answers else f"no document {where!r}"
            row.fail(f"there is {missing}")
    return gold


def _rows(file: Path) -> Iterator[_Row]:
    for number, line in lines_of(file):
        try:
            value = json.loads(line)
        except ValueError as error:
            raise DatasetError(file, f"is not JSON: {error}", number) from error
        if not isinstance(value, dict):
            raise DatasetError(file, "is not a JSON object", number)
        yield _Row(file, number, value)


def lines_of(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, with their numbers from 1."""
    try:
        with file.open(encoding="utf-8-sig", errors="replace", newline="\n") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except OSError as error:
        raise DatasetError(file, f"cannot be read: {error.strerror}") from error
