"""The engine of shared bases: one database of PostgreSQL for many bases, of which each role sees its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from kbhub.errors import EngineUnavailable, IndexUnavailable, UsageError
from kbhub.index.engine import Index
from kbhub.reading.reports import Finding, bad, ok
from kbhub.types import Base
from kbhub.values import counted
from kbhub.workspace.discovery import Files
from kbhub.workspace.extensions import load

if TYPE_CHECKING:
    from kbhub.extensions.team.reader import PostgresIndex
    from kbhub.extensions.team.server import Server
    from kbhub.hub import Hub

MOST_SKEW_SECONDS = 60
"""Difference of the clocks from which ages and dates are misleading."""


class PostgresEngine:
    """Holds the connections of a process; see `kbhub.hub.SharedEngine`. Loads the driver, which takes 80 ms, late."""

    def __init__(self) -> None:
        self._servers: dict[tuple[str, float], Server] = {}
        self._indexes: dict[tuple[object, ...], PostgresIndex] = {}

    @staticmethod
    def missing() -> str | None:
        """Return what has to be installed first."""
        if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
            return "Shared bases need the extra `postgres`. Install kbhub[postgres] where kbhub is installed."
        return None

    def index(self, base: Base, env: Mapping[str, str]) -> Index:
        """Return the index of a base, for reading; the database's credentials come from `env`."""
        url, name = base.engine or "", base.shared_as or base.id
        if (url, base.timeout) not in self._servers:
            self._servers[url, base.timeout] = load("kbhub.extensions.team.server:Server")(url, base.timeout, env)
        key = (base.id, url, name, base.timeout)
        if key not in self._indexes:
            server, opened = self._servers[url, base.timeout], load("kbhub.extensions.team.reader:PostgresIndex")
            self._indexes[key] = opened(base.path / "index", base.id, server, name)
        return self._indexes[key]

    def files(self, hub: Hub, base: Base) -> Files:
        """Return the memories in a base."""
        files: Files = load("kbhub.extensions.team.writer:TeamFiles")(hub, base)
        return files

    def takes_memories(self, url: str, name: str, timeout: float, env: Mapping[str, str]) -> bool | None:
        """Return whether agents may remember in a base; None if the role may not read it, or it does not exist."""
        engine = team_engine()
        listed = engine.bases.shared_bases(engine.Server(url, timeout, env))
        return next((one.memories for one in listed if one.name == name), None)

    def findings(self, hub: Hub, base: Base) -> list[Finding]:
        """Check a shared base; a sound one gives a finding on the user's role, and one on its content."""
        index = cast("PostgresIndex", hub.index(base))
        try:
            session = index.server.session()
        except EngineUnavailable as error:
            return [bad("engine", f"{error.name}: {error.reason}.", error.remedy, base.id, "error")]
        encrypted = session.tls or ("no network between" if session.local else "no TLS")
        who = f"{base.place}: PostgreSQL {session.version}, role {session.role}, {encrypted}"
        findings = [ok("engine", f"{who}; no extension needed", base.id)]
        if not session.tls and not session.local:
            remedy = "Take `sslmode` out of the URL, and turn TLS on at the server."
            findings.append(bad("tls", f"{base.place} is read without TLS.", remedy, base.id))
        skew = session.now - time.time()
        if abs(skew) > MOST_SKEW_SECONDS:
            remedy = "Correct the clock of one of the two machines."
            message = f"Its clock differs from this one's by {skew:+.0f} s."
            findings.append(bad("clock", message, remedy, base.id))
        try:
            with index.snapshot():
                faults, (documents, chunks, vectors) = index.faults(), index.counts()
                synced = index.meta("synced")
        except IndexUnavailable as error:
            remedy = f"Run `kbhub team publish --status --to {base.engine}` to list the bases that you may read."
            return [*findings, bad("rights", f"{error.reason}.", remedy, base.id, "error")]
        if faults:
            remedy = "Its publisher can rebuild it with `kbhub team publish --full`."
            return [*findings, bad("index", f"{'; '.join(faults)}.", remedy, base.id, "error")]
        counts = ", ".join((counted(documents, "document"), counted(chunks, "chunk"), counted(vectors, "vector")))
        return [*findings, ok("index", f"{counts}; intact, published {synced}", base.id)]


def team_engine() -> Any:
    """Return the module that publishes and manages shared bases; `UsageError` if its driver is not installed."""
    if missing := PostgresEngine.missing():
        raise UsageError(missing)
    from kbhub.extensions.team import publish  # noqa: PLC0415 - the driver is an extra

    return publish
