"""Sources that become pages: each is copied into the base with its hash, and gets a page unless one cites it."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import Field

from kbhub import __version__
from kbhub.documents.filters import Filters, too_large
from kbhub.documents.frontmatter import read_front_matter
from kbhub.documents.markdown import decode
from kbhub.documents.safe_text import TITLE_BYTES, one_line
from kbhub.documents.secrets import refuse_secrets
from kbhub.documents.sources.source import IsolatedParser, read_source
from kbhub.documents.walk import open_contained, scan
from kbhub.editing.documents import write_document
from kbhub.editing.paths import check_writable, name_fault, refusing
from kbhub.editing.trash import into_trash
from kbhub.errors import KbhubError, UsageError
from kbhub.extensions.okf.bundles import RESERVED, SOURCES, SOURCES_KEY, id_of, path_in, sources_of
from kbhub.extensions.okf.pages import GENERIC
from kbhub.extensions.okf.skeleton import skeleton
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.index.catalogue import document_names, front_matter_of
from kbhub.index.references import ref_of, short_hash
from kbhub.search.search import search
from kbhub.sync.comparison import writing
from kbhub.sync.sync import Progress
from kbhub.types import Base, Document, Query
from kbhub.values import struct
from kbhub.workspace.atomic_writes import open_folder
from kbhub.workspace.formats import FORMATS, byte_limit, is_converted, is_markdown, kind_of, why_unreadable
from kbhub.workspace.project import PROJECT_ID

MOST_SOURCES = 1_000
"""Files of one call: pages that somebody is to look through."""

CHANGED_LINES = 20
"""Lines of a change that are shown."""

QUERY_CHARACTERS = 700
"""Characters at the beginning of a source, some 100 words, that are used to search for related pages."""

RELATED, RELATED_SIMILARITY = 3, 0.5
"""Most related pages, and the least cosine of one: of the three documents of 300 EIPs nearest to another, 96 in 100 are
above it; of the three nearest to a text of another subject, 3 in 100."""

_TAKEN = (*(f"*{suffix}" for row in FORMATS for suffix in row.suffixes), "*.log")
"""What a folder of sources may hold; a single file may have any name."""


class IngestedSource(Model):
    """What became of one source."""

    source: str = Field(description="Its path, as given or below the given folder.")
    action: Literal["created", "updated", "changed", "unchanged", "refused"] = Field(
        description="`created`: it has a page now; `updated`: it changed, and the page, which nobody had edited, too; "
        "`changed`: it did, and edited pages were left alone; `refused`: it was not stored."
    )
    kept: str | None = Field(None, description="Its path in the base.")
    hash: str | None = Field(None, description="Its content hash.")
    pages: tuple[str, ...] = Field((), description="Refs of the pages that cite it.")
    related: tuple[str, ...] = Field((), description="Refs of other pages on its subject, to change or to link.")
    changes: tuple[str, ...] = Field((), description="Changed lines: `+ new`, `- old`.")
    notes: tuple[str, ...] = Field((), description="Why it was refused, or what could not be read.")


class Ingested(Model):
    """What `kbhub doc ingest` did."""

    base: str = Field(description="Id of the base.")
    sources: tuple[IngestedSource, ...] = Field((), description="Each source.")


@struct
class _Source:
    """A file to ingest, below a folder out of which nothing leads."""

    name: str
    home: Base
    path: str
    kept: str = ""
    """Where it is in the base, or is to be."""
    fault: str = ""


def ingest(
    hub: Hub, given: Sequence[Path], base: str | None, *, allow_secret: bool, progress: Progress | None = None
) -> Ingested:
    """Copy sources into a base, and make a page on each that no page cites; `progress` is called after each."""
    (home,) = hub.select([base or PROJECT_ID])
    check_writable(hub, home, f"{home.id}@{SOURCES}")
    found = [source for path in given for source in _files(hub, home, path)]
    if len(found) > MOST_SOURCES:
        raise UsageError(f"These are {len(found)} files; ingest at most {MOST_SOURCES} at a time.")
    intake, done = _Intake(hub, home, allow_secret), list[IngestedSource]()
    with intake.parser:
        for number, source in enumerate(found, 1):
            try:
                done.append(intake.take(source))
            except KbhubError as error:
                done.append(IngestedSource(source=source.name, action="refused", notes=(str(error),)))
            if progress:
                progress("sources", number, len(found))
    return Ingested(base=home.id, sources=tuple(done))


def _files(hub: Hub, home: Base, given: Path) -> Iterator[_Source]:
    """Yield the files of a source; a folder is walked as that of a base is."""
    real, root = Path(os.path.realpath(given)), Path(os.path.realpath(home.path))
    folder, paths, skipped = real.parent, [real.name], dict[str, str]()
    if given.is_symlink():
        skipped[real.name] = "it is a link; name what it leads to"
    elif real.is_dir():
        limits, walked = hub.limits(), Base(id="source", path=real, origin="argument", include=_TAKEN)
        listed = scan(walked, max_bytes=limits.file_bytes, max_files=limits.files, kind_bytes=limits.kind_bytes)
        skipped = {one.subject: one.message for one in listed.skipped}
        folder, paths = real, sorted({*listed.files, *skipped})
    for path in paths:
        name = str(given) if folder != real else f"{real.name}/{path}"
        source = _Source(name, Base(id="source", path=folder, origin="argument"), path, fault=skipped.get(path, ""))
        if not (folder / path).is_relative_to(root):
            kept = PurePosixPath(SOURCES, *map(_clean, (real.name if folder != real else name).split("/")))
            # A page, which ends in .md, needs front matter that a source may lack.
            yield replace(source, kept=str(kept.with_suffix(".markdown") if is_markdown(path) else kept))
        elif not is_markdown(path):
            inside = (folder / path).relative_to(root).as_posix()
            yield replace(source, home=home, path=inside, kept=inside)
        elif folder != real:
            yield replace(source, fault="it is a page of the base already")
    if not paths:
        yield _Source(str(given), home, "", fault="it holds no file that kbhub reads")


def _clean(name: str) -> str:
    """Return a name as a file may have it on every system."""
    if name_fault(name) or name.startswith("."):
        name = re.sub(r"[^\w.+ -]+", "-", name)[:TITLE_BYTES].strip(".- ")
    return name if name and not name_fault(name) else "source"


@struct(frozen=False)
class _Intake:
    """Sources on their way into a base."""

    hub: Hub
    base: Base
    allow_secret: bool
    parser: IsolatedParser = field(default_factory=IsolatedParser)
    citing: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    """Path of a source in the base → page that cites it → hash that the page has of it."""
    titles: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        index = self.hub.index(self.base)
        with index.snapshot():
            self.titles.update(reversed([*document_names(index)]))  # the title comes before aliases
            for path, front, _ in front_matter_of(index, SOURCES_KEY):
                for entry in sources_of(front):
                    self.citing[path_in(self.base.id, entry["resource"])][path] = str(entry.get("hash"))

    def take(self, source: _Source) -> IngestedSource:
        """Take in a source; `KbhubError` says why it is not."""
        data = self._data(source)
        digest = short_hash(hashlib.sha256(data).hexdigest())
        kept = self._free(source.kept) if source.kept in self.used else source.kept
        kept = next((path for path, pages in self.citing.items() if digest in pages.values()), kept)
        self.used.add(kept)
        pages, own = [*self.citing[kept]], source.home is self.base
        known = digest in self.citing[kept].values()
        document = None if known else self._document(kept, data)
        related = self._related(document, pages) if document else []
        changes = () if own else self._keep(kept, data)
        if document:
            titles = {path: self.titles.get(path, path) for path in related}
            text = skeleton(document, kept, id_of(kept), titles, self.hub.embedder())
            for page in pages or [self._free(str(PurePosixPath(kept.removeprefix(SOURCES)).with_suffix(".md")))]:
                self._write(page, text, kept, digest)
                self.titles.setdefault(page, document.title)
        now, unread = self.citing[kept], Filters(self.base).reason(kept)
        edited = any(cited != digest for cited in now.values())
        return IngestedSource(
            source=source.name,
            action="unchanged" if known else "changed" if edited else "updated" if pages else "created",
            kept=kept,
            hash=digest,
            pages=self._refs(now),
            related=self._refs(related),
            changes=changes,
            notes=(
                *(document.problems if document else ()),
                *([f"Searches do not see {kept}: {unread}."] if unread and not known else []),
            ),
        )

    def _related(self, document: Document, pages: Sequence[str]) -> list[str]:
        """Return other pages on the subject of a source."""
        words = " ".join((document.title, *document.lines[document.body :]))[:QUERY_CHARACTERS]
        text = re.sub(r"[^\w.]+", " ", words) + f" -path:{SOURCES}"
        query = Query(text=text, bases=(self.base.id,), mode="semantic", limit=RELATED, explain=True)
        near = (
            hit.path
            for hit in search(self.hub, query).hits
            if hit.trace
            and any(one.name == "semantic" and one.value >= RELATED_SIMILARITY for one in hit.trace.signals)
        )
        return [path for path in near if path not in pages and not path.endswith(RESERVED)]

    def _data(self, source: _Source) -> bytes:
        kind, limits = kind_of(self.base, source.kept), self.hub.limits()
        limit, why = byte_limit(kind, limits.file_bytes, limits.kind_bytes), source.fault
        try:
            if not why:
                with open_contained(source.home, source.path) as file:
                    size, data = os.fstat(file.fileno()).st_size, file.read(limit + 1)
                why = too_large(size, limit, kind) if size > limit else why_unreadable(self.base, source.kept) or ""
                if b"\0" in data and not is_converted(kind):
                    why = "it is neither text nor of a format that kbhub reads"
        except OSError as error:
            why = f"it cannot be read ({error.strerror or error})"
        if why:
            raise KbhubError(why)
        return data

    def _document(self, kept: str, data: bytes) -> Document:
        document, _ = read_source(self.base, kept, io.BytesIO(data), len(data), self.parser)
        text = "\n".join(document.lines)
        if not text.strip():
            raise KbhubError(document.problems[0] if document.problems else "it has no text")
        if not self.allow_secret:
            refuse_secrets("It", text)
        return document

    def _keep(self, kept: str, data: bytes) -> tuple[str, ...]:
        """Write a source to the base; return how its text differs from the version before, which goes to the trash."""
        *folders, name = kept.split("/")
        with writing(self.hub, self.base, kept), refusing(kept), open_folder(self.base, folders, make=True) as folder:
            if folder.status(name) is None:
                folder.create(name, data)
                return ()
            old = folder.read(name)
            if old.data == data:
                return ()
            into_trash(self.hub, self.base, kept, old)
            folder.replace(name, data, old)
        both = (read_source(self.base, kept, io.BytesIO(one), len(one), self.parser)[0] for one in (old.data, data))
        was, now = (Counter(line.strip() for line in one.lines if line.strip()) for one in both)
        lines = [*(f"+ {line}" for line in now - was), *(f"- {line}" for line in was - now)]
        return tuple(one_line(line, TITLE_BYTES) for line in lines[:CHANGED_LINES])

    def _write(self, page: str, text: str, kept: str, digest: str) -> None:
        """Write a page, or write it again if it is still as it was written here."""
        again = page in self.citing[kept]
        if again:
            with open_contained(self.base, page) as file:
                lines = decode(file.read())[0].splitlines()
            front = read_front_matter(lines)
            generated = front.values.get("generated")
            if not isinstance(generated, dict) or generated.get("body") != _digest(lines[front.body :]):
                return
        at = datetime.fromtimestamp(self.hub.options.clock(), UTC)
        about = {"type": GENERIC, "description": f"Extracts of {kept.rpartition('/')[2]}", "status": "draft"}
        cited = {
            "sources": [{"id": id_of(kept), "resource": f"/{kept}", "hash": digest}],
            "generated": {
                "by": f"kbhub/{__version__}",
                "at": f"{at:%Y-%m-%dT%H:%M:%SZ}",
                "body": _digest(text.splitlines()),
            },
        }
        front_matter = cited if again else {**about, **cited}
        ref = f"{self.base.id}@{page}"
        write_document(self.hub, ref, text=text, front_matter=front_matter, mode="update" if again else "create")
        self.citing[kept][page] = digest

    def _free(self, path: str) -> str:
        """Return a path of which there is no file yet."""
        stem, suffix = str(PurePosixPath(path).with_suffix("")), PurePosixPath(path).suffix
        paths = (f"{stem}{f'-{number}' if number > 1 else ''}{suffix}" for number in count(1))
        return next(one for one in paths if not (self.base.path / one).exists() and not one.endswith(RESERVED))

    def _refs(self, paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(ref_of(self.base, path, self.hub.discovery().bases) for path in paths)


def _digest(lines: Sequence[str]) -> str:
    return short_hash(hashlib.sha256("\n".join(map(str.rstrip, lines)).strip().encode()).hexdigest())
