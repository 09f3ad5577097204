"""What every change does before and after: read the file that it is based on, bring the index in step."""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from kbhub.errors import DocumentChanged, IndexUnavailable, KbhubError, UsageError, WriteRefused
from kbhub.indexing import document_id
from kbhub.references import short_docid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.editing.folder import Content, Folder
    from kbhub.editing.paths import Place
    from kbhub.hub import Hub
    from kbhub.types import Base

HASH_DIGITS = 12
"""Hex digits of a content hash that are shown: two of a document's versions share them once in 10^14 pairs."""

LEAST_DIGITS = 8
"""Hex digits that `based_on` needs."""

BUSY_TRIES = 50
"""Times a sync is tried while another process indexes; each waits `sync.LOCK_SECONDS`, so 5 s in all."""

_HASH = re.compile(rf"[0-9a-f]{{{LEAST_DIGITS},64}}")


def short_hash(digest: str) -> str:
    """Give the part of a content hash (SHA-256, hexadecimal) that is shown and asked for."""
    return digest[:HASH_DIGITS]


def read_for_change(folder: Folder, place: Place, based_on: str | None) -> Content:
    """Read the file of a document that is to be changed.

    Raises:
        UsageError: `based_on` is no hash.
        DocumentChanged: it is one of another content.
        WriteRefused: the file may not be written.
    """
    content = folder.read(place.name)
    if not content.status.st_mode & 0o222:
        raise WriteRefused(place.ref, "its file is set to read only; allow writing it first")
    if based_on is not None and not content.hash.startswith(wanted_hash(based_on)):
        lines = content.data.count(b"\n") + (not content.data.endswith(b"\n"))
        raise DocumentChanged(place.ref, based_on, short_hash(content.hash), f"{lines} lines")
    return content


def wanted_hash(based_on: str) -> str:
    """Give a hash as it is compared.

    Raises:
        UsageError: it is none, or too short.
    """
    text = based_on.strip().lower().removeprefix("sha256:")
    if not _HASH.fullmatch(text):
        raise UsageError(
            f"{based_on!r} is no hash of a document; `read` gives it, {LEAST_DIGITS} to 64 hex digits of it will do."
        )
    return text


def changed_meanwhile(place: Place, based_on: str) -> DocumentChanged:
    """Make the error about a file that another program changed while it was being edited."""
    return DocumentChanged(place.ref, short_hash(based_on), "another", "changed by another program just now")


def bring_in_step(hub: Hub, base: Base, path: str, *, there: bool = True) -> bool:
    """Index what was changed in a base.

    A base that has very much to index is left to `kbhub index` or the background.

    Args:
        hub: the hub.
        base: the base.
        path: a document that was changed.
        there: whether it should be in the index, or should not.

    Returns:
        Whether the index has it so now.
    """
    try:
        for behind in hub.freshen((base.id,), max_age=0.0):
            if behind.files <= hub.config().settings.limits.freshen_files:
                for _ in range(BUSY_TRIES):
                    if not hub.sync((base.id,))[0].busy:
                        break
        index = hub.index(base)
        with index.snapshot():
            return (index.document(path) is not None) == there
    except KbhubError:  # the file is written; that it cannot be found yet is what the answer says
        return False


def docid_of(hub: Hub, base: Base, path: str) -> str:
    """Give the short docid of a document, as `search` shows it."""
    with ExitStack() as stack:
        indexes = []
        for one in hub.discovery().bases:
            with suppress(IndexUnavailable):
                stack.enter_context(hub.index(one).snapshot())
                indexes.append(hub.index(one))
        return short_docid(document_id(base, path), indexes)


@contextmanager
def refusing(ref: str) -> Iterator[None]:
    """Turn what the system says about a file into a refusal that names the document.

    Raises:
        WriteRefused: an `OSError` came from inside.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise WriteRefused(ref, "it, or its folder, was moved or deleted just now") from error
    except FileExistsError as error:
        raise WriteRefused(ref, "a file of that name is there already") from error
    except OSError as error:
        raise WriteRefused(ref, f"the system does not allow it ({error.strerror or error})") from error
