"""What a result says, for every writer: its head, its items, the notes on it, and the next calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Union

from kbhub.documents.shown_text import TITLE_BYTES
from kbhub.errors import UsageError
from kbhub.values import struct

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
    """How its score is made."""
    label: Text = ""
    """Before the ref."""
    bullet: str = "- "
    """Before it, for a model."""
    number: int = 0
    """For a model; people see no number."""
    depth: int = 0
    """In a tree."""
    context: Text = ""
    """About its place, for a model; only where the item above has another."""
    quote: Quote | None = None
    row: bool = False
    """Whether people see it in a table with those above and below it."""
    of: Any = None
    """The part of the result that it is."""


M = TypeVar("M", bound="Model | Value")
Scalar = str | int | float | bool | None
Cell = Scalar | Sequence[Scalar]
Record = Mapping[str, Cell]
"""A row of a listing: field name → value. Missing fields are empty."""


@struct
class Listing:
    """Records of one kind, to be printed in any format."""

    name: str
    """Singular noun for a record, used as its XML element."""
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


def _no_rows() -> Listing:
    raise UsageError("This result has no rows.")


@struct
class Report:
    """A result in words. A part that is text is a heading; an empty one is an empty line for people."""

    head: Text | Item = ""
    parts: Sequence[Text | Item | Quote] = ()
    foot: Text = ""
    """The last line, for people."""
    summary: Callable[[int], Sequence[Text]] | None = None
    """Returns the first lines for a model, given the number of items that it gets."""
    calls: Callable[[int], Sequence[Text]] | None = None
    """Returns what a model can do next, given the number of items that it gets."""
    notes: Sequence[Text] = ()
    """What limits the result; people get it on standard error."""
    most_notes: int = 4
    """Maximum of notes of a kind that are written out for a model; the rest are counted."""
    advice: str = ""
    """What a model does to see the items that do not fit."""
    data: Any = None
    """The result itself."""
    lists: tuple[str, ...] = ()
    """Its fields of which a model gets only what is in the text (`Item.of`)."""
    rows: Callable[[], Listing] = _no_rows
    """Returns the result as records."""
