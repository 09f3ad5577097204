"""Parse the front matter of a memory."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kbhub.search.strength import Source


@struct
class Facts:
    """The front matter of a memory."""

    id: str
    """Its own id, else the file name without extension."""
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
    """What it was learned or imported from, in words."""
    about: tuple[str, ...] = ()
    about_hash: Mapping[str, str] | None = None
    refers: str = ""
    supersedes: tuple[str, ...] = ()
    superseded_by: tuple[str, ...] = ()


def facts_of(name: str, values: Mapping[str, Any], tags: Iterable[str]) -> Facts:
    """Read a memory's front matter; an invalid value counts as missing.

    Args:
        name: the file name.
        values: the front matter, JSON-safe.
        tags: the parsed tags.
    """
    # Keys are matched case-insensitively when they are changed, so also here.
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
    """Format a time as in front matter: ISO 8601, UTC, whole seconds."""
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
        datetime.fromtimestamp(seconds, UTC)  # the last days of the calendar may not exist in UTC
        return seconds
    except (TypeError, ValueError, OverflowError, OSError):
        return None
