"""Reading a document that is to be changed, and indexing it afterwards."""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from kbhub.errors import DocumentChanged, IndexUnavailable, KbhubError, UsageError, WriteRefused
from kbhub.index.references import document_id, short_docid
from kbhub.sync.bases import freshen, sync

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.editing.paths import Location
    from kbhub.hub import Hub
    from kbhub.types import Base
    from kbhub.workspace.atomic_writes import Content, Folder


HASH_DIGITS = 12
"""Hex digits of a content hash that are shown: one collision in 10^14 pairs of versions."""

LEAST_DIGITS = 8
"""Minimum hex digits of `based_on`."""

BUSY_TRIES = 50
"""Attempts to sync while another process indexes; each waits `sync.LOCK_SECONDS`, so 5 s in all."""

_HASH = re.compile(rf"[0-9a-f]{{{LEAST_DIGITS},64}}")


def short_hash(digest: str) -> str:
    """Return the part of a content hash (SHA-256, hexadecimal) that is shown."""
    return digest[:HASH_DIGITS]


def read_for_change(folder: Folder, place: Location, based_on: str | None) -> Content:
    """Read the file of a document that is to be changed.

    Raises:
        UsageError: `based_on` is not a hash.
        DocumentChanged: the content differs from `based_on`.
        WriteRefused: the file is read-only.
    """
    content = folder.read(place.name)
    if not content.status.st_mode & 0o222:
        raise WriteRefused(place.ref, "its file is read-only; make it writable first")
    if based_on is not None and not content.hash.startswith(wanted_hash(based_on)):
        lines = content.data.count(b"\n") + (not content.data.endswith(b"\n"))
        raise DocumentChanged(place.ref, based_on, short_hash(content.hash), f"{lines} lines")
    return content


def wanted_hash(based_on: str) -> str:
    """Normalise a hash for comparison; raise `UsageError` if it is none, or too short."""
    text = based_on.strip().lower().removeprefix("sha256:")
    if not _HASH.fullmatch(text):
        raise UsageError(
            f"{based_on!r} is not a hash of a document; use the one from `read`, {LEAST_DIGITS} to 64 of its hex "
            "digits."
        )
    return text


def changed_meanwhile(place: Location, based_on: str) -> DocumentChanged:
    """Return the error for a file that another program changed during the edit."""
    return DocumentChanged(place.ref, short_hash(based_on), "another", "changed by another program just now")


def bring_in_step(hub: Hub, base: Base, path: str, *, there: bool = True) -> bool:
    """Index the changes in a base; return whether the index then has the changed document, or lacks it if not `there`.

    A base with very many changes is left to `kbhub index` or the background.
    """
    try:
        for behind in freshen(hub, (base.id,), max_age=0.0):
            if behind.files <= hub.config().settings.limits.freshen_files:
                for _ in range(BUSY_TRIES):
                    if not sync(hub, (base.id,))[0].busy:
                        break
        index = hub.index(base)
        with index.snapshot():
            return (index.document(path) is not None) == there
    except KbhubError:  # the file is written; the answer says that it is not indexed yet
        return False


def docid_of(hub: Hub, base: Base, path: str) -> str:
    """Return the short docid of a document, as in `search`."""
    with ExitStack() as stack:
        indexes = []
        for index in map(hub.index, hub.discovery().bases):
            with suppress(IndexUnavailable):
                stack.enter_context(index.snapshot())
                indexes.append(index)
        return short_docid(document_id(base, path), indexes)


@contextmanager
def refusing(ref: str) -> Iterator[None]:
    """Turn an `OSError` from inside into a `WriteRefused` that names the document."""
    try:
        yield
    except FileNotFoundError as error:
        raise WriteRefused(ref, "it, or its folder, has just been moved or deleted") from error
    except FileExistsError as error:
        raise WriteRefused(ref, "a file with that name already exists") from error
    except OSError as error:
        raise WriteRefused(ref, f"the system does not allow it ({error.strerror or error})") from error
