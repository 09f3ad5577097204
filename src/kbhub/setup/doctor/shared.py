"""Checks of a shared base: its database, the user's role there, and the permissions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, cast

from kbhub.errors import EngineUnavailable, IndexUnavailable
from kbhub.reading.reports import Finding
from kbhub.values import counted

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.index.postgres import PostgresIndex
    from kbhub.types import Base

MOST_SKEW_SECONDS = 60
"""Difference of the clocks from which ages and dates are misleading."""


def shared_findings(hub: Hub, base: Base) -> list[Finding]:
    """Check a shared base; a sound one gives a finding on the user's role, and one on its content."""
    index = cast("PostgresIndex", hub.index(base))
    try:
        session = index.server.session()
    except EngineUnavailable as error:
        return [_finding(base, "engine", "error", f"{error.name}: {error.reason}.", error.remedy)]
    encrypted = session.tls or ("no network between" if session.local else "no TLS")
    who = f"{base.place}: PostgreSQL {session.version}, role {session.role}, {encrypted}"
    findings = [_finding(base, "engine", "ok", f"{who}; no extension needed")]
    if not session.tls and not session.local:
        remedy = "Take `sslmode` out of the URL, and turn TLS on at the server."
        findings.append(_finding(base, "tls", "warning", f"{base.place} is read without TLS.", remedy))
    skew = session.now - time.time()
    if abs(skew) > MOST_SKEW_SECONDS:
        remedy = "Correct the clock of one of the two machines."
        findings.append(
            _finding(base, "clock", "warning", f"Its clock differs from this one's by {skew:+.0f} s.", remedy)
        )
    try:
        with index.snapshot():
            faults, (documents, chunks, vectors) = index.faults(), index.counts()
            synced = index.meta("synced")
    except IndexUnavailable as error:
        remedy = f"Run `kbhub publish --status --to {base.engine}` to list the bases that you may read."
        return [*findings, _finding(base, "rights", "error", f"{error.reason}.", remedy)]
    if faults:
        remedy = "Its publisher can rebuild it with `kbhub publish --full`."
        return [*findings, _finding(base, "index", "error", f"{'; '.join(faults)}.", remedy)]
    counts = ", ".join((counted(documents, "document"), counted(chunks, "chunk"), counted(vectors, "vector")))
    return [*findings, _finding(base, "index", "ok", f"{counts}; intact, published {synced}")]


def _finding(
    base: Base, check: str, level: Literal["ok", "warning", "error"], message: str, remedy: str = ""
) -> Finding:
    return Finding(check=check, level=level, subject=base.id, message=message, remedy=remedy)
