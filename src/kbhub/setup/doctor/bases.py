"""Checks of bases (folder, index, and whether the two agree) and of the files that name them."""

from __future__ import annotations

import os
import re
import shlex
from typing import Literal

from kbhub.errors import BaseUnavailable, ConfigError, EmbedderError, IndexUnavailable
from kbhub.hub import Hub
from kbhub.index.engine import Index
from kbhub.index.sqlite.index import NOT_THERE
from kbhub.reading.reports import Finding, bad, ok
from kbhub.sync.base_suggestions import is_empty, outside
from kbhub.sync.comparison import behind_of, compare, is_being_indexed
from kbhub.types import Base, Problem
from kbhub.values import counted
from kbhub.workspace.files import is_directory
from kbhub.workspace.project import TrustStore

_LAST_SENTENCE = re.compile(r"(?s)(.*[.;])\s+((?:[A-Z`]|did you mean|it has no).*)")

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
    return [ok("config", str(config.path) if config.path else "No global config; the defaults apply.")]


def trust_findings(store: TrustStore) -> list[Finding]:
    """Check that the trust store is readable and that what it lists still exists."""
    try:
        grants = store.entries()
    except ConfigError as error:
        message, remedy = _split(str(error), "Fix it or move it away.")
        return [bad("trust", message, remedy, level="error")]
    dangling = []
    for grant in grants:
        fault = "" if os.path.lexists(grant.pointer) else "is trusted but no longer exists"
        if not fault and grant.use == "knowledge" and not is_directory(grant.target):
            fault = f"is trusted to point to {grant.target}, which no longer exists"
        if fault:
            revoke = shlex.join(["kbhub", "base", "trust", "--revoke", str(grant.pointer)])
            dangling.append(bad("trust", f"It {fault}.", f"Run `{revoke}` to remove it.", str(grant.pointer)))
    pointers = {grant.pointer for grant in grants if grant.use in ("knowledge", "cacheDir")}
    projects = {grant.pointer for grant in grants if grant.use == "documents"}
    trusted = [f"{counted(len(pointers), 'pointer')} trusted"] if pointers else []
    trusted += [f"hooks allowed in {counted(len(projects), 'project')}"] if projects else []
    return dangling or [ok("trust", ", ".join(trusted) or "Nothing is trusted.")]


def discovery_findings(hub: Hub) -> list[Finding]:
    """Report bases that cannot be used, and other problems with pointers and folders."""
    discovery, warnings, missing = hub.discovery(), hub.config().warnings, hub.missing()
    configured, findings = {*hub.config().settings.bases, *hub.options.bases}, []
    for problem in discovery.problems:
        if problem in warnings:
            continue
        check = "base" if problem.subject in configured else "pointer"
        remedy = "Fix it; kbhub picks up the change."
        findings.append(_finding(check, problem, level="error" if problem in missing else "warning", remedy=remedy))
    if not discovery.bases and not findings:
        reasons = [place for place in discovery.looked_for if place.endswith((")", "off here"))]
        message = " ".join(["No base is active here.", *(f"{reason}." for reason in reasons)])
        remedy = "Run `kbhub init` to choose or create a knowledge folder, or `kbhub status` to see where kbhub looked."
        findings.append(bad("base", message, " ".join([remedy, *outside(hub)])))
    # A project base without documents, such as `kbhub init` once created, if the project has Markdown.
    project = discovery.project
    if project is not None and project.origin != "docs" and is_empty(hub, project):
        docs, others = next((base for base in discovery.bases if base.origin == "docs"), None), outside(hub)
        also = f"; {docs.path / 'docs'} is searched, too" if docs else ""
        folder = "the folder and its pointer" if project.origin == "pointer" else "the folder"
        remedy = " ".join([f"Write documents there, or delete {folder}.", *others])
        empty = bad("base", f"{project.path} has no documents of its own{also}.", remedy, project.id)
        findings += [empty] if docs or others else []
    return findings


def _finding(check: str, problem: Problem, *, level: Literal["warning", "error"], remedy: str) -> Finding:
    message, to_do = _split(problem.alone, remedy)
    return bad(check, message, to_do, problem.subject, level)


def _split(text: str, otherwise: str) -> tuple[str, str]:
    """Split a message into what happened and what to do about it."""
    if parts := _LAST_SENTENCE.fullmatch(text):
        return f"{parts[1].rstrip('.;')}.", parts[2][:1].upper() + parts[2][1:]
    return f"{text.rstrip('.')}.", otherwise


def base_findings(hub: Hub, base: Base) -> list[Finding]:
    """Check a base; a sound one gives a single finding that says so."""
    if base.engine:
        findings: list[Finding] = hub.shared.engine(base.engine).findings(hub, base)
        return findings
    index = hub.index(base)
    # Without a lock file nobody holds the lock, and `is_being_indexed` would create one.
    if os.path.lexists(f"{index.path}.lock") and is_being_indexed(index.path):
        message = "Another kbhub process is indexing it, so it was not checked."
        remedy = "Wait until it finishes. If it hangs, end it: the lock goes with it, and nothing is lost."
        return [bad("lock", message, remedy, base.id)]
    try:
        return _index_findings(hub, base, index)
    except IndexUnavailable as error:
        unmade = error.reason == NOT_THERE
        return [_behind(base, "It has no index yet.") if unmade else _broken(base, error.reason)]


def _index_findings(hub: Hub, base: Base, index: Index) -> list[Finding]:
    with index.snapshot():
        if faults := index.faults():
            return [_broken(base, "; ".join(faults))]
        problems, (documents, chunks, vectors) = index.problems(), index.counts()
        embedder, unembedded = index.meta("embedder"), index.without_vector()
    findings = [*_freshness(hub, base, index), *_vectors(hub, base, embedder, unembedded)]
    for path, message in problems[:LISTED_FILES]:
        text = f"{path}: {message.removeprefix(f'{path}: ').rstrip('.')}."
        findings.append(bad("files", text, "Fix it, or leave it out with `exclude` or .kbhubignore.", base.id))
    if (more := len(problems) - LISTED_FILES) > 0:
        text = f"{counted(more, 'more file')} cannot be indexed properly."
        findings.append(bad("files", text, "`kbhub status` lists more of them, `kbhub status --json` all.", base.id))
    counts = ", ".join((counted(documents, "document"), counted(chunks, "chunk"), counted(vectors, "vector")))
    return findings or [ok("index", f"{counts}; intact, up to date", base.id)]


def _freshness(hub: Hub, base: Base, index: Index) -> list[Finding]:
    try:
        files = behind_of(compare(base, index, hub.limits()), index)
    except BaseUnavailable as error:
        remedy = "Give kbhub permission to list it, or fix or remove the base."
        return [bad("base", f"{error.reason}.", remedy, base.id, level="error")]
    if not files:
        return []
    return [_behind(base, f"{counted(len(files), 'file')} changed since it was indexed, such as {files[0]}.")]


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


def _behind(base: Base, message: str, check: str = "freshness") -> Finding:
    command = shlex.join(["kbhub", "admin", "index", base.id])
    remedy = f"Run `{command}` or `kbhub doctor --fix` to bring it up to date."
    return bad(check, message, remedy, base.id, fixable=True)


def _broken(base: Base, reason: str) -> Finding:
    message = f"Its index cannot be used: {reason}."
    remedy = "Run `kbhub doctor --fix` to move it aside and rebuild it from the documents."
    return bad("index", message, remedy, base.id, level="error", fixable=True)
