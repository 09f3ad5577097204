"""Where documents to be changed are, whether they may be written, and reading them for that."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from kbhub.documents.edits import Text, text_of
from kbhub.documents.filters import Filters, belongs
from kbhub.documents.walk import MAX_DEPTH, excluded_by, open_contained
from kbhub.errors import (
    BaseNotFound,
    DocumentChanged,
    DocumentNotFound,
    IndexUnavailable,
    PathNotContained,
    UsageError,
    WriteRefused,
)
from kbhub.hub import Hub
from kbhub.index import references
from kbhub.reading.lists import typed_into
from kbhub.reading.resolver import ResolvedDocument, Resolver, path_forms
from kbhub.sync.comparison import writing
from kbhub.sync.freshness import sync_written
from kbhub.types import Base
from kbhub.values import struct
from kbhub.workspace.discovery import MEMORY_ID, USER_ID
from kbhub.workspace.extensions import extensions, imported
from kbhub.workspace.files import Content, Folder, is_directory, open_folder
from kbhub.workspace.formats import MARKDOWN_SUFFIX, is_markdown, markdown_paths
from kbhub.workspace.project import PROJECT_ID
from kbhub.workspace.settings import nearest

T = TypeVar("T")

NAME_BYTES = 255
"""Limit of a name: that of ext4, APFS and NTFS (NTFS counts UTF-16 units, which are fewer)."""

PATH_BYTES = 1024
"""Limit of a path in a base: PATH_MAX of macOS, the smallest of all systems."""

MEMORIES_ONLY = "it is a memory; use `remember` and `forget` for memories"

_DOCID = re.compile(r"#[0-9a-fA-F]{4,16}")
# Windows opens the device whatever follows the first dot (Microsoft, "Naming Files, Paths, and Namespaces").
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])[ ]*(?:\.|$)", re.IGNORECASE)
# `GIT~1` is the short name under which Windows reaches `.git` too (CVE-2014-9390).
_OURS = re.compile(r"\.git|\.kbhub|git~[0-9]|kbhub~[0-9]", re.IGNORECASE)
_WINDOWS = frozenset('<>:"|?*\\')
_JOINERS = "\u200c\u200d"
"""Invisible characters needed for Persian, Indian languages and many emoji."""
_OTHER_KIND = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")
"""Looks like the suffix of another file type; `v1.2` has none."""


@struct
class Location:
    """The location of a document, existing or new."""

    base: Base
    path: str
    """Path as the base shows it."""
    real: tuple[str, ...]
    """Names from the base's folder to the file, links resolved."""
    ref: str

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of `real`."""
        return self.real[:-1]

    @property
    def name(self) -> str:
        """The file name."""
        return self.real[-1]

    @property
    def linked(self) -> bool:
        """Whether the path leads through a link."""
        return "/".join(self.real) != self.path


@struct
class PageRules:
    """What a format asks of the documents that are written in bases of it."""

    values: Callable[[Hub, Location, Text | None, Text, Mapping[str, Any], str | None, bool], Mapping[str, Any] | None]
    """Takes a place, the text before (None for a new document) and after, the requested front matter, the client, and
    whether the body changed; returns further front matter, or None if the base is of another format."""
    follow: Callable[[Hub, Location, str, Text | None], Iterable[str]]
    """Takes a place, what was done, and the text, None if it was deleted; changes what lists the document, and returns
    warnings."""


def page_rules() -> list[PageRules]:
    """Return the rules of the installed extensions."""
    return imported((name for extension in extensions() for name in extension.pages), PageRules)


def followed(hub: Hub, place: Location, action: str, text: Text | None = None) -> tuple[str, ...]:
    """Change what lists a document after it was written or deleted; return warnings."""
    return tuple(warning for rules in page_rules() for warning in rules.follow(hub, place, action, text))


def check_writable(hub: Hub, base: Base, ref: str) -> None:
    """Raise `WriteRefused`, with a remedy, if documents of a base may not be written."""
    if reason := why_not_writable(hub, base):
        raise WriteRefused(ref, reason)


def why_not_writable(hub: Hub, base: Base) -> str | None:
    """Return why a base is not writable, with a remedy, or None if it is."""
    if hub.config().settings.read_only:
        return "kbhub is read-only; remove `readOnly` from the global config, or unset KBHUB_READ_ONLY"
    if base.origin == "memory":
        return MEMORIES_ONLY
    if base.engine:
        return f"the base {base.id!r} is shared; change the files that its publisher publishes"
    if base.kind != "document":
        return f"the base {base.id!r} contains files of kind {base.kind!r}, which other programs write"
    if base.origin == "docs":
        why = "`docs/` is read-only, because it was found automatically"
        if base.id == PROJECT_ID:
            return f"{why}; make it a base with `kbhub init --knowledge docs`"
        return f"{why}; write to the project's own base instead, without `{base.id}@`"
    if base.writable:
        return None
    if base.id != PROJECT_ID and base.origin == "config":
        return f'the base {base.id!r} is read-only; set `"writable": true` for it in the global config'
    if base.origin == "argument":
        return (
            f"the base {base.id!r} comes from an option or a client's entry, so it is read-only; add it to the "
            'global config with `"writable": true`'
        )
    git = hub.discovery().workspace.git_root
    inside = git is not None and base.path.is_relative_to(git)
    why = "is read-only, by its pointer" if inside else "is outside the project's git repository"
    return f"{base.path} {why}; allow writing there with `kbhub base trust --writable`"


def find_document(hub: Hub, ref: str) -> Location:
    """Look up a document to change, by its exact path or docid only."""
    text = ref.strip()
    references.check_length(text)
    if _DOCID.fullmatch(text):
        with Resolver(hub).opened() as resolver:
            matches = resolver.by_docid(text[1:].lower())
        if len(matches) != 1:
            reason = "several documents have a docid that starts so" if matches else ""
            raise DocumentNotFound(text, reason, [*map(resolver.ref, matches)])
        base, candidates = matches[0].base, [matches[0].path]
    else:
        base, path = _split_ref(hub, text)
        candidates = path_forms(path)
    try:
        place = _opened(hub, base, candidates, ref)
    except PathNotContained:
        if not (place := _typed(hub, text, ref)):
            raise
    if place := place or _typed(hub, text, ref):
        return place
    reason = references.why_no_base(text, hub.discovery()) or f"the base {base.id!r} has no document at that path"
    others = (other for other in hub.discovery().bases if other.id != base.id)
    raise DocumentNotFound(ref, reason, _elsewhere(hub, others, candidates))


def new_place(hub: Hub, ref: str) -> Location:
    """Return the location of a new document: `path` in the project base or `id@path`, completed by `.md` if needed."""
    references.check_length(ref)
    if ref.startswith("#"):
        raise WriteRefused(ref, "a new document needs a path, not a docid")
    base, path = _base_for_new(hub, ref.strip()) or _split_ref(hub, ref.strip())
    check_writable(hub, base, ref)
    path = unicodedata.normalize("NFC", path.removeprefix("./"))
    parts = path.replace("\\", "/").split("/")
    drive = re.match(r"[A-Za-z]:", path) is not None
    leads_out = not path or path[0] in "/\\" or drive or ".." in parts or parts[0].startswith("~") or "\0" in path
    if leads_out or not belongs(path, base.only):
        raise PathNotContained(path, base.id)
    if not is_markdown(path):
        named = f"{path}{MARKDOWN_SUFFIX}"
        if suffix := _OTHER_KIND.search(path):
            hint = f"name it {named!r} if it is Markdown"
            raise WriteRefused(ref, f"only Markdown can be written, not {suffix[0]!r}; {hint}")
        path = named
    for part in path.split("/"):
        if fault := name_fault(part):
            raise WriteRefused(ref, f"{path!r} is not a valid path of a document: {fault}")
    if len(path.encode()) > PATH_BYTES or path.count("/") > MAX_DEPTH:
        raise WriteRefused(ref, f"the path is too long; use at most {PATH_BYTES} bytes and {MAX_DEPTH} folders")
    folders, name = path.split("/")[:-1], path.rsplit("/", 1)[-1]
    real = (*_existing_folders(ref, base, folders), name)
    path = "/".join(real)
    # A document at `docs/a.md` in the project's own base would hide the repository's.
    docs = [other for other in hub.discovery().bases if other.origin == "docs" and folders]
    if base.id == PROJECT_ID and (there := _elsewhere(hub, docs, [path])):
        raise WriteRefused(ref, f"it leads to {there[0]}, which is read-only; choose another path")
    reason = Filters(base).reason(path)
    if reason:
        raise WriteRefused(ref, f"no search would find it there, because {reason}; choose another path")
    return Location(base, path, real, references.ref_of(base, path, hub.discovery().bases))


def twin(names: list[str], name: str) -> str | None:
    """Return a name that differs but that some file systems treat as the same, by case or Unicode form, or None."""
    return next((other for other in sorted(names) if other != name and _folded(other) == _folded(name)), None)


def ref_forms(hub: Hub, ref: str) -> list[str]:
    """Return the refs that a text may stand for, likeliest first: without suffix, or as a path from the shell."""
    typed = typed_into(hub.options.typed_in, ref, hub.discovery().bases)
    return [*path_forms(ref), *(f"{base.id}@{form}" for base, path in typed for form in path_forms(path))]


def qualified(hub: Hub, ref: str, base: Base) -> str:
    """Add the base id to a ref for a new document, unless the ref names another base; keep a trailing slash."""
    named, path = _base_for_new(hub, ref, base) or (base, ref)
    slash = "/" if path else "./"
    return f"{named.id}@{path}{slash if ref.endswith('/') and not path.endswith('/') else ''}"


def _split_ref(hub: Hub, ref: str) -> tuple[Base, str]:
    """Split a ref into base and path; raise `BaseNotFound` if it names no base and there is no project base."""
    discovery = hub.discovery()
    name, mark, path = ref.partition("@")
    if named := references.named_base(ref, discovery.bases):
        return named, path
    project = discovery.project
    if project is None:
        missing = name if mark else PROJECT_ID
        raise BaseNotFound(missing, [base.id for base in discovery.bases], discovery.problem_of(missing))
    return project, ref


def _base_for_new(hub: Hub, ref: str, home: Base | None = None) -> tuple[Base, str] | None:
    """Return the base and path that a ref names by base id, or by a path from the working directory.

    What looks like a mistyped or inactive base id is refused, rather than such a file created.
    """
    discovery = hub.discovery()
    bases, home = discovery.bases, home or discovery.project
    if named := references.named_base(ref, bases):
        return named, ref.partition("@")[2]
    if (name := references.unknown_base(ref, bases)) is not None:
        if name in (MEMORY_ID, USER_ID):
            raise WriteRefused(ref, MEMORIES_ONLY)
        ids = [base.id for base in bases]
        near = nearest(name, ids)
        guesses = [f"{near}@{ref.partition('@')[2]}"] if near else []
        guesses += [f"{home.id}@{ref} for a file of that name"] if home else []
        hint = f"Did you mean {', or '.join(guesses)}?" if guesses else ""
        raise BaseNotFound(name, ids, discovery.problem_of(name), hint)
    directory, first = hub.options.typed_in, ref.removeprefix("./").partition("/")[0]
    if directory is None or os.path.isabs(ref):  # noqa: PTH117
        return None
    if home and first not in ("", "..") and is_directory(home.path / first):
        return None  # the base has such a folder, too
    for base, path in typed_into(directory, ref, bases):
        # Inside a base's folder, paths start at the top of the base, as everywhere else.
        if (path or ref.endswith("/")) and (first == ".." or not typed_into(directory, ".", (base,))):
            return base, path
    return None


def _typed(hub: Hub, text: str, ref: str) -> Location | None:
    """Find the document at a path relative to the shell's working directory."""
    for base, path in typed_into(hub.options.typed_in, text, hub.discovery().bases):
        if path and (place := _opened(hub, base, path_forms(path), ref)):
            return place
    return None


def _opened(hub: Hub, base: Base, candidates: list[str], ref: str) -> Location | None:
    """Return the first existing document; raise `DocumentNotFound` if it is excluded from its base."""
    for candidate in candidates:
        try:
            open_contained(base, candidate).close()
        except (OSError, ValueError):
            continue
        if reason := excluded_by(base, candidate):
            raise DocumentNotFound(ref, reason)
        root = os.path.realpath(base.path)
        real = Path(os.path.realpath(os.path.join(root, candidate))).relative_to(root)  # noqa: PTH118
        return Location(base, candidate, real.parts, references.ref_of(base, candidate, hub.discovery().bases))
    return None


def name_fault(name: str, *, windows: bool = True) -> str | None:
    """Return why no document or folder may have a name, one part of a path, or None."""
    if name in ("", "."):
        return "it has an empty part"
    if name.lower() in markdown_paths(""):
        return "it has a suffix but no name"
    for character in name:
        category = unicodedata.category(character)
        if category in ("Cc", "Cs", "Zl", "Zp") or (category == "Cf" and character not in _JOINERS):
            return f"it contains the invisible character U+{ord(character):04X}"
        if windows and character in _WINDOWS:
            return f"it contains {character!r}, which Windows does not allow"
    if name[-1] == "." or name != name.strip():
        return "a part begins or ends with a space, or ends with a dot"
    if _DEVICE.match(name) or _OURS.match(name):
        return f"{name!r} is a reserved name"
    if len(name.encode()) > NAME_BYTES:
        return f"a part is longer than {NAME_BYTES} bytes"
    return None


def _existing_folders(ref: str, base: Base, folders: list[str]) -> tuple[str, ...]:
    """Return the folders as spelt on disk; refuse links, files, and names that differ only by case."""
    current = os.path.realpath(base.path)
    spelt: list[str] = []
    for number, folder in enumerate(folders):
        try:
            names = os.listdir(current)  # noqa: PTH208
        except OSError:
            break  # reported when the folder is opened
        if folder not in names and (other := twin(names, folder)):
            if unicodedata.normalize("NFC", other) != folder:
                raise WriteRefused(ref, f"there is a folder {other!r}, which differs only by case; use that name")
            folder = other
        elif folder not in names:
            return (*spelt, *folders[number:])
        current = os.path.join(current, folder)  # noqa: PTH118
        if os.path.islink(current):  # noqa: PTH114
            raise WriteRefused(ref, f"{folder!r} is a link; name the folder that it leads to")
        if not os.path.isdir(current):  # noqa: PTH112
            raise WriteRefused(ref, f"{folder!r} is a file, not a folder; choose another path")
        spelt.append(folder)
    return (*spelt, *folders[len(spelt) :])


def _elsewhere(hub: Hub, others: Iterable[Base], candidates: list[str]) -> list[str]:
    """Return refs of documents at the same path in other bases."""
    bases = hub.discovery().bases
    refs = []
    for other in others:
        for path in candidates:
            with suppress(OSError, ValueError, PathNotContained):
                open_contained(other, path).close()
                refs.append(references.ref_of(other, path, bases))
    return list(dict.fromkeys(refs))


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


LEAST_DIGITS = 8
"""Minimum hex digits of `based_on`."""

_HASH = re.compile(rf"[0-9a-f]{{{LEAST_DIGITS},64}}")


def hash_of(data: bytes) -> str:
    """Return the hash of a document's content: SHA-256, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def read_for_change(folder: Folder, place: Location, based_on: str | None) -> Content:
    """Read the file of a document that is to be changed."""
    content = folder.read(place.name)
    if not content.status.st_mode & 0o222:
        raise WriteRefused(place.ref, "its file is read-only; make it writable first")
    wanted = None if based_on is None else based_on.strip().lower().removeprefix("sha256:")
    if wanted is not None and not _HASH.fullmatch(wanted):
        digits = f"{LEAST_DIGITS} to 64 of its hex digits"
        raise UsageError(f"{based_on!r} is not a hash of a document; use the one from `read`, {digits}.")
    if based_on is not None and wanted is not None and not hash_of(content.data).startswith(wanted):
        lines = content.data.count(b"\n") + (not content.data.endswith(b"\n"))
        raise DocumentChanged(place.ref, based_on, references.short_hash(hash_of(content.data)), f"{lines} lines")
    return content


def changed_meanwhile(place: Location, based_on: str) -> DocumentChanged:
    """Return the error for a file that another program changed during the edit."""
    return DocumentChanged(place.ref, references.short_hash(based_on), "another", "changed by another program just now")


def change_document(
    hub: Hub,
    place: Location,
    change: Callable[[Text], tuple[Text, T]],
    based_on: str | None = None,
    *,
    write: bool = True,
) -> tuple[str, T]:
    """Change the text of a document; return the hash of what it was, and what `change` returns beside the new text."""
    with changing(hub, place.base, place.ref), open_folder(place.base, place.folders) as folder:
        content = read_for_change(folder, place, based_on)
        text, made = change(text_of(place.ref, content.data))
        data = text.encoded()
        if write and data != content.data:
            folder.sweep()
            if not folder.replace(place.name, data, content):
                raise changed_meanwhile(place, hash_of(content.data))
    return hash_of(content.data), made


def sync_changed(hub: Hub, base: Base, path: str, *, there: bool = True) -> bool:
    """Index the changes in a base; return whether the index then has the document, or lacks it if not `there`."""
    if sync_written(hub, base, wait=True):
        with suppress(IndexUnavailable), hub.index(base).snapshot() as index:
            return (index.document(path) is not None) == there
    return False


def docid_of(hub: Hub, base: Base, path: str) -> str:
    """Return the short docid of a document, as in `search`."""
    with Resolver(hub).opened() as resolver:
        return resolver.docid(ResolvedDocument(base, path))


@contextmanager
def changing(hub: Hub, base: Base, ref: str) -> Iterator[None]:
    """Hold the write lock of a base, and turn an `OSError` from inside into a `WriteRefused`."""
    with writing(hub, base, ref), refusing(ref):
        yield


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
