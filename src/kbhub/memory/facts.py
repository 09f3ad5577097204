"""What the front matter of a memory says."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kbhub.memory.strength import Source


@struct
class Facts:
    """What the front matter of a memory says, whoever wrote it."""

    id: str
    """Its own, else the file's name without its ending."""
    tags: tuple[str, ...] = ()
    namespace: str = ""
    created: float | None = None
    """Seconds since the epoch."""
    updated: float | None = None
    """Seconds since the epoch."""
    by: str = ""
    source: Source = "agent"
    project: str = ""
    commit: str = ""
    origin: str = ""
    """From what it was learned or imported, in words."""
    about: tuple[str, ...] = ()
    about_hash: Mapping[str, str] | None = None
    refers: str = ""
    supersedes: tuple[str, ...] = ()
    superseded_by: tuple[str, ...] = ()


def facts_of(name: str, values: Mapping[str, Any], tags: Iterable[str]) -> Facts:
    """Read what front matter says about a memory; a value that makes no sense counts as missing.

    Args:
        name: of the file.
        values: the front matter, JSON-safe.
        tags: as they were parsed.
    """
    # A key is found in any case when it is changed, so it is when it is read.
    values = {**{key.strip().casefold(): value for key, value in values.items()}, **values}
    source = values.get("source")
    hashes = values.get("about_hash")
    return Facts(
        id=_text(values.get("id")) or name.rpartition("/")[2].rpartition(".")[0] or name,
        tags=tuple(tags),
        namespace=unicodedata.normalize("NFKC", _text(values.get("namespace"))).strip("/").casefold(),
        created=_moment(values.get("created")),
        updated=_moment(values.get("updated")),
        by=_text(values.get("by")),
        source=source if source in ("user", "agent", "promoted") else "agent",
        project=_text(values.get("project")),
        commit=_text(values.get("commit")),
        origin=_text(values.get("from")),
        about=_texts(values.get("about")),
        about_hash={str(key): str(value) for key, value in hashes.items()} if isinstance(hashes, dict) else None,
        refers=_text(values.get("refers")),
        supersedes=_texts(values.get("supersedes")),
        superseded_by=_texts(values.get("superseded_by")),
    )


def timestamp(seconds: float) -> str:
    """Write a moment as front matter has it: ISO 8601, UTC, whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _text(value: Any) -> str:
    return " ".join(str(value).split()) if isinstance(value, str | int | float) and value is not True else ""


def _texts(value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(text for text in map(_text, values) if text)


def _moment(value: Any) -> float | None:
    try:
        moment = datetime.fromisoformat(value)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        datetime.fromtimestamp(seconds, UTC)  # the ends of the calendar elsewhere lie past those in UTC
        return seconds
    except (TypeError, ValueError, OverflowError, OSError):
        return None
