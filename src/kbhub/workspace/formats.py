"""The formats of files: which kind of document a file is, by its base and its name."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbhub.types import Base, Kind

MARKDOWN_SUFFIX = ".md"
"""Of the documents that kbhub writes."""

MARKDOWN_SUFFIXES = (MARKDOWN_SUFFIX, ".markdown", ".mdx")
"""Lower-case ends of the names of Markdown files."""

PDF_SUFFIX = ".pdf"
"""Lower-case suffix of PDF files."""

TEXT_SUFFIXES = (
    ".txt", ".text", ".rst", ".org", ".adoc", ".asciidoc", ".textile", ".mediawiki", ".wiki", ".tex", ".html", ".htm",
)  # fmt: skip
"""Lower-case suffixes of files that are read as plain text if `include` matches them."""

OTHER_SUFFIXES = (".ipynb", ".docx", ".doc", ".odt", ".rtf", ".pptx", ".ppt", ".odp", ".epub")
"""Lower-case suffixes of documents that kbhub cannot read."""

LOG_SUFFIX = ".jsonl"
"""Lower-case suffix of a session log with one JSON object per line."""

RECORD_PREFIX, RECORD_SUFFIX = "session-", ".json"
"""Name pattern of a session in one JSON document (Gemini CLI before 0.39); other JSON files there are settings."""

TAKEN_SUFFIXES = (*MARKDOWN_SUFFIXES, PDF_SUFFIX)
"""Lower-case ends of the names of files that a base of documents takes unasked."""

SKIPPED_FOLDERS = ("node_modules",)
"""Folders of other people's documents, left out as hidden ones are."""

IGNORE_NAMES = (".gitignore", ".kbhubignore")
"""Ignore files of a folder; the later one has the last word."""

LIMIT_NAMES: dict[Kind, str] = {"pdf": "limits.pdfBytes", "session": "limits.sessionBytes"}
"""Kind → the setting with its size limit; other kinds have `limits.fileBytes`."""


def kind_of(base: Base, path: str) -> Kind:
    """Return the kind of a file.

    Args:
        base: its base.
        path: relative to the base, with `/`.
    """
    if base.kind == "session":
        return "session" if is_session(path.rpartition("/")[2].lower()) else "document"
    return "pdf" if path[-len(PDF_SUFFIX) :].lower() == PDF_SUFFIX else base.kind


_PASSED_OVER = frozenset((*TEXT_SUFFIXES, *OTHER_SUFFIXES, PDF_SUFFIX))


def passed_over(name: str) -> str | None:
    """Return the suffix of a file if it holds text other than Markdown, else None.

    Args:
        name: the file name, in lower case.
    """
    suffix = name[name.rfind(".") :]
    return suffix if suffix in _PASSED_OVER else None


def remedy_of(suffix: str) -> str:
    """Return what would include files with an ending that `passed_over` returned."""
    if suffix == PDF_SUFFIX:
        return "install `kbhub[pdf]`"
    return "`include` takes them in as plain text" if suffix in TEXT_SUFFIXES else "convert them to Markdown"


def is_markdown(path: str) -> bool:
    """Return whether a file is Markdown, by its name."""
    return path.lower().endswith(MARKDOWN_SUFFIXES)


def markdown_paths(path: str) -> tuple[str, ...]:
    """Return the paths that a path may stand for: itself, and with each ending of a Markdown file."""
    return (path, *(path + suffix for suffix in MARKDOWN_SUFFIXES))


def may_be_taken(base: Base, suffix: str) -> bool:
    """Return whether a base takes files with an ending, in lower case, unasked."""
    return suffix in ((LOG_SUFFIX, RECORD_SUFFIX) if base.kind == "session" else TAKEN_SUFFIXES)


def is_session(name: str) -> bool:
    """Return whether a file name is that of a session log.

    Args:
        name: in lower case.
    """
    return name.endswith(LOG_SUFFIX) or (name.startswith(RECORD_PREFIX) and name.endswith(RECORD_SUFFIX))


@cache
def can_read_pdf() -> bool:
    """Return whether the extra `kbhub[pdf]` is installed."""
    return find_spec("pypdf") is not None


def byte_limit(kind: Kind, max_bytes: int, kind_bytes: Mapping[Kind, int]) -> int:
    """Return the size limit of files of a kind.

    Args:
        kind: the kind.
        max_bytes: limit of a document.
        kind_bytes: limits of kinds with their own.
    """
    return kind_bytes.get(kind, max_bytes)


def is_text(name: str) -> bool:
    """Whether a name is valid Unicode, as it is for a name on disk that is valid UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
