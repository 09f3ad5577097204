"""Checks of the servers registered with MCP clients: whether they start and answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kbhub.reading.reports import Finding
from kbhub.setup.targets import registrations, unregistered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbhub.hub import Hub
    from kbhub.setup.plan import Registration

CHECK = "client"
AT_ONCE = 2
"""Servers started in parallel; each keeps a CPU busy for half a second."""


def client_findings(hub: Hub) -> list[Finding]:
    """Check all registrations in the user's own files; project files are untrusted, so nothing there is started."""
    env, home = hub.options.env, hub.options.home
    registered = registrations(env, home)
    usable = [registration for registration in registered if registration.starts and registration.enabled]
    faults = _handshakes(usable, env)
    findings = [_finding(registration, faults.get(_identity(registration), "")) for registration in registered]
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


def _finding(registration: Registration, fault: str) -> Finding:
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
