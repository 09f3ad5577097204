"""Sources that become pages: each is copied into the base with its hash, and gets a page unless one cites it.

The page is made without a model: an outline, sentences that decide, and links to related pages.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import Field

from kbhub.answers.extractive import nearness, plain
from kbhub.answers.sentences import units
from kbhub.documents.filters import Filters, too_large
from kbhub.documents.frontmatter import read_front_matter
from kbhub.documents.markdown import decode
from kbhub.documents.secrets import refuse_secrets
from kbhub.documents.shown_text import TITLE_BYTES, one_line, unmarked
from kbhub.documents.source import IsolatedParser, read_source
from kbhub.documents.walk import open_contained, scan
from kbhub.editing.chat_answers import least_similarity, similar
from kbhub.editing.documents import write_document
from kbhub.editing.paths import changing, check_writable, name_fault
from kbhub.editing.renames import as_destination
from kbhub.editing.trash import into_trash
from kbhub.errors import KbhubError, UsageError
from kbhub.extensions.okf.bundles import RESERVED, SOURCES, SOURCES_KEY, id_of, path_in, sources_of
from kbhub.extensions.okf.pages import entry
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.index.catalogue import front_matter_of
from kbhub.index.references import ref_of, short_hash
from kbhub.models.embedding import Embedder
from kbhub.sync.comparison import Progress
from kbhub.types import Base, Document
from kbhub.values import struct
from kbhub.workspace.files import numbered, open_folder
from kbhub.workspace.formats import FORMATS, is_converted, is_markdown, kind_of, why_unreadable
from kbhub.workspace.project import PROJECT_ID

MOST_SOURCES = 1_000
"""Most files of one call, as somebody has to review the pages."""

CHANGED_LINES = 20
"""Most lines of a change that are shown."""

EXTRACTS = 12
"""Most sentences of a page: a screen of them."""

OUTLINE = 40
"""Most headings of a page; the deepest are left out first."""

WEIGHED = 1_000
"""Most sentences that are compared."""

SHORTEST, LONGEST = 30, 400
"""Characters of an extract: shorter ones say little, longer ones are tables."""

LETTERS = 0.9
"""Least share of letters in an extract."""

DECISION = 1.0
"""Worth of words that decide, beside a cosine: they come first, and what is nearest to the whole after them."""

_DECIDES = re.compile(
    r"\b(?:must|shall|should|never|always|only|except|unless|required?|decided?|decision|agreed?|chosen?|chose|instead"
    r"|because|therefore|recommend\w*|deadline|limit(?:ed)?|at (?:least|most)|no longer|from now on)\b",
    re.IGNORECASE,
)
_FAILS = re.compile(r"error|fatal|fail|denied|refused|timeout|panic|critical", re.IGNORECASE)
"""The same in a log."""
_ACTIVE = re.compile(r"[\\`*\[\]<>#~|]|(?<!\w)_|_(?!\w)|^[-+=]|(?<=^\d)[.)]|(?<=^\d\d)[.)]")
"""What means something in Markdown."""
_BULLET = re.compile(r"^\s*(?:[-*+]|\d{1,9}[.)])\s+")
_NUMBERED = re.compile(r"(?:Page|Slide) \d+|")

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

    sources: tuple[IngestedSource, ...] = Field((), description="Each source.")


@struct
class _Source:
    """A file: its name for people, a folder out of which nothing leads, and its paths in that and in the base."""

    name: str
    home: Base
    path: str
    kept: str = ""
    fault: str = ""


def ingest(hub: Hub, given: Sequence[Path], base: str | None, progress: Progress | None, *, secret: bool) -> Ingested:
    """Copy sources into a base, and make a page on each that no page cites; `secret` allows what looks like one."""
    (home,) = hub.select([base or PROJECT_ID])
    check_writable(hub, home, f"{home.id}@{SOURCES}")
    found = [source for path in given for source in _files(hub, home, path)]
    if len(found) > MOST_SOURCES:
        raise UsageError(f"These are {len(found)} files; ingest at most {MOST_SOURCES} at a time.")
    intake, done = _Intake(hub, home, secret), list[IngestedSource]()
    with intake.parser:
        for number, source in enumerate(found, 1):
            try:
                done.append(intake.take(source))
            except KbhubError as error:
                done.append(IngestedSource(source=source.name, action="refused", notes=(str(error),)))
            if progress:
                progress("sources", number, len(found))
    return Ingested(sources=tuple(done))


def _files(hub: Hub, home: Base, given: Path) -> Iterator[_Source]:
    """Yield the files of a source; a folder is walked as that of a base is."""
    real, root, faults = Path(os.path.realpath(given)), Path(os.path.realpath(home.path)), dict[str, str]()
    walks = real.is_dir()
    walked = Base(id="source", path=real if walks else real.parent, origin="argument", include=_TAKEN)
    paths, why = [real.name], "it holds no file that kbhub reads and that is no page of the base"
    if given.is_symlink():
        paths, why = [], "it is a link; name what it leads to"
    elif walks:
        listed = scan(walked, hub.limits())
        faults = {one.subject: one.message for one in listed.skipped}
        paths = sorted({*listed.files, *faults})
    new = [path for path in paths if not (is_markdown(path) and (walked.path / path).is_relative_to(root))]
    for path in new:
        file, name = walked.path / path, f"{real.name}/{path}" if walks else real.name
        kept = PurePosixPath(SOURCES, *map(_clean, name.split("/")))
        if is_markdown(path):  # a page, which ends in .md, needs front matter that a source may lack
            kept = kept.with_suffix(".markdown")
        inside = file.relative_to(root).as_posix() if file.is_relative_to(root) else str(kept)
        yield _Source(name if walks else str(given), walked, path, inside, faults.get(path, ""))
    if not new:
        yield _Source(str(given), walked, "", fault=why)


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
    secret: bool
    parser: IsolatedParser = field(default_factory=IsolatedParser)
    citing: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    """Path of a source in the base → page that cites it → hash that the page has of it."""
    used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        with self.hub.index(self.base).snapshot() as index:
            for path, front, _ in front_matter_of(index, SOURCES_KEY):
                for one in sources_of(front):
                    self.citing[path_in(self.base, one)][path] = str(one.get("hash"))

    def take(self, source: _Source) -> IngestedSource:
        """Take in a source; `KbhubError` says why it is not."""
        data = self._data(source)
        digest, kept = short_hash(hashlib.sha256(data).hexdigest()), source.kept
        kept = self._free(kept) if kept in self.used else kept
        kept = next((path for path, pages in self.citing.items() if digest in pages.values()), kept)
        self.used.add(kept)
        cited = dict(self.citing[kept])
        done = IngestedSource(source=source.name, action="unchanged", kept=kept, hash=digest, pages=self._refs(cited))
        if digest in cited.values():
            self._keep(kept, data)  # it may have been deleted
            return done
        document = read_source(self.base, kept, io.BytesIO(data), len(data), self.parser)
        whole = "\n".join(document.lines)
        if not whole.strip():
            raise KbhubError(document.problems[0] if document.problems else "it has no text")
        if not self.secret:
            refuse_secrets("It", whole)
        words = re.sub(r"[^\w.]+", " ", " ".join((document.title, *document.lines[document.body :][:WEIGHED])))
        near, least = similar(self.hub, self.base, words, f"-path:{SOURCES}") or (), least_similarity(self.hub)
        found = (hit for hit, cosine in near if cosine >= least and not hit.path.endswith(RESERVED))
        related = {hit.path: hit.title for hit in found if hit.path not in cited}
        changes = self._keep(kept, data)
        text = _skeleton(document, kept, id_of(kept), related, self.hub.embedder())
        for page in cited or [self._free(str(PurePosixPath(kept.removeprefix(SOURCES)).with_suffix(".md")))]:
            self._write(page, text, kept, digest)
        now, unread = self.citing[kept], Filters(self.base).reason(kept)
        update = {
            "action": "created" if not cited else "changed" if {*now.values()} != {digest} else "updated",
            "pages": self._refs(now),
            "related": self._refs(related),
            "changes": changes,
            "notes": (*document.problems, *([f"Searches do not see {kept}: {unread}."] if unread else [])),
        }
        return done.model_copy(update=update)

    def _data(self, source: _Source) -> bytes:
        kind = kind_of(self.base, source.kept)
        limit = self.hub.limits().bytes_of(kind)
        if why := source.fault or why_unreadable(self.base, source.kept):
            raise KbhubError(why)
        try:
            with open_contained(source.home, source.path) as file:
                size, data = os.fstat(file.fileno()).st_size, file.read(limit + 1)
        except OSError as error:
            raise KbhubError(f"it cannot be read ({error.strerror or error})") from error
        if size > limit:
            raise KbhubError(too_large(size, limit, kind))
        if b"\0" in data and not is_converted(kind):
            raise KbhubError("it is neither text nor of a format that kbhub reads")
        return data

    def _keep(self, kept: str, data: bytes) -> tuple[str, ...]:
        """Write a source to the base; return how its text differs from the version before, which goes to the trash."""
        *folders, name = kept.split("/")
        with changing(self.hub, self.base, kept), open_folder(self.base, folders, make=True) as folder:
            if folder.status(name) is None:
                folder.create(name, data)
                return ()
            old = folder.read(name)
            if old.data == data:
                return ()
            into_trash(self.hub, self.base, kept, old)
            folder.replace(name, data, old)
        both = (read_source(self.base, kept, io.BytesIO(one), len(one), self.parser) for one in (old.data, data))
        was, now = (Counter(line.strip() for line in one.lines if line.strip()) for one in both)
        lines = [*(f"+ {line}" for line in now - was), *(f"- {line}" for line in was - now)]
        return tuple(one_line(line, TITLE_BYTES) for line in lines[:CHANGED_LINES])

    def _write(self, page: str, text: str, kept: str, digest: str) -> None:
        """Write a page, or write it again if it is still as it was written here."""
        new, before = {"description": f"Extracts of {kept.rpartition('/')[2]}", "status": "draft"}, None
        if page in self.citing[kept]:
            with open_contained(self.base, page) as file:
                data = file.read()
            lines = decode(data)[0].splitlines()
            front, new, before = read_front_matter(lines), {}, hashlib.sha256(data).hexdigest()
            if not any(one.get("extract") == _digest(lines[front.body :]) for one in sources_of(front.values)):
                return
        made = {"id": id_of(kept), "resource": f"/{kept}", "hash": digest, "extract": _digest(text.splitlines())}
        write_document(
            self.hub,
            f"{self.base.id}@{page}",
            text=text,
            front_matter={**new, "sources": [made]},
            mode="update" if before else "create",
            based_on=before,
        )
        self.citing[kept][page] = digest

    def _free(self, path: str) -> str:
        """Return a path of which there is no file yet."""
        return next(one for one in numbered(path) if not (self.base.path / one).exists() and not one.endswith(RESERVED))

    def _refs(self, paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(ref_of(self.base, path, self.hub.discovery().bases) for path in paths)


def _digest(lines: Sequence[str]) -> str:
    return short_hash(hashlib.sha256("\n".join(map(str.rstrip, lines)).strip().encode()).hexdigest())


def _skeleton(document: Document, path: str, name: str, related: Mapping[str, str], embedder: Embedder | None) -> str:
    """Return the text of a page, without front matter.

    `path` is that of the source in its base, `name` its id in citations, `related` has paths of pages with titles.
    """
    file, mark, title = _literal(path.rpartition("/")[2]), f"[^{name}]", document.title
    parts = [f"# {_literal(title)}"]
    headings = [one for one in document.headings if one.text != title and not _NUMBERED.fullmatch(one.text)]
    levels = sorted({one.level for one in headings})
    while len(headings) > OUTLINE and len(levels) > 1:
        deepest = levels.pop()
        headings = [one for one in headings if one.level < deepest]
    if headings:
        items = [f"{'  ' * levels.index(one.level)}- {_literal(one.text)}" for one in headings[:OUTLINE]]
        parts += ["## Outline", f"The parts of {file}:{mark}", "\n".join(items)]
    shown = unmarked if is_markdown(path) else str
    if chosen := _extracts(document, embedder):
        parts += ["## Extracts", *(f"> {_literal(shown(text), 2 * LONGEST)} ({place}){mark}" for text, place in chosen)]
    if related:
        parts += ["## Related", "\n".join(entry(title, f"/{page}") for page, title in related.items())]
    return "\n\n".join([*parts, f"{mark}: [{file}](/{as_destination(path)})\n"])


def _literal(text: str, limit: int = TITLE_BYTES) -> str:
    """Return text of a source as Markdown on one line that shows it, and is nothing else."""
    return _ACTIVE.sub(r"\\\g<0>", one_line(text, limit))


def _extracts(document: Document, embedder: Embedder | None) -> list[tuple[str, str]]:
    """Return the sentences that decide, or are nearest to the whole, in order, each with its place."""
    lines = document.lines[document.body :]
    found = [one for one in map(plain, units("\n".join(lines), document.body + 1, whole_lists=False)) if one]
    often = Counter(one.text for one in found)  # running heads
    fitting = [(_BULLET.sub("", one.text), one.line) for one in found if one.kind != "block" and often[one.text] == 1]
    fitting = [one for one in fitting if sum(map(str.isalpha, one[0])) >= LETTERS * len("".join(one[0].split()))]
    decides = _DECIDES if fitting else _FAILS
    fitting = fitting or [(text, at) for at, text in enumerate(lines, document.body + 1)]
    fitting = [one for one in fitting if SHORTEST <= len(one[0]) <= LONGEST]
    texts, at = zip(*fitting[:: max(1, -(-len(fitting) // WEIGHED))], strict=True) if fitting else ((), ())
    near = nearness(" ".join(texts), texts, embedder=embedder) or [0.0] * len(texts)
    worth = [max(0.0, cosine) + DECISION * bool(decides.search(text)) for text, cosine in zip(texts, near, strict=True)]
    starts = [heading.line for heading in document.headings]
    sections = [bisect_right(starts, line) for line in at]
    taken, chosen = Counter[int](), list[int]()
    for number in sorted(range(len(texts)), key=lambda number: -worth[number]):
        if len(chosen) < EXTRACTS and taken[sections[number]] < -(-EXTRACTS // len({*sections})):
            taken[sections[number]] += 1
            chosen.append(number)
    names = ["", *(f"{_literal(one.text)}, " if one.text != document.title else "" for one in document.headings)]
    return [(texts[number], f"{names[sections[number]]}line {at[number]}") for number in sorted(chosen)]
