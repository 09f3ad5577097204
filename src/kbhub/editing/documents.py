"""Creating, updating and appending to documents."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from kbhub.documents.edits import (
    Text,
    check_key,
    check_value,
    check_writable_text,
    front_matter_of,
    lines_of,
    text_of,
    with_values,
    written_lines,
)
from kbhub.documents.filters import too_large
from kbhub.documents.markdown import parse_document
from kbhub.editing import sections
from kbhub.editing.checks import warnings_about
from kbhub.editing.folder import (
    bring_in_step,
    changed_meanwhile,
    docid_of,
    open_folder,
    read_for_change,
    refusing,
    short_hash,
)
from kbhub.editing.paths import Location, check_writable, find_document, new_place, twin
from kbhub.errors import UsageError, WriteRefused
from kbhub.frozen import Model
from kbhub.sync.comparison import writing
from kbhub.values import struct
from kbhub.workspace.formats import is_converted, is_markdown, kind_of, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbhub.hub import Hub

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
    """The validated request."""

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

    Args:
        hub: the hub.
        ref: its location: `path` or `id@path`; for a change also `#docid`.
        text: Markdown. `create`: the whole document. `update`: replaces the body, the whole document if the text has
            front matter of its own, or the section. `append`: is added to the end of the document or section.
        front_matter: key → JSON value to set; None removes a key.
        section: a heading, or the last headings of its path joined by ` > `.
        mode: what to do; `create` never changes an existing document, the others never create one.
        based_on: hash of the document as it was read, at least 8 hex digits; if it differs, nothing is changed.
        client: the writer, for the key `source` of a new document.

    Raises:
        UsageError: the arguments contradict each other.
        DocumentNotFound, BaseNotFound, PathNotContained: the document or path does not exist.
        DocumentChanged: it differs from `based_on`.
        WriteRefused: it cannot be written, or not in this way; nothing was changed.
    """
    edit = _checked(ref, text, front_matter or {}, section, mode, based_on)
    if mode == "create":
        place = new_place(hub, ref)
        data, change = _new_document(hub, place, edit, client)
        before: str | None = None
        action: Action = "created"
        with writing(hub, place.base, place.ref), refusing(place.ref):
            _create(place, data)
        after = text_of(place.ref, data)
    else:
        place = find_document(hub, ref)
        if is_converted(kind := kind_of(place.base, place.path)):
            raise WriteRefused(place.ref, f"{name_of(kind)} cannot be written as text; write another document")
        check_writable(hub, place.base, place.ref)
        with writing(hub, place.base, place.ref), refusing(place.ref):
            before, after, change = _apply(hub, place, edit, based_on)
        action = "appended" if mode == "append" else "updated"
        if before == hashlib.sha256(after.encoded()).hexdigest():
            action = "unchanged"
    return _answer(hub, place, after, change, action=action, before=before)


def _checked(
    ref: str,
    text: str | None,
    front_matter: Mapping[str, Any],
    section: str | None,
    mode: WriteMode,
    based_on: str | None,
) -> _Edit:
    """Validate the arguments; raise `UsageError` or `WriteRefused` for contradictions."""
    if mode not in ("create", "update", "append"):
        raise UsageError(f"`mode` must be create, update or append, not {mode!r}.")
    if mode == "create" and section is not None:
        raise UsageError("`section` requires an existing document; use it with mode `update` or `append`.")
    if mode == "create" and based_on is not None:
        raise UsageError("A hash requires an existing document; use it with mode `update` or `append`.")
    if text is None and (mode != "update" or section is not None or not front_matter):
        raise UsageError("Nothing to write. Give a text, or, with mode `update`, keys of the front matter.")
    if text is not None:
        check_writable_text(ref, text)
        if not text.strip() and (mode != "update" or section is None):
            raise UsageError("The text is empty. To remove a document, delete it.")
    if section is not None and not section.strip():
        raise UsageError("`section` is empty. Name a heading, or omit it.")
    for key, value in front_matter.items():
        check_key(ref, key)
        check_value(ref, key, value)
    return _Edit(text, front_matter, section, mode)


def _new_document(
    hub: Hub, place: Location, edit: _Edit, client: str | None
) -> tuple[bytes, sections.TextChange | None]:
    """Build a new document: the given text, under default front matter unless it has its own."""
    assert edit.text is not None
    lines = lines_of(edit.text.lstrip("\ufeff"))
    text = Text(lines)
    if not text.ends_with_newline:
        text = Text((*lines[:-1], lines[-1] + text.newline))
    start = sections.front_end(text)
    if sections.brings_front_matter(edit.text):
        if edit.front_matter:
            text = with_values(place.ref, text, edit.front_matter)
            start = sections.front_end(text)
    else:
        created = datetime.fromtimestamp(hub.options.clock(), UTC).date().isoformat()
        defaults: dict[str, Any] = {"tags": [], "source": client, "created": created}
        values = {key: value for key, value in {**defaults, **edit.front_matter}.items() if value is not None}
        if values:
            head = written_lines(values, text.newline)
            blank = (text.newline,) if text.lines[0].strip() else ()
            text, start = Text((*head, *blank, *text.lines)), len(head) + len(blank)
            if front_matter_of(text).problem:
                raise WriteRefused(place.ref, "its front matter could not be read back; use plain keys and values")
    data = text.encoded()
    _check_size(hub, place, data)
    return data, sections.TextChange(text, start, len(text.lines))


def _create(place: Location, data: bytes) -> None:
    with open_folder(place.base, place.folders, make=True) as folder:
        try:
            names = folder.names()
            if place.name in names:
                raise WriteRefused(place.ref, "it already exists; use mode `update` or `append`")
            if other := twin(names, place.name):
                raise WriteRefused(place.ref, f"{other!r} exists, which is the same name on some systems; use that")
            folder.sweep()
            folder.create(place.name, data)
        except BaseException:
            folder.unmake()
            raise


def _apply(
    hub: Hub, place: Location, edit: _Edit, based_on: str | None
) -> tuple[str, Text, sections.TextChange | None]:
    """Edit a document's file; return its former hash, its new text, and the change."""
    with open_folder(place.base, place.folders) as folder:
        content = read_for_change(folder, place, based_on)
        old = text_of(place.ref, content.data)
        text, change = _changed(place, old, edit)
        data = text.encoded()
        _check_size(hub, place, data)
        if data != content.data:
            folder.sweep()
            if not folder.replace(place.name, data, content):
                raise changed_meanwhile(place, content.hash)
    return content.hash, text, change


def _changed(place: Location, text: Text, edit: _Edit) -> tuple[Text, sections.TextChange | None]:
    """Return the edited text: the body is changed first, then the front matter."""
    markdown = is_markdown(place.name)
    if not markdown and (edit.front_matter or edit.section is not None):
        raise WriteRefused(place.ref, "it is plain text, which has no front matter or sections")
    ref, new = place.ref, edit.text
    if new is not None and edit.mode == "update" and edit.section is None:
        whole = not markdown or sections.brings_front_matter(new)
        change = sections.replace_all(text, new) if whole else sections.replace_body(ref, text, new)
    elif new is not None and edit.section is not None and edit.mode == "update":
        change = sections.replace_section(ref, text, new, edit.section)
    elif new is not None:
        change = sections.append(ref, text, new, edit.section)
    else:
        return with_values(ref, text, edit.front_matter), None
    if not edit.front_matter:
        return change.text, change
    after = with_values(ref, change.text, edit.front_matter)
    moved = len(after.lines) - len(change.text.lines)
    return after, sections.TextChange(after, change.start + moved, change.end + moved, change.lost)


def _check_size(hub: Hub, place: Location, data: bytes) -> None:
    limit = hub.config().settings.limits.file_bytes
    if len(data) > limit:
        raise WriteRefused(place.ref, f"with this text {too_large(len(data), limit)}; write several documents")


def _answer(
    hub: Hub, place: Location, text: Text, change: sections.TextChange | None, *, action: Action, before: str | None
) -> Written:
    indexed = bring_in_step(hub, place.base, place.path)
    data = text.encoded()
    document = parse_document(place.path, data, inline=place.base.inline_tags)
    lost: Sequence[str] = change.lost if change else ()
    losses = [f"The replaced text contained: {', '.join(f'`{name}`' for name in lost)}."] if lost else []
    shown = change is not None and change.end > change.start and action != "unchanged"
    return Written(
        ref=place.ref,
        docid=docid_of(hub, place.base, place.path),
        base=place.base.id,
        path=place.path,
        action=action,
        hash=short_hash(hashlib.sha256(data).hexdigest()),
        before=short_hash(before) if before else None,
        start_line=change.start + 1 if change and shown else None,
        end_line=change.end if change and shown else None,
        indexed=indexed,
        warnings=(*losses, *warnings_about(hub, place.base, document)),
    )
