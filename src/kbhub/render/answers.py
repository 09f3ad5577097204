"""Answers → text for a person, a file or a model. What documents and models say is a stranger's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.render.model import (
    NAME_BYTES,
    SENTENCE_BYTES,
    TITLE_BYTES,
    fenced,
    one_line,
    outdated_mark,
    plain_ref,
    quoted,
)
from kbhub.render.plain import neutralised
from kbhub.render.plain import one_line as visible_line
from kbhub.render.words import counted, verdict_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.answers.models import Answer, Source, Support

QUOTE_BYTES = 240
"""UTF-8 bytes shown of the excerpt that supports a citation; the structured answer has all of it."""

NOTES = 4
"""Notes and bases left out that are written out."""

SAME = 2
"""Documents of the same text that are named."""

WRITTEN = {
    "sampling": "your own model",
    "ollama": "Ollama",
    "extractive": "kbhub, in sentences of the documents",
    "none": "nobody",
}
"""Writer → how it is named to a reader."""

_INDENT = "    "


def answer_for_model(answer: Answer) -> str:
    """Write an answer as the result of a tool: every text that is not ours in a fence that it cannot close."""
    asked = quoted(answer.question, TITLE_BYTES)
    if answer.outcome == "passages":
        number = counted(len(answer.passages), "passage")
        head = f"{number} for {asked}, best first. Write the answer from them, and cite refs."
        parts = [head, *(f"{_named(one)}\n{fenced(one.text)}" for one in answer.passages)]
        return "\n\n".join([*parts, *_joined(_notes(answer))])
    if answer.outcome == "not_covered":
        head = f"Nothing in these bases covers {asked}."
        if not answer.searched:
            head = f"No base could be searched for {asked}."
        elif answer.verdict is None:  # not all could be looked at
            head = f"Nothing that was searched covers {asked}."
        nearest = ["What follows is no answer, but the nearest there is:", *map(_named, answer.references)]
        return "\n\n".join([head, *(_joined(nearest) if answer.references else []), *_joined(_notes(answer))])
    by = f"{WRITTEN[answer.written_by]}{_model(answer)}"
    if answer.outcome == "not_answered":
        parts = [f"The passages nearest to {asked} do not answer it, says {by}."]
    else:
        parts = [f"Answer to {asked}, written by {by}; [n] is a source below.", fenced(answer.text)]
    parts += [f"[{one.number}] whole:\n{fenced(one.text)}" for one in answer.passages]
    parts.append("\n".join(["Sources:", *_sources(answer)]))
    return "\n\n".join([*parts, *_joined([*_whys(answer), *_notes(answer)])])


def answer_text(answer: Answer) -> str:
    """Write an answer for a terminal."""
    if answer.outcome == "passages":
        return "\n\n".join(
            f"{visible_line(_plain_name(one))}\n{_indented(neutralised(one.text))}" for one in answer.passages
        )
    lines = [neutralised(answer.text), ""]
    if answer.references:
        lines.append("Nearest:" if answer.outcome == "not_covered" else "Sources:")
    for one in answer.references:
        lines.append(f"  {visible_line(_plain_name(one))}")
        lines.append(f"{_INDENT}{_INDENT}{visible_line(', '.join(_facts(one, answer)))}")
        if answer.written_by in ("sampling", "ollama") and (found := _best(answer, one.number)):
            lines.append(f"{_INDENT}{_INDENT}“{_shortened(visible_line(found.quote))}” line {found.line}")
    return "\n".join(lines).rstrip()


def answer_notes(answer: Answer) -> list[str]:
    """Say who wrote an answer and why, what was taken out of it, and what limits it."""
    written = answer.outcome in ("written", "not_answered")
    by = [f"Written by {WRITTEN[answer.written_by]}{_model(answer)}."] if written else []
    by += [verdict_words(answer.verdict)] if answer.verdict else []
    return [*by, *answer.why, *_taken_out(answer), *answer.notes, *_left_out(answer)]


def answer_markdown(answer: Answer) -> str:
    """Write an answer as a Markdown document, to be kept: the text, then a table of its sources."""
    parts = [f"# {one_line(answer.question, TITLE_BYTES)}"]
    if answer.text:
        parts.append(answer.text)
    if answer.outcome == "passages":
        parts += [f"## [{one.number}] {_place(one)}\n\n{fenced(one.text)}" for one in answer.passages]
    if answer.references:
        parts.append(
            "\n".join(["| # | ref | score | tier | reason | sent |", "|---|---|---|---|---|---|", *_rows(answer)])
        )
    return "\n\n".join(parts)


def _rows(answer: Answer) -> list[str]:
    return [
        f"| {one.number} | {_place(one)} | {'' if one.score is None else f'{one.score:.2f}'} | {one.tier} "
        f"| {_cell(one.reason + _mark(one, '; '))} | {'yes' if one.sent else 'no'} |"
        for one in answer.references
    ]


def _place(one: Source) -> str:
    return f"{_cell(one.ref)}:{one.start_line}-{one.end_line}"


def _sources(answer: Answer) -> list[str]:
    lines = []
    for one in answer.references:
        lines.append(f"{_named(one)} · {one_line(' · '.join(_facts(one, answer)), SENTENCE_BYTES)}")
        if answer.written_by in ("sampling", "ollama") and (found := _best(answer, one.number)):
            lines.append(f"    line {found.line}: {quoted(found.quote, QUOTE_BYTES)}")
    return lines


def _named(one: Source) -> str:
    """Name a source on one line, so that `read` can open it."""
    ref = plain_ref(one.ref) or one.docid
    same = (
        f", the same in {', '.join(one_line(ref, NAME_BYTES) for ref in one.duplicates[:2])}" if one.duplicates else ""
    )
    return (
        f"[{one.number}] {ref}:{one.start_line}-{one.end_line} · {one.docid} · {quoted(_title(one), TITLE_BYTES)}{same}"
        f"{_mark(one, ' · ')}"
    )


def _plain_name(one: Source) -> str:
    return f"[{one.number}] {one.ref}:{one.start_line}-{one.end_line}  {one.docid}  {_title(one)}{_mark(one, '  ')}"


def _mark(one: Source, apart: str) -> str:
    return f"{apart}{outdated_mark(one.outdated)}" if one.outdated else ""


def _title(one: Source) -> str:
    return " > ".join((one.title, *(one.headings[1:] if one.headings[:1] == (one.title,) else one.headings)))


def _facts(one: Source, answer: Answer) -> list[str]:
    """Say what a source is: how good, of which tier, why, whether a model got it, whether it is cited."""
    facts = [one.tier, one.reason]
    reference = next((row for row in answer.references if row.number == one.number), None)
    if reference and answer.outcome != "not_covered":
        facts += ["sent" if reference.sent else "not sent"] if answer.written_by in ("sampling", "ollama") else []
        facts += ["cited"] if reference.cited else []
    return facts


def _best(answer: Answer, number: int) -> Support | None:
    return max((one for one in answer.support if one.number == number), key=lambda one: one.overlap, default=None)


def _whys(answer: Answer) -> list[str]:
    lines = [f"Why: {one_line(' '.join(answer.why), 2 * SENTENCE_BYTES)}"] if answer.why else []
    return lines + _taken_out(answer)


def _taken_out(answer: Answer) -> list[str]:
    lines = []
    if answer.removed:
        lines.append(f"{counted(answer.removed, 'citation')} pointed nowhere and went out.")
    if answer.dropped:
        lines.append(f"{counted(len(answer.dropped), 'sentence')} without a source went out.")
    return lines


def _notes(answer: Answer) -> list[str]:
    lines = [*answer.notes, *_left_out(answer)]
    return [one_line(line, SENTENCE_BYTES) for line in lines[:NOTES]]


def _left_out(answer: Answer) -> list[str]:
    return [f"Not searched: {one.base}. {one.reason}" for one in answer.skipped]


def _joined(lines: Sequence[str]) -> list[str]:
    return ["\n".join(lines)] if lines else []


def _model(answer: Answer) -> str:
    return f" ({one_line(answer.model, TITLE_BYTES)})" if answer.model else ""


def _cell(text: str) -> str:
    return one_line(text, NAME_BYTES).replace("|", "\\|").replace("`", "'")


def _indented(text: str) -> str:
    return "\n".join(f"{_INDENT}{line}" if line else "" for line in text.split("\n"))


def _shortened(text: str) -> str:
    return one_line(text, QUOTE_BYTES)
