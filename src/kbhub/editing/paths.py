"""Which base may be written, and where in it a document may go."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.document_names import MARKDOWN_SUFFIXES
from kbhub.errors import BaseNotFound, DocumentNotFound, IndexUnavailable, PathNotContained, WriteRefused
from kbhub.filters import Filters, belongs
from kbhub.project import PROJECT_ID
from kbhub.references import ref_of
from kbhub.values import struct
from kbhub.walk import MAX_DEPTH, excluded_by, open_contained

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.types import Base

NAME_BYTES = 255
"""Bytes of one name: what ext4, APFS and NTFS take (NTFS counts UTF-16 units, which are fewer)."""

PATH_BYTES = 1024
"""Bytes of a path in a base: PATH_MAX of macOS, the smallest of the systems'."""

_DOCID = re.compile(r"#[0-9a-fA-F]{4,16}")
# Windows opens the device whatever follows the first dot (Microsoft, "Naming Files, Paths, and Namespaces").
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])[ ]*(?:\.|$)", re.IGNORECASE)
# `GIT~1` is the short name under which Windows reaches `.git` too (CVE-2014-9390).
_OURS = re.compile(r"\.git|\.kbhub|git~[0-9]|kbhub~[0-9]", re.IGNORECASE)
_WINDOWS = frozenset('<>:"|?*\\')
_JOINERS = "\u200c\u200d"
"""Invisible, and needed to write Persian, the languages of India, and many emoji."""
_OTHER_KIND = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")
"""What looks like the ending of another kind of file; `v1.2` has none."""


@struct
class Place:
    """Where a document is, or is to be."""

    base: Base
    path: str
    """As the base shows it."""
    real: tuple[str, ...]
    """Names from the base's folder down to the file, links resolved."""
    ref: str

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of `real`."""
        return self.real[:-1]

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.real[-1]

    @property
    def linked(self) -> bool:
        """Whether a link leads to the file, so that its path is another one than shown."""
        return "/".join(self.real) != self.path


def check_writable(hub: Hub, base: Base, ref: str) -> None:
    """Raise `WriteRefused`, with what to do, unless documents of a base may be written."""
    if reason := why_not_writable(hub, base):
        raise WriteRefused(ref, reason)


def why_not_writable(hub: Hub, base: Base) -> str | None:
    """Say why documents of a base may not be written, and what to do; none if they may."""
    if hub.config().settings.read_only:
        return "kbhub is set to read only; take `readOnly` out of the global config, or KBHUB_READ_ONLY away"
    if base.origin == "memory":
        return "it is a memory; `remember` and `forget` write those"
    if base.kind != "document":
        return f"the base {base.id!r} holds files of kind {base.kind!r}, which other programs write"
    if base.origin == "docs":
        return "`docs/` is read only, for it is found and not chosen; `kbhub init --knowledge docs` makes it a base"
    if base.writable:
        return None
    if base.id != PROJECT_ID and base.origin == "config":
        return f'the base {base.id!r} is read only; give it `"writable": true` in the global config'
    if base.origin == "argument":
        return (
            f"the base {base.id!r} comes from an option or a client's entry, and those are read only; "
            'name it in the global config with `"writable": true`'
        )
    return f"{base.path} lies outside the project's git repository; `kbhub trust --writable` allows writing there"


def find_document(hub: Hub, ref: str) -> Place:
    """Find the document that a ref names, for a change: by path or docid alone, never by likeness.

    Args:
        hub: the hub.
        ref: `path`, `id@path` (each with or without its ending) or `#docid`.

    Raises:
        DocumentNotFound: no base has it, or it is left out of its base.
        PathNotContained: the path leads out of the base.
    """
    text = ref.strip()
    if _DOCID.fullmatch(text):
        base, path = _by_docid(hub, text)
        candidates = [path]
    else:
        base, path = split_ref(hub, text)
        path = path.removeprefix("./")
        forms = dict.fromkeys((path, unicodedata.normalize("NFC", path), unicodedata.normalize("NFD", path)))
        candidates = [form + suffix for form in forms for suffix in ("", *MARKDOWN_SUFFIXES)]
    for candidate in candidates:
        try:
            open_contained(base, candidate).close()
        except (OSError, ValueError):
            continue
        if reason := excluded_by(base, candidate):
            raise DocumentNotFound(ref, reason)
        return _place(hub, base, candidate)
    raise DocumentNotFound(ref, f"the base {base.id!r} has none at that path", _elsewhere(hub, base, candidates))


def new_place(hub: Hub, ref: str) -> Place:
    """Say where a new document goes.

    Args:
        hub: the hub.
        ref: `path` in the project base or `id@path`; `.md` is added where an ending is missing.

    Raises:
        WriteRefused: a document may not have this path; the reason says what to change.
        PathNotContained: the path leads out of the base.
    """
    if ref.startswith("#"):
        raise WriteRefused(ref, "a new document is named by a path, not by a docid")
    base, path = split_ref(hub, ref.strip())
    check_writable(hub, base, ref)
    path = unicodedata.normalize("NFC", path.removeprefix("./"))
    _check_contained(base, path)
    path = _with_ending(ref, path)
    for part in path.split("/"):
        if fault := _name_fault(part):
            raise WriteRefused(ref, f"a document cannot be called {path!r}: {fault}")
    if len(path.encode()) > PATH_BYTES or path.count("/") > MAX_DEPTH:
        raise WriteRefused(ref, f"the path is too long; take at most {PATH_BYTES} bytes and {MAX_DEPTH} folders")
    folders, name = path.split("/")[:-1], path.rsplit("/", 1)[-1]
    real = (*_existing_folders(ref, base, folders), name)
    path = "/".join(real)
    reason = Filters(base).reason(path)
    if reason:
        raise WriteRefused(ref, f"nobody would find it there, for {reason}; choose another path")
    return Place(base, path, real, ref_of(base, path, hub.discovery().bases))


def twin(names: list[str], name: str) -> str | None:
    """Give the name that some file systems take for the same: equal but for case and composition; none if none is.

    Args:
        names: those in the folder.
        name: the one looked for; itself it is no twin.
    """
    wanted = _folded(name)
    return next((other for other in sorted(names) if other != name and _folded(other) == wanted), None)


def split_ref(hub: Hub, ref: str) -> tuple[Base, str]:
    """Give the base that a ref names, and the path in it.

    Raises:
        BaseNotFound: there is no project base, and the ref names no other.
    """
    bases = hub.discovery().bases
    name, mark, path = ref.partition("@")
    named = next((base for base in bases if mark and name in (base.id, *base.names)), None)
    if named is not None:
        return named, path
    project = next((base for base in bases if base.id == PROJECT_ID), None)
    if project is None:
        raise BaseNotFound(name if mark else PROJECT_ID, [base.id for base in bases])
    return project, ref


def _check_contained(base: Base, path: str) -> None:
    parts = path.replace("\\", "/").split("/")
    drive = re.match(r"[A-Za-z]:", path) is not None
    if not path or path[0] in "/\\" or drive or ".." in parts or parts[0].startswith("~") or "\0" in path:
        raise PathNotContained(path, base.id)
    if not belongs(path, base.only):
        raise PathNotContained(path, base.id)


def _with_ending(ref: str, path: str) -> str:
    if path.lower().endswith(MARKDOWN_SUFFIXES):
        return path
    found = _OTHER_KIND.search(path)
    if found:
        raise WriteRefused(ref, f"only Markdown is written, not {found[0]!r}; name it {path + '.md'!r} if it is that")
    return f"{path}.md"


def _name_fault(name: str) -> str | None:
    """Say why a file or folder may not have a name, on any of the systems that a base may be shared with."""
    if name in ("", "."):
        return "it has an empty part"
    if name.lower() in MARKDOWN_SUFFIXES:
        return "it has an ending and no name"
    for character in name:
        category = unicodedata.category(character)
        if category in ("Cc", "Cs", "Zl", "Zp") or (category == "Cf" and character not in _JOINERS):
            return f"it holds the invisible character U+{ord(character):04X}"
        if character in _WINDOWS:
            return f"it holds {character!r}, which Windows does not allow"
    if name[-1] in ". " or name[0] == " ":
        return "a part begins or ends with a space, or ends with a dot"
    if _DEVICE.match(name) or _OURS.match(name):
        return f"{name!r} is a reserved name"
    if len(name.encode()) > NAME_BYTES:
        return f"a part is longer than {NAME_BYTES} bytes"
    return None


def _existing_folders(ref: str, base: Base, folders: list[str]) -> tuple[str, ...]:
    """Give folders as they are spelt on disk, as far as they are there.

    Raises:
        WriteRefused: one is a link or a file, or differs from one that is there by case alone.
    """
    where = os.path.realpath(base.path)
    spelt: list[str] = []
    for number, folder in enumerate(folders):
        try:
            names = os.listdir(where)  # noqa: PTH208
        except OSError:
            break  # reported when it is opened
        if folder not in names and (other := twin(names, folder)):
            if unicodedata.normalize("NFC", other) != folder:
                raise WriteRefused(ref, f"there is a folder {other!r}, which differs by case alone; use that name")
            folder = other
        elif folder not in names:
            return (*spelt, *folders[number:])
        where = os.path.join(where, folder)  # noqa: PTH118
        if os.path.islink(where):  # noqa: PTH114
            raise WriteRefused(ref, f"{folder!r} is a link; name the folder that it leads to")
        if not os.path.isdir(where):  # noqa: PTH112
            raise WriteRefused(ref, f"{folder!r} is a file, not a folder; choose another path")
        spelt.append(folder)
    return (*spelt, *folders[len(spelt) :])


def _place(hub: Hub, base: Base, path: str) -> Place:
    root = os.path.realpath(base.path)
    real = Path(os.path.realpath(os.path.join(root, path))).relative_to(root)  # noqa: PTH118
    return Place(base, path, real.parts, ref_of(base, path, hub.discovery().bases))


def _by_docid(hub: Hub, docid: str) -> tuple[Base, str]:
    found = []
    for base in hub.discovery().bases:
        index = hub.index(base)
        try:
            with index.snapshot():
                found += [(base, row.path) for row in index.documents_by_docid(docid[1:].lower())]
        except IndexUnavailable:
            continue
    if len(found) > 1:
        refs = [ref_of(base, path, hub.discovery().bases) for base, path in found]
        raise DocumentNotFound(docid, "several documents have a docid that starts so", refs)
    if not found:
        raise DocumentNotFound(docid)
    return found[0]


def _elsewhere(hub: Hub, base: Base, candidates: list[str]) -> list[str]:
    """Refs of documents at the same path in other bases, which a change must name in full."""
    bases = hub.discovery().bases
    refs = []
    for other in bases:
        for path in candidates if other.id != base.id else ():
            try:
                open_contained(other, path).close()
            except (OSError, ValueError, PathNotContained):
                continue
            refs.append(ref_of(other, path, bases))
    return list(dict.fromkeys(refs))


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
