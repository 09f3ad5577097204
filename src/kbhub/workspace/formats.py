"""The formats of files, by base and name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Any

from kbhub.types import Base, Document, Kind
from kbhub.workspace.extensions import Format, extensions, load

MARKDOWN_SUFFIX = ".md"
"""Of the documents that kbhub writes."""

MARKDOWN_SUFFIXES = (MARKDOWN_SUFFIX, ".markdown", ".mdx")

FORMATS = (
    Format(MARKDOWN_SUFFIXES, "Markdown"),
    # Mostly data, or generated.
    Format((".txt", ".text", ".textile", ".mediawiki", ".wiki", ".tex"), "plain text", unasked=False),
    *(row for extension in extensions() for row in extension.formats),
)

OTHER_SUFFIXES = (
    ".doc", ".rtf", ".ppt", ".xls", ".odp", ".ods", ".fodt", ".pages", ".key", ".numbers", ".msg", ".mobi", ".djvu",
)  # fmt: skip

LOG_SUFFIX = ".jsonl"
"""Lower-case suffix of a session log with one JSON object per line."""

RECORD_PREFIX, RECORD_SUFFIX = "session-", ".json"
"""Name pattern of a session in one JSON document (Gemini CLI before 0.39); other JSON files there are settings."""

_BY_SUFFIX = {suffix: row for row in FORMATS for suffix in row.suffixes}
_BY_KIND = {row.kind: row for row in FORMATS if row.kind}

MARKUP_SUFFIXES = tuple(suffix for suffix, row in _BY_SUFFIX.items() if row.markdown)
"""Of text that is shown as Markdown."""

SITE_SUFFIXES = (*MARKDOWN_SUFFIXES, *MARKUP_SUFFIXES)
"""Of the formats that documentation sites are made of."""

CONVERTED_KINDS: tuple[Kind, ...] = (*_BY_KIND, "session")
"""Kinds whose text is made from their files: other lines, and nothing to write into."""

KINDS_OF_PARTS: tuple[Kind, ...] = (*(kind for kind, row in _BY_KIND.items() if row.parts), "session")
"""Kinds of documents that consist of pages, slides or turns."""

NATIVE_SUFFIXES = tuple(suffix for suffix, row in _BY_SUFFIX.items() if row.unasked and not row.kind)
"""Lower-case suffixes of the text files that a base of documents takes unasked."""

TAKEN_SUFFIXES = tuple(suffix for suffix, row in _BY_SUFFIX.items() if row.unasked)

FOLDER_PAGES = ("readme", "index", "_index")
"""Documents that represent their folder, case-folded and without extension, by priority."""

SKIPPED_FOLDERS = ("node_modules",)
"""Folders of other people's documents, left out as hidden ones are."""

INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
"""Files of a project that agents read when they start; `setup` creates the first if there is none."""

IGNORE_NAMES = (".gitignore", ".kbhubignore")
"""Ignore files of a folder; the later one has the last word."""

LIMIT_NAMES: dict[Kind, str] = {**{kind: row.limit for kind, row in _BY_KIND.items()}, "session": "limits.sessionBytes"}
"""Kind → the setting with its size limit; other kinds have `limits.fileBytes`."""


def suffix_of(path: str) -> str:
    """Return the suffix of a file in lower case, with its dot; empty if it has none."""
    name = path[path.rfind("/") + 1 :]
    return name[at:].lower() if (at := name.rfind(".")) >= 0 else ""


def format_of(path: str) -> Format | None:
    """Return the format of a file by its name; None if no format has its suffix, and it can only be plain text."""
    return _BY_SUFFIX.get(suffix_of(path))


def converts(path: str) -> bool:
    """Return whether files with this file's suffix are converted."""
    found = format_of(path)
    return found is not None and found.kind is not None


def kind_of(base: Base, path: str) -> Kind:
    """Return the kind of a file, by its path in a base."""
    if base.kind == "session":
        return "session" if is_session(path.rpartition("/")[2].lower()) else "document"
    found = format_of(path)
    return (found.kind if found else None) or base.kind


def is_converted(kind: str) -> bool:
    """Return whether the text of a kind of document is converted from its file; see `Format.kind`."""
    return kind in CONVERTED_KINDS


def name_of(kind: Kind) -> str:
    """Return the name for files of a converted kind."""
    if kind == "other":
        return "files of this format"
    return _BY_KIND[kind].name if kind in _BY_KIND else "logs of sessions"


def reader_of(path: str) -> Callable[[str, bytes], Document]:
    """Import and return what parses a converted file other than a session log, by its name."""
    reader: Callable[[str, bytes], Document] = load(_BY_SUFFIX[suffix_of(path)].reader)
    return reader


def scan_of(path: str) -> Callable[[Sequence[str], int], Any] | None:
    """Import and return what scans a text file, by its name; None for plain text."""
    found = format_of(path)
    return load(found.scan) if found and found.scan else None


def in_markdown(text: str, path: str) -> str:
    """Return text of a file, or a part of it, as Markdown if its format is shown so, each line where it was."""
    found = format_of(path)
    return str(load(found.markdown)(text, path)) if found and found.markdown else text


@cache
def lacks_extra(found: Format) -> bool:
    """Return whether reading a format needs an extra that is not installed."""
    return found.extra is not None and find_spec(found.library) is None


def why_not_taken(path: str) -> str | None:
    """Return why a base of documents does not take a file unless `include` names it, or None if it does."""
    found = format_of(path)
    if found is None or not found.unasked:
        return "files of its kind are only taken if `include` names them"
    if lacks_extra(found):
        return f"reading {found.name} needs the extra `kbhub[{found.extra}]`, which is not installed"
    return None


def why_unreadable(base: Base, path: str) -> str | None:
    """Return why a file cannot be read on this machine, whatever is in it, and what to do; None if it can."""
    found = None if base.kind == "session" else format_of(path)
    if found is None or not lacks_extra(found):
        return None
    remedy = f"install it, or leave {suffix_of(path)} files out of `include`."
    return f"Reading {found.name} needs the extra `kbhub[{found.extra}]`; {remedy}"


def is_lock(name: str) -> bool:
    """Return whether a file name is that of a lock, which Office leaves beside an open document."""
    return name.startswith("~$") and converts(name)


def has_markdown(path: str) -> bool:
    """Return whether the text of a document is Markdown, originally or by conversion, or is shown as such."""
    found = format_of(path)
    return path.lower().endswith(SITE_SUFFIXES) or (found is not None and found.kind is not None and not found.parts)


def passed_over(name: str) -> str | None:
    """Return the suffix of a file if it holds text that a base indexes only if `include` names it, else None."""
    suffix = "" if is_lock(name) else suffix_of(name)
    return suffix if suffix in OTHER_SUFFIXES or (suffix in _BY_SUFFIX and why_not_taken(suffix)) else None


def remedy_of(suffix: str) -> str:
    """Return what would include files with a suffix that `passed_over` returned."""
    found = _BY_SUFFIX.get(suffix)
    if found is None:
        return "convert them to Markdown"
    if found.unasked:
        return f"install `kbhub[{found.extra}]`"
    return "`include` adds them" if found.kind else "`include` adds them as plain text"


def is_native(name: str) -> bool:
    """Return whether a file is text that a base of documents takes unasked: Markdown, reStructuredText and the like."""
    return name.lower().endswith(NATIVE_SUFFIXES)


def is_markdown(path: str) -> bool:
    """Return whether a file is Markdown, by its name."""
    return path.lower().endswith(MARKDOWN_SUFFIXES)


def markdown_paths(path: str) -> tuple[str, ...]:
    """Return the paths that a path may stand for: itself, and with each ending of a Markdown file."""
    return (path, *(path + suffix for suffix in MARKDOWN_SUFFIXES))


def is_session(name: str) -> bool:
    """Return whether a file name, in lower case, is that of a session log."""
    return name.endswith(LOG_SUFFIX) or (name.startswith(RECORD_PREFIX) and name.endswith(RECORD_SUFFIX))


def is_text(name: str) -> bool:
    """Return whether a name is valid Unicode, as names on disk are if they are valid UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def file_title(path: PurePosixPath) -> str:
    """Return a title made from a file's name, or from that of its folder if it is the page of that."""
    stem = path.parent.name if path.stem.casefold() in FOLDER_PAGES and path.parent.name else path.stem
    return " ".join(stem.replace("-", " ").replace("_", " ").split()) or path.name
