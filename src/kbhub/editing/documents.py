"""Creating, updating and appending to documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field

from kbhub.documents import edits, markdown
from kbhub.documents.edits import Text
from kbhub.documents.filters import too_large
from kbhub.editing import paths
from kbhub.editing.checks import warnings_about
from kbhub.editing.paths import Location
from kbhub.errors import UsageError, WriteRefused
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.index.references import short_hash
from kbhub.types import Heading
from kbhub.values import struct
from kbhub.workspace.files import open_folder
from kbhub.workspace.formats import is_converted, is_markdown, kind_of, name_of

WriteMode = Literal["create", "update", "append"]
Action = Literal["created", "updated", "appended", "unchanged"]


class Written(Model):
    """What `write_document` did."""

    ref: str = Field(description="Ref of the document.")
    docid: str = Field(description="Its short id.")
    base: str = Field(description="Id of its base.")
    path: str = Field(description="Path in the base.")
    action: Action = Field(description="What was done.")
    hash: str = Field(description="Content hash now; pass it to the next edit as `based_on`.")
    before: str | None = Field(None, description="Content hash before; null for a new document.")
    start_line: int | None = Field(None, description="First line of the new text, from 1; null without new text.")
    end_line: int | None = Field(None, description="Its last line.")
    indexed: bool = Field(description="Whether searches find it now; if not, they do after the next sync.")
    warnings: tuple[str, ...] = Field((), description="What is worth fixing, as sentences.")


@struct
class _Edit:
    """What is asked for."""

    text: str | None
    front_matter: Mapping[str, Any]
    section: str | None
    mode: WriteMode


def write_document(
    hub: Hub,
    ref: str,
    *,
    text: str | None = None,
    front_matter: Mapping[str, Any] | None = None,
    section: str | None = None,
    mode: WriteMode = "create",
    based_on: str | None = None,
    client: str | None = None,
) -> Written:
    """Create or change a document, and index it.

    `update` replaces the body, the whole document if the text has front matter of its own, or the section; `append`
    adds to the end of the document or section. A front matter value of None removes its key. `based_on` is the hash of
    the document as it was read: if it differs, nothing is changed.
    """
    edit = _Edit(text, front_matter or {}, section, mode)
    _check(ref, edit, based_on)
    if mode == "create":
        place = paths.new_place(hub, ref)
        change = _new_document(hub, place, edit, client)
        before: str | None = None
        action: Action = "created"
        with paths.changing(hub, place.base, place.ref), open_folder(place.base, place.folders, make=True) as folder:
            names = folder.names()
            if place.name in names:
                raise WriteRefused(place.ref, "it already exists; use mode `update` or `append`")
            if other := paths.twin(names, place.name):
                raise WriteRefused(place.ref, f"{other!r} exists, which is the same name on some systems; use that")
            folder.sweep()
            folder.create(place.name, change.text.encoded())
    else:
        place = paths.find_document(hub, ref)
        if is_converted(kind := kind_of(place.base, place.path)):
            raise WriteRefused(place.ref, f"{name_of(kind)} cannot be written as text; write another document")
        paths.check_writable(hub, place.base, place.ref)

        def changed(old: Text) -> tuple[Text, TextChange]:
            change = _changed(hub, place, old, edit, client)
            return change.text, change

        before, change = paths.change_document(hub, place, changed, based_on)
        action = "appended" if mode == "append" else "updated"
        if before == paths.hash_of(change.text.encoded()):
            action = "unchanged"
    followed = () if action == "unchanged" else paths.followed(hub, place, action, change.text)
    return _answer(hub, place, change, followed, action, before)


def _check(ref: str, edit: _Edit, based_on: str | None) -> None:
    """Raise `UsageError` or `WriteRefused` for contradictions."""
    text, front_matter, section, mode = edit.text, edit.front_matter, edit.section, edit.mode
    if mode not in ("create", "update", "append"):
        raise UsageError(f"`mode` must be create, update or append, not {mode!r}.")
    if mode == "create" and section is not None:
        raise UsageError("`section` requires an existing document; use it with mode `update` or `append`.")
    if mode == "create" and based_on is not None:
        raise UsageError("A hash requires an existing document; use it with mode `update` or `append`.")
    if text is None and (mode != "update" or section is not None or not front_matter):
        raise UsageError("Nothing to write. Give a text, or, with mode `update`, keys of the front matter.")
    if text is not None:
        edits.check_writable_text(ref, text)
        if not text.strip() and (mode != "update" or section is None):
            raise UsageError("The text is empty. To remove a document, delete it.")
    if section is not None and not section.strip():
        raise UsageError("`section` is empty. Name a heading, or omit it.")
    for key, value in front_matter.items():
        edits.check_key(ref, key)
        edits.check_value(ref, key, value)


def _new_document(hub: Hub, place: Location, edit: _Edit, client: str | None) -> TextChange:
    """Build a new document: the given text, under default front matter unless it has its own."""
    assert edit.text is not None
    lines = edits.lines_of(edit.text.lstrip("\ufeff"))
    text = Text(lines)
    if not text.ends_with_newline:
        text = Text((*lines[:-1], lines[-1] + text.newline))
    start = text.front.end
    ruled = _ruled(hub, place, None, text, edit, client)
    if brings_front_matter(edit.text):
        if asked := {**edit.front_matter, **(ruled or {})}:
            text = edits.with_values(place.ref, text, asked)
            start = text.front.end
    else:
        created = datetime.fromtimestamp(hub.options.clock(), UTC).date().isoformat()
        defaults: Mapping[str, Any] = {"tags": [], "source": client, "created": created} if ruled is None else ruled
        asked = {**defaults, **edit.front_matter, **(ruled or {})}
        values = {key: value for key, value in asked.items() if value is not None}
        if values:
            head = edits.written_lines(values, text.newline)
            blank = (text.newline,) if text.lines[0].strip() else ()
            text, start = Text((*head, *blank, *text.lines)), len(head) + len(blank)
            if text.front.problem:
                raise WriteRefused(place.ref, "its front matter could not be read back; use plain keys and values")
    return _of_size(hub, place, TextChange(text, start, len(text.lines)))


def _ruled(
    hub: Hub, place: Location, old: Text | None, new: Text, edit: _Edit, client: str | None
) -> Mapping[str, Any] | None:
    """Return the front matter that the format of a base asks for, or None if it has no rules."""
    body = old is None or (edit.text is not None and new != old)
    asked = (rules.values(hub, place, old, new, edit.front_matter, client, body) for rules in paths.page_rules())
    return next((values for values in asked if values is not None), None)


def _changed(hub: Hub, place: Location, text: Text, edit: _Edit, client: str | None) -> TextChange:
    """Return the edited text: the body is changed first, then the front matter."""
    is_page = is_markdown(place.name)
    if not is_page and (edit.front_matter or edit.section is not None):
        raise WriteRefused(place.ref, "it is plain text, which has no front matter or sections")
    ref, new = place.ref, edit.text
    if new is not None and edit.mode == "update" and edit.section is None:
        if is_page and not brings_front_matter(new):
            change = replace_body(ref, text, new)
        else:
            change = _replaced(text, 0, len(text.lines), _trimmed(new, text.newline))
    elif new is not None and edit.section is not None and edit.mode == "update":
        change = replace_section(ref, text, new, edit.section)
    elif new is not None:
        change = append(ref, text, new, edit.section)
    else:
        change = TextChange(text, 0, 0)
    if asked := {**edit.front_matter, **(_ruled(hub, place, text, change.text, edit, client) or {})}:
        after = edits.with_values(ref, change.text, asked)
        moved = len(after.lines) - len(change.text.lines)
        change = TextChange(after, change.start + moved, change.end + moved, change.lost)
    return _of_size(hub, place, change)


def _of_size(hub: Hub, place: Location, change: TextChange) -> TextChange:
    """Return a change; raise `WriteRefused` if it makes a document too large to be read."""
    size, limit = len(change.text.encoded()), hub.config().settings.limits.file_bytes
    if size > limit:
        raise WriteRefused(place.ref, f"with this text {too_large(size, limit)}; write several documents")
    return change


def _answer(
    hub: Hub, place: Location, change: TextChange, followed: Sequence[str], action: Action, before: str | None
) -> Written:
    indexed = paths.sync_changed(hub, place.base, place.path)
    data = change.text.encoded()
    document = markdown.parse_document(place.path, data, inline=place.base.inline_tags)
    losses = [f"The replaced text contained: {', '.join(f'`{name}`' for name in change.lost)}."] if change.lost else []
    shown = change.end > change.start and action != "unchanged"
    return Written(
        ref=place.ref,
        docid=paths.docid_of(hub, place.base, place.path),
        base=place.base.id,
        path=place.path,
        action=action,
        hash=short_hash(paths.hash_of(data)),
        before=short_hash(before) if before else None,
        start_line=change.start + 1 if shown else None,
        end_line=change.end if shown else None,
        indexed=indexed,
        warnings=(*followed, *losses, *warnings_about(hub, place.base, document)),
    )


HEADINGS_NAMED = 20


@struct
class TextChange:
    """A changed text, and the location of the new lines in it."""

    text: Text
    start: int
    end: int
    """Index after the last new line."""
    lost: tuple[str, ...] = ()
    """Headings that no longer exist."""


@struct
class _Section:
    heading: Heading
    names: tuple[str, ...]
    """Headings above it, and its own."""
    start: int
    """Index of the heading's first line."""
    body: int
    """Index of the line after the heading."""
    proper: int
    """Index of the first subsection, or the end."""
    end: int
    """Index after the section."""


def append(ref: str, text: Text, new: str, heading: str | None) -> TextChange:
    """Append Markdown to a document or a section; surrounding blank lines are added as needed."""
    fresh = _trimmed(new, text.newline)
    if heading is None:
        start, end = text.front.end, len(text.lines)
    else:
        section = find_section(ref, text, heading)
        end = section.end if _opening_heading(fresh) else section.proper
        start = section.body
    _, end = markdown.trimmed(text.lines, start, end)
    return _checked_change(ref, text, _placed(text, end, end, fresh))


def replace_section(ref: str, text: Text, new: str, heading: str) -> TextChange:
    """Replace a section's text, including its subsections."""
    section = find_section(ref, text, heading)
    fresh = _trimmed(new, text.newline)
    opening = _opening_heading(fresh)
    start = section.start if opening and opening.level == section.heading.level else section.body
    return _checked_change(ref, text, _replaced(text, start, section.end, fresh))


def replace_body(ref: str, text: Text, new: str) -> TextChange:
    """Replace everything below the front matter; raise `WriteRefused` if it cannot be parsed, so its end is unknown."""
    front = text.front
    if problem := front.problem:
        fault = f"{problem[0].lower()}{problem[1:].rstrip('.')}"
        raise WriteRefused(ref, f"{fault}, or give a text with front matter of its own")
    return _replaced(text, front.body, len(text.lines), _trimmed(new, text.newline))


def brings_front_matter(text: str) -> bool:
    """Return whether a text begins with front matter, valid or not."""
    front = Text(edits.lines_of(text.lstrip("\ufeff"))).front
    return bool(front.closing or front.problem)


def find_section(ref: str, text: Text, heading: str) -> _Section:
    """Find the only section with this heading or path of headings."""
    bare, headings = text.bare, _headings(text)
    lines = [*(heading.line - 1 for heading in headings), len(bare)]
    spans = zip(markdown.sections_of(headings, len(bare)), lines, lines[1:], strict=False)
    sections = [
        _Section(heading, names, start, markdown.heading_end(bare, start), min(end, following), end)
        for (heading, names, end), start, following in spans
    ]
    path = markdown.heading_path(heading)
    matches = [section for section in sections if markdown.is_under(section.names, path)]
    if not matches and len(path) == 1:
        matches = [section for section in sections if markdown.anchor(section.heading.text) == markdown.anchor(heading)]
    exact = [section for section in matches if len(section.names) == len(path)]
    if len(matches) > 1 and len(exact) == 1:
        matches = exact
    if not matches:
        others = ", ".join(f"`{section.heading.text}`" for section in sections[:HEADINGS_NAMED])
        raise WriteRefused(ref, f"it has no heading {heading!r}; it has {others or 'none'}")
    if len(matches) > 1:
        named = list(dict.fromkeys(" > ".join(section.names) for section in matches))
        if len(named) > 1:
            raise WriteRefused(ref, f"{heading!r} names several sections; say which: {' or '.join(map(repr, named))}")
        places = ", ".join(str(section.start + 1) for section in matches)
        raise WriteRefused(ref, f"it has the heading {named[0]!r} several times (lines {places}); make them different")
    return matches[0]


def _replaced(text: Text, start: int, end: int, fresh: Sequence[str]) -> TextChange:
    """Replace a range of lines, keeping the blank lines at both ends."""
    old = [heading.text for heading in _headings(text) if start <= heading.line - 1 < end]
    first, last = markdown.trimmed(text.lines, start, end)  # if there are only blank lines, they stay below
    change = _placed(text, first, last, fresh) if fresh else TextChange(text.replaced(first, last, ()), first, first)
    new = {heading.text for heading in _headings(change.text)}
    return TextChange(change.text, change.start, change.end, tuple(name for name in old if name not in new))


def _placed(text: Text, start: int, end: int, fresh: Sequence[str]) -> TextChange:
    """Replace lines, adding blank lines around them where Markdown needs some."""
    newline = text.newline
    before, after = text.lines[:start], text.lines[end:]
    lines = list(fresh)
    if after or text.ends_with_newline:
        lines[-1] += newline
    blank = bool(before) and start == end and bool(before[-1].strip())
    if blank:  # but in a list or a table that goes on
        above, below = before[-1], lines[0]
        row = above.lstrip().startswith("|") and below.lstrip().startswith("|")
        blank = not row and not (markdown.is_item(above) and markdown.is_item(below) and len(above.split(None, 1)) > 1)
    # The first newline ends the line above, if it has no line ending.
    unended = bool(before) and not before[-1].endswith(("\r", "\n"))
    lead = [newline] * (unended + blank)
    trail = [newline] if after and after[0].strip() else []
    whole = "".join((*before, *lead, *lines, *trail, *after))
    first = start + blank
    return TextChange(Text(edits.lines_of(whole), text.mark, text.encoding), first, first + len(lines))


def _checked_change(ref: str, old: Text, change: TextChange) -> TextChange:
    """Refuse a change with which a code block or comment would swallow other text, or a heading would change."""
    bare = change.text.bare
    blocks = markdown.scan_blocks(bare, change.text.front.end, 0)
    for first, last in (*blocks.fences, *blocks.raw):
        if first - 1 < change.start < last:
            raise WriteRefused(ref, f"its code block or comment at line {first} is never closed; close it first")
        if change.start <= first - 1 < change.end < last:
            raise WriteRefused(ref, "the new text opens a code block or comment without closing it")
    before, after = (
        [(heading.level, heading.text) for heading in headings if heading.line - 1 < change.start]
        for headings in (_headings(old), blocks.headings)
    )
    if before[: len(after)] != after:
        raise WriteRefused(ref, "the new text would turn the line above it into a heading; start it differently")
    return change


def _headings(text: Text) -> list[Heading]:
    return markdown.scan_blocks(text.bare, text.front.end, 0).headings


def _opening_heading(lines: Sequence[str]) -> Heading | None:
    bare = [line.rstrip("\r\n") for line in lines]
    headings = markdown.scan_blocks(bare, 0, 0).headings
    return headings[0] if headings and headings[0].line == 1 else None


def _trimmed(text: str, newline: str) -> list[str]:
    """Return the lines of a new text with the document's line endings, without surrounding blank lines."""
    lines = [line.rstrip("\r\n") for line in edits.lines_of(text.lstrip("\ufeff"))]
    lines = lines[slice(*markdown.trimmed(lines, 0, len(lines)))]
    return [line + newline for line in lines[:-1]] + lines[-1:]
