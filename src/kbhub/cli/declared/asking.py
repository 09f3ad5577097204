"""Cited answers: ask."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub.cli import commands
from kbhub.cli.app import app
from kbhub.cli.options import Common

LEAST_BUDGET, MOST_BUDGET = 100, 100_000
"""Tokens of passages, as `answers.models` has it."""

LEAST_TOKENS, MOST_TOKENS = 50, 4_000
"""Tokens of an answer, as `answers.models` has it."""

Score = Annotated[float | None, Parameter(metavar="X", validator=Number(gte=0, lte=1))]


@app.command(usage="kbhub ask [OPTIONS] QUESTION…")
def ask(
    *question: str,
    bases: Annotated[tuple[str, ...], Parameter(name="--in", metavar="BASE")] = (),
    written_by: Literal["ollama", "extractive", "none"] | None = None,
    budget: Annotated[
        int | None, Parameter(metavar="TOKENS", validator=Number(gte=LEAST_BUDGET, lte=MOST_BUDGET))
    ] = None,
    max_tokens: Annotated[
        int | None, Parameter(metavar="TOKENS", validator=Number(gte=LEAST_TOKENS, lte=MOST_TOKENS))
    ] = None,
    threshold: Score = None,
    direct_threshold: Score = None,
    md: Annotated[bool, Parameter(name="--md")] = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Answer a question from the documents, with a citation for every sentence.

    A model of Ollama writes it if `answers.model` in the global config names one; else it is made of sentences of the
    documents. If nothing covers the question, the answer says so.

    Example: kbhub ask how do we roll back a release

    Args:
        question: What to answer.
        bases: Only look in this base; may be repeated.
        written_by: Let only this one write; `none` prints passages to write from.
        budget: Print the best passages that fit so many tokens, instead of an answer.
        max_tokens: Length of the answer (500).
        threshold: Use only what has at least this score, from 0 to 1 (0.2).
        direct_threshold: From this score on, show passages whole (0.7).
        md: Print a Markdown document.
        common: Options of every command.
    """
    return commands.asking.ask(
        question,
        bases=bases,
        written_by=written_by,
        budget=budget,
        max_tokens=max_tokens,
        threshold=threshold,
        direct_threshold=direct_threshold,
        md=md,
        common=common,
    )
