"""Render results as Markdown for a model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from kbhub.documents.safe_text import TITLE_BYTES, cut, fenced, one_line, outdated_mark, quoted
from kbhub.index.query.excerpts import excerpt
from kbhub.index.query.parser import parsed
from kbhub.render.layout import contribution_of, heading_path, total_of
from kbhub.search.notes import LEADING_NOTES, NEAR_ONLY, is_unfinished, rewording_helps
from kbhub.types import Hit, Query, SearchResult
from kbhub.values import counted

if TYPE_CHECKING:
    from kbhub.reading.reports import Reading, ReadResult


T = TypeVar("T")

ANSWER_BYTES, FULL_ANSWER_BYTES = 8_000, 24_000
"""UTF-8 bytes of an answer, some 2,000 tokens; and of one with `full`, which may be as long as an answer of `read`."""

EXCERPT_BYTES = 2_600
"""UTF-8 bytes of the first hit's excerpt; excerpts of Latin or Chinese text are shorter."""

GLANCE_CHARACTERS, GLANCE_BYTES = 160, 480
"""Characters and UTF-8 bytes of the line shown for each other hit."""

NAME_BYTES, SENTENCE_BYTES, ERROR_BYTES = 240, 260, 1_500
"""UTF-8 bytes shown of a path, of a note or reason, and of an error."""

PROBLEM_BYTES = 4 * NAME_BYTES
"""UTF-8 bytes shown of a problem: it ends with the command to run, after up to three paths."""

NEAREST = 3
"""Refs shown if no hit covers the query."""

LIST_BYTES = 320
"""UTF-8 bytes of a list within a sentence."""

SENTENCES = 4
"""Maximum of notes, skipped bases or problems that are written out; the rest are counted."""

SEARCH_OPTIONS = ("granularity", "recency", "min_score", "min_signals")
"""Query fields in the tool's `options` that affect which hits there are."""

_REWORD = 'Try other wordings, as the documents may put it: {}={}, queries=["…", "…"])'

SAME = "<the same>"
"""Placeholder in a suggested call for a value that is long or contains line breaks."""

SLACK_BYTES = 16
"""UTF-8 bytes by which the final heading and cursor may be longer than the measured ones."""

_PLAIN_REF = re.compile(r"""[^\s"'`,\\<>]+(?: [^\s"'`,\\<>]+)*""")


def numbered(reading: Reading) -> str:
    """Return the text of a reading with the line number in the document before each line."""
    width = len(str(reading.end_line))
    lines = reading.text.split("\n") if reading.end_line >= reading.start_line else []
    return "\n".join(f"{number:>{width}}: {line}" for number, line in enumerate(lines, reading.start_line))


def error_answer(message: str) -> str:
    """Return an error message as an answer."""
    return one_line(message, ERROR_BYTES)


def search_answer(
    result: SearchResult,
    query: Query,
    cursor: Callable[[int], str],
    *,
    full: bool = False,
) -> tuple[str, SearchResult]:
    """Return the answer to a search: the first hit verbatim, the others as refs, the next calls, and notes.

    It has at most `ANSWER_BYTES` of UTF-8, or `FULL_ANSWER_BYTES` with `full`, which quotes every hit in full, and
    comes with the result of only the hits that fit. `cursor` returns the cursor for an offset.
    """
    footer = _limits_of(result)
    if not result.hits:
        return "\n".join([_heading(result, query, 0), *footer, *_advice(result, query)]), result
    if result.verdict == "none" and not full and not query.explain:
        return _empty_handed(result, query, footer)
    number = query.offset + 1
    scored = not result.listed
    first = _quoted_hit(number, result.hits[0], FULL_ANSWER_BYTES * 3 // 4 if full else EXCERPT_BYTES, scored=scored)
    if leading := [note for note in result.notes if note in LEADING_NOTES]:
        first = [*leading, "", *first]
    room = FULL_ANSWER_BYTES if full else ANSWER_BYTES
    room -= sum(size_of(line) for line in [*first, *footer, _heading(result, query, len(result.hits))])
    room -= size_of("\n".join(_next_calls(result, query, 2, cursor, full=full, more=True))) + SLACK_BYTES
    pointers = []
    for above, hit in pairwise(result.hits):
        number += 1
        if full:
            pointer = "\n".join(_quoted_hit(number, hit, FULL_ANSWER_BYTES, above, scored=scored))
        else:
            pointer = _pointer(number, hit, query, above, scored=scored)
        room -= size_of(pointer)
        if room < 0:
            break
        pointers.append(pointer)
    shown = 1 + len(pointers)
    end = query.offset + shown
    calls = _next_calls(result, query, shown, cursor, full=full, more=end < result.total)
    tail = ["", *calls, *footer] if calls or footer else []
    text = "\n".join([_heading(result, query, shown), "", *first, *pointers, *tail])
    following = cursor(end) if end < result.total else None
    return text, result.model_copy(update={"hits": result.hits[:shown], "cursor": following})


def _empty_handed(result: SearchResult, query: Query, footer: Sequence[str]) -> tuple[str, SearchResult]:
    """Return where the nearest hits are, without excerpts, which a model would take for an answer."""
    nearest = tuple(hit.model_copy(update={"excerpt": ""}) for hit in result.hits[:NEAREST])
    leading = [note for note in result.notes if note in LEADING_NOTES]
    places = [f"{number}. {_hit_line(hit, scored=True)}" for number, hit in enumerate(nearest, query.offset + 1)]
    lines = [_heading(result, query, len(nearest)), "", *leading, "", *places, "", *footer, *_advice(result, query)]
    return "\n".join(lines), result.model_copy(update={"hits": nearest})


def cut_lines(lines: Sequence[tuple[str, T | None]], limit: int, advice: str) -> tuple[str, list[T]]:
    """Join as many lines as fit into `limit` bytes, and return the text with the items of these lines.

    A line has the item of the result that it describes, or None for headings and the like. The rest is counted;
    `advice` says what to do about it.
    """
    room, texts, items = limit - SENTENCE_BYTES, list[str](), list[T]()
    for line, item in lines:
        room -= size_of(line)
        if room < 0:
            texts.append(f"… and {counted(len(lines) - len(texts), 'more line')}; {advice}.")
            break
        texts.append(line)
        items += [] if item is None else [item]
    return "\n".join(texts), items


def read_answer(result: ReadResult, refs: str | Sequence[str] = "", *, line_numbers: bool = False) -> str:
    """Return the answer to `read`: each document below a line with its name, then what could not be read.

    `refs` are the requested ones, for the call for the next page.
    """
    parts = [_reading(reading, line_numbers=line_numbers) for reading in result.readings]
    parts += [
        f"Not read: {quoted(unread.ref, NAME_BYTES)}: {one_line(unread.message, ERROR_BYTES)}"
        for unread in result.unread
    ]
    if result.cursor:
        same = _written(refs if isinstance(refs, str) else list(refs))
        numbers = ", line_numbers=true" if line_numbers else ""
        parts.append(f'Next page, of {result.total} documents: read(refs={same}{numbers}, cursor="{result.cursor}")')
    return "\n\n".join(parts)


def _heading(result: SearchResult, query: Query, shown: int) -> str:
    question, where = quoted(query.text, TITLE_BYTES), f"in {listed(result.searched)}"
    if not result.searched:
        return f"No hits for {question}: no base could be searched."
    if not result.hits:
        more = "more " if query.offset else ""
        none = f"Nothing {more}found yet" if is_unfinished(result.notes) else f"No {more}hits"
        return f"{none} for {question} {where} ({result.mode})."
    first = query.offset + 1
    range_ = f"Hit {first}" if shown == 1 else f"Hits {first}-{query.offset + shown}"
    order = "newest first" if result.listed else result.mode
    return f"{range_} of {total_of(result)} for {question} {where} ({order})"


def _quoted_hit(number: int, hit: Hit, limit: int, above: Hit | None = None, *, scored: bool) -> list[str]:
    text = cut(hit.excerpt, limit)
    lines = [f"{number}. {_hit_line(hit, scored=scored)}", *_place_lines(hit, above), fenced(text)]
    whole = hit.end_line - hit.start_line + 1
    shown = text.count("\n") + 1
    if hit.kind == "memory" and hit.whole and text == hit.excerpt:
        return lines + _trace_lines(hit)  # `read` would return nothing more
    if shown < whole or "…" in text[:1] + text[-1:]:
        call = _read_call(hit, f":{hit.start_line}:{whole}")
        lines.append(f"   lines {hit.excerpt_line}-{hit.excerpt_line + shown - 1} shown; all: {call}")
    else:
        lines.append(f"   whole document: {_read_call(hit, '')}")
    return lines + _trace_lines(hit)


def _pointer(number: int, hit: Hit, query: Query, above: Hit, *, scored: bool) -> str:
    lines = [line for line in hit.excerpt.split("\n") if line.strip()]
    while len(lines) > 1 and lines[0].startswith("#"):  # the heading path shows them already
        del lines[0]
    part, _ = excerpt("\n".join(lines), parsed(query.text).terms, GLANCE_CHARACTERS)
    glance = re.sub(r"`{3,}|~{3,}", "`", one_line(part, GLANCE_BYTES))
    first = f"{number}. {_hit_line(hit, scored=scored)}"
    return "\n".join([first, *_place_lines(hit, above), f"   > {glance}", *_trace_lines(hit)])


def _place_lines(hit: Hit, above: Hit | None) -> list[str]:
    """Return the contexts of a hit's path, unless they are the same as for the hit above."""
    return [f"   {_about(hit.contexts)}"] if hit.contexts and (above is None or hit.contexts != above.contexts) else []


def _about(contexts: Sequence[str]) -> str:
    return f"context: {quoted(' › '.join(contexts), SENTENCE_BYTES)}"


def _hit_line(hit: Hit, *, scored: bool) -> str:
    names = heading_path(hit.title, hit.headings)
    ref = ref_or_docid(hit.ref, hit.docid)
    fields = [
        f"{ref}:{hit.start_line}-{hit.end_line}",
        quoted(" › ".join(name[:TITLE_BYTES] for name in names), TITLE_BYTES),
        *([f"{hit.score:.2f}"] if scored else []),
    ]
    if ref == hit.docid:
        fields.insert(1, f"path {quoted(hit.ref, NAME_BYTES)}")
    if hit.also:
        fields.append(f"also lines {', '.join(f'{span.start_line}-{span.end_line}' for span in hit.also)}")
    if hit.duplicates:
        fields.append(f"same text: {one_line(', '.join(hit.duplicates), NAME_BYTES)}")
    if hit.replaces:
        fields.append(f"replaces {one_line(', '.join(hit.replaces), NAME_BYTES)}")
    if hit.outdated:
        fields.append(outdated_mark(hit.outdated))
    elif hit.stale:
        fields.append(f"{hit.age_days} days old, stale")
    return " · ".join(fields)


def _trace_lines(hit: Hit) -> list[str]:
    if hit.trace is None:
        return []
    signals = "; ".join(
        f"{signal.name}{f' rank {signal.rank}' if signal.rank else ''} ({signal.value:.3f}) adds "
        f"{contribution_of(signal).removeprefix('+')}{f' ({signal.reason})' if signal.reason else ''}"
        for signal in hit.trace.signals
    )
    factors = "".join(f" × {name} {value:g}" for name, value in hit.trace.factors.items())
    trace = f"trace: ({signals}){factors}" if factors else f"trace: {signals}"
    return [one_line(trace, 2 * SENTENCE_BYTES).join(("   ", ""))]


def _next_calls(
    result: SearchResult,
    query: Query,
    shown: int,
    cursor: Callable[[int], str],
    *,
    full: bool,
    more: bool,
) -> list[str]:
    lines = []
    if shown > 1 and len(result.hits) > 1 and not full:
        hit = result.hits[1]
        call = _read_call(hit, f":{hit.start_line}-{hit.end_line}")
        lines.append(f"To open another hit: {call}; same for every ref above.")
    if more:
        lines.append(f"Next page: {_search_call(query, cursor(query.offset + shown), full=full)}")
    if result.verdict == "weak" and not query.queries and not query.offset:
        lines.append(reworded("search(query", query.text))
    return lines


def _search_call(query: Query, cursor: str, *, full: bool) -> str:
    arguments = [f"query={_written(query.text)}"]
    if query.queries:
        arguments.append(f"queries={_written(query.queries)}")
    if query.bases:
        bases = ",".join(query.bases)
        arguments.append(f'bases="{bases}"' if one_line(bases, NAME_BYTES) == bases else f"bases={SAME}")
    arguments.append(f'mode="{query.mode}"')
    options = query.model_dump(mode="json", include=set(SEARCH_OPTIONS), exclude_defaults=True)
    given = {**options, "full": full, "hyde": query.passage}
    if written := [f'"{name}": {_written(value)}' for name, value in given.items() if value]:
        arguments.append(f"options={{{', '.join(written)}}}")
    return f'search({", ".join(arguments)}, cursor="{cursor}")'


def reworded(call: str, text: str) -> str:
    """Return the next step after a weak answer, or none: the call with other wordings to fill in.

    `call` ends before the name of the argument with the question.
    """
    return _REWORD.format(call, _written(text))


def _written(value: object) -> str:
    """Return an argument of a suggested call as JSON, or a placeholder if it is long or would break the line."""
    text = json.dumps(value, ensure_ascii=False)
    return text if one_line(text, NAME_BYTES) == text else SAME


def _limits_of(result: SearchResult) -> list[str]:
    """Return what limits the answer: skipped bases, words that occur nowhere, notes."""
    skipped = [f"{quoted(skip.base, TITLE_BYTES)}: {skip.reason}" for skip in result.skipped]
    lines = sentences("Not searched", skipped)
    if result.unmatched and NEAR_ONLY not in result.notes:
        lines.append(f"Words that no document contains: {listed(result.unmatched)}")
    return lines + sentences("Note", [note for note in result.notes if note not in LEADING_NOTES])


def _advice(result: SearchResult, query: Query) -> list[str]:
    if not result.searched:
        return ["`status` shows indexing progress and problems."]
    if query.offset:
        return [f"There are {total_of(result)} hits in total; search without `cursor` for the first."]
    if is_unfinished(result.notes):
        return ["Search again in a moment; `status` shows how far indexing is."]
    again = [reworded("search(query", query.text)] if rewording_helps(result.notes) else []
    return [*again, "`status` lists the bases and what is indexed."]


def _reading(reading: Reading, *, line_numbers: bool) -> str:
    lines = f"lines {reading.start_line}-{reading.end_line} of {reading.total_lines}"
    if reading.offset:
        lines += f", from character {reading.offset + 1} of line {reading.start_line}"
    name = plain_ref(reading.ref)
    head = [
        name or quoted(reading.ref, NAME_BYTES),
        reading.docid,
        lines if reading.total_lines else "empty",
        quoted(reading.title, TITLE_BYTES),
    ]
    if reading.hash:
        head.append(f"hash {reading.hash}")
    parts = [" · ".join(head), *([_about(reading.contexts)] if reading.contexts else [])]
    if reading.deleted:
        parts.append(one_line(f"note: {reading.deleted}", SENTENCE_BYTES))
    parts.append(fenced(numbered(reading) if line_numbers else reading.text))
    if reading.rest:
        rest = reading.rest if name else reading.docid + reading.rest.removeprefix(reading.ref)
        parts.append(f'continues: read(refs="{rest}")')
    return "\n".join(parts)


def sentences(label: str, told: Iterable[str], limit: int = SENTENCE_BYTES) -> list[str]:
    """Return a labelled line for each sentence, cut at `limit` bytes, and one that counts those beyond `SENTENCES`."""
    texts = list(told)
    lines = [f"{label}: {one_line(text, limit)}" for text in texts[:SENTENCES]]
    if len(texts) > SENTENCES:
        lines.append(f"{label}: … and {len(texts) - SENTENCES} more; `status` lists the bases.")
    return lines


def listed(names: Sequence[str]) -> str:
    """Join as many names as fit, and count the rest."""
    shown: list[str] = []
    for name in names:
        if shown and sum(map(size_of, shown)) + min(len(name), TITLE_BYTES) > LIST_BYTES - TITLE_BYTES:
            break
        shown.append(one_line(name, TITLE_BYTES).replace("`", "'"))
    left = len(names) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left else "")


def ref_or_docid(ref: str, docid: str) -> str:
    """Return a ref if it can be used in a call as it is, else the docid."""
    return plain_ref(ref) or docid


def plain_ref(ref: str) -> str | None:
    """Return a ref if it can be used in a call as it is, or None if it is too long or has special characters."""
    plain = one_line(ref, NAME_BYTES) == ref and _PLAIN_REF.fullmatch(ref) and "·" not in ref
    return ref if plain else None


def _read_call(hit: Hit, part: str) -> str:
    return f'read(refs="{ref_or_docid(hit.ref, hit.docid)}{part}")'


def size_of(text: str) -> int:
    """Return the UTF-8 bytes of a line, including its newline."""
    return len(text.encode("utf-8", "replace")) + 1
