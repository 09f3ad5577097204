"""Answers → text for a person, a file or a model. What documents and models say is a stranger's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.documents.safe_text import TITLE_BYTES, fenced, one_line, outdated_mark, quoted
from kbhub.render.model import NAME_BYTES, SENTENCE_BYTES, plain_ref
from kbhub.render.plain import neutralised
from kbhub.render.plain import one_line as visible_line
from kbhub.render.words import verdict_words
from kbhub.values import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kbhub.answers.models import Answer, Passage, Source, Support

QUOTE_BYTES = 240
"""UTF-8 bytes shown of the excerpt that supports a citation; the structured answer has all of it."""

NOTES = 4
"""Notes and bases left out that are written out."""

OTHERS = 3
"""Sources without a citation that are listed for a person."""

NOWHERE = 8
"""Words that occur nowhere that are named."""


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
        parts = [head, *(f"{_named(one)}\n{fenced(one.readable)}" for one in answer.passages)]
        return "\n\n".join([*parts, *_joined(_notes(answer))])
    if answer.outcome == "not_covered":
        head = f"Nothing in these bases covers {asked}."
        if not answer.searched:
            head = f"No base could be searched for {asked}."
        elif answer.verdict is None:  # not all could be looked at
            head = f"Nothing that was searched covers {asked}."
        if answer.unmatched:
            head += f" {_nowhere(answer)}"
        parts = [head]
        if answer.references:
            parts.append("What follows is no answer, but the nearest there is:")
            parts += [f"{_named(one)}\n{fenced(one.readable)}" for one in answer.passages]
            parts += _joined([_named(one) for one in answer.references[len(answer.passages) :]])
        return "\n\n".join([*parts, *_joined(_notes(answer))])
    by = f"{WRITTEN[answer.written_by]}{_model(answer)}"
    if answer.outcome == "not_answered":
        parts = [f"The passages nearest to {asked} do not answer it, says {by}."]
    else:
        parts = [f"Answer to {asked}, written by {by}; [n] is a source below.", fenced(answer.text)]
    parts += [f"[{one.number}] whole:\n{fenced(one.readable)}" for one in answer.passages]
    parts.append("\n".join(["Sources:", *_sources(answer)]))
    return "\n\n".join([*parts, *_joined([*_whys(answer), *_notes(answer)])])


def answer_text(answer: Answer, draw: Callable[[str, int], str] | None = None) -> str:
    """Write an answer for a person: the text, what it cites, then what else was found.

    Args:
        answer: what was answered.
        draw: lays Markdown out for a terminal, behind so many columns; none gives it as it stands.
    """
    laid_out = draw or _as_it_stands
    if answer.outcome == "passages":
        return "\n\n".join(_shown_whole(one, laid_out) for one in answer.passages)
    if answer.outcome == "not_covered":
        return _nearest_text(answer, laid_out)
    lines = [laid_out(answer.text, 0).rstrip("\n"), "", "Sources:"]
    by_model = answer.written_by in ("sampling", "ollama")
    cited = [one for one in answer.references if one.cited] if answer.outcome == "written" else []
    for one in cited:
        lines.append(f"  {visible_line(_plain_name(one))}")
        if by_model and (found := _best(answer, one.number)):
            lines.append(f"{_INDENT}{_INDENT}“{_shortened(visible_line(found.quote))}” line {found.line}")
    others = [one for one in answer.references if one not in cited]
    if others and cited:
        lines += ["", "Also found:"]
    lines += [f"  {visible_line(f'{_plain_name(one)}  {_ground(one)}')}" for one in others[:OTHERS]]
    if len(others) > OTHERS:
        lines.append(f"  and {len(others) - OTHERS} more; --json has all.")
    return "\n".join(lines).rstrip()


def _nearest_text(answer: Answer, laid_out: Callable[[str, int], str]) -> str:
    """Say that nothing covers a question, what occurs nowhere, and what comes nearest."""
    parts = [" ".join([answer.text, *([visible_line(_nowhere(answer))] if answer.unmatched else [])])]
    if answer.references:
        parts.append("Nearest:")
        parts += [_shown_whole(one, laid_out) for one in answer.passages]
        rest = answer.references[len(answer.passages) :]
        parts += _joined([visible_line(_plain_name(one)) for one in rest])
    return "\n\n".join(parts)


def _shown_whole(one: Passage, laid_out: Callable[[str, int], str]) -> str:
    text = laid_out(one.readable, len(_INDENT)).rstrip("\n")
    return f"{visible_line(_plain_name(one))}\n{_indented(text)}"


def _as_it_stands(text: str, indent: int) -> str:  # noqa: ARG001 - lines of a file have no width
    return neutralised(text)


def _nowhere(answer: Answer) -> str:
    return f"Found nowhere: {', '.join(one_line(word, NAME_BYTES) for word in answer.unmatched[:NOWHERE])}."


def _ground(one: Source) -> str:
    """Say in short why a source is there."""
    return one.reason if one.score is None else f"score {one.score:.2f}"


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
        parts += [f"## [{one.number}] {_place(one)}\n\n{fenced(one.readable)}" for one in answer.passages]
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
