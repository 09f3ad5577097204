"""A memory as a Markdown file: front matter with its provenance (`schemas/memory.schema.json`), then the text."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from kbhub.documents.edits import front_matter_of, lines_of, text_of, with_values
from kbhub.documents.frontmatter import read_front_matter
from kbhub.documents.markdown import decode
from kbhub.errors import UsageError, WriteRefused
from kbhub.search.memory_boost import Source, facts_of
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kbhub.search.memory_boost import Facts


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
"""Limit of a title derived from a memory's first line."""

_TAG = re.compile(r"\w[\w./+-]*")

_SEGMENT = re.compile(r"\w[\w.-]*")

_BINARY = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff]")

_NO_WORD = re.compile(r"[^\w]+")


class MemoryFrontMatter(BaseModel):
    """Front matter of a memory; every key may be missing, and others are left alone."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        title="Memory front matter",
        json_schema_extra={
            "examples": [
                {
                    "id": "k7f3a9c2",
                    "title": "Releases need the VPN",
                    "created": "2026-03-02T09:15:00+00:00",
                    "updated": "2026-03-02T09:15:00+00:00",
                    "by": "user",
                    "source": "user",
                    "tags": ["deploy"],
                    "about": ["runbooks/deploy.md", "scripts/release.py::upload"],
                },
                {},
            ]
        },
    )

    id: str = Field("", description="Id; defaults to the file name without suffix.")
    title: str = Field("", description="Title; defaults to the first heading or the file name.")
    created: str = Field("", description="When it was written: ISO 8601, UTC by default.")
    updated: str = Field("", description="When it was last changed or confirmed, like `created`.")
    by: str = Field("", description="Who wrote it: name of the MCP client, or `user`.")
    source: Source = Field("agent", description="Where it comes from: `user`, `agent`, or `promoted` from others.")
    project: str = Field("", description="Project it was written in, as kbhub identifies projects.")
    commit: str = Field("", description="Commit of the project at that time.")
    from_: str = Field("", alias="from", description="What it was learned or imported from, as text.")
    session: str = Field("", description="Id of the session it was learned in.")
    tags: str | list[str] = Field([], description="Tags to find it by.")
    namespace: str = Field("", description="Namespace: names separated by `/`, such as `ops/deploy`.")
    about: str | list[str] = Field(
        [], description="What it is about: documents (`path.md`, `id@path.md`) and code (`file`, `file::symbol`)."
    )
    about_hash: dict[str, str] = Field({}, description="Subject → its hash at the time of writing, to detect changes.")
    memory_tool: str = Field("", description="File name in Claude's memory tool, if it has one there.")
    refers: str = Field("", description="Ref of the document it was promoted from.")
    supersedes: str | list[str] = Field([], description="Ids of older memories it replaces.")
    superseded_by: str | list[str] = Field([], description="Ids of memories that replace it; it ranks lower then.")


FIELDS = tuple(field.alias or name for name, field in MemoryFrontMatter.model_fields.items())
"""Front matter keys that kbhub writes, in order."""


@struct
class MemoryText:
    """The parsed text of a memory's file."""

    data: bytes
    """The file's bytes; if longer than `MAX_FILE_BYTES`, only the beginning."""
    body: str
    """The remembered text."""
    facts: Facts
    values: Mapping[str, Any]
    """The front matter, JSON-safe."""
    title: str
    problem: str | None
    """Why the front matter could not be parsed, or None."""


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
    kept = dict.fromkeys(tag.strip().removeprefix("#") for tag in tags)
    for tag in kept:
        if not _TAG.fullmatch(tag) or len(tag) > MAX_TAG_CHARACTERS:
            raise UsageError(
                f"{tag!r} is not a valid tag: use letters, digits and `_ - . / +`, at most {MAX_TAG_CHARACTERS} "
                "characters."
            )
    if len(kept) > MAX_TAGS:
        raise UsageError(f"{len(kept)} tags are too many; the maximum is {MAX_TAGS}.")
    return tuple(kept)


def checked_namespace(namespace: str) -> str:
    """Return a normalised namespace, `a/b`, case-folded for comparison.

    Raises `UsageError` unless it consists of segments of letters, digits and `_ - .`, separated by `/`.
    """
    name = unicodedata.normalize("NFKC", namespace).strip().strip("/").casefold()
    if len(name) > MAX_NAMESPACE_CHARACTERS or not all(map(_SEGMENT.fullmatch, name.split("/"))):
        raise UsageError(f"{namespace!r} is not a valid namespace: use names separated by `/`, such as `ops/deploy`.")
    return name


def in_namespace(namespace: str, wanted: str) -> bool:
    """Return whether a namespace equals the wanted one or lies below it, by whole segments."""
    return namespace == wanted or namespace.startswith(f"{wanted}/")


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
    keys = [*(key for key in FIELDS if key in fields), *(key for key in fields if key not in FIELDS)]
    front = ""
    for key in keys:
        value = list(fields[key]) if isinstance(fields[key], tuple) else fields[key]
        if not _is_empty(value):
            front += yaml.safe_dump({key: value}, allow_unicode=True, sort_keys=False, width=10_000)
    return f"---\n{front}---\n\n{body}\n"


def parse_memory(name: str, data: bytes) -> MemoryText:
    """Parse a memory's file; the id comes from its name if the front matter has none.

    `data` is the whole file, or slightly more than `MAX_FILE_BYTES` of a longer one.
    """
    text = decode(data)[0].replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    front = read_front_matter(lines)
    return MemoryText(
        data=data,
        body="\n".join(lines[front.body :]).strip(),
        facts=facts_of(name, front.values, front.tags),
        values=front.values,
        title=front.title,
        problem=front.problem,
    )


def changed_file(ref: str, memory: MemoryText, fields: Mapping[str, Any], body: str | None = None) -> bytes:
    """Return a memory's file with some fields and the text replaced, and everything else untouched.

    An empty value removes its key; a body of None keeps the text. Raises `WriteRefused` if the file is too long or not
    text, or its front matter cannot be parsed or edited in isolation.
    """
    if len(memory.data) > MAX_FILE_BYTES:
        raise WriteRefused(
            ref, f"its file is larger than {MAX_FILE_BYTES:,} bytes, and the rest would be lost; shorten it by hand"
        )
    values = {key: None if _is_empty(value) else value for key, value in fields.items()}
    text = with_values(ref, text_of(ref, memory.data), values)
    if body is not None:
        start = front_matter_of(text).body
        text = text.replaced(start, len(text.lines), lines_of(f"\n{body}\n".replace("\n", text.newline)))
    return text.encoded()


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", (), [], {})
