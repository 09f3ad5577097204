"""Documents that may be outdated: past a date of their own, superseded, or just old."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.editing.audit.material import front_lines
from kbhub.index.auditing import texts
from kbhub.index.staleness import ENDED, SUPERSEDED_KEYS, UNTIL_KEYS, outdated, settled
from kbhub.search.hits import STALE_DAYS, age_days

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.editing.audit.material import Material
    from kbhub.editing.audit.models import AuditFinding


def stale_findings(material: Material) -> Iterator[AuditFinding]:
    """Yield a finding for each stale document, for its most severe reason."""
    now = material.hub.options.clock()
    written = material.written()
    index = material.hub.index(material.base)
    with index.snapshot():
        reasons = outdated(index, tuple(written.values()), now)
        decided = settled(index, tuple(written.values()))
        stale = [path for path, row in written.items() if row.id in reasons]
        fronts = {path: front_lines(text) for path, text in texts(index, stale)}
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
    """Return the line of front matter with the first of some keys."""
    return next(
        (
            number
            for number, line in enumerate(lines, 1)
            if line.partition(":")[0].strip().strip("\"'").casefold() in keys
        ),
        None,
    )
