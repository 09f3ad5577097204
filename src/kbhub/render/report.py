"""What a result says, for every writer, and how a model gets it: Markdown in a number of bytes, next steps as calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, dropwhile, groupby
from typing import TYPE_CHECKING, Any, TypeVar, Union

from kbhub.documents.shown_text import TITLE_BYTES, bare, compact, cut, fenced, one_line, without_markup
from kbhub.values import counted, struct

if TYPE_CHECKING:
    from kbhub.frozen import Model
    from kbhub.index.query.parser import Term
    from kbhub.values import Value

LINE_BYTES, ERROR_BYTES = 260, 1_500
"""UTF-8 bytes that a model sees of a path, note or reason, and of an error."""


@struct
class Name:
    """Text that documents or people wrote, within a line; a model gets at most `limit` bytes of it, in quotes."""

    text: str
    limit: int = TITLE_BYTES


class Bare(Name):
    """A name without quotes around it."""


@struct
class Line(Name):
    """A sentence or path, which keeps the quotes in it."""

    limit: int = LINE_BYTES


@struct
class Names:
    """Several names; a model gets as many as fit in a sentence, and the number of the others."""

    names: Sequence[str]


@struct
class Ref:
    """A document to be read. A model gets the docid instead of a ref that cannot stand in a call."""

    ref: str
    docid: str = ""
    part: str = ""
    """Of the document, as `read` takes it: `:3-5`."""
    both: bool = False
    """Whether a model gets the docid beside the ref, too."""


@struct
class Call:
    """What to do next: a tool call for a model, a command for a person."""

    tool: str
    arguments: Mapping[str, Any]
    command: str = ""


@struct
class Say:
    """A sentence of ours with `{}` for what documents and people wrote."""

    template: str
    parts: tuple[Text, ...]


Text = Union[str, Name, Names, Ref, Call, Say]  # noqa: UP007 - `|` needs the classes when this is run


def say(template: str, *parts: Text) -> Say:
    """Return a sentence with parts in place of each `{}`."""
    return Say(template, parts)


@struct
class Quote:
    """Text of a document."""

    text: str
    limit: int
    """UTF-8 bytes of it for a model."""
    fenced: bool = True
    """Whether a model gets its lines as they are; otherwise it gets one line."""
    terms: tuple[Term, ...] | None = None
    """Those of the query, to be marked, and around which a quote that is not fenced is cut."""
    lines: tuple[int, int, int] | None = None
    """Its first line, and the first and last one of the chunk it is from, which a model is told how to read."""


@struct
class Item:
    """One of the things that a result has: on a line, or above a quote."""

    ref: Ref | None = None
    title: Text = ""
    score: str = ""
    marks: tuple[Text, ...] = ()
    """What else is on its line; in a table, the cells after the title, some of them empty."""
    warning: Text = ""
    details: tuple[Text, ...] = ()
    """Further marks that people see below the quote."""
    lines: tuple[Text, ...] = ()
    """Below it for people; a model gets them on the same line."""
    trace: str = ""
    label: Text = ""
    """Before the ref."""
    bullet: str = "- "
    """Before it, for a model."""
    number: int = 0
    """For a model; people see no number."""
    depth: int = 0
    context: Text = ""
    """About its place, for a model; only where the item above has another."""
    quote: Quote | None = None
    row: bool = False
    """Whether people see it in a table with those above and below it."""
    of: Any = None


M = TypeVar("M", bound="Model | Value")
Scalar = str | int | float | bool | None
Cell = Scalar | Sequence[Scalar]
Record = Mapping[str, Cell]
"""A row of a listing: field name → value. Missing fields are empty."""


@struct
class Listing:
    """Records of one kind, to be printed in any format."""

    name: str
    fields: tuple[str, ...]
    """Field names in order, which are the header of CSV and Markdown even without records."""
    records: Sequence[Record]
    body: str | None = None
    """Field with text of documents, if any. It does not fit in a table, so in Markdown each record becomes a section
    with that text in a fence."""


def records(
    name: str,
    fields: tuple[str, ...],
    results: Iterable[M],
    more: Callable[[M], Record] = lambda _: {},
    body: str | None = None,
) -> Listing:
    """Return a listing of results with some of their fields, and `more` of each."""
    rows = [{**one.model_dump(mode="json", include={*fields}), **more(one)} for one in results]
    return Listing(name, fields, rows, body)


@struct
class Report:
    """A result in words. A part that is text is a heading; an empty one is an empty line for people."""

    head: Text | Item = ""
    parts: Sequence[Text | Item | Quote] = ()
    foot: Text = ""
    summary: Sequence[Text] | Callable[[int], Sequence[Text]] = ()
    """The first lines for a model, maybe by the number of items that it gets."""
    calls: Sequence[Text] | Callable[[int], Sequence[Text]] = ()
    """What a model can do next, likewise."""
    notes: Sequence[Text] = ()
    """What limits the result; people get it on standard error."""
    most_notes: int = 4
    """Maximum of notes of a kind that are written out for a model; the rest are counted."""
    advice: str = ""
    """What a model does to see the items that do not fit."""
    data: Any = None
    lists: tuple[str, ...] = ()
    """Its fields of which a model gets only what is in the text (`Item.of`)."""
    rows: Callable[[], Listing] | None = None


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

_PLAIN_REF = re.compile(r"""[^\s"'`,\\<>]+(?: [^\s"'`,\\<>]+)*""")


def model_answer(report: Report, limit: float = ANSWER_BYTES) -> tuple[str, Any]:
    """Return a report in at most `limit` UTF-8 bytes, and the result with only what is in the text."""
    items = [part for part in report.parts if isinstance(part, Item)]
    notes: list[str] = []  # and a line that counts those of a kind that are too many
    for form, group in groupby(report.notes, key=lambda note: note.template if isinstance(note, Say) else ""):
        texts, label = [*map(model_line, group)], form.partition(":")[0] or "Note"
        notes += [text if form else f"{label}: {text}" for text in texts[: report.most_notes]]
        more = len(texts) - report.most_notes
        notes += [f"{label}: … and {more} more."] if more > 0 else []

    def around(count: int) -> tuple[list[str], list[str]]:
        top = [*map(model_line, report.summary(count) if callable(report.summary) else report.summary)]
        tail = [*notes, *map(model_line, report.calls(count) if callable(report.calls) else report.calls)]
        gap = [""] if items and "" in top and tail else []
        return [*top, *_lines(report.head, None, listed=False)], [*gap, *tail]

    longest = max([sum(map(_size_of, chain(*around(count)))) for count in {len(items), max(len(items) - 1, 0)}])
    room = limit - longest - (LINE_BYTES if report.advice else SLACK_BYTES)
    body, shown = list[str](), list[Item]()
    for number, part in enumerate(report.parts):
        lines = _lines(part, shown[-1] if shown else None, listed=True)
        room -= sum(map(_size_of, lines))
        if room < 0:
            left = counted(len(report.parts) - number, "more line")
            body += [f"… and {left}; {report.advice}."] if report.advice else []
            break
        body += lines
        shown += [part] if isinstance(part, Item) else []
    (top, tail), data, told = around(len(shown)), report.data, [id(item.of) for item in shown]
    for name in report.lists:
        kept = [one for one in getattr(data, name) if id(one) in told]
        data = data.model_copy(update={name: tuple(kept)})
    return "\n".join([*top, *body, *tail]), data


def model_line(text: Text) -> str:
    """Return a text on one line."""
    match text:
        case str():
            return text
        case Line():
            return one_line(text.text, text.limit)
        case Bare():
            return bare(text.text, text.limit)
        case Name():
            return f'"{bare(text.text, text.limit)}"'
        case Names():
            shown: list[str] = []
            for name in text.names:
                if shown and sum(map(_size_of, shown)) + min(len(name), TITLE_BYTES) > LIST_BYTES - TITLE_BYTES:
                    break
                shown.append(one_line(name, TITLE_BYTES).replace("`", "'"))
            left = len(text.names) - len(shown)
            return ", ".join(shown) + (f" and {left} more" if left else "")
        case Ref():
            name = _plain_ref(text.ref) or text.docid or model_line(Name(text.ref, LINE_BYTES))
            return name + text.part + (f"{SEPARATOR}{text.docid}" if text.both and name != text.docid else "")
        case Call():
            arguments = ", ".join(f"{name}={_argument(value)}" for name, value in text.arguments.items())
            return f"{text.tool}({arguments})"
        case Say():
            return text.template.format(*map(model_line, text.parts))


def _plain_ref(ref: str) -> str | None:
    """Return a ref if it can be used in a call as it is, or None if it is too long or has special characters."""
    plain = one_line(ref, LINE_BYTES) == ref and _PLAIN_REF.fullmatch(ref) and "·" not in ref
    return ref if plain else None


def _size_of(text: str) -> int:
    """Return the UTF-8 bytes of a line, including its newline."""
    return len(text.encode("utf-8", "replace")) + 1


def _lines(part: Text | Item | Quote, above: Item | None, *, listed: bool) -> list[str]:
    if isinstance(part, Quote):
        return _quote_lines(part)
    if not isinstance(part, Item):
        return [model_line(part)] if part else []
    ref = model_line(part.ref) if part.ref else ""
    bullet = "  " * part.depth + (f"{part.number}. " if part.number else part.bullet) if listed else ""
    label = f"{model_line(part.label)} " if part.label else ""
    odd = part.ref and part.ref.docid and not _plain_ref(part.ref.ref)
    path = f"path {model_line(Name(part.ref.ref, LINE_BYTES))}" if part.ref and odd else ""
    marks = (part.title, part.score, *part.marks, *part.details, part.warning)
    first = label + SEPARATOR.join(filter(None, (ref, path, *map(model_line, marks))))
    lines = [" ".join((bullet + first, *map(model_line, part.lines)))]
    if part.context and (above is None or part.context != above.context):
        lines.append(f"   context: {model_line(part.context)}")
    lines += _quote_lines(part.quote) if part.quote else []
    return [*lines, *([f"   trace: {one_line(part.trace, 2 * LINE_BYTES)}"] if part.trace else [])]


def _quote_lines(quote: Quote) -> list[str]:
    if not quote.fenced:
        text = quote.text
        if quote.terms is not None:
            from kbhub.index.query.excerpts import excerpt  # noqa: PLC0415 - loads SQLite, which `--help` does without

            lines = without_markup(_FRONT_MATTER.sub("", text) or text).split("\n")
            below = dropwhile(lambda line: line.startswith("#"), lines)  # the headings are in the title already
            if not (text := excerpt("\n".join(below), quote.terms, GLANCE_CHARACTERS)[0]):
                return []
        return ["   > " + re.sub(r"`{3,}|~{3,}", "`", one_line(text, quote.limit))]
    text = cut(quote.text, quote.limit)
    if not quote.lines:
        return [fenced(compact(text))]
    first, start, end = quote.lines
    shown, whole = text.count("\n") + 1, end - start + 1
    text = compact(text)
    part = shown < whole or "…" in text[:1] + text[-1:]
    return [fenced(text), *([f"   shown: {first}-{first + shown - 1}"] if part else [])]


def _argument(value: object) -> str:
    """Return an argument of a call as JSON, or a placeholder if it is long, would break the line or is to stay."""
    if value is ...:
        return SAME
    if isinstance(value, Ref):
        return f'"{model_line(value)}"'
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(name)}: {_argument(one)}' for name, one in value.items())}}}"
    text = json.dumps(value, ensure_ascii=False)
    return text if one_line(text, LINE_BYTES) == text else SAME
