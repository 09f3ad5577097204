"""All checks, and the repairs that are safe to make automatically."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from kbhub.errors import ConfigError, KbhubError
from kbhub.hub import Hub
from kbhub.index.sqlite import set_aside
from kbhub.reading.reports import Diagnosis, Finding
from kbhub.setup.doctor.bases import base_findings, config_findings, discovery_findings, trust_findings
from kbhub.setup.doctor.machine import (
    FILE_MODE,
    FOLDER_MODE,
    JOURNALS,
    embedder_findings,
    folder_findings,
    index_of,
    is_leftover,
    ollama_findings,
    own_places,
    packaged_model,
    python_version,
    reranking_findings,
    sqlite,
    too_open,
    watch_findings,
)
from kbhub.setup.plan import Registration
from kbhub.setup.registration import registrations, unregistered
from kbhub.sync.freshness import sync
from kbhub.types import Base

BUSY = "another kbhub process is indexing it; try again when it has finished"


CHECKS: dict[str, Callable[[Hub, Sequence[Base]], Iterable[Finding]]] = {
    "python": lambda *_: [python_version()],
    "sqlite": lambda *_: sqlite(),
    "model": lambda *_: [packaged_model()],
    "config": lambda hub, _: config_findings(hub),
    "embedder": lambda hub, _: embedder_findings(hub),
    "ollama": lambda hub, _: ollama_findings(hub),
    "trust": lambda hub, _: trust_findings(hub.trust),
    "discovery": lambda hub, _: discovery_findings(hub),
    "reranking": lambda hub, bases: reranking_findings(hub, bases),
    "folders": lambda hub, bases: folder_findings(hub, bases),
    "bases": lambda hub, bases: chain.from_iterable(base_findings(hub, base) for base in bases),
    "watch": lambda _, bases: watch_findings(bases),
    "clients": lambda hub, _: client_findings(hub),
}
"""What search needs, from the interpreter to each file of a base, in the order of the report."""


def examine(hub: Hub) -> Diagnosis:
    """Make all checks."""
    with suppress(ConfigError):
        hub.rediscover()
    bases, findings = _bases(hub), list[Finding]()
    for find in CHECKS.values():
        with suppress(ConfigError):  # `config` tells of it, and what needs it is left out
            findings += find(hub, bases)
    return Diagnosis(findings=tuple(findings))


def repair(hub: Hub, diagnosis: Diagnosis) -> Diagnosis:
    """Repair what is fixable, then examine again; the new diagnosis has the repairs made and those that failed."""
    done: list[str] = []
    failed: list[str] = []
    for mend, *checks in REPAIRS:
        subjects = {finding.subject for finding in diagnosis.findings if finding.fixable and finding.check in checks}
        for subject in sorted(subjects):
            _attempt(mend(hub, subject), subject, done, failed)
    if any(finding.fixable and finding.check == "permissions" for finding in diagnosis.findings):
        # Last, since the files created above are private anyway.
        for path in too_open(own_places(hub, _bases(hub))):
            _attempt(_close(path), str(path), done, failed)
    return examine(hub).model_copy(update={"fixed": tuple(done), "failed": tuple(failed)})


def _bases(hub: Hub) -> tuple[Base, ...]:
    try:
        return hub.discovery().bases
    except ConfigError:
        return ()


def _attempt(steps: Iterator[str], subject: str, done: list[str], failed: list[str]) -> None:
    """Run a repair, recording each completed step or the error."""
    try:
        done.extend(steps)
    except Timeout:
        failed.append(f"{subject}: {BUSY}.")
    except OSError as error:
        failed.append(f"{subject}: {error.strerror or error}.")
    except KbhubError as error:
        failed.append(str(error))


def _delete(_hub: Hub, subject: str) -> Iterator[str]:
    path = Path(subject)
    with _alone(index_of(path)):
        if os.path.lexists(path) and is_leftover(path):
            for suffix in ("", *JOURNALS):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
            yield f"deleted {path}"


def _set_aside(hub: Hub, name: str) -> Iterator[str]:
    for base in hub.select((name,)):
        path = hub.index(base).path
        hub.index(base).close()
        with _alone(path):
            aside = set_aside(path)
        yield f"{base.id}: its index was moved aside as {aside.name}"


def _sync(hub: Hub, name: str) -> Iterator[str]:
    for report in sync(hub, (name,)):
        if report.busy:
            raise Timeout(name)
        yield f"{name}: indexed {report.added} new and {report.changed} changed documents, {report.removed} removed"


REPAIRS: tuple[tuple[Any, ...], ...] = (
    (_delete, "leftovers"),
    (_set_aside, "index"),
    (_sync, "index", "freshness", "vectors"),
)
"""Each with the checks whose findings it repairs, by their subjects; in this order."""


def _close(path: Path) -> Iterator[str]:
    kind = path.lstat().st_mode
    if not stat.S_ISLNK(kind):
        path.chmod(FOLDER_MODE if stat.S_ISDIR(kind) else FILE_MODE)
        yield f"only you can access {path} now"


def _alone(path: Path) -> FileLock:
    """Return the lock of an index, which keeps other processes from writing it."""
    return FileLock(f"{path}.lock", timeout=0, mode=FILE_MODE)


CHECK = "client"
AT_ONCE = 2
"""Servers started in parallel; each keeps a CPU busy for half a second."""


def client_findings(hub: Hub) -> list[Finding]:
    """Check all registrations in the user's own files; project files are untrusted, so nothing there is started."""
    env, home = hub.options.env, hub.options.home
    registered = registrations(env, home)
    usable = [registration for registration in registered if registration.starts and registration.enabled]
    faults = _handshakes(usable, env)
    findings = [_client_finding(registration, faults.get(_identity(registration), "")) for registration in registered]
    if missing := unregistered(env, home):
        message = f"Not registered with {', '.join(missing)}; run `kbhub setup` to register it."
        findings.append(Finding(check=CHECK, level="ok", message=message))
    elif not registered:
        findings.append(Finding(check=CHECK, level="ok", message="No MCP client was found on this machine."))
    return findings


def _handshakes(usable: list[Registration], env: Mapping[str, str]) -> dict[tuple[object, ...], str]:
    """Start each distinct server once, and map its identity to the reason it does not work."""
    distinct = {_identity(registration): registration for registration in usable}
    if not distinct:
        return {}
    # Importing the MCP SDK takes half a second, which only users with registered clients need.
    from kbhub.setup.doctor.handshake import shake_hands  # noqa: PLC0415

    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = pool.map(
            lambda registration: shake_hands((str(registration.program), *registration.args), registration.env, env),
            distinct.values(),
        )
        return dict(zip(distinct, outcomes, strict=True))


def _identity(registration: Registration) -> tuple[object, ...]:
    return (registration.program, registration.args, tuple(sorted(registration.env.items())))


def _client_finding(registration: Registration, fault: str) -> Finding:
    setup_again = f"Run `kbhub setup --client {registration.client}` to register this kbhub."
    if registration.fault:
        message = f"Its file has a problem: {registration.fault.rstrip('.')}."
        remedy = "Fix the file; until then, kbhub does not change it."
        return Finding(check=CHECK, level="warning", subject=registration.title, message=message, remedy=remedy)
    if not registration.command:
        message = f"The entry {registration.name!r} in {registration.file} has no command."
        return Finding(check=CHECK, level="error", subject=registration.title, message=message, remedy=setup_again)
    if not registration.starts:
        message = f"{registration.file} starts {registration.command}, which does not exist or cannot be run."
        return Finding(check=CHECK, level="error", subject=registration.title, message=message, remedy=setup_again)
    if not registration.enabled:
        message = f"It is registered in {registration.file} but disabled there."
        remedy = "Enable it in the client's settings."
        return Finding(check=CHECK, level="warning", subject=registration.title, message=message, remedy=remedy)
    if fault:
        message = f"{' '.join(registration.argv)} {fault.rstrip('.')}."
        remedy = f"Run it in a shell to see why. {setup_again}"
        return Finding(check=CHECK, level="error", subject=registration.title, message=message, remedy=remedy)
    return Finding(
        check=CHECK, level="ok", subject=registration.title, message=f"{' '.join(registration.argv)} starts and answers"
    )
