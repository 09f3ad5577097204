"""What is related to a document, and tags: as text for a person, as Markdown for a model, as records for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.documents.safe_text import TITLE_BYTES, quoted
from kbhub.reading.graph.models import EDGE_KINDS, LeftLink, Neighbour
from kbhub.render.formats import Listing
from kbhub.render.layout import table
from kbhub.render.model import ANSWER_BYTES, NAME_BYTES, SENTENCE_BYTES, cut_lines, plain_ref
from kbhub.render.plain import one_line
from kbhub.values import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kbhub.reading.graph.models import EdgeKind, Related, TagCount, TaggedDocument, Tags

HEADINGS: dict[EdgeKind, str] = {
    "link": "Links to",
    "backlink": "Linked from",
    "related": "Related by front matter",
    "tag": "Shares tags with",
    "near": "Near in meaning",
}
"""What stands over the neighbours of a kind."""

TITLE_CHARACTERS = 60
"""Of a title or the text of a link in a table for people."""

_LEFT_WORDS = {"broken": "Broken", "outside": "Outside every base", "file": "Other files"}


def related_text(result: Related, *, width: int | None = None) -> str:
    """Give the neighbours of a document for a person, those of a kind under a heading."""
    tags = f"  {one_line(' '.join(f'#{tag}' for tag in result.tags))}" if result.tags else ""
    inner = None if width is None else width - 2
    lines = [f"{one_line(result.ref)}  {result.docid}  {_short(result.title)}{tags}"]
    for kind in EDGE_KINDS:
        mine = [one for one in result.neighbours if one.kind == kind]
        total = result.totals.get(kind, 0)
        if total:
            lines += ["", f"{HEADINGS[kind]} ({_share(mine, total)})"]
            lines += [f"  {line}" for line in table([_neighbour_row(one) for one in mine], width=inner)] if mine else []
    for status, words in _LEFT_WORDS.items():
        left = [one for one in result.left if one.status == status]
        if left:
            rows = [(_line(one.line), one_line(one.target), one_line(one.why)) for one in left]
            lines += ["", f"{words} ({len(left)})", *(f"  {line}" for line in table(rows, width=inner))]
    return "\n".join(lines)


def related_listing(result: Related) -> Listing:
    """Give the neighbours of a document as records."""
    fields = ("kind", "direction", "hop", "docid", "ref", "base", "title", "line", "via", "context", "score", "count")
    records = [one.model_dump(mode="json", include=set(fields)) for one in result.neighbours]
    return Listing("neighbour", fields, records)


def tags_text(result: Tags, *, width: int | None = None) -> str:
    """Give tags, or the documents of some, for a person; empty if there are none."""
    if result.names:
        rows = [
            (one.docid, one_line(one.ref), _short(one.title), _tag_names(one.tags), _way(one, one_line))
            for one in result.documents
        ]
        return "\n".join(table(rows, width=width)) if rows else ""
    rows_of_tags = [(f"{'  ' * one.depth}#{one_line(one.tag)}", str(one.count)) for one in result.tags]
    return "\n".join(table(rows_of_tags, right=frozenset({1}), width=width)) if rows_of_tags else ""


def tags_listing(result: Tags) -> Listing:
    """Give tags, or the documents of some, as records."""
    if not result.names:
        return Listing("tag", ("tag", "count", "own"), [one.model_dump(mode="json") for one in result.tags])
    fields = ("docid", "ref", "base", "title", "kind", "tags", "hop", "via", "edge")
    records = [one.model_dump(mode="json", include=set(fields)) for one in result.documents]
    return Listing("document", fields, records)


def tags_notes(result: Tags) -> list[str]:
    """Say what is not in a list of tags or of their documents: names that are no tags, and what was left out."""
    notes = [_unknown(name, near) for name, near in result.unknown.items()]
    shown = len(result.documents if result.names else result.tags)
    if shown < result.total:
        noun = "document" if result.names else "tag"
        notes.append(f"{shown} of {counted(result.total, noun)} shown.")
    return notes


def related_answer(result: Related) -> tuple[str, Related]:
    """Write the answer to `related` for a model.

    Returns:
        At most `ANSWER_BYTES` of UTF-8, and the result with the neighbours and links that are in it.
    """
    fields = [_ref(result.ref, result.docid), result.docid, quoted(result.title, TITLE_BYTES)]
    if result.tags:
        fields.append(_bare(" ".join(f"#{tag}" for tag in result.tags), SENTENCE_BYTES))
    lines: list[tuple[str, Neighbour | LeftLink | None]] = [(" · ".join(fields), None)]
    for kind in EDGE_KINDS:
        mine = [one for one in result.neighbours if one.kind == kind]
        total = result.totals.get(kind, 0)
        if total:
            lines.append((f"{HEADINGS[kind]} ({_share(mine, total)}):", None))
            lines += [(_neighbour_line(one), one) for one in mine]
    lines += [(_left_line(one), one) for one in result.left]
    if len(lines) == 1:
        lines.append(("Nothing is related to it: no link, no shared tag, nothing near.", None))
    lines += [(_skipped(one.base, one.reason), None) for one in result.skipped]
    text, told = cut_lines(lines, ANSWER_BYTES, "ask for fewer kinds or hops")
    neighbours = tuple(one for one in told if isinstance(one, Neighbour))
    left = tuple(one for one in told if isinstance(one, LeftLink))
    return text, result.model_copy(update={"neighbours": neighbours, "left": left})


def tags_answer(result: Tags, *, whole: bool = False) -> tuple[str, Tags]:
    """Write the answer to `tags` for a model.

    Args:
        result: what was found.
        whole: whether it may be longer than `ANSWER_BYTES`, for who asked for everything.

    Returns:
        The text, and the result with the tags or documents that are in it.
    """
    lines: list[tuple[str, TagCount | TaggedDocument | None]]
    if result.names:
        asked = " or ".join(quoted(name, TITLE_BYTES) for name in result.names)
        joined = result.total - result.tagged
        more = f", and {joined} joined to them by links" if joined else ""
        head = f"{counted(result.tagged, 'document')} tagged {asked}{more}"
        lines = [(_document_line(one), one) for one in result.documents]
    else:
        head = f"{counted(result.total, 'tag')} on {counted(result.tagged, 'document')} (documents of each)"
        lines = [(f"{'  ' * one.depth}- #{_bare(one.tag, TITLE_BYTES)} ({one.count})", one) for one in result.tags]
    notes = [_bare(note, SENTENCE_BYTES) for note in tags_notes(result)]
    notes += [_skipped(one.base, one.reason) for one in result.skipped]
    if whole:
        return "\n".join([head, *(line for line, _ in lines), *notes]), result
    lines = [*((line, None) for line in (head, *notes)), *lines]
    text, told = cut_lines(lines, ANSWER_BYTES, "ask for fewer, or for everything")
    return text, result.model_copy(update={"documents" if result.names else "tags": tuple(told)})


def _share(shown: Sequence[Neighbour], total: int) -> str:
    documents = len({one.ref for one in shown})
    return f"{documents} of {total}" if 0 < documents < total else str(total)


def _neighbour_row(one: Neighbour) -> tuple[str, ...]:
    where = _line(one.line)
    text = one.context if one.kind == "tag" else f"“{one.context}”" if one.context else ""
    marks = [
        "←" if one.kind == "related" and one.direction == "in" else "",
        f"×{one.count}" if one.count > 1 else "",
        f"#{one.heading}" if one.heading else "",
        f"via {one_line(one.via)}" if one.via else "",
        f"or {one_line(', '.join(one.ambiguous))}" if one.ambiguous else "",
    ]
    score = "" if one.score is None else f"{one.score:.2f}"
    return (one.docid, one_line(one.ref), _short(one.title), where, score, _short(text), " ".join(filter(None, marks)))


def _neighbour_line(one: Neighbour) -> str:
    place = f":{one.line}" if one.line and one.direction == "in" else ""
    fields = [f"- {_ref(one.ref, one.docid)}{place}", quoted(one.title, TITLE_BYTES)]
    if one.kind == "related":
        fields.append("named by it" if one.direction == "out" else "names it")
    if one.line and one.direction == "out" and one.kind != "related":
        fields.append(f"line {one.line}")
    if one.score is not None:
        fields.append(f"{one.score:.2f}")
    if one.context and one.kind != "related":
        fields.append(_bare(one.context, TITLE_BYTES) if one.kind == "tag" else quoted(one.context, TITLE_BYTES))
    if one.heading:
        fields.append(f"at {quoted(one.heading, TITLE_BYTES)}")
    if one.count > 1:
        fields.append(f"{one.count} links")
    if one.via:
        fields.append(f"hop {one.hop} via {quoted(one.via, NAME_BYTES)}")
    if one.ambiguous:
        fields.append(f"ambiguous, or {quoted(', '.join(one.ambiguous), NAME_BYTES)}")
    return " · ".join(fields)


def _left_line(one: LeftLink) -> str:
    where = f"line {one.line}" if one.line else "front matter"
    words = _LEFT_WORDS[one.status].removesuffix("s")
    return f"{words}: {where} · {one.kind} {quoted(one.target, NAME_BYTES)} · {_bare(one.why, NAME_BYTES)}"


def _document_line(one: TaggedDocument) -> str:
    fields = [f"- {_ref(one.ref, one.docid)}", quoted(one.title, TITLE_BYTES)]
    if one.tags:
        fields.append(_bare(" ".join(f"#{tag}" for tag in one.tags), TITLE_BYTES))
    if one.hop:
        fields.append(_way(one, lambda text: quoted(text, NAME_BYTES)))
    return " · ".join(fields)


def _way(one: TaggedDocument, shown: Callable[[str], str]) -> str:
    """Say how a document without any of the tags came in."""
    return f"hop {one.hop}, {one.edge} via {shown(one.via or '')}" if one.hop else ""


def _unknown(name: str, near: Sequence[str]) -> str:
    return f"No document has the tag {name!r}." + (f" Did you mean {', '.join(near)}?" if near else "")


def _skipped(base: str, reason: str) -> str:
    return f"Not looked at: {quoted(base, TITLE_BYTES)}: {_bare(reason, SENTENCE_BYTES)}"


def _ref(ref: str, docid: str) -> str:
    """Give a ref as it can be written in a call; where it has odd characters, the docid."""
    return plain_ref(ref) or docid


def _bare(text: str, limit: int) -> str:
    """Give a text as `quoted` does, without its quotes."""
    return quoted(text, limit)[1:-1]


def _tag_names(tags: Sequence[str]) -> str:
    return _short(" ".join(f"#{tag}" for tag in tags))


def _line(line: int | None) -> str:
    return f"line {line}" if line else ""


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1]}…"
