"""Write reports as Markdown for a model: names quoted, texts fenced, next steps as tool calls, in a number of bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from typing import Any

from kbhub.documents.shown_text import TITLE_BYTES, bare, compact, cut, fenced, one_line, quoted, unmarked
from kbhub.index.query.excerpts import excerpt
from kbhub.render.report import (
    ERROR_BYTES,
    LINE_BYTES,
    Bare,
    Call,
    Item,
    Line,
    Name,
    Names,
    Quote,
    Ref,
    Report,
    Say,
    Text,
)
from kbhub.values import counted

ANSWER_BYTES, FULL_ANSWER_BYTES = 8_000, 24_000
"""UTF-8 bytes of an answer, some 2,000 tokens; and of one with `full`, which may be as long as an answer of `read`."""

GLANCE_CHARACTERS = 110
"""Characters shown of a text on the line below a hit."""

LIST_BYTES = 320
"""UTF-8 bytes of a list within a sentence."""

SAME = "<the same>"
"""Placeholder in a suggested call for a value that is long or contains line breaks."""

SLACK_BYTES = 16
"""UTF-8 bytes by which the final first line and calls may be longer than the measured ones."""

SEPARATOR = " · "

_FRONT_MATTER = re.compile(r"\A---\n.*?^---\s*", re.DOTALL | re.MULTILINE)

_FENCE = re.compile(r"^ {0,3}(?:`{3,}|~{3,})", re.MULTILINE)
_CLOSING = re.compile(r"\s*(?:`{3,}|~{3,})[ \t]*\n\s*")

_PLAIN_REF = re.compile(r"""[^\s"'`,\\<>]+(?: [^\s"'`,\\<>]+)*""")


def answer(report: Report, limit: float = ANSWER_BYTES) -> tuple[str, Any]:
    """Return a report in at most `limit` UTF-8 bytes, and the result with only what is in the text."""
    items = [part for part in report.parts if isinstance(part, Item)]
    notes = _notes(report.notes, report.most_notes)

    def around(count: int) -> tuple[list[str], list[str]]:
        top = [*map(line, report.summary(count))] if report.summary else []
        tail = [*notes, *map(line, report.calls(count) if report.calls else ())]
        gap = [""] if items and "" in top and tail else []
        return [*top, *_lines(report.head, None, listed=False)], [*gap, *tail]

    longest = max(sum(map(_size_of, chain(*around(count)))) for count in {len(items), max(len(items) - 1, 0)})
    room = limit - longest - (LINE_BYTES if report.advice else SLACK_BYTES)
    body, count = list[str](), 0
    for number, part in enumerate(report.parts):
        lines = _lines(part, items[count - 1] if count else None, listed=True)
        room -= sum(map(_size_of, lines))
        if room < 0:
            left = counted(len(report.parts) - number, "more line")
            body += [f"… and {left}; {report.advice}."] if report.advice else []
            break
        body += lines
        count += isinstance(part, Item)
    top, tail = around(count)
    shown = {id(item.of) for item in items[:count]}
    lists = {name: tuple(one for one in getattr(report.data, name) if id(one) in shown) for name in report.lists}
    data = report.data.model_copy(update=lists) if lists else report.data
    return "\n".join([*top, *body, *tail]), data


def line(text: Text) -> str:
    """Return a text on one line."""
    match text:
        case str():
            return text
        case Line():
            return one_line(text.text, text.limit)
        case Bare():
            return bare(text.text, text.limit)
        case Name():
            return quoted(text.text, text.limit)
        case Names():
            return _listed(text.names)
        case Ref():
            name = _plain_ref(text.ref) or text.docid or quoted(text.ref, LINE_BYTES)
            return name + text.part + (f"{SEPARATOR}{text.docid}" if text.both and name != text.docid else "")
        case Call():
            arguments = ", ".join(f"{name}={_argument(value)}" for name, value in text.arguments.items())
            return f"{text.tool}({arguments})"
        case Say():
            return text.template.format(*map(line, text.parts))


def error_answer(message: str) -> str:
    """Return an error message as an answer."""
    return one_line(message, ERROR_BYTES)


def _plain_ref(ref: str) -> str | None:
    """Return a ref if it can be used in a call as it is, or None if it is too long or has special characters."""
    plain = one_line(ref, LINE_BYTES) == ref and _PLAIN_REF.fullmatch(ref) and "·" not in ref
    return ref if plain else None


def _size_of(text: str) -> int:
    """Return the UTF-8 bytes of a line, including its newline."""
    return len(text.encode("utf-8", "replace")) + 1


def _notes(notes: Iterable[Text], most: int) -> list[str]:
    """Return a line for each note, and one that counts those of a kind that are too many."""
    lines = []
    for form, group in groupby(notes, key=lambda note: note.template if isinstance(note, Say) else ""):
        texts, label = [*map(line, group)], form.partition(":")[0] or "Note"
        lines += [text if form else f"{label}: {text}" for text in texts[:most]]
        lines += [f"{label}: … and {len(texts) - most} more."] if len(texts) > most else []
    return lines


def _lines(part: Text | Item | Quote, above: Item | None, *, listed: bool) -> list[str]:
    if isinstance(part, Quote):
        return _quote_lines(part)
    if not isinstance(part, Item):
        return [line(part)] if part else []
    ref = line(part.ref) if part.ref else ""
    bullet = "  " * part.depth + (f"{part.number}. " if part.number else part.bullet) if listed else ""
    label = f"{line(part.label)} " if part.label else ""
    odd = part.ref and part.ref.docid and not _plain_ref(part.ref.ref)
    path = f"path {quoted(part.ref.ref, LINE_BYTES)}" if part.ref and odd else ""
    marks = (part.title, part.score, *part.marks, *part.details, part.warning)
    first = label + SEPARATOR.join(filter(None, (ref, path, *map(line, marks))))
    lines = [" ".join((bullet + first, *map(line, part.lines)))]
    if part.context and (above is None or part.context != above.context):
        lines.append(f"   context: {line(part.context)}")
    lines += _quote_lines(part.quote) if part.quote else []
    return [*lines, *([f"   trace: {one_line(part.trace, 2 * LINE_BYTES)}"] if part.trace else [])]


def _quote_lines(quote: Quote) -> list[str]:
    if not quote.fenced:
        text = quote.text
        if quote.terms is not None:
            lines = [line for line in (_FRONT_MATTER.sub("", text) or text).split("\n") if line.strip()]
            while len(lines) > 1 and lines[0].startswith("#"):  # the headings are in the title already
                del lines[0]
            text, _ = excerpt(unmarked("\n".join(lines)), quote.terms, GLANCE_CHARACTERS)
        return ["   > " + re.sub(r"`{3,}|~{3,}", "`", one_line(text, quote.limit))]
    text = cut(quote.text, quote.limit)
    if not quote.lines:
        return [fenced(text.strip("\n"))]
    first, start, end = quote.lines
    if len(_FENCE.findall(text)) % 2 and (closing := _CLOSING.match(text)):  # of code that ends before
        first, text = first + closing[0].count("\n"), text[closing.end() :]
    shown, whole = text.count("\n") + 1, end - start + 1
    text = compact(text)
    part = shown < whole or "…" in text[:1] + text[-1:]
    return [fenced(text), *([f"   shown: {first}-{first + shown - 1}"] if part else [])]


def _argument(value: object) -> str:
    """Return an argument of a call as JSON, or a placeholder if it is long, would break the line or is to stay."""
    if value is ...:
        return SAME
    if isinstance(value, Ref):
        return f'"{line(value)}"'
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(name)}: {_argument(one)}' for name, one in value.items())}}}"
    text = json.dumps(value, ensure_ascii=False)
    return text if one_line(text, LINE_BYTES) == text else SAME


def _listed(names: Sequence[str]) -> str:
    shown: list[str] = []
    for name in names:
        if shown and sum(map(_size_of, shown)) + min(len(name), TITLE_BYTES) > LIST_BYTES - TITLE_BYTES:
            break
        shown.append(one_line(name, TITLE_BYTES).replace("`", "'"))
    left = len(names) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left else "")
