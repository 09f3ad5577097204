"""Dates of documents, and times that questions ask for."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from kbhub.index.engine import ChunkRow, DocumentRow
from kbhub.search.plan import AskedTime, Candidate, OpenBases, Plan, RankingSignal, SignalPart

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
DATE = "date"
"""Name of the signal in `Query.without`, and in traces before the words that it was read from."""

AMOUNT = 0.5
"""The most it adds: docs/explanation/memory-retrieval.md."""

_NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
COUNTS = dict(zip(_NUMBERS, range(1, 13), strict=True)) | {"a": 1, "an": 1, "a couple of": 2, "a few": 3, "few": 3}
"""Words for numbers before `days ago`."""

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
    or its file name. Commits and file times are of the copy, so they do not count.
    """
    turn = written_day(chunk.headings[-1]) if document.kind == "session" and chunk.headings else None
    if turn is not None:
        return turn
    if document.dated is not None or document.kind == "session":
        return document.dated
    day = written_day(document.title)
    return written_day(document.path.rpartition("/")[2]) if day is None else day


def written_day(text: str) -> float | None:
    """Return the first full date in a text, such as `2023-05-08`, `8 May, 2023` or `May 8th, 2023`, or None.

    The date is the beginning of that day in UTC, in seconds since the epoch.
    """
    match = _FULL_DATE.search(text)
    with suppress(ValueError):  # 31 June
        return datetime(*_full(match), tzinfo=UTC).timestamp() if match else None
    return None


def month_of(name: str) -> int:
    """Return the number of a month by its name or its first three letters, 1 to 12."""
    return 1 + next(number for number, month in enumerate(MONTHS) if month.startswith(name.lower()[:3]))


def asked_time(text: str, now: float) -> AskedTime | None:
    """Return the time that a question in English asks for, or None.

    It knows full dates, months and years (`on 8 May, 2023`, `in May`, `in 2023`), and times relative to `now`, in
    seconds since the epoch (`yesterday`, `last week`, `two weeks ago`, `in the past three days`, `on Monday`). Days are
    those of UTC. A month or weekday without a year is the latest one. Words in quotes, and dates in paths and names, do
    not count.
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


def _full(match: re.Match[str]) -> tuple[int, int, int]:
    """Return year, month and day of a full date."""
    parts = {name[0]: value for name, value in match.groupdict().items() if value}
    month = int(parts["m"]) if parts["m"].isdigit() else month_of(parts["m"])
    return int(parts["y"]), month, int(re.sub(r"\D", "", parts["d"]))


Period = tuple[datetime, datetime]


def _one_day(start: datetime) -> Period:
    return start, start + timedelta(1)


def _full_date(match: re.Match[str], _: datetime) -> Period:
    return _one_day(datetime(*_full(match), tzinfo=UTC))


def _whole_month(year: int, month: int) -> Period:
    return datetime(year, month, 1, tzinfo=UTC), datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)


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
        (rf"(?:on )?(?:{'|'.join(_WRITTEN)})", re.IGNORECASE, _full_date),
        (
            rf"(?:in )?(?P<month>{_MONTH})\.?,? (?:of )?(?P<year>{_YEAR})",
            re.IGNORECASE,
            lambda match, _: _whole_month(int(match["year"]), month_of(match["month"])),
        ),
        (
            rf"(?:in )?(?P<year>{_YEAR})-(?P<month>0[1-9]|1[0-2])",
            0,
            lambda match, _: _whole_month(int(match["year"]), int(match["month"])),
        ),
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


def _add(plan: Plan, bases: OpenBases, hits: list[Candidate]) -> None:
    """Lift documents from the time that a query asks for."""
    for hit, chunk, document in bases.texts(hits):
        if plan.asked and (when := own_time(chunk, document)) is not None:
            near = plan.asked.nearness(when)
            hit.add([SignalPart(f'{DATE} "{plan.asked.span}"', near, AMOUNT * near)])


SIGNAL = RankingSignal((DATE,), lambda plan: plan.asked is not None and plan.asks_for(DATE), _add)
