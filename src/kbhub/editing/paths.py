"""Which base may be written, and where in it a document may go."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.checking import nearest
from kbhub.document_names import MARKDOWN_SUFFIXES
from kbhub.errors import BaseNotFound, DocumentNotFound, IndexUnavailable, PathNotContained, WriteRefused
from kbhub.filters import Filters, belongs
from kbhub.memory.folders import MEMORY_ID, USER_ID
from kbhub.places import is_directory
from kbhub.project import PROJECT_ID
from kbhub.references import check_length, named_base, ref_of, unknown_base, why_no_base
from kbhub.typed_paths import typed_into
from kbhub.values import struct
from kbhub.walk import MAX_DEPTH, excluded_by, open_contained

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.types import Base

NAME_BYTES = 255
"""Bytes of one name: what ext4, APFS and NTFS take (NTFS counts UTF-16 units, which are fewer)."""

PATH_BYTES = 1024
"""Bytes of a path in a base: PATH_MAX of macOS, the smallest of the systems'."""

MEMORIES_ONLY = "it is a memory; `remember` and `forget` write those"
"""Why documents are not written among memories."""

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
        return MEMORIES_ONLY
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
        UsageError: it is too long.
    """
    text = ref.strip()
    check_length(text)
    if _DOCID.fullmatch(text):
        base, path = _by_docid(hub, text)
        candidates = [path]
    else:
        base, path = _split_ref(hub, text)
        candidates = path_forms(path)
    try:
        if found := _opened(hub, base, candidates, ref):
            return found
    except PathNotContained:
        if not (found := _typed(hub, text, ref)):
            raise
        return found
    if found := _typed(hub, text, ref):
        return found
    reason = why_no_base(text, hub.discovery()) or f"the base {base.id!r} has none at that path"
    raise DocumentNotFound(ref, reason, _elsewhere(hub, base, candidates))


def new_place(hub: Hub, ref: str) -> Place:
    """Say where a new document goes.

    Args:
        hub: the hub.
        ref: `path` in the project base or `id@path`; `.md` is added where an ending is missing.

    Raises:
        BaseNotFound: no base has this id; `project@id@path` is a file of such a name.
        WriteRefused: a document may not have this path; the reason says what to change.
        PathNotContained: the path leads out of the base.
        UsageError: it is too long.
    """
    check_length(ref)
    if ref.startswith("#"):
        raise WriteRefused(ref, "a new document is named by a path, not by a docid")
    base, path = _base_for_new(hub, ref.strip()) or _split_ref(hub, ref.strip())
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


def path_forms(path: str) -> list[str]:
    """Give the paths that one may stand for, as file systems and people spell them: also without its ending."""
    path = path.removeprefix("./")
    forms = dict.fromkeys((path, unicodedata.normalize("NFC", path), unicodedata.normalize("NFD", path)))
    return [form + suffix for form in forms for suffix in ("", *MARKDOWN_SUFFIXES)]


def ref_forms(hub: Hub, ref: str) -> list[str]:
    """Give the refs that one may stand for, likeliest first: without its ending, or as a path from a shell."""
    typed = typed_into(hub.options.typed_in, ref, hub.discovery().bases)
    return [*path_forms(ref), *(f"{base.id}@{form}" for base, path in typed for form in path_forms(path))]


def qualified(hub: Hub, ref: str, base: Base) -> str:
    """Give a ref for a new document with the id of its base; a slash at its end, for a folder, stays.

    Args:
        hub: the hub.
        ref: what names the place.
        base: the one that it is in, if it names no other.

    Raises:
        BaseNotFound, WriteRefused: the ref begins with the id of a base that is not active.
    """
    named, path = _base_for_new(hub, ref, base) or (base, ref)
    slash = "/" if path else "./"
    return f"{named.id}@{path}{slash if ref.endswith('/') and not path.endswith('/') else ''}"


def _split_ref(hub: Hub, ref: str) -> tuple[Base, str]:
    """Give the base that a ref names, and the path in it.

    Raises:
        BaseNotFound: there is no project base, and the ref names no other.
    """
    discovery = hub.discovery()
    name, mark, path = ref.partition("@")
    if named := named_base(ref, discovery.bases):
        return named, path
    project = next((base for base in discovery.bases if base.id == PROJECT_ID), None)
    if project is None:
        missing = name if mark else PROJECT_ID
        raise BaseNotFound(missing, [base.id for base in discovery.bases], discovery.problem_of(missing))
    return project, ref


def _base_for_new(hub: Hub, ref: str, home: Base | None = None) -> tuple[Base, str] | None:
    """Give the base that a ref names by its id, or by a path from the working directory, and the path in it.

    Args:
        hub: the hub.
        ref: what names the place of a new document.
        home: the base that it is in, if it names no other; none for the project base.

    Raises:
        BaseNotFound, WriteRefused: the ref begins with the id of a base that is not active.
    """
    bases = hub.discovery().bases
    home = home or next((base for base in bases if base.id == PROJECT_ID), None)
    if named := named_base(ref, bases):
        return named, ref.partition("@")[2]
    _refuse_unknown_base(hub, ref, home)
    here, first = hub.options.typed_in, ref.removeprefix("./").partition("/")[0]
    if here is None or os.path.isabs(ref):  # noqa: PTH117
        return None
    if home and first not in ("", "..") and is_directory(home.path / first):
        return None  # the base has such a folder, too
    for base, path in typed_into(here, ref, bases):
        # Who is in a base's folder names paths from the top of the base, as everybody does.
        if (path or ref.endswith("/")) and (first == ".." or not typed_into(here, ".", (base,))):
            return base, path
    return None


def _refuse_unknown_base(hub: Hub, ref: str, home: Base | None) -> None:
    """Raise an error if a ref begins with what is most likely a slip in the id of a base, or a base that is gone.

    A file of that name in the project is nothing that anybody would find again.
    """
    discovery = hub.discovery()
    name = unknown_base(ref, discovery.bases)
    if name is None:
        return
    if name in (MEMORY_ID, USER_ID):
        raise WriteRefused(ref, MEMORIES_ONLY)
    known = [base.id for base in discovery.bases]
    near = nearest(name, known)
    meant = [f"{near}@{ref.partition('@')[2]}"] if near else []
    meant += [f"{home.id}@{ref} for a file of that name"] if home else []
    raise BaseNotFound(name, known, discovery.problem_of(name), f"Did you mean {', or '.join(meant)}?" if meant else "")


def _typed(hub: Hub, text: str, ref: str) -> Place | None:
    """Find the document that a path from the shell's working directory leads to."""
    for base, path in typed_into(hub.options.typed_in, text, hub.discovery().bases):
        if path and (found := _opened(hub, base, path_forms(path), ref)):
            return found
    return None


def _opened(hub: Hub, base: Base, candidates: list[str], ref: str) -> Place | None:
    """Give the first document that is there; raise `DocumentNotFound` if it is left out of its base."""
    for candidate in candidates:
        try:
            open_contained(base, candidate).close()
        except (OSError, ValueError):
            continue
        if reason := excluded_by(base, candidate):
            raise DocumentNotFound(ref, reason)
        return _place(hub, base, candidate)
    return None


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
