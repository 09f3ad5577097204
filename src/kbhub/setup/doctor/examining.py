"""All checks, ordered so that earlier failures explain later ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.errors import ConfigError
from kbhub.reading.reports import Diagnosis
from kbhub.setup.doctor.bases import base_findings
from kbhub.setup.doctor.clients import client_findings
from kbhub.setup.doctor.folders import folder_findings
from kbhub.setup.doctor.machine import embedder_findings, packaged_model, python_version, sqlite
from kbhub.setup.doctor.models import ollama_findings
from kbhub.setup.doctor.setup import config_findings, discovery_findings, trust_findings
from kbhub.setup.doctor.watching import watch_findings

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.types import Base


def examine(hub: Hub) -> Diagnosis:
    """Check everything that search needs, from the interpreter to each file of a base.

    Args:
        hub: the hub whose setup is checked.

    Raises:
        UsageError: the hub has an invalid option.
    """
    findings = [python_version(), *sqlite(), packaged_model()]
    bases: tuple[Base, ...] = ()
    try:
        discovery = hub.rediscover()
    except ConfigError as error:
        findings += [*config_findings(hub, error), *trust_findings(hub.trust)]
    else:
        bases = discovery.bases
        findings += [*config_findings(hub), *embedder_findings(hub), *ollama_findings(hub)]
        findings += trust_findings(hub.trust)
        findings += discovery_findings(hub, discovery)
    findings += folder_findings(hub, bases)
    for base in bases:
        findings += base_findings(hub, base)
    return Diagnosis(findings=(*findings, *watch_findings(bases), *client_findings(hub)))
