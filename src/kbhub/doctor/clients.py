"""What the MCP clients of this machine have registered, and whether it works when it is started as they do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kbhub.reports import Finding
from kbhub.setup.registered import registrations, unregistered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbhub.hub import Hub
    from kbhub.setup.models import Registration

CHECK = "client"
AT_ONCE = 2
"""Servers started at a time: each takes a processor for half a second."""


def client_findings(hub: Hub) -> list[Finding]:
    """Check every registration in the user's own files; a project's files are not believed, so nothing of them runs.

    Args:
        hub: whose home and environment it is.
    """
    env, home = hub.options.env, hub.options.home
    found = registrations(env, home)
    usable = [one for one in found if one.starts and one.enabled]
    faults = _handshakes(usable, env)
    findings = [_finding(one, faults.get(_identity(one), "")) for one in found]
    if missing := unregistered(env, home):
        message = f"Not registered with {', '.join(missing)}; `kbhub setup` does it."
        findings.append(Finding(check=CHECK, level="ok", message=message))
    elif not found:
        findings.append(Finding(check=CHECK, level="ok", message="No MCP client was found on this machine."))
    return findings


def _handshakes(usable: list[Registration], env: Mapping[str, str]) -> dict[tuple[object, ...], str]:
    """Start each distinct server once: identity → why it does not work."""
    distinct = {_identity(one): one for one in usable}
    if not distinct:
        return {}
    # It imports the SDK, half a second that only a user with registered clients needs.
    from kbhub.doctor.handshake import shake_hands  # noqa: PLC0415

    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = pool.map(lambda one: shake_hands((str(one.program), *one.args), one.env, env), distinct.values())
        return dict(zip(distinct, outcomes, strict=True))


def _identity(one: Registration) -> tuple[object, ...]:
    return (one.program, one.args, tuple(sorted(one.env.items())))


def _finding(one: Registration, fault: str) -> Finding:
    again = f"`kbhub setup --client {one.client}` registers this kbhub there."
    if one.fault:
        message = f"Its file cannot be understood: {one.fault.rstrip('.')}."
        remedy = "Mend the file; kbhub changes nothing in it before."
        return Finding(check=CHECK, level="warning", subject=one.title, message=message, remedy=remedy)
    if not one.command:
        message = f"The entry {one.name!r} in {one.file} starts no command."
        return Finding(check=CHECK, level="error", subject=one.title, message=message, remedy=again)
    if not one.starts:
        message = f"{one.file} starts {one.command}, which does not exist or cannot be run."
        return Finding(check=CHECK, level="error", subject=one.title, message=message, remedy=again)
    if not one.enabled:
        message = f"It is registered in {one.file} and switched off there."
        remedy = "Switch it on in the client's settings."
        return Finding(check=CHECK, level="warning", subject=one.title, message=message, remedy=remedy)
    if fault:
        message = f"{' '.join(one.argv)} {fault.rstrip('.')}."
        remedy = f"Run it in a shell to see why. {again}"
        return Finding(check=CHECK, level="error", subject=one.title, message=message, remedy=remedy)
    return Finding(check=CHECK, level="ok", subject=one.title, message=f"{' '.join(one.argv)} starts and answers")
