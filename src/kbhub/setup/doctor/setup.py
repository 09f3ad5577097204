"""Checks of what the user wrote: the global config, pointers and trust."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

from kbhub.errors import ConfigError
from kbhub.reading.reports import Finding
from kbhub.workspace.places import is_directory
from kbhub.workspace.project import PROJECT_ID

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.types import Discovery, Problem
    from kbhub.workspace.trust import Grant, TrustStore

_LAST_SENTENCE = re.compile(r"(?s)(.*[.;])\s+((?:[A-Z`]|did you mean|it has no).*)")
"""Splits a problem's message into what happened and what to do about it."""


def config_findings(hub: Hub, error: ConfigError | None = None) -> list[Finding]:
    """Report which global config is in use, or what is wrong with it.

    Args:
        hub: the hub whose config is checked.
        error: the error raised when the config was read, if any.
    """
    if error is not None:
        remedy = "Mend it there; nothing can be searched before, and no restart is needed after."
        return [Finding(check="config", level="error", message=f"{str(error).rstrip('.')}.", remedy=remedy)]
    config = hub.config()
    if config.warnings:
        return [
            _finding("config", problem, level="warning", remedy="Mend or remove it.") for problem in config.warnings
        ]
    message = str(config.path) if config.path else "There is none; the defaults hold."
    return [Finding(check="config", level="ok", message=message)]


def trust_findings(store: TrustStore) -> list[Finding]:
    """Check that the trust store is readable and that what it lists still exists."""
    try:
        grants = store.entries()
    except ConfigError as error:
        message, remedy = _split(str(error), "Mend it or move it away.")
        return [Finding(check="trust", level="error", message=message, remedy=remedy)]
    dangling = [finding for grant in grants if (finding := _dangling(grant))]
    pointers = len({grant.pointer for grant in grants})
    message = f"{pointers} pointer{'' if pointers == 1 else 's'} trusted" if grants else "Nothing is trusted."
    return dangling or [Finding(check="trust", level="ok", message=message)]


def discovery_findings(hub: Hub, discovery: Discovery) -> list[Finding]:
    """Report bases that cannot be used, and other problems with pointers and folders."""
    warnings = hub.config().warnings
    active = {name for base in discovery.bases for name in (base.id, *base.names)}
    configured = {PROJECT_ID, *hub.config().settings.bases, *hub.options.bases}
    findings = []
    for problem in discovery.problems:
        if problem in warnings:
            continue
        broken = problem.subject in configured - active
        check = "base" if problem.subject in configured - {PROJECT_ID} else "pointer"
        remedy = "Mend it; it is looked at again by itself."
        findings.append(_finding(check, problem, level="error" if broken else "warning", remedy=remedy))
    if not discovery.bases and not findings:
        reasons = [place for place in discovery.looked_for if place.endswith((")", "off here"))]
        message = " ".join(["No base is active here.", *(f"{reason}." for reason in reasons)])
        remedy = "`kbhub init` makes knowledge here; `kbhub status` lists what was looked for."
        findings.append(Finding(check="base", level="warning", message=message, remedy=remedy))
    return findings


def _dangling(grant: Grant) -> Finding | None:
    """Report a grant whose pointer or target no longer exists."""
    if not os.path.lexists(grant.pointer):
        fault = "is trusted and no longer exists"
    elif grant.use == "knowledge" and not is_directory(grant.target):
        fault = f"is trusted to lead to {grant.target}, which no longer exists"
    else:
        return None
    remedy = f"`{shlex.join(['kbhub', 'trust', '--revoke', str(grant.pointer)])}` forgets it."
    return Finding(check="trust", level="warning", subject=str(grant.pointer), message=f"It {fault}.", remedy=remedy)


def _finding(check: str, problem: Problem, *, level: str, remedy: str) -> Finding:
    text = problem.message.removeprefix(f"{problem.subject}: ")
    message, to_do = _split(text, remedy)
    return Finding.model_validate(
        {"check": check, "level": level, "subject": problem.subject, "message": message, "remedy": to_do}
    )


def _split(text: str, otherwise: str) -> tuple[str, str]:
    """Split a message into what happened and what to do about it."""
    if parts := _LAST_SENTENCE.fullmatch(text):
        remedy = parts[2][:1].upper() + parts[2][1:]
        return f"{parts[1].rstrip('.;')}.", remedy
    return f"{text.rstrip('.')}.", otherwise
