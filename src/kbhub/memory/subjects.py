"""What a memory is about: documents, their sections, files of the project, and definitions in them (`file::symbol`).

A hash of each is stored with the memory, to detect later that its subject changed or vanished. Code is read as lines: a
definition is the line that names it and the more indented lines below it, in any language.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from kbhub.documents.markdown import parse_document, section
from kbhub.documents.walk import open_contained
from kbhub.errors import KbhubError, UsageError
from kbhub.memory.catalog import all_known, ref
from kbhub.memory.documents import MAX_SUBJECTS
from kbhub.memory.results import ChangedSubject
from kbhub.types import Base
from kbhub.workspace.memory_folders import identify

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbhub.hub import Hub

HASH_DIGITS = 16
"""Hex digits of a subject's hash; it is only compared with one other."""

MAX_SUBJECT_CHARACTERS = 1000
"""Limit of a subject's name; few systems allow longer paths."""

_BEFORE = r"(?:^|[\s*&(:.])"
_AFTER = r"\s*(?:[(<\[:={]|$|\s)"
_COMMENT = re.compile(r"\s*(?:#(?!\[)|//|/\*|\*|--|;)")
_DEFINES = re.compile(
    r"\b(?:async|class|const|def|enum|export|fn|fun|func|function|impl|interface|let|macro_rules!|mod|module|namespace|"
    r"object|package|private|protected|protocol|pub|public|record|static|struct|sub|trait|type|union|val|var|void)\b"
)
_CLOSES = re.compile(r"\s*(?:[\])}]+[;,]?|end\b.*)\s*$")


def hashes_of(hub: Hub, subjects: Iterable[str]) -> dict[str, str]:
    """Return the current hash of each subject; raise `UsageError` if one does not exist, or there are too many.

    A subject is `path.md` or `id@path.md`, either with `#Heading`, or `file` or `file::symbol` of the project.
    """
    names = list(dict.fromkeys(subject.strip() for subject in subjects))
    if len(names) > MAX_SUBJECTS:
        raise UsageError(f"{len(names)} subjects are too many; a memory can have at most {MAX_SUBJECTS}.")
    hashes = {}
    for subject in names:
        text = subject_text(hub, subject)
        if text is None:
            raise UsageError(
                f"No {subject!r} found for `about`. Name a document (`path.md`, `id@path.md`, with `#Heading`), a "
                "file of the project, or `file::symbol`."
            )
        hashes[subject] = _hash(text)
    return hashes


def subjects_changed(hub: Hub) -> tuple[ChangedSubject, ...]:
    """Return the memories whose subject changed since they were last written, by ref.

    User memories from another project are about that project and are left out.
    """
    identity = identify(hub.discovery().workspace)
    project = identity.text if identity else ""
    changes = []
    for memory in all_known(hub):
        if memory.shelf.scope == "user" and memory.facts.project != project:
            continue
        for subject in memory.facts.about:
            text = subject_text(hub, subject)
            old_hash = (memory.facts.about_hash or {}).get(subject)
            if text is not None and (old_hash is None or old_hash == _hash(text)):
                continue
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
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    return lines[start:end]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _document(hub: Hub, target: str, heading: str) -> str | None:
    """Return the text of a document of an active base, or of one of its sections."""
    name, mark, path = target.partition("@")
    bases = hub.discovery().bases
    chosen = [base for base in bases if mark and name in (base.id, *base.names)]
    path = path if chosen else target
    for base in chosen or [base for base in bases if base.id == "project"]:
        data = _bytes(hub, base, path)
        if data is None:
            continue
        document = parse_document(path, data)
        if not heading:
            return "\n".join(document.lines)
        lines = section(document, heading)
        return "\n".join(document.lines[lines[0] - 1 : lines[1]]) if lines else None
    return None


def _code(hub: Hub, path: str) -> str | None:
    """Return the text of a file of the project, which need not be in a base; never one outside the project."""
    workspace = hub.discovery().workspace
    folder = workspace.git_root or workspace.directory
    if folder is None:
        return None
    data = _bytes(hub, Base(id="workspace", path=folder, origin="argument"), path.removeprefix("./"))
    return None if data is None else data.decode("utf-8", "replace").replace("\r\n", "\n")


def _bytes(hub: Hub, base: Base, path: str) -> bytes | None:
    limit = hub.config().settings.limits.file_bytes
    try:
        with open_contained(base, path) as file:
            data = file.read(limit + 1)
    except (OSError, KbhubError):
        return None
    return data if len(data) <= limit else None


def _hash(text: str) -> str:
    """Hash a text, ignoring trailing white space of lines and around the text."""
    plain = "\n".join(line.rstrip() for line in text.strip().split("\n"))
    return hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:HASH_DIGITS]
