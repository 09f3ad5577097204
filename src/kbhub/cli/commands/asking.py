"""What `kbhub ask` does."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from kbhub.answers import AskOptions
from kbhub.answers import ask as answer_question
from kbhub.cli.console import show, show_json, show_text, terminal_width, wants_colour
from kbhub.cli.hubs import hub_options
from kbhub.cli.readiness import bring_in_step, complain_all, complain_broken, complain_nothing
from kbhub.errors import UsageError
from kbhub.hub import Hub
from kbhub.later import pages
from kbhub.query import STOP_WORDS, parsed
from kbhub.querylog.recording import USER, flush
from kbhub.render.answers import answer_markdown, answer_notes, answer_text
from kbhub.render.plain import neutralised

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kbhub.answers.models import Writer
    from kbhub.cli.options import Common


def ask(
    words: Sequence[str],
    *,
    bases: Sequence[str],
    written_by: Writer | None,
    budget: int | None,
    max_tokens: int | None,
    threshold: float | None,
    direct_threshold: float | None,
    md: bool,
    common: Common,
) -> int:
    """Bring small bases in step, and print an answer; 1 if there is none."""
    if md and common.json:
        raise UsageError("--json and --md exclude each other; use one.")
    question = " ".join(word.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for word in words)
    if not question.strip():
        raise UsageError("There is nothing to answer. Ask: kbhub ask QUESTION.")
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
    answer = answer_question(hub, question, bases=bases, options=options, asker=USER)
    if common.json:
        show_json(answer.model_dump_json(indent=2))
    elif md:
        written = answer_markdown(answer)
        # A file gets what the documents say; a terminal would act upon some of it.
        show(neutralised(written) if sys.stdout.isatty() else written)
    else:
        show_text(answer_text(answer, _drawing(question)))
    if not common.json:
        complain_all(answer_notes(answer))
    flush()
    return 0 if answer.outcome == "written" or (answer.outcome == "passages" and answer.passages) else 1


def _drawing(question: str) -> Callable[[str, int], str] | None:
    """Give what lays an answer out for a terminal, with the words of the question highlighted; none elsewhere."""
    width = terminal_width()
    if width is None:
        return None
    colour = wants_colour(sys.stdout, os.environ)
    terms = tuple(term for term in parsed(question).terms if not STOP_WORDS.issuperset(term.tokens))
    return lambda text, indent: pages.drawn(text, width - indent, colour=colour, terms=terms)
