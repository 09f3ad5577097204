"""Memories as Markdown files: front matter with their provenance, then the text; and when two texts say the same.

They are written by one process at a time.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import yaml
from pydantic import ConfigDict, Field

from kbhub.documents.edits import lines_of, text_of, with_values
from kbhub.documents.frontmatter import read_front_matter
from kbhub.documents.markdown import decoded_lines
from kbhub.documents.walk import open_contained
from kbhub.errors import MemoriesUnavailable, UsageError, WriteRefused
from kbhub.frozen import Model
from kbhub.index.query.parser import normalise, stems
from kbhub.index.side_files import Use
from kbhub.search.document_signals import Facts, Source, facts_of, last_use, strength
from kbhub.values import struct
from kbhub.workspace.discovery import Files, MemoryFolder, memories_folder
from kbhub.workspace.files import Content, held, open_folder, private_directory
from kbhub.workspace.formats import MARKDOWN_SUFFIX
from kbhub.workspace.trash import Trash

NO_USES: Mapping[str, Use] = {}

MAX_TEXT_BYTES = 100_000
"""Limit of a memory's text: issue "Memories"."""

MAX_FILE_BYTES = MAX_TEXT_BYTES + 65_536
"""Limit of a memory's file: the text plus the longest front matter that is read."""

MAX_TAGS, MAX_SUBJECTS = 50, 50
"""Limits of tags and subjects per memory; with more, they stop being useful."""

MAX_TAG_CHARACTERS, MAX_NAMESPACE_CHARACTERS = 64, 128

SLUG_CHARACTERS, SLUG_WORDS = 48, 7
"""Limits of the readable part of a file name."""

TITLE_CHARACTERS = 72

NOTHING: tuple[object, ...] = (None, "", (), [], {})
"""Values that no front matter has."""

_TAG = re.compile(r"\w[\w./+-]*")

_SEGMENT = re.compile(r"\w[\w.-]*")

_BINARY = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff]")

_NO_WORD = re.compile(r"[^\w]+")


class MemoryFrontMatter(Model):
    """Front matter of a memory; every key may be missing, and others are left alone."""

    model_config = ConfigDict(
        extra="allow",
        title="Memory front matter",
        json_schema_extra={
            "examples": [
                {
                    "id": "k7f3a9c2",
                    "title": "Releases need the VPN",
                    "created": "2026-03-02T09:15:00+00:00",
                    "by": "user",
                    "source": "user",
                    "tags": ["deploy"],
                    "about": ["runbooks/deploy.md", "scripts/release.py::upload"],
                }
            ]
        },
    )

    id: str = Field("", description="Id; defaults to the file name without suffix.")
    title: str = Field("", description="Title; defaults to the first heading or the file name.")
    created: str = Field("", description="When it was written: ISO 8601, UTC by default.")
    updated: str = Field("", description="When it was last changed or confirmed, like `created`.")
    by: str = Field("", description="Who wrote it: name of the MCP client, or `user`.")
    source: Source = Field("agent", description="Where it comes from: `user` or `agent`.")
    project: str = Field("", description="Project it was written in, as kbhub identifies projects.")
    commit: str = Field("", description="Commit of the project at that time.")
    from_: str = Field("", alias="from", description="What it was learned or imported from, as text.")
    session: str = Field("", description="Id of the session it was learned in.")
    status: str = Field("", description="`rejected`: a way that was tried, and not taken. It ranks as any other.")
    misleading: int = Field(0, description="How often it misled since it was confirmed or changed.")
    tags: str | list[str] = Field([], description="Tags to find it by.")
    namespace: str = Field("", description="Namespace: names separated by `/`, such as `ops/deploy`.")
    about: str | list[str] = Field(
        [], description="What it is about: documents (`path.md`, `id@path.md`) and code (`file`, `file::symbol`)."
    )
    about_hash: dict[str, str] = Field({}, description="Subject → its hash at the time of writing, to detect changes.")
    memory_tool: str = Field("", description="File name in Claude's memory tool, if it has one there.")
    supersedes: str | list[str] = Field([], description="Ids of older memories it replaces.")
    superseded_by: str | list[str] = Field([], description="Ids of memories that replace it; it ranks lower then.")
    may_supersede: str | list[str] = Field(
        [], description="Ids of similar memories it may replace, until one of them is confirmed; it ranks above them."
    )


FIELDS = tuple(field.alias or name for name, field in MemoryFrontMatter.model_fields.items())


@struct
class MemoryFile:
    """A memory: its file, as it was read or, without `data` and `body`, as the index describes it."""

    shelf: MemoryFolder
    path: str
    """In the base."""
    title: str
    """Of its front matter, else its first line."""
    facts: Facts
    written: float
    """Modification time, seconds since the epoch."""
    use: Use | None = None
    """None if unused, or not looked up."""
    data: bytes = b""
    """The file's bytes; if longer than `MAX_FILE_BYTES`, only the beginning."""
    body: str = ""
    problem: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from all others."""
        return self.shelf.place, self.path

    @property
    def wording(self) -> str:
        """What tells its text from another's."""
        return wording(self.body, rejected=self.facts.rejected)

    def last_use(self) -> float:
        """Return when it was last used or changed, or else written; seconds since the epoch."""
        return last_use(self.facts, self.use, self.written)

    def strength(self, now: float) -> float:
        """Return its strength at the given time, seconds since the epoch."""
        uses = self.use.uses if self.use else 0
        return strength(self.facts.source, uses, self.last_use(), now, self.facts.misleading)


def checked_text(text: str) -> str:
    """Return the text as it is stored: stripped, with LF line ends; raise `UsageError` if empty, too long or binary."""
    if _BINARY.search(text):
        raise UsageError(
            "The text is binary: it contains control characters. Remember words, and name the file in `about`."
        )
    kept = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if not kept:
        raise UsageError("The text is empty. Say what to remember.")
    if (size := len(kept.encode())) > MAX_TEXT_BYTES:
        raise UsageError(
            f"The text has {size:,} bytes, but a memory can hold at most {MAX_TEXT_BYTES:,}. Write a document "
            "instead, or split the text."
        )
    return kept


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags in order, without `#` and duplicates; raise `UsageError` if one is invalid, or for too many."""
    kept = dict[str, None]()
    for given in tags:
        kept[tag := given.strip().removeprefix("#")] = None
        if not _TAG.fullmatch(tag) or len(tag) > MAX_TAG_CHARACTERS:
            raise UsageError(
                f"{tag!r} is not a valid tag: use letters, digits and `_ - . / +`, at most {MAX_TAG_CHARACTERS} "
                "characters."
            )
    if len(kept) > MAX_TAGS:
        raise UsageError(f"{len(kept)} tags are too many; the maximum is {MAX_TAGS}.")
    return tuple(kept)


def checked_namespace(namespace: str) -> str:
    """Return a normalised namespace, `a/b`, case-folded for comparison."""
    name = unicodedata.normalize("NFKC", namespace).strip().strip("/").casefold()
    if len(name) > MAX_NAMESPACE_CHARACTERS or not all(map(_SEGMENT.fullmatch, name.split("/"))):
        raise UsageError(f"{namespace!r} is not a valid namespace: use names separated by `/`, such as `ops/deploy`.")
    return name


def slug(text: str) -> str:
    """Return the readable part of a file name: the first words of a text."""
    words = [word for word in _NO_WORD.split(unicodedata.normalize("NFKC", text[:500]).casefold()) if word.strip("_")]
    name = ""
    for word in words[:SLUG_WORDS]:
        if len(name) + len(word) + 1 > SLUG_CHARACTERS:
            break
        name = f"{name}-{word}" if name else word
    # Without words, or with one that is too long, the name must still not look like a hidden file or an option.
    return name or (words[0][:SLUG_CHARACTERS] if words else "memory")


def title_of(text: str) -> str:
    """Derive a title from a text: its first line without markup, cut at a word."""
    first = next((line for line in text.split("\n") if line.strip(" #>*-`")), "")
    line = " ".join(first.strip(" #>*-`\t").split())
    if len(line) <= TITLE_CHARACTERS:
        return line.rstrip(".:")
    return f"{line[:TITLE_CHARACTERS].rpartition(' ')[0] or line[:TITLE_CHARACTERS]} …"


def new_file(fields: Mapping[str, Any], body: str) -> str:
    """Return the content of a new memory's file, without empty fields and with the keys of `FIELDS` first."""
    front = ""
    for key, given in {**dict.fromkeys(FIELDS), **fields}.items():
        value = list(given) if isinstance(given, tuple) else given
        if value not in NOTHING:
            front += yaml.safe_dump({key: value}, allow_unicode=True, sort_keys=False, width=10_000)
    return f"---\n{front}---\n\n{body}\n"


def parse_memory(
    shelf: MemoryFolder, path: str, data: bytes, written: float, uses: Mapping[str, Use] = NO_USES
) -> MemoryFile:
    """Parse a memory's file; the id comes from its name if the front matter has none."""
    lines = decoded_lines(data)[0]
    front = read_front_matter(lines)
    body = "\n".join(lines[front.body :]).strip()
    facts = facts_of(path, front.values, front.tags)
    title = front.title or title_of(body)
    return MemoryFile(shelf, path, title, facts, written, uses.get(facts.id), data, body, front.problem)


def changed_file(ref: str, memory: MemoryFile, fields: Mapping[str, Any], body: str | None = None) -> bytes:
    """Return a memory's file with some fields and the text replaced, and everything else untouched."""
    if len(memory.data) > MAX_FILE_BYTES:
        raise WriteRefused(
            ref, f"its file is larger than {MAX_FILE_BYTES:,} bytes, and the rest would be lost; shorten it by hand"
        )
    values = {key: None if value in NOTHING else value for key, value in fields.items()}
    text = with_values(ref, text_of(ref, memory.data), values)
    if body is not None:
        start = text.front.body
        text = text.replaced(start, len(text.lines), lines_of(f"\n{body}\n".replace("\n", text.newline)))
    return text.encoded()


LOCK_SECONDS = 30.0
"""How long to wait for other processes that write to a folder; each takes some milliseconds."""

_NUMBERED = re.compile(r"-\d{1,3}$")


@contextmanager
def locked(data: Path, place: str) -> Iterator[None]:
    """Lock a memory folder, a `MemoryFolder.place`, against other processes."""
    top = memories_folder(data)
    failed = partial(MemoriesUnavailable, top)
    lock = top / f".{hashlib.sha256(place.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}.lock"
    try:
        with held(lock, LOCK_SECONDS, failed):
            yield
    except OSError as error:
        raise failed(error.strerror or str(error)) from error


@struct
class FolderFiles:
    """The files of a memory folder on disk; nothing is written outside its base, or left half written."""

    shelf: MemoryFolder

    def names(self) -> list[str]:
        """Return the names of the folder's entries."""
        return os.listdir(self.shelf.folder)  # noqa: PTH208

    def read(self, path: str, limit: int) -> tuple[bytes, float] | None:
        """Return at most `limit` bytes of a file and its modification time; None if there is none."""
        try:
            with open_contained(self.shelf.base, path) as file:
                return file.read(limit), os.fstat(file.fileno()).st_mtime
        except OSError:
            return None

    def author(self) -> str:
        """Return nothing: the author of a file on disk is unknown."""
        return ""

    def create(self, path: str, data: bytes) -> None:
        """Write a new file; raise `FileExistsError` if the path is taken."""
        private_directory(self.shelf.folder)
        *folders, name = path.split("/")
        with open_folder(self.shelf.base, folders) as folder:
            folder.sweep()
            folder.create(name, data, 0o600)

    def replace(self, path: str, data: bytes) -> None:
        """Overwrite a file, keeping its mode; raise `WriteRefused` if it is a link."""
        *folders, name = path.split("/")
        with open_folder(self.shelf.base, folders) as folder:
            if (status := folder.status(name)) and stat.S_ISLNK(status.st_mode):
                raise WriteRefused(path, "it is a link; change the file that it leads to")
            if not folder.replace(name, data, folder.read(name)):
                raise OSError(errno.EAGAIN, "another program has just changed it", path)

    def remove(self, path: str) -> None:
        """Remove a file, or a link rather than what it leads to."""
        *folders, name = path.split("/")
        with open_folder(self.shelf.base, folders) as folder:
            if not (status := folder.status(name)) or not folder.remove(name, Content(b"", status)):
                raise OSError(errno.EAGAIN, "another program has just changed it", path)


def files_of(shelf: MemoryFolder) -> Files:
    """Return the files of a shelf. Whoever writes them holds its lock; what fails leaves the old content."""
    return shelf.files or FolderFiles(shelf)


def read(shelf: MemoryFolder, path: str, uses: Mapping[str, Use] = NO_USES) -> MemoryFile | None:
    """Read a memory's file, or return None if it does not exist; raise `PathNotContained` if it is outside the base."""
    found = files_of(shelf).read(path, MAX_FILE_BYTES + 1)
    return parse_memory(shelf, path, *found, uses) if found else None


def with_ids(shelf: MemoryFolder, ids: Collection[str]) -> Iterator[MemoryFile]:
    """Yield the memories whose file names have one of some ids, by name."""
    with suppress(OSError):
        for name in sorted(files_of(shelf).names()):
            if _id_in(name) in ids and (stored := read(shelf, f"{shelf.prefix}{name}")):
                yield stored


def with_id(shelf: MemoryFolder, name: str) -> MemoryFile | None:
    """Find a memory by the id in its file name, or return None if no file name has it."""
    return next((stored for stored in with_ids(shelf, {_id_in(name)}) if stored.facts.id == name), None)


def taken_ids(data: Path, shelves: Iterable[MemoryFolder] = ()) -> set[str]:
    """Return the ids in use in all folders, other projects' and additional ones included, judging by file names."""
    every = [file.name for file in memories_folder(data).glob(f"*/*{MARKDOWN_SUFFIX}")]
    for shelf in shelves:
        with suppress(OSError):
            every += files_of(shelf).names()
    return set(map(_id_in, every))


def _id_in(name: str) -> str:
    return _NUMBERED.sub("", name.removesuffix(MARKDOWN_SUFFIX)).rpartition("-")[2]


def label_of(shelf: MemoryFolder) -> str:
    """Return the name of a shelf's folder in the trash."""
    return f"{shelf.scope}-{shelf.base.path.name}" if shelf.scope in ("shared", "team") else shelf.place


def discard(stored: MemoryFile, data: Path, now: float) -> Path:
    """Move a file to the trash and return its folder there; the caller holds the lock. On failure, the file stays."""
    files = files_of(stored.shelf)
    content = files.read(stored.path, -1)
    folder = Trash(data).keep_memory(label_of(stored.shelf), PurePath(stored.path), content[0] if content else b"", now)
    files.remove(stored.path)
    return folder


_SILENT = frozenset({"a", "an", "the", "is", "are", "was", "were", "be", "been", "it", "its", "that", "this"})
"""Words without meaning of their own: articles, forms of "be", pronouns."""

_AROUND = "*\"'“”‘’`()"
_AFTER = ".,;:!?"
_REJECTED = "\0rejected"
_LIST_MARK = re.compile(r"^\s*(?:[-*+>]|#{1,6}|\d+[.)])\s+", re.MULTILINE)


def wording(text: str, *, rejected: bool = False) -> str:
    """Return the normalised words of a text; memories with equal wording are the same. A rejected way is another."""
    plain = normalise(_LIST_MARK.sub("", text)).casefold()
    words = list[str]()
    for part in plain.split():
        word = part.strip(_AROUND).rstrip(_AFTER).strip(_AROUND)
        # Identifiers, paths, numbers and operators must match exactly.
        word = " ".join(stems(word)) if word.isalpha() and word.isascii() else word
        words += [word] if word and word not in _SILENT else []
    return f"{' '.join(words) or plain.strip()}{_REJECTED if rejected else ''}"


MOST_CHARACTERS, MOST_SENTENCES = 400, 4
"""Length of a text that may repeat another in another order: a few sentences."""

_PART = re.compile(r"`+[^`\n]+`+|[,;:]|[.!?](?=\s|$)|(?:[^\s`,;:.!?]|[,;:.!?](?=[^\s`]))+")
"""A code span, a mark that ends a clause or a sentence, or a word."""

_NEVER = re.compile(r"(?:(?<=[.!?;:,] )|^)(?:please )?(?:do not|don['’]t|never) |\bmust (?:not|never) ", re.IGNORECASE)
"""What forbids, in the imperative and in a rule."""
_FORBIDDEN = "\0"
_MUST = re.compile(r"\b(?:has|have|needs?) to\b", re.IGNORECASE)
_NOT = re.compile(r"(?<=[a-z])n['’]t\b")

_PAST = frozenset({"was", "were"})
_BE = frozenset({"is", "are", "be", "been", "being"}) | _PAST
_GET = frozenset({"get", "gets"})
_EMPTY = "a an the it its this that these those do does please"
_DROPPED = frozenset(_EMPTY.split())
_SPEAKERS = frozenset({"you", "we"})
"""Left out of clauses: before you push, before pushing."""

_CONJUNCTIONS = "after although as because before if once since so unless until when whenever where while"
_PREPOSITIONS = """
about above across against along among around at behind below between by during except for from in inside into near off
on onto out outside over per than through to toward towards under up upon via with within without
"""
_CLAUSE, _PHRASE = frozenset(_CONJUNCTIONS.split()), frozenset(_PREPOSITIONS.split())
"""Words that begin a clause or a phrase, which may stand before or after what it belongs to."""
_MARKS = _CLAUSE | _PHRASE

_AND = frozenset({"and", "or", "but", "nor", "then", "&"})

_ENDS = frozenset(".!?;:")

_SAME = {"using": "with", "via": "with", "repo": "repository", "repos": "repository"}
_PARTICIPLES = """
built build chosen choose done do drawn draw driven drive found find given give held hold kept keep made make run run
read read sent send set set reset reset shown show split split taken take thrown throw told tell written write
"""
_BASE = dict(zip(_PARTICIPLES.split()[::2], _PARTICIPLES.split()[1::2], strict=True))

_Form = tuple[object, ...]
"""A sentence or a text without the order that does not matter."""


def repeats(one: str, other: str) -> bool:
    """Return whether two texts say the same: words but articles and forms of "be" have the same roles in both."""
    if max(len(one), len(other)) > MOST_CHARACTERS or "\n" in one.strip() or "\n" in other.strip():
        return False
    return not _forms(one).isdisjoint(_forms(other))


def _forms(text: str) -> set[_Form]:
    """Return the forms that a text may have; two texts say the same if they share one."""
    plain = _MUST.sub("must", _NOT.sub(" not", _NEVER.sub(f" {_FORBIDDEN} ", normalise(text.strip()))))
    sentences = [list[str]()]
    for part in _PART.findall(plain):
        if part not in _ENDS:
            sentences[-1].append(part)
        elif sentences[-1]:
            sentences.append([])
    forms = {_Form()}
    for words in sentences[:MOST_SENTENCES]:
        if words:
            some = list(_of_sentence(words))
            forms = {(*whole, form) for whole in forms for form in some}
    return forms - {()} if len(sentences) <= MOST_SENTENCES else set()


def _of_sentence(words: list[str]) -> Iterator[_Form]:
    """Yield the forms of a sentence: its verb and what is beside it, in order, and its phrases and clauses."""
    core = inside = list[str]()
    phrases, marks = list[tuple[str, list[str]]](), list[str]()
    told, after_be = words[0].casefold() == "we", False
    if _FORBIDDEN in words and "," in words:  # which clause forbids what is not certain
        yield tuple(_reduced(part)[1] for part in words)
        return
    for part, following in zip(words[told:], [*words[told + 1 :], ""], strict=True):
        plain, word = _reduced(part)
        if part == _FORBIDDEN:
            phrases.append((part, []))
            continue
        if plain in _BE or (plain in _GET and _is_participle(_reduced(following)[0])):
            after_be = True
            core += ["was"] if plain in _PAST else []
            continue
        if after_be and _is_participle(plain):
            clause = inside is not core and marks[-1] in _CLAUSE
            told, inside = told or not clause, inside if clause else core
            inside.insert(0, word)
        elif part == ",":
            inside = core
        elif plain in _MARKS or (plain == "every" and (inside is core or (inside and marks[-1] in _PHRASE))):
            inside = list[str]()
            phrases.append((word, inside))
            marks.append(plain)
        elif plain not in _DROPPED and (inside is core or plain not in _SPEAKERS):
            inside.append(word)
            marks += ["and"] if word in _AND else []
        if len(inside) == 1 and marks[-1:] == ["every"]:
            inside = core
        after_be = False
    found = {mark: tuple(some) for mark, some in phrases}
    both = marks.index("and") if "and" in marks else 0
    if len(found) < len(phrases) or 0 < both < len(marks) - 1:  # which phrase belongs to what is not certain
        yield tuple(_reduced(part)[1] for part in words)
        return
    if core[:1] == [*stems("use")] and "to" in found:  # use X to do Y
        core, found["with"] = [*found.pop("to")], tuple(core[1:])
    yield told and not found.keys() & {_FORBIDDEN, "with"}, tuple(core), tuple(sorted(found.items()))
    mark = "by" if told and "by" in found else "with"
    if told and mark in found:  # in "delete users with tokens", nobody says that the tokens do it
        core = [*found.pop(mark), *core]
        yield False, tuple(core), tuple(sorted(found.items()))


def _is_participle(plain: str) -> bool:
    return plain.endswith("ed") or plain in _BASE


def _reduced(part: str) -> tuple[str, str]:
    """Return a word in lower case, empty if it is a name, a number or code, and the word as it is compared."""
    bare = part.strip("`").strip() if part.startswith("`") else part.strip(_AROUND)
    plain = bare.casefold()
    if not (bare.isascii() and bare.isalpha()) or bare[1:] != plain[1:] or part.startswith("`"):
        return "", bare if bare[1:] != plain[1:] or part.startswith("`") else plain
    plain = _SAME.get(plain, plain)
    return plain, plain if plain in _DROPPED | _MARKS else " ".join(stems(_BASE.get(plain, plain)))
