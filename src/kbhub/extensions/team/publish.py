"""Bring a shared base in step with a folder of files, and write its files to another."""

from __future__ import annotations

import errno
import getpass
import hashlib
import os
import re
import socket
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import Field

from kbhub.documents.secrets import find_secrets
from kbhub.documents.walk import MAX_DEPTH, Limits, open_contained
from kbhub.editing.paths import PATH_BYTES, name_fault
from kbhub.errors import EngineUnavailable, PathNotContained, UsageError
from kbhub.extensions.team import bases
from kbhub.extensions.team.reader import PostgresIndex
from kbhub.extensions.team.server import Server
from kbhub.extensions.team.writer import PostgresWriter
from kbhub.frozen import Model
from kbhub.index.engine import WRITTEN_STATUS, Index, NewDocument
from kbhub.models.embedding import Embedder
from kbhub.sync.comparison import DeletedTexts, Progress, SyncReport
from kbhub.sync.indexer import DocumentReader
from kbhub.sync.sync import Run
from kbhub.types import Base, Problem
from kbhub.workspace.files import open_folder
from kbhub.workspace.formats import format_of, is_session

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
    """Bring a shared base, created if missing, in step with a base's files, in one transaction, undone if `dry_run`."""
    started = time.monotonic()
    keeping = DeletedTexts(limits.kept, base)
    scan = keeping.scan(limits)
    place = f"{getpass.getuser()}@{socket.gethostname()}"
    files = DocumentReader(base, keeping, limits, refuse_secrets=not allow_secret)
    with (
        files.parser,
        bases.changing(server, name, f"kbhub team publish from {place}", create=True, undo=dry_run) as (held, number),
    ):
        if (found := bases.opened(held, name)) and found.memories:
            reason = f"agents remember in {name!r}, and publishing a folder would delete their memories"
            raise EngineUnavailable(server.name, reason, "Publish under another name.")
        writer = PostgresWriter(held, number, name, lambda document: _content(base, document, allow_secret))
        again = full or bool(writer.meta(INLINE_TAGS)) != base.inline_tags or not writer.meta(WRITTEN_STATUS)
        run = Run(writer, embedder, scan, files, full=again, progress=progress, notes=[])
        run.all(None)
        writer.set_meta({"publisher": place, INLINE_TAGS: base.inline_tags, WRITTEN_STATUS: True})
        counts = writer.counts()
    return run.report(*counts, time.monotonic() - started).model_copy(update={"base": name})


def _content(base: Base, document: NewDocument, allow_secret: bool) -> bytes | None:
    """Return a document's file; None if it changed since it was read, or is a session's log with a credential."""
    with suppress(OSError, PathNotContained), open_contained(base, document.path) as file:
        content = file.read()
        searched = document.kind == "session" and not allow_secret
        if not (searched and find_secrets(content.decode("utf-8", "replace"))):
            return content if hashlib.sha256(content).digest() == document.hash else None
    return None


Outcome = Literal["written", "same", "kept", "lacking", "refused"]

_EXPANDED = re.compile(r"^~|\$[A-Za-z_{(]|`|%\w+%")
"""What shells replace in a name that is not quoted."""

_OF_THE_PATH = (errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.ELOOP)
"""Errors of one path; others are those of the folder or the disk, and end the pull."""


class Pulled(Model):
    """What `kbhub team pull` did."""

    written: int = Field(description="Files written.")
    same: int = Field(description="Files that existed already.")
    kept: tuple[str, ...] = Field((), description="Files that exist with other content, and were not changed.")
    lacking: tuple[str, ...] = Field((), description="Documents whose file the base does not have.")
    refused: tuple[Problem, ...] = Field((), description="Documents that were not written, and why.")


def pull(server: Server, name: str, folder: Path) -> Pulled:
    """Write the files of a shared base into a folder, byte for byte; nothing there is overwritten."""
    base, index = Base(id=name, path=folder, origin="argument"), PostgresIndex(folder, name, server, name)
    outcomes: dict[Outcome, list[Problem]] = defaultdict(list)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with index.snapshot():
            for path in index.paths():
                outcome, reason = _pulled(index, base, path)
                outcomes[outcome].append(Problem(subject=path, message=reason))
    except OSError as error:
        raise UsageError(f"Cannot write {folder}: {error.strerror}. Name another folder.") from error
    kept, lacking = (tuple(one.subject for one in outcomes[outcome]) for outcome in ("kept", "lacking"))
    written, same = len(outcomes["written"]), len(outcomes["same"])
    return Pulled(written=written, same=same, kept=kept, lacking=lacking, refused=tuple(outcomes["refused"]))


def _pulled(index: Index, base: Base, path: str) -> tuple[Outcome, str]:
    """Write the file of a document; return what was done, and why not."""
    if fault := _path_fault(path):
        return "refused", fault
    if (content := index.file(path)) is None:
        return "lacking", ""
    *folders, name = path.split("/")
    try:
        with open_folder(base, folders, make=True) as folder:
            if folder.status(name) is None:
                with suppress(FileExistsError):  # created by another program just now
                    folder.create(name, content)
                    return "written", ""
            with suppress(OSError):  # a link or a folder, or not readable
                if folder.read(name).data == content:
                    return "same", ""
            return "kept", ""
    except PathNotContained:
        return "refused", "its folder is a link"
    except OSError as error:
        if error.errno not in _OF_THE_PATH:
            raise
        return "refused", f"the system does not allow it ({error.strerror})"


def _path_fault(path: str) -> str | None:
    """Return why a path is not written, or None."""
    parts = path.split("/")
    for part in parts:
        if part.startswith("."):
            return f"{part!r} is hidden"
        if part.startswith("-"):
            return f"programs take {part!r} for an option"
        if _EXPANDED.search(part):
            return f"shells expand {part!r}"
        if fault := name_fault(part, windows=os.name == "nt"):
            return fault
    if len(path.encode()) > PATH_BYTES or len(parts) > MAX_DEPTH:
        return f"its path is longer than {PATH_BYTES} bytes or {MAX_DEPTH} folders"
    if format_of(path) is None and not is_session(parts[-1].lower()):
        return "it is not a kind of document that kbhub reads"
    return None
