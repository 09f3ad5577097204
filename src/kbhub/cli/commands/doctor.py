"""Checking what search needs: doctor."""

from __future__ import annotations

import os
import sys

from kbhub.cli.console import show_json, show_text, wants_colour
from kbhub.cli.hubs import hub_options
from kbhub.cli.options import Common
from kbhub.hub import Hub
from kbhub.render.diagnosis import diagnosis_text
from kbhub.render.terminal import Painter
from kbhub.setup.doctor import examine, mend


def doctor(
    *,
    fix: bool = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Check everything that search needs, and say what to do about what is wrong.

    Looks at SQLite, the model, config, pointers, trust, kbhub's own folders, every active base with its index, and
    the limits of watching. Fails if there is an error; a warning is none.

    Example: kbhub doctor --fix

    Args:
        fix: Mend what is safe: modes of kbhub's own files, indexes that are broken or behind, and what is left of
            old ones. Documents, config and pointers are never touched.
        common: Options of every command.

    Returns:
        The exit code: 1 if an error is left.
    """
    hub = Hub(hub_options(common, warn=False))
    diagnosis = examine(hub)
    if fix:
        diagnosis = mend(hub, diagnosis)
    if common.json:
        show_json(diagnosis.model_dump_json(indent=2))
    else:
        show_text(diagnosis_text(diagnosis, Painter(wants_colour(sys.stdout, os.environ))))
    return 1 if any(finding.level == "error" for finding in diagnosis.findings) else 0
