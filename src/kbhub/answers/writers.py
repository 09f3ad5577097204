"""Who writes the answer: a model if one can be had, else kbhub itself; and what is made of what was written."""

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
    from kbhub.embedding import Embedder

SHOWN_PASSAGES, SHOWN_TOKENS = 3, 900
"""Direct passages that an answer has verbatim beside its text, and estimated tokens of them; the first is always."""

NOT_COVERED_TEXT = "Nothing in these bases covers this."
NOT_SEEN_TEXT = "Nothing that was searched covers this."
NOT_SEARCHED_TEXT = "No base could be searched."
NOT_ANSWERED_TEXT = "The passages that come nearest do not answer this."


@struct
class Written:
    """What a model wrote."""

    text: str
    by: Writer
    model: str | None


def finish_written(prepared: Prepared, written: Written, why: Sequence[str]) -> Answer | str:
    """Make an answer of what a model wrote.

    Args:
        prepared: the question and its passages.
        written: the text, as it came.
        why: why this writer.

    Returns:
        The answer; or, if the text is of no use, why not.
    """
    if says_no_answer(written.text):
        return _answer(prepared, "not_answered", NOT_ANSWERED_TEXT, written.by, why, model=written.model)
    sent = [one for one in prepared.passages if one.number in prepared.sent]
    checked = check(written.text, sent, prepared.options.max_tokens)
    if checked is None:
        return "what it wrote cites too little of the passages" if written.text.strip() else "it wrote nothing"
    return _answer(prepared, "written", checked.text, written.by, why, model=written.model, checked=checked)


def finish_unwritten(prepared: Prepared, why: Sequence[str] = ()) -> Answer:
    """Give the passages alone, or say that there are none."""
    text = ""
    if prepared.outcome == "not_covered":
        judged = NOT_COVERED_TEXT if prepared.verdict else NOT_SEEN_TEXT  # without a verdict, not all was looked at
        text = judged if prepared.searched else NOT_SEARCHED_TEXT
    return _answer(prepared, prepared.outcome or "passages", text, "none", why)


def finish_extracted(prepared: Prepared, embedder: Embedder | None, why: Sequence[str]) -> Answer:
    """Write the answer out of sentences of the passages; the passages alone if they have no sentence.

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
    cited = {one.number for one in support}
    got = set(prepared.sent) if sent and by in ("sampling", "ollama") else set()
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
            _reference(one, sent=one.number in got, cited=one.number in cited) for one in prepared.passages
        ),
        passages=passages,
        support=support,
        unmatched=prepared.unmatched,
        removed=checked.removed if checked else 0,
        dropped=checked.dropped if checked else (),
        tokens=estimated_tokens(text) + sum(estimated_tokens(one.readable) for one in passages),
        searched=prepared.searched,
        skipped=prepared.skipped,
        notes=prepared.notes,
    )


def _shown(prepared: Prepared, quoted: Collection[int]) -> tuple[Passage, ...]:
    """Give the passages that an answer shows whole: direct ones that it does not quote; the nearest, if none covers."""
    if prepared.outcome == "not_covered":
        return prepared.passages[:1]
    room = SHOWN_TOKENS
    shown: list[Passage] = []
    for one in prepared.passages:
        size = estimated_tokens(one.readable)
        if one.number in quoted or one.tier != "direct":
            continue
        if len(shown) < SHOWN_PASSAGES and (size <= room or not (shown or quoted)):
            shown.append(one)
            room -= size
    return tuple(shown)


def _reference(one: Passage, *, sent: bool, cited: bool) -> Reference:
    return Reference(**one.model_dump(include=set(Source.model_fields)), sent=sent, cited=cited)
