"""Deleted documents, kept in the user's data until the user empties the trash.

Each has a folder with its bytes and an `entry.json`. The folder gets its final name when both are on disk, and only
then is the document removed: after a crash it is in its place or in the trash.

Forgotten memories are in the same folder; folders with other names are ignored here.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from kbhub.editing.checks import incoming
from kbhub.editing.paths import (
    Location,
    changed_meanwhile,
    check_writable,
    docid_of,
    find_document,
    new_place,
    read_for_change,
    ref_forms,
    refusing,
    short_hash,
    sync_changed,
    twin,
)
from kbhub.errors import DocumentChanged, KbhubError, WriteRefused
from kbhub.frozen import Model
from kbhub.index.references import ref_of
from kbhub.sync.comparison import writing
from kbhub.types import Base
from kbhub.workspace.atomic_writes import ABANDONED_SECONDS, Content, Folder, open_folder, sync_folder, write_atomically
from kbhub.workspace.files import private_directory, read_regular

if TYPE_CHECKING:
    from kbhub.hub import Hub

MAX_ENTRY_BYTES = 64 * 1024
"""Limit of an `entry.json`, which holds two paths and some numbers."""

MAX_LINKS = 20
"""Limit of broken links named in an answer."""

_ENTRY, _DOCUMENT, _UNFINISHED = "entry.json", "document", ".new-"
_NAME = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")


class TrashEntry(Model):
    """A deleted document."""

    id: str = Field(description="Its name in the trash, for `kbhub restore`.")
    ref: str = Field(description="Its former ref.")
    base: str = Field(description="Id of its base.")
    base_path: Path = Field(description="The base's folder.")
    path: str = Field(description="Its path in the base.")
    deleted: str = Field(description="When it was deleted (ISO 8601, UTC).")
    hash: str = Field(description="SHA-256 of its content, hexadecimal.")
    bytes: int = Field(description="Its size.")
    mode: int = Field(description="Its permission bits.")


class Deleted(Model):
    """What `delete_document` did."""

    ref: str = Field(description="Its former ref.")
    docid: str = Field(description="Its former short id.")
    base: str = Field(description="Id of its base.")
    path: str = Field(description="Its former path.")
    hash: str = Field(description="Hash of the content that was deleted.")
    trash: str = Field(description="Its name in the trash, for `kbhub restore NAME`.")
    indexed: bool = Field(description="Whether searches no longer find it; if not, they do until the next sync.")
    broken: tuple[str, ...] = Field((), description="Links that are broken now, as `ref:line`.")


class Restored(Model):
    """What `restore` did."""

    ref: str = Field(description="The document's ref.")
    base: str = Field(description="Id of its base.")
    path: str = Field(description="Its path.")
    hash: str = Field(description="Hash of its content.")
    indexed: bool = Field(description="Whether searches find it; if not, they do after the next sync.")


def delete_document(hub: Hub, ref: str, based_on: str | None = None) -> Deleted:
    """Move a document to the trash."""
    place = find_document(hub, ref)
    check_writable(hub, place.base, place.ref)
    if place.linked:
        raise WriteRefused(place.ref, f"it is a link to {'/'.join(place.real)!r}; delete that, or the link by hand")
    docid, broken = docid_of(hub, place.base, place.path), _broken_by(hub, place)
    with (
        writing(hub, place.base, place.ref),
        refusing(place.ref),
        open_folder(place.base, place.folders) as folder,
    ):
        content = read_for_change(folder, place, based_on)
        kept = _keep(hub, place, content)
        _remove(folder, place, content, kept)
    return Deleted(
        ref=place.ref,
        docid=docid,
        base=place.base.id,
        path=place.path,
        hash=short_hash(content.hash),
        trash=kept.name,
        indexed=sync_changed(hub, place.base, place.path, there=False),
        broken=broken,
    )


def trash(hub: Hub) -> tuple[TrashEntry, ...]:
    """Return the contents of the trash, latest first."""
    return tuple(sorted(_entries(hub), key=lambda entry: (entry.deleted, entry.id), reverse=True))


def restore(hub: Hub, name: str) -> Restored:
    """Restore a deleted document to its place, never overwriting anything."""
    entries = trash(hub)
    names = ref_forms(hub, name)
    matches = (
        entry for ref in names for entry in entries if ref in (entry.id, entry.ref, f"{entry.base}@{entry.path}")
    )
    entry = next(matches, None)
    if entry is None:
        raise KbhubError(f"No {name!r} in the trash. List the trash with `kbhub restore --list`.")
    base = next((base for base in hub.discovery().bases if base.path == entry.base_path), None)
    if base is None:
        reason = (
            f"its base {entry.base!r}, the folder {entry.base_path}, is not active here; change to a directory where "
            "it is"
        )
        raise WriteRefused(entry.ref, reason)
    place = _place_of(hub, base, entry)
    with writing(hub, base, entry.ref), refusing(entry.ref):
        source = _folder(hub) / entry.id
        data = read_regular(source / _DOCUMENT, max(entry.bytes, 1), follow=False)
        with open_folder(base, place.folders, make=True) as folder:
            present = folder.names()
            if other := place.name if place.name in present else twin(present, place.name):
                raise WriteRefused(entry.ref, f"{other!r} is in its place; rename that first")
            folder.create(place.name, data, entry.mode)
        _discard(source)
    return Restored(
        ref=place.ref,
        base=base.id,
        path=place.path,
        hash=short_hash(entry.hash),
        indexed=sync_changed(hub, base, place.path),
    )


def empty_trash(hub: Hub, *, older_than_days: float = 0.0) -> tuple[TrashEntry, ...]:
    """Delete documents from the trash for good, or only those deleted longer ago than some days; return them."""
    limit = datetime.fromtimestamp(hub.options.clock(), UTC) - timedelta(days=older_than_days)
    old = tuple(entry for entry in trash(hub) if datetime.fromisoformat(entry.deleted) <= limit)
    for entry in old:
        _discard(_folder(hub) / entry.id)
    return old


def _folder(hub: Hub) -> Path:
    return hub.data / "trash"


def _broken_by(hub: Hub, place: Location) -> tuple[str, ...]:
    bases = hub.discovery().bases
    links = incoming(hub, place.base, place.path)
    refs = [ref_of(link.base, link.path, bases) + (f":{link.line}" if link.line else " (related)") for link in links]
    return tuple(dict.fromkeys(refs))[:MAX_LINKS]


def _place_of(hub: Hub, base: Base, entry: TrashEntry) -> Location:
    """Return the place of a deleted document, or raise if it may not be there."""
    try:
        place = new_place(hub, f"{base.id}@{entry.path}")
    except WriteRefused:
        # Its old name may be invalid for new documents, but must still be contained in the base.
        check_writable(hub, base, entry.ref)
        parts = tuple(entry.path.split("/"))
        if any(part in ("", ".", "..") for part in parts):
            raise
        return Location(base, entry.path, parts, entry.ref)
    if place.path != entry.path:
        return Location(base, entry.path, tuple(entry.path.split("/")), entry.ref)
    return place


def _keep(hub: Hub, place: Location, content: Content) -> Path:
    """Write a document and its entry to the trash; both are on disk on return."""
    now = datetime.fromtimestamp(hub.options.clock(), UTC)
    root = private_directory(_folder(hub))
    _sweep(root)
    name = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    entry = TrashEntry(
        id=name,
        ref=place.ref,
        base=place.base.id,
        base_path=place.base.path,
        path=place.path,
        deleted=now.isoformat(timespec="seconds"),
        hash=content.hash,
        bytes=len(content.data),
        mode=content.status.st_mode & 0o777,
    )
    unfinished = root / f"{_UNFINISHED}{secrets.token_hex(8)}"
    unfinished.mkdir(mode=0o700)
    try:
        write_atomically(unfinished / _DOCUMENT, content.data)
        write_atomically(unfinished / _ENTRY, json.dumps(entry.model_dump(mode="json"), indent=2) + "\n")
        unfinished.rename(root / name)
        sync_folder(root)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return root / name


def _remove(folder: Folder, place: Location, content: Content, kept: Path) -> None:
    """Remove a document whose copy is in the trash, or the copy if the document stays."""
    try:
        if not folder.remove(place.name, content):
            raise changed_meanwhile(place, content.hash)
    except BaseException as error:
        # After any other failure the file may be gone, and the copy must stay.
        if isinstance(error, DocumentChanged) or folder.is_still(place.name, content):
            with suppress(KbhubError):  # an extra copy does no harm, and the original error matters more
                _discard(kept)
        raise


def _entries(hub: Hub) -> Iterator[TrashEntry]:
    root = _folder(hub)
    try:
        names = [folder.name for folder in root.iterdir() if _NAME.fullmatch(folder.name)]
    except OSError:
        return
    for name in names:
        try:
            entry = TrashEntry.model_validate_json(read_regular(root / name / _ENTRY, MAX_ENTRY_BYTES, follow=False))
        except (OSError, ValidationError):
            continue
        if entry.id == name:
            yield entry


def _discard(folder: Path) -> None:
    """Remove an entry, its metadata first, so that no entry is ever listed without its document."""
    try:
        (folder / _ENTRY).unlink()
        shutil.rmtree(folder)
    except OSError as error:
        raise KbhubError(f"Cannot remove {folder} from the trash: {error.strerror}. Remove it by hand.") from error


def _sweep(root: Path) -> None:
    """Remove unfinished and half-removed entries of killed processes."""
    for folder in root.iterdir():
        with suppress(OSError):
            unfinished = folder.name.startswith(_UNFINISHED)
            if not unfinished and not _NAME.fullmatch(folder.name):
                continue
            abandoned = time.time() - folder.lstat().st_mtime > ABANDONED_SECONDS
            whole = (folder / _ENTRY).exists() and not unfinished
            if abandoned and not whole and not folder.is_symlink():
                shutil.rmtree(folder, ignore_errors=True)
