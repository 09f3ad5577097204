"""Factors of whole bases and documents: weight, recency, and the strength of a memory by front matter, uses and age."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from kbhub.index.catalogue import memory_rows
from kbhub.index.engine import Key
from kbhub.index.references import REJECTED, age_days
from kbhub.index.side_files import Use, UseCounts
from kbhub.search.plan import Candidate, OpenBases, Plan, RankingSignal, by_base
from kbhub.types import Query
from kbhub.values import DAY_SECONDS, struct
from kbhub.workspace.discovery import memories_folder, place_of

if TYPE_CHECKING:
    from kbhub.hub import Hub


Source = Literal["user", "agent"]
"""Who vouches for a memory."""

FADING_DAYS = 180
"""Days without confirmed use after which a memory has fully faded: issue "Memories"."""
LEAST_DECAY = 0.1
"""Decay of a fully faded memory, which can still be found. Same source."""

CONFIDENCE: Mapping[Source, float] = {"user": 0.7, "agent": 0.5}
"""Confidence in a memory that was never used. Same source."""
PER_DOUBLING, MOST_FROM_USE = 0.1, 0.3
"""Confidence added by each doubling of the uses, and its maximum, reached with seven uses. Same source."""

MISLED, MOST_MISLED = 0.5, 10
"""Factor on the strength each time that a memory misled, and how often at most."""

LEAST_FACTOR = 0.9
"""Factor on the score of a hit of strength 0. In rank fusion with constant 60 it moves the first hit behind the
seventh, and lower ones in proportion: enough to decide between equals, too little to bury a better answer."""

SUPERSEDED_FACTOR = 0.8
"""Additional factor on a superseded or misleading memory: ranks it behind its successor, which answers the same
queries, even if their strengths are at opposite ends."""


USES_NAME = "uses.db"

HALF_LIFE_DAYS = 180.0
"""Age at which the score is halved with a recency weight of 1; the same time in which a memory fades."""


def decay(days: float) -> float:
    """Return the decay after days without a confirmed use, falling linearly from 1 to `LEAST_DECAY`.

    Negative values (another machine's clock) count as 0.
    """
    return max(LEAST_DECAY, 1 - max(0.0, days) / FADING_DAYS)


def confidence(source: Source, uses: int) -> float:
    """Return the confidence in a memory by who vouches for it, and how often it was read, cited or confirmed."""
    return CONFIDENCE[source] + min(MOST_FROM_USE, PER_DOUBLING * math.log2(1 + max(0, uses)))


def strength(source: Source, uses: int, last_use: float, now: float, misleading: int = 0) -> float:
    """Return the strength of a memory, from 0.05 to 1; half of it each time that it misled.

    `last_use` is the time of the last use, or of writing; times are in seconds since the epoch.
    """
    return decay((now - last_use) / DAY_SECONDS) * confidence(source, uses) * MISLED**misleading


def strength_factor(strength: float, *, superseded: bool = False) -> float:
    """Return the factor on a hit's score for a strength: from `LEAST_FACTOR` (less if superseded) to 1."""
    factor = LEAST_FACTOR + (1 - LEAST_FACTOR) * min(1.0, max(0.0, strength))
    return factor * SUPERSEDED_FACTOR if superseded else factor


@struct
class Facts:
    """The front matter of a memory."""

    id: str
    """Its own id, else the file name without extension."""
    tags: tuple[str, ...] = ()
    namespace: str = ""
    created: float | None = None
    updated: float | None = None
    """Seconds since the epoch, as above."""
    by: str = ""
    author: str = ""
    """Role that wrote it, in a team's base."""
    source: Source = "agent"
    project: str = ""
    commit: str = ""
    session: str = ""
    """Id of the session in which it was learned."""
    origin: str = ""
    """Its origin in words: where it was learned or imported from."""
    about: tuple[str, ...] = ()
    about_hash: Mapping[str, str] | None = None
    supersedes: tuple[str, ...] = ()
    superseded_by: tuple[str, ...] = ()
    rejected: bool = False
    """Whether it tells of a way that was tried, and not taken."""
    misleading: int = 0
    """How often it misled since it was confirmed or changed."""
    may_supersede: tuple[str, ...] = ()
    """Ids of similar memories that it may replace."""


def facts_of(name: str, values: Mapping[str, Any], tags: Iterable[str]) -> Facts:
    """Read a memory's JSON-safe front matter; an invalid value counts as missing."""
    # Keys are matched case-insensitively when they are changed, so also here.
    values = {**{key.strip().casefold(): value for key, value in values.items()}, **values}
    hashes, misled = values.get("about_hash"), values.get("misleading")
    return Facts(
        id=_text(values.get("id")) or name.rpartition("/")[2].rpartition(".")[0] or name,
        tags=tuple(tags),
        namespace=unicodedata.normalize("NFKC", _text(values.get("namespace"))).strip("/").casefold(),
        created=_moment(values.get("created")),
        updated=_moment(values.get("updated")),
        by=_text(values.get("by")),
        author=_text(values.get("author")),
        source="user" if values.get("source") == "user" else "agent",
        project=_text(values.get("project")),
        commit=_text(values.get("commit")),
        session=_text(values.get("session")),
        origin=_text(values.get("from")),
        about=_texts(values.get("about")),
        about_hash={str(key): str(value) for key, value in hashes.items()} if isinstance(hashes, dict) else None,
        supersedes=_texts(values.get("supersedes")),
        superseded_by=_texts(values.get("superseded_by")),
        rejected=_text(values.get("status")).casefold() == REJECTED,
        misleading=min(max(misled, 0), MOST_MISLED) if isinstance(misled, int) else 0,
        may_supersede=_texts(values.get("may_supersede")),
    )


def timestamp(seconds: float) -> str:
    """Format a time as in front matter: ISO 8601, UTC, whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _text(value: Any) -> str:
    return " ".join(str(value).split()) if isinstance(value, str | int | float) and value is not True else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(filter(None, map(_text, value if isinstance(value, list) else [value])))


def _moment(value: Any) -> float | None:
    try:
        moment = datetime.fromisoformat(value)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        datetime.fromtimestamp(seconds, UTC)  # the last days of the calendar may not exist in UTC
        return seconds
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def uses_of(hub: Hub) -> UseCounts:
    """Return the counts of uses."""
    return UseCounts(memories_folder(hub.data) / USES_NAME)


def facts_in(bases: OpenBases, keys: Sequence[Key]) -> dict[Key, Facts]:
    """Return the front matter of documents of bases of memories; others are left out. Cached in `bases`."""
    wanted = [key for key in keys if bases.open[key[0]].base.kind == "memory"]
    for number, ids in by_base(set(wanted) - bases.facts.keys()).items():
        rows = bases.documents([(number, document) for document in ids])
        keys_of = {row.path: key for key, row in rows.items()}
        for row in memory_rows(bases.open[number].index, paths=list(keys_of)):
            bases.facts[keys_of[row.path]] = facts_of(row.path, row.front_matter, row.tags)
    return {key: bases.facts[key] for key in wanted if key in bases.facts}


def recency(age: float, weight: float) -> float:
    """Return the recency factor for an age in days.

    A weight of 0 ignores age; 1 halves the score every `HALF_LIFE_DAYS`.
    """
    return 1 - weight * (1 - math.exp2(-age / HALF_LIFE_DAYS))


def uneven(query: Query, bases: OpenBases) -> bool:
    """Whether any factor of whole bases or documents applies."""
    one = bases.open[0].base.weight if bases.open else 1.0
    return query.recency > 0 or any(base.base.weight != one or base.base.kind == "memory" for base in bases.open)


def weigh(plan: Plan, bases: OpenBases, hits: list[Candidate]) -> None:
    """Apply the factors of whole bases and documents."""
    if not uneven(plan.query, bases):
        return
    weights, without = [base.base.weight for base in bases.open], plan.query.without
    for hit in () if "weight" in without else hits:
        hit.multiply("weight", weights[hit.key[0]] / max(weights))
    if "strength" not in without:
        _strengthen(bases, hits)
    if plan.query.recency and "recency" not in without:
        rows = bases.documents([hit.document_key for hit in hits])
        for hit in hits:
            hit.multiply("recency", recency(age_days(rows[hit.document_key], bases.now), plan.query.recency))


def _strengthen(bases: OpenBases, hits: list[Candidate]) -> None:
    memories = facts_in(bases, [hit.document_key for hit in hits])
    rows, counted = bases.documents(memories), dict[int, Mapping[str, Use]]()
    for hit in hits:
        if facts := memories.get(hit.document_key):
            number = hit.key[0]
            if number not in counted:
                counted[number] = uses_of(bases.hub).all(place_of(bases.open[number].base))
            use = counted[number].get(facts.id)
            moments = (use.last if use else None, facts.updated, facts.created)
            written = abs(rows[hit.document_key].mtime_ns) / 1e9
            last = max((moment for moment in moments if moment is not None), default=written)
            value = strength(facts.source, use.uses if use else 0, last, bases.now, facts.misleading)
            behind = bool(facts.superseded_by or facts.misleading)
            hit.multiply("strength", strength_factor(value, superseded=behind))


SIGNAL = RankingSignal(("weight", "strength", "recency"), lambda _: True, weigh)
