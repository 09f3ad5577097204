"""Cited answers: ask."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub.answers import AskOptions
from kbhub.answers import ask as answer_question
from kbhub.answers.answer import LEAST_BUDGET, LEAST_TOKENS, MOST_BUDGET, MOST_TOKENS
from kbhub.cli.console import show, show_json, show_text, terminal_width, wants_colour
from kbhub.cli.hubs import bring_in_step, complain_all, complain_broken, complain_nothing, decoded, hub_options
from kbhub.cli.options import Common
from kbhub.errors import UsageError
from kbhub.hub import Hub
from kbhub.index.query.parser import parsed
from kbhub.index.query.tokens import STOP_WORDS
from kbhub.render import pages
from kbhub.render.answers import answer_markdown, answer_notes, answer_text
from kbhub.render.words import neutralised
from kbhub.usage.log import USER, flush

if TYPE_CHECKING:
    from collections.abc import Callable

Score = Annotated[float | None, Parameter(metavar="X", validator=Number(gte=0, lte=1))]


def ask(
    *question: str,
    also: Annotated[tuple[str, ...], Parameter(name="--also", metavar="WORDS")] = (),
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

    An Ollama model writes the answer if `answers.model` in the global config names one; otherwise kbhub composes it
    from sentences of the documents. If no document covers the question, the answer says so.

    Example: kbhub ask how do we roll back a release

    Args:
        question: The question.
        also: Another wording of the question, as the documents might put it; may be repeated.
        bases: Search only this base; may be repeated.
        written_by: Who writes the answer; `none` prints the passages instead.
        budget: Print the best passages that fit in this many tokens, instead of an answer.
        max_tokens: Maximum length of the answer, in tokens (500).
        threshold: Use only passages with at least this score, from 0 to 1 (0.2).
        direct_threshold: Show passages with at least this score in full (0.7).
        md: Print Markdown.
        common: Options of every command.

    Returns:
        The exit code: 1 if there is none.
    """
    if md and common.json:
        raise UsageError("--json cannot be used with --md.")
    text = " ".join(map(decoded, question))
    if not text.strip():
        raise UsageError("No question given. Usage: kbhub ask QUESTION")
    given = {
        "written_by": written_by,
        "budget": budget,
        "max_tokens": max_tokens,
        "threshold": threshold,
        "direct_threshold": direct_threshold,
    }
    options = AskOptions.model_validate({name: value for name, value in given.items() if value is not None})
    hub = Hub(hub_options(common))
    if not hub.discovery().bases:
        complain_broken(hub)
        complain_nothing(hub)
        return 1
    bring_in_step(hub, bases)
    answer = answer_question(hub, text, queries=tuple(map(decoded, also)), bases=bases, options=options, asker=USER)
    if common.json:
        show_json(answer.model_dump_json(indent=2))
    elif md:
        written = answer_markdown(answer)
        # A file gets what the documents say; a terminal would act upon some of it.
        show(neutralised(written) if sys.stdout.isatty() else written)
    else:
        show_text(answer_text(answer, _drawing(text)))
    if not common.json:
        complain_all(answer_notes(answer))
    flush()
    return 0 if answer.outcome == "written" or (answer.outcome == "passages" and answer.passages) else 1


def _drawing(question: str) -> Callable[[str, int], str] | None:
    """Return a layout for a terminal that highlights the words of the question, or None elsewhere."""
    width = terminal_width()
    if width is None:
        return None
    colour = wants_colour(sys.stdout, os.environ)
    terms = tuple(term for term in parsed(question).terms if not STOP_WORDS.issuperset(term.tokens))
    return lambda text, indent: pages.drawn(text, width - indent, colour=colour, terms=terms)
