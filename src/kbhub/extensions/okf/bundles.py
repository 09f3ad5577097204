"""What makes a base a bundle, the reserved files in it, which are about no subject, and the sources of its pages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from operator import attrgetter
from pathlib import PurePosixPath
from typing import Any

from kbhub.documents.walk import open_contained
from kbhub.errors import KbhubError
from kbhub.index.catalogue import values_of
from kbhub.index.engine import Index
from kbhub.search.plan import Candidate, OpenBases, Plan, RankingSignal
from kbhub.types import Base

INDEX, LOG = "index.md", "log.md"
RESERVED = (INDEX, LOG)
"""Files that list and record pages, in any folder."""

SOURCES, SOURCES_KEY = "sources/", "sources.resource"
"""Folder with copies of what pages were made from, and the front matter key that names them."""

VERSION_KEY = "okf_version"
"""The key in the front matter of the uppermost `INDEX` that makes a base a bundle."""

RESERVED_FACTOR = 0.2
"""Factor on a list or record of pages, which has the words of every page and answers nothing."""

_LOOKED_AT = 50
"""Hits among which they are set back."""

_HEAD_BYTES = 65_536
"""Bytes of an index that are read to see whether it declares the format."""


def is_reserved(path: str) -> bool:
    """Return whether a path is that of a list or record of pages."""
    return path.rpartition("/")[2] in RESERVED


def is_bundle(index: Index) -> bool:
    """Return whether an index is that of a bundle."""
    return bool(index.remembered("bundle", partial(values_of, index, [INDEX], VERSION_KEY)))


def declared(base: Base) -> bool:
    """Return whether the files of a base say that it is a bundle."""
    with suppress(OSError, KbhubError), open_contained(base, INDEX) as file:
        head = file.read(_HEAD_BYTES).decode("utf-8-sig", "replace")
        # Not parsed: a search does without YAML.
        front, closed, _ = head.removeprefix("---").partition("\n---")
        return head.startswith("---") and bool(closed) and f"\n{VERSION_KEY}:" in front.replace("\r", "\n")
    return False


def hash_of(base: Base, path: str) -> str:
    """Return the hash of a file (SHA-256), or "" without one that can be read."""
    with suppress(OSError, KbhubError, ValueError), open_contained(base, path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    return ""


def sources_of(values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the sources in front matter that name something."""
    given = values.get("sources")
    entries = given if isinstance(given, list) else [given]
    listed = [{"resource": one} if isinstance(one, str) else one for one in entries]
    return [one for one in listed if isinstance(one, Mapping) and isinstance(one.get("resource"), str)]


def path_in(base: Base, source: Mapping[str, Any]) -> str:
    """Return the path in a base that a source has, if it is there."""
    return str(source["resource"]).removeprefix(f"{base.id}@").lstrip("/")


def id_of(path: str) -> str:
    """Return the id of a kept source, by which footnotes cite it."""
    name = str(PurePosixPath(path.removeprefix(SOURCES)).with_suffix(""))
    return re.sub(r"[\W_]+", "-", name).strip("-").lower() or "source"


def _add(plan: Plan, bases: OpenBases, hits: list[Candidate]) -> None:
    best = hits[:_LOOKED_AT] if plan.asks_for("reserved") else []
    documents = bases.documents(map(attrgetter("document_key"), best))
    for hit in best:
        if is_reserved(documents[hit.document_key].path) and is_bundle(bases.indexes[hit.key[0]]):
            hit.multiply("reserved", RESERVED_FACTOR)


SIGNAL = RankingSignal(("reserved",), _add)
