"""What models do, for pipelines: rerank, embed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub.cli import commands
from kbhub.cli.app import app
from kbhub.cli.options import Common

PATIENT_SECONDS = 60.0
"""Longest wait for grades of files: who names them wants them all."""

MOST_SECONDS = 3600.0
"""Longest wait that can be asked for."""


@app.command(usage="kbhub rerank [OPTIONS] QUERY FILE…")
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
    """
    return commands.models.rerank(query, files, model=model, seconds=seconds, common=common)


@app.command(usage="kbhub embed [OPTIONS] TEXT…")
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
    return commands.models.embed(texts, query=query, common=common)
