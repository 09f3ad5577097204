"""Bring a shared base in step with a folder of files."""

from __future__ import annotations

import getpass
import hashlib
import socket
import time

from kbhub.documents.secrets import find_secrets
from kbhub.documents.walk import Limits, open_contained
from kbhub.errors import EngineUnavailable, PathNotContained
from kbhub.extensions.team import bases
from kbhub.extensions.team.reader import PostgresIndex
from kbhub.extensions.team.server import Server
from kbhub.extensions.team.writer import PostgresWriter
from kbhub.index.engine import NewDocument
from kbhub.models.embedding import Embedder
from kbhub.sync.comparison import SyncReport, scan_base
from kbhub.sync.deleted_texts import DeletedTexts
from kbhub.sync.indexer import DocumentReader
from kbhub.sync.sync import Progress, Run
from kbhub.types import Base

__all__ = ["PostgresIndex", "Server", "bases", "publish"]

PUBLISHER = "publisher"
"""`meta` key: who brought the base in step last, and where."""


INLINE_TAGS = "inline_tags"
"""`meta` key: whether `#tags` in the text were tags; if that changes, all files are read again."""


def publish(
    base: Base,
    server: Server,
    name: str,
    embedder: Embedder | None,
    limits: Limits,
    *,
    full: bool = False,
    dry_run: bool = False,
    allow_secret: bool = False,
    progress: Progress | None = None,
) -> SyncReport:
    """Bring a shared base, created if missing, in step with the files of a base, in one transaction.

    Without an embedder, the semantic side is left out. `full` reads every file and computes every vector again;
    `dry_run` undoes everything at the end; `allow_secret` publishes also what seems to hold a credential. `progress` is
    called after every batch with (base id, files done, files to do).

    Raises `BaseUnavailable` if the folder of the base is gone; `EngineUnavailable` if the database cannot be used, or
    somebody else is publishing the base.
    """
    started = time.monotonic()
    keeping = DeletedTexts(limits.kept, base)
    scan = scan_base(base, keeping, limits)
    place = f"{getpass.getuser()}@{socket.gethostname()}"
    with (
        DocumentReader(base, keeping, limits, refuse_secrets=not allow_secret) as files,
        bases.changing(server, name, f"kbhub team publish from {place}", create=True, undo=dry_run) as (held, number),
    ):
        if bases.takes_memories(held, name):
            reason = f"agents remember in {name!r}, and publishing a folder would delete their memories"
            raise EngineUnavailable(server.name, reason, "Publish under another name.")
        writer = PostgresWriter(held, number, name, lambda document: _content(base, document, allow_secret))
        again = full or bool(writer.meta(INLINE_TAGS)) != base.inline_tags
        run = Run(base, writer, embedder, scan, files, full=again, progress=progress, notes=[])
        run.all(None)
        writer.set_meta({PUBLISHER: place, INLINE_TAGS: base.inline_tags})
        counts = writer.counts()
    return run.report(*counts, time.monotonic() - started)


def _content(base: Base, document: NewDocument, allow_secret: bool) -> bytes | None:
    """Return the bytes of a document's file, unless it changed since it was read: the next run takes it then.

    Nor those of a session's log with a credential: its text is published without it.
    """
    try:
        with open_contained(base, document.path) as file:
            content = file.read()
    except (OSError, PathNotContained):
        return None
    if document.kind == "session" and not allow_secret and find_secrets(content.decode("utf-8", "replace")):
        return None
    return content if hashlib.sha256(content).digest() == document.hash else None
