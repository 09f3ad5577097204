"""Documents that may no longer hold: past a day they name themselves, superseded, or just old."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.audit.material import front_lines
from kbhub.hits import STALE_DAYS, age_days
from kbhub.index.auditing import texts
from kbhub.index.staleness import ENDED, SUPERSEDED_KEYS, UNTIL_KEYS, outdated, settled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.audit.material import Material
    from kbhub.audit.models import AuditFinding


def stale_findings(material: Material) -> Iterator[AuditFinding]:
    """Find documents that are stale, each once, for its gravest reason."""
    now = material.hub.options.clock()
    written = material.written()
    index = material.hub.index(material.base)
    with index.snapshot():
        reasons = outdated(index, tuple(written.values()), now)
        decided = settled(index, tuple(written.values()))
        told = [path for path, row in written.items() if row.id in reasons]
        fronts = {path: front_lines(text) for path, text in texts(index, told)}
    for path, row in written.items():
        why, age = reasons.get(row.id), age_days(row, now)
        if why is not None and why.casefold().startswith(ENDED):
            line = _line(fronts.get(path, []), (*SUPERSEDED_KEYS, "status"))
            remedy = "Link to the one in its place, or delete it if nobody needs its history."
            yield material.finding("stale", "info", path, f"It says: {why}.", remedy, line=line)
        elif why is not None:
            remedy = "See whether it still holds, then mend it and move the day."
            yield material.finding(
                "stale",
                "warning",
                path,
                f"Its day has passed: {why}.",
                remedy,
                line=_line(fronts.get(path, []), UNTIL_KEYS),
            )
        elif age > STALE_DAYS and row.id not in decided:
            remedy = "See whether it still holds; `updated` in front matter says when somebody did."
            yield material.finding("stale", "info", path, f"Nobody has changed it for {age} days.", remedy)


def _line(lines: list[str], keys: tuple[str, ...]) -> int | None:
    """Give the line of front matter on which the first of some keys stands."""
    return next(
        (
            number
            for number, line in enumerate(lines, 1)
            if line.partition(":")[0].strip().strip("\"'").casefold() in keys
        ),
        None,
    )
