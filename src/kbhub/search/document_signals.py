"""Signals of whole documents: dates, where a question asks for a time, weight, recency, and the strength of memories.

A memory's strength comes from its front matter, its uses and its age.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, Literal

from kbhub.hub import Hub
from kbhub.index.catalogue import memory_rows
from kbhub.index.engine import ChunkRow, DocumentRow, Key
from kbhub.index.references import REJECTED, age_days, page_of, without_version
from kbhub.index.side_files import Use, UseCounts
from kbhub.search.plan import AskedTime, Candidate, OpenBases, Plan, RankingSignal, SignalPart, by_base
from kbhub.values import DAY_SECONDS, moment_of, struct
from kbhub.workspace.discovery import memories_folder, place_of

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
DATE = "date"
"""Name of the signal in `Query.without`, and in traces before the words that it was read from."""

DATE_AMOUNT = 0.5
"""The most it adds: docs/explanation/memory-retrieval.md."""

NEAR_DAYS = 14
"""Days before and after the asked time over which nearness falls evenly from 1 to 0: plans are told before, and reports
after."""

_NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
COUNTS = dict(zip(_NUMBERS, range(1, 13), strict=True)) | {"a": 1, "an": 1, "a couple of": 2, "a few": 3, "few": 3}

UNITS = {"day": 1, "week": 7, "month": 30, "year": 365}
"""Days per unit, as in `age:`."""

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_MONTH = "|".join(f"{name}|{name[:3]}" for name in MONTHS) + "|sept"
_YEAR = r"(?:19|20)\d\d"
_DAY = r"(?:[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?"
_COUNT = "|".join(sorted(COUNTS, key=len, reverse=True)) + r"|\d{1,3}"
_AMOUNT = rf"(?P<count>{_COUNT}) (?P<unit>day|week|month|year)s?"
_WRITTEN = (
    rf"(?P<y1>{_YEAR})-(?P<m1>0[1-9]|1[0-2])-(?P<d1>[0-2]\d|3[01])",
    rf"(?P<d2>{_DAY})(?: of)? (?P<m2>{_MONTH})\.?,? (?P<y2>{_YEAR})",
    rf"(?P<m3>{_MONTH})\.? (?P<d3>{_DAY}),? (?P<y3>{_YEAR})",
)
_FULL_DATE = re.compile(rf"(?<!\d)(?:{'|'.join(_WRITTEN)})(?!\d)", re.IGNORECASE)

_QUOTED = re.compile(r'"[^"]*"|`[^`]*`|“[^”]*”')
_BEFORE, _AFTER = r"(?<![\w/.:@#-])", r"(?![\w/@#-]|\.\w)"
"""A date within a path, a version or a name is no time."""


def own_time(chunk: ChunkRow, document: DocumentRow) -> float | None:
    """Return when something was written by its own account, in seconds since the epoch, or None.

    That is the day in the heading of a session's turn, else the document's `updated` or `date`, else a day in its title
    or its file name.
    """
    turn = written_day(chunk.headings[-1]) if document.kind == "session" and chunk.headings else None
    if turn is not None:
        return turn
    if document.dated is not None or document.kind == "session":
        return document.dated
    day = written_day(document.title)
    return written_day(document.path.rpartition("/")[2]) if day is None else day


def written_day(text: str) -> float | None:
    """Return the first full date in a text, such as `May 8th, 2023`: its start in UTC, in seconds since the epoch."""
    match = _FULL_DATE.search(text)
    with suppress(ValueError):  # 31 June
        return _full_date(match).timestamp() if match else None
    return None


def month_of(name: str) -> int:
    """Return the number of a month, 1 to 12, by its name, its first three letters or its digits."""
    if name.isdigit():
        return int(name)
    return 1 + next(number for number, month in enumerate(MONTHS) if month.startswith(name.lower()[:3]))


def asked_time(text: str, now: float) -> AskedTime | None:
    """Return the time that a question in English asks for, or None; `now` is in seconds since the epoch.

    Days are those of UTC; a month or weekday without a year is the latest one. Words in quotes do not count.
    """
    plain = _QUOTED.sub(" · ", text)
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for pattern, read in _PATTERNS:
        for match in pattern.finditer(plain):
            try:
                start, end = read(match, today)
                if start < end:
                    return AskedTime(match.group().strip(), start.timestamp(), end.timestamp(), read in _COUNTED)
            except (ValueError, OverflowError):  # 31 June, or a year that the calendar does not have
                continue
    return None


def _full_date(match: re.Match[str]) -> datetime:
    parts = {name[0]: value for name, value in match.groupdict().items() if value}
    return datetime(int(parts["y"]), month_of(parts["m"]), int(re.sub(r"\D", "", parts["d"])), tzinfo=UTC)


Period = tuple[datetime, datetime]


def _one_day(start: datetime) -> Period:
    return start, start + timedelta(1)


def _whole_month(year: int, month: int) -> Period:
    return datetime(year, month, 1, tzinfo=UTC), datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)


def _month_of_year(match: re.Match[str], _: datetime) -> Period:
    return _whole_month(int(match["year"]), month_of(match["month"]))


def _latest_month(match: re.Match[str], today: datetime) -> Period:
    month = month_of(match["month"])
    return _whole_month(today.year - (month > today.month), month)


def _latest_day(match: re.Match[str], today: datetime) -> Period:
    month, day = month_of(match["month"]), int(re.sub(r"\D", "", match["day"]))
    start = datetime(today.year, month, day, tzinfo=UTC)
    return _one_day(start if start <= today else datetime(today.year - 1, month, day, tzinfo=UTC))


def _whole_year(year: int) -> Period:
    return datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)


def _named_year(match: re.Match[str], today: datetime) -> Period:
    if (year := int(match["year"])) > today.year:
        raise ValueError("a number, or a year to come")
    return _whole_year(year)


def _start(match: re.Match[str], today: datetime) -> tuple[datetime, int]:
    """Return the day so many units before today, and the days of a unit."""
    days = UNITS[match["unit"].lower()]
    return today - timedelta(days * (COUNTS.get(match["count"].lower()) or int(match["count"]))), days


def _ago(match: re.Match[str], today: datetime) -> Period:
    start, days = _start(match, today)
    # A week ago is some day of that week: half a unit before and after.
    return start - timedelta(days // 2), start + timedelta(1 + days // 2)


def _past(match: re.Match[str], today: datetime) -> Period:
    return _start(match, today)[0], today + timedelta(1)


def _calendar(match: re.Match[str], today: datetime) -> Period:
    """Return this or the last week (from Monday), month or year."""
    last = match["which"].lower() != "this"
    if match["unit"].lower() == "week":
        start = today - timedelta(today.weekday() + 7 * last)
        return start, start + timedelta(7)
    if match["unit"].lower() == "month":
        within = today.replace(day=1) - timedelta(last)
        return _whole_month(within.year, within.month)
    return _whole_year(today.year - last)


def _relative_day(match: re.Match[str], today: datetime) -> Period:
    return _one_day(today - timedelta(match["day"].lower() == "yesterday"))


def _weekday(match: re.Match[str], today: datetime) -> Period:
    back = (today.weekday() - WEEKDAYS.index(match["day"].lower())) % 7
    return _one_day(today - timedelta(back or 7))


_COUNTED = (_ago, _past, _calendar, _relative_day, _weekday)

_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], Period]], ...] = tuple(
    (re.compile(f"{_BEFORE}(?:{pattern}){_AFTER}", flags), read)
    for pattern, flags, read in (
        (rf"(?:on )?(?:{'|'.join(_WRITTEN)})", re.IGNORECASE, lambda match, _: _one_day(_full_date(match))),
        (rf"(?:in )?(?P<month>{_MONTH})\.?,? (?:of )?(?P<year>{_YEAR})", re.IGNORECASE, _month_of_year),
        (rf"(?:in )?(?P<year>{_YEAR})-(?P<month>0[1-9]|1[0-2])", 0, _month_of_year),
        (rf"on (?:the )?(?P<day>{_DAY})(?: of)? (?P<month>{_MONTH})", re.IGNORECASE, _latest_day),
        (rf"on (?P<month>{_MONTH})\.? (?P<day>{_DAY})", re.IGNORECASE, _latest_day),
        (rf"{_AMOUNT} ago", re.IGNORECASE, _ago),
        (rf"(?:in|over|during|for) the (?:last|past) {_AMOUNT}", re.IGNORECASE, _past),
        (r"(?P<which>last|this) (?P<unit>week|month|year)", re.IGNORECASE, _calendar),
        (rf"(?:on|last) (?P<day>{'|'.join(WEEKDAYS)})", re.IGNORECASE, _weekday),
        (r"(?P<day>yesterday|today)", 0, _relative_day),
        (r"(?:(?<=^)|(?<=[.?!] ))(?P<day>Yesterday|Today)", 0, _relative_day),
        # With a capital, as `may` and `march` are verbs, too.
        (rf"(?:[Ii]n|[Dd]uring|last) (?P<month>{'|'.join(name.title() for name in MONTHS)})", 0, _latest_month),
        (rf"(?:in|during) (?P<year>{_YEAR})", re.IGNORECASE, _named_year),
    )
)


def _add_date(plan: Plan, bases: OpenBases, hits: list[Candidate]) -> None:
    """Lift documents from the time that a query asks for."""
    if plan.asked is None or not plan.asks_for(DATE):
        return
    for hit, chunk, document in bases.texts(hits):
        if (when := own_time(chunk, document)) is not None:
            apart = max(plan.asked.start - when, when - plan.asked.end, 0.0)
            near = max(0.0, 1 - apart / (NEAR_DAYS * DAY_SECONDS))
            hit.add(SignalPart(f'{DATE} "{plan.asked.span}"', near, DATE_AMOUNT * near))


DATED = RankingSignal((DATE,), _add_date)

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
"""Factor on the score of a hit of strength 0: enough to decide between equals, too little to bury a better answer."""

SUPERSEDED_FACTOR = 0.8
"""Additional factor on a superseded or misleading memory: ranks it behind its successor, which answers the same
queries, even if their strengths are at opposite ends."""

USES_NAME = "uses.db"

HALF_LIFE_DAYS = 180.0
"""Age at which the score is halved with a recency weight of 1; the same time in which a memory fades."""


def strength(source: Source, uses: int, last_use: float, now: float, misleading: int = 0) -> float:
    """Return the strength of a memory, up to 1; `last_use` (or writing) and `now` are in seconds since the epoch."""
    decay = max(LEAST_DECAY, 1 - max(0.0, (now - last_use) / DAY_SECONDS) / FADING_DAYS)
    confidence = CONFIDENCE[source] + min(MOST_FROM_USE, PER_DOUBLING * math.log2(1 + max(0, uses)))
    return decay * confidence * MISLED**misleading


@struct
class Facts:
    """The front matter of a memory."""

    id: str
    """Its own id, else the file name without extension."""
    tags: tuple[str, ...] = ()
    namespace: str = ""
    created: float | None = None
    updated: float | None = None
    by: str = ""
    author: str = ""
    """Role that wrote it, in a team's base."""
    source: Source = "agent"
    project: str = ""
    commit: str = ""
    session: str = ""
    origin: str = ""
    about: tuple[str, ...] = ()
    about_hash: Mapping[str, str] | None = None
    supersedes: tuple[str, ...] = ()
    superseded_by: tuple[str, ...] = ()
    rejected: bool = False
    misleading: int = 0
    """How often it misled since it was confirmed or changed."""
    may_supersede: tuple[str, ...] = ()


def facts_of(name: str, values: Mapping[str, Any], tags: Iterable[str]) -> Facts:
    """Read a memory's JSON-safe front matter; an invalid value counts as missing."""
    # Keys are matched case-insensitively when they are changed, so also here.
    values = {**{key.strip().casefold(): value for key, value in values.items()}, **values}
    hashes, misled = values.get("about_hash"), values.get("misleading")
    return Facts(
        id=_text(values.get("id")) or name.rpartition("/")[2].rpartition(".")[0] or name,
        tags=tuple(tags),
        namespace=unicodedata.normalize("NFKC", _text(values.get("namespace"))).strip("/").casefold(),
        created=moment_of(values.get("created")),
        updated=moment_of(values.get("updated")),
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


def last_use(facts: Facts, use: Use | None, written: float) -> float:
    """Return when a memory was last used or changed, or else written; seconds since the epoch."""
    return max(filter(None, (use.last if use else None, facts.updated, facts.created)), default=written)


def timestamp(seconds: float) -> str:
    """Format a time as in front matter: ISO 8601, UTC, whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _text(value: Any) -> str:
    return " ".join(str(value).split()) if isinstance(value, str | int | float) and value is not True else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(filter(None, map(_text, value if isinstance(value, list) else [value])))


def uses_of(hub: Hub) -> UseCounts:
    """Return the counts of uses."""
    return UseCounts(memories_folder(hub.data) / USES_NAME)


def facts_in(bases: OpenBases, keys: Iterable[Key]) -> Mapping[Key, Facts]:
    """Read the front matter of documents of bases of memories; return that of all that were read, see `bases.facts`."""
    for number, ids in by_base(set(keys) - bases.facts.keys()).items():
        if bases.open[number].base.kind == "memory":
            for path, _, tags, front, _, document in memory_rows(bases.open[number].index, ids=ids):
                bases.facts[number, document] = facts_of(path, front, tags)
    return bases.facts


def recency(age: float, weight: float) -> float:
    """Return the recency factor for an age in days; a weight of 1 halves the score every `HALF_LIFE_DAYS`."""
    return 1 - weight * (1 - math.exp2(-age / HALF_LIFE_DAYS))


def weigh(plan: Plan, bases: OpenBases, hits: list[Candidate]) -> None:
    """Apply the factors of whole bases and documents."""
    if not plan.uneven:
        return
    weights, without = [*map(attrgetter("base.weight"), bases.open)], plan.query.without
    for hit in () if "weight" in without else hits:
        hit.multiply("weight", weights[hit.key[0]] / max(weights))
    memories = {} if "strength" in without else facts_in(bases, map(attrgetter("document_key"), hits))
    rows, counted = bases.documents(memories), dict[int, Mapping[str, Use]]()
    for hit in hits if memories else ():
        if facts := memories.get(hit.document_key):
            number = hit.key[0]
            if number not in counted:
                counted[number] = uses_of(bases.hub).all(place_of(bases.open[number].base))
            use = counted[number].get(facts.id)
            last = last_use(facts, use, abs(rows[hit.document_key].mtime_ns) / 1e9)
            value = strength(facts.source, use.uses if use else 0, last, bases.now, facts.misleading)
            factor = LEAST_FACTOR + (1 - LEAST_FACTOR) * min(1.0, max(0.0, value))
            behind = facts.superseded_by or facts.misleading
            hit.multiply("strength", factor * SUPERSEDED_FACTOR if behind else factor)
    if plan.query.recency and "recency" not in without:
        rows = bases.documents(map(attrgetter("document_key"), hits))
        for hit in hits:
            hit.multiply("recency", recency(age_days(rows[hit.document_key], bases.now), plan.query.recency))


WEIGHED = RankingSignal(("weight", "strength", "recency"), weigh)

OLDER = 0.8
"""Factor of a page of which a newer version was found."""


def _prefer_newest(plan: Plan, bases: OpenBases, hits: list[Candidate]) -> None:
    """Rank the newest version of a page, or the one that is asked for, before the others."""
    if "version" in plan.query.without:
        return
    documents, asked = bases.documents(map(attrgetter("document_key"), hits)), plan.query.text.casefold()
    pages = defaultdict[tuple[int, tuple[str, str]], list[tuple[tuple[float, ...], Candidate]]](list)
    for hit in hits:
        document = documents[hit.document_key]
        page, folder = without_version(document.path, document.title)
        version: tuple[float, ...] = (math.inf,)  # without a folder, it is of the next version
        if folder:
            numbers = re.findall(r"\d+", folder)
            # 3.1 is not in 3.10, nor 2.0 in 12.0.
            name = folder.casefold().removesuffix(".x") if len(numbers) == 1 else ".".join(numbers)
            begins = r"\b" if len(numbers) == 1 else r"(?<![\d.])"
            is_asked = re.search(rf"{begins}{re.escape(name)}(?!\d)", asked)
            version = (math.inf, math.inf) if is_asked else tuple(map(float, numbers))
        pages[hit.key[0], page].append((version, hit))
    for versions in pages.values():
        newest = max(version for version, _ in versions)
        for version, hit in versions:
            hit.multiply("version", 1.0 if version == newest else OLDER)


VERSIONED = RankingSignal(("version",), _prefer_newest)

TRANSLATION = 0.8
"""Factor of a page in another language than that of the question."""


def _prefer_asked_language(plan: Plan, bases: OpenBases, hits: list[Candidate]) -> None:
    """Rank what is in the language of the question before translations.

    It is that of the passage that has most of the question's words.
    """
    if "language" in plan.query.without:
        return
    documents = bases.documents(map(attrgetter("document_key"), hits))
    pages, languages = dict[Key, tuple[int, str, str]](), defaultdict[tuple[int, str], set[str]](set)
    for key, document in documents.items():
        base = key[0]
        page, language = page_of(bases.open[base].index, document.path)
        pages[key] = base, page, language
        languages[base, page].add(language)
    if not any(map(any, languages.values())):
        return
    # Originals are in English, unless English is a translation of them; then each base has a language of its own.
    other_originals = {base for (base, _), found in languages.items() if {"", "en"} <= found}
    spoken = {
        key: language or (f"original of {base}" if base in other_originals else "en")
        for key, (base, page, language) in pages.items()
        if language or len(languages[base, page]) > 1
    }
    asked, most = _words(plan.query.text), Counter[str]()
    for hit, chunk, _ in bases.texts([hit for hit in plan.examined if hit.document_key in spoken]):
        language = spoken[hit.document_key]
        most[language] = max(most[language], len(asked & _words(chunk.text)))
    best = max(most, key=lambda language: (most[language], language == "en"), default=None)
    for hit in hits:
        if best not in (None, spoken.get(hit.document_key, best)):
            hit.multiply("language", TRANSLATION)


def _words(text: str) -> set[str]:
    """Return all words: those without a meaning of their own tell a language best."""
    return set(re.findall(r"\w+", text.casefold()))


IN_LANGUAGE = RankingSignal(("language",), _prefer_asked_language)
