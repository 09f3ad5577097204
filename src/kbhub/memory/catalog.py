"""The current content of the active memories, from indexes for unchanged files, and from files that were changed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from operator import itemgetter

from kbhub.documents.chunking import chunk_document
from kbhub.documents.markdown import decoded_lines, plain_document, section, trimmed
from kbhub.documents.source import parse_text
from kbhub.documents.walk import Traversal, read_contained
from kbhub.errors import (
    BaseUnavailable,
    EmbedderError,
    IndexUnavailable,
    MemoryNotFound,
    PathNotContained,
    UsageError,
    WriteRefused,
)
from kbhub.hub import Hub
from kbhub.index.catalogue import memory_rows
from kbhub.index.references import embedded_text, named_base, ref_of
from kbhub.memory.files import MAX_SUBJECTS, MemoryFile, locked, read
from kbhub.memory.results import ChangedSubject, Memory
from kbhub.models.embedding import Embedder
from kbhub.reading.resolver import Resolver
from kbhub.search.conversations import closest, statements
from kbhub.search.document_signals import facts_of, timestamp, uses_of
from kbhub.sync.freshness import sync_written
from kbhub.types import Base, Hit
from kbhub.workspace.discovery import MEMORY_ID, NO_TEAM, SHARED_FOLDER, MemoryFolder, Scope, shelf_for_writing
from kbhub.workspace.extensions import load
from kbhub.workspace.formats import MARKDOWN_SUFFIX, converts
from kbhub.workspace.git import project_text

NEAR_SUBJECT = 0.57
"""`likeness` from which a memory is reported as near: docs/explanation/memory-retrieval.md."""

COMPARED_CHUNKS = 8
"""Limit of chunks of the text that are compared: its first 4,000 words; few memories are longer."""

NEIGHBOURS = 40
"""Memories of each folder whose files are read; more than are shown, as many have another subject."""

SHOWN_CHARACTERS = 400
"""Length of a memory's text in a list; `read` returns all of it."""


def active_shelves(hub: Hub, scope: Scope | None = None) -> list[MemoryFolder]:
    """Return the active memory folders of one scope, or of all."""
    discovery, settings, active, teams = hub.discovery(), hub.config().settings.memory, [], []
    for base in discovery.bases:
        if base.origin == "memory":
            active.append(MemoryFolder("project" if base.id == MEMORY_ID else "user", base))
        elif base.engine and base.kind == "memory" and settings.enabled:
            teams.append(MemoryFolder("team", base, files=hub.shared.engine(base.engine).files(hub, base)))
    if settings.shared and (project := discovery.project) and (project.path / SHARED_FOLDER).is_dir():
        active.insert(min(1, len(active)), MemoryFolder("shared", project, f"{SHARED_FOLDER}/"))
    return [shelf for shelf in (*active, *teams) if scope in (None, shelf.scope)]


def shelf_to_write(hub: Hub, scope: Scope) -> MemoryFolder:
    """Return the folder for new memories of a scope, or raise `UsageError` if it is unavailable here or not enabled."""
    hub.current(max_age=0)  # a new origin or folder of this moment counts: nobody finds what is filed elsewhere
    active = [] if scope == "shared" else active_shelves(hub, scope)
    if scope == "team" and not active:
        raise UsageError(NO_TEAM)
    if len(active) > 1:
        names = ", ".join(shelf.base.id for shelf in active)
        raise UsageError(
            f"Several shared bases accept memories here ({names}). Leave `memories` set for only one of them."
        )
    if active:
        return active[0]
    with locked(hub.data, "folders"):
        return shelf_for_writing(hub.discovery(), hub.data, hub.config().settings, scope)


def check_writable(hub: Hub, *, new: bool = False) -> None:
    """Raise `WriteRefused` if the settings allow no writing, or no new memories."""
    settings = hub.config().settings
    if settings.read_only:
        raise WriteRefused("memories", "`readOnly` is set; only searching and reading are allowed")
    if new and not settings.memory.enabled:
        raise WriteRefused("memories", "`memory.enabled` is false in ~/.kbhub.json")


def sync_shelves(hub: Hub, shelves: Iterable[MemoryFolder]) -> None:
    """Find folders again after one was made or is empty, and index what was written to them."""
    for shelf in shelves:
        hub.rediscover()
        sync_written(hub, shelf.base)


def known(hub: Hub, shelf: MemoryFolder) -> list[MemoryFile]:
    """Return the memories of a folder, by path, as their files are now."""
    files, indexed = _listed(hub, shelf)
    uses = uses_of(hub).all(shelf.place)
    memories: dict[str, MemoryFile] = {}
    with suppress(IndexUnavailable), hub.index(shelf.base).snapshot() as index:
        for path, title, tags, front, moment, _ in memory_rows(index, shelf.prefix) if indexed else ():
            if path in indexed:
                facts = facts_of(path, front, tags)
                memories[path] = MemoryFile(shelf, path, title, facts, moment / 1e9, uses.get(facts.id))
    for path in files.keys() - memories.keys():
        if stored := read(shelf, path, uses):
            memories[path] = stored
    return [memories[path] for path in sorted(memories)]


def unindexed(hub: Hub, shelf: MemoryFolder) -> Iterator[MemoryFile]:
    """Yield the memories of a folder that its index does not describe as they are, by path."""
    try:
        files, indexed = _listed(hub, shelf)
    except BaseUnavailable:  # reported by `status`
        return
    for path in sorted(files.keys() - indexed.keys()):
        if stored := read(shelf, path):
            yield stored


def _listed(hub: Hub, shelf: MemoryFolder) -> tuple[Mapping[str, tuple[int, int]], dict[str, tuple[int, int]]]:
    """Return path → (size, time) of a folder's files, and of those that its index describes as they are."""
    index, times = hub.index(shelf.base), dict[str, tuple[int, int]]()
    with suppress(IndexUnavailable), index.snapshot():
        times = {path: (size, abs(mtime)) for path, size, mtime in index.file_states()}
    if shelf.files:
        return times, times
    base = shelf.base.model_copy(update={"only": (shelf.prefix.rstrip("/"),)}) if shelf.prefix else shelf.base
    files = Traversal(base, hub.limits()).run().files
    return files, dict(files.items() & times.items())


def all_known(hub: Hub, scope: Scope | None = None) -> list[MemoryFile]:
    """Return the memories of all active folders; folders that cannot be listed are skipped."""
    memories = []
    for shelf in active_shelves(hub, scope):
        with suppress(BaseUnavailable):  # reported by `status`
            memories += known(hub, shelf)
    return memories


def located(hub: Hub, name: str, scope: Scope | None = None, among: Sequence[MemoryFile] | None = None) -> MemoryFile:
    """Look up a memory by id, ref or file name; raise `MemoryNotFound` if none matches, or several do."""
    base_id, mark, target = name.strip().removeprefix("#").rpartition("@")
    names = {target, f"{target}.md"}
    matches = [
        memory
        for memory in (all_known(hub, scope) if among is None else among)
        if not mark or memory.shelf.base.id == base_id
        if target == memory.facts.id or names & {memory.path, memory.path.rpartition("/")[2]}
    ]
    if len(matches) != 1:
        raise MemoryNotFound(name, [ref(hub, memory) for memory in matches])
    return matches[0]


def matching(
    memories: Iterable[MemoryFile],
    *,
    tags: Iterable[str] = (),
    namespace: str | None = None,
    before: float | None = None,
) -> list[MemoryFile]:
    """Filter memories: with all of the tags, in the namespace, and last used before a moment."""
    folded = {tag.casefold() for tag in tags}
    return [
        memory
        for memory in memories
        if folded <= {tag.casefold() for tag in memory.facts.tags}
        and (namespace is None or f"{memory.facts.namespace}/".startswith(f"{namespace}/"))
        and (before is None or memory.last_use() < before)
    ]


def described(hub: Hub, one: MemoryFile, *, text: str = "", hit: Hit | None = None) -> Memory:
    """Build the public description of a memory, which a search may have found."""
    facts = {**asdict(one.facts), "last_use": one.use.last if one.use else None}
    del facts["about_hash"]  # which says nothing to readers
    for name in ("created", "updated", "last_use"):
        facts[name] = None if facts[name] is None else timestamp(facts[name])
    return Memory(
        ref=ref(hub, one),
        scope=one.shelf.scope,
        title=one.title,
        text=text,
        strength=round(one.strength(hub.options.clock()), 3),
        score=hit.score if hit else None,
        outdated=hit.outdated if hit else None,
        uses=one.use.uses if one.use else 0,
        **facts,
    )


def ref(hub: Hub, one: MemoryFile) -> str:
    """Return the ref of a memory."""
    return ref_of(one.shelf.base, one.path, hub.discovery().bases)


def shortened(text: str, characters: int = SHOWN_CHARACTERS) -> str:
    """Shorten a text at a word boundary."""
    return text if len(text) <= characters else f"{text[:characters].rsplit(maxsplit=1)[0]} …"


def count_uses(hub: Hub, memories: Iterable[MemoryFile]) -> bool:
    """Count one use of each memory; return whether all counts could be written."""
    by_place: dict[str, list[str]] = {}
    for memory in memories:
        by_place.setdefault(memory.shelf.place, []).append(memory.facts.id)
    now, uses = hub.options.clock(), uses_of(hub)
    counted = [uses.count(place, ids, now) for place, ids in by_place.items()]
    return all(counted)


def count_refs(hub: Hub, refs: Iterable[str]) -> None:
    """Count one use of each memory among refs, with lines or without; other refs are ignored."""
    places = {shelf.base.id: shelf for shelf in active_shelves(hub)}
    memories = {}
    for name in (ref.partition(":")[0] for ref in refs):
        base_id, mark, path = name.partition("@")
        shelf = places.get(base_id if mark else "project")
        target = path if mark else name
        if shelf and target.startswith(shelf.prefix) and (stored := read(shelf, target)):
            memories[shelf.place, stored.facts.id] = stored
    count_uses(hub, memories.values())


HASH_DIGITS = 16
"""Hex digits of a subject's hash, which is only compared with one other."""

MAX_SUBJECT_CHARACTERS = 1000
"""Limit of a subject's name: few systems allow longer paths."""

_BEFORE = r"(?:^|[\s*&(:.])"
_AFTER = r"\s*(?:[(<\[:={]|$|\s)"
_COMMENT = re.compile(r"\s*(?:#(?!\[)|//|/\*|\*|--|;)")
_DEFINES = re.compile(
    r"\b(?:async|class|const|def|enum|export|fn|fun|func|function|impl|interface|let|macro_rules!|mod|module|namespace|"
    r"object|package|private|protected|protocol|pub|public|record|static|struct|sub|trait|type|union|val|var|void)\b"
)
_CLOSES = re.compile(r"\s*(?:[\])}]+[;,]?|end\b.*)\s*$")


def hashes_of(hub: Hub, subjects: Iterable[str]) -> dict[str, str]:
    """Return the current hash of each subject; raise `UsageError` if one does not exist, or there are too many."""
    names = list(dict.fromkeys(map(str.strip, subjects)))
    if len(names) > MAX_SUBJECTS:
        raise UsageError(f"{len(names)} subjects are too many; a memory can have at most {MAX_SUBJECTS}.")
    hashes = {}
    for subject in names:
        text = subject_text(hub, subject)
        if text is None and (subject := _as_read(hub, subject)):
            text = subject_text(hub, subject)
        if text is None:
            raise UsageError(
                f"No {subject!r} found for `about`. Name a document (`path.md`, `id@path.md`, with `#Heading`), a "
                "file of the project, or `file::symbol`."
            )
        hashes[subject] = _hash(text)
    return hashes


def subjects_changed(hub: Hub) -> tuple[ChangedSubject, ...]:
    """Return the memories whose subject changed since they were last written, by ref; no user's of other projects."""
    project = project_text(hub.discovery().workspace)
    changes = []
    for memory in all_known(hub):
        if memory.shelf.scope == "user" and memory.facts.project != project:
            continue
        for subject in memory.facts.about:
            text = subject_text(hub, subject)
            old_hash = (memory.facts.about_hash or {}).get(subject)
            if text is None or old_hash not in (None, _hash(text)):
                changes.append(
                    ChangedSubject(
                        id=memory.facts.id,
                        ref=ref(hub, memory),
                        title=memory.title,
                        subject=subject,
                        state="vanished" if text is None else "changed",
                    )
                )
    return tuple(sorted(changes, key=lambda change: (change.ref, change.subject)))


def subject_text(hub: Hub, subject: str) -> str | None:
    """Return the current text of a subject, or None if it does not exist."""
    if not subject or len(subject) > MAX_SUBJECT_CHARACTERS:
        return None
    path, mark, symbol = subject.rpartition("::")
    if mark:
        text = _code(hub, path)
        return definition(text, symbol) if text is not None else _document(hub, path, symbol)
    path, mark, heading = subject.partition("#")
    text = _document(hub, subject, "")
    if text is None and mark:
        text = _document(hub, path, heading)
    return _code(hub, subject) if text is None else text


def definition(code: str, symbol: str) -> str | None:
    """Return the lines that define a symbol, or None; in `a.b` or `a::b`, each name is nested in the one before."""
    lines = code.split("\n")
    names = [name for name in re.split(r"\.|::", symbol) if name.strip("() ")]
    for name in names:
        block = _block(lines, name.strip("() "))
        if block is None:
            return None
        lines = block
    return "\n".join(lines) if names else None


def _block(lines: list[str], name: str) -> list[str] | None:
    named = re.compile(f"{_BEFORE}{re.escape(name)}{_AFTER}")
    candidates = [number for number, line in enumerate(lines) if named.search(line) and not _COMMENT.match(line)]
    if not candidates:
        return None
    # Prefer a line with a defining keyword to one that only mentions the name, then the least indented one.
    start = min(
        candidates,
        key=lambda number: (not _DEFINES.search(lines[number].partition(name)[0]), _indent(lines[number]), number),
    )
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > _indent(lines[start])):
        end += 1
    if end < len(lines) and _CLOSES.match(lines[end]):
        end += 1
    return lines[slice(*trimmed(lines, start, end))]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _document(hub: Hub, target: str, heading: str) -> str | None:
    """Return the text of a document of an active base, or of one of its sections."""
    discovery = hub.discovery()
    named = named_base(target, discovery.bases)
    base, path = (named, target.partition("@")[2]) if named else (discovery.project, target)
    data = read_contained(base, path, hub.config().settings.limits.file_bytes) if base else None
    return None if data is None else section_text(path, data, heading)


def _as_read(hub: Hub, subject: str) -> str:
    """Return a subject with the path of the document that `read` finds by its name, or it."""
    name, mark, heading = subject.partition("#")
    with Resolver(hub).opened() as resolver:
        meaning, place = resolver.find(name) or (None, None)
        found = meaning and place and meaning.target == name and place.base.kind == "document"
        return f"{resolver.ref(place)}{mark}{heading}" if found and place else subject


def section_text(path: str, data: bytes, heading: str) -> str | None:
    """Return the text of a document, or of one of its sections; None if it has no such section."""
    if not heading and not converts(path):  # as its structure is not needed
        return "\n".join(decoded_lines(data)[0])
    document = plain_document(path, data) if converts(path) else parse_text(path, data)
    if not heading:
        return "\n".join(document.lines)
    lines = section(document, heading)
    return "\n".join(document.lines[lines[0] - 1 : lines[1]]) if lines else None


def _code(hub: Hub, path: str) -> str | None:
    """Return the text of a file of the project, which need not be in a base; never one outside the project."""
    workspace = hub.discovery().workspace
    folder = workspace.git_root or workspace.directory
    if folder is None:
        return None
    base = Base(id="workspace", path=folder, origin="argument")
    data = read_contained(base, path.removeprefix("./"), hub.config().settings.limits.file_bytes)
    return None if data is None else data.decode("utf-8", "replace").replace("\r\n", "\n")


def _hash(text: str) -> str:
    """Hash a text, ignoring trailing white space of lines and around the text."""
    plain = "\n".join(line.rstrip() for line in text.strip().split("\n"))
    return hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:HASH_DIGITS]


def nearest(hub: Hub, shelves: Iterable[MemoryFolder], title: str, text: str) -> list[tuple[MemoryFile, float, float]]:
    """Return stored memories near to a new one, likeliest first, with cosine and `likeness`; no superseded ones."""
    chunks = chunk_document(parse_text(MARKDOWN_SUFFIX, text.encode()))
    texts = [embedded_text(title, "memory", chunk) for chunk in chunks]
    said = statements("\n".join(chunk.text[chunk.prose :] for chunk in chunks))
    matches: list[tuple[MemoryFile, float, float]] = []
    try:
        embedder = hub.embedder()
        if embedder is None or not texts:
            return []
        for shelf in shelves:
            for path, similarity in _near_paths(hub, shelf, embedder, texts[:COMPARED_CHUNKS]):
                with suppress(PathNotContained):
                    if (stored := read(shelf, path)) and not stored.facts.superseded_by:
                        subject = closest(statements(stored.body), said)
                        matches += [(stored, similarity, subject)] if subject >= NEAR_SUBJECT else []
    except EmbedderError:  # remembering works without a model; searches report what is wrong with it
        return []
    return sorted(matches, key=lambda match: (-match[2], match[0].key))


def _near_paths(hub: Hub, shelf: MemoryFolder, embedder: Embedder, texts: list[str]) -> list[tuple[str, float]]:
    """Return the paths of the memories nearest to some texts, in order, each with the cosine of its nearest chunk."""
    quantise, best = load("kbhub.models.static_model:quantise"), dict[str, float]()
    with suppress(IndexUnavailable), hub.index(shelf.base).snapshot() as index:  # which may not exist yet
        if index.meta("embedder") != embedder.fingerprint:
            return []
        paths = index.chunk_paths(shelf.prefix)
        for vector in embedder.embed(texts):
            if vector.any():
                for chunk, cosine in zip(*index.similarities(quantise(vector), [*paths]), strict=True):
                    best[paths[chunk]] = max(best.get(paths[chunk], -1.0), float(cosine))
    return sorted(sorted(best.items(), key=itemgetter(1), reverse=True)[:NEIGHBOURS])
