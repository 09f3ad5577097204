"""Delete documents to the trash, and restore them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from pydantic import Field

from kbhub.documents.edits import text_of
from kbhub.editing import paths
from kbhub.errors import DocumentChanged, KbhubError, WriteRefused
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.index.references import ref_of, short_hash
from kbhub.reading.graph import RELATED, graph_of
from kbhub.types import Base
from kbhub.workspace.files import Content, open_folder
from kbhub.workspace.trash import Trash, TrashEntry

MAX_LINKS = 20


class Deleted(Model):
    """What `delete_document` did."""

    ref: str = Field(description="Its former ref.")
    docid: str = Field(description="Its former short id.")
    base: str = Field(description="Id of its base.")
    path: str = Field(description="Its former path.")
    hash: str = Field(description="Hash of the content that was deleted.")
    trash: str = Field(description="Its name in the trash, for `kbhub doc restore NAME`.")
    indexed: bool = Field(description="Whether searches no longer find it; if not, they do until the next sync.")
    broken: tuple[str, ...] = Field((), description="Links that are broken now, as `ref:line`.")


class Restored(Model):
    """What `restore` did."""

    ref: str = Field(description="The document's ref.")
    base: str = Field(description="Id of its base.")
    path: str = Field(description="Its path.")
    hash: str = Field(description="Hash of its content.")
    indexed: bool = Field(description="Whether searches find it; if not, they do after the next sync.")


def into_trash(hub: Hub, base: Base, path: str, content: Content) -> TrashEntry:
    """Copy a file of a base to the trash."""
    return Trash(hub.data).keep_document(
        content.data,
        datetime.fromtimestamp(hub.options.clock(), UTC),
        ref=ref_of(base, path, hub.discovery().bases),
        base=base.id,
        base_path=base.path,
        path=path,
        hash=paths.hash_of(content.data),
        mode=content.status.st_mode & 0o777,
    )


def delete_document(hub: Hub, ref: str, based_on: str | None = None) -> Deleted:
    """Move a document to the trash, unless it differs from `based_on`, the hash of the document as it was read."""
    place, trash = paths.find_document(hub, ref), Trash(hub.data)
    paths.check_writable(hub, place.base, place.ref)
    if place.linked:
        raise WriteRefused(place.ref, f"it is a link to {'/'.join(place.real)!r}; delete that, or the link by hand")
    docid, graph = paths.docid_of(hub, place.base, place.path), graph_of(hub)
    broken = [
        f"{graph.ref(edge.source)}{' (related)' if edge.link.kind == RELATED else f':{edge.link.line}'}"
        for edge in graph.coming.get((place.base.id, place.path), ())
    ]
    with paths.changing(hub, place.base, place.ref), open_folder(place.base, place.folders) as folder:
        content = paths.read_for_change(folder, place, based_on)
        kept = into_trash(hub, place.base, place.path, content)
        try:
            if not folder.remove(place.name, content):
                raise paths.changed_meanwhile(place, paths.hash_of(content.data))
        except BaseException as error:
            # After any other failure the file may be gone, and the copy must stay.
            if isinstance(error, DocumentChanged) or folder.is_still(place.name, content):
                with suppress(KbhubError):  # an extra copy does no harm, and the original error matters more
                    trash.discard(kept)
            raise
    paths.followed(hub, place, "deleted")
    return Deleted(
        ref=place.ref,
        docid=docid,
        base=place.base.id,
        path=place.path,
        hash=short_hash(paths.hash_of(content.data)),
        trash=kept.id,
        indexed=paths.sync_changed(hub, place.base, place.path, there=False),
        broken=tuple(dict.fromkeys(broken))[:MAX_LINKS],
    )


def restore(hub: Hub, name: str) -> Restored:
    """Restore a deleted document, by its name in the trash or its former ref, to its place; overwrites nothing."""
    trash, names = Trash(hub.data), paths.ref_forms(hub, name)
    entries = trash.documents()
    matches = (one for ref in names for one in entries if ref in (one.id, one.ref, f"{one.base}@{one.path}"))
    entry = next(matches, None)
    if entry is None:
        raise KbhubError(f"No {name!r} in the trash. `kbhub doc restore` lists what can be restored.")
    base = next((base for base in hub.discovery().bases if base.path == entry.base_path), None)
    if base is None:
        reason = f"its base {entry.base!r}, the folder {entry.base_path}, is not active here"
        raise WriteRefused(entry.ref, f"{reason}; change to a directory where it is")
    parts = tuple(entry.path.split("/"))
    place = former = paths.Location(base, entry.path, parts, entry.ref)
    try:
        place = paths.new_place(hub, f"{base.id}@{entry.path}")
    except WriteRefused:
        # Its old name may be invalid for new documents, but must still be contained in the base.
        paths.check_writable(hub, base, entry.ref)
        if any(part in ("", ".", "..") for part in parts):
            raise
    place = place if place.path == entry.path else former
    with paths.changing(hub, base, entry.ref):
        data = trash.content(entry)
        with open_folder(base, place.folders, make=True) as folder:
            present = folder.names()
            if other := place.name if place.name in present else paths.twin(present, place.name):
                raise WriteRefused(entry.ref, f"{other!r} is in its place; rename that first")
            folder.create(place.name, data, entry.mode)
        trash.discard(entry)
    with suppress(KbhubError):  # a file that is no text stands in no list
        paths.followed(hub, place, "created", text_of(place.ref, data))
    return Restored(
        ref=place.ref,
        base=base.id,
        path=place.path,
        hash=short_hash(entry.hash),
        indexed=paths.sync_changed(hub, base, place.path),
    )


def empty_trash(hub: Hub, *, older_than_days: float = 0.0) -> tuple[TrashEntry, ...]:
    """Delete documents from the trash for good, or only those deleted longer ago than some days; return them."""
    trash, limit = Trash(hub.data), datetime.fromtimestamp(hub.options.clock(), UTC) - timedelta(days=older_than_days)
    old = tuple(entry for entry in trash.documents() if datetime.fromisoformat(entry.deleted) <= limit)
    for entry in old:
        trash.discard(entry)
    return old
