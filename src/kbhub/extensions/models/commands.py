"""The command that grades files by a language model."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number
from pydantic import Field

from kbhub.cli.options import Exact, Reply, command, decoded
from kbhub.documents.markdown import decode
from kbhub.errors import UsageError
from kbhub.extensions.models.llm import PASSAGE_CHARACTERS, grade
from kbhub.extensions.models.server import Ollama, StoredAnswers
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.index.query.excerpts import excerpt
from kbhub.index.query.parser import parse_query
from kbhub.render.terminal import visible_line
from kbhub.workspace.files import read_regular

PATIENT_SECONDS = 60.0
"""Longest wait for grades of files: who names them wants them all."""

MOST_SECONDS = 3600.0


class GradedFile(Model):
    """A file and its grade."""

    file: str = Field(description="The file as named in the command.")
    grade: int | None = Field(description="0 to 3; null if the time ran out or the model gave none.")


class RerankResult(Model):
    """What `kbhub dev rerank` found."""

    query: str = Field(description="The query.")
    model: str = Field(description="The model.")
    files: tuple[GradedFile, ...] = Field(description="Best first.")
    note: str | None = Field(None, description="Why some files have no grade.")


@command()
def rerank(
    hub: Hub,
    query: str,
    *files: Annotated[Path, Parameter(name="FILE")],
    model: Annotated[str | None, Parameter(metavar="NAME")] = None,
    seconds: Annotated[float, Parameter(metavar="N", validator=Number(gt=0, lte=MOST_SECONDS))] = PATIENT_SECONDS,
) -> Reply:
    """Order text files by how well they answer a query, using an Ollama model.

    Each file is graded from 0 (off topic) to 3 (answers the query). Of a long file, the part with the most words of the
    query is graded. Files of equal grade keep their order.

    Example: kbhub dev rerank "how do we roll back" runbooks/*.md

    Args:
        query: The query.
        files: Text files to order.
        model: Ollama model to use instead of the one in the config.
        seconds: Timeout; files not graded by then come last.

    Returns:
        The exit code: 1 if none was graded.
    """
    if not files:
        raise UsageError("Nothing to rerank. Usage: kbhub dev rerank QUERY FILE…")
    settings = hub.config().settings
    wanted = replace(settings.rerank, seconds=seconds, model=model or settings.rerank.model)
    passages, limit, terms = list[str](), settings.limits.file_bytes, parse_query(query).terms
    for file in files:
        try:
            text, _ = decode(read_regular(file, limit))
        except OSError as error:
            large = f"it is larger than {limit} bytes (`limits.fileBytes`)"
            why = large if error.errno == errno.EFBIG else error.strerror
            raise UsageError(f"Cannot read {decoded(str(file))}: {why}.") from error
        passages.append(excerpt(text, terms, PASSAGE_CHARACTERS)[0])
    grades, fault = grade(query, passages, wanted, Ollama(hub.options.env), StoredAnswers(hub.cache))
    if not grades and fault:
        raise fault
    order = sorted(range(len(files)), key=lambda number: -grades.get(number, -1))  # a stable sort
    graded = tuple(GradedFile(file=decoded(str(files[number])), grade=grades.get(number)) for number in order)
    result = RerankResult(query=query, model=wanted.model, files=graded, note=str(fault) if fault else None)
    rows = (("-" if file.grade is None else file.grade, visible_line(file.file)) for file in graded)
    text = Exact("".join(f"{grade}\t{file}\n" for grade, file in rows))
    return Reply(result, text, notes=[f"{len(grades)} of {len(files)} files graded: {fault}"] if fault else ())
