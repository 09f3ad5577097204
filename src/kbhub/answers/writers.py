"""Building the answer from a model's text, from quoted sentences, or from passages alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.answers.citations import Checked, check
from kbhub.answers.extractive import extract
from kbhub.answers.models import Answer, Passage, Reference, Source
from kbhub.answers.prompts import says_no_answer
from kbhub.answers.tokens import estimated_tokens
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kbhub.answers.models import Outcome, Prepared, Writer
    from kbhub.models.embedding import Embedder

SHOWN_PASSAGES, SHOWN_TOKENS = 3, 900
"""Limits of direct passages shown verbatim with an answer, and of their estimated tokens; the first is always shown."""

NOT_COVERED_TEXT = "Nothing in these bases covers this."
NOT_SEEN_TEXT = "Nothing that was searched covers this."
NOT_SEARCHED_TEXT = "No base could be searched."
NOT_ANSWERED_TEXT = "The passages that come nearest do not answer this."


@struct
class Written:
    """A model's text."""

    text: str
    by: Writer
    model: str | None


def finish_written(prepared: Prepared, written: Written, why: Sequence[str]) -> Answer | str:
    """Build an answer from a model's text.

    Args:
        prepared: the question and its passages.
        written: the text as the model wrote it.
        why: why this writer.

    Returns:
        The answer, or why the text is unusable.
    """
    if says_no_answer(written.text):
        return _answer(prepared, "not_answered", NOT_ANSWERED_TEXT, written.by, why, model=written.model)
    sent = [passage for passage in prepared.passages if passage.number in prepared.sent]
    checked = check(written.text, sent, prepared.options.max_tokens)
    if checked is None:
        return "what it wrote cites too little of the passages" if written.text.strip() else "it wrote nothing"
    return _answer(prepared, "written", checked.text, written.by, why, model=written.model, checked=checked)


def finish_unwritten(prepared: Prepared, why: Sequence[str] = ()) -> Answer:
    """Build an answer of passages alone, or one that says there are none."""
    text = ""
    if prepared.outcome == "not_covered":
        text = NOT_COVERED_TEXT if prepared.verdict else NOT_SEEN_TEXT  # no verdict: some bases were not searched
        text = text if prepared.searched else NOT_SEARCHED_TEXT
    return _answer(prepared, prepared.outcome or "passages", text, "none", why)


def finish_extracted(prepared: Prepared, embedder: Embedder | None, why: Sequence[str]) -> Answer:
    """Build an answer from sentences of the passages, or of passages alone if they have no sentence.

    Args:
        prepared: the question and its passages.
        embedder: as for `extract`.
        why: why no model wrote it.
    """
    draft = extract(prepared, embedder)
    if draft is None:
        return finish_unwritten(prepared, (*why, "The passages have no sentence to quote."))
    checked = Checked(draft.text, draft.support, 0, ())
    return _answer(prepared, "written", draft.text, "extractive", why, checked=checked, sent=False)


def _answer(
    prepared: Prepared,
    outcome: Outcome,
    text: str,
    by: Writer,
    why: Sequence[str],
    *,
    model: str | None = None,
    checked: Checked | None = None,
    sent: bool = True,
) -> Answer:
    support = checked.support if checked else ()
    cited = {quote.number for quote in support}
    received = set(prepared.sent) if sent and by in ("sampling", "ollama") else set()
    passages = prepared.passages if outcome == "passages" else _shown(prepared, cited if by == "extractive" else ())
    return Answer(
        question=prepared.question,
        outcome=outcome,
        text=text,
        written_by=by,
        model=model,
        why=tuple(why),
        verdict=prepared.verdict,
        references=tuple(
            Reference(
                **passage.model_dump(include=set(Source.model_fields)),
                sent=passage.number in received,
                cited=passage.number in cited,
            )
            for passage in prepared.passages
        ),
        passages=passages,
        support=support,
        unmatched=prepared.unmatched,
        removed=checked.removed if checked else 0,
        dropped=checked.dropped if checked else (),
        tokens=estimated_tokens(text) + sum(estimated_tokens(passage.readable) for passage in passages),
        searched=prepared.searched,
        skipped=prepared.skipped,
        notes=prepared.notes,
    )


def _shown(prepared: Prepared, quoted: Collection[int]) -> tuple[Passage, ...]:
    """Return the passages to show whole: unquoted direct ones, or the nearest if none covers the question."""
    if prepared.outcome == "not_covered":
        return prepared.passages[:1]
    room = SHOWN_TOKENS
    shown: list[Passage] = []
    for passage in prepared.passages:
        size = estimated_tokens(passage.readable)
        if passage.number in quoted or passage.tier != "direct":
            continue
        if len(shown) < SHOWN_PASSAGES and (size <= room or not (shown or quoted)):
            shown.append(passage)
            room -= size
    return tuple(shown)
