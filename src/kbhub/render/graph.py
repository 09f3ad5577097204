"""Render related documents and tags for a terminal, as Markdown for a model, and as records for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbhub.documents.safe_text import TITLE_BYTES, bare, quoted
from kbhub.reading.reports import EDGE_KINDS, EdgeKind, LeftLink, Neighbour, Related, TagCount, TaggedDocument, Tags
from kbhub.render.formats import Listing
from kbhub.render.layout import shortened, table, visible_line
from kbhub.render.model import ANSWER_BYTES, NAME_BYTES, SENTENCE_BYTES, cut_lines, ref_or_docid
from kbhub.values import counted

HEADINGS: dict[EdgeKind, str] = {
    "link": "Links to",
    "backlink": "Linked from",
    "related": "Related by front matter",
    "tag": "Shares tags with",
    "near": "Similar in meaning",
}
"""Heading for each kind of neighbours."""

TITLE_CHARACTERS = 60
"""Maximum length of a title or link text in a table."""

_LEFT_WORDS = {"broken": "Broken", "outside": "Outside every base", "file": "Other files"}


def related_text(result: Related, *, width: int | None = None) -> str:
    """Return the neighbours of a document, grouped by kind."""
    tags = f"  {visible_line(' '.join(f'#{tag}' for tag in result.tags))}" if result.tags else ""
    inner = None if width is None else width - 2
    lines = [f"{visible_line(result.ref)}  {result.docid}  {_short(result.title)}{tags}"]
    for kind in EDGE_KINDS:
        neighbours = [neighbour for neighbour in result.neighbours if neighbour.kind == kind]
        if total := result.totals.get(kind, 0):
            lines += ["", f"{HEADINGS[kind]} ({_share(neighbours, total)})"]
            if neighbours:
                lines += [f"  {line}" for line in table([*map(_neighbour_row, neighbours)], width=inner)]
    for status, words in _LEFT_WORDS.items():
        if links := [link for link in result.left if link.status == status]:
            rows = [(_line(link.line), visible_line(link.target), visible_line(link.why)) for link in links]
            lines += ["", f"{words} ({len(links)})", *(f"  {line}" for line in table(rows, width=inner))]
    return "\n".join(lines)


def related_listing(result: Related) -> Listing:
    """Return the neighbours of a document as records."""
    fields = ("kind", "direction", "hop", "docid", "ref", "base", "title", "line", "via", "context", "score", "count")
    records = [neighbour.model_dump(mode="json", include=set(fields)) for neighbour in result.neighbours]
    return Listing("neighbour", fields, records)


def tags_text(result: Tags, *, width: int | None = None) -> str:
    """Return tags, or the documents with some tags; empty if there are none."""
    if result.names:
        rows = [_document_row(document) for document in result.documents]
        return "\n".join(table(rows, width=width)) if rows else ""
    tag_rows = [(f"{'  ' * tag.depth}#{visible_line(tag.tag)}", str(tag.count)) for tag in result.tags]
    return "\n".join(table(tag_rows, right=frozenset({1}), width=width)) if tag_rows else ""


def tags_listing(result: Tags) -> Listing:
    """Return tags, or the documents with some tags, as records."""
    if not result.names:
        return Listing("tag", ("tag", "count", "own"), [tag.model_dump(mode="json") for tag in result.tags])
    fields = ("docid", "ref", "base", "title", "kind", "tags", "hop", "via", "edge")
    records = [document.model_dump(mode="json", include=set(fields)) for document in result.documents]
    return Listing("document", fields, records)


def tags_notes(result: Tags) -> list[str]:
    """Return notes on a list of tags or documents: unknown tags, and how many entries are not shown."""
    notes = [
        f"No document {'indexed so far ' if result.skipped else ''}has the tag {name!r}."
        + (f" Did you mean {', '.join(near)}?" if near else "")
        for name, near in result.unknown.items()
    ]
    shown = len(result.documents if result.names else result.tags)
    if shown < result.total:
        noun = "document" if result.names else "tag"
        notes.append(f"{shown} of {counted(result.total, noun)} shown.")
    return notes


def related_answer(result: Related) -> tuple[str, Related]:
    """Return the answer to `related`, at most `ANSWER_BYTES` of UTF-8, and the part of the result in it."""
    fields = [ref_or_docid(result.ref, result.docid), result.docid, quoted(result.title, TITLE_BYTES)]
    if result.tags:
        fields.append(bare(" ".join(f"#{tag}" for tag in result.tags), SENTENCE_BYTES))
    lines: list[tuple[str, Neighbour | LeftLink | None]] = [(" · ".join(fields), None)]
    for kind in EDGE_KINDS:
        neighbours = [neighbour for neighbour in result.neighbours if neighbour.kind == kind]
        if total := result.totals.get(kind, 0):
            lines.append((f"{HEADINGS[kind]} ({_share(neighbours, total)}):", None))
            lines += [(_neighbour_line(neighbour), neighbour) for neighbour in neighbours]
    lines += [(_left_line(link), link) for link in result.left]
    if len(lines) == 1 and not result.skipped:
        lines.append(("Nothing related: no links, no shared tags, nothing similar in meaning.", None))
    lines += [(_skipped(skip.base, skip.reason), None) for skip in result.skipped]
    text, shown = cut_lines(lines, ANSWER_BYTES, "pass fewer kinds or hops")
    fitting = {
        "neighbours": tuple(item for item in shown if isinstance(item, Neighbour)),
        "left": tuple(item for item in shown if isinstance(item, LeftLink)),
    }
    return text, result.model_copy(update=fitting)


def tags_answer(result: Tags, *, whole: bool = False) -> tuple[str, Tags]:
    """Return the answer to `tags` for a model, and the part of the result in it.

    With `whole`, it may be longer than `ANSWER_BYTES`.
    """
    lines: list[tuple[str, TagCount | TaggedDocument | None]]
    if result.names:
        names = " or ".join(quoted(name, TITLE_BYTES) for name in result.names)
        joined = result.total - result.tagged
        linked = f", and {joined} linked with them" if joined else ""
        head = f"{counted(result.tagged, 'document')} tagged {names}{linked}"
        lines = [(_document_line(document), document) for document in result.documents]
    else:
        head = f"{counted(result.total, 'tag')} on {counted(result.tagged, 'document')} (documents of each)"
        lines = [(f"{'  ' * tag.depth}- #{bare(tag.tag, TITLE_BYTES)} ({tag.count})", tag) for tag in result.tags]
    notes = [bare(note, SENTENCE_BYTES) for note in tags_notes(result)]
    notes += [_skipped(skip.base, skip.reason) for skip in result.skipped]
    if whole:
        return "\n".join([head, *(line for line, _ in lines), *notes]), result
    lines = [*((line, None) for line in (head, *notes)), *lines]
    text, shown = cut_lines(lines, ANSWER_BYTES, "pass fewer tags, or a larger limit")
    return text, result.model_copy(update={"documents" if result.names else "tags": tuple(shown)})


def _share(shown: Sequence[Neighbour], total: int) -> str:
    documents = len({neighbour.ref for neighbour in shown})
    return f"{documents} of {total}" if 0 < documents < total else str(total)


def _neighbour_row(neighbour: Neighbour) -> tuple[str, ...]:
    where = _line(neighbour.line)
    text = neighbour.context if neighbour.kind == "tag" else f"“{neighbour.context}”" if neighbour.context else ""
    marks = [
        "←" if neighbour.kind == "related" and neighbour.direction == "in" else "",
        f"×{neighbour.count}" if neighbour.count > 1 else "",
        f"#{neighbour.heading}" if neighbour.heading else "",
        f"via {visible_line(neighbour.via)}" if neighbour.via else "",
        f"or {visible_line(', '.join(neighbour.ambiguous))}" if neighbour.ambiguous else "",
    ]
    score = "" if neighbour.score is None else f"{neighbour.score:.2f}"
    return (
        neighbour.docid,
        visible_line(neighbour.ref),
        _short(neighbour.title),
        where,
        score,
        _short(text),
        " ".join(filter(None, marks)),
    )


def _neighbour_line(neighbour: Neighbour) -> str:
    place = f":{neighbour.line}" if neighbour.line and neighbour.direction == "in" else ""
    fields = [f"- {ref_or_docid(neighbour.ref, neighbour.docid)}{place}", quoted(neighbour.title, TITLE_BYTES)]
    if neighbour.kind == "related":
        fields.append("named by it" if neighbour.direction == "out" else "names it")
    if neighbour.line and neighbour.direction == "out" and neighbour.kind != "related":
        fields.append(f"line {neighbour.line}")
    if neighbour.score is not None:
        fields.append(f"{neighbour.score:.2f}")
    if neighbour.context and neighbour.kind != "related":
        fields.append(
            bare(neighbour.context, TITLE_BYTES) if neighbour.kind == "tag" else quoted(neighbour.context, TITLE_BYTES)
        )
    if neighbour.heading:
        fields.append(f"at {quoted(neighbour.heading, TITLE_BYTES)}")
    if neighbour.count > 1:
        fields.append(f"{neighbour.count} links")
    if neighbour.via:
        fields.append(f"hop {neighbour.hop} via {quoted(neighbour.via, NAME_BYTES)}")
    if neighbour.ambiguous:
        fields.append(f"ambiguous, or {quoted(', '.join(neighbour.ambiguous), NAME_BYTES)}")
    return " · ".join(fields)


def _left_line(link: LeftLink) -> str:
    where = f"line {link.line}" if link.line else "front matter"
    words = _LEFT_WORDS[link.status].removesuffix("s")
    return f"{words}: {where} · {link.kind} {quoted(link.target, NAME_BYTES)} · {bare(link.why, NAME_BYTES)}"


def _document_row(document: TaggedDocument) -> tuple[str, ...]:
    tags = _short(" ".join(f"#{tag}" for tag in document.tags))
    return (document.docid, visible_line(document.ref), _short(document.title), tags, _way(document, visible_line))


def _document_line(document: TaggedDocument) -> str:
    fields = [f"- {ref_or_docid(document.ref, document.docid)}", quoted(document.title, TITLE_BYTES)]
    if document.tags:
        fields.append(bare(" ".join(f"#{tag}" for tag in document.tags), TITLE_BYTES))
    if document.hop:
        fields.append(_way(document, lambda text: quoted(text, NAME_BYTES)))
    return " · ".join(fields)


def _way(document: TaggedDocument, shown: Callable[[str], str]) -> str:
    """Return how a document without any of the tags was reached."""
    return f"hop {document.hop}, {document.edge} via {shown(document.via or '')}" if document.hop else ""


def _skipped(base: str, reason: str) -> str:
    return f"Could not read: {quoted(base, TITLE_BYTES)}: {bare(reason, SENTENCE_BYTES)}"


def _line(line: int | None) -> str:
    return f"line {line}" if line else ""


def _short(text: str) -> str:
    return shortened(visible_line(text), TITLE_CHARACTERS)
