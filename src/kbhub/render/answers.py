"""Render answers for a person, a file or a model. Texts of documents and models are untrusted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kbhub.documents.safe_text import TITLE_BYTES, fenced, one_line, outdated_mark, quoted
from kbhub.render.layout import neutralised, verdict_words, visible_line
from kbhub.render.model import line, ref_or_docid
from kbhub.render.report import NAME_BYTES, SENTENCE_BYTES, heading_path
from kbhub.render.search import reworded
from kbhub.search.notes import is_unfinished
from kbhub.values import counted

if TYPE_CHECKING:
    from kbhub.answers.answer import Answer, Passage, Source, Support

QUOTE_BYTES = 240
"""UTF-8 bytes shown of the excerpt that supports a citation; the structured answer has all of it."""

NOTES = 4
"""Maximum of notes and skipped bases that are written out."""

OTHERS = 3
"""Maximum of uncited sources that are listed for a person."""

NOWHERE = 8
"""Maximum of listed words that occur nowhere."""

WRITTEN = {
    "sampling": "your own model",
    "ollama": "Ollama",
    "extractive": "kbhub, from sentences of the documents",
    "none": "nobody",
}
"""Writer → name shown to the reader."""

_INDENT = "    "


def answer_for_model(answer: Answer) -> str:
    """Return an answer as a tool result, with all untrusted text in fences."""
    question = quoted(answer.question, TITLE_BYTES)
    if answer.outcome == "passages":
        number = counted(len(answer.passages), "passage")
        head = f"{number} for {question}, best first. Write the answer from them, and cite refs."
        parts = [head, *(f"{_named(passage)}\n{fenced(passage.readable)}" for passage in answer.passages)]
        return "\n\n".join([*parts, *_joined(_notes(answer))])
    if answer.outcome == "not_covered":
        head = f"Most likely, nothing in these bases covers {question}, or not in these words."
        if not answer.searched:
            head = f"No base could be searched for {question}."
        elif is_unfinished(answer.notes):
            head = f"Nothing found yet that covers {question}."
        elif answer.verdict is None:  # not every base could be searched
            head = f"Nothing that was searched covers {question}."
        if answer.unmatched:
            head += f" {_nowhere(answer)}"
        parts = [head]
        if answer.references:
            parts.append("Not an answer, but the nearest passages:")
            parts += [f"{_named(passage)}\n{fenced(passage.readable)}" for passage in answer.passages]
            parts += _joined([_named(source) for source in answer.references[len(answer.passages) :]])
        if answer.searched:
            parts.append(line(reworded("ask", {"question": answer.question}, "")))
        return "\n\n".join([*parts, *_joined(_notes(answer))])
    writer = f"{WRITTEN[answer.written_by]}{_model(answer)}"
    if answer.outcome == "not_answered":
        parts = [f"According to {writer}, the passages nearest to {question} do not answer it."]
    else:
        parts = [f"Answer to {question}, written by {writer}; [n] is a source below.", fenced(answer.text)]
    parts += [f"[{passage.number}] in full:\n{fenced(passage.readable)}" for passage in answer.passages]
    parts.append("\n".join(["Sources:", *_sources(answer)]))
    why = [f"Why: {one_line(' '.join(answer.why), 2 * SENTENCE_BYTES)}"] if answer.why else []
    return "\n\n".join([*parts, *_joined([*why, *_removals(answer), *_notes(answer)])])


def answer_text(answer: Answer, draw: Callable[[str, int], str] | None = None) -> str:
    """Return an answer for a person: the text, the cited sources, then the others.

    `draw` lays Markdown out for a terminal, given the columns of indentation; None keeps the Markdown.
    """
    laid_out = draw or _as_it_stands
    if answer.outcome == "passages":
        return "\n\n".join(_shown_whole(passage, laid_out) for passage in answer.passages)
    if answer.outcome == "not_covered":
        return _nearest_text(answer, laid_out)
    lines = [laid_out(answer.text, 0).rstrip("\n"), "", "Sources:"]
    by_model = answer.written_by in ("sampling", "ollama")
    cited = [source for source in answer.references if source.cited] if answer.outcome == "written" else []
    for source in cited:
        lines.append(f"  {visible_line(_plain_name(source))}")
        if by_model and (support := _best(answer, source.number)):
            quote = one_line(visible_line(support.quote), QUOTE_BYTES)
            lines.append(f"{_INDENT}{_INDENT}“{quote}” line {support.line}")
    others = [source for source in answer.references if source not in cited]
    if others and cited:
        lines += ["", "Also found:"]
    lines += [f"  {visible_line(f'{_plain_name(source)}  {_ground(source)}')}" for source in others[:OTHERS]]
    if len(others) > OTHERS:
        lines.append(f"  and {len(others) - OTHERS} more; use --json to see all.")
    return "\n".join(lines).rstrip()


def _nearest_text(answer: Answer, laid_out: Callable[[str, int], str]) -> str:
    """Return that nothing covers the question, which words occur nowhere, and the nearest sources."""
    parts = [" ".join([answer.text, *([visible_line(_nowhere(answer))] if answer.unmatched else [])])]
    if answer.references:
        parts.append("Nearest:")
        parts += [_shown_whole(passage, laid_out) for passage in answer.passages]
        rest = answer.references[len(answer.passages) :]
        parts += _joined([visible_line(_plain_name(source)) for source in rest])
    return "\n\n".join(parts)


def _shown_whole(passage: Passage, laid_out: Callable[[str, int], str]) -> str:
    text = laid_out(passage.readable, len(_INDENT)).rstrip("\n")
    indented = "\n".join(f"{_INDENT}{line}" if line else "" for line in text.split("\n"))
    return f"{visible_line(_plain_name(passage))}\n{indented}"


def _as_it_stands(text: str, indent: int) -> str:  # noqa: ARG001 - the signature of `draw`
    return neutralised(text)


def _nowhere(answer: Answer) -> str:
    return f"No document contains: {', '.join(one_line(word, NAME_BYTES) for word in answer.unmatched[:NOWHERE])}."


def _ground(source: Source) -> str:
    """Return in a few words why a source is listed."""
    return source.reason if source.score is None else f"score {source.score:.2f}"


def answer_notes(answer: Answer) -> list[str]:
    """Return who wrote an answer and why, what was removed from it, and what limits it."""
    written = answer.outcome in ("written", "not_answered")
    notes = [f"Written by {WRITTEN[answer.written_by]}{_model(answer)}."] if written else []
    notes += [verdict_words(answer.verdict)] if answer.verdict else []
    return [*notes, *answer.why, *_removals(answer), *answer.notes, *_skipped(answer)]


def answer_markdown(answer: Answer) -> str:
    """Return an answer as a Markdown document: the text, then a table of sources."""
    parts = [f"# {one_line(answer.question, TITLE_BYTES)}"]
    if answer.text:
        parts.append(answer.text)
    if answer.outcome == "passages":
        parts += [
            f"## [{passage.number}] {_place(passage)}\n\n{fenced(passage.readable)}" for passage in answer.passages
        ]
    if answer.references:
        parts.append(
            "\n".join(["| # | ref | score | tier | reason | sent |", "|---|---|---|---|---|---|", *_rows(answer)])
        )
    return "\n\n".join(parts)


def _rows(answer: Answer) -> list[str]:
    rows = []
    for source in answer.references:
        score = "" if source.score is None else f"{source.score:.2f}"
        reason, sent = _cell(source.reason + _mark(source, "; ")), "yes" if source.sent else "no"
        rows.append(f"| {source.number} | {_place(source)} | {score} | {source.tier} | {reason} | {sent} |")
    return rows


def _place(source: Source) -> str:
    return f"{_cell(source.ref)}:{source.start_line}-{source.end_line}"


def _sources(answer: Answer) -> list[str]:
    lines = []
    for source in answer.references:
        lines.append(f"{_named(source)} · {one_line(' · '.join(_facts(source, answer)), SENTENCE_BYTES)}")
        if answer.written_by in ("sampling", "ollama") and (support := _best(answer, source.number)):
            lines.append(f"    line {support.line}: {quoted(support.quote, QUOTE_BYTES)}")
    return lines


def _named(source: Source) -> str:
    """Return a line with a source's name, which `read` can open."""
    place = f"{ref_or_docid(source.ref, source.docid)}:{source.start_line}-{source.end_line}"
    line = f"[{source.number}] {place} · {source.docid} · {quoted(_title(source), TITLE_BYTES)}"
    if source.duplicates:
        line += f", the same in {', '.join(one_line(ref, NAME_BYTES) for ref in source.duplicates[:2])}"
    return line + _mark(source, " · ")


def _plain_name(source: Source) -> str:
    place = f"{source.ref}:{source.start_line}-{source.end_line}"
    return f"[{source.number}] {place}  {source.docid}  {_title(source)}{_mark(source, '  ')}"


def _mark(source: Source, separator: str) -> str:
    return f"{separator}{outdated_mark(source.outdated)}" if source.outdated else ""


def _title(source: Source) -> str:
    return " > ".join(heading_path(source.title, source.headings))


def _facts(source: Source, answer: Answer) -> list[str]:
    """Return the tier of a source and its reason, and whether it was sent to the model and cited."""
    facts = [source.tier, source.reason]
    reference = next((row for row in answer.references if row.number == source.number), None)
    if reference and answer.outcome != "not_covered":
        facts += ["sent" if reference.sent else "not sent"] if answer.written_by in ("sampling", "ollama") else []
        facts += ["cited"] if reference.cited else []
    return facts


def _best(answer: Answer, number: int) -> Support | None:
    supports = (support for support in answer.support if support.number == number)
    return max(supports, key=lambda support: support.overlap, default=None)


def _removals(answer: Answer) -> list[str]:
    lines = []
    if answer.removed:
        lines.append(f"Removed {counted(answer.removed, 'invalid citation')}.")
    if answer.dropped:
        lines.append(f"Removed {counted(len(answer.dropped), 'sentence')} without a source.")
    return lines


def _notes(answer: Answer) -> list[str]:
    lines = [*answer.notes, *_skipped(answer)]
    return [one_line(line, SENTENCE_BYTES) for line in lines[:NOTES]]


def _skipped(answer: Answer) -> list[str]:
    return [f"Not searched: {skip.base}. {skip.reason}" for skip in answer.skipped]


def _joined(lines: Sequence[str]) -> list[str]:
    return ["\n".join(lines)] if lines else []


def _model(answer: Answer) -> str:
    return f" ({one_line(answer.model, TITLE_BYTES)})" if answer.model else ""


def _cell(text: str) -> str:
    return one_line(text, NAME_BYTES).replace("|", "\\|").replace("`", "'")
