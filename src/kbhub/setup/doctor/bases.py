"""Checks of bases (folder, index, and whether the two agree) and of the files that name them."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Literal

from kbhub.errors import BaseUnavailable, ConfigError, EmbedderError, IndexUnavailable
from kbhub.hub import Hub
from kbhub.index.engine import Index
from kbhub.reading.reports import Finding
from kbhub.sync.base_suggestions import is_empty, outside
from kbhub.sync.comparison import behind_of, compare, is_being_indexed
from kbhub.types import Base, Discovery, Problem
from kbhub.values import counted
from kbhub.workspace.files import is_directory
from kbhub.workspace.project import PROJECT_ID, Grant, TrustStore

_LAST_SENTENCE = re.compile(r"(?s)(.*[.;])\s+((?:[A-Z`]|did you mean|it has no).*)")
"""Splits a problem's message into what happened and what to do about it."""


def ok(check: str, message: str, subject: str = "") -> Finding:
    """Return the finding that something works."""
    return Finding(check=check, level="ok", subject=subject, message=message)


def bad(
    check: str,
    message: str,
    remedy: str,
    subject: str = "",
    level: Literal["ok", "warning", "error"] = "warning",
    *,
    fixable: bool = False,
) -> Finding:
    """Return the finding that something works less well, or not at all, and what to do about it."""
    return Finding(check=check, level=level, subject=subject, message=message, remedy=remedy, fixable=fixable)


LISTED_FILES = 5
"""Files with problems that are listed per base; `status` lists more, `status --json` all."""


def config_findings(hub: Hub) -> list[Finding]:
    """Report which global config is in use, or what is wrong with it."""
    try:
        config = hub.config()
    except ConfigError as error:
        remedy = "Fix it there. Until then, nothing can be searched; no restart is needed."
        return [bad("config", f"{str(error).rstrip('.')}.", remedy, level="error")]
    if config.warnings:
        return [_finding("config", problem, level="warning", remedy="Fix or remove it.") for problem in config.warnings]
    message = str(config.path) if config.path else "No global config; the defaults apply."
    return [ok("config", message)]


def trust_findings(store: TrustStore) -> list[Finding]:
    """Check that the trust store is readable and that what it lists still exists."""
    try:
        grants = store.entries()
    except ConfigError as error:
        message, remedy = _split(str(error), "Fix it or move it away.")
        return [bad("trust", message, remedy, level="error")]
    dangling = [finding for grant in grants if (finding := _dangling(grant))]
    pointers = {grant.pointer for grant in grants if grant.use in ("knowledge", "cacheDir")}
    projects = {grant.pointer for grant in grants if grant.use == "documents"}
    trusted = [f"{counted(len(pointers), 'pointer')} trusted"] if pointers else []
    trusted += [f"hooks allowed in {counted(len(projects), 'project')}"] if projects else []
    message = ", ".join(trusted) or "Nothing is trusted."
    return dangling or [ok("trust", message)]


def discovery_findings(hub: Hub) -> list[Finding]:
    """Report bases that cannot be used, and other problems with pointers and folders."""
    discovery, warnings = hub.discovery(), hub.config().warnings
    active = {name for base in discovery.bases for name in (base.id, *base.names)}
    configured = {PROJECT_ID, *hub.config().settings.bases, *hub.options.bases}
    findings = []
    for problem in discovery.problems:
        if problem in warnings:
            continue
        broken = problem.subject in configured - active
        check = "base" if problem.subject in configured - {PROJECT_ID} else "pointer"
        remedy = "Fix it; kbhub picks up the change."
        findings.append(_finding(check, problem, level="error" if broken else "warning", remedy=remedy))
    if not discovery.bases and not findings:
        reasons = [place for place in discovery.looked_for if place.endswith((")", "off here"))]
        message = " ".join(["No base is active here.", *(f"{reason}." for reason in reasons)])
        remedy = "Run `kbhub init` to choose or create a knowledge folder, or `kbhub status` to see where kbhub looked."
        remedy = " ".join([remedy, *outside(hub)])
        findings.append(bad("base", message, remedy))
    return [*findings, *_empty(hub, discovery)]


def _empty(hub: Hub, discovery: Discovery) -> list[Finding]:
    """Report a project base without documents, such as `kbhub init` once created, if the project has Markdown."""
    project = discovery.project
    if project is None or project.origin == "docs" or not is_empty(hub, project):
        return []
    docs = next((base for base in discovery.bases if base.origin == "docs"), None)
    others = outside(hub)
    if docs is None and not others:
        return []
    also = f"; {docs.path / 'docs'} is searched, too" if docs else ""
    message = f"{project.path} has no documents of its own{also}."
    folder = "the folder and its pointer" if project.origin == "pointer" else "the folder"
    remedy = " ".join([f"Write documents there, or delete {folder}.", *others])
    return [bad("base", message, remedy, project.id)]


def _dangling(grant: Grant) -> Finding | None:
    """Report a grant whose pointer or target no longer exists."""
    if not os.path.lexists(grant.pointer):
        fault = "is trusted but no longer exists"
    elif grant.use == "knowledge" and not is_directory(grant.target):
        fault = f"is trusted to point to {grant.target}, which no longer exists"
    else:
        return None
    remedy = f"Run `{shlex.join(['kbhub', 'base', 'trust', '--revoke', str(grant.pointer)])}` to remove it."
    return bad("trust", f"It {fault}.", remedy, str(grant.pointer))


def _finding(check: str, problem: Problem, *, level: Literal["warning", "error"], remedy: str) -> Finding:
    message, to_do = _split(problem.message.removeprefix(f"{problem.subject}: "), remedy)
    return bad(check, message, to_do, problem.subject, level)


def _split(text: str, otherwise: str) -> tuple[str, str]:
    """Split a message into what happened and what to do about it."""
    if parts := _LAST_SENTENCE.fullmatch(text):
        remedy = parts[2][:1].upper() + parts[2][1:]
        return f"{parts[1].rstrip('.;')}.", remedy
    return f"{text.rstrip('.')}.", otherwise


def base_findings(hub: Hub, base: Base) -> list[Finding]:
    """Check a base; a sound one gives a single finding that says so."""
    if base.engine:
        findings: list[Finding] = hub.engine(base.engine).findings(hub, base)
        return findings
    index = hub.index(base)
    lock = _lock(base, index.path)
    if lock or not os.path.lexists(index.path):
        findings = lock or [_behind(base, "It has no index yet.")]
    elif is_directory(index.path) and not index.path.is_symlink():
        findings = [_broken(base, f"{index.path} is a folder")]
    else:
        findings = _index_findings(hub, base, index)
    if findings:
        return findings
    with index.snapshot():
        documents, chunks, vectors = index.counts()
    counts = ", ".join((counted(documents, "document"), counted(chunks, "chunk"), counted(vectors, "vector")))
    return [ok("index", f"{counts}; intact, up to date", base.id)]


def _lock(base: Base, path: Path) -> list[Finding]:
    # Without a lock file nobody holds the lock, and `is_being_indexed` would create one.
    if not os.path.lexists(f"{path}.lock") or not is_being_indexed(path):
        return []
    message = "Another kbhub process is indexing it, so it was not checked."
    remedy = "Wait until it finishes. If it hangs, end it: the lock goes with it, and nothing is lost."
    return [bad("lock", message, remedy, base.id)]


def _index_findings(hub: Hub, base: Base, index: Index) -> list[Finding]:
    try:
        with index.snapshot():
            faults, problems = index.faults(), index.problems()
            embedder, unembedded = index.meta("embedder"), index.without_vector()
    except IndexUnavailable as error:
        return [_broken(base, error.reason)]
    if faults:
        return [_broken(base, "; ".join(faults))]
    return [*_freshness(hub, base, index), *_vectors(hub, base, embedder, unembedded), *_files(base, problems)]


def _freshness(hub: Hub, base: Base, index: Index) -> list[Finding]:
    try:
        files = behind_of(compare(base, index, hub.limits()), index)
    except BaseUnavailable as error:
        remedy = "Give kbhub permission to list it, or fix or remove the base."
        return [bad("base", f"{error.reason}.", remedy, base.id, level="error")]
    except IndexUnavailable as error:
        return [_broken(base, error.reason)]
    if not files:
        return []
    message = f"{counted(len(files), 'file')} changed since it was indexed, such as {files[0]}."
    return [_behind(base, message)]


def _vectors(hub: Hub, base: Base, embedder: str | None, unembedded: int) -> list[Finding]:
    try:
        configured = hub.embedder()
        fingerprint = configured.fingerprint if configured else None
    except EmbedderError:
        return []  # `embedder_findings` reports that
    if configured is None or (embedder == fingerprint and not unembedded):
        return []
    if embedder == fingerprint:
        message = f"Vectors are missing for {counted(unembedded, 'chunk')}, which search by meaning cannot find yet."
    else:
        message = f"Its vectors do not come from {configured.name}, so it is searched by keyword only."
    return [_behind(base, message, check="vectors")]


def _files(base: Base, problems: list[tuple[str, str]]) -> list[Finding]:
    findings = []
    for path, message in problems[:LISTED_FILES]:
        text = f"{path}: {message.removeprefix(f'{path}: ').rstrip('.')}."
        remedy = "Fix it, or leave it out with `exclude` or .kbhubignore."
        findings.append(bad("files", text, remedy, base.id))
    if (more := len(problems) - LISTED_FILES) > 0:
        text = f"{counted(more, 'more file')} cannot be indexed properly."
        remedy = "`kbhub status` lists more of them, `kbhub status --json` all."
        findings.append(bad("files", text, remedy, base.id))
    return findings


def _behind(base: Base, message: str, check: str = "freshness") -> Finding:
    command = shlex.join(["kbhub", "admin", "index", base.id])
    remedy = f"Run `{command}` or `kbhub doctor --fix` to bring it up to date."
    return bad(check, message, remedy, base.id, fixable=True)


def _broken(base: Base, reason: str) -> Finding:
    message = f"Its index cannot be used: {reason}."
    remedy = "Run `kbhub doctor --fix` to move it aside and rebuild it from the documents."
    return bad("index", message, remedy, base.id, level="error", fixable=True)
