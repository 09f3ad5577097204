"""What models do, for pipelines: rerank, embed."""

from __future__ import annotations

import errno
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number
from pydantic import Field

from kbhub.cli.console import complain, show, show_json
from kbhub.cli.hubs import decoded, hub_options
from kbhub.cli.options import Common
from kbhub.documents.markdown import decode
from kbhub.errors import UsageError
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.index.query import excerpt, parsed
from kbhub.models.inference import Ollama, StoredAnswers
from kbhub.render.words import one_line
from kbhub.search.rerank_llm import PASSAGE_CHARACTERS, grade
from kbhub.workspace.files import read_regular

PATIENT_SECONDS = 60.0
"""Longest wait for grades of files: who names them wants them all."""
MOST_SECONDS = 3600.0
"""Longest wait that can be asked for."""

VECTOR_DIGITS = 6
"""Digits of a component that are printed; a vector has no more to say."""

NOT_GRADED = "-"
"""What stands for a grade that is missing."""


class GradedFile(Model):
    """A file and its grade."""

    file: str = Field(description="As it was named.")
    grade: int | None = Field(description="0 to 3; none if there was no time for it, or the model gave none.")


class RerankResult(Model):
    """What `kbhub rerank` found."""

    query: str = Field(description="What was asked.")
    model: str = Field(description="Who graded.")
    files: tuple[GradedFile, ...] = Field(description="Best first.")
    note: str | None = Field(None, description="Why some have no grade.")


class EmbedResult(Model):
    """What `kbhub embed` made."""

    embedder: str = Field(description="Name of the model.")
    dimensions: int = Field(description="Length of a vector.")
    vectors: tuple[tuple[float, ...], ...] = Field(
        description="One per text, of length 1, or all zero where the model does not know the words."
    )


def rerank(
    query: str,
    *files: Path,
    model: Annotated[str | None, Parameter(metavar="NAME")] = None,
    seconds: Annotated[float, Parameter(metavar="N", validator=Number(gt=0, lte=MOST_SECONDS))] = PATIENT_SECONDS,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Order text files by how well they answer a query, by a language model of Ollama.

    Each file gets a grade from 0 (something else) to 3 (answers); of a long file, the part with most words of the
    query is judged. Files of the same grade stay in the order given.

    Example: kbhub rerank "how do we roll back" runbooks/*.md

    Args:
        query: What the files are to answer.
        files: Text files.
        model: Model of Ollama instead of the config's.
        seconds: How long to wait; files without a grade by then come last.
        common: Options of every command.

    Returns:
        The exit code: 1 if none was graded.
    """
    if not files:
        raise UsageError("Nothing to rerank. Name the files: kbhub rerank QUERY FILE….")
    hub = Hub(hub_options(common))
    settings = hub.config().settings
    wanted = replace(settings.rerank, seconds=seconds, model=model or settings.rerank.model)
    passages = [_passage(file, query, settings.limits.file_bytes) for file in files]
    found = grade(query, passages, wanted, Ollama(hub.options.env), StoredAnswers(hub.cache))
    if not found.grades and found.fault:
        raise found.fault
    order = sorted(range(len(files)), key=lambda number: -found.grades.get(number, -1))  # a stable sort
    result = RerankResult(
        query=query,
        model=wanted.model,
        files=tuple(GradedFile(file=_name(files[number]), grade=found.grades.get(number)) for number in order),
        note=str(found.fault) if found.fault else None,
    )
    if common.json:
        show_json(result.model_dump_json(indent=2))
        return 0
    lines = (f"{NOT_GRADED if file.grade is None else file.grade}\t{one_line(file.file)}" for file in result.files)
    show("\n".join(lines))
    if result.note:
        complain(f"{len(found.grades)} of {len(files)} files were graded: {result.note}")
    return 0


def embed(
    *texts: str,
    query: bool = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Print the vector of each text, by the embedder of the config: one JSON list per line.

    Without a TEXT, standard input is one text.

    Example: kbhub embed --query "how do we roll back"

    Args:
        texts: What to embed.
        query: Embed them as queries and not as documents, where the model tells them apart.
        common: Options of every command.
    """
    hub = Hub(hub_options(common))
    embedder = hub.embedder()
    if embedder is None:
        raise UsageError("There is no embedder: `embedder.model` is `none`. Name one there, or remove that line.")
    given = [*map(decoded, texts)] or [_standard_input(hub.config().settings.limits.file_bytes)]
    rows = [embedder.embed_query(text) for text in given] if query else list(embedder.embed(given))
    vectors = tuple(tuple(round(float(value), VECTOR_DIGITS) for value in row) for row in rows)
    if common.json:
        made = EmbedResult(embedder=embedder.name, dimensions=len(vectors[0]), vectors=vectors)
        show_json(made.model_dump_json())
    else:
        show("\n".join(json.dumps(vector, separators=(",", ":")) for vector in vectors))
    for number, vector in enumerate(vectors, 1):
        if not any(vector):
            complain(f"Text {number} has no vector: the embedding model does not know its words.")
    return 0


def _passage(file: Path, query: str, limit: int) -> str:
    """Return the part of a file to be judged.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        text, _ = decode(read_regular(file, limit))
    except OSError as error:
        why = f"it has more than {limit} bytes (`limits.fileBytes`)" if error.errno == errno.EFBIG else error.strerror
        raise UsageError(f"{_name(file)} cannot be read: {why}.") from error
    return excerpt(text, parsed(query).terms, PASSAGE_CHARACTERS)[0]


def _standard_input(limit: int) -> str:
    data = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read(limit + 1)
    if not data.strip():
        raise UsageError('There is no text to embed. Give it as an argument or on standard input: kbhub embed "TEXT".')
    if len(data) > limit:
        raise UsageError(f"Standard input has more than {limit} bytes (`limits.fileBytes`).")
    return data.decode("utf-8", "replace")


def _name(file: Path) -> str:
    return os.fsencode(file).decode("utf-8", "replace")
