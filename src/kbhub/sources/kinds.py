"""What kind of document a file is, by its base and its name."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbhub.types import Base, Kind

PDF_SUFFIX = ".pdf"
"""Lower-case end of the name of a PDF file."""

TEXT_SUFFIXES = (
    ".txt", ".text", ".rst", ".org", ".adoc", ".asciidoc", ".textile", ".mediawiki", ".wiki", ".tex", ".html", ".htm",
)  # fmt: skip
"""Lower-case ends of the names of files that are read as plain text where `include` names them."""

OTHER_SUFFIXES = (".ipynb", ".docx", ".doc", ".odt", ".rtf", ".pptx", ".ppt", ".odp", ".epub")
"""The same of documents that are not read, whatever `include` says of them."""

LOG_SUFFIX = ".jsonl"
"""Lower-case end of the name of a session log, one JSON object a line."""

RECORD_PREFIX, RECORD_SUFFIX = "session-", ".json"
"""How a session in one JSON document is named (Gemini CLI before 0.39); other JSON beside it is settings."""

LIMIT_NAMES: dict[Kind, str] = {"pdf": "limits.pdfBytes", "session": "limits.sessionBytes"}
"""Kind → the setting that limits its files; the others have `limits.fileBytes`."""


def kind_of(base: Base, path: str) -> Kind:
    """Give the kind of a file.

    Args:
        base: its base.
        path: relative to the base, with `/`.
    """
    if base.kind == "session":
        return "session" if is_session(path.rpartition("/")[2].lower()) else "document"
    return "pdf" if path[-len(PDF_SUFFIX) :].lower() == PDF_SUFFIX else base.kind


_PASSED_OVER = frozenset((*TEXT_SUFFIXES, *OTHER_SUFFIXES, PDF_SUFFIX))


def passed_over(name: str) -> str | None:
    """Give the kind of a file that holds text and is no Markdown, as the end of its name; none for any other.

    Args:
        name: of the file, in lower case.
    """
    suffix = name[name.rfind(".") :]
    return suffix if suffix in _PASSED_OVER else None


def is_session(name: str) -> bool:
    """Whether a file name is that of a session log.

    Args:
        name: in lower case.
    """
    return name.endswith(LOG_SUFFIX) or (name.startswith(RECORD_PREFIX) and name.endswith(RECORD_SUFFIX))


@cache
def can_read_pdf() -> bool:
    """Whether the extra `kbhub[pdf]` is installed."""
    return find_spec("pypdf") is not None


def byte_limit(kind: Kind, max_bytes: int, kind_bytes: Mapping[Kind, int]) -> int:
    """Give the size limit of files of a kind.

    Args:
        kind: the kind.
        max_bytes: limit of a document.
        kind_bytes: limits of kinds that have their own.
    """
    return kind_bytes.get(kind, max_bytes)
