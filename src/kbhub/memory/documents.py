"""A memory as the text of a Markdown file: front matter that says where it comes from, then what was remembered."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

import yaml

from kbhub.errors import UsageError, WriteRefused
from kbhub.front_matter_editing import front_matter_of, with_values
from kbhub.frontmatter import read_front_matter
from kbhub.markdown import decode
from kbhub.memory.facts import facts_of
from kbhub.memory.front_matter import MemoryFrontMatter
from kbhub.text_editing import lines_of, text_of
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kbhub.memory.facts import Facts

MAX_TEXT_BYTES = 100_000
"""Bytes of a memory's text: issue "Memories"."""

MAX_FILE_BYTES = MAX_TEXT_BYTES + 65_536
"""Bytes of its file: the longest front matter that is read comes on top."""

MAX_TAGS, MAX_SUBJECTS = 50, 50
"""Tags of a memory, and subjects that it is about; more name nothing."""

MAX_TAG_CHARACTERS, MAX_NAMESPACE_CHARACTERS = 64, 128

SLUG_CHARACTERS, SLUG_WORDS = 48, 7
"""Length of the readable part of a file's name."""

TITLE_CHARACTERS = 72
"""Length of a title that is made of a memory's first line."""

FIELDS = tuple(field.alias or name for name, field in MemoryFrontMatter.model_fields.items())
"""Keys of the front matter that kbhub writes, in their order."""

_TAG = re.compile(r"\w[\w./+-]*")
_SEGMENT = re.compile(r"\w[\w.-]*")
_BINARY = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff]")
_NO_WORD = re.compile(r"[^\w]+")


@struct
class MemoryText:
    """The text of a memory's file, parsed."""

    data: bytes
    """All of it; of a longer file than `MAX_FILE_BYTES`, its beginning."""
    body: str
    """What was remembered."""
    facts: Facts
    values: Mapping[str, Any]
    """The front matter, JSON-safe."""
    title: str
    problem: str | None
    """Why the front matter cannot be read, if so."""


def checked_text(text: str) -> str:
    """Give a text as it is kept: no white space around it, line ends as line feeds.

    Raises:
        UsageError: it is empty, too long or binary.
    """
    if _BINARY.search(text):
        raise UsageError("The text is binary: it has control characters; remember words, and name the file in `about`.")
    kept = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if not kept:
        raise UsageError("The text is empty; say what to remember.")
    if (size := len(kept.encode())) > MAX_TEXT_BYTES:
        raise UsageError(
            f"The text has {size:,} bytes, and a memory holds {MAX_TEXT_BYTES:,}; write a document, or split it."
        )
    return kept


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Give tags without `#` and doubles, in their order.

    Raises:
        UsageError: one cannot be a tag, or there are too many.
    """
    kept = dict.fromkeys(tag.strip().removeprefix("#") for tag in tags)
    for tag in kept:
        if not _TAG.fullmatch(tag) or len(tag) > MAX_TAG_CHARACTERS:
            raise UsageError(
                f"{tag!r} cannot be a tag: letters, digits and `_ - . / +`, {MAX_TAG_CHARACTERS} characters at most."
            )
    if len(kept) > MAX_TAGS:
        raise UsageError(f"{len(kept)} tags are too many; {MAX_TAGS} at most.")
    return tuple(kept)


def checked_namespace(namespace: str) -> str:
    """Give a namespace as it is compared: `a/b`, case folded.

    Raises:
        UsageError: it is not segments of letters, digits and `_ - .` with `/` between them.
    """
    name = unicodedata.normalize("NFKC", namespace).strip().strip("/").casefold()
    if len(name) > MAX_NAMESPACE_CHARACTERS or not all(map(_SEGMENT.fullmatch, name.split("/"))):
        raise UsageError(
            f"{namespace!r} cannot be a namespace: write names with `/` between them, such as `ops/deploy`."
        )
    return name


def in_namespace(namespace: str, wanted: str) -> bool:
    """Whether a namespace is the wanted one or lies in it, by whole segments."""
    return namespace == wanted or namespace.startswith(f"{wanted}/")


def slug(text: str) -> str:
    """Give the readable part of a file's name: the first words of a text."""
    words = [word for word in _NO_WORD.split(unicodedata.normalize("NFKC", text[:500]).casefold()) if word.strip("_")]
    name = ""
    for word in words[:SLUG_WORDS]:
        if len(name) + len(word) + 1 > SLUG_CHARACTERS:
            break
        name = f"{name}-{word}" if name else word
    # What has no words, or one that is too long, is still to be told from a hidden file and from an option.
    return name or (words[0][:SLUG_CHARACTERS] if words else "memory")


def title_of(text: str) -> str:
    """Give a title for a text: its first line without marks, cut at a word."""
    first = next((line for line in text.split("\n") if line.strip(" #>*-`")), "")
    line = " ".join(first.strip(" #>*-`\t").split())
    if len(line) <= TITLE_CHARACTERS:
        return line.rstrip(".:")
    return f"{line[:TITLE_CHARACTERS].rpartition(' ')[0] or line[:TITLE_CHARACTERS]} …"


def new_file(fields: Mapping[str, Any], body: str) -> str:
    """Give the text of a new memory's file.

    Args:
        fields: front matter; empty values are left out, those of `FIELDS` come first.
        body: what was remembered.
    """
    keys = [*(key for key in FIELDS if key in fields), *(key for key in fields if key not in FIELDS)]
    front = "".join(_entry(key, fields[key]) for key in keys if not _is_empty(fields[key]))
    return f"---\n{front}---\n\n{body}\n"


def parse_memory(name: str, data: bytes) -> MemoryText:
    """Read a memory's file.

    Args:
        name: of the file, for a memory that has no id of its own.
        data: the whole file; of one that is too long, more than `MAX_FILE_BYTES` of it.
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
    """Give a memory's file with some fields and the text changed; everything else stays as somebody wrote it.

    Args:
        ref: the memory, for messages.
        memory: the file as it is.
        fields: key → new value; an empty one takes the key away.
        body: the new text; none keeps the old one.

    Raises:
        WriteRefused: the file is too long or cannot be read as text, or its front matter cannot be read, or not changed
            without touching other keys.
    """
    if len(memory.data) > MAX_FILE_BYTES:
        raise WriteRefused(
            ref, f"its file has more than {MAX_FILE_BYTES:,} bytes, of which the rest would be lost; shorten it by hand"
        )
    values = {key: None if _is_empty(value) else value for key, value in fields.items()}
    text = with_values(ref, text_of(ref, memory.data), values)
    if body is not None:
        start = front_matter_of(text).body
        text = text.replaced(start, len(text.lines), lines_of(f"\n{body}\n".replace("\n", text.newline)))
    return text.encoded()


def _entry(key: str, value: Any) -> str:
    value = list(value) if isinstance(value, tuple) else value
    return yaml.safe_dump({key: value}, allow_unicode=True, sort_keys=False, width=10_000)


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", (), [], {})
