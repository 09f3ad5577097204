"""What a memory is about: documents, their sections, files of the project, and definitions in them (`file::symbol`).

A hash of each is kept with the memory, so that a later look can say that its subject changed or is gone. Code is read
as lines: a definition is the line that names it and what is indented below it, in any language.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from kbhub.errors import KbhubError, UsageError
from kbhub.markdown import parse_document
from kbhub.memory.documents import MAX_SUBJECTS
from kbhub.memory.identity import identify
from kbhub.memory.known import all_known, ref
from kbhub.memory.models import ChangedSubject
from kbhub.sections import section
from kbhub.types import Base
from kbhub.walk import open_contained

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbhub.hub import Hub
    from kbhub.types import Document

HASH_DIGITS = 16
"""Hex digits of a subject's hash: it is compared with one other, not looked up among many."""

MAX_SUBJECT_CHARACTERS = 1000
"""Characters of a subject's name; paths are no longer on most systems."""

_BEFORE = r"(?:^|[\s*&(:.])"
_AFTER = r"\s*(?:[(<\[:={]|$|\s)"
_COMMENT = re.compile(r"\s*(?:#(?!\[)|//|/\*|\*|--|;)")
_DEFINES = re.compile(
    r"\b(?:async|class|const|def|enum|export|fn|fun|func|function|impl|interface|let|macro_rules!|mod|module|namespace|"
    r"object|package|private|protected|protocol|pub|public|record|static|struct|sub|trait|type|union|val|var|void)\b"
)
_CLOSES = re.compile(r"\s*(?:[\])}]+[;,]?|end\b.*)\s*$")


def hashes_of(hub: Hub, subjects: Iterable[str]) -> dict[str, str]:
    """Give a hash of each subject as it is now.

    Args:
        hub: says where documents and code are.
        subjects: each `path.md`, `id@path.md`, either with `#Heading`, or `file` or `file::symbol` of the project.

    Raises:
        UsageError: there is none of this name, or there are too many.
    """
    wanted = list(dict.fromkeys(subject.strip() for subject in subjects))
    if len(wanted) > MAX_SUBJECTS:
        raise UsageError(f"{len(wanted)} subjects are too many; a memory is about {MAX_SUBJECTS} at most.")
    found = {}
    for subject in wanted:
        text = subject_text(hub, subject)
        if text is None:
            raise UsageError(
                f"There is no {subject!r} to be about. Name a document (`path.md`, `id@path.md`, with `#Heading`), a "
                "file of the project, or `file::symbol`."
            )
        found[subject] = _hash(text)
    return found


def subjects_changed(hub: Hub) -> tuple[ChangedSubject, ...]:
    """Give the memories whose subject is no longer what it was when they were last written, by ref.

    Those of the user's that were learned in another project are about that one and are left out.
    """
    identity = identify(hub.discovery().workspace)
    here = identity.text if identity else ""
    found = []
    for one in all_known(hub):
        if one.shelf.scope == "user" and one.facts.project != here:
            continue
        for subject in one.facts.about:
            text = subject_text(hub, subject)
            was = (one.facts.about_hash or {}).get(subject)
            if text is not None and (was is None or was == _hash(text)):
                continue
            found.append(
                ChangedSubject(
                    id=one.facts.id,
                    ref=ref(hub, one),
                    title=one.title,
                    subject=subject,
                    state="vanished" if text is None else "changed",
                )
            )
    return tuple(sorted(found, key=lambda change: (change.ref, change.subject)))


def subject_text(hub: Hub, subject: str) -> str | None:
    """Give the text that a subject stands for now; none if there is no such thing."""
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
    """Give the lines that define a symbol; none if nothing does.

    Args:
        code: text of a file.
        symbol: a name, or names with `.` or `::` between them, each within the one before.
    """
    lines = code.split("\n")
    names = [name for name in re.split(r"\.|::", symbol) if name.strip("() ")]
    for name in names:
        found = _block(lines, name.strip("() "))
        if found is None:
            return None
        lines = found
    return "\n".join(lines) if names else None


def _block(lines: list[str], name: str) -> list[str] | None:
    named = re.compile(f"{_BEFORE}{re.escape(name)}{_AFTER}")
    candidates = [number for number, line in enumerate(lines) if named.search(line) and not _COMMENT.match(line)]
    if not candidates:
        return None
    # A line with a word that defines things comes before one that only names it at the outermost level.
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
    """Give the text of a document of an active base, or of one of its sections."""
    name, mark, path = target.partition("@")
    bases = hub.discovery().bases
    chosen = [base for base in bases if mark and name in (base.id, *base.names)]
    wanted = path if chosen else target
    for base in chosen or [base for base in bases if base.id == "project"]:
        data = _bytes(hub, base, wanted)
        if data is None:
            continue
        document = parse_document(wanted, data)
        return _part(document, heading) if heading else "\n".join(document.lines)
    return None


def _part(document: Document, heading: str) -> str | None:
    lines = section(document, heading)
    return "\n".join(document.lines[lines[0] - 1 : lines[1]]) if lines else None


def _code(hub: Hub, path: str) -> str | None:
    """Give the text of a file of the project, which need not be in a base; never of one outside of it."""
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
    """Hash what a text says: white space at the end of lines and around it does not count."""
    plain = "\n".join(line.rstrip() for line in text.strip().split("\n"))
    return hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:HASH_DIGITS]
