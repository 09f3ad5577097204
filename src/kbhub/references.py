"""The language of refs: what a ref asks for, how one string names several documents, and how kbhub writes one."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

from kbhub.errors import UsageError
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kbhub.index import Index
    from kbhub.types import Base, Discovery

MOST_REFS = 256
"""Refs that braces may stand for: nobody names more one by one, and a few braces in a row would make millions."""

DOCID_DIGITS = 6
"""Hex digits of a docid that are shown, unless two documents share them."""

MAX_DIGITS = 18
"""Digits of a line number that are looked at; no file has more lines, and Python refuses to read very long numbers."""

LONGEST_REF = 8_192
"""Characters of a ref: the longest path that a system takes has 4,096, and a heading may follow."""

_RANGE = re.compile(
    r"^(?P<target>.+?):(?P<start>\d+)(?:\+(?P<offset>\d+))?(?:(?P<kind>[:-])(?P<other>\d+))?$", re.DOTALL
)
_BASE_ID = re.compile(r"[^\s/@]+")
_WILD = re.compile(r"[*?]|\[[^\]/]+\]")
_CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")


@struct
class Reference:
    """What a ref asks for: a document, and maybe a part of it."""

    target: str
    """Path, `id@path`, title, alias, pattern or `#docid`."""
    start: int | None = None
    """First line, from 1; see `names_lines`."""
    count: int | None = None
    """Lines."""
    heading: str | None = None
    """Heading, or `Heading > Heading`."""
    offset: int = 0
    """Characters of the first line to leave out."""

    def names_lines(self) -> bool:
        """Whether its lines are such as a document can have; a ref may say 0, or end before it begins."""
        return (self.start is None or self.start > 0) and (self.count is None or self.count > 0)


def parse_reference(text: str) -> list[Reference]:
    """Give what a ref can mean, likeliest first; a file name may itself hold `:`, `#` or `@`.

    Args:
        text: `path`, `path:from`, `path:from:count`, `path:from-to`, `path:from+characters`, `path#Heading`,
            `path::Heading > Heading`, each with `id@` before it, or a title, an alias, a pattern or `#docid` for the
            path.
    """
    # A file name may begin or end with a blank; who types a ref means none.
    return list(dict.fromkeys(meaning for form in (text, text.strip()) for meaning in _meanings(form)))


def _meanings(text: str) -> list[Reference]:
    meanings = [Reference(text)]
    if part := _RANGE.match(text):
        start, other = _number(part["start"]), _number(part["other"]) if part["other"] else None
        if other is not None and part["kind"] == "-":
            other += 1 - start
        meanings.append(Reference(part["target"], start, other, offset=_number(part["offset"] or "0")))
    target, found, heading = text.partition("::")
    if found and heading.strip():
        meanings.append(Reference(target, heading=heading.strip()))
    at = text.find("#", 1)  # a docid starts with one
    if at > 0 and text[at + 1 :].strip():
        meanings.append(Reference(text[:at], heading=text[at + 1 :].strip()))
    return meanings


def check_length(ref: str) -> None:
    """Refuse a ref that is no ref: looking for it would cost time with its length.

    Raises:
        UsageError: it is longer than any path with a heading.
    """
    if len(ref) > LONGEST_REF:
        raise UsageError(
            f"A ref has at most {LONGEST_REF:,} characters; this one has {len(ref):,}. `search` finds refs."
        )


def split_refs(text: str) -> list[str]:
    """Split a string at its commas, except those between braces.

    Args:
        text: any string.
    """
    parts, start, depth = [], 0, 0
    for at, mark in enumerate(text):
        if mark == "{":
            depth += 1
        elif mark == "}":
            depth = max(0, depth - 1)
        elif mark == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    # A brace that nothing closes is a letter like any other.
    parts = text.split(",") if depth else [*parts, text[start:]]
    return [part.strip() for part in parts if part.strip()]


def expand_braces(text: str) -> list[str]:
    """Write out the choices of a ref: `{a,b}.md` is `a.md` and `b.md`; one without choices stands for itself.

    Args:
        text: a ref; braces may be inside braces.

    Raises:
        UsageError: it stands for more than `MOST_REFS`.
    """
    done: list[str] = []
    left = [text]
    while left:
        parts = _CHOICE.split(left.pop())
        if len(parts) == 1:
            done.append(parts[0])
            continue
        # Even places are outside of braces, odd ones inside.
        choices = [part.split(",") if place % 2 else [part] for place, part in enumerate(parts)]
        if _size(choices) + len(left) + len(done) > MOST_REFS:
            raise UsageError(f"{text[:60]!r} stands for more than {MOST_REFS} refs. Ask for fewer at a time.")
        left += reversed(["".join(one) for one in product(*choices)])
    return list(dict.fromkeys(done))


def is_pattern(target: str) -> bool:
    """Say whether a target can stand for several documents: it holds `*`, `?` or `[…]`."""
    return _WILD.search(target) is not None


def _size(choices: list[list[str]]) -> int:
    size = 1
    for one in choices:
        size *= len(one)
    return size


def _number(digits: str) -> int:
    return int(digits[:MAX_DIGITS])


def short_docid(docid: str, indexes: Sequence[Index]) -> str:
    """Give the shortest form of a docid, from `DOCID_DIGITS` on, that no other document of the bases shares."""
    for digits in range(DOCID_DIGITS, len(docid)):
        if sum(len(index.documents_by_docid(docid[:digits])) for index in indexes) <= 1:
            return f"#{docid[:digits]}"
    return f"#{docid}"


def short_docids(docids: Collection[str], indexes: Sequence[Index]) -> dict[str, str]:
    """Give the shortest forms of docids, as `short_docid` does of one."""
    prefixes = {docid[:DOCID_DIGITS] for docid in docids}
    counts: Counter[str] = Counter()
    for index in indexes:
        counts.update(index.docid_counts(prefixes))
    return {
        docid: f"#{docid[:DOCID_DIGITS]}" if counts[docid[:DOCID_DIGITS]] <= 1 else short_docid(docid, indexes)
        for docid in docids
    }


def named_base(ref: str, bases: Iterable[Base]) -> Base | None:
    """Give the base whose id or name a ref begins with; none if that is no base's."""
    name, mark, _ = ref.partition("@")
    return next((base for base in bases if name in (base.id, *base.names)), None) if mark else None


def below_base(ref: str, bases: Iterable[Base]) -> tuple[Base, str] | None:
    """Give the base that a ref names as a folder, as `ls` takes it, and what stands behind; none if it names none."""
    name, _, path = ref.partition("/")
    base = next((base for base in bases if name in (base.id, *base.names)), None)
    return (base, path) if base and path else None


def unknown_base(ref: str, bases: Iterable[Base]) -> str | None:
    """Give what a ref has before its `@` if it may be the id of a base and is none of these."""
    name, mark, _ = ref.partition("@")
    return name if mark and _BASE_ID.fullmatch(name) and named_base(ref, bases) is None else None


def why_no_base(ref: str, discovery: Discovery) -> str:
    """Say why a ref leads into no active base, without the full stop; empty if it does, or names none.

    Args:
        ref: any string.
        discovery: what is active.
    """
    name = unknown_base(ref, discovery.bases)
    if name is None:
        return ""
    active = f" (active: {', '.join(base.id for base in discovery.bases)})"
    problem = discovery.problem_of(name).removesuffix(".")
    return f"no base {name!r} is active{f': {problem}' if problem else active}"


def ref_of(base: Base, path: str, bases: Iterable[Base]) -> str:
    """Give the ref of a document: its path in the project base, `id@path` in another.

    Args:
        base: its base.
        path: its path in there; one that would be taken for a document of another base is told with its own.
        bases: all that a ref may name.
    """
    plain = base.id == "project" and named_base(path, bases) is None
    return path if plain else f"{base.id}@{path}"
